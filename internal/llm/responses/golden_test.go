package responses_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/responses"
	"parley/internal/llm/wire"
)

var update = flag.Bool("update", false, "write the golden files")

func ptr[T any](v T) *T { return &v }

func text(role, s string) content.Message {
	return content.Message{Role: role, Parts: []content.Part{content.Text(s)}}
}

// conversation is a history with all that a request can hold.
func conversation() []content.Message {
	return []content.Message{
		text(content.RoleSystem, "You help."), text(content.RoleSystem, "Be brief."),
		{Role: content.RoleUser, Parts: []content.Part{content.Text("Look <here> & there"),
			content.Image("https://example.com/a.png", "data:image/png;base64,AAAA", "data:image/svg+xml;base64,AAAA", "data:broken")}},
		{Role: content.RoleAssistant, Parts: []content.Part{content.Text("Looking.")}, Reasoning: "hm",
			ToolCalls: []content.ToolCall{{ID: "c 1/\u00e4", Name: "a bad name", Arguments: `{"x":`}, {ID: "c2", Name: "terminal", Arguments: `{"command":"ls"}`}}},
		{Role: content.RoleTool, ToolCallID: "c2", ToolName: "terminal", Parts: []content.Part{content.Text("a\nb"), content.Image("data:image/png;base64,AAAA")}},
		{Role: content.RoleTool, ToolCallID: "c 1/\u00e4", ToolName: "a bad name"},
		text(content.RoleSystem, "The mode changed."),
		{Role: content.RoleAssistant},
		text(content.RoleUser, "Go on"),
	}
}

func TestGoldenRequests(t *testing.T) {
	plain := llmtest.Request(nil)
	long := llmtest.Request(nil)
	long.Messages, long.MaxOutput = conversation(), 500
	tests := []struct {
		name string
		cfg  wire.ModelConfig
		req  *llm.Request
	}{
		{"plain", wire.ModelConfig{Model: "gpt-4o"}, plain},
		{"sampling", wire.ModelConfig{Model: "gpt-4.1", Temperature: ptr(0.0), TopP: ptr(0.9), TopK: ptr(5.0), Seed: ptr(int64(1)),
			MaxOutput: 2048, CacheRetention: "24h"}, plain},
		{"thinking", wire.ModelConfig{Model: "gpt-5.1-codex", Reasoning: true, ReasoningEffort: "high", ReasoningSummary: "auto", Temperature: ptr(1.0),
			MaxOutput: 128000, CacheRetention: "24h"}, long},
		{"not thinking now", wire.ModelConfig{Model: "gpt-5.2", Reasoning: true, ReasoningEffort: "none", Temperature: ptr(0.5), CacheRetention: "5m"}, plain},
		{"other cache", wire.ModelConfig{Model: "gpt-5.6-sol", Reasoning: true, CacheRetention: "24h"}, plain},
		{"bare", wire.ModelConfig{Model: "gpt-5", NoCache: true, NoVision: true, CacheRetention: "24h",
			Body: json.RawMessage(`{"service_tier":"flex","text":{"verbosity":"low"},"metadata":{"n":"1"}}`)}, long},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t)
			m := s.model(t, responses.Config{ModelConfig: tt.cfg})
			for range 2 {
				if _, err := m.Do(t.Context(), tt.req); err != nil {
					t.Fatal(err)
				}
			}
			if s.body(0) != s.body(1) {
				t.Errorf("equal requests differ:\n%s\n%s", s.body(0), s.body(1))
			}
			golden(t, tt.name, s.body(0))
		})
	}
}

func golden(t *testing.T, name, body string) {
	t.Helper()
	var got bytes.Buffer
	if err := json.Indent(&got, []byte(body), "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	path := filepath.Join("testdata", strings.ReplaceAll(name, " ", "_")+".json")
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got.Bytes()) {
		t.Errorf("%s: got\n%s", path, got.String())
	}
}
