package gemini_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"parley/internal/llm"
	"parley/internal/llm/llmtest"
)

// BenchmarkStreamedChunk is the adapter's own cost of one streamed chunk.
func BenchmarkStreamedChunk(b *testing.B) {
	const chunks = 1000
	body := strings.Repeat("data: "+strings.Replace(chunk("", `{"text":"some words of an answer "}`), `"responseId"`,
		`"usageMetadata":{"promptTokenCount":12000,"candidatesTokenCount":120,"totalTokenCount":12120},"modelVersion":"gemini-3-flash","responseId"`, 1)+"\r\n\r\n", chunks-1) +
		events(chunk("STOP", `{"text":"end"}`))
	m := over(b, "gemini-3-flash-preview", answers(200, "text/event-stream", body))
	req := llmtest.Request(ignore)
	b.ReportAllocs()
	b.SetBytes(int64(len(body) / chunks))
	for n := 0; n < b.N; n += chunks {
		if _, err := m.Do(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCall is the adapter's own cost of a call with a long history and
// twenty tools.
func BenchmarkCall(b *testing.B) {
	m := over(b, "gemini-3-flash-preview", transport(func(r *http.Request) (*http.Response, error) {
		return answers(200, "application/json", whole("STOP", `{"text":"ok"}`))(r)
	}))
	req := llmtest.Request(nil)
	for i := range 20 {
		req.Tools = append(req.Tools, llm.Tool{Name: "tool_" + strconv.Itoa(i), Description: strings.Repeat("what it does ", 40),
			Parameters: []byte(`{"type":"object","properties":{"a":{"type":"string","description":"` + strings.Repeat("x", 300) + `"},"b":{"anyOf":[{"type":"integer"},{"type":"null"}]},"c":{"type":"array","items":{"type":"string"}}},"required":["a"]}`)})
	}
	for i := range 100 {
		id := strconv.Itoa(i)
		req.Messages = append(req.Messages, called("I look at it.", toolCall(id, `{"command":"ls -l"}`)), result(id, strings.Repeat("a line of output\n", 100)))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Do(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}
