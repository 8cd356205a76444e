package anthropic_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/anthropic"
	"parley/internal/llm/llmtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// png is the smallest PNG; jpeg only begins like one.
const (
	png  = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	jpeg = "data:image/png;base64,/9j/4AAQSkZJRg=="
)

// story is a history with all that a request can hold.
func story() *llm.Request {
	req := llmtest.Request(nil)
	req.Messages[0].Parts = []content.Part{{Type: content.TypeText, Text: "You help.", CachePrompt: true}, content.Text("Today is Friday.")}
	req.Tools = append(req.Tools, llm.Tool{Name: "odd.tool", Parameters: []byte(`{"anyOf":[{"required":["a"]}],"properties":{"a":{"type":"string"}}}`)}, llm.Tool{Name: "bare"})
	req.Messages = append(req.Messages,
		called(content.ToolCall{ID: "toolu_1", Name: "terminal", Arguments: `{"command":"cat <a> && b"}`}, content.ToolCall{ID: "fc/2 \u00e4", Name: "odd.tool", Arguments: `[1]`}),
		result("fc/2 \u00e4", content.Text("two"), content.Image(png, "https://example.org/a.png", "ftp://x/y", "data:text/plain,x", "data:image/bmp;base64,AAAA")),
		result("toolu_1", content.Image(jpeg)),
		said(content.RoleUser, "and now?"),
		said(content.RoleUser, " \n"),
		said(content.RoleAssistant, "Done. "),
		called(content.ToolCall{ID: "toolu_1", Name: "terminal", Arguments: `{"command":"\ud83d"}`}),
		said(content.RoleAssistant, "I wait."),
		result("gone", content.Text("an orphan")),
		said(content.RoleSystem, "A late instruction."),
		said(content.RoleAssistant, "The last word. "))
	return req
}

func TestGoldenRequests(t *testing.T) {
	temperature, topP := 0.4, 0.9
	hot := config("claude-sonnet-4-5")
	hot.Temperature, hot.TopP, hot.CacheRetention, hot.MaxOutput = &temperature, &topP, "1h", 1000
	blind := thinking(config("claude-opus-4-6"), "xhigh")
	blind.NoVision, blind.NoCache, blind.Temperature = true, true, &temperature
	blind.Body = json.RawMessage(`{"metadata":{"user_id":"u"},"max_tokens":5000}`)
	for name, cfg := range map[string]anthropic.Config{"hour": hot, "blind": blind, "budget": thinking(config("claude-3-7-sonnet-latest"), "low"),
		"newest": thinking(config("claude-opus-5-5"), "none")} {
		t.Run(name, func(t *testing.T) {
			e := serve(t, cfg, llmtest.Reply{Text: "ok"}, llmtest.Reply{Text: "ok"})
			do(t, e.model, story())
			body, header := e.last()
			do(t, e.model, story())
			if again, _ := e.last(); again != body {
				t.Errorf("equal histories have other bytes:\n%s\n%s", body, again)
			}
			golden(t, name, "Anthropic-Beta: "+header.Get("Anthropic-Beta")+"\n"+pretty(t, body))
		})
	}
}

func pretty(t *testing.T, body string) string {
	var b strings.Builder
	var compact strings.Builder
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		t.Fatal(err)
	}
	compact.Write(raw)
	// One block a line is enough to read and to compare.
	b.WriteString(regexp.MustCompile(`(\{"role"|\{"type":"(?:text|image|tool)|"(?:messages|tools|system|thinking|stream|tool_choice)":)`).ReplaceAllString(compact.String(), "\n$1"))
	return b.String() + "\n"
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "request", name+".golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("(-want +got; go test -update)\n%s", d)
	}
}

// The prefix of a longer history is the shorter one's request, markers apart:
// else no prompt cache is ever hit, and no signature holds.
func TestHistoriesGrowAtTheEnd(t *testing.T) {
	e := serve(t, config("claude-sonnet-4-5"), llmtest.Reply{Text: "ok"}, llmtest.Reply{Text: "ok"})
	req := llmtest.Request(nil)
	req.Messages = append(req.Messages, called(content.ToolCall{ID: "a", Name: "terminal", Arguments: "{}"}), result("a", content.Text("1")))
	do(t, e.model, req)
	short, _ := e.last()
	req.Messages = append(req.Messages, called(content.ToolCall{ID: "b", Name: "terminal", Arguments: "{}"}), result("b", content.Text("2")), said(content.RoleUser, "go on"))
	do(t, e.model, req)
	long, _ := e.last()
	plain := func(s string) string { return strings.ReplaceAll(s, `,"cache_control":{"type":"ephemeral"}`, "") }
	if !strings.HasPrefix(plain(long), strings.TrimSuffix(plain(short), "]}")) {
		t.Errorf("\n%s\n%s", plain(short), plain(long))
	}
	// The marker at the end of the short one is still there.
	if a, b := member(t, short, "messages", 2, "content", 0, "cache_control"), member(t, long, "messages", 2, "content", 0, "cache_control"); a == nil || b == nil {
		t.Errorf("markers %v, %v", a, b)
	}
}

