package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/openai"
	"parley/internal/llm/retry"
	"parley/internal/llm/wire"
	"parley/test/testkit/openaitest"
)

func ignore(llm.Delta) {}

// of is a configuration without a dialect.
func of(c wire.ModelConfig) openai.Config { return openai.Config{ModelConfig: c} }

// stream answers one request with these chunks and returns what the adapter
// makes of them.
func stream(t *testing.T, raw string) (*llm.Response, error) {
	t.Helper()
	s := openaitest.New(t)
	s.Reply(openaitest.Stream(raw))
	return model(t, s, openai.Config{}).Do(t.Context(), llmtest.Request(ignore))
}

// deltas renders deltas as a stream with a finish reason and [DONE].
func deltas(finish string, ds ...string) string {
	var b strings.Builder
	for _, d := range ds {
		b.WriteString(`data: {"id":"r1","choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}` + "\n\n")
	}
	b.WriteString(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"` + finish + `"}]}` + "\n\ndata: [DONE]\n\n")
	return b.String()
}

type brief struct{ Name, Args string }

func briefs(resp *llm.Response) []brief {
	var out []brief
	for _, c := range resp.Message.ToolCalls {
		out = append(out, brief{c.Name, c.Arguments})
	}
	return out
}

func TestToolCallDialects(t *testing.T) {
	tests := []struct {
		name string
		in   []string
		want []brief
	}{
		{"pieces by index", []string{
			`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"x","arguments":""}}]}`,
			`{"tool_calls":[{"index":1,"id":"b","function":{"name":"y","arguments":"{\"q\""}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"{\"p\":1}"}},{"index":1,"function":{"arguments":":2}"}}]}`},
			[]brief{{"x", `{"p":1}`}, {"y", `{"q":2}`}}},
		{"no index, whole calls", []string{
			`{"tool_calls":[{"id":"a","function":{"name":"x","arguments":"{\"p\":1}"}}]}`,
			`{"tool_calls":[{"id":"b","function":{"name":"x","arguments":"{\"p\":1}"}}]}`},
			[]brief{{"x", `{"p":1}`}, {"x", `{"p":1}`}}},
		{"no index, no id, whole calls", []string{
			`{"tool_calls":[{"function":{"name":"x","arguments":"{}"}},{"function":{"name":"x","arguments":"{}"}}]}`},
			[]brief{{"x", `{}`}, {"x", `{}`}}},
		{"no index, pieces", []string{
			`{"tool_calls":[{"id":"a","function":{"name":"x","arguments":"{\"p\""}}]}`,
			`{"tool_calls":[{"function":{"arguments":":1}"}}]}`,
			`{"tool_calls":[{"id":"b","function":{"name":"y"}}]}`,
			`{"tool_calls":[{"function":{"arguments":"{}"}}]}`},
			[]brief{{"x", `{"p":1}`}, {"y", `{}`}}},
		{"the same index for two calls", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{\"p\":1}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"y","arguments":"{\"p\":2}"}}]}`},
			[]brief{{"x", `{"p":1}`}, {"y", `{"p":2}`}}},
		{"the same index for two calls, no ids, in pieces", []string{
			`{"tool_calls":[{"index":0,"function":{"name":"x","arguments":"{\"p\""}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"name":"x","arguments":"{\"p\":2}"}}]}`},
			[]brief{{"x", `{"p":1}`}, {"x", `{"p":2}`}}},
		{"the same index for two calls without arguments", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"y","arguments":""}}]}`},
			[]brief{{"x", `{}`}, {"y", `{}`}}},
		{"arguments as an object", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":{"p": [1, 2]}}}]}`},
			[]brief{{"x", `{"p": [1, 2]}`}}},
		{"arguments null", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":null}}]}`},
			[]brief{{"x", `{}`}}},
		{"id and name in every piece", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{\"p\""}}]}`,
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":":1}"}}]}`},
			[]brief{{"x", `{"p":1}`}}},
		{"another id in every piece", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"id":"b","function":{"arguments":"{\"p\""}}]}`,
			`{"tool_calls":[{"id":"c","function":{"arguments":":1}"}}]}`},
			[]brief{{"x", `{"p":1}`}}},
		{"the whole call once more at the end", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{\"p\":1}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{\"p\":1}"}}]}`},
			[]brief{{"x", `{"p":1}`}}},
		{"an empty object first", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"{\"p\""}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`},
			[]brief{{"x", `{"p":1}`}}},
		{"index as a string, function null, call null", []string{
			`{"tool_calls":[{"index":"0","id":"a","function":{"name":"x","arguments":"{}"}}]}`,
			`{"tool_calls":[{"index":0,"function":null}]}`,
			`{"tool_calls":null}`},
			[]brief{{"x", `{}`}}},
		{"a piece that says nothing", []string{
			`{"tool_calls":[{"index":0,"id":"","function":{"name":"","arguments":""}}]}`,
			`{"content":"hi"}`}, nil},
		{"half arguments are kept", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{\"p"}}]}`},
			[]brief{{"x", `{"p`}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := stream(t, deltas("stop", tt.in...))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, briefs(resp)); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			if len(tt.want) > 0 && resp.FinishReason != "tool_calls" {
				t.Errorf("finish reason %q", resp.FinishReason)
			}
			ids := map[string]bool{}
			for _, c := range resp.Message.ToolCalls {
				if c.ID == "" || ids[c.ID] {
					t.Errorf("id %q is empty or used twice", c.ID)
				}
				ids[c.ID] = true
			}
		})
	}
}

