package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/anthropic"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/anthropictest"
)

// gate refuses requests until they are as it wants them, in real endpoints' words.
type gate struct {
	refuse func(body string, h http.Header) string

	mu     sync.Mutex
	bodies []string
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := string(drain(r))
	g.mu.Lock()
	g.bodies = append(g.bodies, body)
	g.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if why := g.refuse(body, r.Header); why != "" {
		w.WriteHeader(http.StatusBadRequest)
		b, err := json.Marshal(why)
		if err != nil {
			return
		}
		_, _ = fmt.Fprintf(w, `{"type":"error","error":{"type":"invalid_request_error","message":%s}}`, b)
		return
	}
	_, _ = io.WriteString(w, `{"id":"m","type":"message","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)
}

func (g *gate) model(t *testing.T, cfg anthropic.Config) *anthropic.Model {
	t.Helper()
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	cfg.BaseURL, cfg.HTTPClient = s.URL, s.Client()
	m, err := anthropic.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRefusalsAreLearned: what an endpoint refuses is left out, once and for all.
func TestRefusalsAreLearned(t *testing.T) {
	half := 0.5
	hour := config("claude-sonnet-4-5")
	hour.CacheRetention, hour.Temperature = "1h", &half
	newer := hour
	newer.Headers = map[string]string{"anthropic-version": "2026-10-21"}
	when := func(has, why string) func(string, http.Header) string {
		return func(body string, _ http.Header) string {
			if strings.Contains(body, has) {
				return why
			}
			return ""
		}
	}
	tests := []struct {
		name   string
		cfg    anthropic.Config
		refuse func(string, http.Header) string
		calls  int // requests of the first Do
		has    string
	}{
		{"ttl", hour, when(`"ttl"`, "system.0.cache_control.ephemeral.ttl: Extra inputs are not permitted"), 2, "cache_control"},
		{"ttl header", hour, func(_ string, h http.Header) string {
			if strings.Contains(h.Get("Anthropic-Beta"), "ttl") {
				return "Unexpected value(s) `extended-cache-ttl-2025-04-11` for the `anthropic-beta` header."
			}
			return ""
		}, 2, "cache_control"},
		{"cache", hour, when(`cache_control`, "messages.0.content.0.cache_control: Extra inputs are not permitted"), 2, `"messages"`},
		{"sampling", hour, when(`temperature`, "`temperature` is deprecated for this model."), 2, "cache_control"},
		{"sampling in the newer version", newer, func(body string, h http.Header) string {
			return anthropictest.Problem(h, []byte(body))
		}, 2, "cache_control"},
		{"a gateway's model that does not think", thinking(config("my-alias"), "high"), when(`"thinking"`,
			"litellm.UnsupportedParamsError: gpt-4o doesn't support `reasoning.effort` (its model cost map entry lacks `supports_reasoning`)."), 2, `"messages"`},
		{"budget", thinking(config("my-alias"), "high"), when(`"enabled"`, `"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`), 2, `"effort":"high"`},
		{"adaptive", thinking(config("claude-next"), "high"), when(`"adaptive"`, "adaptive thinking is not supported on this model"), 2, `"budget_tokens":8191`},
		{"disabled", thinking(config("claude-opus-5"), "none"), when(`"disabled"`, `"thinking.type.disabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`), 2, `"effort":"low"`},
		{"display", thinking(config("claude-opus-5"), "high"), when(`"display"`, "thinking.adaptive.display: Extra inputs are not permitted"), 2, `"thinking":{"type":"adaptive"}`},
		{"effort", thinking(config("claude-opus-5"), "high"), when(`output_config`, "This model does not support the effort parameter."), 2, `"adaptive"`},
		{"thinking", thinking(config("my-alias"), "high"), when(`"thinking"`, "thinking: Extra inputs are not permitted"), 2, `"messages"`},
		{"all thinking", thinking(config("my-alias"), "high"), when(`"thinking"`, `"thinking.type.enabled" is not supported, "adaptive" neither`), 3, `"messages"`},
		{"interleaved", thinking(config("claude-sonnet-4-5"), "high"), func(_ string, h http.Header) string {
			if strings.Contains(h.Get("Anthropic-Beta"), "interleaved") {
				return "invalid beta flag"
			}
			return ""
		}, 2, `"budget_tokens"`},
		{"max_tokens", config("claude-3-haiku"), when(`"max_tokens":8192`, "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for claude-3-haiku"), 2, `"max_tokens":4096`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := &gate{refuse: tt.refuse}
			m := g.model(t, tt.cfg)
			do(t, m, llmtest.Request(nil))
			if len(g.bodies) != tt.calls || !strings.Contains(g.bodies[len(g.bodies)-1], tt.has) {
				t.Errorf("%d requests, the last: %s", len(g.bodies), g.bodies[len(g.bodies)-1])
			}
			do(t, m, llmtest.Request(nil))
			if len(g.bodies) != tt.calls+1 {
				t.Errorf("the second call took %d requests", len(g.bodies)-tt.calls)
			}
		})
	}
}

