package responses_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/responsestest"
	"parley/internal/llm/responses"
	"parley/internal/llm/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]responses.Config{
		"no model": {ModelConfig: wire.ModelConfig{Model: "  "}},
		"address":  {ModelConfig: wire.ModelConfig{Model: "m", BaseURL: "ftp://h"}},
		"key":      {ModelConfig: wire.ModelConfig{Model: "m", APIKey: account.NewSecret("a b")}},
	} {
		if _, err := responses.New(cfg); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	m, err := responses.New(responses.Config{ModelConfig: wire.ModelConfig{Model: " m ", MaxOutput: 3, ContextWindow: 7, NoVision: true}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(llm.Info{Model: "m", Endpoint: responses.DefaultBaseURL, MaxOutput: responses.MinOutput, ContextWindow: 7, NativeTools: true}, m.Info()); d != "" {
		t.Error(d)
	}
}

// TestTransport: where requests go and with what, for OpenAI and for Azure.
func TestTransport(t *testing.T) {
	tests := []struct {
		base string // behind the server's address
		cfg  responses.Config
		uri  string
		want http.Header
	}{
		{"/v1", responses.Config{}, "/v1/responses", http.Header{"Authorization": {"Bearer sk-test-0123456789"}, "Api-Key": nil, "X-S": nil}},
		{"/v1/responses/", responses.Config{SessionHeader: "X-S"}, "/v1/responses", http.Header{"X-S": {"session-1"}}},
		{"/openai?api-version=2025-04-01-preview", responses.Config{KeyHeader: "api-key"}, "/openai/responses?api-version=2025-04-01-preview",
			http.Header{"Authorization": nil, "Api-Key": {"sk-test-0123456789"}}},
		{"", responses.Config{ModelConfig: wire.ModelConfig{Headers: map[string]string{"Authorization": "Bearer other", "X-More": "1"}}}, "/responses",
			http.Header{"Authorization": {"Bearer other"}, "X-More": {"1"}}},
	}
	for _, tt := range tests {
		t.Run(tt.uri, func(t *testing.T) {
			s := serve(t)
			tt.cfg.BaseURL = s.URL + tt.base
			if _, err := s.model(t, tt.cfg).Do(t.Context(), llmtest.Request(nil)); err != nil {
				t.Fatal(err)
			}
			for name, want := range tt.want {
				if got := s.headers[0][name]; !slices.Equal(got, want) {
					t.Errorf("%s: %q", name, got)
				}
			}
			if s.uris[0] != tt.uri {
				t.Errorf("went to %s", s.uris[0])
			}
		})
	}
}

// TestLearns: what an endpoint refuses is left out, at once and later.
func TestLearns(t *testing.T) {
	thinking := wire.ModelConfig{Model: "gpt-5.1", Reasoning: true, ReasoningEffort: "low", ReasoningSummary: "auto", CacheRetention: "24h"}
	sampling := wire.ModelConfig{Model: "deployment", Temperature: ptr(0.5)}
	tests := []struct {
		field   string // as it is in the body
		message string
		cfg     wire.ModelConfig
	}{
		{`"prompt_cache_key"`, "Unsupported parameter(s): prompt_cache_key", thinking},
		{`"prompt_cache_retention"`, "prompt_cache_retention is not supported on this model", thinking},
		{`"include"`, "Encrypted content is not supported with this model.", thinking},
		{`"include"`, "Unsupported parameter: include", thinking},
		{`"summary":"auto"`, "Your organization must be verified to generate reasoning summaries.", thinking},
		{`"reasoning":`, "Unsupported parameter: 'reasoning.effort' is not supported with this model.", thinking},
		{`"reasoning":`, "litellm.UnsupportedParamsError: m doesn't support `reasoning.effort` (its model cost map entry lacks `supports_reasoning`).", thinking},
		{`"parallel_tool_calls"`, "Extra inputs are not permitted: parallel_tool_calls", thinking},
		{`"temperature"`, "Unsupported parameter: 'temperature' is not supported with this model.", sampling},
		{`"output":[`, "Invalid type for 'input[3].output': expected a string, but got an array instead.", thinking},
		{`"output":[`, "Invalid type for 'input'.", thinking},
	}
	for _, tt := range tests {
		t.Run(tt.message, func(t *testing.T) {
			s := serve(t)
			s.refuse = func(body string) *responsestest.Refusal {
				if strings.Contains(body, tt.field) {
					return &responsestest.Refusal{Status: 400, Message: tt.message}
				}
				return nil
			}
			m := s.model(t, responses.Config{ModelConfig: tt.cfg})
			req := llmtest.Request(nil)
			req.Messages = append(req.Messages,
				content.Message{Role: content.RoleAssistant, ToolCalls: []content.ToolCall{{ID: "a", Name: "look", Arguments: "{}"}}},
				content.Message{Role: content.RoleTool, ToolCallID: "a", Parts: []content.Part{content.Image("https://h/i.png")}})
			for range 2 {
				if _, err := m.Do(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			}
			if s.count() != 3 || !strings.Contains(s.body(0), tt.field) {
				t.Errorf("%d requests, the first %s", s.count(), s.body(0))
			}
			if strings.Contains(tt.field, "output") && !strings.Contains(s.body(1), "Images from the tool results above:") {
				t.Errorf("the image is gone: %s", s.body(1))
			}
		})
	}
}

// TestDoesNotLearn: a refusal of what was not sent, or of something else, is the
// caller's.
func TestDoesNotLearn(t *testing.T) {
	for _, message := range []string{"prompt_cache_retention is not supported on this model", "Invalid value for 'reasoning.effort': 'low'",
		"Item with id 'rs_1' not found.", "temperature", "what?"} {
		s := serve(t)
		s.refuse = func(string) *responsestest.Refusal { return &responsestest.Refusal{Status: 400, Message: message} }
		_, err := s.model(t, responses.Config{ModelConfig: wire.ModelConfig{Model: "m", Reasoning: true, ReasoningEffort: "low"}}).
			Do(t.Context(), llmtest.Request(nil))
		var e *llm.Error
		if !errors.As(err, &e) || e.Message != message || s.count() != 1 {
			t.Errorf("%s: %v after %d requests", message, err, s.count())
		}
	}
}

// TestLearnsIDs: an endpoint that looks items up by their ids gets none.
func TestLearnsIDs(t *testing.T) {
	for _, message := range []string{"Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
		"Duplicate item found with id rs_1.", "Invalid 'input[2].id': string too long."} {
		t.Run(message, func(t *testing.T) {
			s := serveItems(t, []responsestest.Item{thought("1"), call("a")})
			m := s.model(t, responses.Config{})
			req := llmtest.Request(nil)
			first, err := m.Do(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			s.refuse = func(body string) *responsestest.Refusal {
				if strings.Contains(body, `"id":`) {
					return &responsestest.Refusal{Status: 404, Message: message}
				}
				return nil
			}
			s.mu.Unlock()
			answered(req, first.Message)
			if _, err := m.Do(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(sent(t, s.body(2)), " "); got != "thought! call:a! out:a" || s.count() != 3 {
				t.Errorf("%d requests, sent %s", s.count(), got)
			}
		})
	}
}

func TestMinOutput(t *testing.T) {
	s := serve(t)
	m := s.model(t, responses.Config{})
	req := llmtest.Request(nil)
	req.MaxOutput = responses.MinOutput - 1
	var e *llm.Error
	if _, err := m.Do(t.Context(), req); !errors.As(err, &e) || !e.NotSent || !e.Free() || s.count() != 0 {
		t.Errorf("got %v", err)
	}
	req.MaxOutput = responses.MinOutput
	if _, err := m.Do(t.Context(), req); err != nil || !strings.Contains(s.body(0), `"max_output_tokens":16`) {
		t.Errorf("%v", err)
	}
}

// raw is a model whose endpoint always answers body.
func raw(t *testing.T, kind, body string, cfg wire.ModelConfig) *responses.Model {
	s := &server{}
	s.start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write([]byte(body))
	}))
	if cfg.Model == "" {
		cfg.Model = "m"
	}
	return s.model(t, responses.Config{ModelConfig: cfg})
}

// events renders a stream of data events.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		fmt.Fprintf(&b, "data: %s\n\n", d)
	}
	return b.String()
}