// Endpoints that count ids from 0 in each answer must not answer two calls of
// one conversation with one id.
func TestCallIDsAreUniqueInTheHistory(t *testing.T) {
	s := openaitest.New(t)
	s.Reply(openaitest.Calls(openaitest.Call{ID: "call_0", Name: "x", Arguments: "{}"}, openaitest.Call{ID: "call_0", Name: "y", Arguments: "{}"}))
	req := llmtest.Request(nil)
	req.Messages = append(req.Messages,
		content.Message{Role: content.RoleAssistant, ToolCalls: []content.ToolCall{{ID: "call_0", Name: "x", Arguments: "{}"}}},
		content.Message{Role: content.RoleTool, ToolCallID: "call_0", Parts: []content.Part{content.Text("ok")}})
	resp, err := model(t, s, openai.Config{}).Do(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	a, b := resp.Message.ToolCalls[0].ID, resp.Message.ToolCalls[1].ID
	if a == "call_0" || b == "call_0" || a == b {
		t.Errorf("ids %q, %q", a, b)
	}
}

func TestStreamDialects(t *testing.T) {
	const hi = `{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}`
	const end = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":"2"}}`
	tests := []struct{ name, in string }{
		{"no [DONE]", "data: " + hi + "\n\ndata: " + end + "\n\n"},
		{"no end of the last event", "data: " + hi + "\n\ndata: " + end},
		{"crlf and keep-alives", ": OPENROUTER PROCESSING\r\n\r\ndata: " + hi + "\r\n\r\n: x\r\n\r\ndata: " + end + "\r\n\r\ndata: [DONE]\r\n\r\n"},
		{"usage in a chunk of its own", "data:" + hi + "\n\ndata: " + `{"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: " + `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}` + "\n\ndata: [DONE]\n\n"},
		{"usage in x_groq", "data:" + hi + "\n\ndata: " + `{"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":3,"completion_tokens":2}}}` + "\n\n"},
		{"data over two lines", "data: " + strings.Replace(hi, ",", ",\ndata: ", 1) + "\n\ndata: " + end + "\n\n"},
		{"empty events and null usage", "data:\n\ndata: " + strings.Replace(hi, `{"choices"`, `{"usage":null,"error":null,"choices"`, 1) + "\n\ndata: " + end + "\n\n"},
		{"content in parts", "data: " + strings.Replace(hi, `"hi"`, `[{"type":"thinking","thinking":[{"type":"text","text":"so"}]},{"type":"text","text":"hi"}]`, 1) + "\n\ndata: " + end + "\n\n"},
		{"[DONE] without a finish reason", "data: " + strings.Replace(hi, `"finish_reason":null`, `"finish_reason":""`, 1) + "\n\ndata: " + `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}` + "\n\ndata: [DONE]\n\n"},
		{"refusal", "data: " + strings.Replace(hi, "content", "refusal", 1) + "\n\ndata: " + end + "\n\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := stream(t, tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Message.Text() != "hi" || resp.FinishReason != "stop" || resp.ID == "" {
				t.Errorf("%+v", resp)
			}
			if resp.Usage.PromptTokens != 3 || resp.Usage.CompletionTokens != 2 {
				t.Errorf("usage %+v", resp.Usage)
			}
		})
	}
}

func TestStreamFaults(t *testing.T) {
	const hi = "data: " + `{"choices":[{"index":0,"delta":{"content":"hi"}}]}` + "\n\n"
	tests := []struct {
		name, in string
		class    llm.Class
		streamed bool
	}{
		{"error at once", "data: " + `{"error":{"message":"Rate limit","code":429}}` + "\n\n", llm.ClassRateLimit, false},
		{"error in the middle", hi + "data: " + `{"error":{"message":"upstream","code":502}}` + "\n\n", llm.ClassOverloaded, true},
		{"error as text", hi + "data: " + `{"error":"maximum context length is 5"}` + "\n\n", llm.ClassContext, true},
		{"error event", "event: error\ndata: " + `{"message":"Overloaded","type":"overloaded_error"}` + "\n\n", llm.ClassOverloaded, false},
		{"error in a choice", "data: " + `{"choices":[{"index":0,"delta":{},"error":{"code":429,"message":"x"},"finish_reason":"error"}]}` + "\n\n", llm.ClassRateLimit, false},
		{"finish reason error", hi + "data: " + `{"choices":[{"delta":{},"finish_reason":"error"}]}` + "\n\n", llm.ClassOverloaded, true},
		{"not JSON", hi + "data: upstream timed out\n\n", llm.ClassTimeout, true},
		{"cut in an event", hi + "data: " + `{"choices":[{"ind`, llm.ClassNetwork, true},
		{"no end", hi, llm.ClassNetwork, true},
		{"only comments", ": x\n\n", llm.ClassNetwork, false},
		{"nothing but [DONE]", "data: [DONE]\n\n", llm.ClassNoResponse, false},
		{"not a completion", "data: [1]\n\n", llm.ClassNetwork, false},
		{"filtered", "data: " + `{"choices":[{"delta":{},"finish_reason":"content_filter"}]}` + "\n\n", llm.ClassContentPolicy, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := stream(t, tt.in)
			var e *llm.Error
			if !errors.As(err, &e) || e.Class != tt.class || e.Streamed != tt.streamed {
				t.Errorf("got %+v, %#v; want %s, streamed %v", resp, err, tt.class, tt.streamed)
			}
		})
	}
}

func TestWholeAnswerToAStreamedRequest(t *testing.T) {
	s := openaitest.New(t)
	s.Reply(openaitest.Raw(200, "application/json", `{"id":"a","choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}`),
		openaitest.Raw(200, "text/plain", deltas("stop", `{"content":"hello"}`)))
	m := model(t, s, openai.Config{})
	for range 2 {
		var said string
		resp, err := m.Do(t.Context(), llmtest.Request(func(d llm.Delta) { said += d.Text }))
		if err != nil || resp.Message.Text() != "hello" || said != "hello" {
			t.Fatalf("%+v, %v, deltas %q", resp, err, said)
		}
	}
}

func TestFieldsTheEndpointRefuses(t *testing.T) {
	s := openaitest.New(t)
	s.Handle(func(*openaitest.Request) openaitest.Reply { return openaitest.Text("ok") })
	for _, field := range []string{"stream_options", "prompt_cache_key", "reasoning_details"} {
		s.RefuseField(field)
	}
	m := model(t, s, openai.Config{Dialect: openai.Dialect{PromptCacheKey: true}})
	req := llmtest.Request(ignore)
	req.Messages = append(req.Messages,
		content.Message{Role: content.RoleAssistant, Parts: []content.Part{content.Text("a")}, Extra: map[string]json.RawMessage{"reasoning_details": []byte(`[{"text":"x"}]`)}},
		content.Message{Role: content.RoleUser, Parts: []content.Part{content.Text("b")}})
	if _, err := m.Do(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	n := len(s.Requests())
	if n != 4 {
		t.Errorf("%d requests, want one for each field and the good one", n)
	}
	if _, err := m.Do(t.Context(), req); err != nil || len(s.Requests()) != n+1 {
		t.Errorf("the second call took %d requests (%v): what was refused is not remembered", len(s.Requests())-n, err)
	}
}

func TestProviderFieldsGoBack(t *testing.T) {
	s := openaitest.New(t)
	s.Reply(openaitest.Stream(deltas("tool_calls",
		`{"role":"assistant","reasoning":"let","reasoning_details":[{"type":"reasoning.text","index":0,"text":"let","signature":null}]}`,
		`{"reasoning":" me","reasoning_details":[{"type":"reasoning.text","index":0,"text":" me"}]}`,
		`{"reasoning_details":[{"type":"reasoning.text","index":0,"signature":"sig","n":12345678901234567890}]}`,
		`{"reasoning_details":[{"type":"reasoning.encrypted","index":1,"data":"AAA="}]}`,
		`{"tool_calls":[{"index":0,"id":"a","function":{"name":"terminal","arguments":"{}"},"extra_content":{"google":{"thought_signature":"ts"}}}],"annotations":[],"audio":null}`,
	)), openaitest.Text("done"))
	m := model(t, s, openai.Config{})
	req := llmtest.Request(ignore)
	resp, err := m.Do(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Message.Reasoning != "let me" {
		t.Errorf("reasoning %q", resp.Message.Reasoning)
	}
	req.Messages = append(req.Messages, resp.Message, content.Message{Role: content.RoleTool, ToolCallID: "a", Parts: []content.Part{content.Text("ok")}})
	if _, err := m.Do(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	var sent struct{ Messages []json.RawMessage }
	if err := json.Unmarshal(s.Requests()[1].Raw, &sent); err != nil {
		t.Fatal(err)
	}
	const want = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"terminal","arguments":"{}"},` +
		`"extra_content":{"google":{"thought_signature":"ts"}}}],` +
		`"reasoning_details":[{"index":0,"n":12345678901234567890,"signature":"sig","text":"let me","type":"reasoning.text"},{"data":"AAA=","index":1,"type":"reasoning.encrypted"}]}`
	if d := cmp.Diff(want, string(sent.Messages[2])); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestRequestBody(t *testing.T) {
	s := openaitest.New(t)
	s.Handle(func(*openaitest.Request) openaitest.Reply { return openaitest.Text("ok") })
	m := model(t, s, openai.Config{Dialect: openai.Dialect{PromptCacheKey: true, SessionHeader: "X-Session", CacheMarkers: true, ReplayReasoning: true},
		ModelConfig: wire.ModelConfig{Headers: map[string]string{"X-Extra": "yes"}}})
	req := &llm.Request{SessionID: "s1", Tools: []llm.Tool{{Name: "finish"}}, Messages: []content.Message{
		{Role: "system", Parts: []content.Part{content.Text("marked <b>"), content.Text("date")}},
		{Role: "user", Parts: []content.Part{content.Text("a"), content.Text("b")}},
		{Role: "user", Parts: []content.Part{content.Text("see"), content.Image("data:image/png;base64,AA==")}},
		{Role: "assistant", Reasoning: "think", Parts: []content.Part{content.Text("t")}, ToolCalls: []content.ToolCall{{ID: "1", Name: "f", Arguments: " "}, {ID: "2", Name: "g h", Arguments: "[1]"}}},
		{Role: "tool", ToolCallID: "1", Parts: []content.Part{content.Text("one"), content.Image("https://x/y.png")}},
		{Role: "tool", ToolCallID: "2"},
	}}
	for range 2 {
		if _, err := m.Do(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	const want = `{"model":"test-model","messages":[` +
		`{"role":"system","content":[{"type":"text","text":"marked <b>","cache_control":{"type":"ephemeral"}},{"type":"text","text":"date"}]},` +
		`{"role":"user","content":"a\nb"},` +
		`{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]},` +
		`{"role":"assistant","content":"t","reasoning_content":"think","tool_calls":[` +
		`{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},` +
		`{"id":"2","type":"function","function":{"name":"g_h","arguments":"{\"_invalid_arguments\":\"[1]\"}"}}]},` +
		`{"role":"tool","content":"one","tool_call_id":"1"},` +
		`{"role":"tool","content":"","tool_call_id":"2"},` +
		`{"role":"user","content":[{"type":"text","text":"Images from the tool results above:"},{"type":"image_url","image_url":{"url":"https://x/y.png"},"cache_control":{"type":"ephemeral"}}]}],` +
		`"tools":[{"type":"function","function":{"name":"finish","parameters":{"type":"object","properties":{}}}}],"prompt_cache_key":"s1"}`
	got := s.Requests()
	if d := cmp.Diff(want, string(got[0].Raw)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if string(got[0].Raw) != string(got[1].Raw) {
		t.Error("the same request has two bodies")
	}
	req.Tools[0].Parameters = []byte(`{"type":"object","properties":{"x":{}}}`)
	if _, err := m.Do(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if got = s.Requests(); !strings.Contains(string(got[2].Raw), `"properties":{"x":{}}`) {
		t.Errorf("other tools, sent as those before: %s", got[2].Raw)
	}
	h := got[0].Header
	if h.Get("Authorization") != "Bearer sk-test-0123456789" || h.Get("X-Session") != "s1" || h.Get("X-Extra") != "yes" {
		t.Errorf("headers %v", h)
	}
}

func TestNoVision(t *testing.T) {
	s := openaitest.New(t)
	s.Reply(openaitest.Text("ok"))
	m := model(t, s, of(wire.ModelConfig{NoVision: true}))
	req := &llm.Request{Messages: []content.Message{{Role: "user", Parts: []content.Part{content.Text("see"), content.Image("https://x/y.png")}}}}
	if _, err := m.Do(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if raw := string(s.Requests()[0].Raw); strings.Contains(raw, "y.png") || !strings.Contains(raw, "takes no images") || m.Info().Vision {
		t.Error(raw)
	}
}

func TestCost(t *testing.T) {
	price := &llm.Price{Input: 1e-6, CacheRead: 0.1e-6, CacheWrite: 1e-6, Output: 5e-6}
	own := 0.25
	usage := &openaitest.Usage{Prompt: 1000, Completion: 100, Cached: 500}
	withCost := *usage
	withCost.Cost = &own
	header := openaitest.Raw(200, "application/json", `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":1}}`)
	header.Header.Set("X-Litellm-Response-Cost", "0.5")
	ptr := func(f float64) *float64 { return &f }
	tests := []struct {
		name  string
		price *llm.Price
		reply openaitest.Reply
		want  *float64
	}{
		{"table", price, openaitest.Reply{Text: "x", Usage: usage}, ptr(0.00105)},
		{"endpoint wins", price, openaitest.Reply{Text: "x", Usage: &withCost}, &own},
		{"endpoint alone", nil, openaitest.Reply{Text: "x", Usage: &withCost}, &own},
		{"header", price, header, ptr(0.5)},
		{"unknown", nil, openaitest.Reply{Text: "x", Usage: usage}, nil},
		{"no usage", price, openaitest.Raw(200, "application/json", `{"choices":[{"message":{"content":"x"}}]}`), nil},
		{"usage of a reasoner that does not count it", price, openaitest.Raw(200, "application/json",
			`{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":0,"completion_tokens":10,"total_tokens":100,"completion_tokens_details":{"reasoning_tokens":90}}}`), ptr(0.0005)},
		{"nonsense", price, openaitest.Raw(200, "application/json",
			`{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":-5,"completion_tokens":1e300,"cost":"free"}}`), ptr(0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openaitest.New(t)
			s.Reply(tt.reply)
			resp, err := model(t, s, of(wire.ModelConfig{Price: tt.price})).Do(t.Context(), llmtest.Request(nil))
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case (resp.Cost == nil) != (tt.want == nil):
				t.Errorf("cost %v, want %v", resp.Cost, tt.want)
			case tt.want != nil && (*resp.Cost-*tt.want > 1e-9 || *tt.want-*resp.Cost > 1e-9):
				t.Errorf("cost %v, want %v", *resp.Cost, *tt.want)
			}
		})
	}
}

