package wire_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/wire"
)

// endpoint starts a server, and returns a client's configuration and its URL.
func endpoint(t *testing.T, f http.HandlerFunc) (wire.Config, string) {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return wire.Config{HTTPClient: s.Client()}, s.URL + "/call?key=query-secret"
}

func readAll(got *string) func(*wire.Answer) error {
	return func(a *wire.Answer) error {
		b, err := io.ReadAll(a)
		*got = string(b)
		return err
	}
}

func TestExchange(t *testing.T) {
	var seen http.Header
	cfg, url := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		seen = r.Header
		_, _ = w.Write(append([]byte("you said "), b...))
	})
	var got string
	header := http.Header{"X-A": {"b"}}
	err := wire.New(cfg).Do(t.Context(), wire.Call{URL: url, Body: []byte("hello"), Header: header,
		Prepare: func(r *http.Request) error { r.Header.Set("X-Signed", "yes"); return nil }, Read: readAll(&got)})
	if err != nil || got != "you said hello" {
		t.Fatalf("%q, %v", got, err)
	}
	for k, want := range map[string]string{"X-A": "b", "X-Signed": "yes", "Content-Type": "application/json", "User-Agent": "parley"} {
		if seen.Get(k) != want {
			t.Errorf("%s is %q", k, seen.Get(k))
		}
	}
	if len(header) != 1 {
		t.Errorf("the caller's header was changed: %v", header)
	}
}

func fails(t *testing.T, cfg wire.Config, call wire.Call) *llm.Error {
	t.Helper()
	if call.Read == nil {
		call.Read = readAll(new(string))
	}
	err := wire.New(cfg).Do(t.Context(), call)
	var e *llm.Error
	if !errors.As(err, &e) || e.Message == "" {
		t.Fatalf("got %#v", err)
	}
	return e
}

func TestRefusal(t *testing.T) {
	const key, other, short = "sk-0123456789", "a header's value", "ab"
	cfg, url := endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		http.Error(w, `{"error":{"message":"slow down `+key+" "+other+` about"}}`, http.StatusTooManyRequests)
	})
	cfg.Secrets = []string{key, other, short, ""}
	e := fails(t, cfg, wire.Call{URL: url, Advise: func(e *llm.Error) { e.Message += ", or ask again" }})
	if e.Class != llm.ClassRateLimit || e.Status != 429 || e.RetryAfter != 7*time.Second || e.Streamed || !e.Free() {
		t.Errorf("%+v", e)
	}
	if strings.Contains(e.Message, key) || strings.Contains(e.Message, other) || !strings.HasSuffix(e.Message, "about, or ask again") {
		t.Errorf("message %q", e.Message)
	}
}

// A failure inside an answer may cost something, whatever status it names.
func TestFailureInsideAnAnswerIsNotFree(t *testing.T) {
	cfg, url := endpoint(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	err := wire.New(cfg).Do(t.Context(), wire.Call{URL: url, Read: func(*wire.Answer) error {
		return &llm.Error{Class: llm.ClassOverloaded, Status: 503, Message: "overloaded"}
	}})
	var e *llm.Error
	if !errors.As(err, &e) || e.Status != 503 || !e.Answered || e.Free() {
		t.Errorf("got %#v", err)
	}
}

func TestRedirect(t *testing.T) {
	reached := false
	_, there := endpoint(t, func(http.ResponseWriter, *http.Request) { reached = true })
	cfg, url := endpoint(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, there, http.StatusTemporaryRedirect) })
	e := fails(t, cfg, wire.Call{URL: url})
	if reached || e.Class != llm.ClassBadRequest || strings.Contains(e.Message, "query-secret") || !strings.Contains(e.Message, "not followed") {
		t.Errorf("%v, reached %v", e, reached)
	}
}

func TestNotSent(t *testing.T) {
	for name, call := range map[string]wire.Call{"nobody there": {URL: "http://127.0.0.1:1/x?key=query-secret"}} {
		e := fails(t, wire.Config{}, call)
		if e.Class != llm.ClassNetwork || !e.NotSent || !e.Free() || strings.Contains(e.Message, "query-secret") {
			t.Errorf("%s: %#v", name, e)
		}
	}
}

