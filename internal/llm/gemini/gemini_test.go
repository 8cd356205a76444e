package gemini_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/gemini"
	"parley/internal/llm/llmtest"
)

func ignore(llm.Delta) {}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answers(status int, kind, body string) transport {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

// over returns a model that is answered by rt.
func over(t interface{ Fatal(...any) }, name string, rt http.RoundTripper) *gemini.Model {
	cfg := gemini.Config{}
	cfg.Model, cfg.APIKey, cfg.HTTPClient = name, account.NewSecret("AIza-test-0123456789"), &http.Client{Transport: rt}
	m, err := gemini.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func urlOf(t *testing.T, base, name string, onDelta func(llm.Delta)) string {
	t.Helper()
	var got string
	cfg := gemini.Config{}
	cfg.Model, cfg.BaseURL = name, base
	cfg.HTTPClient = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		got = r.URL.String()
		return answers(200, "application/json", whole("STOP", `{"text":"x"}`))(r)
	})}
	m, err := gemini.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Do(t.Context(), llmtest.Request(onDelta)); err != nil {
		t.Fatal(err)
	}
	return got
}

// chunk renders one chunk; finish may be "".
func chunk(finish string, parts ...string) string {
	end := ""
	if finish != "" {
		end = `,"finishReason":"` + finish + `"`
	}
	return `{"candidates":[{"content":{"parts":[` + strings.Join(parts, ",") + `],"role":"model"}` + end + `,"index":0}],"responseId":"r1"}`
}

func whole(finish string, parts ...string) string { return chunk(finish, parts...) }

func events(chunks ...string) string {
	return "data: " + strings.Join(chunks, "\r\n\r\ndata: ") + "\r\n\r\n"
}

func streamed(t *testing.T, body string) (*llm.Response, error) {
	t.Helper()
	return over(t, "gemini-3-flash-preview", answers(200, "text/event-stream", body)).Do(t.Context(), llmtest.Request(ignore))
}

type brief struct{ Name, Args string }

func briefs(resp *llm.Response) []brief {
	var out []brief
	for _, c := range resp.Message.ToolCalls {
		out = append(out, brief{c.Name, c.Arguments})
	}
	return out
}

func TestCalls(t *testing.T) {
	x, y := `{"functionCall":{"name":"x","args":{"p": [1, "a b"]}}}`, `{"functionCall":{"name":"y","args":{}}}`
	tests := []struct {
		name string
		in   []string
		want []brief
	}{
		{"several in a chunk", []string{chunk("STOP", x, y)}, []brief{{"x", `{"p":[1,"a b"]}`}, {"y", `{}`}}},
		{"over several chunks", []string{chunk("", x), chunk("", x), chunk("STOP", y)}, []brief{{"x", `{"p":[1,"a b"]}`}, {"x", `{"p":[1,"a b"]}`}, {"y", `{}`}}},
		{"no arguments", []string{chunk("STOP", `{"functionCall":{"name":"x"}}`, `{"functionCall":{"name":"y","args":null}}`)}, []brief{{"x", `{}`}, {"y", `{}`}}},
		{"arguments as text", []string{chunk("STOP", `{"functionCall":{"name":"x","args":"{\"p\":1}"}}`)}, []brief{{"x", `{"p":1}`}}},
		{"arguments that are a list", []string{chunk("STOP", `{"functionCall":{"name":"x","args":[1, 2]}}`)}, []brief{{"x", `[1,2]`}}},
		{"no name", []string{chunk("STOP", `{"functionCall":{"args":{"a":1}}}`)}, []brief{{"unknown", `{"a":1}`}}},
		{"large numbers stay", []string{chunk("STOP", `{"functionCall":{"name":"x","args":{"n":12345678901234567890}}}`)}, []brief{{"x", `{"n":12345678901234567890}`}}},
		{"a tool that is not there", []string{chunk("UNEXPECTED_TOOL_CALL", x)}, []brief{{"x", `{"p":[1,"a b"]}`}}},
		{"in pieces", []string{chunk("", `{"functionCall":{"name":"x","willContinue":true}}`),
			chunk("", `{"functionCall":{"partialArgs":[{"jsonPath":"$.s","stringValue":"ab","willContinue":true}],"willContinue":true}}`),
			chunk("", `{"functionCall":{"partialArgs":[{"jsonPath":"$.s","stringValue":"cd"},{"jsonPath":"$.l[1]['k k']","numberValue":2.5},{"jsonPath":"$.l[0]","boolValue":true},{"jsonPath":"$.n","nullValue":"NULL_VALUE"}],"willContinue":true}}`),
			chunk("", `{"functionCall":{}}`), chunk("STOP", y)}, []brief{{"x", `{"l":[true,{"k k":2.5}],"n":null,"s":"abcd"}`}, {"y", `{}`}}},
		{"in pieces, two", []string{chunk("", `{"functionCall":{"name":"x","partialArgs":[{"jsonPath":"$.a","stringValue":"1"}],"willContinue":true}}`),
			chunk("", `{"functionCall":{"name":"y","willContinue":true}}`), chunk("STOP", `{"functionCall":{}}`)}, []brief{{"x", `{"a":"1"}`}, {"y", `{}`}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for kind, body := range map[string]string{"text/event-stream": events(tt.in...), "application/json": "[" + strings.Join(tt.in, "\n,\r\n") + "]"} {
				m := over(t, "gemini-2.5-flash", answers(200, kind, body))
				resp, err := m.Do(t.Context(), llmtest.Request(ignore))
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(tt.want, briefs(resp)); d != "" {
					t.Errorf("(-want +got)\n%s", d)
				}
				if resp.FinishReason != "tool_calls" {
					t.Errorf("finish reason %q", resp.FinishReason)
				}
				ids := map[string]bool{}
				for _, c := range resp.Message.ToolCalls {
					if c.ID == "" || ids[c.ID] {
						t.Errorf("id %q is empty or used twice", c.ID)
					}
					ids[c.ID] = true
				}
			}
		})
	}
}

