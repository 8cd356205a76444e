package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/tool"
)

type base struct {
	Path string `json:"path" desc:"A path."`
}

type item struct {
	Title string   `json:"title"`
	Notes *string  `json:"notes,omitempty"`
	Tags  []string `json:"tags,omitempty"`
}

type input struct {
	base
	Mode    string            `json:"mode" enum:"fast,slow" default:"fast"`
	Count   int               `json:"count,omitempty" min:"0" max:"10"`
	Ratio   *float64          `json:"ratio,omitempty" min:"0"`
	Force   bool              `json:"force" default:"false"`
	Lines   []int             `json:"lines,omitempty"`
	Items   []item            `json:"items,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Any     json.RawMessage   `json:"any,omitempty"`
	private int
	Skipped chan int `json:"-"`
}

func newTool(opts ...tool.Option[input]) *tool.Typed[input] {
	spec := tool.Spec{Name: "file_probe", Description: "\nProse.\n", Idempotent: true}
	return tool.New(spec, func(_ context.Context, _ *tool.Env, in input) (tool.Result, error) {
		in.private++
		return tool.Observation{
			Kind: "FileProbeObservation", Content: []content.Part{content.Text(in.Path)}, IsError: in.Force,
			Members: struct {
				Mode string `json:"mode"`
			}{in.Mode},
		}.Result()
	}, opts...)
}

func TestSchema(t *testing.T) {
	want := `{"type":"object","properties":{` +
		`"path":{"type":"string","description":"A path."},` +
		`"mode":{"type":"string","enum":["fast","slow"],"default":"fast"},` +
		`"count":{"type":"integer","minimum":0,"maximum":10},` +
		`"ratio":{"type":"number","minimum":0},` +
		`"force":{"type":"boolean","default":false},` +
		`"lines":{"type":"array","items":{"type":"integer"}},` +
		`"items":{"type":"array","items":{"type":"object","properties":{"title":{"type":"string"},"notes":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}}},"required":["title"]}},` +
		`"labels":{"type":"object","additionalProperties":{"type":"string"}},` +
		`"any":{}},"required":["path"]}`
	if diff := cmp.Diff(want, string(newTool().Spec().Parameters)); diff != "" {
		t.Error(diff)
	}
}

func TestDefinition(t *testing.T) {
	want := `{"description":"Prose.","action_type":"FileProbeAction","observation_type":"FileProbeObservation",` +
		`"annotations":{"title":"file_probe","readOnlyHint":false,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false},` +
		`"kind":"FileProbeTool","title":"file_probe"}`
	if diff := cmp.Diff(want, string(newTool().Spec().Definition())); diff != "" {
		t.Error(diff)
	}

	for more, end := range map[string]string{"": `"title":"x"}`, " {} ": `"title":"x"}`, ` {"a": 1}`: `"title":"x","a": 1}`} {
		spec := tool.Spec{Title: "x", More: json.RawMessage(more)}
		if raw := spec.Definition(); !json.Valid(raw) || !strings.HasSuffix(string(raw), end) {
			t.Errorf("with %q: %s", more, raw)
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ name, args, action string }{
		{"least", `{"path":"/a"}`, `{"path":"/a","mode":"fast","force":false,"kind":"FileProbeAction"}`},
		{"all", `{"any":{"x":[1,null]},"labels":{"k":"v"},"items":[{"title":"t","notes":"n","tags":["a"]}],"lines":[1,-1],"force":true,"ratio":0.5,"count":3,"mode":"slow","path":"/a"}`,
			`{"path":"/a","mode":"slow","count":3,"ratio":0.5,"force":true,"lines":[1,-1],"items":[{"title":"t","notes":"n","tags":["a"]}],"labels":{"k":"v"},"any":{"x":[1,null]},"kind":"FileProbeAction"}`},
		{"nulls", `{"path":"/a","mode":null,"count":null,"items":[{"title":"t","notes":null}],"labels":{"k":null}}`,
			`{"path":"/a","mode":"fast","force":false,"items":[{"title":"t"}],"labels":{},"kind":"FileProbeAction"}`},
		{"unknown members", `{"path":"/a","extra":1,"items":[{"title":"t","x":2}]}`,
			`{"path":"/a","mode":"fast","force":false,"items":[{"title":"t"}],"kind":"FileProbeAction"}`},
		{"texts of values", `{"path":"/a","force":"True","count":"4","ratio":" 1e1 ","lines":"[1, 2]","items":"[{\"title\":\"t\"}]","labels":"{\"k\":\"v\"}"}`,
			`{"path":"/a","mode":"fast","count":4,"ratio":10,"force":true,"lines":[1,2],"items":[{"title":"t"}],"labels":{"k":"v"},"kind":"FileProbeAction"}`},
		{"texts of nothing", `{"path":"/a","force":"","count":"null","ratio":"None","lines":""}`,
			`{"path":"/a","mode":"fast","force":false,"kind":"FileProbeAction"}`},
		{"whole number with a point", `{"path":"/a","count":3.0}`, `{"path":"/a","mode":"fast","count":3,"force":false,"kind":"FileProbeAction"}`},
		{"list of lines", `{"path":["a","b"]}`, `{"path":"a\nb","mode":"fast","force":false,"kind":"FileProbeAction"}`},
		{"list of ended lines", `{"path":["a\n","b\n"]}`, `{"path":"a\nb\n","mode":"fast","force":false,"kind":"FileProbeAction"}`},
		{"number as text", `{"path":12}`, `{"path":"12","mode":"fast","force":false,"kind":"FileProbeAction"}`},
		{"enum with space", `{"path":"","mode":" slow\n"}`, `{"path":"","mode":"slow","force":false,"kind":"FileProbeAction"}`},
		{"raw control characters", "{\"path\":\"a\nb\tc\\\"d\",\n\"force\":true}", `{"path":"a\nb\tc\"d","mode":"fast","force":true,"kind":"FileProbeAction"}`},
		{"object in a string", `"{\"path\":\"/a\"}"`, `{"path":"/a","mode":"fast","force":false,"kind":"FileProbeAction"}`},
		{"no html escapes", `{"path":"a <b> && c"}`, `{"path":"a <b> && c","mode":"fast","force":false,"kind":"FileProbeAction"}`},
		{"last of equal members", `{"path":"/a","path":"/b"}`, `{"path":"/b","mode":"fast","force":false,"kind":"FileProbeAction"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			action, err := newTool().Parse(json.RawMessage(c.args))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.action, string(action)); diff != "" {
				t.Error(diff)
			}
			again, err := newTool().Parse(action)
			if err != nil || string(again) != string(action) {
				t.Errorf("parsed again: %s %v", again, err)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		name, args string
		parts      []string
	}{
		{"nothing", ``, []string{`"path" is required (a string)`}},
		{"no object", `[1]`, []string{`"path" is required`}},
		{"null", `null`, []string{`"path" is required`}},
		{"unknown named", `{"file":"/a"}`, []string{`"path" is required`, `Not a member of this tool: "file"`}},
		{"no json", `{"path":`, []string{"file_probe", "not valid JSON"}},
		{"text after", `{"path":"a"} x`, []string{"not valid JSON"}},
		{"wrong type", `{"path":{"a":1}}`, []string{`"path" must be a string, not {"a":1}`}},
		{"bad enum", `{"path":"a","mode":"medium"}`, []string{`"mode" must be one of fast, slow, not "medium"`}},
		{"several", `{"mode":"x","count":"y","force":3}`, []string{`"path" is required`, `"mode" must`, `"count" must be an integer`, `"force" must be true or false`}},
		{"bounds", `{"path":"a","count":11,"ratio":-1}`, []string{`"count" must be at most 10`, `"ratio" must be at least 0`}},
		{"fraction", `{"path":"a","count":1.5}`, []string{`"count" must be an integer, not 1.5`}},
		{"infinite", `{"path":"a","ratio":1e999}`, []string{`"ratio" must be a number`}},
		{"nested", `{"path":"a","items":[{"notes":"n"},5]}`, []string{`"items[0].title" is required`, `"items[1]" must be an object`}},
		{"list of mixed", `{"path":["a",1]}`, []string{`"path" must be a string`}},
		{"null in list", `{"path":"a","lines":[null]}`, []string{`"lines[0]" must be an integer, not null`}},
		{"too long", `{"path":"` + strings.Repeat("x", tool.MaxArguments) + `"}`, []string{"more than"}},
		{"deep", `{"path":"a","any":` + strings.Repeat("[", 20_000), []string{"not valid JSON"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			action, err := newTool().Parse(json.RawMessage(c.args))
			if !fault.Is(err, fault.Invalid) || fault.CodeOf(err) != tool.CodeArguments {
				t.Fatalf("got %s, %v", action, err)
			}
			for _, part := range c.parts {
				if !strings.Contains(fault.PublicText(err), part) {
					t.Errorf("%q is missing in %q", part, fault.PublicText(err))
				}
			}
		})
	}
}

