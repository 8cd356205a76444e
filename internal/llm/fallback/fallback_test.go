package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/fallback"
	"parley/internal/llm/retry"
)

// model answers with its errors in turn, then with success. A nil error is one.
type model struct {
	info llm.Info
	mu   sync.Mutex
	errs []error
	n    int
	hook func()
}

func (m *model) Info() llm.Info { return m.info }

func (m *model) Do(context.Context, *llm.Request) (*llm.Response, error) {
	m.mu.Lock()
	n := m.n
	m.n++
	m.mu.Unlock()
	if m.hook != nil {
		m.hook()
	}
	if n < len(m.errs) && m.errs[n] != nil {
		return nil, m.errs[n]
	}
	return &llm.Response{ID: "by " + m.info.Model}, nil
}

func named(name string, errs ...error) *model {
	return &model{info: llm.Info{Model: name, Vision: true, ContextWindow: 1000}, errs: errs}
}

func failing(name string, class llm.Class) *model {
	m := named(name)
	for range 100 {
		m.errs = append(m.errs, fail(class))
	}
	return m
}

func fail(class llm.Class) *llm.Error {
	return &llm.Error{Class: class, Message: "no " + string(class)}
}

func choices(models ...*model) []fallback.Choice {
	var out []fallback.Choice
	for i, m := range models {
		out = append(out, fallback.Choice{Key: fallback.Key{byte(i + 1)}, Model: m})
	}
	return out
}

func TestWhenTheNextIsAsked(t *testing.T) {
	streamed := fail(llm.ClassNetwork)
	streamed.Streamed = true
	for name, tt := range map[string]struct {
		err  error
		next bool
	}{
		"auth":           {fail(llm.ClassAuth), true},
		"quota":          {fail(llm.ClassQuota), true},
		"rate limit":     {fail(llm.ClassRateLimit), true},
		"overloaded":     {fail(llm.ClassOverloaded), true},
		"network":        {fail(llm.ClassNetwork), true},
		"timeout":        {fail(llm.ClassTimeout), true},
		"no response":    {fail(llm.ClassNoResponse), true},
		"content policy": {fail(llm.ClassContentPolicy), false},
		"malformed":      {fail(llm.ClassMalformed), false},
		"bad request":    {fail(llm.ClassBadRequest), false},
		"shown in part":  {streamed, false},
		"no budget":      {errors.New("budget"), false},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := named("a/first", tt.err), named("b/second")
			var told []llm.Retry
			m := fallback.New(choices(first, second), &fallback.Health{}, func(_ context.Context, r llm.Retry) { told = append(told, r) })
			resp, err := m.Do(t.Context(), &llm.Request{})
			if !tt.next {
				if !errors.Is(err, tt.err) || second.n != 0 || told != nil {
					t.Errorf("%v, asked %d times, told %v", err, second.n, told)
				}
				return
			}
			if err != nil || resp.ID != "by b/second" || resp.Model != "b/second" {
				t.Fatalf("%+v, %v", resp, err)
			}
			if len(told) != 1 || told[0].Fallback != "b/second" || told[0].Attempt != 1 || told[0].MaxAttempts != 2 || !errors.Is(told[0].Err, tt.err) {
				t.Errorf("told %+v", told)
			}
		})
	}
}

func TestTheAnswerNamesItsModel(t *testing.T) {
	m := fallback.New(choices(named("a/first"), named("b/second")), &fallback.Health{}, nil)
	resp, err := m.Do(t.Context(), &llm.Request{})
	if err != nil || resp.Model != "a/first" || m.Info().Model != "a/first" {
		t.Errorf("%+v, %v", resp, err)
	}
}

