// Package retry decorates a model: calls that failed for a reason that passes
// are made again after a wait. It never repeats a call once a part of its
// answer was shown, and never waits less than the provider asked for.
package retry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"parley/internal/account"
	"parley/internal/llm"
)

// Policy says how often and how patiently. Zero fields take Default's values.
type Policy struct {
	MaxAttempts int           // in all, >= 1
	Min         time.Duration // the shortest wait of our own
	Max         time.Duration // the longest
	First       time.Duration // the first wait, doubled with each further one, within Min and Max; 0 = Min
	Jitter      float64       // share of the wait, 0..1, that chance adds or takes; negative = none
	// Ceiling is the longest wait a provider may ask for. Above it the call fails
	// at once: a person should know rather than watch.
	Ceiling time.Duration
}

// Default returns the policy of the agent protocol (4.12): 5 attempts, waits of
// 8, 16, 32 and 64 s.
func Default() Policy {
	return Policy{MaxAttempts: 5, Min: 8 * time.Second, Max: 64 * time.Second, Jitter: 0.1, Ceiling: 5 * time.Minute}
}

// Bounds of what a profile may ask for.
const (
	mostAttempts = 100
	longestWait  = time.Hour
)

// For returns the policy with what a profile says about patience. Its multiplier
// is the first wait in seconds, which then doubles: the protocol's defaults
// (multiplier 8 within 8 and 64) are waits of 8, 16, 32 and 64 s.
func (p Policy) For(l account.LLM) Policy {
	if l.Attempts != nil {
		p.MaxAttempts = min(max(*l.Attempts, 1), mostAttempts)
	}
	setSeconds(&p.Min, l.RetryMin)
	setSeconds(&p.Max, l.RetryMax)
	setSeconds(&p.First, l.RetryMultiplier)
	return p
}

// setSeconds sets d if a number of seconds is given that makes sense. A wait of
// naught is one of a millisecond: zero would mean that nothing was said.
func setSeconds(d *time.Duration, seconds *float64) {
	if seconds == nil || math.IsNaN(*seconds) || *seconds < 0 {
		return
	}
	*d = max(time.Duration(min(*seconds, longestWait.Seconds())*float64(time.Second)), time.Millisecond)
}

func (p Policy) filled() Policy {
	d := Default()
	if p.MaxAttempts <= 0 {
		p.MaxAttempts = d.MaxAttempts
	}
	if p.Min <= 0 {
		p.Min = d.Min
	}
	if p.Max <= 0 {
		p.Max = d.Max
	}
	p.Max = max(p.Max, p.Min)
	if p.First <= 0 {
		p.First = p.Min
	}
	if p.Jitter == 0 {
		p.Jitter = d.Jitter
	}
	p.Jitter = min(max(p.Jitter, 0), 1)
	if p.Ceiling <= 0 {
		p.Ceiling = d.Ceiling
	}
	return p
}

// wait returns the pause after attempt n (from 1).
func (p Policy) wait(n int, asked time.Duration) time.Duration {
	own := min(max(math.Ldexp(float64(p.First), n-1), float64(p.Min)), float64(p.Max))
	own *= 1 + p.Jitter*(2*rand.Float64()-1)
	if float64(asked) > own {
		// Later than asked by chance, so that many callers do not come back at once.
		return asked + time.Duration(float64(asked)*p.Jitter*rand.Float64())
	}
	return time.Duration(own)
}

// Model is a model with retries.
type Model struct {
	next    llm.Model
	policy  Policy
	onRetry func(context.Context, llm.Retry)
}

var _ llm.Model = (*Model)(nil)

// New decorates next. onRetry, if not nil, is called before each wait, from the
// goroutine of Do.
func New(next llm.Model, p Policy, onRetry func(context.Context, llm.Retry)) *Model {
	return &Model{next: next, policy: p.filled(), onRetry: onRetry}
}

// Info implements llm.Model.
func (m *Model) Info() llm.Info { return m.next.Info() }

// Do implements llm.Model. It returns the last attempt's error, and ctx's cause
// as soon as ctx ends, also while waiting.
func (m *Model) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	for n := 1; ; n++ {
		resp, err := m.next.Do(llm.WithAttempt(ctx, n), req)
		if err == nil {
			return resp, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var failed *llm.Error
		if !errors.As(err, &failed) || !failed.Class.Retryable() || failed.Streamed || n >= m.policy.MaxAttempts {
			return nil, err
		}
		if failed.RetryAfter > m.policy.Ceiling {
			return nil, tooLong(failed)
		}
		if err := m.pause(ctx, n, failed); err != nil {
			return nil, err
		}
	}
}

func (m *Model) pause(ctx context.Context, n int, failed *llm.Error) error {
	wait := m.policy.wait(n, failed.RetryAfter)
	if m.onRetry != nil {
		m.onRetry(ctx, llm.Retry{Attempt: n, MaxAttempts: m.policy.MaxAttempts, Wait: wait, Err: failed})
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tooLong says that the provider asks for more patience than the policy has.
func tooLong(e *llm.Error) *llm.Error {
	said := *e
	said.Err = e
	said.Message = fmt.Sprintf("the provider asks to wait %s before the next try: %s",
		e.RetryAfter.Round(time.Second), e.Message)
	return &said
}
