package tool_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/fault"
	"parley/internal/tool"
)

type anyInput struct {
	Command string `json:"command" default:""`
}

func named(name string) tool.Tool {
	return tool.New(tool.Spec{Name: name}, func(context.Context, *tool.Env, anyInput) (tool.Result, error) {
		return tool.TextObservation("X", "").Result()
	})
}

func TestSet(t *testing.T) {
	set, err := tool.NewSet(named("b"), named("a"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b", "a"}, set.Names()); diff != "" || set.Len() != 2 || len(set.Tools()) != 2 {
		t.Error(diff)
	}
	if got, ok := set.Lookup("a"); !ok || got.Spec().Name != "a" {
		t.Error("a was not found")
	}
	if _, ok := set.Lookup("A"); ok {
		t.Error("A was found")
	}
	if _, err := tool.NewSet(named("a"), named("a")); !fault.Is(err, fault.Invalid) {
		t.Errorf("error %v for two tools of one name", err)
	}
}

func TestResolve(t *testing.T) {
	set, err := tool.NewSet(named("terminal"), named("file_editor"), named("finish"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, args, tool, want string }{
		{"terminal", `{"command":"ls"}`, "terminal", `{"command":"ls"}`},
		{"terminal", `not json`, "terminal", `not json`},
		{"terminal<|channel|>commentary", `{}`, "terminal", `{}`},
		{"functions.terminal", `{}`, "terminal", `{}`},
		{" Terminal ", `{}`, "terminal", `{}`},
		{"finish\"}", `{}`, "finish", `{}`},
		{"bash", `{"command":"ls"}`, "terminal", `{"command":"ls"}`},
		{"execute_bash", `{"command":"ls"}`, "terminal", `{"command":"ls"}`},
		{"command", `{}`, "terminal", `{}`},
		{"execute", `{}`, "terminal", `{}`},
		{"reset", `{}`, "terminal", `{"command":"","reset":true}`},
		{"git", `{"command":"status -s"}`, "terminal", `{"command":"git status -s"}`},
		{"git", `{"command":"git status"}`, "terminal", `{"command":"git status"}`},
		{"git", `{"args":["log","-n 1","it's"]}`, "terminal", `{"command":"git log '-n 1' 'it'\\''s'"}`},
		{"git", `{}`, "", ""},
		{"grep", `{"pattern":"a b","path":"src","include":"*.go"}`, "terminal", `{"command":"grep -rn --include='*.go' -e 'a b' -- src"}`},
		{"grep", `{"path":"src"}`, "", ""},
		{"find", `{"path":"/x","name":"*.go"}`, "terminal", `{"command":"find /x -name '*.go'"}`},
		{"ls", `{}`, "terminal", `{"command":"ls -la -- ."}`},
		{"ls", `{"path":"-a dir"}`, "terminal", `{"command":"ls -la -- '-a dir'"}`},
		{"pwd", ``, "terminal", `{"command":"pwd"}`},
		{"ls", `{bad`, "", ""},
		{"str_replace_editor", `{"command":"view","path":"/a"}`, "file_editor", `{"command":"view","path":"/a"}`},
		{"str_replace", `{"path":"/a","old_str":"a"}`, "file_editor", `{"command":"str_replace","old_str":"a","path":"/a"}`},
		{"view", `{"path":"/a"}`, "file_editor", `{"command":"view","path":"/a"}`},
		{"create", `{"command":"","path":"/a"}`, "file_editor", `{"command":"create","path":"/a"}`},
		{"file_editor", `{"path":"/a","old_str":"a","new_str":"b"}`, "file_editor", `{"command":"str_replace","new_str":"b","old_str":"a","path":"/a"}`},
		{"file_editor", `{"path":"/a","insert_line":0,"new_str":"b"}`, "file_editor", `{"command":"insert","insert_line":0,"new_str":"b","path":"/a"}`},
		{"file_editor", `{"path":"/a","file_text":"b"}`, "file_editor", `{"command":"create","file_text":"b","path":"/a"}`},
		{"file_editor", `{"path":"/a"}`, "file_editor", `{"command":"view","path":"/a"}`},
		{"file_editor", `{}`, "file_editor", `{}`},
		{"file_editor", `{bad`, "file_editor", `{bad`},
		{"nothing", `{}`, "", ""},
		{"", `{}`, "", ""},
		{"<|x|>", `{}`, "", ""},
	} {
		got, args, ok := set.Resolve(c.name, json.RawMessage(c.args))
		switch {
		case ok != (c.tool != ""):
			t.Errorf("%q %s: found %v", c.name, c.args, ok)
		case ok && (got.Spec().Name != c.tool || string(args) != c.want):
			t.Errorf("%q %s: %s %s, want %s %s", c.name, c.args, got.Spec().Name, args, c.tool, c.want)
		}
	}
	few, err := tool.NewSet(named("finish"), named("grep"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok := few.Resolve("bash", nil); ok {
		t.Error("an alias of a tool that is not there was resolved")
	}
	if got, args, ok := few.Resolve("grep", json.RawMessage(`{"pattern":"x"}`)); !ok || got.Spec().Name != "grep" || string(args) != `{"pattern":"x"}` {
		t.Error("a tool's own name was taken for a program")
	}
}

func FuzzResolve(f *testing.F) {
	f.Add("terminal<x", []byte(`{"command":["a"]}`))
	f.Add("git", []byte(`{"args":[1,null,"x"]}`))
	f.Add("file_editor", []byte(`"{}"`))
	set, err := tool.NewSet(named("terminal"), named("file_editor"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string, args []byte) {
		got, changed, ok := set.Resolve(name, args)
		if ok != (got != nil) {
			t.Fatal("found and not found")
		}
		if ok && json.Valid(args) && !json.Valid(changed) {
			t.Fatalf("%s became %s", args, changed)
		}
	})
}

func TestPick(t *testing.T) {
	named := func(name string, always bool) tool.Tool {
		return tool.New(tool.Spec{Name: name, NoConfirm: always}, func(context.Context, *tool.Env, struct{}) (tool.Result, error) { return tool.Result{}, nil })
	}
	set, err := tool.NewSet(named("a", false), named("b", false), named("c", false), named("finish", true))
	if err != nil {
		t.Fatal(err)
	}
	picked, unknown := set.Pick([]string{"c", "x", "a", "c", "x"})
	if got := strings.Join(picked.Names(), " "); got != "a c finish" || strings.Join(unknown, " ") != "x" {
		t.Errorf("picked %q, unknown %q", got, unknown)
	}
	if _, ok := picked.Lookup("b"); ok || set.Len() != 4 {
		t.Error("b was picked, or the set has changed")
	}
}