func TestEndpoints(t *testing.T) {
	for base, path := range map[string]string{"": "/v1/messages", "/": "/v1/messages", "/v1": "/v1/messages", "/v1/": "/v1/messages",
		"/v1/messages": "/v1/messages", "/api/anthropic": "/api/anthropic/v1/messages"} {
		cfg := config("claude-sonnet-4-5")
		var got string
		cfg.HTTPClient = clientOf(func(r request) { got = r.URL.Path + "?" + r.URL.RawQuery })
		cfg.BaseURL = "https://host.test" + base + "?k=v"
		m, err := anthropic.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = m.Do(t.Context(), llmtest.Request(nil))
		if got != path+"?k=v" {
			t.Errorf("%q: %s", base, got)
		}
	}
	for _, bad := range []string{"host", "ftp://host", "://"} {
		cfg := config("m")
		cfg.BaseURL = bad
		if _, err := anthropic.New(cfg); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	if _, err := anthropic.New(anthropic.Config{}); err == nil {
		t.Error("no model is accepted")
	}
}

func TestHeaders(t *testing.T) {
	cfg := thinking(config("claude-sonnet-4-5"), "high")
	cfg.CacheRetention = "1h"
	cfg.Headers = map[string]string{"anthropic-beta": "mine-2026-01-01", "X-Other": "y"}
	e := serve(t, cfg, llmtest.Reply{Text: "ok"})
	do(t, e.model, llmtest.Request(ignore))
	_, h := e.last()
	want := "mine-2026-01-01,interleaved-thinking-2025-05-14,extended-cache-ttl-2025-04-11"
	if h.Get("Anthropic-Beta") != want || h.Get("X-Api-Key") != "sk-ant-0123456789" || h.Get("Anthropic-Version") != "2023-06-01" || h.Get("X-Other") != "y" {
		t.Errorf("%v", h)
	}
}

func TestThinkingPlans(t *testing.T) {
	tests := []struct {
		model, effort string
		budget, max   int64
		want          string // thinking, output_config, sampling
	}{
		{"claude-sonnet-4-5", "high", 0, 64000, `{"budget_tokens":16384,"type":"enabled"} null null`},
		{"claude-sonnet-4-5", "high", 200000, 64000, `{"budget_tokens":63999,"type":"enabled"} null null`},
		{"claude-sonnet-4-5", "", 10, 64000, `null null 0.5`},
		{"claude-sonnet-4-5", "high", 200000, 1024, `null null 0.5`},
		{"claude-sonnet-4-5", "none", 200000, 64000, `null null 0.5`},
		{"claude-sonnet-4-5", "", 0, 64000, `null null 0.5`},
		{"claude-3-5-haiku-20241022", "minimal", 0, 0, `{"budget_tokens":1024,"type":"enabled"} null null`},
		{"glm-4.7", "medium", 0, 9000, `{"budget_tokens":8192,"type":"enabled"} null null`},
		{"claude-opus-4-6", "xhigh", 0, 64000, `{"type":"adaptive"} {"effort":"high"} null`},
		{"claude-opus-4-6", "", 0, 64000, `null null 0.5`},
		{"claude-opus-4-6", "", 200000, 64000, `{"type":"adaptive"} null null`},
		{"claude-opus-4-6", "none", 200000, 64000, `null null 0.5`},
		{"anthropic/claude-opus-4.7", "xhigh", 0, 64000, `{"display":"summarized","type":"adaptive"} {"effort":"xhigh"} null`},
		{"claude-opus-4-7", "none", 0, 64000, `null null null`},
		{"claude-opus-5", "", 0, 64000, `{"display":"summarized","type":"adaptive"} null null`},
		{"claude-opus-5", "none", 0, 64000, `{"type":"disabled"} null null`},
		{"claude-opus-5", "high", 0, 64, `{"type":"disabled"} null null`},
		{"claude-sonnet-5-5", "none", 0, 64000, `{"display":"summarized","type":"adaptive"} {"effort":"low"} null`},
		{"claude-fable-5", "none", 0, 64000, `{"display":"summarized","type":"adaptive"} {"effort":"low"} null`},
		{"claude-mythos-preview", "minimal", 0, 64000, `{"display":"summarized","type":"adaptive"} {"effort":"low"} null`},
	}
	for _, tt := range tests {
		t.Run(tt.model+" "+tt.effort, func(t *testing.T) {
			cfg := thinking(config(tt.model), tt.effort)
			half := 0.5
			cfg.ReasoningBudget, cfg.MaxOutput, cfg.Temperature = tt.budget, tt.max, &half
			e := serve(t, cfg, llmtest.Reply{Text: "ok"})
			do(t, e.model, llmtest.Request(nil))
			body, _ := e.last()
			var got []string
			for _, key := range []string{"thinking", "output_config", "temperature"} {
				b, err := json.Marshal(member(t, body, key))
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(b))
			}
			if d := cmp.Diff(tt.want, strings.Join(got, " ")); d != "" || len(e.requests()) != 1 {
				t.Errorf("%d requests (-want +got)\n%s", len(e.requests()), d)
			}
		})
	}
}

