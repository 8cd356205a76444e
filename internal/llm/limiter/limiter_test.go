package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"parley/internal/llm"
	"parley/internal/llm/limiter"
	"parley/internal/llm/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// provider is a model whose calls do what answer says, and that notes them.
type provider struct {
	answer func(n int, ctx context.Context) error // n counts from 0

	mu       sync.Mutex
	calls    int
	inFlight int
	most     int
	at       []time.Duration
	begin    time.Time
}

func (p *provider) Info() llm.Info { return llm.Info{Model: "test/provider"} }

func (p *provider) Do(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
	p.mu.Lock()
	n := p.calls
	p.calls++
	p.inFlight++
	p.most = max(p.most, p.inFlight)
	p.at = append(p.at, time.Since(p.begin))
	p.mu.Unlock()
	err := p.answer(n, ctx)
	p.mu.Lock()
	p.inFlight--
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return &llm.Response{}, nil
}

func after(d time.Duration) func(int, context.Context) error {
	return func(int, context.Context) error { time.Sleep(d); return nil }
}

func refusal(after time.Duration) *llm.Error {
	return &llm.Error{Class: llm.ClassRateLimit, Status: 429, Message: "slow down", RetryAfter: after}
}

// all makes n calls at once and returns the order in which they ended, and their
// errors by number.
func all(ctx context.Context, n int, m llm.Model) (order []int, errs []error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	errs = make([]error, n)
	for i := range n {
		wg.Go(func() {
			_, err := m.Do(ctx, &llm.Request{})
			mu.Lock()
			defer mu.Unlock()
			order, errs[i] = append(order, i), err
		})
		synctest.Wait() // so that they come in this order
	}
	wg.Wait()
	return order, errs
}

func TestLimitAndOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{answer: after(10 * time.Second), begin: time.Now()}
		order, errs := all(t.Context(), 10, limiter.New(3).Model(p, nil))
		if p.most != 3 || errors.Join(errs...) != nil {
			t.Errorf("%d at a time, %v", p.most, errs)
		}
		for i := range order { // those of one turn end at the same moment
			if turn := order[i] / 3; turn != i/3 {
				t.Errorf("order %v", order)
				break
			}
		}
		if took := time.Since(p.begin); took != 40*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// After a refusal all wait for the provider together, then come back one after
// the other, faster with every success.
func TestRefusalHoldsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{begin: time.Now()}
		p.answer = func(n int, _ context.Context) error {
			time.Sleep(time.Second)
			if n < 8 { // the whole first burst is refused
				return refusal(30 * time.Second)
			}
			return nil
		}
		l := limiter.New(8)
		_, errs := all(t.Context(), 16, l.Model(p, nil))
		refused := 0
		for _, err := range errs {
			if err != nil {
				refused++
			}
		}
		if refused != 8 {
			t.Errorf("%d were refused", refused)
		}
		var seconds []int
		for _, at := range p.at[8:] {
			seconds = append(seconds, int(at.Seconds()))
		}
		// 1 at a time, then 2, then 4 (half of what was too much).
		if want := []int{31, 32, 32, 33, 33, 33, 33, 34}; !slices.Equal(seconds, want) {
			t.Errorf("came back at %v s, want %v", seconds, want)
		}
	})
}

func TestPauseWithoutWish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{begin: time.Now()}
		p.answer = func(n int, _ context.Context) error {
			if n < 7 {
				return refusal(0)
			}
			return nil
		}
		m := limiter.New(1).Model(p, nil)
		for range 9 {
			_, _ = m.Do(t.Context(), &llm.Request{})
		}
		var seconds []int
		for _, at := range p.at {
			seconds = append(seconds, int(at.Seconds()))
		}
		if want := []int{0, 1, 3, 7, 15, 31, 63, 95, 95}; !slices.Equal(seconds, want) {
			t.Errorf("tried at %v s, want %v", seconds, want)
		}
	})
}

// What is no refusal of the amount of calls holds nobody, and neither does a
// wish of days.
func TestWhatHoldsNobody(t *testing.T) {
	for name, err := range map[string]error{
		"auth":          &llm.Error{Class: llm.ClassAuth, Status: 401},
		"quota":         &llm.Error{Class: llm.ClassQuota, Status: 429},
		"server error":  &llm.Error{Class: llm.ClassOverloaded, Status: 500},
		"network":       &llm.Error{Class: llm.ClassNetwork},
		"not sent":      &llm.Error{Class: llm.ClassRateLimit, NotSent: true, RetryAfter: time.Minute},
		"tomorrow":      refusal(24 * time.Hour),
		"another error": errors.New("no budget"),
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &provider{begin: time.Now(), answer: func(n int, _ context.Context) error {
				if n == 0 {
					return err
				}
				return nil
			}}
			m := limiter.New(4).Model(p, nil)
			for range 3 {
				_, _ = m.Do(t.Context(), &llm.Request{})
			}
			if time.Since(p.begin) != 0 || p.calls != 3 {
				t.Errorf("%s: %d calls took %v", name, p.calls, time.Since(p.begin))
			}
		})
	}
}