func TestStreamDialects(t *testing.T) {
	think, hi, end := chunk("", `{"text":"so","thought":true}`), chunk("", `{"text":"h"},{"text":"i"}`), chunk("STOP", `{"text":""}`)
	for name, body := range map[string]string{
		"as it is":                    events(think, hi, end),
		"lf and keep-alives":          ": x\n\n" + strings.ReplaceAll(events(think, hi, end), "\r", "") + ": y\n\n",
		"no end of the last event":    strings.TrimRight(events(think, hi, end), "\r\n"),
		"[DONE]":                      events(think, hi, end, "[DONE]"),
		"a finish on every chunk":     events(chunk("STOP"), chunk("STOP", `{"text":"so","thought":true}`), chunk("STOP", `{"text":"hi"}`)),
		"an unspecified finish":       events(chunk("FINISH_REASON_UNSPECIFIED", `{"text":"so","thought":true}`), hi, end),
		"a second candidate":          events(think, strings.Replace(hi, `"index":0`, `"index":1`, 1), hi, end),
		"parts that we do not know":   events(think, chunk("", `{"executableCode":{"code":"x"}}`, `{"inlineData":{"data":"AAAA"}}`, `{}`), hi, end),
		"a wrong content type (none)": "\r\n" + events(think, hi, end),
	} {
		t.Run(name, func(t *testing.T) {
			kind := "text/event-stream"
			if strings.Contains(name, "wrong content type") {
				kind = "application/json"
			}
			var said, thought string
			m := over(t, "gemini-3-flash-preview", answers(200, kind, body))
			resp, err := m.Do(t.Context(), llmtest.Request(func(d llm.Delta) { said += d.Text; thought += d.Reasoning }))
			if err != nil {
				t.Fatal(err)
			}
			if resp.Message.Text() != "hi" || said != "hi" || thought != "so" || resp.Message.Reasoning != "so" || resp.FinishReason != "stop" || resp.ID != "r1" {
				t.Errorf("%+v, deltas %q %q", resp, said, thought)
			}
		})
	}
}

// An endpoint that never closes its stream does not hold a complete answer back.
func TestStreamThatStaysOpen(t *testing.T) {
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events(chunk("", `{"text":"h"}`), chunk("STOP", `{"text":"i"}`)))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer hs.Close()
	cfg := gemini.Config{}
	cfg.Model, cfg.BaseURL, cfg.IdleTimeout = "gemini-2.5-flash", hs.URL, 100*time.Millisecond
	resp, err := model(t, cfg).Do(t.Context(), llmtest.Request(ignore))
	if err != nil || resp.Message.Text() != "hi" {
		t.Fatalf("%+v, %v", resp, err)
	}
}

