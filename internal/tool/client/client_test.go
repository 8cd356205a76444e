package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/tool"
	"parley/internal/tool/client"
)

func made(t testing.TB, schema string) tool.Tool {
	t.Helper()
	c, err := client.New(conversation.ClientTool{Name: "open_file", Description: " Opens a file. ", Parameters: json.RawMessage(schema)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSpec(t *testing.T) {
	const schema = `{"type":"object", "properties":{"path":{"type":"string"}},"required":["path"]}`
	s := made(t, schema).Spec()
	if s.ActionKind != "ClientAction_open_file" || s.ObservationKind != "ClientToolObservation" || s.Kind != "ClientTool" ||
		string(s.Parameters) != schema || s.Description != "Opens a file." || !s.NoHands {
		t.Errorf("spec %+v", s)
	}
	want := `{"description":"Opens a file.","action_type":"ClientAction_open_file","observation_type":"ClientToolObservation",` +
		`"annotations":{"title":"open_file","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false},` +
		`"kind":"ClientTool","title":"open_file","client_tool_name":"open_file","input_schema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}`
	var tight bytes.Buffer
	if err := json.Compact(&tight, s.Definition()); err != nil || tight.String() != want {
		t.Errorf("definition %s (%v)\nwant %s", tight.String(), err, want)
	}
}

func TestAnnotations(t *testing.T) {
	for raw, want := range map[string]tool.Spec{
		``:     {ReadOnly: true, Idempotent: true, Title: "x"},
		`null`: {ReadOnly: true, Idempotent: true, Title: "x"},
		`{}`:   {Destructive: true, OpenWorld: true, Title: "x"}, // the standard's defaults
		`{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false,"title":"X y"}`: {ReadOnly: true, Idempotent: true, Title: "X y"},
		`{"destructiveHint":true,"readOnlyHint":false,"more":1}`:                                                  {Destructive: true, OpenWorld: true, Title: "x"},
	} {
		c, err := client.New(conversation.ClientTool{Name: "x", Annotations: json.RawMessage(raw)})
		if err != nil {
			t.Fatal(err)
		}
		s := c.Spec()
		if s.ReadOnly != want.ReadOnly || s.Destructive != want.Destructive || s.Idempotent != want.Idempotent || s.OpenWorld != want.OpenWorld || s.Title != want.Title {
			t.Errorf("%s: %+v", raw, s)
		}
	}
	_, err := client.New(conversation.ClientTool{Name: "x", Annotations: json.RawMessage(`{"readOnlyHint":"yes"}`)})
	if !fault.Is(err, fault.Invalid) || fault.CodeOf(err) != client.CodeTool {
		t.Errorf("error %v", err)
	}
}

func TestNoParameters(t *testing.T) {
	for _, schema := range []string{"", "null", " ", `{"type":"object"}`} {
		c := made(t, schema)
		action, err := c.Parse(nil)
		if err != nil || string(action) != `{"kind":"ClientAction_open_file"}` {
			t.Errorf("%q: %s %v", schema, action, err)
		}
	}
}

func TestSchemaRefused(t *testing.T) {
	big := `{"type":"object","description":"` + strings.Repeat("x", 64<<10) + `"}`
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 70) + `true` + strings.Repeat(`}}`, 70)
	for schema, part := range map[string]string{
		big:                                      "more than 64 KiB",
		deep:                                     "deeper than 64",
		`[]`:                                     "not a JSON object",
		`{`:                                      "not a JSON object",
		`{"type":"object"} {}`:                   "text after",
		`{}`:                                     `must be "object"`,
		`{"type":"string"}`:                      `must be "object"`,
		`{"type":["object"]}`:                    `must be "object"`,
		`{"type":"object","properties":[]}`:      "properties is not an object",
		`{"type":"object","required":"a"}`:       "list of names",
		`{"type":"object","minProperties":-1}`:   "whole number",
		`{"type":"object","properties":{"a":1}}`: "properties > a is neither",
		`{"type":"object","properties":{"a":{"type":"text"}}}`:                  "one of object",
		`{"type":"object","properties":{"a":{"enum":[]}}}`:                      "list of values",
		`{"type":"object","properties":{"a":{"pattern":1}}}`:                    "not a text",
		`{"type":"object","properties":{"a":{"anyOf":[]}}}`:                     "list of schemas",
		`{"type":"object","properties":{"a":{"multipleOf":0}}}`:                 "above 0",
		`{"type":"object","properties":{"kind":{}}}`:                            `"kind" of a property is taken`,
		`{"type":"object","properties":{"a":{"$ref":"https://example.com/s"}}}`: "only references to the schema itself",
		`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`:    "only references to the schema itself",
		`{"type":"object","properties":{"a":{"$ref":"other.json#/a"}}}`:         "only references to the schema itself",
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}}}`:             "refers to nothing",
		`{"type":"object","properties":{"a":{"$ref":"#/type"}}}`:                "does not refer to a schema",
		`{"type":"object","properties":{"a":{"$dynamicRef":"#a"}}}`:             "cannot be followed",
		`{"type":"object","x":{"type":7},"properties":{"a":{"$ref":"#/x"}}}`:    "one of object",
	} {
		_, err := client.New(conversation.ClientTool{Name: "x", Parameters: json.RawMessage(schema)})
		if !fault.Is(err, fault.Invalid) || fault.CodeOf(err) != client.CodeTool || !strings.Contains(fault.PublicText(err), part) {
			t.Errorf("%.80s: %v, want %q", schema, err, part)
		}
	}
}

const canvas = `{"type":"object","properties":{
	"command":{"type":"string","enum":["navigate_to_file","open_tab"],"description":"d"},
	"path":{"type":["string","null"]},"line":{"type":"integer","minimum":1},"scale":{"type":"number","exclusiveMaximum":2},
	"tags":{"type":"array","items":{"$ref":"#/$defs/tag"},"maxItems":2,"uniqueItems":true},
	"at":{"anyOf":[{"type":"object","properties":{"x":{"type":"number"}},"required":["x"]},{"type":"string","pattern":"^[a-z]+$"}]}},
	"required":["command"],"additionalProperties":false,"$defs":{"tag":{"type":"string","maxLength":3}}}`

func TestParse(t *testing.T) {
	c := made(t, canvas)
	for _, test := range []struct{ args, action string }{
		{`{"path":"a & b","command":"open_tab"}`, `{"command":"open_tab","path":"a & b","kind":"ClientAction_open_file"}`},
		{`{"command":"open_tab","path":null}`, `{"command":"open_tab","path":null,"kind":"ClientAction_open_file"}`},
		{`{"command":"open_tab","line":null}`, `{"command":"open_tab","kind":"ClientAction_open_file"}`},
		{`{"command":"open_tab","line":"12"}`, `{"command":"open_tab","line":12,"kind":"ClientAction_open_file"}`},
		{`{"command":"open_tab","tags":"[\"a\"]"}`, `{"command":"open_tab","tags":["a"],"kind":"ClientAction_open_file"}`},
		{`{"command":"open_tab","line":12345678901234567890}`, `{"command":"open_tab","line":12345678901234567890,"kind":"ClientAction_open_file"}`},
		{`{"command":"open_tab","at":"abc"}`, `{"at":"abc","command":"open_tab","kind":"ClientAction_open_file"}`},
		{"{\"command\":\"open_tab\",\"path\":\"a\nb\"}", `{"command":"open_tab","path":"a\nb","kind":"ClientAction_open_file"}`},
	} {
		action, err := c.Parse(json.RawMessage(test.args))
		if err != nil || string(action) != test.action {
			t.Errorf("%s: %s %v, want %s", test.args, action, err, test.action)
		}
		again, err := c.Parse(action)
		if err != nil || !bytes.Equal(again, action) {
			t.Errorf("again: %s %v", again, err)
		}
	}
	for args, parts := range map[string][]string{
		`{}`:                                       {`"command" is required`},
		`[]`:                                       {`"command" is required`},
		`{"command":"close"}`:                      {`"command" must be one of ["navigate_to_file","open_tab"], not "close"`},
		`{"command":"open_tab","line":0}`:          {`"line" must be at least 1, not 0`},
		`{"command":"open_tab","line":"x"}`:        {`"line" must be an integer, not "x"`},
		`{"command":"open_tab","scale":2}`:         {`"scale" must be at most 2 and not that itself`},
		`{"command":"open_tab","tags":["abcd"]}`:   {`"tags[0]" must have at most 3 characters, not 4`},
		`{"command":"open_tab","tags":["a","a"]}`:  {`"tags" must not have the same item twice`},
		`{"command":"open_tab","more":1,"line":0}`: {`"more" is not a member; there is ["at","command"`, `"line"`},
		`{"command":"open_tab","at":{"x":"1"}}`:    {`"at" fits none of the 2 forms`, `"at.x" must be a number`},
		`{"command":`:                              {"cannot be read"},
	} {
		_, err := c.Parse(json.RawMessage(args))
		if !fault.Is(err, fault.Invalid) || fault.CodeOf(err) != tool.CodeArguments {
			t.Errorf("%s: %v", args, err)
		}
		for _, part := range parts {
			if !strings.Contains(fault.PublicText(err), part) {
				t.Errorf("%s: %q is missing in %q", args, part, fault.PublicText(err))
			}
		}
	}
}

func TestRun(t *testing.T) {
	c := made(t, `{"type":"object"}`)
	result, err := c.Run(t.Context(), &tool.Env{}, json.RawMessage(`{"kind":"ClientAction_open_file"}`))
	if err != nil || result.IsError || !strings.Contains(content.JoinText(result.Parts), "handed over") {
		t.Errorf("%+v %v", result, err)
	}
	var o map[string]any
	if err := json.Unmarshal(result.Observation, &o); err != nil || o["kind"] != "ClientToolObservation" || len(o) != 3 {
		t.Errorf("observation %s", result.Observation)
	}
	stop := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := c.Run(ctx, &tool.Env{}, nil); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
}

// TestBounded: schemas that double the work at each step end in time.
func TestBounded(t *testing.T) {
	var defs []string
	for i := range 500 {
		next := `{"$ref":"#/$defs/d` + itoa(i+1) + `"}`
		defs = append(defs, `"d`+itoa(i)+`":{"oneOf":[`+next+`,`+next+`,`+next+`]}`)
	}
	chain := `{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` + strings.Join(defs, ",") + `,"d500":{"not":{}}}}`
	big := `{"a":` + strings.Repeat(`[`, 2000) + strings.Repeat(`]`, 2000) + `}`
	list := `{"a":[` + strings.Repeat(`{"x":1},`, 20_000) + `1]}`
	text := `{"a":"` + strings.Repeat("ab", 1<<18) + `"}`
	for _, schema := range []string{
		chain,
		`{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/l"}},"$defs":{"l":{"anyOf":[{"items":{"$ref":"#/$defs/l"}},{"items":{"$ref":"#/$defs/l"},"type":"array"}]}}}`,
		`{"type":"object","properties":{"a":{"pattern":"^((a|b|ab){0,30}){30}$"}}}`,
		`{"type":"object","properties":{"a":{"uniqueItems":true,"contains":{"type":"string"}}}}`,
		`{"type":"object","properties":{"a":{"anyOf":[` + strings.Repeat(`{"pattern":"^(a|b)*c$","type":"string"},`, 300) + `{"type":"string","maxLength":1}]}}}`,
	} {
		c := made(t, schema)
		for _, args := range []string{big, list, text} {
			start := time.Now()
			_, _ = c.Parse(json.RawMessage(args))
			if took := time.Since(start); took > time.Minute {
				t.Errorf("%.60s: %v", schema, took)
			}
		}
	}
}

func itoa(n int) string { return string(must(json.Marshal(n))) }

func must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}

