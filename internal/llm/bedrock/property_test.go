package bedrock_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/bedrock"
	"parley/internal/llm/llmtest"
)

// TestAnyHistory: whatever the history, the strict server accepts the request.
func TestAnyHistory(t *testing.T) {
	models := map[string]*fake{}
	for _, id := range []string{claudeID, "anthropic.claude-opus-4-6-v1", "amazon.nova-pro-v1:0", "us.meta.llama3-3-70b-instruct-v1:0"} {
		cfg := bedrock.Config{}
		cfg.Model, cfg.Reasoning, cfg.ReasoningEffort, cfg.MaxOutput = id, true, "high", 5000
		cfg.Temperature, cfg.TopP, cfg.TopK = ptr(0.5), ptr(0.5), ptr(10.0)
		models[id] = serve(t, cfg, llmtest.Reply{Text: "fine"})
	}
	rapid.Check(t, func(rt *rapid.T) {
		id := rapid.SampledFrom([]string{claudeID, "anthropic.claude-opus-4-6-v1", "amazon.nova-pro-v1:0", "us.meta.llama3-3-70b-instruct-v1:0"}).Draw(rt, "model")
		req := &llm.Request{Messages: rapid.SliceOfN(rapid.Custom(anyMessage), 0, 12).Draw(rt, "messages")}
		req.MaxOutput = rapid.SampledFrom([]int64{0, 1, 1000, 1400, 100000}).Draw(rt, "output")
		if rapid.Bool().Draw(rt, "tools") {
			req.Tools = []llm.Tool{{Name: "a", Description: " "}, {Name: "b.c", Parameters: json.RawMessage(`{"properties":{}}`)}, {Name: "b c", Description: "x"}}
		}
		if rapid.Bool().Draw(rt, "streamed") {
			req.OnDelta = func(llm.Delta) {}
		}
		f := models[id]
		before := len(f.requests())
		resp, err := f.model.Do(t.Context(), req)
		if err != nil || resp.Message.Text() != "fine" {
			rt.Fatalf("%+v, %v", resp, err)
		}
		if n := len(f.requests()) - before; n != 1 {
			rt.Fatalf("%d requests were accepted", n)
		}
	})
	for id, f := range models {
		for _, r := range f.requests() {
			if !json.Valid([]byte(r.body)) {
				t.Fatalf("%s: %s", id, r.body)
			}
		}
	}
}

func anyMessage(t *rapid.T) content.Message {
	ids := rapid.SampledFrom([]string{"c1", "c2", "c 3", "c/3", "c_3", "", "\u00e4", fmt.Sprintf("%070d", 1), fmt.Sprintf("%070d", 2), "c1_2"})
	names := rapid.SampledFrom([]string{"a", "b.c", "b_c", "", "x y", fmt.Sprintf("%0100d", 7)})
	m := content.Message{
		Role:  rapid.SampledFrom([]string{"system", "user", "user", "assistant", "assistant", "tool", "tool"}).Draw(t, "role"),
		Parts: rapid.SliceOfN(rapid.Custom(anyPart), 0, 3).Draw(t, "parts"),
	}
	switch m.Role {
	case content.RoleTool:
		m.ToolCallID, m.ToolName = ids.Draw(t, "of"), names.Draw(t, "tool")
	case content.RoleAssistant:
		for range rapid.IntRange(0, 3).Draw(t, "calls") {
			m.ToolCalls = append(m.ToolCalls, content.ToolCall{ID: ids.Draw(t, "id"), Name: names.Draw(t, "name"),
				Arguments: rapid.SampledFrom([]string{"{}", `{"a":[1]}`, "", "[1]", `{"br`, "null", " {} ", "{}{}", "\xff"}).Draw(t, "arguments")})
		}
		m.Extra = map[string]json.RawMessage{"_source": json.RawMessage(rapid.SampledFrom([]string{`"chat x"`, `"bedrock another"`, `7`, `"bedrock ` + claudeID + `"`}).Draw(t, "source")),
			"content": json.RawMessage(rapid.SampledFrom([]string{`[]`, `7`, `[{"part":0}]`, `[{"call":"c1"}]`, `[{"part":5},{"reasoningContent":7}]`, `[{"reasoningContent":{"redactedContent":"AAAA"}},{"part":0}]`}).Draw(t, "layout"))}
	}
	return m
}

func anyPart(t *rapid.T) content.Part {
	if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
		return content.Image(rapid.SliceOfN(rapid.SampledFrom([]string{"data:image/png;base64,AAAA", "data:image/png;base64,", "data:x", "http://h/x.png", "",
			"data:;base64,/9j/4AAQSkZJRg==", "data:image/svg+xml;base64,AAAA"}), 0, 2).Draw(t, "urls")...)
	}
	p := content.Text(rapid.SampledFrom([]string{"", " ", "\n\t", "text", "\u00a0", "\u3000", "a\x00b", "\xff", "<&>"}).Draw(t, "text"))
	p.CachePrompt = rapid.Bool().Draw(t, "cached")
	return p
}