func TestEndings(t *testing.T) {
	hi := `{"text":"hi"}`
	tests := []struct {
		name, in string
		class    llm.Class // "" = an answer
		finish   string
		text     string // of the error
	}{
		{"length", events(chunk("", hi), chunk("MAX_TOKENS")), "", "length", ""},
		{"length, all in thoughts", events(chunk("MAX_TOKENS")), "", "length", ""},
		{"safety", events(chunk("SAFETY")), llm.ClassContentPolicy, "", "SAFETY"},
		{"safety behind a text", events(chunk("", hi), chunk("SAFETY")), "", "content_filter", ""},
		{"recitation", events(chunk("RECITATION")), llm.ClassContentPolicy, "", "RECITATION"},
		{"prohibited", events(chunk("PROHIBITED_CONTENT")), llm.ClassContentPolicy, "", ""},
		{"spii", events(chunk("SPII")), llm.ClassContentPolicy, "", ""},
		{"blocklist", events(chunk("BLOCKLIST")), llm.ClassContentPolicy, "", ""},
		{"a bad call", events(strings.Replace(chunk("MALFORMED_FUNCTION_CALL"), `"index"`, `"finishMessage":"Malformed function call: print(x)","index"`, 1)), llm.ClassNoResponse, "", "print(x)"},
		{"a bad call that can be read", events(chunk("MALFORMED_FUNCTION_CALL", `{"functionCall":{"name":"x"}}`)), llm.ClassNoResponse, "", "MALFORMED"},
		{"a call of nothing", events(chunk("UNEXPECTED_TOOL_CALL")), llm.ClassNoResponse, "", "UNEXPECTED"},
		{"no signature", events(chunk("MISSING_THOUGHT_SIGNATURE")), llm.ClassMalformed, "", ""},
		{"other", events(chunk("OTHER")), llm.ClassNoResponse, "", "OTHER"},
		{"other behind a text", events(chunk("", hi), chunk("OTHER")), "", "other", ""},
		{"empty", events(chunk("STOP")), llm.ClassNoResponse, "", "empty"},
		{"thoughts only", events(chunk("STOP", `{"text":"hm","thought":true}`)), "", "stop", ""},
		{"prompt refused", events(`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}`), llm.ClassContentPolicy, "", "PROHIBITED"},
		{"no candidates", events(`{"usageMetadata":{"promptTokenCount":3}}`), llm.ClassNoResponse, "", "candidate"},
		{"no finish", events(chunk("", hi)), llm.ClassNetwork, "", ""},
		{"no finish behind a call", events(chunk("", `{"functionCall":{"name":"x","args":{}}}`)), llm.ClassNetwork, "", ""},
		{"half a call", events(chunk("STOP", `{"functionCall":{"name":"x","willContinue":true}}`)), llm.ClassNetwork, "", ""},
		{"nothing at all", "", llm.ClassNetwork, "", ""},
		{"only comments", ": x\n\n", llm.ClassNetwork, "", ""},
		{"cut in an event", events(chunk("", hi)) + `data: {"candidates":[{"co`, llm.ClassNetwork, "", ""},
		{"an error", events(chunk("", hi), `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`), llm.ClassOverloaded, "", "overloaded"},
		{"an error about tokens", events(`{"error":{"code":400,"message":"The input token count exceeds the maximum number of tokens allowed","status":"INVALID_ARGUMENT"}}`), llm.ClassContext, "", "token count"},
		{"a deadline", events(`{"error":{"code":504,"message":"Deadline expired","status":"DEADLINE_EXCEEDED"}}`), llm.ClassTimeout, "", ""},
		{"not JSON", events(chunk("", hi), "upstream timed out"), llm.ClassTimeout, "", ""},
		{"not an answer", events("[1]"), llm.ClassNetwork, "", "[1]"},
		{"a place that is no place", events(chunk("STOP", `{"functionCall":{"name":"x","partialArgs":[{"jsonPath":"$..a","stringValue":"x"}]}}`)), llm.ClassNetwork, "", "place"},
		{"an index too large", events(chunk("STOP", `{"functionCall":{"name":"x","partialArgs":[{"jsonPath":"$.a[999999999]","stringValue":"x"}]}}`)), llm.ClassNetwork, "", "place"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := streamed(t, tt.in)
			if tt.class == "" {
				if err != nil || resp.FinishReason != tt.finish {
					t.Fatalf("%+v, %v", resp, err)
				}
				return
			}
			var e *llm.Error
			if !errors.As(err, &e) || e.Class != tt.class || !strings.Contains(e.Message, tt.text) {
				t.Fatalf("got %+v, %#v; want %s", resp, err, tt.class)
			}
			if e.Streamed != strings.Contains(tt.in, "hi") {
				t.Errorf("streamed %v", e.Streamed)
			}
		})
	}
}

