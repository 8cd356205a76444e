package geminitest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/internal/content"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/geminitest"
)

// ask sends a body as a client would.
func ask(path, body string, replies ...llmtest.Reply) *httptest.ResponseRecorder {
	n := 0
	h := geminitest.Handler(func(*http.Request, []byte) llmtest.Reply {
		n++
		if n > len(replies) {
			return llmtest.Reply{Text: "hi"}
		}
		return replies[n-1]
	})
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Goog-Api-Key", "k")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const (
	older  = "/v1beta/models/gemini-2.5-pro:generateContent"
	newest = "/any/prefix/v1beta/models/gemini-3.8-flash:generateContent"
	user   = `{"role":"user","parts":[{"text":"a"}]}`
	called = `{"role":"model","parts":[{"functionCall":{"id":"1","name":"x","args":{}}}]}`
	result = `{"role":"user","parts":[{"functionResponse":{"id":"1","name":"x","response":{"result":"r"}}}]}`
)

func contents(list ...string) string { return `{"contents":[` + strings.Join(list, ",") + `]}` }

func with(members string) string { return `{"contents":[` + user + `],` + members + `}` }

func function(members string) string {
	return with(`"tools":[{"functionDeclarations":[{"name":"x","description":"d",` + members + `}]}]`)
}