const ended = `{"type":"response.completed","response":{"id":"r1","status":"completed","output":[]}}`

// TestDialects: streams as endpoints really send them.
func TestDialects(t *testing.T) {
	tests := []struct {
		name     string
		stream   string
		text     string
		thought  string
		calls    string // name(arguments), separated by spaces
		finish   string
		diverges bool // the final text is not the one that was shown
	}{
		{"only deltas, an empty output at the end", events(
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"a","content":[]}}`,
			`{"type":"response.output_text.delta","output_index":0,"item_id":"b","delta":"He"}`,
			`{"type":"response.output_text.delta","output_index":0,"item_id":"c","delta":"llo"}`, ended), "Hello", "", "", "stop", false},
		{"nothing but texts", events(`{"type":"response.output_text.delta","delta":"Hi"}`, `{"type":"response.reasoning_text.delta","delta":"hm"}`, ended), "Hi", "hm", "", "stop", false},
		{"only whole items", events(
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"r","summary":[{"text":"A"},{"text":"B"}]}}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":[{"type":"output_text","text":"Hi"}]}}`,
			`{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":1}"}}`, ended), "Hi", "A\n\nB", `f({"a":1})`, "tool_calls", false},
		{"the summary once more as content", events(
			`{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"hm"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"r","summary":[{"text":"hm"}]}}`,
			`{"type":"response.completed","response":{"status":"completed","output":[{"type":"reasoning","id":"r","content":[{"type":"output_text","text":"hm"}]},{"type":"message","content":[{"text":"Hi"}]}]}}`), "Hi", "hm", "", "stop", false},
		{"only the end", events(`{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"text":"Hi"}]}]}}`), "Hi", "", "", "stop", false},
		{"the end without a response", events(`{"type":"response.output_text.delta","delta":"Hi"}`, `{"type":"response.completed"}`), "Hi", "", "", "stop", false},
		{"names of events only", "event: response.output_text.delta\ndata: {\"delta\":\"Hi\"}\n\nevent: response.completed\ndata: {}\n\n", "Hi", "", "", "stop", false},
		{"two messages", events(
			`{"type":"response.output_text.delta","output_index":0,"delta":"One"}`, `{"type":"response.output_text.delta","output_index":2,"delta":"Two"}`, ended), "One\nTwo", "", "", "stop", false},
		{"a refusal", events(`{"type":"response.refusal.delta","output_index":0,"delta":"I can"}`, `{"type":"response.refusal.done","output_index":0,"refusal":"I can not"}`, ended), "I can not", "", "", "stop", false},
		{"the rest of a text", events(`{"type":"response.output_text.delta","output_index":0,"delta":"One"}`, `{"type":"response.output_text.done","output_index":0,"text":"One two"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"One two three"}]}}`, ended), "One two three", "", "", "stop", false},
		{"another text in the end", events(`{"type":"response.output_text.delta","output_index":0,"delta":"One"}`,
			`{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"Two"}]}]}}`), "Two", "", "", "stop", true},
		{"calls that share a number with a text", events(
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}`, `{"type":"response.output_text.delta","output_index":0,"delta":"Hi"}`,
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"f","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"a\""}`, `{"type":"response.function_call_arguments.delta","output_index":0,"delta":":1}"}`, ended), "Hi", "", `f({"a":1})`, "tool_calls", false},
		{"parallel calls without numbers", events(
			`{"type":"response.output_item.added","item":{"type":"function_call","id":"1","call_id":"c","name":"f"}}`,
			`{"type":"response.output_item.added","item":{"type":"function_call","id":"2","call_id":"c","name":"g","arguments":{"x":2}}}`,
			`{"type":"response.function_call_arguments.delta","item_id":"1","delta":"{}"}`,
			`{"type":"response.function_call_arguments.done","item_id":"2","arguments":""}`,
			`{"type":"response.output_item.done","item":{"type":"function_call","id":"1","call_id":"c","name":"f","arguments":"{\"y\":1}"}}`, ended), "", "", `f({"y":1}) g({"x":2})`, "tool_calls", false},
		{"wrong types", events(
			`{"type":"response.created","response":[1]}`, `{"type":"response.output_item.added","item":7}`, `{"type":7}`, `{"type":"response.output_text.delta","output_index":"0","delta":5}`,
			`{"type":"response.output_item.done","item":{"type":"message","content":"x"}}`,
			`{"type":"response.output_text.delta","output_index":"0","delta":"Hi"}`, `{"type":"response.web_search_call.completed"}`, `{"type":"keepalive"}`,
			`{"type":"response.completed","response":{"status":1,"usage":7,"output":[null,7,{"type":"message","content":[{"text":"Hi"}]}]}}`), "Hi", "", "", "stop", false},
		{"out of tokens", events(`{"type":"response.output_text.delta","delta":"Hi"}`,
			`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`), "Hi", "", "", "length", false},
		{"filtered with a text", events(`{"type":"response.output_text.delta","delta":"Hi"}`,
			`{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}`), "Hi", "", "", "content_filter", false},
		{"a nameless call", events(`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call"}}`, `{"type":"response.output_text.delta","delta":"Hi"}`, ended), "Hi", "", "", "stop", false},
	}
	for _, tt := range tests {
		for _, kind := range []string{"text/event-stream", "application/json"} {
			t.Run(tt.name+"/"+kind, func(t *testing.T) {
				var said, thought strings.Builder
				resp, err := raw(t, kind, tt.stream, wire.ModelConfig{}).Do(t.Context(), llmtest.Request(func(d llm.Delta) {
					said.WriteString(d.Text)
					thought.WriteString(d.Reasoning)
				}))
				if err != nil {
					t.Fatal(err)
				}
				var calls []string
				for _, c := range resp.Message.ToolCalls {
					calls = append(calls, c.Name+"("+c.Arguments+")")
				}
				got := []string{resp.Message.Text(), resp.Message.Reasoning, strings.Join(calls, " "), resp.FinishReason}
				if d := cmp.Diff([]string{tt.text, tt.thought, tt.calls, tt.finish}, got); d != "" {
					t.Error(d)
				}
				if (said.String() == tt.text) == tt.diverges || thought.String() != tt.thought || resp.ID == "" {
					t.Errorf("shown %q, thought %q, id %q", said.String(), thought.String(), resp.ID)
				}
			})
		}
	}
}

