package bedrocktest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/bedrocktest"
)

const (
	path  = "/model/a.b%3A0/converse"
	use   = `{"role":"assistant","content":[{"toolUse":{"toolUseId":"t1","name":"n","input":{}}}]}`
	tools = `,"toolConfig":{"tools":[{"toolSpec":{"name":"n","inputSchema":{"json":{"type":"object"}}}}]}`
	hello = `{"role":"user","content":[{"text":"hi"}]}`
)

func result(id string) string {
	return `{"toolResult":{"toolUseId":"` + id + `","content":[{"text":"r"}]}}`
}

func user(blocks string) string { return `{"role":"user","content":[` + blocks + `]}` }

// What the service refuses is refused, in its words.
func TestRefuses(t *testing.T) {
	tests := []struct{ name, path, body, want string }{
		{"accepted", path, `{"messages":[` + hello + `]}`, ""},
		{"calls accepted", path, `{"messages":[` + hello + `,` + use + `,` + user(result("t1")+`,{"text":"x"},{"cachePoint":{"type":"default"}}`) + `]` + tools + `}`, ""},
		{"a colon in the path", "/model/a.b:0/converse", `{"messages":[` + hello + `]}`, "identifier is invalid"},
		{"an operation", "/model/a.b/invoke", `{}`, "UnknownOperationException"},
		{"no JSON", path, `[]`, "not a JSON object"},
		{"an unknown member", path, `{"messages":[` + hello + `],"stream":true}`, "extraneous key [stream]"},
		{"no messages", path, `{"messages":[]}`, "at least one"},
		{"assistant first", path, `{"messages":[{"role":"assistant","content":[{"text":"x"}]},` + hello + `]}`, "must start with a user"},
		{"no alternation", path, `{"messages":[` + hello + `,` + hello + `]}`, "must alternate"},
		{"assistant last", path, `{"messages":[` + hello + `,{"role":"assistant","content":[{"text":"x"}]}]}`, "must end with a user"},
		{"a system message", path, `{"messages":[{"role":"system","content":[{"text":"x"}]}]}`, "enum value set"},
		{"no content", path, `{"messages":[` + user("") + `]}`, "is empty"},
		{"a blank text", path, `{"messages":[` + user(`{"text":" \n"}`) + `]}`, "is blank"},
		{"two members", path, `{"messages":[` + user(`{"text":"x","image":{}}`) + `]}`, "Exactly one"},
		{"a wrong image", path, `{"messages":[` + user(`{"image":{"format":"jpg","source":{"bytes":"AAAA"}}}`) + `]}`, "image.format"},
		{"an empty image", path, `{"messages":[` + user(`{"image":{"format":"png","source":{"bytes":""}}}`) + `]}`, "Could not process"},
		{"no tools", path, `{"messages":[` + hello + `,` + use + `,` + user(result("t1")) + `]}`, "toolConfig field must be defined"},
		{"no result", path, `{"messages":[` + hello + `,` + use + `,` + hello + `]` + tools + `}`, "for the following Ids: t1"},
		{"two results", path, `{"messages":[` + hello + `,` + use + `,` + user(result("t1")+","+result("t1")) + `]` + tools + `}`, "exceeds the number"},
		{"a result of nothing", path, `{"messages":[` + user(result("t9")) + `]` + tools + `}`, "exceeds the number"},
		{"a result behind a text", path, `{"messages":[` + hello + `,` + use + `,` + user(`{"text":"x"},`+result("t1")) + `]` + tools + `}`, "must come first"},
		{"a bad id", path, `{"messages":[` + hello + `,` + strings.Replace(use, "t1", "t 1", 1) + `,` + hello + `]}`, "toolUseId"},
		{"a bad name", path, `{"messages":[` + hello + `,` + strings.Replace(use, `"n"`, `"n.n"`, 1) + `,` + hello + `]}`, "toolUse.name"},
		{"input that is no object", path, `{"messages":[` + hello + `,` + strings.Replace(use, `{}`, `"x"`, 1) + `,` + hello + `]}`, "json object"},
		{"no type in a schema", path, `{"messages":[` + hello + `]` + strings.Replace(tools, `"type":"object"`, ``, 1) + `}`, "one of the following: object"},
		{"a tool twice", path, `{"messages":[` + hello + `],"toolConfig":{"tools":[{"toolSpec":{"name":"n","inputSchema":{"json":{"type":"object"}}}},{"toolSpec":{"name":"n","inputSchema":{"json":{"type":"object"}}}}]}}`, "already defined"},
		{"five cache points", path, `{"messages":[` + user(`{"text":"x"}`+strings.Repeat(`,{"cachePoint":{"type":"default"}}`, 5)) + `]}`, "maximum is 4"},
		{"no tokens", path, `{"messages":[` + hello + `],"inferenceConfig":{"maxTokens":0}}`, "maxTokens"},
		{"too hot", path, `{"messages":[` + hello + `],"inferenceConfig":{"temperature":1.2}}`, "temperature"},
		{"a small budget", path, `{"messages":[` + hello + `],"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":100}}}`, "1024"},
		{"a budget above the bound", path, `{"messages":[` + hello + `],"inferenceConfig":{"maxTokens":2000},"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":2000}}}`, "must be greater"},
		{"unsigned thinking", path, `{"messages":[` + hello + `,{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"x"}}},{"text":"y"}]},` + hello + `]}`, "signature: Field required"},
		{"a signature of nobody", path, `{"messages":[` + hello + `,{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"x","signature":"s"}}},{"text":"y"}]},` + hello + `]}`, "Invalid `signature`"},
	}
	h := bedrocktest.Handler(func(*http.Request, []byte) llmtest.Reply { return llmtest.Reply{Text: "ok"} })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, tt.path, strings.NewReader(tt.body))
			r.Header.Set("Authorization", "Bearer "+bedrocktest.APIKey)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			got := w.Header().Get("X-Amzn-Errortype") + " " + w.Body.String()
			if (w.Code == http.StatusOK) != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("%d %s", w.Code, got)
			}
		})
	}
}

func TestRefusesIdentity(t *testing.T) {
	h := bedrocktest.Handler(func(*http.Request, []byte) llmtest.Reply { return llmtest.Reply{Text: "ok"} })
	const scope = "/20260101/eu-central-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date, Signature=00"
	for auth, want := range map[string]string{
		"":               "MissingAuthenticationToken",
		"Bearer x":       "API Key",
		"AWS4-HMAC-SHA2": "Incomplete",
		"AWS4-HMAC-SHA256 Credential=AKIAOTHER" + scope:                                                                   "UnrecognizedClient",
		"AWS4-HMAC-SHA256 Credential=" + bedrocktest.AccessKeyID + scope:                                                  "Signature expired",
		"AWS4-HMAC-SHA256 Credential=" + bedrocktest.AccessKeyID + strings.Replace(scope, "eu-central-1", "us-east-1", 1): "valid region",
	} {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{}`))
		r.Header.Set("Authorization", auth)
		r.Header.Set("X-Amz-Date", "20260101T000000Z")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("X-Amzn-Errortype") + " " + w.Body.String(); w.Code != http.StatusForbidden || !strings.Contains(got, want) {
			t.Errorf("%q: %d %s, want %s", auth, w.Code, got, want)
		}
	}
}
