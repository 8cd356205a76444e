package anthropic_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/internal/llm"
	"parley/internal/llm/anthropic"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/anthropictest"
)

// FuzzAnswer: any bytes are an answer or a classified error; what is shown is
// what is stored; and the answer goes back as a history that is accepted.
func FuzzAnswer(f *testing.F) {
	f.Add(true, "data: "+strings.Join(interleaved, "\n\ndata: ")+"\n\n")
	f.Add(true, "event: message_start\r\ndata: "+start+"\r\n\r\ndata: "+hi+"\r\n\r\ndata: "+end("max_tokens"))
	f.Add(true, "data: "+tool0+"\n\ndata: "+stop+"\n\n")
	f.Add(true, `data: {"type":"content_block_delta","index":1e9,"delta":{"type":"thinking_delta","thinking":"x"}}`)
	f.Add(false, `{"type":"message","content":[{"type":"thinking","thinking":"a","signature":"s"},{"type":"text","text":"\ud800"},{"type":"tool_use","name":"n","input":[1]}],"usage":{"input_tokens":"7","cost":-1}}`)
	f.Add(false, `{"error":{"message":"x"}}`)
	f.Fuzz(func(t *testing.T, stream bool, body string) {
		kind := "application/json"
		if stream {
			kind = "text/event-stream"
		}
		cfg := config("claude-sonnet-4-5")
		cfg.HTTPClient = &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body))}, nil
		})}
		m, err := anthropic.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var said, thought strings.Builder
		req := llmtest.Request(func(d llm.Delta) { said.WriteString(d.Text); thought.WriteString(d.Reasoning) })
		resp, err := m.Do(t.Context(), req)
		var e *llm.Error
		if err != nil {
			if !errors.As(err, &e) || e.Message == "" {
				t.Fatalf("unclassified: %v", err)
			}
			return
		}
		if resp.Message.Text() != said.String() || resp.Message.Reasoning != thought.String() || !utf8.ValidString(said.String()) {
			t.Fatalf("message %q, deltas %q", resp.Message.Text(), said.String())
		}
		ids := map[string]bool{}
		for _, c := range resp.Message.ToolCalls {
			if c.ID == "" || ids[c.ID] || c.Arguments == "" {
				t.Fatalf("call %+v", c)
			}
			ids[c.ID] = true
		}
		back, err := m.Encode(appended(req, resp))
		if err != nil {
			t.Fatal(err)
		}
		if problem := anthropictest.Problem(http.Header{"Anthropic-Version": {"x"}}, back); problem != "" && !ofTheEndpoint(problem) {
			t.Fatalf("the answer does not go back: %s\n%s", problem, back)
		}
	})
}

// ofTheEndpoint reports whether a problem is one of a thinking block that goes
// back as odd as it came.
func ofTheEndpoint(problem string) bool {
	for _, words := range []string{"Extra inputs", "cannot unmarshal", ".data: Field required", "Invalid `signature`"} {
		if strings.Contains(problem, words) {
			return true
		}
	}
	return false
}
