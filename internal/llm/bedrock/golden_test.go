package bedrock_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/bedrock"
	"parley/internal/llm/llmtest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func ptr[T any](v T) *T { return &v }

func say(role, s string) content.Message {
	return content.Message{Role: role, Parts: []content.Part{content.Text(s)}}
}

// conversationOfTwo has everything that a history can have.
func conversationOfTwo() []content.Message {
	cached := content.Text("You help.")
	cached.CachePrompt = true
	return []content.Message{
		{Role: content.RoleSystem, Parts: []content.Part{cached, content.Text("Today is Friday.")}},
		{Role: content.RoleUser, Parts: []content.Part{content.Text("What is in <this> & that?"), content.Text(" "),
			content.Image("data:image/jpg;base64,/9j/4AAQSkZJRg==", "https://example.org/cat.png", "data:image/tiff;base64,AAAA")}},
		{Role: content.RoleAssistant, Parts: []content.Part{content.Text("Let me look.")}, ToolCalls: []content.ToolCall{
			{ID: "a", Name: "terminal", Arguments: `{"command":"ls"}`}, {ID: "b c", Name: "a bad/name", Arguments: `{"broken`}}},
		{Role: content.RoleTool, ToolCallID: "b c", ToolName: "a bad/name"},
		say(content.RoleUser, "Hurry."),
		{Role: content.RoleTool, ToolCallID: "a", ToolName: "terminal", Parts: []content.Part{content.Text("cat.png"),
			content.Image("data:image/png;base64,iVBORw0KGgoAAAANSUhEUg==")}},
		say(content.RoleAssistant, "A cat."),
		say(content.RoleUser, "And now?"),
	}
}

func TestGoldenRequests(t *testing.T) {
	thinking := func(c *bedrock.Config) {
		c.Reasoning, c.ReasoningEffort, c.ReasoningBudget = true, "high", 200000
		c.MaxOutput, c.Temperature, c.TopP, c.TopK = 8000, ptr(0.5), ptr(0.9), ptr(40.0)
	}
	tests := map[string]struct {
		model string
		set   func(*bedrock.Config)
		req   func(*llm.Request)
	}{
		"claude": {model: claudeID},
		"claude_thinking": {model: claudeID, set: thinking, req: func(r *llm.Request) {
			r.MaxOutput = 4000
		}},
		"claude_adaptive": {model: "global.anthropic.claude-opus-4-6-v1", set: thinking},
		"claude_quiet":    {model: claudeID, set: func(c *bedrock.Config) { thinking(c); c.ReasoningEffort = "none" }},
		"claude_sampling": {model: claudeID, set: func(c *bedrock.Config) {
			c.Temperature, c.TopK, c.NoCache, c.Body = ptr(1.5), ptr(40.0), true, json.RawMessage(`{"performanceConfig":{"latency":"optimized"}}`)
		}},
		"claude_hour": {model: claudeID, set: func(c *bedrock.Config) { c.CacheRetention = "1h" }},
		"claude_old":  {model: "anthropic.claude-3-haiku-20240307-v1:0"},
		"nova":        {model: "amazon.nova-pro-v1:0", set: func(c *bedrock.Config) { c.TopK = ptr(20.0) }},
		"nova_thinking": {model: "us.amazon.nova-2-lite-v1:0", set: func(c *bedrock.Config) {
			c.Reasoning, c.ReasoningEffort, c.MaxOutput = true, "high", 5000
		}},
		"gpt_oss":   {model: "openai.gpt-oss-120b-1:0", set: thinking},
		"llama":     {model: "us.meta.llama4-maverick-17b-instruct-v1:0"},
		"no_vision": {model: "mistral.mistral-large-2407-v1:0", set: func(c *bedrock.Config) { c.NoVision = true }},
		"no_tools_left": {model: claudeID, req: func(r *llm.Request) {
			r.Tools = nil
		}},
		"aliased": {model: "arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/abc", set: func(c *bedrock.Config) {
			thinking(c)
			c.CanonicalModel = "anthropic/claude-sonnet-4-5"
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := bedrock.Config{}
			cfg.Model = tt.model
			if tt.set != nil {
				tt.set(&cfg)
			}
			f := serve(t, cfg, llmtest.Reply{Text: "ok"})
			req := llmtest.Request(nil)
			req.Messages = conversationOfTwo()
			if tt.req != nil {
				tt.req(req)
			}
			if _, err := f.model.Do(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			golden(t, name, f.requests()[0].body)
		})
	}
}

// golden compares a request with the file of that name.
func golden(t *testing.T, name, body string) {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(body), "", "  "); err != nil {
		t.Fatal(err)
	}
	b.WriteByte('\n')
	path := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// Equal histories have equal bytes: caches work by prefix.
func TestStablePrefix(t *testing.T) {
	f := serve(t, bedrock.Config{}, llmtest.Reply{Text: "ok"})
	for range 2 {
		req := llmtest.Request(nil)
		req.Messages = conversationOfTwo()
		if _, err := f.model.Do(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	if r := f.requests(); r[0].body != r[1].body {
		t.Error("two equal requests differ")
	}
}