// TestErrors: what endpoints say when they fail in the middle, and what is no
// answer at all.
func TestErrors(t *testing.T) {
	failed := func(err string) string {
		return `{"type":"response.failed","response":{"status":"failed","error":` + err + `}}`
	}
	tests := []struct {
		name, kind, body string
		class            llm.Class
		wait             time.Duration
		text             string
	}{
		{"failed", "", events(failed(`{"code":"server_error","message":"sorry"}`)), llm.ClassOverloaded, 0, "sorry"},
		{"failed with a wish", "", events(failed(`{"code":"rate_limit_exceeded","message":"Rate limit reached. Please try again in 1.5s."}`)), llm.ClassRateLimit, 1500 * time.Millisecond, "Rate"},
		{"failed, too long", "", events(failed(`{"code":"context_length_exceeded","message":"too much"}`)), llm.ClassContext, 0, "too much"},
		{"failed, policy", "", events(failed(`{"code":"invalid_prompt","message":"no"}`)), llm.ClassContentPolicy, 0, "no"},
		{"failed, no money", "", events(failed(`{"code":"insufficient_quota","message":"pay"}`)), llm.ClassQuota, 0, "pay"},
		{"failed, image", "", events(failed(`{"code":"invalid_base64_image","message":"odd"}`)), llm.ClassBadRequest, 0, "odd"},
		{"failed without a reason", "", events(failed(`null`)), llm.ClassOverloaded, 0, "failed"},
		{"cancelled", "", events(`{"type":"response.cancelled","response":{"status":"cancelled"}}`), llm.ClassOverloaded, 0, "cancelled"},
		{"flat error", "", events(`{"type":"error","code":"server_error","message":"sorry","param":null}`), llm.ClassOverloaded, 0, "sorry"},
		{"nested error", "", events(`{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"too much"}}`), llm.ClassContext, 0, "too much"},
		{"error without a type", "", events(`{"error":{"message":"slow down","code":429}}`), llm.ClassRateLimit, 0, "slow down"},
		{"error by its name", "", "event: error\ndata: {\"message\":\"request timed out\"}\n\n", llm.ClassTimeout, 0, "timed out"},
		{"the chat API's end", "", events(`{"type":"response.created","response":{}}`, "[DONE]"), llm.ClassNetwork, 0, "broke"},
		{"the chat API", "", events(`{"object":"chat.completion.chunk","choices":[{"delta":{"content":"x"}}]}`), llm.ClassNetwork, 0, "broke"},
		{"half an event", "", "data: {\"type\":\"response.out", llm.ClassNetwork, 0, "broke"},
		{"not an object", "", events(`[1]`), llm.ClassOverloaded, 0, ""},
		{"no output", "", events(ended), llm.ClassNoResponse, 0, "without an output"},
		{"filtered", "", events(`{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"},"output":[{"type":"reasoning","id":"r"}]}}`), llm.ClassContentPolicy, 0, "filter"},
		{"whole failed", "application/json", `{"status":"failed","error":{"code":"server_error","message":"sorry"}}`, llm.ClassOverloaded, 0, "sorry"},
		{"whole error", "application/json", `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`, llm.ClassRateLimit, 0, "slow down"},
		{"whole, later", "application/json", `{"status":"queued","output":[]}`, llm.ClassNoResponse, 0, "queued"},
		{"whole chat", "application/json", `{"choices":[]}`, llm.ClassNetwork, 0, "not a response"},
		{"whole, empty", "application/json", ` `, llm.ClassNoResponse, 0, "empty"},
		{"whole page", "text/html", `<html>`, llm.ClassNetwork, 0, "not a response"},
		{"whole half", "application/json", `{"status":"completed","outp`, llm.ClassNetwork, 0, "not a response"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.kind == "" {
				tt.kind = "text/event-stream"
			}
			_, err := raw(t, tt.kind, tt.body, wire.ModelConfig{}).Do(t.Context(), llmtest.Request(func(llm.Delta) {}))
			var e *llm.Error
			if !errors.As(err, &e) || e.Class != tt.class || e.RetryAfter != tt.wait || !strings.Contains(e.Message, tt.text) || e.Streamed {
				t.Errorf("got %#v", err)
			}
		})
	}
}

