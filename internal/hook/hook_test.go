package hook_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/fault"
	"parley/internal/hook"
)

func parse(t *testing.T, text string) *hook.Config {
	t.Helper()
	c, err := hook.Parse(json.RawMessage(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

func command(text string) hook.Definition {
	return hook.Definition{Type: hook.TypeCommand, Command: text, Tools: []string{}, Timeout: 60, MaxIterations: 3}
}

func TestNothingIsNoConfiguration(t *testing.T) {
	for _, text := range []string{"", " \n", "null"} {
		if c := parse(t, text); c != nil {
			t.Errorf("%q: %+v", text, c)
		}
	}
	var none *hook.Config
	if !none.Empty() || none.For(hook.Stop, "") != nil || !parse(t, "{}").Empty() || !parse(t, `{"stop":[{"hooks":[]}]}`).Empty() {
		t.Error("not empty")
	}
}

func TestBothSpellingsAndTheWrapper(t *testing.T) {
	want := &hook.Config{PreToolUse: []hook.Matcher{{Matcher: "terminal", Hooks: []hook.Definition{command("./x.sh")}}},
		Stop: []hook.Matcher{{Matcher: "*", Hooks: []hook.Definition{command("b")}}}}
	pre, stop := `[{"matcher":"terminal","hooks":[{"command":"./x.sh"}]}]`, `[{"hooks":[{"type":"command","command":"b"}]}]`
	for _, text := range []string{
		`{"pre_tool_use":` + pre + `,"stop":` + stop + `}`,
		`{"PreToolUse":` + pre + `,"Stop":` + stop + `}`,
		`{"hooks":{"PreToolUse":` + pre + `,"stop":` + stop + `}}`,
		`{"description":"for people","$schema":"x","hooks":{"pre_tool_use":` + pre + `,"PostToolUse":null,"Stop":` + stop + `}}`,
	} {
		if got := parse(t, text); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestEveryMember(t *testing.T) {
	got := parse(t, `{"session_end":[{"matcher":"","hooks":[{"type":"agent","name":"n","command":"","prompt":"p","system_prompt":"s",
		"tools":["grep"],"timeout":600,"max_iterations":20,"async":true},{"type":"prompt","name":null,"prompt":"q","tools":null,"timeout":1.0,"async_":true}]}]}`)
	want := []hook.Definition{
		{Type: "agent", Name: "n", Prompt: "p", SystemPrompt: "s", Tools: []string{"grep"}, Timeout: 600, MaxIterations: 20, Async: true},
		{Type: "prompt", Prompt: "q", Tools: []string{}, Timeout: 1, MaxIterations: 3, Async: true}}
	if !reflect.DeepEqual(got.SessionEnd[0].Hooks, want) {
		t.Errorf("%+v", got)
	}
}

func TestRefusals(t *testing.T) {
	one := func(members string) string { return `{"stop":[{"hooks":[{` + members + `}]}]}` }
	many := `{"stop":[{"hooks":[` + strings.TrimSuffix(strings.Repeat(`{"command":"x"},`, 101), ",") + `]}]}`
	large := ""
	for c := 'b'; c <= 'n'; c++ {
		large += "|" + string(c) + "{1000}"
	}
	for _, c := range []struct{ text, where, what string }{
		{`[]`, "", "object"},
		{`{"stop":`, "", "ends too early"},
		{`{} {}`, "", "text after"},
		{`{"hooks":[]}`, "hooks", "object"},
		{`{"hooks":{},"Stop":[]}`, "Stop", "no such member"},
		{`{"pre_tool_uses":[]}`, "pre_tool_uses", "did you mean pre_tool_use?"},
		{`{"PretoolUse":[]}`, "PretoolUse", "did you mean PreToolUse?"},
		{`{"hooks":{"Notification":[]}}`, "hooks.Notification", "Known are"},
		{`{"stop":[],"Stop":[]}`, "Stop", "twice"},
		{`{"Stop":[{"matcher":"a"}],"Stop":[]}`, "", "\"Stop\" is there twice"},
		{`{"stop":[{"matcher":"a","hooks":[{"command":"a","command":"b"}]}]}`, "", "\"command\" is there twice"},
		{`{"stop":[{"matcher":"a{1000}"},{"matcher":"` + large + `"},{"matcher":"never compiled ("}]}`, "stop[1].matcher", "too large"},
		{`{"stop":{}}`, "stop", "list"},
		{`{"stop":[7]}`, "stop[0]", "object"},
		{`{"stop":[{"Matcher":"x"}]}`, "stop[0].Matcher", "did you mean matcher?"},
		{`{"stop":[{"matcher":5}]}`, "stop[0].matcher", "text"},
		{`{"stop":[{"matcher":"a(b"}]}`, "stop[0].matcher", "missing closing )"},
		{`{"stop":[{"matcher":"/a(?=b)/"}]}`, "stop[0].matcher", "(?="},
		{`{"stop":[{"matcher":"a)|(b"}]}`, "stop[0].matcher", "unexpected )"},
		{`{"stop":[{"hooks":[{"command":"a"},"b"]}]}`, "stop[0].hooks[1]", "object"},
		{one(`"comand":"x","command":"y"`), "stop[0].hooks[0].comand", "did you mean command?"},
		{one(``), "stop[0].hooks[0].command", "needs a command"},
		{one(`"command":" "`), "stop[0].hooks[0].command", "needs a command"},
		{one(`"command":["x"]`), "stop[0].hooks[0].command", "text"},
		{one(`"command":"a\u0000b"`), "stop[0].hooks[0].command", "NUL"},
		{one(`"command":"` + strings.Repeat("x", hook.MaxCommand+1) + `"`), "stop[0].hooks[0].command", "more than the 16384"},
		{one(`"type":"prompt","command":"x"`), "stop[0].hooks[0].prompt", "needs a prompt"},
		{one(`"type":"agent","prompt":""`), "stop[0].hooks[0].prompt", "needs a prompt"},
		{one(`"type":"shell","command":"x"`), "stop[0].hooks[0].type", "no type"},
		{one(`"type":"Command","command":"x"`), "stop[0].hooks[0].type", "did you mean command?"},
		{one(`"command":"x","timeout":0`), "stop[0].hooks[0].timeout", "1 to 600, not 0"},
		{one(`"command":"x","timeout":601`), "stop[0].hooks[0].timeout", "1 to 600"},
		{one(`"command":"x","timeout":1e99`), "stop[0].hooks[0].timeout", "1 to 600"},
		{one(`"command":"x","timeout":1e999`), "stop[0].hooks[0].timeout", "whole number"},
		{one(`"command":"x","timeout":1.5`), "stop[0].hooks[0].timeout", "whole number"},
		{one(`"command":"x","timeout":"60"`), "stop[0].hooks[0].timeout", "whole number"},
		{one(`"command":"x","max_iterations":21`), "stop[0].hooks[0].max_iterations", "1 to 20"},
		{one(`"command":"x","async":"yes"`), "stop[0].hooks[0].async", "true or false"},
		{one(`"command":"x","tools":"grep"`), "stop[0].hooks[0].tools", "list"},
		{one(`"command":"x","tools":[1]`), "stop[0].hooks[0].tools[0]", "text"},
		{many, "", "101 hooks, more than the 100"},
		{`{"stop":[` + strings.Repeat(" ", hook.MaxBytes) + `]}`, "", "bytes of hooks"},
		{`{"stop":[` + strings.TrimSuffix(strings.Repeat(`{},`, 5000), ",") + `]}`, "", "With all defaults"},
	} {
		t.Run(c.where+" "+c.what, func(t *testing.T) {
			_, err := hook.Parse(json.RawMessage(c.text), "body", "hook_config")
			var f *fault.Error
			if !errors.As(err, &f) || f.Kind != fault.Invalid || f.Code != hook.CodeBad || len(f.Fields) != 1 {
				t.Fatalf("%v", err)
			}
			if !strings.Contains(f.Public, c.what) || !strings.Contains(f.Public, c.where) || !strings.Contains(f.Fields[0].Msg, c.what) {
				t.Errorf("%s", f.Public)
			}
			if loc := f.Fields[0].Loc; loc[0] != "body" || loc[1] != "hook_config" {
				t.Errorf("at %v", loc)
			}
		})
	}
}

func TestOneErrorNamesAllProblems(t *testing.T) {
	_, err := hook.Parse(json.RawMessage(`{"x":1,"stop":[{"hooks":[{"timeout":0},{"command":"a","async":1}]}],"pre_tool_use":3}`))
	var f *fault.Error
	if !errors.As(err, &f) || len(f.Fields) != 5 {
		t.Fatalf("%v", err)
	}
	for _, part := range []string{"x: ", "stop[0].hooks[0].timeout: ", "stop[0].hooks[0].command: ", "stop[0].hooks[1].async: ", "pre_tool_use: "} {
		if !strings.Contains(f.Public, part) {
			t.Errorf("%q is missing in %s", part, f.Public)
		}
	}
	_, err = hook.Parse(json.RawMessage(`{"stop":[` + strings.TrimSuffix(strings.Repeat("1,", 200), ",") + `]}`))
	if !errors.As(err, &f) || len(f.Fields) != 50 || !strings.Contains(f.Public, "and 45 more") {
		t.Errorf("%v", err)
	}
}

func TestMatchers(t *testing.T) {
	for _, c := range []struct {
		matcher, tool string
		want          bool
	}{
		{"*", "terminal", true}, {"", "terminal", true}, {"terminal", "terminal", true},
		{"terminal", "terminals", false}, {"Terminal", "terminal", false}, {"term", "terminal", false},
		{"terminal|file_editor", "file_editor", true}, {"terminal|file_editor", "xfile_editor", false},
		{"a|ab", "ab", true}, {"file_.*", "file_editor", true}, {"file_.*", "my_file_editor", false},
		{"/term/", "terminal", false}, {"/term.*/", "terminal", true}, {"/terminal/", "terminal", true}, {"/(?i)TERMINAL/", "terminal", true},
		{"a.*?", "abc", true}, {`\Qa|b`, "a|b", true}, {"^terminal$", "terminal", true}, {"(?m)^a$", "a\nb", false},
		{"//", "//", true}, {"//", "x", false}, {"/", "/", true}, {"mcp__.*__write", "mcp__fs__write", true},
		{"b", "", true}, {"b.*", "", true}, // an event without a tool
		{"a(", "anything", true}, // cannot be read: no guard is lost
	} {
		config := hook.Config{PreToolUse: []hook.Matcher{{Matcher: c.matcher, Hooks: []hook.Definition{command("x")}}}}
		if got := len(config.For(hook.PreToolUse, c.tool)) == 1; got != c.want {
			t.Errorf("%q for %q: %v", c.matcher, c.tool, got)
		}
	}
}

func TestForKeepsTheOrder(t *testing.T) {
	c := parse(t, `{"pre_tool_use":[{"matcher":"a","hooks":[{"command":"1"},{"command":"2"}]},{"matcher":"b","hooks":[{"command":"3"}]},{"hooks":[{"command":"4"}]}]}`)
	got := ""
	for _, d := range c.For(hook.PreToolUse, "a") {
		got += d.Command
	}
	if got != "124" || c.For(hook.Stop, "a") != nil || c.For("Else", "") != nil {
		t.Error(got)
	}
}

// What a client copied is the same hook, whatever it calls it and wherever it puts it.
func TestWithout(t *testing.T) {
	theirs := parse(t, `{"pre_tool_use":[{"matcher":"a","hooks":[{"command":"./x  y"},{"command":"z","timeout":9}]}],"stop":[{"hooks":[{"type":"prompt","prompt":"Done?"}]}]}`)
	mine := parse(t, `{"pre_tool_use":[{"matcher":"*","hooks":[{"command":"./x y","timeout":5,"name":"n"},{"command":"mine"}]},{"matcher":"b","hooks":[{"command":"z"}]}],
		"stop":[{"hooks":[{"type":"prompt","prompt":" Done?"},{"command":"z"}]}]}`)
	if got, want := mine.Without(*theirs).Commands(), []string{"PreToolUse: mine", "Stop: z"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := mine.Without(hook.Config{}).Commands(); !slices.Equal(got, mine.Commands()) {
		t.Errorf("%q", got)
	}
	if rest := mine.Without(*mine); !rest.Empty() {
		t.Errorf("%q", rest.Commands())
	}
}

func TestCommands(t *testing.T) {
	c := parse(t, `{"pre_tool_use":[{"matcher":"terminal","hooks":[{"command":"./guard.sh"}]}],"stop":[{"hooks":[{"command":"a\nb"},
		{"type":"agent","name":"review","prompt":"Look.","system_prompt":"Be strict.","tools":["grep","glob"]},{"type":"prompt","prompt":"Is it done?"}]}]}`)
	want := []string{"PreToolUse terminal: ./guard.sh", "Stop: a\nb", "Stop: agent: review (with grep, glob)\nBe strict.\nLook.",
		"Stop: prompt\nIs it done?"}
	if got := c.Commands(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	long := hook.Definition{Type: hook.TypePrompt, Prompt: "\n" + strings.Repeat("\u00e4b ", 100)}
	if got := long.Label(); len([]rune(got)) > 100 || !strings.HasSuffix(got, "...") {
		t.Error(got)
	}
}

func TestCanonicalForm(t *testing.T) {
	raw, err := json.Marshal(&hook.Config{Stop: []hook.Matcher{{Matcher: "*"}}, SessionStart: []hook.Matcher{{Hooks: []hook.Definition{{Type: "command", Command: "x"}}}}})
	want := `{"pre_tool_use":[],"post_tool_use":[],"user_prompt_submit":[],"session_start":[{"matcher":"","hooks":[{"type":"command","command":"x","tools":[],"timeout":0,"max_iterations":0,"async":false}]}],"session_end":[],"stop":[{"matcher":"*","hooks":[]}]}`
	if err != nil || string(raw) != want {
		t.Errorf("%s %v", raw, err)
	}
}

// configs draws configurations as Parse makes them.
func configs() *rapid.Generator[*hook.Config] {
	text := rapid.StringMatching(`[a-zA-Z./<>&\\" {}]{0,20}`)
	definition := rapid.Custom(func(t *rapid.T) hook.Definition {
		return hook.Definition{Type: rapid.SampledFrom([]string{"command", "prompt", "agent"}).Draw(t, "type"), Name: text.Draw(t, "name"),
			Command: "x" + text.Draw(t, "command"), Prompt: "x" + text.Draw(t, "prompt"), SystemPrompt: text.Draw(t, "system"),
			Tools: rapid.SliceOfN(text, 0, 3).Draw(t, "tools"), Timeout: rapid.IntRange(1, 600).Draw(t, "timeout"),
			MaxIterations: rapid.IntRange(1, 20).Draw(t, "iterations"), Async: rapid.Bool().Draw(t, "async")}
	})
	matcher := rapid.Custom(func(t *rapid.T) hook.Matcher {
		m := hook.Matcher{Matcher: rapid.SampledFrom([]string{"*", "", "terminal", "/a.*/", "a|b"}).Draw(t, "matcher"),
			Hooks: rapid.SliceOfN(definition, 0, 3).Draw(t, "hooks")}
		if len(m.Hooks) == 0 {
			m.Hooks = nil
		}
		return m
	})
	return rapid.Custom(func(t *rapid.T) *hook.Config {
		list := func(name string) []hook.Matcher {
			if l := rapid.SliceOfN(matcher, 0, 2).Draw(t, name); len(l) > 0 {
				return l
			}
			return nil
		}
		return &hook.Config{PreToolUse: list("pre"), PostToolUse: list("post"), UserPromptSubmit: list("prompt"),
			SessionStart: list("start"), SessionEnd: list("end"), Stop: list("stop")}
	})
}

func TestParseReadsWhatIsRendered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := configs().Draw(t, "config")
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		back, err := hook.Parse(raw)
		if err != nil || !reflect.DeepEqual(back, c) {
			t.Fatalf("%s: %+v, %v", raw, back, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`null`, `{"hooks":{"PreToolUse":[{"matcher":"a|b","hooks":[{"type":"prompt","prompt":"p","timeout":5}]}]}}`,
		`{"stop":[{"matcher":"/[/","hooks":[{"command":"x","async_":true,"tools":["a"]}]}]}`, `{"stop":[{}],"Stop":[{"hooks":null}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := hook.Parse(raw)
		if err != nil {
			if fault.CodeOf(err) != hook.CodeBad || c != nil {
				t.Fatalf("%v", err)
			}
			return
		}
		if c == nil {
			return
		}
		total := 0
		for _, event := range hook.Events {
			for _, d := range c.For(event, "") {
				total++
				if d.Timeout < 1 || d.Timeout > hook.MaxTimeout || d.MaxIterations < 1 || d.MaxIterations > hook.MaxIterations || d.Label() == "" {
					t.Fatalf("%+v", d)
				}
			}
			c.For(event, "terminal")
		}
		if total > hook.MaxHooks || len(c.Commands()) != total || c.Empty() != (total == 0) {
			t.Fatalf("%d hooks", total)
		}
		rendered, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		back, err := hook.Parse(rendered)
		if err != nil || !reflect.DeepEqual(back, c) {
			t.Fatalf("%s: %v", rendered, fmt.Sprint(err))
		}
	})
}
