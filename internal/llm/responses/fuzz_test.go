package responses_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/responses"
	"parley/internal/llm/wire"
)

// answering is a client whose every call is answered alike.
func answering(kind, body string) *http.Client {
	return &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body))}, nil
	})}
}

// FuzzAnswer feeds arbitrary answers: whatever comes, the result is a usable
// response or a classified error, and the response can be sent back.
func FuzzAnswer(f *testing.F) {
	f.Add(true, events(`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"c","name":"f"}}`,
		`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{}"}`, `{"type":"response.output_text.delta","output_index":1,"delta":"x"}`,
		`{"type":"response.output_item.done","output_index":2,"item":{"type":"reasoning","id":"rs_1","summary":[{"text":"x"}],"encrypted_content":"y"}}`, ended))
	f.Add(true, events(`{"type":"response.failed","response":{"error":{"code":"x","message":"y"}}}`))
	f.Add(true, "event: error\r\ndata: x\r\n\r\n")
	f.Add(false, `{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":"7"},"output":[`+
		`{"type":"reasoning","content":[{"type":"reasoning_text","text":"a"}]},{"type":"message","id":"m","phase":"p","content":[{"text":"b"},{"refusal":"c"}]},`+
		`{"type":"function_call","name":"n","arguments":{}},{"type":"web_search_call","id":"w"}]}`)
	f.Add(false, `{"error":{"message":"x"}}`)
	f.Fuzz(func(t *testing.T, stream bool, body string) {
		kind := "application/json"
		if stream {
			kind = "text/event-stream"
		}
		m, err := responses.New(responses.Config{ModelConfig: wire.ModelConfig{Model: "m", HTTPClient: answering(kind, body)}})
		if err != nil {
			t.Fatal(err)
		}
		shown := 0
		req := llmtest.Request(func(d llm.Delta) { shown += len(d.Text) + len(d.Reasoning) })
		resp, err := m.Do(t.Context(), req)
		if err != nil {
			var e *llm.Error
			if !errors.As(err, &e) || e.Message == "" || e.Streamed != (shown > 0) {
				t.Fatalf("unclassified: %v", err)
			}
			return
		}
		ids := map[string]bool{}
		for _, c := range resp.Message.ToolCalls {
			if c.ID == "" || ids[c.ID] || c.Arguments == "" {
				t.Fatalf("call %+v", c)
			}
			ids[c.ID] = true
		}
		if !utf8.ValidString(resp.Message.Text()) {
			t.Fatalf("text %q", resp.Message.Text())
		}
		for key, raw := range resp.Message.Extra {
			if !json.Valid(raw) {
				t.Fatalf("%s: %s", key, raw)
			}
		}
		answered(req, resp.Message)
		if _, err := m.Do(t.Context(), req); err != nil {
			t.Fatalf("the answer cannot be sent back: %v", err)
		}
	})
}
