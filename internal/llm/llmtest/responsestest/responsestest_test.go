package responsestest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"parley/internal/content"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/responsestest"
)

const user = `{"role":"user","content":[{"type":"input_text","text":"hi"}]}`

func input(items ...string) string {
	return `{"model":"m","store":false,"input":[` + strings.Join(items, ",") + `]}`
}

func with(members string) string { return `{"model":"m","input":"hi",` + members + `}` }

func TestCheck(t *testing.T) {
	call := func(id string) string {
		return `{"type":"function_call","call_id":"` + id + `","name":"f","arguments":"{}"}`
	}
	output := func(id string) string {
		return `{"type":"function_call_output","call_id":"` + id + `","output":"ok"}`
	}
	message := func(members string) string { return `{"type":"message",` + members + `}` }
	said := message(`"role":"assistant","content":[{"type":"output_text","text":"x"}]`)
	image := func(members string) string {
		return message(`"role":"user","content":[{"type":"input_image",` + members + `}]`)
	}
	tests := []struct{ name, body, complaint string }{
		{"text", `{"model":"m","input":"hi"}`, ""},
		{"messages", input(user, said, user), ""},
		{"calls answered in any order", input(user, call("a"), call("b"), output("b"), output("a")), ""},
		{"a text between call and output", input(user, call("a"), said, output("a"), user), ""},
		{"an image", input(image(`"image_url":"data:image/png;base64,AAAA","detail":"auto"`)), ""},
		{"an image in an output", input(user, call("a"), `{"type":"function_call_output","call_id":"a","output":[{"type":"input_image","image_url":"https://h/x","detail":"low"}]}`), ""},
		{"a tool", with(`"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}},"strict":false}],"include":["reasoning.encrypted_content"],"reasoning":{"effort":"low"}`), ""},

		{"broken JSON", `{`, "parse"},
		{"no model", `{"input":"hi"}`, "'model'"},
		{"no input", `{"model":"m"}`, "'input'"},
		{"empty input", input(), "empty array"},
		{"unknown member", with(`"messages":[]`), "Unknown parameter: 'messages'"},
		{"store", with(`"store":"no"`), "boolean"},
		{"few tokens", with(`"max_output_tokens":15`), ">= 16"},
		{"include", with(`"include":["all"]`), "include[0]"},
		{"reasoning member", with(`"reasoning":{"budget":1}`), "reasoning.budget"},
		{"effort", with(`"reasoning":{"effort":"huge"}`), "huge"},
		{"summary", with(`"reasoning":{"summary":"long"}`), "long"},
		{"a model that does not think", `{"model":"gpt-4o","input":"x","reasoning":{"effort":"low"}}`, "'reasoning.effort' is not supported"},
		{"encrypted without thoughts", `{"model":"gpt-4o","input":"x","include":["reasoning.encrypted_content"]}`, "Encrypted content is not supported"},
		{"temperature of a model that thinks", `{"model":"gpt-5","input":"x","temperature":1}`, "'temperature'"},
		{"cache key", with(`"prompt_cache_key":"` + strings.Repeat("k", 65) + `"`), "prompt_cache_key"},
		{"retention", with(`"prompt_cache_retention":"1h"`), "1h"},
		{"retention of a newer model", `{"model":"gpt-5.6-sol","input":"x","prompt_cache_retention":"24h"}`, "not supported on this model"},
		{"tool as in the chat API", with(`"tools":[{"type":"function","function":{"name":"f"}}]`), "'tools[0].name'"},
		{"tool name", with(`"tools":[{"type":"function","name":"f g"}]`), "pattern"},
		{"tool schema", with(`"tools":[{"type":"function","name":"f","parameters":{"type":"string"},"strict":false}]`), "Invalid schema"},
		{"tool without properties", with(`"tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":false}]`), "missing properties"},
		{"tool with alternatives", with(`"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{},"anyOf":[{}]},"strict":false}]`), "top level"},
		{"strict by default", with(`"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}}}]`), "additionalProperties"},

		{"unknown item", input(`{"type":"tool"}`), "'tool'"},
		{"unknown role", input(message(`"role":"tool","content":"x"`)), "'tool'"},
		{"empty text", input(message(`"role":"user","content":""`)), "empty string"},
		{"empty part", input(message(`"role":"user","content":[{"type":"input_text","text":""}]`)), "content[0].text"},
		{"no parts", input(message(`"role":"user","content":[]`)), "empty array"},
		{"parts of the chat API", input(message(`"role":"user","content":[{"type":"text","text":"x"}]`)), "Supported values are: 'input_text'"},
		{"input text of the assistant", input(message(`"role":"assistant","content":[{"type":"input_text","text":"x"}]`)), "'output_text'"},
		{"phase of the user", input(message(`"role":"user","phase":"commentary","content":"x"`)), "phase"},
		{"phase", input(user, message(`"role":"assistant","phase":"odd","content":"x"`)), "odd"},
		{"broken image", input(image(`"image_url":"data:broken","detail":"auto"`)), "valid URL"},
		{"image without a detail", input(image(`"image_url":"https://h/x"`)), "'high'"},
		{"call without an output", input(user, call("a")), "No tool output found for function call a"},
		{"call without an output before the user", input(user, call("a"), user, output("a")), "No tool output found"},
		{"output without a call", input(user, output("a")), "No tool call found for function call output with call_id a"},
		{"two outputs", input(user, call("a"), output("a"), output("a")), "Duplicate output"},
		{"two calls", input(user, call("a"), output("a"), call("a"), output("a")), "Duplicate function call"},
		{"long call id", input(user, call(strings.Repeat("a", 65)), output(strings.Repeat("a", 65))), "64"},
		{"arguments", input(user, strings.Replace(call("a"), `"{}"`, `"{"`, 1), output("a")), "JSON object"},
		{"name of a call", input(user, strings.Replace(call("a"), `"f"`, `"f g"`, 1), output("a")), "pattern"},
		{"id of a call", input(user, strings.Replace(call("a"), `"name"`, `"id":"call_1","name"`, 1), output("a")), "begins with 'fc'"},
		{"id twice", input(user, strings.Replace(said, `"role"`, `"id":"msg_1","role"`, 1), strings.Replace(said, `"role"`, `"id":"msg_1","role"`, 1)), "Duplicate item"},
		{"thought that is not there", input(user, `{"type":"reasoning","id":"rs_t_0","summary":[]}`, said), "not persisted"},
		{"thought of another", input(user, `{"type":"reasoning","id":"rs_t_0","summary":[],"encrypted_content":"x"}`, said), "could not be verified"},
		{"status of a thought", input(user, `{"type":"reasoning","id":"rs_t_0","summary":[],"status":"completed"}`, said), "input[1].status"},
		{"reference", input(user, `{"type":"item_reference","id":"rs_1"}`), "not found"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			refusal := responsestest.Check([]byte(tt.body))
			switch {
			case refusal == nil && tt.complaint != "":
				t.Error("accepted")
			case refusal != nil && (tt.complaint == "" || !strings.Contains(refusal.Message, tt.complaint)):
				t.Errorf("refused: %s", refusal.Message)
			}
		})
	}
}

