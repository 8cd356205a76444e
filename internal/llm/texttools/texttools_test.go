package texttools_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/openai"
	"parley/internal/llm/texttools"
	"parley/internal/llm/wire"
	"parley/test/testkit/openaitest"
)

func tools() []llm.Tool {
	return []llm.Tool{
		{Name: "terminal", Description: "Runs a command.", Parameters: []byte(`{"type":"object","properties":{
			"timeout":{"type":"integer","description":"Seconds."},
			"command":{"type":"string","description":"The command."}},"required":["command"]}`)},
		{Name: "edit", Description: "Edits.", Parameters: []byte(`{"type":"object","properties":{
			"path":{"type":"string"},"mode":{"enum":["create","replace"]},"ratio":{"type":"number"},"force":{"type":"boolean"},
			"note":{"type":["string","null"]},"range":{"$ref":"#/$defs/range"},"tasks":{"anyOf":[{"type":"array","items":{"type":"object"}},{"type":"null"}]},
			"free":{}},"$defs":{"range":{"type":"array","items":{"type":"integer"}}}}`)},
		{Name: "finish"},
	}
}

// ask makes a model that answers with reply and returns what comes of it, what
// was shown meanwhile and what the model was asked.
func ask(t *testing.T, reply openaitest.Reply, streamed bool, history ...content.Message) (*llm.Response, string, *openaitest.Request) {
	t.Helper()
	s := openaitest.New(t)
	s.Reply(reply)
	req := &llm.Request{Tools: tools(), Messages: append([]content.Message{
		{Role: content.RoleSystem, Parts: []content.Part{content.Text("You help.")}},
		{Role: content.RoleUser, Parts: []content.Part{content.Text("Hello")}}}, history...)}
	var said strings.Builder
	if streamed {
		req.OnDelta = func(d llm.Delta) { said.WriteString(d.Text) }
	}
	before, err := json.Marshal(req.Messages)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := texttools.New(model(t, s)).Do(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := json.Marshal(req.Messages); err != nil || string(before) != string(after) {
		t.Errorf("the request was changed: %s, %v", after, err)
	}
	return resp, said.String(), s.Requests()[0]
}

func model(t *testing.T, s *openaitest.Server) llm.Model {
	t.Helper()
	m, err := openai.New(openai.Config{ModelConfig: wire.ModelConfig{Model: "m", BaseURL: s.URL() + "/v1", HTTPClient: s.Client()}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestCalls(t *testing.T) {
	const c = "<function=terminal>\n<parameter=command>ls</parameter>\n</function>"
	tests := map[string]struct {
		in, finish       string
		text, name, args string // name "" = no call
	}{
		"plain":               {in: "I look.\n\n" + c, text: "I look.", name: "terminal", args: `{"command":"ls"}`},
		"only a call":         {in: c, name: "terminal", args: `{"command":"ls"}`},
		"no call":             {in: "It is a < b && <b>.\n", text: "It is a < b && <b>.\n"},
		"something behind it": {in: c + "\nEXECUTION RESULT of [terminal]:\nmade up", name: "terminal", args: `{"command":"ls"}`},
		"a second call":       {in: c + "\n<function=finish></function>", name: "terminal", args: `{"command":"ls"}`},
		"verbatim lines":      {in: "<function=edit><parameter=path>\n  a\n\tb \"q\" \\n\n\n</parameter></function>", name: "edit", args: `{"path":"  a\n\tb \"q\" \\n\n"}`},
		"crlf":                {in: "<function=edit>\r\n<parameter=path>\r\na\r\nb\r\n</parameter>\r\n</function>", name: "edit", args: `{"path":"a\r\nb"}`},
		"types": {in: "<function=edit><parameter=ratio> 1.5 </parameter><parameter=force>True</parameter><parameter=range>[1, 2]</parameter>" +
			"<parameter=tasks>null</parameter><parameter=note>null</parameter><parameter=mode>create</parameter><parameter=free>{\"a\":1}</parameter></function>",
			name: "edit", args: `{"ratio":1.5,"force":true,"range":[1, 2],"tasks":null,"note":null,"mode":"create","free":{"a":1}}`},
		"a text that looks like a number":      {in: "<function=edit><parameter=path>5</parameter><parameter=note>{}</parameter></function>", name: "edit", args: `{"path":"5","note":"{}"}`},
		"a number that is none":                {in: "<function=terminal><parameter=timeout>soon</parameter></function>", name: "terminal", args: `{"timeout":"soon"}`},
		"no parameters":                        {in: "<function=finish>\n</function>", name: "finish", args: `{}`},
		"the same parameter twice":             {in: "<function=terminal><parameter=command>a</parameter><parameter=command>b</parameter></function>", name: "terminal", args: `{"command":"b"}`},
		"a mark in a value":                    {in: "<function=edit><parameter=path>a</parameter> b</parameter></function>", name: "edit", args: `{"path":"a</parameter> b"}`},
		"no end":                               {in: "<function=terminal>\n<parameter=command>ls</parameter>\n", name: "terminal", args: `{"command":"ls"}`},
		"cut by a stop word":                   {in: "<function=terminal>\n<parameter=command>ls</parameter>\n</function", name: "terminal", args: `{"command":"ls"}`},
		"no end of the value":                  {in: "<function=terminal>\n<parameter=command>ls -l\n</param", name: "terminal", args: `{"command":"ls -l\n"}`},
		"no end of the value, but of the call": {in: "<function=terminal>\n<parameter=command>ls -l</function>", name: "terminal", args: `{"command":"ls -l"}`},
		"JSON inside":                          {in: `<function=terminal>{"command": "ls"}</function>`, name: "terminal", args: `{"command": "ls"}`},
		"wrapped":                              {in: "Now.\n<tool_call>\n" + c + "\n</tool_call>", text: "Now.", name: "terminal", args: `{"command":"ls"}`},
		"an unknown tool":                      {in: "<function=nope><parameter=x>y</parameter></function>", name: "nope", args: `{"x":"y"}`},
		"prose":                                {in: "Write <function=name> in Lua.", text: "Write <function=name> in Lua."},
		"prose, then a call":                   {in: "Write <function=name> in Lua.\n" + c, text: "Write <function=name> in Lua.", name: "terminal", args: `{"command":"ls"}`},
		"no name":                              {in: "<function=\n>x", text: "<function=\n>x"},
		"half a mark":                          {in: "see <functi", text: "see <functi"},
		"text in no parameter":                 {in: "<function=terminal>ls -l</function>", name: "terminal", args: "malformed call, its text is in no <parameter=name> mark: ls -l"},
		"cut off": {in: "<function=terminal><parameter=command>rm -rf build</parameter>", finish: "length", name: "terminal",
			args: "malformed call, the answer reached its longest length inside the call: <parameter=command>rm -rf build</parameter>"},
		"cut off behind the call": {in: c + "\nand", finish: "length", name: "terminal", args: `{"command":"ls"}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, streamed := range []bool{false, true} {
				resp, said, _ := ask(t, openaitest.Reply{Text: tt.in, Finish: tt.finish}, streamed)
				if streamed && said != tt.text || resp.Message.Text() != tt.text {
					t.Errorf("streamed %v: text %q, shown %q, want %q", streamed, resp.Message.Text(), said, tt.text)
				}
				var got [][2]string
				for _, c := range resp.Message.ToolCalls {
					got = append(got, [2]string{c.Name, c.Arguments})
					if c.ID == "" || resp.FinishReason != "tool_calls" {
						t.Errorf("id %q, finish reason %q", c.ID, resp.FinishReason)
					}
				}
				var want [][2]string
				if tt.name != "" {
					want = [][2]string{{tt.name, tt.args}}
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("(-want +got)\n%s", d)
				}
			}
		})
	}
}

func TestHistory(t *testing.T) {
	_, _, got := ask(t, openaitest.Text("ok"), false,
		content.Message{Role: content.RoleAssistant, Parts: []content.Part{content.Text("Both.")}, ToolCalls: []content.ToolCall{
			{ID: "1", Name: "terminal", Arguments: `{"command":"a\nb","timeout":5}`}, {ID: "2", Name: "finish", Arguments: `broken`}}},
		content.Message{Role: content.RoleTool, ToolCallID: "2", ToolName: "finish", Parts: []content.Part{content.Text("two")}},
		content.Message{Role: content.RoleTool, ToolCallID: "1", ToolName: "terminal", Parts: []content.Part{content.Text("one"), content.Image("data:image/png;base64,AAAA")}},
		content.Message{Role: content.RoleTool, ToolCallID: "9", ToolName: "edit", Parts: []content.Part{content.Text("lost")}},
		content.Message{Role: content.RoleUser, Parts: []content.Part{content.Text("go on")}})
	var roles, texts []string
	for _, m := range got.Messages[2:] {
		roles, texts = append(roles, m.Role), append(texts, m.Text())
	}
	if d := cmp.Diff([]string{"assistant", "user", "assistant", "user", "user", "user"}, roles); d != "" {
		t.Fatalf("(-want +got)\n%s", d)
	}
	want := []string{
		"Both.\n<function=terminal>\n<parameter=command>\na\nb\n</parameter>\n<parameter=timeout>5</parameter>\n</function>",
		"EXECUTION RESULT of [terminal]:\none",
		"<function=finish>\n<parameter=_invalid_arguments>broken</parameter>\n</function>",
		"EXECUTION RESULT of [finish]:\ntwo", "EXECUTION RESULT of [edit]:\nlost", "go on"}
	if d := cmp.Diff(want, texts); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if !strings.Contains(string(got.Messages[3].Content), "image_url") || len(got.Tools) != 0 {
		t.Errorf("the image is lost, or tools were offered: %s", got.Raw)
	}
}

func TestInstructions(t *testing.T) {
	_, _, got := ask(t, openaitest.Text("ok"), false)
	text := got.Messages[0].Text()
	for _, want := range []string{"You help.\n", "## terminal\n\nRuns a command.\n\nParameters:\n- command (string, required): The command.\n- timeout (integer): Seconds.",
		"- mode (string, one of create, replace)", "- range (array)", `{"items":{"type":"integer"}}`, "- note (null or string)", "- free (any)", "## finish\n\nIt has no parameters."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// TestWithoutTools: titles and summaries are told the history in text, and what
// they write is theirs.
func TestWithoutTools(t *testing.T) {
	s := openaitest.New(t)
	s.Reply(openaitest.Text("<function=terminal></function>"))
	m := texttools.New(model(t, s))
	resp, err := m.Do(t.Context(), &llm.Request{Messages: []content.Message{{Role: content.RoleUser, Parts: []content.Part{content.Text("Title?")}},
		{Role: content.RoleAssistant, ToolCalls: []content.ToolCall{{ID: "1", Name: "terminal", Arguments: "{}"}}}}})
	if err != nil || len(resp.Message.ToolCalls) != 0 || resp.Message.Text() == "" || m.Info().NativeTools {
		t.Fatalf("%+v, %v", resp, err)
	}
	if msgs := s.Requests()[0].Messages; len(msgs) != 3 || msgs[2].Text() != "EXECUTION RESULT of [terminal]:\n(none)" {
		t.Errorf("%+v", msgs)
	}
}

func TestLearns(t *testing.T) {
	s := openaitest.New(t)
	s.Reply(openaitest.Fail(400, "registry.ollama.ai/library/gemma does not support tools"),
		openaitest.Text("<function=finish></function>"), openaitest.Text("<function=finish></function>"))
	m := texttools.Learn(model(t, s))
	req := &llm.Request{Tools: tools(), Messages: []content.Message{{Role: content.RoleUser, Parts: []content.Part{content.Text("hi")}}}}
	if !m.Info().NativeTools {
		t.Error("it is said to have no tools before anybody asked")
	}
	for range 2 {
		resp, err := m.Do(t.Context(), req)
		if err != nil || len(resp.Message.ToolCalls) != 1 {
			t.Fatalf("%+v, %v", resp, err)
		}
	}
	if n := len(s.Requests()); n != 3 || m.Info().NativeTools {
		t.Errorf("%d requests", n)
	}
}

func TestLearnsNothingElse(t *testing.T) {
	for _, reply := range []openaitest.Reply{openaitest.Fail(400, "bad request"), openaitest.Fail(429, "model does not support tools right now"), openaitest.Text("fine")} {
		s := openaitest.New(t)
		s.Reply(reply)
		m := texttools.Learn(model(t, s))
		_, err := m.Do(t.Context(), &llm.Request{Tools: tools(), Messages: []content.Message{{Role: content.RoleUser, Parts: []content.Part{content.Text("hi")}}}})
		var e *llm.Error
		if err != nil && !errors.As(err, &e) || len(s.Requests()) != 1 || !m.Info().NativeTools {
			t.Errorf("%v after %d requests", err, len(s.Requests()))
		}
	}
}
