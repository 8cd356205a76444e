package factory_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/factory"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/anthropictest"
	"parley/internal/llm/llmtest/bedrocktest"
	"parley/internal/llm/llmtest/geminitest"
	"parley/internal/llm/llmtest/responsestest"
	"parley/test/testkit/openaitest"
)

// hostile serves h and returns a model of each wire that talks to it.
func hostile(t *testing.T, h http.HandlerFunc) map[string]llm.Model {
	t.Helper()
	s := httptest.NewServer(h)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		s.CloseClientConnections()
		s.Close()
	})
	return modelsAt(t, s.URL, client)
}

func modelsAt(t *testing.T, url string, client *http.Client) map[string]llm.Model {
	t.Helper()
	out := map[string]llm.Model{}
	scheme, host, _ := strings.Cut(url, "://")
	for name, l := range wiresOf(host, plainKey) {
		l.BaseURL = scheme + strings.TrimPrefix(l.BaseURL, "http")
		if name == "bedrock signed" || name == "text" || name == "azure" { // as others
			continue
		}
		m, err := factory.New(l, factory.Options{HTTPClient: client, Timeout: 20 * time.Second, AWS: factory.AWS{NoEnvironment: true}, Retry: factory.Retry{MaxAttempts: 1}})
		if err != nil {
			t.Fatal(err)
		}
		out[name] = m
	}
	return out
}

// strict are the wires with their providers' stand-ins.
func strict(t *testing.T, next func(*http.Request, []byte) llmtest.Reply) map[string]llm.Model {
	t.Helper()
	out := map[string]llm.Model{}
	for name, of := range map[string]struct {
		h    http.Handler
		path string
		l    account.LLM
	}{
		"chat":      {openaitest.Handler(next), "/v1", account.LLM{Model: "openai/m"}},
		"responses": {responsestest.Handler(next), "/v1", account.LLM{Model: "openai/gpt-5", APIMode: "responses"}},
		"anthropic": {anthropictest.Handler(next), "", account.LLM{Model: "anthropic/claude-sonnet-4-5"}},
		"gemini":    {geminitest.Handler(next), "/v1beta", account.LLM{Model: "gemini/gemini-3-pro"}},
		"bedrock":   {bedrocktest.Handler(next), "", account.LLM{Model: "bedrock/amazon.nova-lite-v1:0", AWSRegion: bedrocktest.Region}},
	} {
		s := httptest.NewServer(of.h)
		client := &http.Client{Transport: &http.Transport{}}
		t.Cleanup(func() {
			client.CloseIdleConnections()
			s.Close()
		})
		l := of.l
		l.BaseURL, l.APIKey = s.URL+of.path, account.NewSecret(bedrocktest.APIKey)
		m, err := factory.New(l, factory.Options{HTTPClient: client, AWS: factory.AWS{NoEnvironment: true}, Retry: factory.Retry{MaxAttempts: 1}})
		if err != nil {
			t.Fatal(err)
		}
		out[name] = m
	}
	return out
}

// within runs f and checks that it neither takes long nor much memory.
func within(t *testing.T, most time.Duration, megabytes uint64, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	f()
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if took > most {
		t.Errorf("took %v", took)
	}
	if used := (after.HeapSys - min(before.HeapSys, after.HeapSys)) >> 20; used > megabytes {
		t.Errorf("grew by %d MiB", used)
	}
}

func failed(t *testing.T, err error) *llm.Error {
	t.Helper()
	var e *llm.Error
	if !errors.As(err, &e) || e.Message == "" {
		t.Fatalf("got %#v", err)
	}
	return e
}

// TestEndlessAnswers: what never ends is cut off, in bounded time and memory, also
// where it is small on the wire.
func TestEndlessAnswers(t *testing.T) {
	for name, of := range map[string]struct {
		wire   string
		kind   string
		status int
		body   string // for ever
		zipped bool
	}{
		"comments":   {"chat", "text/event-stream", 200, ": keep-alive\n\n", false},
		"one event":  {"gemini", "text/event-stream", 200, "data: x\n", false},
		"spaces":     {"anthropic", "application/json", 200, " ", false},
		"frames":     {"bedrock", "application/vnd.amazon.eventstream", 200, "\x00", false},
		"refusal":    {"chat", "text/plain", 400, "no ", false},
		"bomb":       {"responses", "application/json", 200, " ", true},
		"small bomb": {"bedrock", "application/json", 400, " ", true},
	} {
		t.Run(name, func(t *testing.T) {
			m := hostile(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", of.kind)
				var out io.Writer = w
				if of.zipped {
					w.Header().Set("Content-Encoding", "gzip")
					out = gzip.NewWriter(w)
				}
				w.WriteHeader(of.status)
				for more := bytes.Repeat([]byte(of.body), 1<<20/len(of.body)); ; {
					if _, err := out.Write(more); err != nil {
						return
					}
				}
			})[of.wire]
			within(t, time.Minute, 600, func() {
				_, err := m.Do(t.Context(), llmtest.Request(func(llm.Delta) {}))
				if e := failed(t, err); len(e.Message) > 2048 || e.Free() != (of.status == 400) {
					t.Errorf("%#v", e)
				}
			})
		})
	}
}