// A turn of another model, which began without thinking, is finished without.
func TestNoBudgetInAForeignTurn(t *testing.T) {
	e := serve(t, thinking(config("claude-sonnet-4-5"), "high"), llmtest.Reply{Text: "ok"}, llmtest.Reply{Text: "ok"})
	req := llmtest.Request(nil)
	req.Messages = append(req.Messages, called(content.ToolCall{ID: "a", Name: "terminal", Arguments: "{}"}), result("a", content.Text("1")))
	do(t, e.model, req)
	if body, _ := e.last(); member(t, body, "thinking") != nil || len(e.requests()) != 1 {
		t.Errorf("thinking in the middle of a turn without: %s", body)
	}
	req.Messages = append(req.Messages, said(content.RoleAssistant, "Done."), said(content.RoleUser, "More."))
	do(t, e.model, req)
	if body, _ := e.last(); member(t, body, "thinking") == nil {
		t.Errorf("no thinking in a new turn: %s", body)
	}
}

// A history with calls is refused without tools, so that a request that offers
// none describes them.
func TestCallsWithoutTools(t *testing.T) {
	e := serve(t, config("claude-sonnet-4-5"), llmtest.Reply{Text: "A title"})
	req := story()
	req.Tools = nil
	do(t, e.model, req)
	body, _ := e.last()
	if member(t, body, "tools", 1, "name") != "odd_tool" || member(t, body, "tool_choice", "type") != "none" {
		t.Errorf("%s", body)
	}
}

// A tool whose name the API does not take is offered and called under one it does.
func TestToolNamesReturn(t *testing.T) {
	e := serve(t, config("claude-sonnet-4-5"), llmtest.Reply{Calls: []content.ToolCall{{ID: "x", Name: "odd_tool", Arguments: "{}"}}})
	if resp := do(t, e.model, story()); resp.Message.ToolCalls[0].Name != "odd.tool" {
		t.Errorf("%+v", resp.Message.ToolCalls)
	}
}

// A result that comes after the next answer still is its call's.
func TestLateResult(t *testing.T) {
	e := serve(t, config("claude-sonnet-4-5"), llmtest.Reply{Text: "ok"})
	req := llmtest.Request(nil)
	req.Messages = append(req.Messages, called(content.ToolCall{ID: "a", Name: "terminal", Arguments: "{}"}), result("other", content.Text("x")),
		said(content.RoleAssistant, "I wait."), result("a", content.Text("late")))
	do(t, e.model, req)
	body, _ := e.last()
	if got := member(t, body, "messages", 2, "content", 0, "content", 0, "text"); got != "late" {
		t.Errorf("%v: %s", got, body)
	}
}

// An extra body cannot lift the bound that keeps a call within its budget.
func TestTheBoundHolds(t *testing.T) {
	cfg := config("claude-sonnet-4-5")
	cfg.MaxOutput, cfg.Body = 100, json.RawMessage(`{"max_tokens":5000,"metadata":{"user_id":"u"}}`)
	e := serve(t, cfg, llmtest.Reply{Text: "ok"}, llmtest.Reply{Text: "ok"})
	req := llmtest.Request(nil)
	for _, tt := range []struct{ asked, want int64 }{{0, 5000}, {70, 70}} {
		req.MaxOutput = tt.asked
		do(t, e.model, req)
		body, _ := e.last()
		if got := member(t, body, "max_tokens"); got != float64(tt.want) || member(t, body, "metadata", "user_id") != "u" {
			t.Errorf("%v, want %d: %s", got, tt.want, body)
		}
	}
	if got := e.model.Info().MaxOutput; got != 5000 {
		t.Errorf("info says %d", got)
	}
}