func TestWholeAnswers(t *testing.T) {
	hi := whole("STOP", `{"text":"so","thought":true}`, `{"text":"hi"}`)
	for name, tt := range map[string]struct {
		kind, body string
		class      llm.Class
	}{
		"an object":                {"application/json; charset=UTF-8", " \n" + hi, ""},
		"an array":                 {"application/json", "[" + hi + "\n]\n", ""},
		"an array of chunks":       {"application/json", "[" + chunk("", `{"text":"so","thought":true}`) + "\n,\n" + chunk("STOP", `{"text":"hi"}`) + "]", ""},
		"an array without its end": {"application/json", "[" + hi, ""},
		"an array cut":             {"application/json", "[" + chunk("", `{"text":"hi"}`) + ",", llm.ClassNetwork},
		"an array that is none":    {"application/json", "[" + chunk("", `{"text":"hi"}`) + "}", llm.ClassNetwork},
		"an error in an array":     {"application/json", `[{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}]`, llm.ClassRateLimit},
		"an empty array":           {"application/json", `[]`, llm.ClassNetwork},
		"nothing":                  {"application/json", "  \n", llm.ClassNoResponse},
		"a page":                   {"text/html", "<html><title>Login</title>", llm.ClassNetwork},
		"cut":                      {"application/json", hi[:40], llm.ClassNetwork},
		"no finish":                {"application/json", whole("", `{"text":"so","thought":true}`, `{"text":"hi"}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := over(t, "gemini-2.5-flash", answers(200, tt.kind, tt.body)).Do(t.Context(), llmtest.Request(nil))
			var e *llm.Error
			if tt.class == "" && (err != nil || resp.Message.Text() != "hi" || resp.Message.Reasoning != "so") {
				t.Fatalf("%+v, %v", resp, err)
			}
			if tt.class != "" && (!errors.As(err, &e) || e.Class != tt.class) {
				t.Fatalf("%+v, %v, want %s", resp, err, tt.class)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	count := func(members string) string { return `{"usageMetadata":{` + members + `}}` }
	for name, tt := range map[string]struct {
		in                        []string
		prompt, answer, read, why int64
	}{
		"the last wins":          {[]string{count(`"promptTokenCount":10,"candidatesTokenCount":1`), count(`"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":7,"cachedContentTokenCount":8,"totalTokenCount":22`)}, 10, 12, 8, 7},
		"what is left out stays": {[]string{count(`"promptTokenCount":10,"candidatesTokenCount":5`), count(`"totalTokenCount":15`), count(``)}, 10, 5, 0, 0},
		"tools of Google":        {[]string{count(`"promptTokenCount":10,"candidatesTokenCount":5,"toolUsePromptTokenCount":3,"totalTokenCount":18`)}, 13, 5, 0, 0},
		"thoughts counted twice": {[]string{count(`"promptTokenCount":10,"candidatesTokenCount":12,"thoughtsTokenCount":7,"totalTokenCount":22`)}, 10, 12, 0, 7},
		"nonsense":               {[]string{count(`"promptTokenCount":-1,"candidatesTokenCount":"x","thoughtsTokenCount":1e300`)}, 0, 0, 0, 0},
		"as text":                {[]string{count(`"promptTokenCount":"10","candidatesTokenCount":"5"`)}, 10, 5, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := gemini.Config{}
			cfg.Model, cfg.Price = "gemini-2.5-flash", &llm.Price{Input: 1, CacheRead: 0.25, Output: 10}
			cfg.HTTPClient = &http.Client{Transport: answers(200, "text/event-stream", events(append(tt.in, chunk("STOP", `{"text":"x"}`))...))}
			m, err := gemini.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := m.Do(t.Context(), llmtest.Request(ignore))
			if err != nil {
				t.Fatal(err)
			}
			u := resp.Usage
			if u.PromptTokens != tt.prompt || u.CompletionTokens != tt.answer || u.CacheReadTokens != tt.read || u.ReasoningTokens != tt.why {
				t.Errorf("%+v", u)
			}
			if tt.prompt == 0 { // not known is not free
				if resp.Cost != nil {
					t.Errorf("cost %v", *resp.Cost)
				}
				return
			}
			if want := float64(tt.prompt-tt.read) + float64(tt.read)*0.25 + float64(tt.answer)*10; resp.Cost == nil || *resp.Cost != want {
				t.Errorf("cost %v, want %v", resp.Cost, want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	status := func(code int, name, message, details string) string {
		raw, _ := json.Marshal(message)
		b, _ := json.Marshal(code)
		return `{"error":{"code":` + string(b) + `,"message":` + string(raw) + `,"status":"` + name + `"` + details + `}}`
	}
	violations := func(ids string) string {
		return `,"details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[` + ids + `]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]`
	}
	const minute, day = `{"quotaId":"GenerateContentInputTokensPerModelPerMinute-FreeTier"}`, `{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}`
	const exceeded = "You exceeded your current quota, please check your plan and billing details."
	tests := []struct {
		name  string
		code  int
		body  string
		class llm.Class
		text  string
		wait  time.Duration
	}{
		{"rate", 429, status(429, "RESOURCE_EXHAUSTED", exceeded, violations(minute)), llm.ClassRateLimit, "quota", 34500 * time.Millisecond},
		{"rate in an array", 429, "[" + status(429, "RESOURCE_EXHAUSTED", exceeded, violations(minute)) + "]", llm.ClassRateLimit, "quota", 34500 * time.Millisecond},
		{"day", 429, status(429, "RESOURCE_EXHAUSTED", exceeded, violations(minute+","+day)), llm.ClassQuota, "midnight", 0},
		{"no free tier", 429, status(429, "RESOURCE_EXHAUSTED", exceeded+"\n* Quota exceeded for metric: x, limit: 0, model: gemini-3-pro", ""), llm.ClassQuota, "no free tier", 0},
		{"vertex", 429, status(429, "RESOURCE_EXHAUSTED", "Resource exhausted. Please try again later.", ""), llm.ClassRateLimit, "exhausted", 0},
		{"credits", 429, status(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted.", ""), llm.ClassQuota, "Your prepayment", 0},
		{"key", 400, status(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", `,"details":[{"reason":"API_KEY_INVALID"}]`), llm.ClassAuth, "not valid", 0},
		{"no key", 403, status(403, "PERMISSION_DENIED", "Method doesn't allow unregistered callers", ""), llm.ClassAuth, "unregistered", 0},
		{"context", 400, status(400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", ""), llm.ClassContext, "1048576", 0},
		{"place", 400, status(400, "FAILED_PRECONDITION", "User location is not supported for the API use.", ""), llm.ClassBadRequest, "Vertex AI", 0},
		{"billing", 400, status(400, "FAILED_PRECONDITION", "Gemini API free tier is not available in your country. Please enable billing on your project.", ""), llm.ClassQuota, "enable billing", 0},
		{"unavailable", 503, status(503, "UNAVAILABLE", "The model is overloaded. Please try again later.", ""), llm.ClassOverloaded, "overloaded", 0},
		{"internal", 500, status(500, "INTERNAL", "An internal error has occurred.", ""), llm.ClassOverloaded, "internal", 0},
		{"deadline", 504, status(504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete.", ""), llm.ClassTimeout, "expired", 0},
		{"unknown model", 404, status(404, "NOT_FOUND", "models/x is not found for API version v1beta.", ""), llm.ClassBadRequest, "check the model id", 0},
		{"order", 400, status(400, "INVALID_ARGUMENT", "Please ensure that function call turn comes immediately after a user turn or after a function response turn.", ""), llm.ClassMalformed, "turn", 0},
		{"no signature", 400, status(400, "INVALID_ARGUMENT", "Function call is missing a thought_signature in functionCall parts.", ""), llm.ClassMalformed, "signature", 0},
		{"a parameter", 400, status(400, "INVALID_ARGUMENT", "Unknown name \"foo\": Cannot find field.", ""), llm.ClassBadRequest, "foo", 0},
		{"no calls", 400, status(400, "INVALID_ARGUMENT", "Function calling is not enabled for models/gemma-3-27b-it", ""), llm.ClassBadRequest, "native tool calling", 0},
		{"no images", 400, status(400, "INVALID_ARGUMENT", "Image input modality is not enabled for models/x", ""), llm.ClassBadRequest, "vision", 0},
		{"a page", 502, "<html><title>502</title>", llm.ClassOverloaded, "502", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := over(t, "gemini-2.5-flash", answers(tt.code, "application/json", tt.body)).Do(t.Context(), llmtest.Request(ignore))
			var e *llm.Error
			if !errors.As(err, &e) || e.Class != tt.class || e.Status != tt.code || !strings.Contains(e.Message, tt.text) || e.RetryAfter != tt.wait {
				t.Errorf("got %#v", err)
			}
		})
	}
}

func TestKeyIsNeverShown(t *testing.T) {
	body := `{"error":{"code":400,"message":"key AIza-test-0123456789 is bad","status":"INVALID_ARGUMENT"}}`
	_, err := over(t, "gemini-2.5-flash", answers(400, "application/json", body)).Do(t.Context(), llmtest.Request(nil))
	if err == nil || strings.Contains(err.Error(), "AIza") {
		t.Errorf("%v", err)
	}
}

// refusing answers with an error as long as the body has some text.
func refusing(word, message string, seen *[]string) transport {
	return func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		*seen = append(*seen, string(body))
		if bytes.Contains(body, []byte(word)) {
			raw, _ := json.Marshal(message)
			return answers(400, "application/json", `{"error":{"code":400,"message":`+string(raw)+`,"status":"INVALID_ARGUMENT"}}`)(r)
		}
		return answers(200, "application/json", whole("STOP", `{"text":"ok"}`))(r)
	}
}

func TestWhatTheEndpointRefuses(t *testing.T) {
	deep := `{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"object","properties":{"c":{"type":"object","properties":{"d":{"type":"object","properties":{"deepest":{"type":"string"}}}}}}}}}}}`
	for name, tt := range map[string]struct {
		word, message string
		remembered    bool
	}{
		"parametersJsonSchema": {"parametersJsonSchema", `Invalid JSON payload received. Unknown name "parametersJsonSchema" at 'tools[0].function_declarations[0]': Cannot find field.`, true},
		"depth":                {"deepest", "A FunctionDeclaration in the request exceeds the maximum allowed nesting depth.", true},
		"thinking level":       {"thinkingLevel", "Thinking level is not supported for this model.", true},
		"a system text":        {"systemInstruction", "Developer instruction is not enabled for models/gemma-3-27b-it", true},
		"an address":           {"fileData", "Cannot fetch content from the provided URL. Please ensure the URL is valid.", false},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []string
			cfg := gemini.Config{}
			cfg.Model, cfg.Reasoning, cfg.ReasoningEffort = "gemini-3-flash-preview", true, "low"
			cfg.HTTPClient = &http.Client{Transport: refusing(tt.word, tt.message, &seen)}
			m, err := gemini.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			req := llmtest.Request(nil)
			req.Tools = append(req.Tools, llm.Tool{Name: "deep", Parameters: []byte(deep)})
			req.Messages[1].Parts = append(req.Messages[1].Parts, content.Image("https://h/x.png"))
			for i, want := range []int{2, map[bool]int{true: 3, false: 4}[tt.remembered]} {
				if _, err := m.Do(t.Context(), req); err != nil || len(seen) != want {
					t.Fatalf("call %d: %v, %d requests, want %d", i, err, len(seen), want)
				}
			}
		})
	}
	var seen []string
	_, err := over(t, "gemini-2.5-flash", refusing("contents", "The thinking is wrong.", &seen)).Do(t.Context(), llmtest.Request(nil))
	if err == nil || len(seen) != 2 {
		t.Errorf("what cannot be helped was tried %d times: %v", len(seen), err)
	}
}