// TestManyChunks: the time for an answer grows as its length does.
func TestManyChunks(t *testing.T) {
	const chunks = 12_000
	text, thought, args := "", "", ""
	models := strict(t, func(*http.Request, []byte) llmtest.Reply {
		return llmtest.Reply{Text: text, Reasoning: thought, Calls: []content.ToolCall{{ID: "c1", Name: "terminal", Arguments: args}}}
	})
	for name, m := range models {
		ask := func(n int) time.Duration {
			part := strings.Repeat("1234567", n)
			text, thought, args = part, part, `{"command":"`+part+`"}`
			began, seen := time.Now(), 0
			resp, err := m.Do(t.Context(), llmtest.Request(func(d llm.Delta) { seen += len(d.Text) }))
			if err != nil || resp.Message.Text() != text || seen != len(text) || resp.Message.ToolCalls[0].Arguments != args {
				t.Fatalf("%s: %v, %d bytes of %d", name, err, seen, len(text))
			}
			return time.Since(began)
		}
		ask(100)
		short, long := ask(chunks/6), ask(chunks)
		t.Logf("%s: %v, %v", name, short, long)
		if long > 24*short+time.Second {
			t.Errorf("%s: %d chunks take %v, %d take %v", name, chunks/6, short, chunks, long)
		}
	}
}

// TestOddTransport: what HTTP allows and few expect.
func TestOddTransport(t *testing.T) {
	refusal := `{"error":{"message":"too much","type":"invalid_request_error"},"message":"too much"}`
	for name, h := range map[string]http.HandlerFunc{
		"a megabyte of headers": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			for i := range 16 {
				w.Header().Set("X-Fill-"+string(rune('a'+i)), strings.Repeat("x", 64<<10))
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			_, _ = io.WriteString(w, refusal)
		},
		"trailers": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Trailer", "X-Error")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			_, _ = io.WriteString(w, refusal)
			w.Header().Set("X-Error", "late")
		},
		"an early answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Connection", "close")
			w.WriteHeader(400)
			_, _ = io.WriteString(w, refusal)
		},
		"information before": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			for range 3 {
				w.WriteHeader(http.StatusEarlyHints)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			_, _ = io.WriteString(w, refusal)
		},
	} {
		t.Run(name, func(t *testing.T) {
			two := httptest.NewUnstartedServer(h)
			two.EnableHTTP2 = true
			two.StartTLS()
			defer two.Close()
			defer two.Client().CloseIdleConnections()
			for _, models := range []map[string]llm.Model{hostile(t, h), modelsAt(t, two.URL, two.Client())} {
				for wireName, m := range models {
					req := llmtest.Request(nil)
					req.Messages[1].Parts[0].Text = strings.Repeat("long ", 1<<20)
					_, err := m.Do(t.Context(), req)
					if e := failed(t, err); e.Status != 400 {
						t.Errorf("%s: %#v", wireName, e)
					}
				}
			}
		})
	}
}

// TestAbsurdWishes: a wish to be asked again later is a duration that makes sense.
func TestAbsurdWishes(t *testing.T) {
	wish := ""
	models := hostile(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Retry-After", wish)
		w.Header().Set("X-Ratelimit-Reset", wish)
		w.WriteHeader(http.StatusTooManyRequests)
	})
	for _, wish = range []string{"0", "-1", "315360000", "1e300", "-1e300", "NaN", "Inf", "garbage", "", "Wed, 21 Oct 2215 07:28:00 GMT", "Wed, 21 Oct 1915 07:28:00 GMT",
		"99999999999999999999", "1h", "-1h", "\u00e4"} {
		for name, m := range models {
			_, err := m.Do(t.Context(), llmtest.Request(nil))
			if e := failed(t, err); e.Class != llm.ClassRateLimit || e.RetryAfter < 0 || e.RetryAfter > 31*24*time.Hour {
				t.Errorf("%s, %q: %#v", name, wish, e)
			}
		}
	}
}