// TestAdvice: an unknown model or path is likely a matter of configuration; an
// unknown item is not.
func TestAdvice(t *testing.T) {
	for message, advised := range map[string]bool{"Not found": true, "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.": false} {
		s := serve(t)
		s.refuse = func(string) *responsestest.Refusal { return &responsestest.Refusal{Status: 404, Message: message} }
		_, err := s.model(t, responses.Config{}).Do(t.Context(), llmtest.Request(nil))
		if err == nil || strings.Contains(err.Error(), "check the model id") != advised || !strings.Contains(err.Error(), message) {
			t.Errorf("got %v", err)
		}
	}
}

// TestCost: the endpoint's own figure wins over the table.
func TestCost(t *testing.T) {
	price := &llm.Price{Input: 1, CacheRead: 0.5, Output: 2}
	usage := func(more string) string {
		return `{"status":"completed","output":[{"type":"message","content":[{"text":"x"}]}],"usage":{"input_tokens":10,"output_tokens":3,` +
			`"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":1},"output_tokens_details":{"reasoning_tokens":2}` + more + `}}`
	}
	for body, want := range map[string]float64{usage(""): 5*1 + 4*0.5 + 3*2, usage(`,"cost":0.25`): 0.25, usage(`,"cost":-1`): 13} {
		resp, err := raw(t, "application/json", body, wire.ModelConfig{Price: price}).Do(t.Context(), llmtest.Request(nil))
		if err != nil || resp.Cost == nil || *resp.Cost != want {
			t.Errorf("%s: %+v, %v", body, resp, err)
		}
		if resp != nil && (resp.Usage.CacheWriteTokens != 1 || resp.Usage.ReasoningTokens != 2) {
			t.Errorf("usage %+v", resp.Usage)
		}
	}
	resp, err := raw(t, "application/json", `{"output":[{"type":"message","content":[{"text":"x"}]}]}`, wire.ModelConfig{Price: price}).Do(t.Context(), llmtest.Request(nil))
	if err != nil || resp.Cost != nil {
		t.Errorf("a cost without counts: %+v, %v", resp, err)
	}
}

// TestSecrets: an endpoint that quotes the key does not bring it into an error.
func TestSecrets(t *testing.T) {
	s := &server{}
	s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := json.Marshal(map[string]any{"error": map[string]any{"message": "bad key " + r.Header.Get("Authorization")}})
		if err != nil {
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write(b)
	}))
	_, err := s.model(t, responses.Config{}).Do(t.Context(), llmtest.Request(nil))
	if err == nil || strings.Contains(err.Error(), "0123456789") {
		t.Errorf("got %v", err)
	}
}

// TestForeignSchemas: a tool of an MCP server with a schema that the API refuses
// spoils no request, nor does a history without a word.
func TestForeignSchemas(t *testing.T) {
	for _, schema := range []string{"", "null", "{}", `{"type":"object"}`, `{"anyOf":[{"type":"object","properties":{"a":{}}}]}`} {
		req := llmtest.Request(nil)
		req.Messages, req.Tools = nil, append(req.Tools, llm.Tool{Name: "foreign", Parameters: []byte(schema)})
		if _, err := serve(t, llmtest.Reply{Text: "ok"}).model(t, responses.Config{}).Do(t.Context(), req); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
	}
}
