package bedrock_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/bedrock"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/bedrocktest"
)

// refuse answers with an error of the service.
func refuse(w http.ResponseWriter, status int, name, message string) {
	w.Header().Set("X-Amzn-Errortype", name)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": message})
}

func TestAdvice(t *testing.T) {
	tests := []struct {
		status        int
		name, message string
		class         llm.Class
		want          string
	}{
		{400, "ValidationException", "Invocation of model ID x with on-demand throughput isn\u2019t supported. Retry your request with the ID or ARN of an inference profile that contains this model.",
			llm.ClassBadRequest, "such as eu.anthropic.claude-x-v1:0"},
		{400, "ValidationException", "The provided model identifier is invalid.", llm.ClassBadRequest, "that region eu-central-1 has it"},
		{404, "ResourceNotFoundException", "Model not found.", llm.ClassBadRequest, "check the model id"},
		{403, "AccessDeniedException", "You don't have access to the model with the specified model ID.", llm.ClassAuth, "bedrock:InvokeModelWithResponseStream"},
		{403, "AccessDeniedException", "User: arn:aws:iam::1:user/x is not authorized to perform: bedrock:InvokeModel on resource: y", llm.ClassAuth, "Bedrock console of region eu-central-1"},
		{403, "ExpiredTokenException", "The security token included in the request is expired", llm.ClassAuth, "renew"},
		{400, "ServiceQuotaExceededException", "Your request exceeds the service quota for your account.", llm.ClassQuota, "Service Quotas"},
		{400, "ValidationException", "This model doesn't support tool use.", llm.ClassBadRequest, "native tool calling"},
		{400, "ValidationException", `The model returned the following errors: {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}`,
			llm.ClassContext, "errors: prompt is too long: 9 > 8"},
		{429, "ThrottlingException", "Too many tokens per day, please wait before trying again.", llm.ClassRateLimit, "per day"},
		{424, "ModelErrorException", "The system encountered an unexpected error.", llm.ClassOverloaded, "unexpected"},
	}
	for _, tt := range tests {
		t.Run(tt.name+" "+tt.want, func(t *testing.T) {
			cfg := bedrock.Config{}
			cfg.Model = "anthropic.claude-x-v1:0"
			m := connect(t, cfg, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { refuse(w, tt.status, tt.name, tt.message) }))
			_, err := m.Do(t.Context(), llmtest.Request(nil))
			if e := failure(t, err); e.Class != tt.class || e.Status != tt.status || !strings.Contains(e.Message, tt.want) {
				t.Errorf("got %#v", e)
			}
		})
	}
}

