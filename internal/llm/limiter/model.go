package limiter

import (
	"context"
	"errors"
	"net/http"
	"time"

	"parley/internal/llm"
)

// statusOverloaded is what some providers answer when they have no capacity.
const statusOverloaded = 529

// Model is a model whose calls take their turn.
type Model struct {
	next    llm.Model
	limiter *Limiter
	onWait  func(context.Context, llm.Retry)
}

var _ llm.Model = (*Model)(nil)

// Model decorates next. onWait, if not nil, hears of waits longer than a second,
// with Attempt 0 and always with an Err, on the goroutine of Do.
func (l *Limiter) Model(next llm.Model, onWait func(context.Context, llm.Retry)) *Model {
	if onWait == nil {
		onWait = func(context.Context, llm.Retry) {}
	}
	return &Model{next: next, limiter: l, onWait: onWait}
}

// Info implements llm.Model.
func (m *Model) Info() llm.Info { return m.next.Info() }

// Do implements llm.Model. While it waits it returns ctx's cause as soon as ctx
// ends; the call is not made then.
func (m *Model) Do(ctx context.Context, req *llm.Request) (resp *llm.Response, err error) {
	round, err := m.limiter.acquire(ctx, func(r llm.Retry) { m.onWait(ctx, r) })
	if err != nil {
		return nil, err
	}
	began := time.Now()
	defer func() { m.limiter.release(round, time.Since(began), err) }()
	return m.next.Do(ctx, req)
}

// refusalOf returns the error if it says that there were too many calls.
func refusalOf(err error) *llm.Error {
	var e *llm.Error
	if !errors.As(err, &e) || e.NotSent {
		return nil
	}
	if e.Class == llm.ClassRateLimit || e.Status == http.StatusTooManyRequests && e.Class.Retryable() ||
		e.Status == statusOverloaded || e.RetryAfter > 0 {
		return e
	}
	return nil
}

// answered reports whether the provider dealt with the call, be it by refusing
// what was in it.
func answered(err error) bool {
	var e *llm.Error
	return err == nil || errors.As(err, &e) && e.Status >= 400 && e.Status < 500
}
