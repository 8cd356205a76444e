package openai_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/openai"
	"parley/internal/llm/wire"
)

// canned answers every request with the same bytes, without a network.
func canned(b *testing.B, kind, body string) *openai.Model {
	b.Helper()
	client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		_, err := io.Copy(io.Discard, r.Body)
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body))}, err
	})}
	m, err := openai.New(of(wire.ModelConfig{Model: "m", HTTPClient: client}))
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// BenchmarkStreamedChunk is the adapter's cost of one chunk of a stream.
func BenchmarkStreamedChunk(b *testing.B) {
	const perCall = 1000
	ds := make([]string, perCall)
	for i := range ds {
		ds[i] = `{"content":"some words "}`
	}
	m := canned(b, "text/event-stream", deltas("stop", ds...))
	req := llmtest.Request(ignore)
	b.ReportAllocs()
	b.ResetTimer()
	for range (b.N + perCall - 1) / perCall {
		if _, err := m.Do(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCall is the adapter's cost of one call with a long history.
func BenchmarkCall(b *testing.B) {
	m := canned(b, "application/json", `{"id":"x","choices":[{"message":{"content":"done"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	req := llmtest.Request(nil)
	for range 100 {
		req.Messages = append(req.Messages,
			content.Message{Role: content.RoleAssistant, ToolCalls: []content.ToolCall{{ID: "a", Name: "terminal", Arguments: `{"command":"ls -la"}`}}},
			content.Message{Role: content.RoleTool, ToolCallID: "a", Parts: []content.Part{content.Text(strings.Repeat("output ", 100))}})
	}
	var resp *llm.Response
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if resp, err = m.Do(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
	_ = resp
}
