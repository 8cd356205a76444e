package anthropic_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/anthropic"
	"parley/internal/llm/llmtest"
)

func ignore(llm.Delta) {}

// drain reads a request's body and puts it back.
func drain(r *http.Request) []byte {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body
}

func said(role, text string) content.Message {
	return content.Message{Role: role, Parts: []content.Part{content.Text(text)}}
}

func called(calls ...content.ToolCall) content.Message {
	return content.Message{Role: content.RoleAssistant, ToolCalls: calls}
}

func result(id string, parts ...content.Part) content.Message {
	return content.Message{Role: content.RoleTool, ToolCallID: id, ToolName: "terminal", Parts: parts}
}

// appended returns a request with an answer and a result for each of its calls.
func appended(req *llm.Request, resp *llm.Response) *llm.Request {
	next := *req
	next.Messages = append(append([]content.Message{}, req.Messages...), resp.Message)
	for _, c := range resp.Message.ToolCalls {
		next.Messages = append(next.Messages, result(c.ID, content.Text("result of "+c.Name)))
	}
	return &next
}

// do makes a call that must succeed.
func do(t testing.TB, m *anthropic.Model, req *llm.Request) *llm.Response {
	t.Helper()
	resp, err := m.Do(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// raw serves one answer as it is and returns the model that gets it.
func raw(t testing.TB, cfg anthropic.Config, status int, kind, body string) *anthropic.Model {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	cfg.BaseURL, cfg.HTTPClient = s.URL, s.Client()
	m, err := anthropic.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// streamed returns what the adapter makes of events given as their data.
func streamed(t *testing.T, events ...string) (*llm.Response, error) {
	t.Helper()
	var b strings.Builder
	for _, e := range events {
		b.WriteString("data: " + e + "\n\n")
	}
	return raw(t, config("claude-sonnet-4-5"), 200, "text/event-stream", b.String()).Do(t.Context(), llmtest.Request(ignore))
}

// member reads a path of members and indexes out of a request.
func member(t testing.TB, body string, path ...any) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				return nil
			}
			v = m[p]
		case int:
			l, ok := v.([]any)
			if !ok || p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// request is what a transport sees.
type request = *http.Request

type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// clientOf returns a client that shows requests to f and fails them.
func clientOf(f func(request)) *http.Client {
	return &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		f(r)
		return nil, io.ErrUnexpectedEOF
	})}
}