// What a model refuses is left out, in the same call and in all later ones.
func TestLearns(t *testing.T) {
	all := func(c *bedrock.Config) {
		c.Temperature, c.TopP, c.TopK = ptr(0.1), ptr(0.2), ptr(3.0)
	}
	think := func(c *bedrock.Config) { c.Reasoning, c.ReasoningEffort, c.MaxOutput = true, "medium", 9000 }
	tests := []struct {
		name, model string
		set         func(*bedrock.Config)
		status      int
		message     string
		refused     string // what makes the model refuse: a part of path and body
		instead     string // what must be there instead; "" = anything
	}{
		{"streamed tools", "us.meta.llama4-scout-17b-instruct-v1:0", nil, 400, "This model doesn't support tool use in streaming mode.", "/converse-stream", ""},
		{"streaming", "a.b", nil, 400, "The model is unsupported: it does not support streaming.", "/converse-stream", ""},
		{"system", "amazon.titan-text-express-v1", nil, 400, "This model doesn't support system messages. Try again without a system message or use a model that supports system messages.",
			`"system"`, `{"text":"You help."},{"text":"Today`},
		{"mixed turns", "us.meta.llama3-3-70b-instruct-v1:0", nil, 400, "messages.2.content: Conversation blocks and tool result blocks cannot be provided in the same turn.",
			`]}},{"text":"Images`, "(continued)"},
		{"caching", claudeID, nil, 403, "You invoked an unsupported model or your request did not allow prompt caching. See the documentation for more information.", "cachePoint", ""},
		{"caching of tools", claudeID, nil, 400, "Malformed input request: #/toolConfig/tools/1: extraneous key [cachePoint] is not permitted, please reformat your input and try again.",
			`}},{"cachePoint":{"type":"default"}}]}}`, "cachePoint"},
		{"caching of messages", claudeID, nil, 400, "Cache point cannot be inserted after reasoning block. Please remove the invalid cache point and try again.",
			`{"text":"And now?"},{"cachePoint"`, "cachePoint"},
		{"cache time", claudeID, func(c *bedrock.Config) { c.CacheRetention = "1h" }, 400, "Malformed input request: #/system/1/cachePoint: extraneous key [ttl] is not permitted",
			`"ttl"`, "cachePoint"},
		{"temperature", claudeID, all, 400, "The model returned the following errors: `temperature` is deprecated for this model.", `"temperature"`, `"topP"`},
		{"temperature and top_p", claudeID, all, 400, "The model returned the following errors: `temperature` and `top_p` cannot both be specified for this model. Please use only one.",
			`"topP"`, `"temperature"`},
		{"top_k", claudeID, all, 400, "The model returned the following errors: top_k is not supported", `"top_k"`, `"temperature"`},
		{"thinking by budget", claudeID, think, 400, "The model returned the following errors: \"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking behavior.",
			`"enabled"`, `"adaptive"`},
		{"thinking as it likes", "anthropic.claude-next-v1:0", think, 400, "The model returned the following errors: adaptive thinking is not supported on this model", `"adaptive"`, ""},
		{"shown thinking", "anthropic.claude-opus-4-6-v1", think, 400, "The model returned the following errors: thinking.adaptive.display: Extra inputs are not permitted", `"display"`, `"adaptive"`},
		{"thinking", "us.amazon.nova-2-lite-v1:0", think, 400, "Malformed input request: extraneous key [reasoningConfig] is not permitted", "reasoningConfig", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := bedrock.Config{}
			cfg.Model = tt.model
			if tt.set != nil {
				tt.set(&cfg)
			}
			strict := bedrocktest.Handler(func(*http.Request, []byte) llmtest.Reply { return llmtest.Reply{Text: "ok"} })
			var mu sync.Mutex
			refusals, last := 0, ""
			m := connect(t, cfg, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				mu.Lock()
				last = r.URL.Path + " " + string(body)
				bad := strings.Contains(last, tt.refused)
				if bad {
					refusals++
				}
				mu.Unlock()
				if bad {
					refuse(w, tt.status, "ValidationException", tt.message)
					return
				}
				strict.ServeHTTP(w, r)
			}))
			for range 2 {
				said := ""
				req := llmtest.Request(func(d llm.Delta) { said += d.Text })
				req.Messages = conversationOfTwo()
				resp, err := m.Do(t.Context(), req)
				if err != nil || resp.Message.Text() != "ok" || said != "ok" {
					t.Fatalf("%+v, %v, said %q", resp, err, said)
				}
				if !strings.Contains(last, tt.instead) {
					t.Errorf("no %s in %s", tt.instead, last)
				}
			}
			if refusals != 1 {
				t.Errorf("refused %d times", refusals)
			}
		})
	}
}

// A refusal that goes on whatever is left out ends, with what the model said.
func TestLearningEnds(t *testing.T) {
	calls := 0
	cfg := bedrock.Config{}
	cfg.Reasoning, cfg.ReasoningEffort, cfg.Temperature, cfg.TopP, cfg.TopK, cfg.CacheRetention = true, "high", ptr(0.1), ptr(0.1), ptr(1.0), "1h"
	m := connect(t, cfg, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		refuse(w, 400, "ValidationException", "I do not support streaming, tool use in streaming, a system prompt, cachePoint ttl in messages or toolConfig, "+
			"thinking.type.enabled, adaptive display, signature, top_p, temperature, topK")
	}))
	_, err := m.Do(t.Context(), llmtest.Request(func(llm.Delta) {}))
	if e := failure(t, err); e.Class != llm.ClassBadRequest || calls < 5 || calls > 20 {
		t.Errorf("%d calls, %#v", calls, e)
	}
}

