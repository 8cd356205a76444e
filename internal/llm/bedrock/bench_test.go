package bedrock_test

import (
	"fmt"
	"strings"
	"testing"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
)

// BenchmarkStreamedChunk is the adapter's own cost of one streamed piece of text.
func BenchmarkStreamedChunk(b *testing.B) {
	const chunks = 1000
	var events []string
	for i := range chunks {
		events = append(events, "contentBlockDelta", fmt.Sprintf(`{"contentBlockIndex":0,"delta":{"text":" word%d"},"p":"abcdefghijk"}`, i))
	}
	events = append(events, "messageStop", `{"stopReason":"end_turn"}`, "metadata", `{"usage":{"inputTokens":10,"outputTokens":1000}}`)
	m := canned(b, frames(events...))
	req := llmtest.Request(func(llm.Delta) {})
	b.ReportAllocs()
	for i := 0; i < b.N; i += chunks {
		if _, err := m.Do(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCall is the adapter's own cost of a call with a history of 100 messages
// and 20 tools: rendering, signing, reading a short answer.
func BenchmarkCall(b *testing.B) {
	m := canned(b, []byte(`{"output":{"message":{"role":"assistant","content":[{"text":"done"}]}},"stopReason":"end_turn","usage":{"inputTokens":10,"outputTokens":2}}`))
	req := llmtest.Request(nil)
	for i := range 33 {
		id := fmt.Sprintf("call_%d", i)
		req.Messages = append(req.Messages, say(content.RoleUser, "Do it again."),
			content.Message{Role: content.RoleAssistant, ToolCalls: []content.ToolCall{{ID: id, Name: "terminal", Arguments: `{"command":"make test"}`}}},
			content.Message{Role: content.RoleTool, ToolCallID: id, Parts: []content.Part{content.Text(strings.Repeat("ok line\n", 100))}})
	}
	for i := range 19 {
		t := req.Tools[0]
		t.Name = fmt.Sprintf("tool_%d", i)
		req.Tools = append(req.Tools, t)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Do(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}
