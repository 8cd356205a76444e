package retry_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/internal/account"
	"parley/internal/llm"
	"parley/internal/llm/retry"
)

// failing is a model that gives the errors in turn, then answers.
type failing struct {
	errs     []error
	attempts []int
	at       []time.Duration
	start    time.Time
}

func (f *failing) Info() llm.Info { return llm.Info{Model: "test/failing"} }

func (f *failing) Do(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
	f.attempts = append(f.attempts, llm.Attempt(ctx))
	f.at = append(f.at, time.Since(f.start))
	if n := len(f.attempts); n <= len(f.errs) {
		return nil, f.errs[n-1]
	}
	return &llm.Response{ID: "ok"}, nil
}

func fail(class llm.Class, after time.Duration) *llm.Error {
	return &llm.Error{Class: class, Message: "no", RetryAfter: after}
}

func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := fail(llm.ClassOverloaded, 0)
		f := &failing{errs: []error{busy, busy, busy, busy}, start: time.Now()}
		var seen []llm.Retry
		m := retry.New(f, retry.Policy{Jitter: -1}, func(_ context.Context, r llm.Retry) { seen = append(seen, r) })
		resp, err := m.Do(t.Context(), &llm.Request{})
		if err != nil || resp.ID != "ok" {
			t.Fatal(resp, err)
		}
		want := []time.Duration{0, 8 * time.Second, 24 * time.Second, 56 * time.Second, 120 * time.Second}
		for i, at := range f.at {
			if at != want[i] || f.attempts[i] != i+1 {
				t.Errorf("attempt %d (%d) at %v, want %v", i+1, f.attempts[i], at, want[i])
			}
		}
		if len(seen) != 4 || seen[1].Attempt != 2 || seen[1].MaxAttempts != 5 || seen[1].Wait != 16*time.Second || !errors.Is(seen[1].Err, busy) {
			t.Errorf("retries shown: %+v", seen)
		}
	})
}

// Profiles have the patience of the agent protocol: its multiplier is the first
// wait in seconds, not a factor.
func TestProfiles(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	n := func(v int) *int { return &v }
	server := retry.Policy{MaxAttempts: 5, Min: 8 * time.Second, Max: 64 * time.Second, Jitter: -1}
	tests := []struct {
		name string
		llm  account.LLM
		want []time.Duration // all waits, in ms
	}{
		{"nothing said", account.LLM{}, []time.Duration{8000, 16000, 32000, 64000}},
		{"the protocol's defaults", account.LLM{Attempts: n(5), RetryMultiplier: f(8), RetryMin: f(8), RetryMax: f(64)},
			[]time.Duration{8000, 16000, 32000, 64000}},
		{"quick", account.LLM{RetryMin: f(0.5), RetryMax: f(1)}, []time.Duration{500, 1000, 1000, 1000}},
		{"a small multiplier", account.LLM{RetryMultiplier: f(1), RetryMin: f(3)}, []time.Duration{3000, 3000, 4000, 8000}},
		{"more attempts", account.LLM{Attempts: n(7)}, []time.Duration{8000, 16000, 32000, 64000, 64000, 64000}},
		{"one attempt", account.LLM{Attempts: n(1)}, nil},
		{"no attempt is one", account.LLM{Attempts: n(0)}, nil},
		{"no wait", account.LLM{RetryMin: f(0), RetryMax: f(0)}, []time.Duration{1, 1, 1, 1}},
		{"the ends swapped", account.LLM{RetryMin: f(10), RetryMax: f(2)}, []time.Duration{10000, 10000, 10000, 10000}},
		{"nonsense", account.LLM{RetryMin: f(math.NaN()), RetryMax: f(-1), RetryMultiplier: f(math.Inf(-1))},
			[]time.Duration{8000, 16000, 32000, 64000}},
		{"for ever", account.LLM{Attempts: n(2), RetryMin: f(math.Inf(1))}, []time.Duration{3600000}},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			busy := fail(llm.ClassOverloaded, 0)
			var waits []time.Duration
			m := retry.New(&failing{errs: slices.Repeat([]error{busy}, 200)}, server.For(tt.llm),
				func(_ context.Context, r llm.Retry) {
					waits = append(waits, r.Wait.Round(time.Millisecond)/time.Millisecond)
				})
			if _, err := m.Do(t.Context(), &llm.Request{}); !errors.Is(err, busy) || !slices.Equal(waits, tt.want) {
				t.Errorf("%s: %v, waits %v, want %v", tt.name, err, waits, tt.want)
			}
		})
	}
}

func TestNoResponseIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{errs: []error{fail(llm.ClassNoResponse, 0)}}
		if resp, err := retry.New(f, retry.Policy{}, nil).Do(t.Context(), &llm.Request{}); err != nil || resp.ID != "ok" {
			t.Error(resp, err)
		}
	})
}

func TestJitterKeepsTheProvidersWish(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			f := &failing{errs: []error{fail(llm.ClassRateLimit, 0), fail(llm.ClassRateLimit, 20*time.Second), fail(llm.ClassRateLimit, time.Second)}, start: time.Now()}
			if _, err := retry.New(f, retry.Policy{}, nil).Do(t.Context(), &llm.Request{}); err != nil {
				t.Fatal(err)
			}
			for i, bounds := range [][2]float64{{7.2, 8.8}, {20, 22}, {28.8, 35.2}} {
				if wait := (f.at[i+1] - f.at[i]).Seconds(); wait < bounds[0] || wait > bounds[1] {
					t.Errorf("wait %d was %v s, want within %v", i+1, wait, bounds)
				}
			}
		})
	}
}

func TestGivesUp(t *testing.T) {
	busy := fail(llm.ClassNetwork, 0)
	streamed := fail(llm.ClassNetwork, 0)
	streamed.Streamed = true
	tests := []struct {
		name     string
		errs     []error
		attempts int
		text     string
	}{
		{"after all attempts", []error{busy, busy, busy, busy, busy, busy}, 5, "no"},
		{"auth", []error{fail(llm.ClassAuth, 0)}, 1, "no"},
		{"context", []error{fail(llm.ClassContext, 0)}, 1, "no"},
		{"after a part was shown", []error{streamed}, 1, "no"},
		{"a wish above the ceiling", []error{fail(llm.ClassRateLimit, time.Hour)}, 1, "wait 1h0m0s"},
		{"an error of another kind", []error{errors.New("no")}, 1, "no"},
		{"second one is final", []error{busy, fail(llm.ClassQuota, 0)}, 2, "no"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &failing{errs: tt.errs}
				_, err := retry.New(f, retry.Policy{}, nil).Do(t.Context(), &llm.Request{})
				if err == nil || !strings.Contains(err.Error(), tt.text) || len(f.attempts) != tt.attempts {
					t.Errorf("%d attempts, %v; want %d with %q", len(f.attempts), err, tt.attempts, tt.text)
				}
			})
		})
	}
}

func TestCancelEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := errors.New("stopped by the user")
		ctx, cancel := context.WithCancelCause(t.Context())
		f := &failing{errs: []error{fail(llm.ClassOverloaded, 0)}, start: time.Now()}
		m := retry.New(f, retry.Policy{}, func(context.Context, llm.Retry) {
			time.AfterFunc(time.Second, func() { cancel(stopped) })
		})
		_, err := m.Do(ctx, &llm.Request{})
		if !errors.Is(err, stopped) || time.Since(f.start) != time.Second {
			t.Fatalf("%v after %v", err, time.Since(f.start))
		}
	})
}

func TestCancelledCallIsNotRetried(t *testing.T) {
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	f := &failing{errs: []error{fail(llm.ClassNetwork, 0)}}
	if _, err := retry.New(f, retry.Policy{}, nil).Do(ctx, &llm.Request{}); !errors.Is(err, stopped) || len(f.attempts) != 1 {
		t.Fatal(err, f.attempts)
	}
}
