package anthropic_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
)

const (
	start = `{"type":"message_start","message":{"id":"m1","type":"message","usage":{"input_tokens":5,"cache_read_input_tokens":3,"cache_creation_input_tokens":2,"output_tokens":1}}}`
	hi    = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`
	text0 = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	tool0 = `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"x","input":{}}}`
	stop  = `{"type":"message_stop"}`
)

func end(reason string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `"},"usage":{"output_tokens":7}}`
}

func TestStreamDialects(t *testing.T) {
	tests := map[string][]string{
		"as documented":          {start, `{"type":"ping"}`, text0, hi, `{"type":"content_block_stop","index":0}`, end("end_turn"), stop},
		"no message_stop":        {start, text0, hi, end("end_turn")},
		"[DONE]":                 {start, text0, hi, end("end_turn"), "[DONE]"},
		"no stop reason":         {start, text0, hi, `{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":7}}`, stop},
		"a block unannounced":    {start, hi, end("stop_sequence"), stop},
		"text at the start":      {start, strings.Replace(text0, `""`, `"hi"`, 1), end("end_turn"), stop},
		"unknown events, blocks": {start, `{"type":"news","x":1}`, `{"type":"content_block_start","index":9,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}`, `{"type":"content_block_delta","index":9,"delta":{"type":"input_json_delta","partial_json":"{}"}}`, `{"type":"content_block_delta","index":9,"delta":{"type":"novel_delta"}}`, text0, hi, end("pause_turn"), stop},
		"wrong types":            {start, text0, strings.Replace(hi, `"index":0`, `"index":"0"`, 1), `{"type":"content_block_stop","index":null}`, end("end_turn"), stop},
		"usage in message_delta": {`{"type":"message_start","message":{"id":"m1","usage":{"input_tokens":0,"output_tokens":0}}}`, text0, hi, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":5,"cache_read_input_tokens":3,"cache_creation_input_tokens":2,"output_tokens":7}}`, stop},
		"usage null at the end":  {start, text0, hi, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":7}}`, stop},
		"delta after the reason": {start, text0, strings.Replace(hi, "hi", "h", 1), end("end_turn"), strings.Replace(hi, "hi", "i", 1), stop},
		"error null":             {strings.Replace(start, `{"type"`, `{"error":null,"type"`, 1), text0, hi, end("end_turn"), stop},
	}
	for name, events := range tests {
		t.Run(name, func(t *testing.T) {
			resp, err := streamed(t, events...)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Message.Text() != "hi" || resp.FinishReason != "stop" || resp.ID != "m1" || resp.Message.Extra != nil {
				t.Errorf("%+v", resp)
			}
			if u := resp.Usage; u.PromptTokens != 10 || u.CacheReadTokens != 3 || u.CacheWriteTokens != 2 || u.CompletionTokens != 7 {
				t.Errorf("usage %+v", u)
			}
		})
	}
}

// TestThinkingTwice: a gateway that begins a block with the first piece and then
// sends it again does not spoil the thinking, whose signature covers its text.
func TestThinkingTwice(t *testing.T) {
	think := func(s string) string {
		return `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"` + s + `"}}`
	}
	begin := `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"hm","signature":""}}`
	text1 := `{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"hi"}}`
	for want, pieces := range map[string][]string{"hm": {think("hm")}, "hmhm": {think("hm"), think("hm")}, "hm so": {think(" so")}, "hm so hm": {think("hm"), think(" so "), think("hm")}} {
		events := append(append([]string{start, begin}, pieces...), text1, end("end_turn"), stop)
		resp, err := streamed(t, events...)
		if err != nil || resp.Message.Reasoning != want {
			t.Errorf("%q: %+v, %v", want, resp, err)
		}
	}
}

func TestStreamedCalls(t *testing.T) {
	input := func(i, s string) string {
		return `{"type":"content_block_delta","index":` + i + `,"delta":{"type":"input_json_delta","partial_json":` + s + `}}`
	}
	tool1 := strings.NewReplacer(`"index":0`, `"index":1`, `"t"`, `"u"`).Replace(tool0)
	tests := map[string]struct {
		events []string
		want   []string
	}{
		"pieces, mixed":           {[]string{tool0, tool1, input("1", `"{\"b\":"`), input("0", `"{\"a\":1}"`), input("1", `"2}"`)}, []string{`t x {"a":1}`, `u x {"b":2}`}},
		"whole at the start":      {[]string{strings.Replace(tool0, "{}", `{"a": 1}`, 1)}, []string{`t x {"a": 1}`}},
		"no arguments":            {[]string{tool0, input("0", `""`)}, []string{`t x {}`}},
		"the same index":          {[]string{tool0, input("0", `"{\"a\":1}"`), strings.Replace(tool1, `"index":1`, `"index":0`, 1), input("0", `"{\"b\":2}"`)}, []string{`t x {"a":1}`, `u x {"b":2}`}},
		"half, cut by the length": {[]string{tool0, input("0", `"{\"a"`)}, []string{`t x {"a`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			resp, err := streamed(t, append(append([]string{start}, tt.events...), end("tool_use"), stop)...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range resp.Message.ToolCalls {
				got = append(got, c.ID+" "+c.Name+" "+c.Arguments)
			}
			if d := cmp.Diff(tt.want, got); d != "" || resp.FinishReason != "tool_calls" {
				t.Errorf("%s (-want +got)\n%s", resp.FinishReason, d)
			}
		})
	}
}

// An id that the history has already gets another one.
func TestCallIDsAreNew(t *testing.T) {
	call := content.ToolCall{ID: "t", Name: "terminal", Arguments: "{}"}
	e := serve(t, config("claude-sonnet-4-5"), llmtest.Reply{Calls: []content.ToolCall{call}})
	req := llmtest.Request(nil)
	req.Messages = append(req.Messages, called(call), result("t", content.Text("x")))
	if id := do(t, e.model, req).Message.ToolCalls[0].ID; id == "t" || id == "" {
		t.Errorf("id %q", id)
	}
}

func TestStopReasons(t *testing.T) {
	for reason, want := range map[string]string{"end_turn": "stop", "tool_use": "stop", "max_tokens": "length", "stop_sequence": "stop", "pause_turn": "stop",
		"refusal": "content_filter", "model_context_window_exceeded": "length", "novel": "novel"} {
		resp, err := streamed(t, start, text0, hi, end(reason), stop)
		if err != nil || resp.FinishReason != want {
			t.Errorf("%s: %v, %v", reason, resp, err)
		}
	}
	for reason, class := range map[string]llm.Class{"refusal": llm.ClassContentPolicy, "model_context_window_exceeded": llm.ClassContext, "end_turn": llm.ClassNoResponse} {
		var e *llm.Error
		if _, err := streamed(t, start, text0, end(reason), stop); !errors.As(err, &e) || e.Class != class {
			t.Errorf("%s without content: %v", reason, err)
		}
	}
	if resp, err := streamed(t, start, end("max_tokens"), stop); err != nil || resp.FinishReason != "length" {
		t.Errorf("nothing but thinking within the bound: %v", err)
	}
}

func TestBrokenAnswers(t *testing.T) {
	tests := []struct {
		name   string
		kind   string
		body   string
		class  llm.Class
		status int
	}{
		{"ends before the reason", "text/event-stream", "data: " + start + "\n\ndata: " + hi + "\n\n", llm.ClassNetwork, 200},
		{"empty stream", "text/event-stream", "", llm.ClassNetwork, 200},
		{"half a call, ended in order", "text/event-stream", "data: " + start + "\n\ndata: " + tool0 + "\n\ndata: " + `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a"}}` + "\n\ndata: " + stop + "\n\n", llm.ClassNetwork, 200},
		{"overloaded", "text/event-stream", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n", llm.ClassOverloaded, 200},
		{"rate limit in the stream", "text/event-stream", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"slow\"}}\n\n", llm.ClassRateLimit, 200},
		{"api_error", "text/event-stream", "data: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"Internal server error\"}}\n\n", llm.ClassOverloaded, 200},
		{"error without type", "text/event-stream", "data: {\"error\":{\"message\":\"prompt is too long: 5\"}}\n\n", llm.ClassContext, 200},
		{"a page", "text/event-stream", "data: <html><title>502 Bad Gateway</title></html>\n\n", llm.ClassOverloaded, 200},
		{"half an event", "text/event-stream", "data: {\"type\":\"mess", llm.ClassNetwork, 200},
		{"whole error", "application/json", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, llm.ClassOverloaded, 200},
		{"no JSON", "application/json", `<p>`, llm.ClassNetwork, 200},
		{"empty", "application/json", ``, llm.ClassNoResponse, 200},
		{"empty stream in order", "text/event-stream", "data: {\"type\":\"ping\"}\n\ndata: " + stop + "\n\n", llm.ClassNoResponse, 200},
		{"no content", "application/json", `{"type":"message","content":[],"stop_reason":"end_turn"}`, llm.ClassNoResponse, 200},
		{"key", "application/json", `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key sk-ant-0123456789"}}`, llm.ClassAuth, 401},
		{"permission", "application/json", `{"type":"error","error":{"type":"permission_error","message":"no"}}`, llm.ClassAuth, 403},
		{"model", "application/json", `{"type":"error","error":{"type":"not_found_error","message":"model: x"}}`, llm.ClassBadRequest, 404},
		{"too large", "application/json", `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, llm.ClassContext, 413},
		{"too long", "application/json", `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, llm.ClassContext, 400},
		{"credit", "application/json", `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`, llm.ClassQuota, 400},
		{"unanswered", "application/json", "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"messages.1: `tool_use` ids were found without `tool_result` blocks\"}}", llm.ClassMalformed, 400},
		{"overloaded", "application/json", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, llm.ClassOverloaded, 529},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := raw(t, config("claude-sonnet-4-5"), tt.status, tt.kind, tt.body).Do(t.Context(), llmtest.Request(ignore))
			var e *llm.Error
			if !errors.As(err, &e) || e.Class != tt.class || e.Message == "" || strings.Contains(e.Message, "sk-ant") {
				t.Errorf("%#v", err)
			}
		})
	}
}

// A stream under a wrong content type, and a document where a stream was asked for.
func TestWrongContentTypes(t *testing.T) {
	events := "event: message_start\ndata: " + start + "\n\nevent: x\ndata: " + text0 + "\n\ndata: " + hi + "\n\ndata: " + end("end_turn") + "\n\n"
	whole := `{"id":"m","type":"message","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}`
	for kind, body := range map[string]string{"application/json": events, "application/json; charset=utf-8": whole, "": whole} {
		shown := ""
		m := raw(t, config("claude-sonnet-4-5"), 200, kind, body)
		resp := do(t, m, llmtest.Request(func(d llm.Delta) { shown += d.Text }))
		if resp.Message.Text() != "hi" || shown != "hi" {
			t.Errorf("%s: %+v, shown %q", kind, resp.Message, shown)
		}
	}
}

func TestCost(t *testing.T) {
	minutes := &llm.Price{Input: 4e-6, CacheRead: 4e-7, CacheWrite: 5e-6, Output: 2e-5}
	hour := *minutes
	hour.CacheWrite = 8e-6
	long := *minutes
	long.LongFrom, long.Long = 100, &llm.Price{Input: 8e-6, CacheRead: 8e-7, CacheWrite: 1e-5, Output: 3e-5}
	const plain = `"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":1000,"output_tokens":20`
	base := 10*4e-6 + 100*4e-7 + 20*2e-5
	tests := []struct {
		name      string
		price     *llm.Price
		retention string
		usage     string
		want      float64
		write     float64 // the price a reservation reckons with
	}{
		{"minutes", minutes, "", plain, base + 1000*5e-6, 5e-6},
		{"24h means the default", minutes, "24h", plain, base + 1000*5e-6, 5e-6},
		{"an hour", minutes, "1h", plain, base + 1000*8e-6, 8e-6},
		{"an hour, from a table for it", &hour, "1h", plain, base + 1000*8e-6, 8e-6},
		{"mixed", minutes, "1h", plain + `,"cache_creation":{"ephemeral_5m_input_tokens":400,"ephemeral_1h_input_tokens":600}`, base + 400*5e-6 + 600*8e-6, 8e-6},
		{"mixed, from a table for hours", &hour, "1h", plain + `,"cache_creation":{"ephemeral_5m_input_tokens":400,"ephemeral_1h_input_tokens":600}`, base + 400*5e-6 + 600*8e-6, 8e-6},
		{"the endpoint ignored the hour", minutes, "1h", plain + `,"cache_creation":{"ephemeral_5m_input_tokens":1000,"ephemeral_1h_input_tokens":0}`, base + 1000*5e-6, 8e-6},
		{"more hours than writes", minutes, "1h", plain + `,"cache_creation":{"ephemeral_1h_input_tokens":99999}`, base + 1000*8e-6, 8e-6},
		{"a long prompt", &long, "1h", plain, 10*8e-6 + 100*8e-7 + 1000*16e-6 + 20*3e-5, 8e-6},
		{"the gateway's figure", minutes, "1h", plain + `,"cost":0.5`, 0.5, 8e-6},
		{"no price for writing", &llm.Price{Input: 4e-6, CacheRead: 4e-7, Output: 2e-5}, "", plain, base + 1000*5e-6, 5e-6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config("claude-opus-5-5")
			cfg.Price, cfg.CacheRetention = tt.price, tt.retention
			m := raw(t, cfg, 200, "application/json", `{"type":"message","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{`+tt.usage+`}}`)
			resp := do(t, m, llmtest.Request(nil))
			if resp.Cost == nil || *resp.Cost < tt.want*(1-1e-9) || *resp.Cost > tt.want*(1+1e-9) {
				t.Errorf("cost %v, want %v", resp.Cost, tt.want)
			}
			if got := m.Info().Price.CacheWrite; got < tt.write*(1-1e-9) || got > tt.write*(1+1e-9) {
				t.Errorf("the price of writing is %v, want %v", got, tt.write)
			}
			if resp.Usage.PromptTokens != 1110 || resp.Usage.CacheWriteTokens != 1000 {
				t.Errorf("usage %+v", resp.Usage)
			}
		})
	}
	unpriced := raw(t, config("x"), 200, "application/json", `{"type":"message","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{`+plain+`}}`)
	if resp := do(t, unpriced, llmtest.Request(nil)); resp.Cost != nil || unpriced.Info().Price != nil {
		t.Error("a cost without a price")
	}
	silent := config("claude-opus-5-5")
	silent.Price = minutes
	if resp := do(t, raw(t, silent, 200, "application/json", `{"type":"message","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn"}`), llmtest.Request(nil)); resp.Cost != nil {
		t.Error("a cost without usage")
	}
}