// post sends a body and returns status and answer.
func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer k")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// output returns the items of a whole answer as they go back.
func output(t *testing.T, body string) []string {
	t.Helper()
	var resp struct {
		Output []map[string]any `json:"output"`
	}
	if err := json.Unmarshal([]byte(body), &resp); err != nil {
		t.Fatal(err)
	}
	var items []string
	for _, it := range resp.Output {
		b, err := json.Marshal(it)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, string(b))
	}
	return items
}

// TestTies: a thought goes back with its item, and an item with its thought.
func TestTies(t *testing.T) {
	s := httptest.NewServer(responsestest.Handler(func(*http.Request, []byte) llmtest.Reply {
		return llmtest.Reply{Reasoning: "hm", Text: "Doing.", Calls: []content.ToolCall{{ID: "a", Name: "f", Arguments: "{}"}}}
	}))
	defer s.Close()
	_, body := post(t, s.URL+"/v1/responses", `{"model":"m","input":"x","store":false,"include":["reasoning.encrypted_content"],"reasoning":{"summary":"auto"}}`)
	items := output(t, body)
	if len(items) != 3 || !strings.Contains(items[0], "encrypted_content") || !strings.Contains(items[0], `"hm"`) {
		t.Fatal(body)
	}
	const out = `{"type":"function_call_output","call_id":"a","output":"x"}`
	for _, tt := range []struct {
		name, complaint string
		items           []string
	}{
		{"all", "", []string{user, items[0], items[1], items[2], out}},
		{"without the thought", "required 'reasoning' item", []string{user, items[1], items[2], out}},
		{"thought at the end", "required following item", []string{user, items[0]}},
		{"another item behind it", "required following item", []string{user, items[0], items[2], out}},
		{"a user behind it", "required following item", []string{items[0], user}},
	} {
		refusal := responsestest.Check([]byte(input(tt.items...)))
		if (refusal == nil) != (tt.complaint == "") || refusal != nil && !strings.Contains(refusal.Message, tt.complaint) {
			t.Errorf("%s: %v", tt.name, refusal)
		}
	}
}

