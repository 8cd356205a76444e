package anthropic_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"parley/internal/content"
	"parley/internal/llm/anthropic"
	"parley/internal/llm/llmtest"
)

// canned is a model whose endpoint answers from memory: what is measured is the
// adapter's own work.
func canned(b *testing.B, body string) *anthropic.Model {
	b.Helper()
	cfg := thinking(config("claude-sonnet-4-5"), "high")
	cfg.HTTPClient = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
	})}
	m, err := anthropic.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// BenchmarkStreamedChunk measures one text delta: ns per chunk.
func BenchmarkStreamedChunk(b *testing.B) {
	const chunks = 5000
	var body strings.Builder
	body.WriteString("data: " + start + "\n\ndata: " + text0 + "\n\n")
	for range chunks {
		body.WriteString("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" a few words\"}}\n\n")
	}
	body.WriteString("data: " + end("end_turn") + "\n\ndata: " + stop + "\n\n")
	m, req := canned(b, body.String()), llmtest.Request(ignore)
	b.ReportAllocs()
	for b.Loop() {
		do(b, m, req)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/chunks, "ns/chunk")
}

// BenchmarkCall measures one call with a history of 200 messages, half of them
// answers with thinking.
func BenchmarkCall(b *testing.B) {
	m := canned(b, "data: "+strings.Join([]string{start, text0, hi, end("end_turn"), stop}, "\n\ndata: ")+"\n\n")
	made := canned(b, "data: "+strings.Join(interleaved, "\n\ndata: ")+"\n\n")
	req := llmtest.Request(ignore)
	for i := 0; len(req.Messages) < 200; i++ {
		resp := do(b, made, llmtest.Request(ignore))
		for j := range resp.Message.ToolCalls {
			resp.Message.ToolCalls[j].ID += fmt.Sprint("_", i)
		}
		req.Messages = append(req.Messages, resp.Message)
		for _, c := range resp.Message.ToolCalls {
			req.Messages = append(req.Messages, result(c.ID, content.Text(strings.Repeat("a line of output\n", 60))))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		do(b, m, req)
	}
}