func TestTooLongNeedsALargerWindow(t *testing.T) {
	for name, tt := range map[string]struct {
		windows [3]int64
		want    string // who answers; "" = nobody
	}{
		"larger":                {[3]int64{1000, 2000, 3000}, "m/1"},
		"skips what is smaller": {[3]int64{1000, 500, 3000}, "m/2"},
		"as large":              {[3]int64{1000, 1000, 1000}, ""},
		"unknown":               {[3]int64{1000, 0, 0}, ""},
		"first unknown":         {[3]int64{0, 1, 0}, "m/1"},
	} {
		t.Run(name, func(t *testing.T) {
			var models []*model
			for i, w := range tt.windows {
				m := named(fmt.Sprintf("m/%d", i))
				m.info.ContextWindow = w
				models = append(models, m)
			}
			models[0].errs = []error{fail(llm.ClassContext)}
			health := &fallback.Health{}
			m := fallback.New(choices(models...), health, nil)
			resp, err := m.Do(t.Context(), &llm.Request{})
			if tt.want == "" {
				if !errors.Is(err, models[0].errs[0]) {
					t.Error(err)
				}
			} else if err != nil || resp.Model != tt.want {
				t.Errorf("%+v, %v", resp, err)
			}
			// A long history says nothing about the model.
			if resp, err := m.Do(t.Context(), &llm.Request{}); err != nil || resp.Model != "m/0" {
				t.Errorf("the next: %+v, %v", resp, err)
			}
		})
	}
}

func TestImagesNeedEyes(t *testing.T) {
	first, blind, seeing := failing("a/first", llm.ClassAuth), named("b/blind"), named("c/seeing")
	blind.info.Vision = false
	m := fallback.New(choices(first, blind, seeing), &fallback.Health{}, nil)
	image := &llm.Request{Messages: []content.Message{{Role: content.RoleUser, Parts: []content.Part{content.Image("data:image/png;base64,AA==")}}}}
	for req, want := range map[*llm.Request]string{image: "c/seeing", {}: "b/blind"} {
		if resp, err := m.Do(t.Context(), req); err != nil || resp.Model != want {
			t.Errorf("%+v, %v, want %s", resp, err, want)
		}
	}
	// A first choice without eyes says so itself, also while it is left out.
	first.info.Vision = false
	alone := fallback.New(choices(first, blind)[:2], &fallback.Health{}, nil)
	for range 2 {
		if _, err := alone.Do(t.Context(), image); err == nil || !strings.Contains(err.Error(), "no auth") {
			t.Error(err)
		}
	}
}

func TestAllFail(t *testing.T) {
	wish := fail(llm.ClassRateLimit)
	wish.RetryAfter = 9 * time.Second
	first := named("a/first", wish, wish)
	m := fallback.New(choices(first, failing("b/second", llm.ClassAuth), failing("c/third", llm.ClassBadRequest)), &fallback.Health{}, nil)
	_, err := m.Do(t.Context(), &llm.Request{})
	var e *llm.Error
	if !errors.As(err, &e) || e.Class != llm.ClassRateLimit || e.RetryAfter != 9*time.Second ||
		e.Message != "no rate_limit; then b/second: no auth; then c/third: no bad_request" {
		t.Errorf("%+v", err)
	}
	// While they are left out, there is nobody else: they are asked all the same.
	if _, err := m.Do(t.Context(), &llm.Request{}); !errors.As(err, &e) || first.n != 2 {
		t.Errorf("%v, asked %d times", err, first.n)
	}
}

// A fallback's refusal for its content ends the asking around.
func TestNobodyAsksAround(t *testing.T) {
	third := named("c/third")
	m := fallback.New(choices(failing("a/first", llm.ClassTimeout), failing("b/second", llm.ClassContentPolicy), third), &fallback.Health{}, nil)
	_, err := m.Do(t.Context(), &llm.Request{})
	var e *llm.Error
	if !errors.As(err, &e) || e.Class != llm.ClassContentPolicy || third.n != 0 {
		t.Errorf("%v, asked %d times", err, third.n)
	}
}