func TestSignature(t *testing.T) {
	s := httptest.NewServer(responsestest.Handler(func(*http.Request, []byte) llmtest.Reply {
		return llmtest.Reply{Signature: "s", Calls: []content.ToolCall{{ID: "a", Name: "f", Arguments: "{}"}}}
	}))
	defer s.Close()
	head := `{"model":"m","store":false,"include":["reasoning.encrypted_content"],"input":`
	_, body := post(t, s.URL+"/responses", head+`"x"}`)
	items := output(t, body)
	const bare = `{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":"x"}`
	for want, history := range map[int]string{http.StatusBadRequest: bare, http.StatusOK: items[0] + "," + items[1] + bare[strings.Index(bare, "},")+1:]} {
		if status, answer := post(t, s.URL+"/responses", head+`[`+user+`,`+history+`]}`); status != want {
			t.Errorf("%d: %s", status, answer)
		}
	}
	if status, _ := post(t, s.URL+"/responses", strings.Replace(head, `"m"`, `"other"`, 1)+`[`+user+`,`+bare+`]}`); status != http.StatusOK {
		t.Error("another model is asked for the signature")
	}
}

func TestAccess(t *testing.T) {
	s := httptest.NewServer(responsestest.Handler(func(*http.Request, []byte) llmtest.Reply { return llmtest.Reply{Text: "x"} }))
	defer s.Close()
	resp, err := http.Post(s.URL+"/responses", "application/json", strings.NewReader(`{"model":"m","input":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %d", resp.StatusCode)
	}
	if status, _ := post(t, s.URL+"/chat/completions", "{}"); status != http.StatusNotFound {
		t.Errorf("another path: %d", status)
	}
}

// TestConcurrent: one handler serves many, with every fault that ends by itself.
func TestConcurrent(t *testing.T) {
	faults := []llmtest.Fault{"", llmtest.OddFinish, llmtest.WrongUsage, llmtest.DuplicateIDs, llmtest.LongName, llmtest.KeepAlives,
		llmtest.HalfCall, llmtest.ErrorInStream, llmtest.CutJSON, llmtest.Garbage}
	s := httptest.NewServer(responsestest.Handler(func(r *http.Request, _ []byte) llmtest.Reply {
		return llmtest.Reply{Signature: "s", Text: "some text", Fault: llmtest.Fault(r.URL.Query().Get("fault")),
			Calls: []content.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":"some arguments"}`}}}
	}))
	defer s.Close()
	var wg sync.WaitGroup
	for i := range 4 * len(faults) {
		wg.Go(func() {
			stream := []string{"true", "false"}[i%2]
			fault := string(faults[i%len(faults)])
			status, body := post(t, s.URL+"/responses?fault="+fault, `{"model":"m","input":"x","stream":`+stream+`}`)
			if status != http.StatusOK || body == "" {
				t.Errorf("%s: %d %s", fault, status, body)
			}
		})
	}
	wg.Wait()
}

// TestSignedCalls: a signed answer comes back with its thought, unless the item
// that followed the thought is gone: then there is no place for it.
func TestSignedCalls(t *testing.T) {
	const head = `{"model":"gpt-5","store":false,"include":["reasoning.encrypted_content"],"input":`
	call := func(id string) string {
		return `{"type":"function_call","call_id":"` + id + `","name":"f","arguments":"{}"}`
	}
	out := func(id string) string { return `{"type":"function_call_output","call_id":"` + id + `","output":"x"}` }
	for name, tt := range map[string]struct {
		back func(thought, first, second string) []string
		want int
	}{
		"all":                {func(thought, a, b string) []string { return []string{thought, a, b, out("a"), out("b")} }, 200},
		"no thought":         {func(_, _, _ string) []string { return []string{call("a"), call("b"), out("a"), out("b")} }, 400},
		"no second call":     {func(_, _, _ string) []string { return []string{call("a"), out("a")} }, 400},
		"the first one gone": {func(_, _, _ string) []string { return []string{call("b"), out("b")} }, 200},
	} {
		s := httptest.NewServer(responsestest.Handler(func(*http.Request, []byte) llmtest.Reply {
			return llmtest.Reply{Reasoning: "hm", Signature: "s", Calls: []content.ToolCall{{ID: "a", Name: "f", Arguments: "{}"}, {ID: "b", Name: "f", Arguments: "{}"}}}
		}))
		_, body := post(t, s.URL+"/v1/responses", head+`"x"}`)
		items := output(t, body)
		back := append([]string{user}, tt.back(items[0], items[1], items[2])...)
		if status, got := post(t, s.URL+"/v1/responses", head+"["+strings.Join(back, ",")+"]}"); status != tt.want {
			t.Errorf("%s: %d %s", name, status, got)
		}
		s.Close()
	}
}
