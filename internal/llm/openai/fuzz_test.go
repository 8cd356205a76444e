package openai_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/openai"
	"parley/internal/llm/wire"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// FuzzAnswer feeds arbitrary answers: whatever comes, the result is a usable
// response or a classified error, and the deltas are the text.
func FuzzAnswer(f *testing.F) {
	f.Add(true, deltas("stop", `{"content":"x"}`, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}]}`))
	f.Add(true, deltas("length", `{"reasoning_details":[{"type":"t","text":"a"}]}`, `{"reasoning_details":[{"type":"t","text":"b"}],"x":{"y":["z"]}}`))
	f.Add(false, `{"id":1,"choices":[{"message":{"content":[{"type":"text","text":"x"}],"tool_calls":[{"function":{"name":"n","arguments":{}}}]}}],"usage":{"prompt_tokens":"7"}}`)
	f.Add(false, `{"error":{"message":"x"}}`)
	f.Add(true, "event: error\r\ndata: x\r\n\r\n")
	f.Fuzz(func(t *testing.T, stream bool, body string) {
		kind := "application/json"
		if stream {
			kind = "text/event-stream"
		}
		client := &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body))}, nil
		})}
		m, err := openai.New(of(wire.ModelConfig{Model: "m", HTTPClient: client}))
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		resp, err := m.Do(t.Context(), llmtest.Request(func(d llm.Delta) { said.WriteString(d.Text) }))
		var e *llm.Error
		if err != nil {
			if !errors.As(err, &e) || e.Message == "" {
				t.Fatalf("unclassified: %v", err)
			}
			return
		}
		if resp.Message.Text() != said.String() || !utf8.ValidString(said.String()) {
			t.Fatalf("message %q, deltas %q", resp.Message.Text(), said.String())
		}
		ids := map[string]bool{}
		for _, c := range resp.Message.ToolCalls {
			if c.ID == "" || ids[c.ID] || c.Arguments == "" {
				t.Fatalf("call %+v", c)
			}
			ids[c.ID] = true
		}
	})
}