// A refusal that nothing helps against is told, after one call.
func TestOtherRefusalsAreTold(t *testing.T) {
	for _, why := range []string{"model: not allowed", "tools.0.custom: no", "messages.0: cache_control is nice"} {
		cfg := config("claude-sonnet-4-5")
		cfg.NoCache = true
		g := &gate{refuse: func(string, http.Header) string { return why }}
		_, err := g.model(t, cfg).Do(t.Context(), llmtest.Request(nil))
		var e *llm.Error
		if !errors.As(err, &e) || e.Status != 400 || !strings.Contains(e.Message, why) || len(g.bodies) != 1 {
			t.Errorf("%v after %d requests", err, len(g.bodies))
		}
	}
}

// An endpoint that minds everything is not asked for ever.
func TestRefusalsEnd(t *testing.T) {
	cfg := thinking(config("claude-opus-5"), "high")
	cfg.CacheRetention = "1h"
	g := &gate{refuse: func(string, http.Header) string {
		return "ttl cache_control display adaptive thinking effort temperature beta header"
	}}
	_, err := g.model(t, cfg).Do(t.Context(), llmtest.Request(nil))
	if err == nil || len(g.bodies) > 8 {
		t.Errorf("%v after %d requests", err, len(g.bodies))
	}
}

// Thinking whose signature does not hold any more, because the history before it
// was condensed, is left out from then on; what the model thinks later is not.
func TestStaleThinking(t *testing.T) {
	first := raw(t, thinking(config("claude-opus-5-5"), "high"), 200, "text/event-stream", "data: "+strings.Join(interleaved, "\n\ndata: ")+"\n\n")
	req := llmtest.Request(ignore)
	resp := do(t, first, req)
	g := &gate{refuse: func(body string, _ http.Header) string {
		if strings.Contains(body, "c2ln2") {
			return "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
		}
		return ""
	}}
	m := g.model(t, thinking(config("claude-opus-5-5"), "high"))
	old := appended(req, moved(t, resp, m))
	do(t, m, old)
	if len(g.bodies) != 2 || strings.Contains(g.bodies[1], "signature") || !strings.Contains(g.bodies[1], `"adaptive"`) {
		t.Fatalf("%d requests, the last: %s", len(g.bodies), g.bodies[len(g.bodies)-1])
	}
	later := *resp
	later.Message.Extra = map[string]json.RawMessage{"_source": resp.Message.Extra["_source"],
		"content": json.RawMessage(`[{"type":"thinking","thinking":"new","signature":"bmV3"},{"type":"text","at":0,"len":4}]`)}
	later.Message.Parts, later.Message.ToolCalls = []content.Part{content.Text("Fine")}, nil
	next := *old
	next.Messages = append(next.Messages, moved(t, &later, m).Message, said(content.RoleUser, "go on"))
	do(t, m, &next)
	if len(g.bodies) != 3 || !strings.Contains(g.bodies[2], "bmV3") || strings.Contains(g.bodies[2], "c2ln2") {
		t.Errorf("%d requests, the last: %s", len(g.bodies), g.bodies[len(g.bodies)-1])
	}
}

// moved says that an answer is m's own: tests have each server under its own
// address, which is a part of the source.
func moved(t *testing.T, resp *llm.Response, m *anthropic.Model) *llm.Response {
	t.Helper()
	source, err := json.Marshal(m.Source())
	if err != nil {
		t.Fatal(err)
	}
	out := *resp
	out.Message.Extra = map[string]json.RawMessage{"_source": source, "content": resp.Message.Extra["content"]}
	return &out
}

// Where the endpoint wants a turn to begin with thinking and it does not, the
// call is made without thinking; the next turn thinks again.
func TestTurnWithoutThinking(t *testing.T) {
	g := &gate{refuse: func(body string, _ http.Header) string {
		if strings.Contains(body, "budget_tokens") && strings.Contains(body, "tool_result") && strings.Contains(body, "halfway") {
			return "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block."
		}
		return ""
	}}
	m := g.model(t, thinking(config("claude-sonnet-4-5"), "high"))
	req := llmtest.Request(nil)
	req.Messages = append(req.Messages, called(content.ToolCall{ID: "a", Name: "terminal", Arguments: "{}"}), result("a", content.Text("1")), said(content.RoleUser, "halfway"))
	do(t, m, req)
	if len(g.bodies) != 2 || strings.Contains(g.bodies[1], "budget_tokens") {
		t.Errorf("%d requests, the last: %s", len(g.bodies), g.bodies[len(g.bodies)-1])
	}
	do(t, m, llmtest.Request(nil))
	if !strings.Contains(g.bodies[len(g.bodies)-1], "budget_tokens") {
		t.Error("thinking is gone for good")
	}
}
