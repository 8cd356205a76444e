package bedrock_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/internal/account"
	"parley/internal/llm"
	"parley/internal/llm/bedrock"
	"parley/internal/llm/llmtest"
)

// FuzzAnswer feeds arbitrary answers: whatever comes, the result is a usable
// response or a classified error, and the deltas are the text.
func FuzzAnswer(f *testing.F) {
	f.Add(frames("messageStart", `{}`, "contentBlockDelta", `{"delta":{"text":"x"}}`, "messageStop", `{"stopReason":"end_turn"}`, "metadata", `{"usage":{"inputTokens":1}}`))
	f.Add(frames("contentBlockStart", `{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"a","name":"n"}}}`,
		"contentBlockDelta", `{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{}"}}}`, "messageStop", `{"stopReason":"tool_use"}`))
	f.Add(frames("contentBlockDelta", `{"delta":{"reasoningContent":{"text":"x"}}}`, "contentBlockDelta", `{"delta":{"reasoningContent":{"signature":"x"}}}`,
		"contentBlockDelta", `{"contentBlockIndex":1,"delta":{"text":"a"}}`, "contentBlockDelta", `{"contentBlockIndex":2,"delta":{"text":"b"}}`, "messageStop", `{}`))
	f.Add(exception("throttlingException", `{"message":"x"}`))
	f.Add([]byte(`{"output":{"message":{"content":[{"text":"x"},{"toolUse":{"name":"n","input":{}}},{"reasoningContent":{"redactedContent":"AA"}}]}},"usage":{"inputTokens":"7"}}`))
	f.Add([]byte(`{"message":"x"}`))
	f.Fuzz(func(t *testing.T, body []byte) { checkAnswer(t, body) })
}

// FuzzEvents feeds arbitrary payloads in frames whose checksums are right.
func FuzzEvents(f *testing.F) {
	f.Add("contentBlockDelta", `{"delta":{"text":"x"}}`, "messageStop", `{"stopReason":"end_turn"}`)
	f.Add("contentBlockStart", `{"start":{"toolUse":{"toolUseId":"a","name":"n","input":{}}}}`, "messageStop", `{"stopReason":"tool_use"}`)
	f.Add("contentBlockDelta", `{"contentBlockIndex":-7,"delta":{"reasoningContent":{"reasoningText":{"text":"x","signature":"y"}}}}`, "metadata", `{"usage":[]}`)
	f.Add("messageStart", `null`, "messageStop", `7`)
	f.Fuzz(func(t *testing.T, kind, payload, kind2, payload2 string) {
		if len(kind) > 200 || len(kind2) > 200 {
			return
		}
		checkAnswer(t, append(frames(kind, payload, kind2, payload2), frames("messageStop", `{"stopReason":"end_turn"}`)...))
	})
}

// canned is a model whose endpoint answers with those bytes at once.
func canned(t testing.TB, body []byte) *bedrock.Model {
	t.Helper()
	cfg := bedrock.Config{Region: "us-east-1", AccessKeyID: account.NewSecret("AKIA"), SecretAccessKey: account.NewSecret("secretsecret")}
	cfg.Model = claudeID
	cfg.HTTPClient = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		_, _ = io.Copy(io.Discard, r.Body)
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body))}, nil
	})}
	m, err := bedrock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func answerTo(t *testing.T, body []byte) (resp *llm.Response, said string, err error) {
	t.Helper()
	resp, err = canned(t, body).Do(t.Context(), llmtest.Request(func(d llm.Delta) { said += d.Text }))
	return resp, said, err
}

func checkAnswer(t *testing.T, body []byte) {
	t.Helper()
	m := canned(t, body)
	var said, thought strings.Builder
	req := llmtest.Request(func(d llm.Delta) {
		said.WriteString(d.Text)
		thought.WriteString(d.Reasoning)
	})
	resp, err := m.Do(t.Context(), req)
	if err != nil {
		var e *llm.Error
		if !errors.As(err, &e) || e.Message == "" || e.Streamed != (said.Len()+thought.Len() > 0) {
			t.Fatalf("got %#v, said %q", err, said.String())
		}
		return
	}
	if resp.Message.Text() != said.String() || !utf8.ValidString(said.String()) || resp.Message.Reasoning != thought.String() {
		t.Fatalf("message %q, deltas %q; reasoning %q, %q", resp.Message.Text(), said.String(), resp.Message.Reasoning, thought.String())
	}
	ids := map[string]bool{}
	for _, c := range resp.Message.ToolCalls {
		if c.ID == "" || ids[c.ID] || c.Arguments == "" {
			t.Fatalf("call %+v", c)
		}
		ids[c.ID] = true
	}
	// The answer can be sent back.
	req.Messages = append(req.Messages, resp.Message)
	if _, err := m.Do(t.Context(), req); err != nil {
		var e *llm.Error
		if !errors.As(err, &e) || e.Class == llm.ClassMalformed && e.NotSent {
			t.Fatalf("the answer cannot be encoded: %v", err)
		}
	}
}
