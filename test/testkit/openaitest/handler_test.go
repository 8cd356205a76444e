package openaitest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"parley/internal/content"
	"parley/internal/llm/llmtest"
	"parley/test/testkit/openaitest"
)

// handle posts a body to a handler that gives one reply.
func handle(t *testing.T, h http.Handler, path, body string) (int, string) {
	t.Helper()
	s := httptest.NewServer(h)
	defer s.Close()
	resp, err := s.Client().Post(s.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, string(b) + " " + err.Error()
	}
	return resp.StatusCode, string(b)
}

func always(r llmtest.Reply) http.Handler {
	return openaitest.Handler(func(*http.Request, []byte) llmtest.Reply { return r })
}

func TestHandlerRefuses(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m","messages":[` + user + `],"top_k":5}`:                                "Unrecognized request argument supplied: top_k",
		`{"model":"m","messages":[{"role":"user","content":"x","cache_control":{}}]}`:      "cache_control",
		`{"model":"m","messages":[` + user + `],"temperature":3}`:                          "temperature",
		`{"model":"m","messages":[` + user + `],"max_tokens":0}`:                           "max_tokens",
		`{"model":"m","messages":[` + user + `],"max_tokens":1,"max_completion_tokens":1}`: "at the same time",
		`{"model":"m","messages":[]}`:                                                      "too short",
	} {
		status, got := handle(t, always(llmtest.Reply{Text: "x"}), "/v1/chat/completions", body)
		if status != 400 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s", body, status, got)
		}
	}
	if status, _ := handle(t, always(llmtest.Reply{}), "/v1/models", chat(user)); status != 404 {
		t.Errorf("another path: %d", status)
	}
}

func TestHandlerWantsSignatures(t *testing.T) {
	h := always(llmtest.Reply{Reasoning: "hm", Signature: "sig", Calls: []content.ToolCall{{ID: "c1", Name: "f", Arguments: "{}"}}})
	_, got := handle(t, h, "/openai/deployments/d/chat/completions", chat(user))
	if !strings.Contains(got, `"signature":"sig"`) {
		t.Fatalf("not signed: %s", got)
	}
	const call = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]`
	const result = `{"role":"tool","tool_call_id":"c1","content":"ok"}`
	for extra, want := range map[string]int{"": 400, `,"reasoning_details":[{"signature":"other"}]`: 400, `,"reasoning_details":[{"signature":"sig"}]`: 200} {
		status, got := handle(t, h, "/v1/chat/completions", chat(user+`,{"role":"assistant","content":null,`+call+extra+`},`+result))
		if status != want {
			t.Errorf("with %q: %d %s", extra, status, got)
		}
	}
	other := `{"role":"user","content":"another conversation"}`
	if status, got := handle(t, h, "/v1/chat/completions", chat(other+`,{"role":"assistant","content":null,`+call+`},`+result)); status != 200 {
		t.Errorf("the call of another conversation: %d %s", status, got)
	}
}

// TestHandlerConcurrently: many requests at a time get their own replies.
func TestHandlerConcurrently(t *testing.T) {
	s := httptest.NewServer(openaitest.Handler(func(r *http.Request, _ []byte) llmtest.Reply {
		return llmtest.Reply{Text: "for " + r.Header.Get("X-Number"), Calls: []content.ToolCall{{Name: "f", Arguments: "{}"}}}
	}))
	defer s.Close()
	var wait sync.WaitGroup
	for i := range 32 {
		wait.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/chat/completions", strings.NewReader(chat(user)))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("X-Number", fmt.Sprint(i))
			resp, err := s.Client().Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = resp.Body.Close() }()
			if b, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(b), fmt.Sprintf("for %d\"", i)) {
				t.Errorf("%d: %s, %v", i, b, err)
			}
		})
	}
	wait.Wait()
}