func TestSecretsStayOutOfErrors(t *testing.T) {
	const key, extra = "sk-very-secret-key", "other-secret-value"
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "bad key "+r.Header.Get("Authorization")+" and "+r.Header.Get("X-Api-Key")+strings.Repeat(" x", 4000), http.StatusUnauthorized)
	}))
	defer echo.Close()
	for _, base := range []string{echo.URL, "http://127.0.0.1:1/v1?key=" + extra} {
		m, err := openai.New(of(wire.ModelConfig{Model: "m", BaseURL: base, APIKey: account.NewSecret(" " + key + "\n"),
			Headers: map[string]string{"X-Api-Key": extra}, HTTPClient: echo.Client()}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Do(t.Context(), llmtest.Request(nil))
		var e *llm.Error
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		all := e.Error()
		for cause := error(e); cause != nil; cause = errors.Unwrap(cause) {
			all += cause.Error()
		}
		if strings.Contains(all, key) || strings.Contains(all, extra) {
			t.Errorf("a secret is in %q", all)
		}
		if len(e.Message) > failure.MaxMessage {
			t.Errorf("message of %d bytes", len(e.Message))
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL+"/v1/chat/completions?token=abc", http.StatusTemporaryRedirect))
	defer first.Close()
	m, err := openai.New(of(wire.ModelConfig{Model: "m", BaseURL: first.URL, HTTPClient: first.Client()}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Do(t.Context(), llmtest.Request(nil))
	var e *llm.Error
	if !errors.As(err, &e) || e.Class != llm.ClassBadRequest || !strings.Contains(e.Message, other.URL) || strings.Contains(e.Message, "abc") {
		t.Errorf("%v", err)
	}
	if reached {
		t.Error("the request was forwarded")
	}
}

func TestTimeouts(t *testing.T) {
	const short = 50 * time.Millisecond
	t.Run("first byte", func(t *testing.T) {
		s := openaitest.New(t)
		s.Reply(openaitest.Reply{Hang: true})
		wantTimeout(t, model(t, s, of(wire.ModelConfig{Timeout: short})), false)
	})
	t.Run("silence in the middle", func(t *testing.T) {
		s := openaitest.New(t)
		s.Reply(openaitest.Reply{Text: "something long enough", HangAfter: 3})
		wantTimeout(t, model(t, s, of(wire.ModelConfig{IdleTimeout: short})), true)
	})
	t.Run("keep-alives for ever", func(t *testing.T) {
		s := pulse(t, "")
		wantTimeout(t, s(of(wire.ModelConfig{IdleTimeout: time.Second, Total: 5 * short})), false)
	})
	t.Run("keep-alives after the finish reason", func(t *testing.T) {
		s := pulse(t, strings.TrimSuffix(deltas("stop", `{"content":"hi"}`), "data: [DONE]\n\n"))
		resp, err := s(of(wire.ModelConfig{IdleTimeout: 4 * short})).Do(t.Context(), llmtest.Request(ignore))
		if err != nil || resp.Message.Text() != "hi" {
			t.Errorf("%+v, %v", resp, err)
		}
	})
}

// pulse starts a server that sends start, then a comment every few milliseconds.
func pulse(t *testing.T, start string) func(openai.Config) *openai.Model {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for text := start; ; text = ": ping\n\n" {
			if _, err := w.Write([]byte(text)); err != nil {
				return
			}
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	return func(cfg openai.Config) *openai.Model {
		cfg.Model, cfg.BaseURL, cfg.HTTPClient = "m", server.URL, server.Client()
		m, err := openai.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

func wantTimeout(t *testing.T, m *openai.Model, streamed bool) {
	t.Helper()
	_, err := m.Do(t.Context(), llmtest.Request(ignore))
	var e *llm.Error
	if !errors.As(err, &e) || e.Class != llm.ClassTimeout || e.Streamed != streamed {
		t.Errorf("got %#v", err)
	}
}

func TestDeadlineOfTheCaller(t *testing.T) {
	s := openaitest.New(t)
	s.Reply(openaitest.Reply{Hang: true})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := model(t, s, openai.Config{}).Do(ctx, llmtest.Request(nil)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		cfg  wire.ModelConfig
		code string
	}{
		{wire.ModelConfig{}, "llm_model_missing"},
		{wire.ModelConfig{Model: "m", BaseURL: "localhost:8000"}, "llm_base_url_invalid"},
		{wire.ModelConfig{Model: "m", BaseURL: "ftp://h"}, "llm_base_url_invalid"},
		{wire.ModelConfig{Model: "m", BaseURL: "http://%zz"}, "llm_base_url_invalid"},
		{wire.ModelConfig{Model: "m", APIKey: account.NewSecret("a\nb")}, "llm_api_key_invalid"},
	}
	for _, tt := range tests {
		_, err := openai.New(of(tt.cfg))
		if !fault.Is(err, fault.Invalid) || fault.CodeOf(err) != tt.code {
			t.Errorf("%+v: %v", tt.cfg, err)
		}
	}
}

func TestBaseURLs(t *testing.T) {
	for _, suffix := range []string{"/v1", "/v1/", "/v1/chat/completions", "/v1/chat/completions/?api-version=1"} {
		s := openaitest.New(t)
		s.Reply(openaitest.Text("ok"))
		if _, err := model(t, s, of(wire.ModelConfig{BaseURL: s.URL() + suffix})).Do(t.Context(), llmtest.Request(nil)); err != nil {
			t.Errorf("%s: %v", suffix, err)
		}
	}
	s := openaitest.New(t)
	_, err := model(t, s, of(wire.ModelConfig{BaseURL: s.URL()})).Do(t.Context(), llmtest.Request(nil))
	if err == nil || !strings.Contains(err.Error(), "/v1") {
		t.Errorf("a base URL without /v1: %v", err)
	}
}

// An answer without text, calls and reasoning is an answer: the agent reacts.
func TestEmptyAnswer(t *testing.T) {
	resp, err := stream(t, deltas("stop", `{"role":"assistant","content":""}`))
	if err != nil || len(resp.Message.Parts) != 0 || len(resp.Message.ToolCalls) != 0 {
		t.Fatalf("%+v, %v", resp, err)
	}
}

func TestWithRetries(t *testing.T) {
	s := openaitest.New(t)
	s.Reply(openaitest.RateLimited("0.01"), openaitest.Reply{Drop: true}, openaitest.Fail(503, "busy"), openaitest.Text("at last"))
	var classes []llm.Class
	m := retry.New(model(t, s, openai.Config{}), retry.Policy{Min: time.Millisecond, Max: 2 * time.Millisecond},
		func(_ context.Context, r llm.Retry) { classes = append(classes, r.Err.Class) })
	resp, err := m.Do(t.Context(), llmtest.Request(ignore))
	if err != nil || resp.Message.Text() != "at last" {
		t.Fatalf("%+v, %v", resp, err)
	}
	if d := cmp.Diff([]llm.Class{llm.ClassRateLimit, llm.ClassNetwork, llm.ClassOverloaded}, classes); d != "" {
		t.Error(d)
	}
}