func TestOverloadHolds(t *testing.T) {
	for name, err := range map[string]*llm.Error{
		"529":                        {Class: llm.ClassOverloaded, Status: 529},
		"503 with a wish":            {Class: llm.ClassOverloaded, Status: 503, RetryAfter: time.Second},
		"in the middle of a stream":  {Class: llm.ClassRateLimit, Streamed: true},
		"429 that means an overload": {Class: llm.ClassOverloaded, Status: 429},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &provider{begin: time.Now(), answer: func(n int, _ context.Context) error {
				if n == 0 {
					return err
				}
				return nil
			}}
			m := limiter.New(4).Model(p, nil)
			_, _ = m.Do(t.Context(), &llm.Request{})
			_, _ = m.Do(t.Context(), &llm.Request{})
			if time.Since(p.begin) != time.Second {
				t.Errorf("%s: the second call was made after %v", name, time.Since(p.begin))
			}
		})
	}
}

// Calls that the provider had let in before do not keep others out afterwards.
func TestLongCallsDoNotBlockTheReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{begin: time.Now()}
		p.answer = func(n int, _ context.Context) error {
			switch n {
			case 0, 1:
				time.Sleep(time.Hour)
			case 2:
				return refusal(5 * time.Second)
			}
			return nil
		}
		m := limiter.New(3).Model(p, nil)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { _, _ = m.Do(t.Context(), &llm.Request{}) })
			synctest.Wait()
		}
		if _, err := m.Do(t.Context(), &llm.Request{}); err != nil || time.Since(p.begin) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(p.begin))
		}
		wg.Wait()
	})
}

func TestCancelInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{answer: after(10 * time.Second), begin: time.Now()}
		m := limiter.New(1).Model(p, nil)
		stopped := errors.New("stopped by the user")
		ctx, cancel := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = m.Do(t.Context(), &llm.Request{}) })
		synctest.Wait()
		var got error
		wg.Go(func() { _, got = m.Do(ctx, &llm.Request{}) })
		synctest.Wait()
		wg.Go(func() { _, _ = m.Do(t.Context(), &llm.Request{}) })
		synctest.Wait()
		cancel(stopped)
		wg.Wait()
		if !errors.Is(got, stopped) || p.calls != 2 || time.Since(p.begin) != 20*time.Second {
			t.Errorf("%v, %d calls, %v", got, p.calls, time.Since(p.begin))
		}
		if _, err := m.Do(ctx, &llm.Request{}); !errors.Is(err, stopped) || p.calls != 2 {
			t.Errorf("a call that was over before it began: %v, %d calls", err, p.calls)
		}
	})
}

// The last one who leaves takes the wake-up with him: nothing ticks for nobody.
func TestCancelDuringThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{begin: time.Now(), answer: func(int, context.Context) error { return refusal(4 * time.Minute) }}
		m := limiter.New(1).Model(p, nil)
		_, _ = m.Do(t.Context(), &llm.Request{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := m.Do(ctx, &llm.Request{}); !errors.Is(err, context.DeadlineExceeded) || p.calls != 1 {
			t.Errorf("%v, %d calls", err, p.calls)
		}
	})
}

// The wait after the first refusal that names none is not told, however busy the machine.
func TestShortestPauseIsNotTold(t *testing.T) {
	for range 20 { // two timers of the same moment fire in any order
		synctest.Test(t, func(t *testing.T) {
			p := &provider{begin: time.Now()}
			p.answer = func(n int, _ context.Context) error {
				if n == 0 {
					return refusal(0)
				}
				return nil
			}
			m := limiter.New(1).Model(p, func(_ context.Context, r llm.Retry) { t.Errorf("told of %v", r.Wait) })
			_, _ = m.Do(t.Context(), &llm.Request{})
			if _, err := m.Do(t.Context(), &llm.Request{}); err != nil || time.Since(p.begin) != time.Second {
				t.Errorf("%v after %v", err, time.Since(p.begin))
			}
		})
	}
}

func TestWaitsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{begin: time.Now()}
		p.answer = func(n int, _ context.Context) error {
			if n == 0 {
				return refusal(20 * time.Second)
			}
			time.Sleep(100 * time.Second)
			return nil
		}
		type told struct {
			at time.Duration
			llm.Retry
		}
		var heard []told
		l := limiter.New(1)
		_, _ = l.Model(p, nil).Do(t.Context(), &llm.Request{})
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = l.Model(p, nil).Do(t.Context(), &llm.Request{}) })
		synctest.Wait()
		wg.Go(func() {
			_, _ = l.Model(p, func(_ context.Context, r llm.Retry) { heard = append(heard, told{time.Since(p.begin), r}) }).
				Do(t.Context(), &llm.Request{})
		})
		wg.Wait()
		if len(heard) < 2 || len(heard) > 5 {
			t.Fatalf("told %d times: %+v", len(heard), heard)
		}
		first := heard[0]
		if first.at != 0 || first.Attempt != 0 || first.Wait != 20*time.Second || first.Err == nil || first.Err.Class != llm.ClassRateLimit || !first.Err.NotSent {
			t.Errorf("first: %+v", first)
		}
		if second := heard[1]; second.at < 20*time.Second || second.Err == nil || second.Wait < time.Second {
			t.Errorf("second: %+v, %v", second, second.Err)
		}
	})
}

func TestShortWaitsAreNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{answer: after(400 * time.Millisecond), begin: time.Now()}
		m := limiter.New(1).Model(p, func(context.Context, llm.Retry) { t.Error("told") })
		_, errs := all(t.Context(), 3, m)
		if errors.Join(errs...) != nil {
			t.Error(errs)
		}
	})
}

// Whatever happens, never more than the limit are under way, and everybody is
// served or hears his own context's end.
func TestEverybodyIsServed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(rt, "limit")
		outcomes := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 40).Draw(rt, "outcomes")
		patience := rapid.SliceOfN(rapid.IntRange(0, 60), 1, 40).Draw(rt, "patience")
		synctest.Test(t, func(t *testing.T) {
			p := &provider{begin: time.Now()}
			p.answer = func(n int, ctx context.Context) error {
				time.Sleep(time.Duration(n%7) * time.Second)
				switch outcomes[n%len(outcomes)] {
				case 1:
					return refusal(time.Duration(n%4) * 10 * time.Second)
				case 2:
					return &llm.Error{Class: llm.ClassNetwork}
				case 3:
					return ctx.Err()
				}
				return nil
			}
			m := limiter.New(limit).Model(p, func(_ context.Context, r llm.Retry) {
				if r.Err == nil || r.Wait <= 0 || r.Attempt != 0 {
					t.Errorf("told %+v", r)
				}
			})
			var wg sync.WaitGroup
			for _, seconds := range patience {
				wg.Go(func() {
					ctx := t.Context()
					if seconds%3 == 0 {
						short, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
						defer cancel()
						ctx = short
					}
					_, err := m.Do(ctx, &llm.Request{})
					var e *llm.Error
					if err != nil && ctx.Err() == nil && !errors.As(err, &e) {
						t.Errorf("got %v", err)
					}
				})
			}
			wg.Wait()
			if p.most > limit || p.inFlight != 0 {
				t.Errorf("%d at a time of %d", p.most, limit)
			}
			// Nothing is left behind: the next call is made without more than a pause.
			before := time.Now()
			if _, err := m.Do(t.Context(), &llm.Request{}); err != nil && !errors.As(err, new(*llm.Error)) || time.Since(before) > 2*time.Minute {
				t.Errorf("afterwards: %v after %v", err, time.Since(before))
			}
		})
	})
}

// Two hundred conversations with retries at a provider that takes ten calls a
// second: all are served, and few calls are made in vain.
func TestTwoHundredConversations(t *testing.T) {
	for _, wish := range []time.Duration{0, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var window time.Time
			inWindow, refused := 0, 0
			p := &provider{begin: time.Now()}
			p.answer = func(int, context.Context) error {
				mu.Lock()
				if time.Since(window) >= time.Second {
					window, inWindow = time.Now(), 0
				}
				inWindow++
				over := inWindow > 10
				if over {
					refused++
				}
				mu.Unlock()
				if over {
					return refusal(wish)
				}
				time.Sleep(3 * time.Second)
				return nil
			}
			l := limiter.New(0)
			m := retry.New(l.Model(p, nil), retry.Policy{}, nil)
			_, errs := all(t.Context(), 200, m)
			if err := errors.Join(errs...); err != nil {
				t.Errorf("wish %v: %v", wish, err)
			}
			if refused > 200 || p.most > limiter.DefaultLimit {
				t.Errorf("wish %v: %d of %d calls were refused, %d at a time", wish, refused, p.calls, p.most)
			}
			t.Logf("wish %v: %d calls, %d refused, %v", wish, p.calls, refused, time.Since(p.begin))
		})
	}
}

func TestSet(t *testing.T) {
	s := limiter.NewSet(1)
	a := s.Get(limiter.KeyOf("https://a", "k"))
	if a != s.Get(limiter.KeyOf("https://a", "k")) || a == s.Get(limiter.KeyOf("https://b", "k")) ||
		limiter.KeyOf("ab", "c") == limiter.KeyOf("a", "bc") {
		t.Error("keys are mixed up")
	}
	// A busy one is kept, however many come.
	inside, leave := make(chan struct{}), make(chan struct{})
	p := &provider{answer: func(int, context.Context) error { close(inside); <-leave; return nil }}
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = a.Model(p, nil).Do(t.Context(), &llm.Request{}) })
	<-inside
	for i := range 3000 {
		s.Get(limiter.KeyOf(fmt.Sprint(i)))
	}
	if a != s.Get(limiter.KeyOf("https://a", "k")) {
		t.Error("a limiter in use was forgotten")
	}
	close(leave)
	wg.Wait()
}

func BenchmarkTurn(b *testing.B) {
	m := limiter.New(0).Model(&quick{}, nil)
	for b.Loop() {
		if _, err := m.Do(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
	}
}

type quick struct{}

func (quick) Info() llm.Info                                          { return llm.Info{} }
func (quick) Do(context.Context, *llm.Request) (*llm.Response, error) { return nil, nil }
