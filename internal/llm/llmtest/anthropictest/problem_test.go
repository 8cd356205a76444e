package anthropictest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/internal/content"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/anthropictest"
)

const (
	head  = `{"model":"claude-sonnet-4-5","max_tokens":2000,`
	tools = `"tools":[{"name":"t","input_schema":{"type":"object","properties":{}}}],`
	use   = `{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":{}}]}`
)

func messages(list string) string { return head + tools + `"messages":[` + list + `]}` }

// TestProblems: what the real API refuses is refused, in words that say why.
func TestProblems(t *testing.T) {
	const ok = `"messages":[{"role":"user","content":"hi"}]}`
	newest := strings.Replace(head, "claude-sonnet-4-5", "claude-opus-5-5", 1)
	tests := map[string]struct{ body, want string }{
		"plain":                  {head + ok, ""},
		"tools":                  {messages(use + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"},{"type":"text","text":"go"}]}`), ""},
		"empty result":           {messages(use + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}`), ""},
		"no JSON":                {`{`, "not valid JSON"},
		"no UTF-8":               {"{\"model\":\"\xff\"}", "UTF-8"},
		"unknown member":         {head + `"foo":1,` + ok, "foo: Extra inputs"},
		"no bound":               {`{"model":"m",` + ok, "max_tokens: Field required"},
		"no messages":            {head + `"messages":[]}`, "at least one message"},
		"role":                   {head + `"messages":[{"role":"system","content":"x"}]}`, "role: Input should be"},
		"begins with assistant":  {head + `"messages":[{"role":"assistant","content":"x"},{"role":"user","content":"x"}]}`, "first message"},
		"no alternation":         {head + `"messages":[{"role":"user","content":"x"},{"role":"user","content":"x"}]}`, "alternate"},
		"prefill":                {head + `"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"x"}]}`, "prefill"},
		"empty text":             {head + `"messages":[{"role":"user","content":""}]}`, "non-empty"},
		"blank text":             {head + `"messages":[{"role":"user","content":[{"type":"text","text":" "}]}]}`, "non-whitespace"},
		"no content":             {head + `"messages":[{"role":"user","content":[]}]}`, "non-empty content"},
		"unknown block member":   {head + `"messages":[{"role":"user","content":[{"type":"text","text":"x","foo":1}]}]}`, "Extra inputs"},
		"unanswered":             {messages(use + `,{"role":"user","content":"x"}`), "without `tool_result`"},
		"answered twice":         {messages(use + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result","tool_use_id":"a"}]}`), "unexpected `tool_use_id`"},
		"answer not first":       {messages(use + `,{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"a"}]}`), "without `tool_result`"},
		"answer to nothing":      {messages(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}`), "unexpected `tool_use_id`"},
		"calls without tools":    {strings.Replace(messages(use+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}`), tools, "", 1), "must define tools"},
		"tool id":                {messages(strings.Replace(use, `"id":"a"`, `"id":"a b"`, 1)), "tool_use.id"},
		"call's name":            {messages(strings.Replace(use, `"name":"t"`, `"name":"a.b"`, 1)), "tool_use.name"},
		"input":                  {messages(strings.Replace(use, `"input":{}`, `"input":"{}"`, 1)), "valid dictionary"},
		"call not last":          {messages(strings.Replace(use, `"input":{}}`, `"input":{}},{"type":"text","text":"x"}`, 1)), "last blocks"},
		"call of a user":         {messages(`{"role":"user","content":[{"type":"tool_use","id":"a","name":"t","input":{}}]}`), "not allowed"},
		"tool name":              {strings.Replace(head+tools+ok, `"t"`, `"a b"`, 1), "tools.0.custom.name"},
		"schema":                 {strings.Replace(head+tools+ok, `"object"`, `"string"`, 1), "Input should be 'object'"},
		"schema with choices":    {strings.Replace(head+tools+ok, `"type":"object"`, `"anyOf":[{}],"type":"object"`, 1), "top level"},
		"schema that is none":    {strings.Replace(head+tools+ok, `"properties":{}`, `"properties":{"a":{"type":"x"}}`, 1), "JSON schema is invalid"},
		"tool choice":            {head + `"tool_choice":{"type":"auto"},` + ok, "tool_choice"},
		"no signature":           {messages(`{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"x"},{"type":"text","text":"x"}]},{"role":"user","content":"x"}`), "signature: Field required"},
		"ends with thinking":     {messages(`{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"x"}]},{"role":"user","content":"x"}`), "final block"},
		"changed thinking":       {messages(`{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"x.abc"},{"type":"text","text":"x"}]},{"role":"user","content":"x"}`), "Invalid `signature`"},
		"budget":                 {head + `"thinking":{"type":"enabled","budget_tokens":1000},` + ok, "greater than or equal to 1024"},
		"budget over the bound":  {head + `"thinking":{"type":"enabled","budget_tokens":2000},` + ok, "must be greater"},
		"adaptive too early":     {head + `"thinking":{"type":"adaptive"},` + ok, "adaptive thinking is not supported"},
		"effort too early":       {head + `"output_config":{"effort":"low"},` + ok, "effort parameter"},
		"budget too late":        {newest + `"thinking":{"type":"enabled","budget_tokens":1024},` + ok, "thinking.type.enabled"},
		"cannot stop":            {newest + `"thinking":{"type":"disabled"},` + ok, "thinking.type.disabled"},
		"sampling too late":      {newest + `"temperature":0.5,` + ok, "not supported"},
		"thinking with sampling": {head + `"thinking":{"type":"enabled","budget_tokens":1024},"temperature":0.5,` + ok, "only be set to 1"},
		"two samplings":          {head + `"top_p":0.5,"temperature":0.5,` + ok, "cannot both"},
		"turn without thinking":  {strings.Replace(messages(use+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}`), tools, tools+`"thinking":{"type":"enabled","budget_tokens":1024},`, 1), "Expected `thinking`"},
		"five markers":           {head + `"system":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},`, 5), ",") + `],` + ok, "maximum of 4"},
		"ttl":                    {head + `"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"24h"}}],` + ok, "ttl"},
		"ttls in disorder":       {head + `"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}],` + ok, "must not come after"},
		"image type":             {head + `"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/bmp","data":"AAAA"}}]}]}`, "media_type"},
		"image data":             {head + `"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"?"}}]}]}`, "base64"},
		"image URL":              {head + `"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"file:///x"}}]}]}`, "URLs"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := anthropictest.Problem(http.Header{"Anthropic-Version": {"2023-06-01"}}, []byte(tt.body))
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if got := anthropictest.Problem(http.Header{}, []byte(head+ok)); !strings.Contains(got, "anthropic-version") {
		t.Errorf("without a version: %q", got)
	}
}

// A signed answer must come back signed, whoever serves the next request.
func TestSignaturesAreKeptAcrossServers(t *testing.T) {
	reply := llmtest.Reply{Reasoning: "so", Signature: "sig", Calls: []content.ToolCall{{ID: "x", Name: "t", Arguments: "{}"}}}
	status, body := post(t, reply, messages(`{"role":"user","content":"hi"}`))
	var answer struct {
		Content []json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 || len(answer.Content) != 2 {
		t.Fatalf("%d %s", status, body)
	}
	var call struct{ ID string }
	if err := json.Unmarshal(answer.Content[1], &call); err != nil {
		t.Fatal(err)
	}
	next := func(blocks ...string) (int, string) {
		return post(t, llmtest.Reply{Text: "ok"}, messages(`{"role":"user","content":"hi"},{"role":"assistant","content":[`+strings.Join(blocks, ",")+
			`]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"`+call.ID+`"}]}`))
	}
	if status, body := next(string(answer.Content[0]), string(answer.Content[1])); status != 200 {
		t.Errorf("as it came: %d %s", status, body)
	}
	if status, body := next(string(answer.Content[1])); status != 400 || !strings.Contains(body, "Expected `thinking`") {
		t.Errorf("without: %d %s", status, body)
	}
	if status, body := next(strings.Replace(string(answer.Content[0]), `"so"`, `"no"`, 1), string(answer.Content[1])); status != 400 || !strings.Contains(body, "Invalid `signature`") {
		t.Errorf("changed: %d %s", status, body)
	}
}

// post sends a request to a server of its own.
func post(t *testing.T, reply llmtest.Reply, body string) (int, string) {
	t.Helper()
	s := httptest.NewServer(anthropictest.Handler(func(*http.Request, []byte) llmtest.Reply { return reply }))
	defer s.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/messages", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Anthropic-Version", "2023-06-01")
	req.Header.Set("X-Api-Key", "k")
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(out)
}