// Models also refuse in the first event of a stream.
func TestLearnsFromStream(t *testing.T) {
	cfg := bedrock.Config{}
	cfg.Temperature = ptr(0.3)
	var bodies []string
	m := connect(t, cfg, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		if strings.Contains(string(body), "temperature") {
			_, _ = w.Write(exception("validationException", `{"message":"The model returned the following errors: `+"`temperature`"+` is deprecated for this model."}`))
			return
		}
		_, _ = w.Write(frames("contentBlockDelta", `{"delta":{"text":"ok"}}`, "messageStop", `{"stopReason":"end_turn"}`))
	}))
	for range 2 {
		if resp, err := m.Do(t.Context(), llmtest.Request(func(llm.Delta) {})); err != nil || resp.Message.Text() != "ok" {
			t.Fatalf("%+v, %v", resp, err)
		}
	}
	if len(bodies) != 3 {
		t.Errorf("%d calls", len(bodies))
	}
}

// How a Claude model is told to think depends on its version.
func TestThinkingByVersion(t *testing.T) {
	for id, want := range map[string]string{
		"us.anthropic.claude-3-7-sonnet-20250219-v1:0":    `"budget_tokens":6000,"type":"enabled"`,
		"us.anthropic.claude-opus-4-20250514-v1:0":        `"enabled"`,
		"us.anthropic.claude-opus-4-1-20250805-v1:0":      `"enabled"`,
		"global.anthropic.claude-haiku-4-5-20251001-v1:0": `"enabled"`,
		"us.anthropic.claude-opus-4-6-v1":                 `"adaptive"`,
		"us.anthropic.claude-sonnet-4-6":                  `"output_config":{"effort":"high"}`,
		"global.anthropic.claude-opus-4-7":                `"output_config":{"effort":"xhigh"}`,
		"global.anthropic.claude-opus-5":                  `"output_config":{"effort":"xhigh"}`,
		"us.deepseek.r1-v1:0":                             `"maxTokens":8000`,
	} {
		cfg := bedrock.Config{}
		cfg.Model, cfg.Reasoning, cfg.ReasoningEffort, cfg.MaxOutput = id, true, "xhigh", 8000
		f := serve(t, cfg, llmtest.Reply{Text: "ok"})
		if _, err := f.model.Do(t.Context(), llmtest.Request(nil)); err != nil {
			t.Fatal(err)
		}
		if body := f.requests()[0].body; !strings.Contains(body, want) {
			t.Errorf("%s: no %s in %s", id, want, body)
		}
	}
}

