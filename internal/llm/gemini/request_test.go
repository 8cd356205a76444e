package gemini_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/gemini"
	"parley/internal/llm/llmtest"
)

const png = "data:image/png;base64,AAAA"

func say(role, s string, more ...content.Part) content.Message {
	return content.Message{Role: role, Parts: append([]content.Part{content.Text(s)}, more...)}
}

func result(id, s string, more ...content.Part) content.Message {
	m := say(content.RoleTool, s, more...)
	m.ToolCallID, m.ToolName = id, "terminal"
	return m
}

func called(s string, calls ...content.ToolCall) content.Message {
	m := content.Message{Role: content.RoleAssistant, ToolCalls: calls}
	if s != "" {
		m.Parts = []content.Part{content.Text(s)}
	}
	return m
}

func toolCall(id, args string) content.ToolCall {
	return content.ToolCall{ID: id, Name: "terminal", Arguments: args}
}

// sent returns the body that a model sends.
func sent(t *testing.T, name string, req *llm.Request, set func(*gemini.Config)) string {
	t.Helper()
	s := serve(t, llmtest.Reply{Text: "ok"})
	cfg := config(s, name)
	if set != nil {
		set(&cfg)
	}
	if _, err := model(t, cfg).Do(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	return string(s.bodies[len(s.bodies)-1])
}

func TestRequestBody(t *testing.T) {
	temperature, topP, topK, seed := 0.5, 0.9, 40.4, int64(1)<<40+7
	req := &llm.Request{SessionID: "s1", MaxOutput: 500,
		Tools: []llm.Tool{
			{Name: "terminal", Description: "Runs <a> command.", Parameters: []byte(`{"$schema":"x","type":"object","properties":{"command":{"type":"string"}},"required":["command"],"additionalProperties":false}`)},
			{Name: "finish"}},
		Messages: []content.Message{
			say("system", "You help.", content.Text(""), content.Text("More.")),
			say("user", "look <here>", content.Image(png)),
			called("I look.", toolCall("c1", `{"command": "ls"}`), toolCall("c2", ``)),
			result("c2", "two"), result("c1", "one"),
			say("user", "and?"),
		}}
	got := sent(t, "gemini-2.5-pro", req, func(c *gemini.Config) {
		c.Temperature, c.TopP, c.TopK, c.Seed = &temperature, &topP, &topK, &seed
		c.MaxOutput, c.Reasoning, c.ReasoningEffort = 8000, true, "low"
		c.Body = []byte(`{"safetySettings":[],"generationConfig":{"stopSequences":["x"]}}`)
	})
	const want = `{"contents":[{"parts":[{"text":"look <here>"},{"inlineData":{"data":"AAAA","mimeType":"image/png"}}],"role":"user"},` +
		`{"parts":[{"text":"I look."},{"functionCall":{"args":{"command":"ls"},"id":"c1","name":"terminal"}},{"functionCall":{"args":{},"id":"c2","name":"terminal"}}],"role":"model"},` +
		`{"parts":[{"functionResponse":{"id":"c1","name":"terminal","response":{"result":"one"}}},{"functionResponse":{"id":"c2","name":"terminal","response":{"result":"two"}}},{"text":"and?"}],"role":"user"}],` +
		`"generationConfig":{"maxOutputTokens":500,"seed":7,"stopSequences":["x"],"temperature":0.5,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":128},"topK":40,"topP":0.9},` +
		`"safetySettings":[],` +
		`"systemInstruction":{"parts":[{"text":"You help."},{"text":"More."}]},` +
		`"tools":[{"functionDeclarations":[{"description":"Runs <a> command.","name":"terminal","parametersJsonSchema":{"additionalProperties":false,"properties":{"command":{"type":"string"}},"required":["command"],"type":"object"}},{"description":"finish","name":"finish"}]}]}`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// contents are the contents of a request, in short: one line per turn.
func contents(t *testing.T, body string) string {
	t.Helper()
	var w struct {
		Contents []struct {
			Role  string
			Parts []struct {
				Text             *string
				Thought          bool
				ThoughtSignature string
				InlineData       *struct{ MimeType string }
				FileData         *struct{ FileURI, MimeType string }
				FunctionCall     *struct{ ID, Name string }
				FunctionResponse *struct {
					ID       string
					Response map[string]string
					Parts    []any
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &w); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, c := range w.Contents {
		b.WriteString(c.Role + ":")
		for _, p := range c.Parts {
			b.WriteString(" ")
			switch {
			case p.Text != nil && p.Thought:
				b.WriteString("thought(" + *p.Text + ")")
			case p.Text != nil:
				b.WriteString("'" + *p.Text + "'")
			case p.InlineData != nil:
				b.WriteString(p.InlineData.MimeType)
			case p.FileData != nil:
				b.WriteString(p.FileData.MimeType + "@" + p.FileData.FileURI)
			case p.FunctionCall != nil:
				b.WriteString("call(" + p.FunctionCall.ID + ")")
			case p.FunctionResponse != nil:
				r := p.FunctionResponse
				b.WriteString("result(" + r.ID + " " + r.Response["result"] + r.Response["error"] + strings.Repeat(" image", len(r.Parts)) + ")")
			}
			if p.ThoughtSignature != "" {
				b.WriteString("#" + p.ThoughtSignature)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestHistory(t *testing.T) {
	const dummy = "#skip_thought_signature_validator"
	tests := []struct {
		name  string
		model string
		in    []content.Message
		want  string
	}{
		{"nothing", "gemini-2.5-flash", []content.Message{say("system", "x")}, "user: 'Continue.'\n"},
		{"neighbours", "gemini-2.5-flash", []content.Message{say("user", "a"), say("user", "b"), say("assistant", "c"), say("assistant", "d"), say("user", "e")},
			"user: 'a' 'b'\nmodel: 'c' 'd'\nuser: 'e'\n"},
		{"begins with the model, ends with it", "gemini-2.5-flash", []content.Message{say("assistant", "a"), say("user", ""), say("user", " "), say("assistant", "b")},
			"user: '[The beginning of the conversation is not shown.]'\nmodel: 'a' 'b'\nuser: 'Continue.'\n"},
		{"a system message later", "gemini-2.5-flash", []content.Message{say("user", "a"), say("system", "b")}, "user: 'a' 'b'\n"},
		{"no result", "gemini-2.5-flash", []content.Message{say("user", "a"), called("", toolCall("1", "{}"), toolCall("2", "{}")), result("2", "two"), say("user", "b")},
			"user: 'a'\nmodel: call(1) call(2)\nuser: result(1 The outcome of this call is not known.) result(2 two) 'b'\n"},
		{"calls at the end", "gemini-2.5-flash", []content.Message{say("user", "a"), called("", toolCall("1", "{}"))},
			"user: 'a'\nmodel: call(1)\nuser: result(1 The outcome of this call is not known.)\n"},
		{"a result twice, a late one, a stray one", "gemini-2.5-flash", []content.Message{say("user", "a"), called("", toolCall("1", "{}"), toolCall("2", "{}")),
			result("1", "one"), result("1", "again"), say("user", "b"), result("2", "two"), say("assistant", "c"), result("9", "")},
			"user: 'a'\nmodel: call(1) call(2)\nuser: result(1 one) result(2 two) '[The result of an earlier call of terminal:]' 'again' 'b'\nmodel: 'c'\nuser: 'Continue.'\n"},
		{"one id twice", "gemini-2.5-flash", []content.Message{say("user", "a"), called("", toolCall("1", "{}"), toolCall("1", "{}")), result("1", "one"), result("1", "two")},
			"user: 'a'\nmodel: call(1) call(1)\nuser: result(1 one) result(1 two)\n"},
		{"images of results beside them", "gemini-2.5-flash", []content.Message{say("user", "a"), called("", toolCall("1", "{}")), result("1", "one", content.Image(png))},
			"user: 'a'\nmodel: call(1)\nuser: result(1 one) 'Images from the tool results above:' image/png\n"},
		{"images of results in them", "gemini-3-flash-preview", []content.Message{say("user", "a"), called("", toolCall("1", "{}")), result("1", "one", content.Image(png, "data:image/heic;base64,AAAA"))},
			"user: 'a'\nmodel: call(1)" + dummy + "\nuser: result(1 one image) 'Images from the tool results above:' image/heic\n"},
		{"images that cannot be shown", "gemini-2.5-flash", []content.Message{say("user", "a", content.Image("data:image/gif;base64,AAAA", "data:x", "data:image/png;base64,", "http://h/a.png"))},
			"user: 'a' '[an image of type image/gif, not shown: this model takes PNG, JPEG, WebP, HEIC and HEIF]' '[an image, not shown: its data cannot be read]'" +
				" '[an image, not shown: it is empty]' '[an image at http://h/a.png, not shown: this model cannot fetch it]'\n"},
		{"images that Google fetches", "gemini-2.5-flash", []content.Message{say("user", "a", content.Image("https://h/a.PNG?x=y", "https://h/b", "gs://b/c.png"))},
			"user: 'a' image/png@https://h/a.PNG?x=y image/jpeg@https://h/b '[an image at gs://b/c.png, not shown: this model cannot fetch it]'\n"},
		{"an old model fetches nothing", "gemini-2.0-flash", []content.Message{say("user", "a", content.Image("https://h/a.png"))},
			"user: 'a' '[an image at https://h/a.png, not shown: this model cannot fetch it]'\n"},
		{"calls of others are signed, the first of each step", "gemini-3-flash-preview", []content.Message{say("user", "a"), called("x", toolCall("1", "{}"), toolCall("2", "{}")), result("1", "one"), result("2", "two"),
			called("", toolCall("3", "{}")), result("3", "three"), say("user", "b"), called("", toolCall("4", "{}")), result("4", "four")},
			"user: 'a'\nmodel: 'x' call(1)" + dummy + " call(2)\nuser: result(1 one) result(2 two)\nmodel: call(3)" + dummy + "\nuser: result(3 three) 'b'\nmodel: call(4)" + dummy + "\nuser: result(4 four)\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, contents(t, sent(t, tt.model, &llm.Request{Messages: tt.in}, nil))); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func TestNoVision(t *testing.T) {
	req := &llm.Request{Messages: []content.Message{say("user", "a", content.Image(png, png)), called("", toolCall("1", "{}")), result("1", "one", content.Image(png))}}
	got := contents(t, sent(t, "gemini-3-flash-preview", req, func(c *gemini.Config) { c.NoVision = true }))
	if strings.Count(got, "this model takes no images") != 2 || strings.Contains(got, "image/png") {
		t.Error(got)
	}
}

func TestThinking(t *testing.T) {
	tests := []struct {
		model, effort string
		budget, out   int64
		want          string
	}{
		{"gemini-2.5-pro", "", 0, 0, `{"includeThoughts":true}`},
		{"gemini-2.5-pro", "none", 0, 0, `{"includeThoughts":true,"thinkingBudget":128}`},
		{"gemini-2.5-pro", "xhigh", 0, 0, `{"includeThoughts":true,"thinkingBudget":32768}`},
		{"gemini-2.5-pro", "high", 0, 4000, `{"includeThoughts":true,"thinkingBudget":2000}`},
		{"gemini-2.5-pro", "high", 0, 100, `{"includeThoughts":true,"thinkingBudget":128}`},
		{"gemini-2.5-pro", "low", 999_999, 0, `{"includeThoughts":true,"thinkingBudget":32768}`},
		{"gemini-2.5-flash", "none", 0, 0, `{"thinkingBudget":0}`},
		{"gemini-2.5-flash", "medium", 0, 0, `{"includeThoughts":true,"thinkingBudget":8192}`},
		{"gemini-2.5-flash-lite", "", 100, 0, `{"includeThoughts":true,"thinkingBudget":512}`},
		{"gemini-2.5-flash", "", 0, 100, `{"thinkingBudget":0}`},
		{"gemini-3.5-flash", "high", 0, 100, `{"includeThoughts":true,"thinkingLevel":"MINIMAL"}`},
		{"gemini-2.0-flash", "high", 0, 0, ``},
		{"gemini-3-pro-preview", "medium", 0, 0, `{"includeThoughts":true,"thinkingLevel":"HIGH"}`},
		{"gemini-3.1-pro-preview", "medium", 0, 0, `{"includeThoughts":true,"thinkingLevel":"MEDIUM"}`},
		{"gemini-3.1-pro-preview", "none", 0, 0, `{"includeThoughts":true,"thinkingLevel":"LOW"}`},
		{"gemini-3.1-pro-preview", "", 30_000, 0, `{"includeThoughts":true,"thinkingLevel":"HIGH"}`},
		{"gemini-3.5-flash", "minimal", 0, 0, `{"includeThoughts":true,"thinkingLevel":"MINIMAL"}`},
		{"gemini-3.8-flash", "none", 0, 0, `{"includeThoughts":true,"thinkingLevel":"LOW"}`},
		{"gemini-3.8-flash-lite", "none", 0, 0, `{"includeThoughts":true,"thinkingLevel":"MINIMAL"}`},
		{"gemini-4-argon", "xhigh", 0, 0, `{"includeThoughts":true,"thinkingLevel":"HIGH"}`},
		{"gemini-flash-latest", "", 0, 0, `{"includeThoughts":true}`},
	}
	for _, tt := range tests {
		t.Run(strings.Join([]string{tt.model, tt.effort}, " "), func(t *testing.T) {
			body := sent(t, tt.model, llmtest.Request(nil), func(c *gemini.Config) {
				c.Reasoning, c.ReasoningEffort, c.ReasoningBudget, c.MaxOutput = true, tt.effort, tt.budget, tt.out
			})
			var w struct {
				GenerationConfig struct{ ThinkingConfig json.RawMessage }
			}
			if err := json.Unmarshal([]byte(body), &w); err != nil || string(w.GenerationConfig.ThinkingConfig) != tt.want {
				t.Errorf("got %s, want %s (%v)", w.GenerationConfig.ThinkingConfig, tt.want, err)
			}
		})
	}
	if body := sent(t, "gemini-2.5-pro", llmtest.Request(nil), nil); strings.Contains(body, "generationConfig") {
		t.Errorf("what is not set was sent: %s", body)
	}
}

// Names that the API refuses are sent as legal ones, and come back as ours.
func TestToolNames(t *testing.T) {
	s := serve(t, llmtest.Reply{Calls: []content.ToolCall{{ID: "a", Name: "_1st_tool", Arguments: "{}"}, {ID: "b", Name: "x_y_2", Arguments: "{}"}, {ID: "c", Name: "other", Arguments: "{}"}}})
	m := model(t, config(s, "gemini-3.5-flash"))
	req := llmtest.Request(nil)
	req.Tools = []llm.Tool{{Name: "1st tool"}, {Name: "x/y"}, {Name: "x y"}, {Name: "-dash"}, {Name: strings.Repeat("n", 70)}, {Name: strings.Repeat("n", 80)}}
	resp, err := m.Do(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range resp.Message.ToolCalls {
		names = append(names, c.Name)
	}
	if d := cmp.Diff([]string{"1st tool", "x y", "other"}, names); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	req.Messages = append(req.Messages, resp.Message)
	if _, err := m.Do(t.Context(), req); err != nil {
		t.Error(err)
	}
	if body := string(s.bodies[1]); strings.Count(body, `"x_y_2"`) != 3 {
		t.Errorf("the tool has not one name: %s", body)
	}
}

func TestEndpoints(t *testing.T) {
	tests := []struct{ base, model, want string }{
		{"", "gemini-x", "https://generativelanguage.googleapis.com/v1beta/models/gemini-x:generateContent"},
		{"https://generativelanguage.googleapis.com", "models/gemini-x", "https://generativelanguage.googleapis.com/v1beta/models/gemini-x:generateContent"},
		{"https://generativelanguage.googleapis.com/v1/", "gemini-x", "https://generativelanguage.googleapis.com/v1/models/gemini-x:generateContent"},
		{"http://proxy:4000/gemini?a=b", "gemini-x", "http://proxy:4000/gemini/v1beta/models/gemini-x:generateContent?a=b"},
		{"http://h/v1beta/models", "tunedModels/mine", "http://h/v1beta/tunedModels/mine:generateContent"},
		{"https://aiplatform.googleapis.com", "gemini-x", "https://aiplatform.googleapis.com/v1/publishers/google/models/gemini-x:generateContent"},
		{"https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4", "gemini-x",
			"https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/publishers/google/models/gemini-x:generateContent"},
		{"https://aiplatform.googleapis.com/v1beta1/publishers/google", "gemini-x", "https://aiplatform.googleapis.com/v1beta1/publishers/google/models/gemini-x:generateContent"},
		{"http://proxy:8080/vertex/v1/projects/p/locations/l", "gemini-x", "http://proxy:8080/vertex/v1/projects/p/locations/l/publishers/google/models/gemini-x:generateContent"},
		{"https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu", "gemini-x",
			"https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/publishers/google/models/gemini-x:generateContent"},
		{"http://h", "a?b c", "http://h/v1beta/models/a%3Fb%20c:generateContent"},
	}
	for _, tt := range tests {
		if got := urlOf(t, tt.base, tt.model, nil); got != tt.want {
			t.Errorf("%q %q: got %s, want %s", tt.base, tt.model, got, tt.want)
		}
	}
	if got := urlOf(t, "http://h?a=b", "m", func(llm.Delta) {}); got != "http://h/v1beta/models/m:streamGenerateContent?a=b&alt=sse" {
		t.Errorf("streamed: %s", got)
	}
}

func TestRefusedConfigurations(t *testing.T) {
	for code, change := range map[string]func(*gemini.Config){
		"llm_model_missing":    func(c *gemini.Config) { c.Model = " models/ " },
		"llm_base_url_invalid": func(c *gemini.Config) { c.BaseURL = "nonsense" },
		"llm_auth_invalid":     func(c *gemini.Config) { c.Auth = "oauth" },
	} {
		cfg := gemini.Config{}
		cfg.Model = "gemini-x"
		change(&cfg)
		if m, err := gemini.New(cfg); m != nil || !fault.Is(err, fault.Invalid) || fault.CodeOf(err) != code {
			t.Errorf("%s: %v", code, err)
		}
	}
}

func TestAuth(t *testing.T) {
	s := serve(t)
	cfg := config(s, "gemini-2.5-flash")
	cfg.Headers = map[string]string{"X-Extra": "yes"}
	if _, err := model(t, cfg).Do(t.Context(), llmtest.Request(nil)); err != nil {
		t.Fatal(err)
	}
	cfg.Auth = gemini.AuthBearer
	if _, err := model(t, cfg).Do(t.Context(), llmtest.Request(nil)); err != nil {
		t.Fatal(err)
	}
	a, b := s.headers[0], s.headers[1]
	if a.Get("X-Goog-Api-Key") != "AIza-test-0123456789" || a.Get("Authorization") != "" || a.Get("X-Extra") != "yes" {
		t.Errorf("%v", a)
	}
	if b.Get("Authorization") != "Bearer AIza-test-0123456789" || b.Get("X-Goog-Api-Key") != "" {
		t.Errorf("%v", b)
	}
	if strings.Contains(s.urls[0], "AIza") {
		t.Errorf("the key is in the URL %s", s.urls[0])
	}
}
