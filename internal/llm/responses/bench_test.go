package responses_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/responses"
	"parley/internal/llm/wire"
)

// BenchmarkStreamedChunk is the adapter's own cost of one piece of a text. An
// answer has a bound, so that it takes several for many pieces.
func BenchmarkStreamedChunk(b *testing.B) {
	chunk := []byte("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":4,\"item_id\":\"msg_0123456789abcdef\"," +
		"\"output_index\":0,\"content_index\":0,\"delta\":\" hello\",\"logprobs\":[],\"obfuscation\":\"abcdefgh\"}\n\n")
	size := 0
	client := &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
		body := io.MultiReader(&repeat{chunk: chunk, left: size}, strings.NewReader("data: "+ended+"\n\n"))
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(body)}, nil
	})}
	m, err := responses.New(responses.Config{ModelConfig: wire.ModelConfig{Model: "m", HTTPClient: client}})
	if err != nil {
		b.Fatal(err)
	}
	shown := 0
	req := llmtest.Request(func(llm.Delta) { shown++ })
	b.ReportAllocs()
	b.SetBytes(int64(len(chunk)))
	b.ResetTimer()
	for left := b.N; left > 0; left -= size {
		size = min(left, 10_000)
		if _, err := m.Do(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
	if shown != b.N {
		b.Fatalf("%d of %d pieces", shown, b.N)
	}
}

// repeat reads as a chunk, left times.
type repeat struct {
	chunk []byte
	at    int
	left  int
}

func (r *repeat) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.chunk[r.at:])
	if r.at += n; r.at == len(r.chunk) {
		r.at, r.left = 0, r.left-1
	}
	return n, nil
}

// BenchmarkCall is the adapter's own cost of a whole call of a conversation of
// 100 turns with thoughts and tools.
func BenchmarkCall(b *testing.B) {
	var sizes int
	answer := `{"id":"r","status":"completed","output":[{"type":"reasoning","id":"rs_%[1]d","summary":[],"encrypted_content":"` + strings.Repeat("x", 1000) +
		`"},{"type":"function_call","id":"fc_%[1]d","call_id":"c%[1]d","name":"terminal","arguments":"{\"command\":\"ls -l\"}"}],"usage":{"input_tokens":1000,"output_tokens":50}}`
	turn := 0
	client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		n, err := io.Copy(io.Discard, r.Body)
		sizes = int(n)
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(bytes.NewReader(fmt.Appendf(nil, answer, turn)))}, err
	})}
	m, err := responses.New(responses.Config{ModelConfig: wire.ModelConfig{Model: "m", Reasoning: true, HTTPClient: client}})
	if err != nil {
		b.Fatal(err)
	}
	req := llmtest.Request(nil)
	for range 100 {
		turn++
		resp, err := m.Do(b.Context(), req)
		if err != nil {
			b.Fatal(err)
		}
		req.Messages = append(req.Messages, resp.Message, content.Message{Role: content.RoleTool, ToolCallID: resp.Message.ToolCalls[0].ID,
			Parts: []content.Part{content.Text(strings.Repeat("output ", 200))}})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Do(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(sizes))
}