// FuzzSchema: any schema is taken or refused, any arguments are, and an action comes
// out the same again.
func FuzzSchema(f *testing.F) {
	f.Add(canvas, `{"command":"open_tab","tags":["a"]}`)
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"a":{"a":{"a":1}}}`)
	f.Add(`{"type":"object","if":{"required":["a"]},"then":{"maxProperties":1},"not":{"const":{"b":1.0}}}`, `{"b":1}`)
	f.Fuzz(func(t *testing.T, schema, args string) {
		c, err := client.New(conversation.ClientTool{Name: "x", Parameters: json.RawMessage(schema)})
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
			return
		}
		if !json.Valid(c.Spec().Definition()) {
			t.Fatalf("definition %s", c.Spec().Definition())
		}
		action, err := c.Parse(json.RawMessage(args))
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
			return
		}
		again, err := c.Parse(action)
		if err != nil || !bytes.Equal(again, action) {
			t.Fatalf("%s becomes %s (%v)", action, again, err)
		}
	})
}

// schemas and values for comparing with another implementation.
var (
	oracleSchemas = []string{
		canvas,
		`{"type":"object","properties":{"a":{"type":["integer","null"],"minimum":2,"multipleOf":2}}}`,
		`{"type":"object","properties":{"a":{"const":{"b":[1,2.0]}}}}`,
		`{"type":"object","properties":{"a":{"enum":[1,"x",null,[true]]}}}`,
		`{"type":"object","patternProperties":{"^a":{"type":"number"}},"additionalProperties":{"type":"string"}}`,
		`{"type":"object","propertyNames":{"maxLength":1},"minProperties":1,"maxProperties":2}`,
		`{"type":"object","dependentRequired":{"a":["b"]},"dependentSchemas":{"b":{"required":["c"]}}}`,
		`{"type":"object","properties":{"a":{"prefixItems":[{"type":"string"},{"type":"number"}],"items":{"type":"null"},"minItems":1}}}`,
		`{"type":"object","properties":{"a":{"contains":{"type":"number"},"minContains":2,"maxContains":3,"uniqueItems":true}}}`,
		`{"type":"object","properties":{"a":{"oneOf":[{"type":"number"},{"type":"integer"},{"maxLength":2,"type":"string"}]}}}`,
		`{"type":"object","properties":{"a":{"allOf":[{"minLength":2},{"maxLength":3}],"not":{"const":"xyz"}}}}`,
		`{"type":"object","if":{"properties":{"a":{"const":1}},"required":["a"]},"then":{"required":["b"]},"else":{"required":["c"]}}`,
		`{"type":"object","properties":{"a":false,"b":true}}`,
		`{"type":"object","properties":{"a":{"$ref":"#"}},"additionalProperties":false}`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/n~1o","maxLength":1}},"$defs":{"n/o":{"type":"string"}}}`,
		`{"type":"object","properties":{"a":{"exclusiveMinimum":0,"exclusiveMaximum":1.5}}}`,
	}
	oracleValues = []string{`1`, `2`, `3`, `2.0`, `0`, `1.5`, `"x"`, `"xyz"`, `"xy"`, `""`, `null`, `true`, `[]`, `["a",1]`, `["a",1,null]`,
		`["a",1,2]`, `[1,1]`, `[1,2]`, `[1,2,3]`, `[1,2,3,4]`, `[true]`, `{}`, `{"b":[1,2]}`, `{"b":[1.0,2]}`, `{"a":{}}`, `{"a":{"b":1}}`, `[[1],[1.0]]`}
)

// TestOracle compares the verdicts with those of another implementation.
func TestOracle(t *testing.T) {
	for _, schema := range oracleSchemas {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
		if err != nil {
			t.Fatal(err)
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("mem:s", doc); err != nil {
			t.Fatal(err)
		}
		other, err := compiler.Compile("mem:s")
		if err != nil {
			t.Fatal(err)
		}
		problems := client.Problems(t, schema)
		for _, v := range oracleValues {
			for _, args := range []string{`{"a":` + v + `}`, `{"b":` + v + `}`, `{"a":1,"b":` + v + `}`, `{"b":1,"c":` + v + `}`, `{"command":"open_tab","at":` + v + `}`, `{"ab":` + v + `}`, `{}`} {
				value, err := jsonschema.UnmarshalJSON(strings.NewReader(args))
				if err != nil {
					t.Fatal(err)
				}
				want := other.Validate(value) == nil
				if got := problems(value); (len(got) == 0) != want {
					t.Errorf("%s\nfor %s: %q, the other says %v", args, schema, got, want)
				}
			}
		}
	}
}
