package openai_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/openai"
	"parley/test/testkit/openaitest"
)

func said(role, text string) content.Message {
	return content.Message{Role: role, Parts: []content.Part{content.Text(text)}}
}

func called(ids ...string) content.Message {
	m := content.Message{Role: content.RoleAssistant}
	for _, id := range ids {
		m.ToolCalls = append(m.ToolCalls, content.ToolCall{ID: id, Name: "terminal", Arguments: "{}"})
	}
	return m
}

func result(id, text string) content.Message {
	return content.Message{Role: content.RoleTool, ToolCallID: id, ToolName: "terminal", Parts: []content.Part{content.Text(text)}}
}

// TestCallsAndResults: the API takes a history only if each call has exactly one
// result, behind it and before anything else.
func TestCallsAndResults(t *testing.T) {
	const none = "tool a: No result is known for this call."
	user := said(content.RoleUser, "u")
	tests := map[string]struct {
		in   []content.Message
		want []string
	}{
		"nothing":        {nil, []string{"user: Continue."}},
		"no result":      {[]content.Message{user, called("a"), said(content.RoleUser, "v")}, []string{"user: u", "calls a", none, "user: v"}},
		"no end":         {[]content.Message{user, called("a")}, []string{"user: u", "calls a", none}},
		"two results":    {[]content.Message{user, called("a"), result("a", "1"), result("a", "2")}, []string{"user: u", "calls a", "tool a: 1"}},
		"of no call":     {[]content.Message{user, result("a", "1"), said(content.RoleUser, "v")}, []string{"user: u", "user: v"}},
		"too late":       {[]content.Message{called("a"), user, result("a", "1")}, []string{"calls a", none, "user: u"}},
		"out of order":   {[]content.Message{called("a", "b"), result("b", "2"), result("a", "1")}, []string{"calls a b", "tool b: 2", "tool a: 1"}},
		"one of two":     {[]content.Message{called("a", "b"), result("b", "2"), user}, []string{"calls a b", "tool b: 2", none, "user: u"}},
		"two answers":    {[]content.Message{called("a"), called("b"), result("a", "1"), result("b", "2")}, []string{"calls a b", "tool a: 1", "tool b: 2"}},
		"between":        {[]content.Message{called("a", "b"), result("b", "2"), called("c"), result("c", "3")}, []string{"calls a b", "tool b: 2", none, "calls c", "tool c: 3"}},
		"an empty one":   {[]content.Message{called("a"), {Role: content.RoleAssistant}, {Role: content.RoleUser}, result("a", "1")}, []string{"calls a", "tool a: 1"}},
		"the same again": {[]content.Message{called("a"), result("a", "1"), called("a"), result("a", "2")}, []string{"calls a", "tool a: 1", "calls a_2", "tool a_2: 2"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := openaitest.New(t)
			s.Reply(openaitest.Text("ok"))
			req := llmtest.Request(nil)
			req.Messages = tt.in
			if _, err := model(t, s, openai.Config{}).Do(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, outline(s.Requests()[0])); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func outline(req *openaitest.Request) []string {
	var out []string
	for _, m := range req.Messages {
		line := m.Role
		if m.ToolCallID != "" {
			line += " " + m.ToolCallID
		}
		if len(m.ToolCalls) > 0 {
			line = "calls"
			for _, c := range m.ToolCalls {
				line += " " + c.ID
			}
			out = append(out, line)
			continue
		}
		out = append(out, line+": "+m.Text())
	}
	return out
}

// TestAnyHistoryIsAccepted: whatever a history holds, the request is one that a
// strict endpoint takes.
func TestAnyHistoryIsAccepted(t *testing.T) {
	server := httptest.NewServer(openaitest.Handler(func(*http.Request, []byte) llmtest.Reply { return llmtest.Reply{Text: "ok"} }))
	t.Cleanup(server.Close)
	cfg := openai.Config{}
	cfg.Model, cfg.BaseURL, cfg.HTTPClient = "m", server.URL, server.Client()
	m, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	id := rapid.SampledFrom([]string{"a", "b", "", "x y", "call|fc_1", strings.Repeat("l", 90)})
	message := rapid.Custom(func(rt *rapid.T) content.Message {
		m := said(rapid.SampledFrom([]string{content.RoleUser, content.RoleAssistant, content.RoleTool, content.RoleTool}).Draw(rt, "role"),
			rapid.SampledFrom([]string{"", " ", "text"}).Draw(rt, "text"))
		switch m.Role {
		case content.RoleTool:
			m.ToolCallID = id.Draw(rt, "result of")
		case content.RoleAssistant:
			m.ToolCalls = called(rapid.SliceOfN(id, 0, 3).Draw(rt, "calls")...).ToolCalls
		}
		if rapid.IntRange(0, 3).Draw(rt, "image") == 0 {
			m.Parts = append(m.Parts, content.Image("data:image/png;base64,AAAA"))
		}
		return m
	})
	rapid.Check(t, func(rt *rapid.T) {
		req := llmtest.Request(nil)
		req.Messages = append(req.Messages, rapid.SliceOfN(message, 0, 12).Draw(rt, "messages")...)
		req.Messages = append(req.Messages, said(content.RoleUser, "go on"))
		if _, err := m.Do(t.Context(), req); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestStrictRoles: what an endpoint refuses of the order of roles is learned.
func TestStrictRoles(t *testing.T) {
	server := httptest.NewServer(openaitest.Handler(func(*http.Request, []byte) llmtest.Reply { return llmtest.Reply{Text: "ok"} }))
	t.Cleanup(server.Close)
	cfg := openai.Config{}
	cfg.Model, cfg.BaseURL, cfg.HTTPClient = "m", server.URL, server.Client()
	for name, last := range map[string]content.Message{"an answer": said(content.RoleAssistant, "a"), "instructions": said(content.RoleSystem, "s")} {
		m, err := openai.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		req := llmtest.Request(nil)
		req.Messages = append(req.Messages, said(content.RoleSystem, "late"), last)
		if _, err := m.Do(t.Context(), req); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestForeignSchemas: a tool of an MCP server with a schema that the API refuses
// spoils no request.
func TestForeignSchemas(t *testing.T) {
	for _, schema := range []string{"", "null", "{}", `{"type":"object"}`, `{"anyOf":[{"type":"object","properties":{"a":{}}}]}`} {
		s := openaitest.New(t)
		s.Reply(openaitest.Text("ok"))
		req := llmtest.Request(nil)
		req.Tools = append(req.Tools, llm.Tool{Name: "foreign", Parameters: []byte(schema)})
		if _, err := model(t, s, openai.Config{}).Do(t.Context(), req); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
	}
}
