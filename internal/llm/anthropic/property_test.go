package anthropic_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/content"
	"parley/internal/llm/anthropic"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/anthropictest"
)

// TestAnyHistoryIsAccepted: whatever a history holds, the request is one that a
// strict endpoint takes, and is the same each time.
func TestAnyHistoryIsAccepted(t *testing.T) {
	header := http.Header{"Anthropic-Version": {"2023-06-01"}}
	rapid.Check(t, func(rt *rapid.T) {
		m, err := anthropic.New(anyConfig(rt))
		if err != nil {
			rt.Fatal(err)
		}
		req := llmtest.Request(nil)
		req.Messages = rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) content.Message { return anyMessage(rt, m.Source()) }), 0, 14).Draw(rt, "messages")
		if rapid.Bool().Draw(rt, "no tools") {
			req.Tools = nil
		}
		req.MaxOutput = rapid.SampledFrom([]int64{0, 1, 1025, 3000, 100000}).Draw(rt, "max output")
		body, err := m.Encode(req)
		if err != nil {
			rt.Fatal(err)
		}
		if problem := anthropictest.Problem(header, body); problem != "" {
			rt.Fatalf("%s\n%s", problem, body)
		}
		if again, err := m.Encode(req); err != nil || string(again) != string(body) {
			rt.Fatalf("not the same twice:\n%s\n%s", body, again)
		}
	})
}

func anyConfig(rt *rapid.T) anthropic.Config {
	cfg := config(rapid.SampledFrom([]string{"claude-sonnet-4-5", "claude-opus-4-6", "claude-opus-4-7", "claude-opus-5", "claude-sonnet-5-5", "glm-4.7"}).Draw(rt, "model"))
	cfg.Reasoning = rapid.Bool().Draw(rt, "reasoning")
	cfg.ReasoningEffort = rapid.SampledFrom([]string{"", "none", "minimal", "low", "high", "xhigh"}).Draw(rt, "effort")
	cfg.ReasoningBudget = rapid.SampledFrom([]int64{0, 5, 200000}).Draw(rt, "budget")
	cfg.CacheRetention = rapid.SampledFrom([]string{"", "1h", "24h"}).Draw(rt, "retention")
	cfg.NoCache, cfg.NoVision = rapid.Bool().Draw(rt, "no cache"), rapid.Bool().Draw(rt, "no vision")
	if rapid.Bool().Draw(rt, "sampling") {
		t, p, k := rapid.Float64Range(-1, 3).Draw(rt, "temperature"), 0.9, 3.0
		cfg.Temperature, cfg.TopP, cfg.TopK = &t, &p, &k
		if cfg.Model == "glm-4.7" {
			cfg.TopP = nil // another maker's rules
		}
	}
	return cfg
}

func anyMessage(rt *rapid.T, source string) content.Message {
	m := content.Message{Role: rapid.SampledFrom([]string{content.RoleUser, content.RoleAssistant, content.RoleTool, content.RoleTool, content.RoleSystem}).Draw(rt, "role"),
		Parts: rapid.SliceOfN(rapid.Custom(anyPart), 0, 3).Draw(rt, "parts")}
	id := rapid.SampledFrom([]string{"a", "b", "a_2", "", "x y", "\u00e4\u00f6", "call|fc_1", "0123456789012345678901234567890123456789012345678901234567890123456789"})
	switch m.Role {
	case content.RoleTool:
		m.ToolCallID = id.Draw(rt, "result of")
	case content.RoleAssistant:
		m.ToolCalls = rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) content.ToolCall {
			return content.ToolCall{ID: id.Draw(rt, "id"), Name: rapid.SampledFrom([]string{"terminal", "", "a b", "\u00e4"}).Draw(rt, "name"),
				Arguments: rapid.SampledFrom([]string{"", "{}", `{"a":"\ud800 \u00e4"}`, "[1]", `{"broken`, "null", "{\"a\":\"\xff\"}", ` {"a":1} `}).Draw(rt, "arguments")}
		}), 0, 3).Draw(rt, "calls")
		if rapid.Bool().Draw(rt, "thinks") {
			m.Extra = anyLayout(rt, m, source)
		}
	}
	return m
}

func anyPart(rt *rapid.T) content.Part {
	p := content.Text(rapid.SampledFrom([]string{"", " \n", "text", "ends with a space ", "\xff\x00", "\u2003"}).Draw(rt, "text"))
	if rapid.IntRange(0, 3).Draw(rt, "kind") == 0 {
		p = content.Image(rapid.SliceOfN(rapid.SampledFrom([]string{png, jpeg, "https://h/i.png", "data:broken", "data:image/png;base64,", "x", "data:image/svg+xml;base64,AAAA"}), 0, 2).Draw(rt, "urls")...)
	}
	p.CachePrompt = rapid.Bool().Draw(rt, "cache")
	return p
}

// anyLayout is what an answer like this one may have left, more or less.
func anyLayout(rt *rapid.T, m content.Message, source string) map[string]json.RawMessage {
	var list []any
	thought := func() {
		if rapid.Bool().Draw(rt, "thought") {
			list = append(list, rapid.SampledFrom([]json.RawMessage{json.RawMessage(`{"type":"thinking","thinking":"","signature":"cw=="}`),
				json.RawMessage(`{"type":"redacted_thinking","data":"ZA=="}`)}).Draw(rt, "block"))
		}
	}
	thought()
	if n := len(m.Text()); n > 0 {
		list = append(list, map[string]any{"type": "text", "at": 0, "len": n - rapid.IntRange(0, 1).Draw(rt, "less")})
	}
	for _, c := range m.ToolCalls {
		thought()
		if rapid.IntRange(0, 4).Draw(rt, "known") > 0 {
			list = append(list, map[string]any{"type": "tool_use", "id": c.ID})
		}
	}
	if rapid.IntRange(0, 4).Draw(rt, "dropped") == 0 {
		list = append(list, map[string]any{"type": "tool_use", "id": "dropped"})
	}
	thought()
	raw, err := json.Marshal(list)
	if err != nil {
		rt.Fatal(err)
	}
	own, err := json.Marshal(rapid.SampledFrom([]string{source, source, "chat other"}).Draw(rt, "source"))
	if err != nil {
		rt.Fatal(err)
	}
	return map[string]json.RawMessage{"content": raw, "_source": own}
}