// Thinking is kept as it came, and goes back to where it was: to the model it
// came from only.
func TestReasoningGoesBack(t *testing.T) {
	answer := []map[string]any{
		{"reasoningContent": map[string]any{"reasoningText": map[string]any{"text": "First <thought>", "signature": "sig1=="}}},
		{"text": "\n\n"},
		{"text": "I look."},
		{"reasoningContent": map[string]any{"redactedContent": "c2VjcmV0"}},
		{"toolUse": map[string]any{"toolUseId": "t1", "name": "terminal", "input": map[string]any{"command": "ls"}}},
		{"reasoningContent": map[string]any{"reasoningText": map[string]any{"text": "Second", "signature": "sig2=="}}},
		{"toolUse": map[string]any{"toolUseId": "t2", "name": "terminal", "input": map[string]any{"command": "pwd"}}},
		{"reasoningContent": map[string]any{"reasoningText": map[string]any{"text": "unsigned"}}},
	}
	want := `[{"reasoningContent":{"reasoningText":{"text":"First <thought>","signature":"sig1=="}}},{"text":"I look."},` +
		`{"reasoningContent":{"redactedContent":"c2VjcmV0"}},{"toolUse":{"toolUseId":"t1","name":"terminal","input":{"command":"ls"}}},` +
		`{"reasoningContent":{"reasoningText":{"text":"Second","signature":"sig2=="}}},{"toolUse":{"toolUseId":"t2","name":"terminal","input":{"command":"pwd"}}}]`
	for name, onDelta := range map[string]func(llm.Delta){"whole": nil, "streamed": func(llm.Delta) {}} {
		t.Run(name, func(t *testing.T) {
			var bodies []string
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				bodies = append(bodies, string(body))
				if strings.HasSuffix(r.URL.Path, "-stream") {
					_, _ = w.Write(streamOf(answer))
					return
				}
				_ = json.NewEncoder(w).Encode(map[string]any{"output": map[string]any{"message": map[string]any{"content": answer}}, "stopReason": "tool_use"})
			})
			first := connect(t, bedrock.Config{}, h)
			req := llmtest.Request(onDelta)
			resp, err := first.Do(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if r := resp.Message.Reasoning; r != "First <thought>\nSecond\nunsigned" || resp.Message.Text() != "\n\n\nI look." {
				t.Errorf("reasoning %q, text %q", r, resp.Message.Text())
			}
			stored := throughLog(t, resp.Message)
			req.Messages = append(req.Messages, stored)
			for _, c := range stored.ToolCalls {
				req.Messages = append(req.Messages, content.Message{Role: content.RoleTool, ToolCallID: c.ID, Parts: []content.Part{content.Text("r")}})
			}
			if _, err := first.Do(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(parsed(t, want), parsed(t, assistantOf(t, bodies[1]))); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			cfg := bedrock.Config{}
			cfg.Model = "amazon.nova-pro-v1:0"
			if _, err := connect(t, cfg, h).Do(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if got := assistantOf(t, bodies[2]); strings.Contains(got, "reasoningContent") || strings.Contains(got, "sig1") || strings.Contains(bodies[2], "_source") {
				t.Errorf("another model got %s", got)
			}
		})
	}
}

func parsed(t *testing.T, s string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// throughLog is what the log makes of an answer: JSON, and back.
func throughLog(t *testing.T, m content.Message) content.Message {
	t.Helper()
	b, err := json.Marshal(m.Extra)
	if err != nil {
		t.Fatal(err)
	}
	m.Extra = nil
	if err := json.Unmarshal(b, &m.Extra); err != nil {
		t.Fatal(err)
	}
	return m
}

// assistantOf returns the content of the first assistant turn of a request.
func assistantOf(t *testing.T, body string) string {
	t.Helper()
	var o struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal([]byte(body), &o); err != nil {
		t.Fatal(err)
	}
	for _, m := range o.Messages {
		if m.Role == "assistant" {
			return string(m.Content)
		}
	}
	return ""
}

// Thinking whose place is lost, because a call of the answer is gone, comes first.
func TestReasoningWithoutItsPlace(t *testing.T) {
	f := serve(t, bedrock.Config{}, llmtest.Reply{Text: "I look.", Reasoning: "hm", Signature: "s1", Calls: []content.ToolCall{
		{ID: "c1", Name: "terminal", Arguments: `{}`}, {ID: "c2", Name: "terminal", Arguments: `{}`}}}, llmtest.Reply{Text: "ok"})
	req := llmtest.Request(nil)
	resp, err := f.model.Do(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Message.ToolCalls = resp.Message.ToolCalls[:1]
	req.Messages = append(req.Messages, resp.Message)
	if _, err := f.model.Do(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if got := assistantOf(t, f.requests()[1].body); !strings.HasPrefix(got, `[{"reasoningContent"`) || strings.Contains(got, "c2") {
		t.Errorf("got %s", got)
	}
}

// A model that is told how long to think is not told so when it goes on from an
// answer of another model: it would miss its thinking.
func TestThinkingPausesAfterAnotherModel(t *testing.T) {
	cfg := bedrock.Config{}
	cfg.Reasoning, cfg.ReasoningEffort, cfg.MaxOutput = true, "high", 8000
	f := serve(t, cfg, llmtest.Reply{Text: "ok"})
	req := llmtest.Request(nil)
	req.Messages = append(req.Messages,
		content.Message{Role: content.RoleAssistant, ToolCalls: []content.ToolCall{{ID: "x", Name: "terminal", Arguments: "{}"}}},
		content.Message{Role: content.RoleTool, ToolCallID: "x", Parts: []content.Part{content.Text("r")}})
	for range 2 {
		resp, err := f.model.Do(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		req.Messages = append(req.Messages, resp.Message, say(content.RoleUser, "more"))
	}
	if r := f.requests(); strings.Contains(r[0].body, "budget_tokens") || !strings.Contains(r[1].body, "budget_tokens") {
		t.Errorf("first %v, second %v", strings.Contains(r[0].body, "budget_tokens"), strings.Contains(r[1].body, "budget_tokens"))
	}
}

func TestUsage(t *testing.T) {
	tests := []struct {
		model, usage           string
		stream                 bool
		prompt, out, read, wrt int64
	}{
		{claudeID, `{"inputTokens":10,"outputTokens":7,"totalTokens":167,"cacheReadInputTokens":100,"cacheWriteInputTokens":50}`, true, 160, 7, 100, 50},
		{claudeID, `{"inputTokens":10,"outputTokens":7,"totalTokens":17}`, false, 10, 7, 0, 0},
		{"openai.gpt-5-v1", `{"inputTokens":4995,"outputTokens":19,"totalTokens":10007,"cacheWriteInputTokens":4993}`, true, 4995, 19, 0, 4993},
		{"openai.gpt-5-v1", `{"inputTokens":2,"outputTokens":19,"totalTokens":5014,"cacheWriteInputTokens":4993}`, false, 4995, 19, 0, 4993},
		{claudeID, `{"inputTokens":"12","outputTokens":-1}`, true, 12, 0, 0, 0},
		{claudeID, `null`, true, 0, 0, 0, 0},
	}
	for _, tt := range tests {
		cfg := bedrock.Config{}
		cfg.Model, cfg.Price = tt.model, &llm.Price{Input: 1, CacheRead: 0.1, CacheWrite: 1.25, Output: 5}
		m := connect(t, cfg, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if tt.stream {
				_, _ = w.Write(frames("contentBlockDelta", `{"delta":{"text":"x"}}`, "messageStop", `{"stopReason":"end_turn"}`, "metadata", `{"usage":`+tt.usage+`}`))
				return
			}
			_, _ = fmt.Fprintf(w, `{"output":{"message":{"content":[{"text":"x"}]}},"stopReason":"end_turn","usage":%s}`, tt.usage)
		}))
		var onDelta func(llm.Delta)
		if tt.stream {
			onDelta = func(llm.Delta) {}
		}
		resp, err := m.Do(t.Context(), llmtest.Request(onDelta))
		if err != nil {
			t.Fatal(err)
		}
		u := resp.Usage
		if u.PromptTokens != tt.prompt || u.CompletionTokens != tt.out || u.CacheReadTokens != tt.read || u.CacheWriteTokens != tt.wrt {
			t.Errorf("%s: %+v", tt.usage, u)
		}
		if (resp.Cost == nil) != (tt.usage == "null") {
			t.Errorf("%s: cost %v", tt.usage, resp.Cost)
		}
	}
}

// The smaller of both bounds goes out.
func TestOutputBound(t *testing.T) {
	cfg := bedrock.Config{}
	cfg.MaxOutput = 500
	f := serve(t, cfg, llmtest.Reply{Text: "ok"})
	for _, n := range []int64{0, 100, 900} {
		req := llmtest.Request(nil)
		req.MaxOutput = n
		if _, err := f.model.Do(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{`"maxTokens":500`, `"maxTokens":100`, `"maxTokens":500`} {
		if body := f.requests()[i].body; !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
}

// Tools whose names the API does not take are called by the names it does, and
// answered by their own.
func TestToolNames(t *testing.T) {
	f := serve(t, bedrock.Config{}, llmtest.Reply{Calls: []content.ToolCall{{ID: "1", Name: "my_tool_2", Arguments: "{}"}}})
	req := llmtest.Request(nil)
	req.Tools = []llm.Tool{{Name: "my.tool", Description: "one", Parameters: []byte(`{"properties":{}}`)}, {Name: "my tool"}}
	resp, err := f.model.Do(t.Context(), req)
	if err != nil || resp.Message.ToolCalls[0].Name != "my tool" {
		t.Fatalf("%+v, %v", resp, err)
	}
}