func TestPrepareFails(t *testing.T) {
	cfg, url := endpoint(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	wrong := &llm.Error{Class: llm.ClassAuth, Message: "no credentials", NotSent: true}
	e := fails(t, cfg, wire.Call{URL: url, Prepare: func(*http.Request) error { return wrong }})
	if e.Class != llm.ClassAuth || !e.NotSent {
		t.Errorf("%#v", e)
	}
}

func TestSilence(t *testing.T) {
	const short = 50 * time.Millisecond
	hold := func(begin string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if begin != "" {
				_, _ = io.WriteString(w, begin)
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		}
	}
	drip := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, "."); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(5 * time.Millisecond):
			case <-r.Context().Done():
			}
		}
	}
	tests := map[string]struct {
		f    http.HandlerFunc
		cfg  wire.Config
		text string
	}{
		"at once":       {hold(""), wire.Config{Timeout: short}, "did not begin"},
		"in the middle": {hold("x"), wire.Config{Timeout: time.Minute, IdleTimeout: short}, "fell silent"},
		"never ends":    {drip, wire.Config{Total: 4 * short}, "longer than"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg, url := endpoint(t, tt.f)
			tt.cfg.HTTPClient = cfg.HTTPClient
			e := fails(t, tt.cfg, wire.Call{URL: url, Streamed: func() bool { return true }})
			if e.Class != llm.ClassTimeout || !strings.Contains(e.Message, tt.text) || !e.Streamed || e.Free() {
				t.Errorf("%#v", e)
			}
		})
	}
}

// TestComplete: behind its end an answer that goes on is not waited for.
func TestComplete(t *testing.T) {
	cfg, url := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, "data: a\n\n: more\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	cfg.IdleTimeout = 50 * time.Millisecond
	err := wire.New(cfg).Do(t.Context(), wire.Call{URL: url, Read: func(a *wire.Answer) error {
		events := a.Events()
		ev, err := events.Next()
		if err != nil || string(ev.Data) != "a" || !a.IsEventStream() {
			t.Errorf("%q, %v", ev.Data, err)
		}
		a.Complete()
		if _, err := events.Next(); err == nil {
			t.Error("there was another event")
		}
		return nil
	}})
	if err != nil {
		t.Error(err)
	}
}

func TestDrain(t *testing.T) {
	cfg, url := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "x")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	err := wire.New(cfg).Do(t.Context(), wire.Call{URL: url, Read: func(a *wire.Answer) error { a.Drain(); return nil }})
	if err != nil {
		t.Error(err)
	}
}

func TestTooLarge(t *testing.T) {
	cfg, url := endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		block := make([]byte, 1<<20)
		for range wire.MaxAnswer>>20 + 1 {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	e := fails(t, cfg, wire.Call{URL: url, Read: func(a *wire.Answer) error { _, err := io.Copy(io.Discard, a); return err }})
	if e.Class != llm.ClassBadRequest || !strings.Contains(e.Message, "64 MiB") {
		t.Errorf("%#v", e)
	}
}

func TestCancel(t *testing.T) {
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cfg, url := endpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel(stopped)
		<-r.Context().Done()
	})
	if err := wire.New(cfg).Do(ctx, wire.Call{URL: url, Read: readAll(new(string))}); !errors.Is(err, stopped) {
		t.Errorf("got %v, want the cause", err)
	}
}

func TestEndpoint(t *testing.T) {
	for in, want := range map[string]string{" https://h/v1 ": "https://h/v1", "http://h:1/a%2Fb?x=1#frag": "http://h:1/a/b?x=1",
		"ftp://h": "", "h/v1": "", "": "", "http://%zz": "", "http:///x": ""} {
		u, err := wire.Endpoint(in)
		if want == "" {
			if !fault.Is(err, fault.Invalid) || fault.CodeOf(err) != "llm_base_url_invalid" {
				t.Errorf("%q: %v, %v", in, u, err)
			}
			continue
		}
		if err != nil || u.String() != want {
			t.Errorf("%q: %v, %v", in, u, err)
		}
	}
}

func TestKey(t *testing.T) {
	if k, err := wire.Key(account.NewSecret(" sk-1\n")); err != nil || k.Reveal() != "sk-1" {
		t.Errorf("%q, %v", k.Reveal(), err)
	}
	for _, bad := range []string{"sk 1", "sk\n1", "schl\u00fcssel"} {
		if _, err := wire.Key(account.NewSecret(bad)); !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestBroken(t *testing.T) {
	e := wire.Broken("no answer", []byte(strings.Repeat("x\xff", 5000)), io.EOF)
	if e.Class != llm.ClassNetwork || len(e.Message) > failure.MaxMessage || !errors.Is(e, io.EOF) {
		t.Errorf("%d bytes, %v", len(e.Message), e.Err)
	}
}