// An outage is remembered over conversations: their next steps do not wait for
// the retries of a model that is down. After a minute one call sees whether it is
// back, without retries; the others go on with the fallback.
func TestOutageIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		first, second := failing("a/first", llm.ClassOverloaded), named("b/second")
		health := &fallback.Health{}
		conversation := func() *fallback.Model {
			c := choices(first, second)
			c[0].Once, c[0].Model = first, retry.New(first, retry.Policy{}, nil)
			return fallback.New(c, health, nil)
		}
		ask := func(want string) {
			t.Helper()
			if resp, err := conversation().Do(t.Context(), &llm.Request{}); err != nil || resp.Model != want {
				t.Errorf("after %v: %+v, %v, want %s", time.Since(begin), resp, err, want)
			}
		}
		ask("b/second")
		if first.n != 5 || time.Since(begin) < 100*time.Second {
			t.Errorf("the first one was asked %d times in %v", first.n, time.Since(begin))
		}
		begin = time.Now()
		for range 20 {
			ask("b/second")
		}
		if first.n != 5 || time.Since(begin) != 0 {
			t.Errorf("while it is down it was asked %d times in %v", first.n-5, time.Since(begin))
		}
		time.Sleep(time.Minute)
		inside, leave := make(chan struct{}), make(chan struct{})
		first.hook = func() { close(inside); <-leave }
		var wg sync.WaitGroup
		wg.Go(func() { ask("b/second") }) // sees that it is still down
		<-inside
		ask("b/second") // meanwhile
		close(leave)
		wg.Wait()
		first.hook = nil
		if first.n != 6 || time.Since(begin) != time.Minute {
			t.Errorf("one call was to see: %d, %v", first.n-5, time.Since(begin))
		}
		time.Sleep(time.Minute) // twice as long now
		ask("b/second")
		time.Sleep(time.Minute)
		first.mu.Lock()
		first.errs = nil
		first.mu.Unlock()
		ask("a/first")
		ask("a/first")
		if first.n != 8 {
			t.Errorf("asked %d times in all", first.n)
		}
	})
}

// Who is to see whether a model is back, and is stopped, leaves that to the next.
func TestStoppedProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := named("a/first", fail(llm.ClassAuth), context.Canceled)
		health := &fallback.Health{}
		m := fallback.New(choices(first, named("b/second")), health, nil)
		_, _ = m.Do(t.Context(), &llm.Request{})
		time.Sleep(fallback.FirstOutage)
		stopped := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		first.hook = func() { cancel(stopped) }
		if _, err := m.Do(ctx, &llm.Request{}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		first.hook = nil
		if resp, err := m.Do(t.Context(), &llm.Request{}); err != nil || resp.Model != "a/first" {
			t.Errorf("%+v, %v", resp, err)
		}
	})
}

// The longest wait of a provider counts, within bounds.
func TestOutageLastsAsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := fail(llm.ClassRateLimit)
		e.RetryAfter = 24 * time.Hour
		first := named("a/first", e)
		m := fallback.New(choices(first, named("b/second")), &fallback.Health{}, nil)
		var got []string
		for range 4 {
			resp, err := m.Do(t.Context(), &llm.Request{})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, resp.Model)
			time.Sleep(fallback.LastOutage/2 + time.Second)
		}
		if diff := cmp.Diff([]string{"b/second", "b/second", "a/first", "a/first"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestManyConfigurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		health := &fallback.Health{}
		for i := range 3000 {
			c := choices(failing("a/first", llm.ClassAuth), named("b/second"))
			c[0].Key = fallback.Key{1, byte(i), byte(i >> 8)}
			if _, err := fallback.New(c, health, nil).Do(t.Context(), &llm.Request{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
	})
}

// A model whose probe panics is probed again.
func TestPanicOfAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := named("first", fail(llm.ClassOverloaded)), named("second")
		m := fallback.New(choices(first, second), &fallback.Health{}, nil)
		ask := func() (by string) {
			defer func() { _ = recover() }()
			resp, err := m.Do(t.Context(), &llm.Request{})
			if err != nil {
				t.Error(err)
				return ""
			}
			return resp.ID
		}
		if by := ask(); by != "by second" {
			t.Fatal(by)
		}
		time.Sleep(2 * fallback.FirstOutage)
		first.hook = func() { panic("a defect") }
		ask()
		first.hook = nil
		if by := ask(); by != "by first" {
			t.Errorf("answered %s: it is left out for ever", by)
		}
	})
}
