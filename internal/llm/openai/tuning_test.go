package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/openai"
	"parley/internal/llm/wire"
	"parley/test/testkit/openaitest"
)

// sent returns the members of a request besides its history.
func sent(t *testing.T, r *openaitest.Request) string {
	t.Helper()
	var body map[string]json.RawMessage
	if err := json.Unmarshal(r.Raw, &body); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"model", "messages", "tools", "stream", "stream_options"} {
		delete(body, key)
	}
	out, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func ptr[T any](v T) *T { return &v }

func TestTuning(t *testing.T) {
	sampling := wire.ModelConfig{Temperature: ptr(0.0), TopP: ptr(0.9), TopK: ptr(40.0), Seed: ptr(int64(7))}
	thinking := sampling
	thinking.Reasoning, thinking.ReasoningEffort = true, "high"
	off := thinking
	off.ReasoningEffort = "none"
	unable := thinking
	unable.Reasoning = false
	budget := wire.ModelConfig{Reasoning: true, ReasoningBudget: 200_000, MaxOutput: 1000}
	cached := wire.ModelConfig{CacheRetention: "24h"}
	uncached := cached
	uncached.NoCache = true
	tests := map[string]struct {
		cfg  wire.ModelConfig
		d    openai.Dialect
		max  int64
		want string
	}{
		"nothing":              {want: `{}`},
		"sampling":             {cfg: sampling, want: `{"seed":7,"temperature":0,"top_p":0.9}`},
		"top_k where known":    {cfg: sampling, d: openai.Dialect{TopK: true}, want: `{"seed":7,"temperature":0,"top_k":40,"top_p":0.9}`},
		"thinking":             {cfg: thinking, d: openai.Dialect{TopK: true}, want: `{"reasoning_effort":"high","seed":7}`},
		"thinking off":         {cfg: off, want: `{"reasoning_effort":"none","seed":7,"temperature":0,"top_p":0.9}`},
		"cannot think":         {cfg: unable, want: `{"seed":7,"temperature":0,"top_p":0.9}`},
		"thinking as object":   {cfg: thinking, d: openai.Dialect{ReasoningObject: true}, want: `{"reasoning":{"effort":"high"},"seed":7}`},
		"thinking budget":      {cfg: budget, d: openai.Dialect{ReasoningObject: true}, want: `{"max_tokens":1000,"reasoning":{"max_tokens":999}}`},
		"budget has no word":   {cfg: budget, want: `{"max_tokens":1000}`},
		"bound":                {cfg: wire.ModelConfig{MaxOutput: 1000}, d: openai.Dialect{MaxCompletionTokens: true}, want: `{"max_completion_tokens":1000}`},
		"bound of the request": {cfg: wire.ModelConfig{MaxOutput: 1000}, max: 10, want: `{"max_tokens":10}`},
		"bound of both":        {cfg: wire.ModelConfig{MaxOutput: 1000}, max: 2000, want: `{"max_tokens":1000}`},
		"cache": {cfg: cached, d: openai.Dialect{PromptCacheKey: true, CacheRetention: true},
			want: `{"prompt_cache_key":"session-1","prompt_cache_retention":"24h"}`},
		"cache off":      {cfg: uncached, d: openai.Dialect{PromptCacheKey: true, CacheRetention: true, CacheMarkers: true}, want: `{}`},
		"cost":           {d: openai.Dialect{UsageCost: true}, want: `{"usage":{"include":true}}`},
		"body of a user": {cfg: wire.ModelConfig{MaxOutput: 5, Body: []byte(`{"max_tokens":4,"provider":{"order":["a"]}}`)}, want: `{"max_tokens":4,"provider":{"order":["a"]}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := openaitest.New(t)
			s.Reply(openaitest.Text("ok"))
			req := llmtest.Request(nil)
			req.MaxOutput = tt.max
			if _, err := model(t, s, openai.Config{ModelConfig: tt.cfg, Dialect: tt.d}).Do(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, sent(t, s.Requests()[0])); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

// rich is a configuration that sends everything optional.
func rich() openai.Config {
	return openai.Config{ModelConfig: wire.ModelConfig{Temperature: ptr(0.5), TopP: ptr(0.9), TopK: ptr(40.0), Seed: ptr(int64(7)), MaxOutput: 100_000,
		CacheRetention: "24h"},
		Dialect: openai.Dialect{TopK: true, PromptCacheKey: true, CacheRetention: true, CacheMarkers: true, UsageCost: true}}
}

// TestLearns: what endpoints say when they refuse something, and what the next
// request is.
func TestLearns(t *testing.T) {
	thinking := rich()
	thinking.Reasoning, thinking.ReasoningEffort = true, "high"
	extreme := thinking
	extreme.ReasoningEffort = "xhigh"
	object := thinking
	object.Dialect.ReasoningObject = true
	modern := rich()
	modern.Dialect.MaxCompletionTokens = true
	all := `{"max_tokens":100000,"prompt_cache_key":"session-1","prompt_cache_retention":"24h","seed":7,"temperature":0.5,"top_k":40,"top_p":0.9,"usage":{"include":true}}`
	tests := map[string]struct {
		cfg     openai.Config
		status  int
		message string
		without []string // members that are gone
		want    map[string]any
	}{
		"temperature": {rich(), 400, "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported.", []string{"temperature"}, nil},
		"top_p":       {rich(), 400, "`temperature` and `top_p` cannot both be specified for this model.", []string{"top_p"}, nil},
		"top_k":       {rich(), 422, "body.top_k: Extra inputs are not permitted", []string{"top_k"}, nil},
		"seed":        {rich(), 400, "property 'seed' is unsupported", []string{"seed"}, nil},
		"effort": {thinking, 400, "Unsupported value: 'reasoning_effort' does not support 'high' with this model.",
			[]string{"reasoning_effort"}, map[string]any{"temperature": 0.5}},
		"this effort": {extreme, 400, "Unsupported value: 'reasoning_effort' does not support 'xhigh' with this model. Supported values are: 'low', 'medium', and 'high'.",
			nil, map[string]any{"reasoning_effort": "high"}},
		"any effort":  {extreme, 400, "Unrecognized request argument supplied: reasoning_effort", []string{"reasoning_effort"}, nil},
		"no thinking": {thinking, 400, "\"llama3\" does not support thinking", []string{"reasoning_effort"}, nil},
		"reasoning":   {object, 400, "reasoning is not supported by this model", []string{"reasoning"}, nil},
		"cost":        {rich(), 400, "Unrecognized request argument supplied: usage", []string{"usage"}, nil},
		"cache key":   {rich(), 400, "Unknown parameter: 'prompt_cache_key'", []string{"prompt_cache_key"}, nil},
		"retention": {rich(), 400, "prompt_cache_retention is not supported on this model", []string{"prompt_cache_retention"},
			map[string]any{"prompt_cache_key": "session-1"}},
		"new spelling": {rich(), 400, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
			[]string{"max_tokens"}, map[string]any{"max_completion_tokens": 100000.0}},
		"old spelling": {modern, 422, "max_completion_tokens: Extra inputs are not permitted",
			[]string{"max_completion_tokens"}, map[string]any{"max_tokens": 100000.0}},
		"shorter": {rich(), 400, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.",
			nil, map[string]any{"max_tokens": 16384.0}},
		"a range": {rich(), 400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", nil, map[string]any{"max_tokens": 8192.0}},
		"a dated name": {rich(), 400, "max_tokens: 100000 > 32000, which is the maximum allowed number of output tokens for claude-x-20241022",
			nil, map[string]any{"max_tokens": 32000.0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := openaitest.New(t)
			s.Reply(openaitest.Fail(tt.status, tt.message), openaitest.Text("ok"), openaitest.Text("ok"))
			m := model(t, s, tt.cfg)
			for range 2 {
				if _, err := m.Do(t.Context(), llmtest.Request(nil)); err != nil {
					t.Fatal(err)
				}
			}
			got := s.Requests()
			if len(got) != 3 || sent(t, got[1]) != sent(t, got[2]) {
				t.Fatalf("%d requests; what was refused is not remembered", len(got))
			}
			var before map[string]any
			if err := json.Unmarshal([]byte(all), &before); err != nil {
				t.Fatal(err)
			}
			for _, key := range tt.without {
				if got[0].Body[key] == nil || got[1].Body[key] != nil {
					t.Errorf("%s: %v, then %v", key, got[0].Body[key], got[1].Body[key])
				}
				delete(before, key)
			}
			for key, v := range tt.want {
				if got[1].Body[key] != v {
					t.Errorf("%s is %v, want %v", key, got[1].Body[key], v)
				}
			}
			if tt.cfg.Reasoning || len(tt.want) > 0 {
				return
			}
			var after map[string]any
			if err := json.Unmarshal([]byte(sent(t, got[1])), &after); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(before, after); d != "" {
				t.Errorf("more than the refused member changed (-want +got)\n%s", d)
			}
		})
	}
}

// TestLearnsOnlyWhatItSent: a refusal that names something that was not sent, or
// that speaks of something else, stays an error, and the bound is never dropped.
func TestLearnsOnlyWhatItSent(t *testing.T) {
	const both = "neither 'max_tokens' nor 'max_completion_tokens' is a parameter"
	tests := []struct {
		cfg      openai.Config
		status   int
		message  string
		requests int
	}{
		{openai.Config{}, 400, "temperature is wrong", 1},
		{rich(), 400, "the model is unknown", 1},
		{rich(), 401, "temperature", 1},
		{rich(), 400, "max_tokens + prompt is over the maximum context length of 4096", 1},
		{of(wire.ModelConfig{MaxOutput: 1000}), 400, both, 2},
		{of(wire.ModelConfig{MaxOutput: 1000}), 400, "max_tokens must be at most 900 or 800 or 700", 2},
	}
	for _, tt := range tests {
		s := openaitest.New(t)
		s.Handle(func(*openaitest.Request) openaitest.Reply { return openaitest.Fail(tt.status, tt.message) })
		if tt.cfg.MaxOutput == 1000 {
			s.Handle(func(r *openaitest.Request) openaitest.Reply {
				if r.Body["max_tokens"] == nil && r.Body["max_completion_tokens"] == nil {
					t.Error("the bound was left out")
				}
				return openaitest.Fail(tt.status, tt.message)
			})
		}
		if _, err := model(t, s, tt.cfg).Do(t.Context(), llmtest.Request(nil)); err == nil || len(s.Requests()) < tt.requests || len(s.Requests()) > tt.requests+3 {
			t.Errorf("%s: %v after %d requests", tt.message, err, len(s.Requests()))
		}
	}
}

// TestLearnsAboutTheHistory: refusals of how the history is told.
func TestLearnsAboutTheHistory(t *testing.T) {
	const png = "data:image/png;base64,AAAA"
	user := func(parts ...content.Part) content.Message {
		return content.Message{Role: content.RoleUser, Parts: parts}
	}
	system := content.Message{Role: content.RoleSystem, Parts: []content.Part{content.Text("Be brief.")}}
	calls := []content.Message{user(content.Text("go")),
		{Role: content.RoleAssistant, ToolCalls: []content.ToolCall{{ID: "call_long_name", Name: "f", Arguments: "{}"}}},
		{Role: content.RoleTool, ToolCallID: "call_long_name", Parts: []content.Part{content.Text("ok")}}}
	const image = `[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"` + png + `"}}]`
	const told = `"see\n` + wire.NoImage + `"`
	tests := map[string]struct {
		msgs    []content.Message
		message string
		want    []string // role and content of each message, then
	}{
		"no images":  {[]content.Message{user(content.Text("see"), content.Image(png))}, "No endpoints found that support image input", []string{"user " + told}},
		"no parts":   {[]content.Message{user(content.Text("see"), content.Image(png))}, "messages[0].content must be a string", []string{"user " + told}},
		"no system":  {[]content.Message{system, user(content.Text("a"))}, "System role not supported", []string{`user "Be brief."`, `user "a"`}},
		"alternate":  {[]content.Message{user(content.Text("a")), user(content.Text("b"))}, "Conversation roles must alternate user/assistant/user/assistant/...", []string{`user "a\nb"`}},
		"short ids":  {calls, "Tool call id was call_long_name but must be a-z, A-Z, 0-9, with a length of 9.", []string{`user "go"`, "assistant null", `tool "ok"`}},
		"not at all": {[]content.Message{user(content.Text("see"), content.Image("file:///etc/passwd"))}, "", []string{`user "see\n[an image, not shown: its data cannot be read]"`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := openaitest.New(t)
			if tt.message != "" {
				s.Reply(openaitest.Fail(500, tt.message))
			}
			s.Reply(openaitest.Text("ok"))
			m := model(t, s, openai.Config{})
			if _, err := m.Do(t.Context(), &llm.Request{Messages: tt.msgs}); err != nil {
				t.Fatal(err)
			}
			reqs := s.Requests()
			if name == "no images" && m.Info().Vision {
				t.Error("it says still that it takes images")
			}
			var got []string
			for _, msg := range reqs[len(reqs)-1].Messages {
				got = append(got, msg.Role+" "+string(msg.Content))
				for _, c := range msg.ToolCalls {
					if len(c.ID) != 9 {
						t.Errorf("id %q", c.ID)
					}
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			if name == "no images" && string(reqs[0].Messages[0].Content) != image {
				t.Errorf("first %s", reqs[0].Messages[0].Content)
			}
		})
	}
}

// TestStreamRefused: an endpoint that does not stream to this key answers whole.
func TestStreamRefused(t *testing.T) {
	s := openaitest.New(t)
	s.Reply(openaitest.Fail(400, "Your organization must be verified to stream this model."), openaitest.Text("all at once"))
	var said string
	resp, err := model(t, s, openai.Config{}).Do(t.Context(), llmtest.Request(func(d llm.Delta) { said += d.Text }))
	if err != nil || said != "all at once" || resp.Message.Text() != said || s.Requests()[1].Stream {
		t.Fatalf("%+v, %v, said %q", resp, err, said)
	}
}

// TestChangedModel: what another model or API wanted back is not sent to this one.
func TestChangedModel(t *testing.T) {
	for source, want := range map[string]bool{"messages api.anthropic.com": false, "chat elsewhere.example test-model": false, "": true} {
		extra := map[string]json.RawMessage{"reasoning_details": []byte(`[{"text":"x"}]`)}
		if source != "" {
			extra = wire.Mark(extra, source)
		}
		s := openaitest.New(t)
		s.Reply(openaitest.Text("ok"))
		req := llmtest.Request(nil)
		req.Messages = append(req.Messages, content.Message{Role: content.RoleAssistant, Parts: []content.Part{content.Text("a")}, Extra: extra},
			content.Message{Role: content.RoleUser, Parts: []content.Part{content.Text("b")}})
		if _, err := model(t, s, openai.Config{}).Do(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		msg := s.Requests()[0].Messages[2]
		if got := msg.ReasoningDetails != nil; got != want {
			t.Errorf("%q: sent %v", source, got)
		}
	}
}

// TestCacheMarkers: the instructions and the last message are marked, a tool's
// result at the message itself.
func TestCacheMarkers(t *testing.T) {
	s := openaitest.New(t)
	s.Reply(openaitest.Text("ok"))
	m := model(t, s, openai.Config{ModelConfig: wire.ModelConfig{CacheRetention: "1h"}, Dialect: openai.Dialect{CacheMarkers: true}})
	req := llmtest.Request(nil)
	req.Messages = append(req.Messages, content.Message{Role: content.RoleAssistant, ToolCalls: []content.ToolCall{{ID: "a", Name: "f", Arguments: "{}"}}},
		content.Message{Role: content.RoleTool, ToolCallID: "a", Parts: []content.Part{content.Text("ok")}})
	if _, err := m.Do(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	var body struct{ Messages []json.RawMessage }
	if err := json.Unmarshal(s.Requests()[0].Raw, &body); err != nil {
		t.Fatal(err)
	}
	const marker = `"cache_control":{"type":"ephemeral","ttl":"1h"}`
	want := []string{`{"role":"system","content":[{"type":"text","text":"You help.",` + marker + `}]}`, `{"role":"user","content":"Hello"}`,
		`{"role":"tool","content":"ok","tool_call_id":"a",` + marker + `}`}
	got := []string{string(body.Messages[0]), string(body.Messages[1]), string(body.Messages[3])}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestKeyHeader(t *testing.T) {
	s := openaitest.New(t)
	s.Reply(openaitest.Text("ok"))
	if _, err := model(t, s, openai.Config{Dialect: openai.Dialect{KeyHeader: "api-key"}}).Do(t.Context(), llmtest.Request(nil)); err != nil {
		t.Fatal(err)
	}
	if h := s.Requests()[0].Header; h.Get("Authorization") != "" || h.Get("Api-Key") != "sk-test-0123456789" {
		t.Errorf("headers %v", h)
	}
}