func TestOptions(t *testing.T) {
	typed := newTool(
		tool.WithCheck(func(in *input) error {
			if in.Path == "/bad" {
				return errors.New(`"path" is bad`)
			}
			return nil
		}),
		tool.WithClaims(func(in input) []tool.Claim { return []tool.Claim{{Name: "res:" + in.Path}} }),
	)
	if _, err := typed.Parse(json.RawMessage(`{"path":"/bad"}`)); !fault.Is(err, fault.Invalid) || !strings.Contains(fault.PublicText(err), "is bad") {
		t.Errorf("error %v", err)
	}
	if c := typed.Claims(json.RawMessage(`{"path":"/a"}`)); !slices.Equal(c, []tool.Claim{{Name: "res:/a"}}) {
		t.Errorf("claims %v", c)
	}
	if c := newTool().Claims(json.RawMessage(`{"path":"/a"}`)); !slices.Equal(c, []tool.Claim{{Write: true}}) {
		t.Errorf("a tool that says nothing claims %v", c)
	}
}

func TestRun(t *testing.T) {
	action := json.RawMessage(`{"path":"/a <b>","mode":"slow","force":true,"kind":"FileProbeAction"}`)
	result, err := newTool().Run(context.Background(), &tool.Env{}, action)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"content":[{"cache_prompt":false,"type":"text","text":"/a <b>"}],"is_error":true,"mode":"slow","kind":"FileProbeObservation"}`
	var got, wanted any
	if json.Unmarshal(result.Observation, &got) != nil || json.Unmarshal([]byte(want), &wanted) != nil || !cmp.Equal(got, wanted) {
		t.Errorf("observation %s", result.Observation)
	}
	if !result.IsError || content.JoinText(result.Parts) != "/a <b>" {
		t.Errorf("result %+v", result)
	}
	stop := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	if _, err := newTool().Run(ctx, &tool.Env{}, action); !errors.Is(err, stop) {
		t.Errorf("error %v, want the cause", err)
	}
}

func TestNewPanics(t *testing.T) {
	for name, build := range map[string]func(){
		"no struct": func() { build[string]() },
		"map":       func() { build[map[string]int]() },
		"no tag":    func() { build[struct{ A int }]() },
		"channel": func() {
			build[struct {
				A chan int `json:"a"`
			}]()
		},
		"recursive": func() { build[recursive]() },
		"bad default": func() {
			build[struct {
				A int `json:"a" default:"x"`
			}]()
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			build()
		})
	}
}

type recursive struct {
	Next *recursive `json:"next"`
}

func build[In any]() {
	tool.New(tool.Spec{Name: "x"}, func(context.Context, *tool.Env, In) (tool.Result, error) { return tool.Result{}, nil })
}

func TestModelParts(t *testing.T) {
	for _, c := range []struct{ observation, want string }{
		{`{"content":[{"type":"text","text":"a"}],"is_error":false,"kind":"X"}`, "a"},
		{`{"content":[{"type":"text","text":"out"}],"metadata":{"prefix":"[p]\n","suffix":"\n[s]","working_dir":"/w"}}`,
			"[p]\nout\n[s]\n[Current working directory: /w]"},
		{`{"content":[],"metadata":{"prefix":"","suffix":"\n[s]"}}`, "[s]"},
		{`nonsense`, "nonsense"},
	} {
		if got := content.JoinText(tool.ModelParts(json.RawMessage(c.observation))); got != c.want {
			t.Errorf("%s: %q, want %q", c.observation, got, c.want)
		}
	}
	parts := tool.ModelParts(json.RawMessage(`{"content":[{"type":"text","text":"a"},{"type":"image","image_urls":["u"]}],"metadata":{"suffix":"s"}}`))
	if len(parts) != 2 || parts[0].Text != "as" || parts[1].Type != content.TypeImage {
		t.Errorf("parts %+v", parts)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"path":"/a"}`, `{"path":["a"],"force":"true","items":"[{}]","labels":{"a":1}}`, `"{}"`,
		"{\"path\":\"\n\"}", `{"path":"a","lines":"[1e3]","any":"[","count":"1e400"}`, `[`, "\xff", `{"path":"\ud800"}`} {
		f.Add([]byte(seed))
	}
	typed := newTool()
	f.Fuzz(func(t *testing.T, args []byte) {
		action, err := typed.Parse(args)
		if err != nil {
			if !fault.Is(err, fault.Invalid) || fault.PublicText(err) == "" {
				t.Fatalf("error %v", err)
			}
			return
		}
		again, err := typed.Parse(action)
		if err != nil || string(again) != string(action) {
			t.Fatalf("%s became %s, then %s, %v", args, action, again, err)
		}
		if _, err := typed.Run(context.Background(), &tool.Env{}, action); err != nil {
			t.Fatalf("run %s: %v", action, err)
		}
	})
}
