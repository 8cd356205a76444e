package anthropic_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/anthropic"
	"parley/internal/llm/llmtest"
)

// interleaved is an answer that thinks, says, calls, thinks again and calls.
var interleaved = []string{
	`{"type":"message_start","message":{"id":"msg_1","type":"message","usage":{"input_tokens":3,"output_tokens":1}}}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":"","extra":[1]}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"first "}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"<thought>"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`,
	`{"type":"content_block_stop","index":0}`,
	`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"ZGF0YQ=="}}`,
	`{"type":"content_block_stop","index":1}`,
	`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"I look."}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{}}}`,
	`{"type":"content_block_stop","index":2}`,
	`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_a","name":"terminal","input":{}}}`,
	`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"command\":"}}`,
	`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"\"a\"}"}}`,
	`{"type":"content_block_stop","index":3}`,
	`{"type":"content_block_start","index":4,"content_block":{"type":"thinking","thinking":"second","signature":"c2ln2"}}`,
	`{"type":"content_block_stop","index":4}`,
	`{"type":"content_block_start","index":5,"content_block":{"type":"text","text":"And more."}}`,
	`{"type":"content_block_stop","index":5}`,
	`{"type":"content_block_start","index":6,"content_block":{"type":"tool_use","id":"toolu_b","name":"terminal","input":{"command":"b"}}}`,
	`{"type":"content_block_stop","index":6}`,
	`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}`,
	`{"type":"message_stop"}`,
}

// replayed sends an answer back to the model that cfg describes, under the same
// address as the one that made it, and returns the blocks of that turn.
func replayed(t *testing.T, cfg anthropic.Config, change func(*content.Message)) string {
	t.Helper()
	first := raw(t, cfg, 200, "text/event-stream", "data: "+strings.Join(interleaved, "\n\ndata: ")+"\n\n")
	req := llmtest.Request(ignore)
	resp := do(t, first, req)
	if change != nil {
		change(&resp.Message)
	}
	return sentTurn(t, first, appended(req, resp))
}

// sentTurn returns the blocks of the first assistant's turn as m sends it.
func sentTurn(t *testing.T, m *anthropic.Model, req *llm.Request) string {
	t.Helper()
	body, err := m.Encode(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := content.Marshal(member(t, string(body), "messages", 1, "content"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const (
	thought1 = `{"extra":[1],"signature":"c2ln","thinking":"first <thought>","type":"thinking"}`
	redacted = `{"data":"ZGF0YQ==","type":"redacted_thinking"}`
	text1    = `{"text":"I look.","type":"text"}`
	call1    = `{"id":"toolu_a","input":{"command":"a"},"name":"terminal","type":"tool_use"}`
	thought2 = `{"signature":"c2ln2","thinking":"second","type":"thinking"}`
	text2    = `{"text":"And more.","type":"text"}`
	call2    = `{"id":"toolu_b","input":{"command":"b"},"name":"terminal","type":"tool_use"}`
)

func TestThinkingGoesBackInItsPlace(t *testing.T) {
	tests := []struct {
		name   string
		change func(*content.Message)
		want   []string
	}{
		{"as it came", nil, []string{thought1, redacted, text1, call1, thought2, text2, call2}},
		{"the last call was dropped", func(m *content.Message) { m.ToolCalls = m.ToolCalls[:1] },
			[]string{thought1, redacted, text1, text2, call1}},
		{"the first call was dropped", func(m *content.Message) { m.ToolCalls = m.ToolCalls[1:] },
			[]string{thought1, redacted, text1, text2, call2}},
		{"all calls were dropped", func(m *content.Message) { m.ToolCalls = nil }, []string{thought1, redacted, text1, text2}},
		{"the text was masked", func(m *content.Message) { m.Parts = []content.Part{content.Text("I ***.")} },
			[]string{thought1, redacted, `{"text":"I ***.","type":"text"}`, call1, thought2, call2}},
		{"the text is gone", func(m *content.Message) { m.Parts = nil }, []string{thought1, redacted, call1, thought2, call2}},
		{"a call was added", func(m *content.Message) {
			m.ToolCalls = append(m.ToolCalls, content.ToolCall{ID: "new", Name: "terminal", Arguments: "{}"})
		}, []string{thought1, redacted, text1, call1, thought2, text2, call2, `{"id":"new","input":{},"name":"terminal","type":"tool_use"}`}},
		{"another source", func(m *content.Message) { m.Extra["_source"] = json.RawMessage(`"chat x"`) },
			[]string{`{"text":"I look.\n\nAnd more.","type":"text"}`, call1, call2}},
		{"no source", func(m *content.Message) { delete(m.Extra, "_source") },
			[]string{`{"text":"I look.\n\nAnd more.","type":"text"}`, call1, call2}},
		{"a broken layout", func(m *content.Message) { m.Extra["content"] = json.RawMessage(`{"a":1}`) },
			[]string{`{"text":"I look.\n\nAnd more.","type":"text"}`, call1, call2}},
		{"odd entries", func(m *content.Message) {
			m.Extra["content"] = json.RawMessage(`[1,null,"x",{"type":"text","at":-5,"len":3},{"type":"text","at":0,"len":18},{"type":"tool_use","id":"toolu_a"},{"type":"tool_use","id":"toolu_a"}]`)
		}, []string{`{"text":"I look.\n\nAnd more.","type":"text"}`, call1, call2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := replayed(t, thinking(config("claude-sonnet-4-5"), "high"), tt.change)
			if d := cmp.Diff("["+strings.Join(tt.want, ",")+"]", got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

// The signature of one model says nothing to another.
func TestThinkingStaysWithItsModel(t *testing.T) {
	made := raw(t, config("claude-sonnet-4-5"), 200, "text/event-stream", "data: "+strings.Join(interleaved, "\n\ndata: ")+"\n\n")
	req := llmtest.Request(ignore)
	resp := do(t, made, req)
	other, err := anthropic.New(config("claude-opus-5"))
	if err != nil {
		t.Fatal(err)
	}
	if got := sentTurn(t, other, appended(req, resp)); strings.Contains(got, "thinking") {
		t.Errorf("%s", got)
	}
}

// What is shown and what is stored are the same, texts set apart where something
// was between them.
func TestInterleavedAnswer(t *testing.T) {
	resp, err := streamed(t, interleaved...)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Message.Text() != "I look.\n\nAnd more." || resp.Message.Reasoning != "first <thought>\n\nsecond" || resp.FinishReason != "tool_calls" ||
		resp.ID != "msg_1" || resp.Usage.PromptTokens != 3 || resp.Usage.CompletionTokens != 9 {
		t.Errorf("%+v", resp)
	}
}

// Thinking that was cut off before its signature would be refused; so would an
// answer that is nothing else.
func TestUnsignedThinkingStaysHome(t *testing.T) {
	for model, goesBack := range map[string]bool{"claude-sonnet-4-5": false, "minimax-m2": true} {
		m := raw(t, config(model), 200, "application/json", `{"type":"message","content":[{"type":"thinking","thinking":"cut"},{"type":"text","text":"hi"}],"stop_reason":"end_turn"}`)
		resp := do(t, m, llmtest.Request(nil))
		if got := resp.Message.Extra != nil; got != goesBack {
			t.Errorf("%s: %s", model, resp.Message.Extra)
		}
	}
}