func TestRefusals(t *testing.T) {
	tests := []struct{ name, path, body, want string }{
		{"good", older, contents(user), ""},
		{"good with a call", older, contents(user, called, result), ""},
		{"good for the newest", newest, contents(user, strings.Replace(called, `}}]`, `},"thoughtSignature":"`+geminitest.AnySignature+`"}]`, 1), result), ""},
		{"good without a signature, in an earlier turn", newest, contents(user, called, result, `{"role":"model","parts":[{"text":"b"}]}`, user), ""},
		{"the other spelling", older, `{"model":"models/m","system_instruction":{"parts":[{"text":"s"}]},"generation_config":{"max_output_tokens":5},` +
			`"tools":[{"function_declarations":[{"name":"x","description":"d","parameters_json_schema":{"type":"object","properties":{"a_b":{}},"required":["a_b"]}}]}],` +
			contents(`{"role":"user","parts":[{"inline_data":{"mime_type":"image/png","data":"AAAA"}}]}`, strings.Replace(strings.Replace(called, "functionCall", "function_call", 1), `{}`, `{"a_b":{"c_d":1}}`, 1),
				strings.Replace(result, "functionResponse", "function_response", 1))[1:], ""},
		{"a path", "/v1beta/models/x:countTokens", contents(user), "was not found"},
		{"not JSON", older, `{`, "Invalid JSON"},
		{"unknown field", older, with(`"stream":true`), `Unknown name "stream"`},
		{"nothing", older, `{}`, "contents is not specified"},
		{"a role", older, contents(`{"role":"assistant","parts":[{"text":"a"}]}`), "valid role"},
		{"the model first", older, contents(`{"role":"model","parts":[{"text":"a"}]}`, user), "start with a user"},
		{"neighbours", older, contents(user, user), "alternate"},
		{"the model last", older, contents(user, `{"role":"model","parts":[{"text":"a"}]}`), "ending with a model turn"},
		{"no parts", older, contents(`{"role":"user","parts":[]}`), "must not be empty"},
		{"an empty text", older, contents(`{"role":"user","parts":[{"text":""}]}`), "oneof field"},
		{"two in one part", older, contents(`{"role":"user","parts":[{"text":"a","fileData":{"fileUri":"https://h","mimeType":"image/png"}}]}`), "oneof field"},
		{"no result", older, contents(user, called, user), "number of function response parts"},
		{"a result without a call", older, contents(result), "immediately after a function call turn"},
		{"a result too many", older, contents(user, called, strings.Replace(result, `"parts":[`, `"parts":[{"functionResponse":{"id":"2","name":"x","response":{}}},`, 1)), "number of function response parts"},
		{"a result of another call", older, contents(user, called, strings.Replace(result, `"1"`, `"2"`, 1)), "does not match"},
		{"arguments", older, contents(user, strings.Replace(called, `{}`, `[]`, 1), result), "must be an object"},
		{"a name", older, contents(user, strings.Replace(called, `"x"`, `"9x"`, 1), result), "not a valid name"},
		{"no signature", newest, contents(user, called, result), "missing a thought_signature"},
		{"a picture", older, contents(`{"role":"user","parts":[{"inlineData":{"mimeType":"image/gif","data":"AAAA"}}]}`), "Unsupported MIME type"},
		{"a picture's data", older, contents(`{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"?"}}]}`), "Base64"},
		{"a system text", older, with(`"systemInstruction":{"parts":[]}`), "must not be empty"},
		{"a temperature", older, with(`"generationConfig":{"temperature":3}`), "temperature"},
		{"a seed", older, with(`"generationConfig":{"seed":4294967296}`), "Invalid JSON"},
		{"a level for the older", older, with(`"generationConfig":{"thinkingConfig":{"thinkingLevel":"low"}}`), "Thinking level is not supported"},
		{"a level", newest, with(`"generationConfig":{"thinkingConfig":{"thinkingLevel":"minimal"}}`), "MINIMAL is not supported"},
		{"level and budget", newest, with(`"generationConfig":{"thinkingConfig":{"thinkingLevel":"low","thinkingBudget":5}}`), "only one"},
		{"a budget", older, with(`"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}`), "only works in thinking mode"},
		{"both schemas", older, function(`"parameters":{"type":"OBJECT"},"parametersJsonSchema":{"type":"object"}`), "mutually exclusive"},
		{"no type", older, function(`"parameters":{"type":"OBJECT","properties":{"a":{}}}`), "must be specified"},
		{"a list of nothing", older, function(`"parameters":{"type":"OBJECT","properties":{"a":{"type":"ARRAY"}}}`), "missing field"},
		{"a keyword", older, function(`"parameters":{"type":"OBJECT","additionalProperties":false}`), "Unknown name"},
		{"types", older, function(`"parameters":{"type":"OBJECT","properties":{"a":{"type":["STRING"]}}}`), "cannot unmarshal"},
		{"an enum of numbers", older, function(`"parameters":{"type":"OBJECT","properties":{"a":{"type":"INTEGER","enum":["1"]}}}`), "only allowed for STRING"},
		{"an empty value", older, function(`"parameters":{"type":"OBJECT","properties":{"a":{"type":"STRING","enum":[""]}}}`), "cannot be empty"},
		{"beside anyOf", older, function(`"parameters":{"type":"OBJECT","properties":{"a":{"description":"d","anyOf":[{"type":"STRING"}]}}}`), "only field set"},
		{"required", older, function(`"parameters":{"type":"OBJECT","required":["a"]}`), "not defined"},
		{"a JSON Schema that is none", older, function(`"parametersJsonSchema":{"type":"object","properties":{"a":{"minimum":"1"}}}`), "value at"},
		{"a JSON Schema with a reference", older, function(`"parametersJsonSchema":{"type":"object","properties":{"a":{"$ref":"#"}}}`), "unsupported keyword"},
		{"a JSON Schema of a list", older, function(`"parametersJsonSchema":{"type":"array"}`), "must be an object"},
		{"the same function twice", older, with(`"tools":[{"functionDeclarations":[{"name":"x","description":"d"},{"name":"x","description":"d"}]}]`), "Duplicate function"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := ask(tt.path, tt.body)
			if tt.want == "" {
				if w.Code != http.StatusOK {
					t.Errorf("refused: %s", w.Body)
				}
				return
			}
			var e struct {
				Error struct {
					Code            int
					Message, Status string
				}
			}
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Error.Code != w.Code || w.Code < 400 || e.Error.Status == "" || !strings.Contains(e.Error.Message, tt.want) {
				t.Errorf("%d %s, want %q", w.Code, w.Body, tt.want)
			}
		})
	}
}

func TestNoKey(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, older, strings.NewReader(contents(user)))
	w := httptest.NewRecorder()
	geminitest.Handler(func(*http.Request, []byte) llmtest.Reply { return llmtest.Reply{} }).ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Without alt=sse a stream is one JSON array.
func TestArrayStream(t *testing.T) {
	w := ask(strings.Replace(older, "generateContent", "streamGenerateContent", 1), contents(user),
		llmtest.Reply{Text: "some words of an answer", Calls: []content.ToolCall{{ID: "a", Name: "x", Arguments: "{}"}}})
	var chunks []map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &chunks); err != nil || len(chunks) < 3 {
		t.Errorf("%v: %s", err, w.Body)
	}
}
