package gemini_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"parley/internal/llm/gemini"
	"parley/internal/llm/llmtest/geminitest"
)

// props wraps the schema of one parameter "p".
func props(schema string) string { return `{"type":"object","properties":{"p":` + schema + `}}` }

func TestConvertSchema(t *testing.T) {
	tests := []struct{ name, in, json, proto string }{
		{"plain", props(`{"type":"string","description":"d"}`),
			props(`{"type":"string","description":"d"}`), `{"type":"OBJECT","properties":{"p":{"type":"STRING","description":"d"}}}`},
		{"required", `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a","gone","a",7]}`,
			`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`,
			`{"type":"OBJECT","properties":{"a":{"type":"INTEGER"}},"required":["a"]}`},
		{"no parameters", `{"type":"object","properties":{},"additionalProperties":false}`, "", ""},
		{"nothing", ``, "", ""},
		{"not an object", `[1]`, "", ""},
		{"a boolean", `true`, "", ""},
		{"keywords without a word", `{"$schema":"x","$id":"y","title":"T","type":"object","properties":{"p":{"type":"string","title":"t","minLength":1,"pattern":"^(?=x)","not":{},"x-y":1}},"patternProperties":{},"propertyNames":{}}`,
			props(`{"type":"string"}`), `{"type":"OBJECT","properties":{"p":{"type":"STRING"}}}`},
		{"additionalProperties", props(`{"type":"object","additionalProperties":{"type":"string"}}`),
			props(`{"type":"object","additionalProperties":{"type":"string"}}`), `{"type":"OBJECT","properties":{"p":{"type":"OBJECT"}}}`},
		{"closed", `{"type":"object","properties":{"p":{"type":"null"}},"additionalProperties":false}`,
			`{"type":"object","properties":{"p":{"type":"null"}},"additionalProperties":false}`,
			`{"type":"OBJECT","properties":{"p":{"type":"STRING","description":"Any JSON value.","nullable":true}}}`},
		{"const", props(`{"const":"x"}`), props(`{"type":"string","enum":["x"]}`), `{"type":"OBJECT","properties":{"p":{"type":"STRING","enum":["x"]}}}`},
		{"enum of numbers", props(`{"type":"integer","enum":[1,2],"description":"n"}`), props(`{"type":"integer","description":"n","enum":[1,2]}`),
			`{"type":"OBJECT","properties":{"p":{"type":"INTEGER","description":"n One of: 1, 2."}}}`},
		{"enum with an empty text and null", props(`{"enum":["","a",null]}`), props(`{"type":["string","null"],"enum":["","a",null]}`),
			`{"type":"OBJECT","properties":{"p":{"type":"STRING","nullable":true,"enum":["a"]}}}`},
		{"enum of objects", props(`{"enum":[{"a":1}]}`), props(`{}`), `{"type":"OBJECT","properties":{"p":{"type":"STRING","description":"Any JSON value."}}}`},
		{"nullable type", props(`{"type":["string","null"]}`), props(`{"type":["string","null"]}`), `{"type":"OBJECT","properties":{"p":{"type":"STRING","nullable":true}}}`},
		{"nullable of OpenAPI", props(`{"type":"string","nullable":true}`), props(`{"type":["string","null"]}`), `{"type":"OBJECT","properties":{"p":{"type":"STRING","nullable":true}}}`},
		{"anyOf with null", props(`{"anyOf":[{"type":"integer"},{"type":"null"}],"default":null,"description":"d"}`),
			props(`{"description":"d","anyOf":[{"type":"integer"},{"type":"null"}]}`), `{"type":"OBJECT","properties":{"p":{"type":"INTEGER","description":"d","nullable":true}}}`},
		{"anyOf", props(`{"anyOf":[{"type":"integer"},{"type":"string","description":"s"}],"description":"d"}`),
			props(`{"description":"d","anyOf":[{"type":"integer"},{"type":"string","description":"s"}]}`),
			`{"type":"OBJECT","properties":{"p":{"anyOf":[{"type":"INTEGER","description":"d"},{"type":"STRING","description":"s"}]}}}`},
		{"oneOf", props(`{"oneOf":[{"const":1},{"const":2}]}`), props(`{"anyOf":[{"type":"number","enum":[1]},{"type":"number","enum":[2]}]}`),
			`{"type":"OBJECT","properties":{"p":{"anyOf":[{"type":"NUMBER","description":"One of: 1."},{"type":"NUMBER","description":"One of: 2."}]}}}`},
		{"several types", props(`{"type":["array","string"],"items":{"type":"string"}}`), props(`{"type":["array","string"],"items":{"type":"string"}}`),
			`{"type":"OBJECT","properties":{"p":{"anyOf":[{"type":"ARRAY","items":{"type":"STRING"}},{"type":"STRING"}]}}}`},
		{"which go together", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`,
			`{"type":"OBJECT","properties":{"a":{"type":"STRING"},"b":{"type":"STRING"}}}`},
		{"alternatives at the root", `{"anyOf":[{"type":"object","properties":{"a":{"type":"string"},"k":{"const":"x"}},"required":["a","k"]},{"type":"object","properties":{"b":{"type":"string"},"k":{"const":"y"}},"required":["k"]}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"k":{"type":"string","enum":["x"]}},"required":["k"]}`,
			`{"type":"OBJECT","properties":{"a":{"type":"STRING"},"b":{"type":"STRING"},"k":{"type":"STRING","enum":["x"]}},"required":["k"]}`},
		{"exclusive bounds", props(`{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":10}`), props(`{"type":"integer","minimum":1,"maximum":9}`),
			`{"type":"OBJECT","properties":{"p":{"type":"INTEGER","minimum":1,"maximum":9}}}`},
		{"exclusive bounds of older drafts", props(`{"type":"number","minimum":0.5,"exclusiveMinimum":true,"maximum":1e999}`), props(`{"type":"number","minimum":0.5}`),
			`{"type":"OBJECT","properties":{"p":{"type":"NUMBER","minimum":0.5}}}`},
		{"formats", `{"type":"object","properties":{"a":{"type":"string","format":"uri"},"b":{"type":"string","format":"date"},"c":{"type":"string","format":"date-time"},"d":{"type":"integer","format":"uint8"}}}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string","format":"date"},"c":{"type":"string","format":"date-time"},"d":{"type":"integer"}}}`,
			`{"type":"OBJECT","properties":{"a":{"type":"STRING"},"b":{"type":"STRING"},"c":{"type":"STRING","format":"date-time"},"d":{"type":"INTEGER"}}}`},
		{"a list of anything", props(`{"type":"array","minItems":1,"maxItems":-2}`), props(`{"type":"array","minItems":1}`),
			`{"type":"OBJECT","properties":{"p":{"type":"ARRAY","items":{"type":"STRING","description":"Any JSON value."},"minItems":1}}}`},
		{"a tuple of older drafts", props(`{"items":[{"type":"string"},{"type":"integer"}]}`), props(`{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}]}`),
			`{"type":"OBJECT","properties":{"p":{"type":"ARRAY","items":{"anyOf":[{"type":"STRING"},{"type":"INTEGER"}]}}}}`},
		{"a tuple", props(`{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}`), props(`{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}]}`),
			`{"type":"OBJECT","properties":{"p":{"type":"ARRAY","items":{"anyOf":[{"type":"STRING"},{"type":"INTEGER"}]}}}}`},
		{"references", `{"$defs":{"c/d":{"type":"string","description":"of the definition"}},"type":"object","properties":{"a":{"$ref":"#/$defs/c~1d"},"p":{"$ref":"#/$defs/c~1d","description":"own"},"x":{"$ref":"http://elsewhere"}}}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"of the definition"},"p":{"type":"string","description":"own"},"x":{}}}`,
			`{"type":"OBJECT","properties":{"a":{"type":"STRING","description":"of the definition"},"p":{"type":"STRING","description":"own"},"x":{"type":"STRING","description":"Any JSON value."}}}`},
		{"a cycle", `{"type":"object","description":"root","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#"}}}}`,
			`{"type":"object","description":"root","properties":{"children":{"type":"array","items":{"type":"object","description":"root","properties":{"children":{"type":"array","items":{"type":"object","description":"root"}},"name":{"type":"string"}}}},"name":{"type":"string"}}}`,
			`{"type":"OBJECT","description":"root","properties":{"children":{"type":"ARRAY","items":{"type":"OBJECT","description":"root","properties":{"children":{"type":"ARRAY","items":{"type":"OBJECT","description":"root"}},"name":{"type":"STRING"}}}},"name":{"type":"STRING"}}}`},
		{"allOf", `{"allOf":[{"$ref":"#/definitions/a"},{"properties":{"b":{"type":"integer"}},"required":["b"]}],"definitions":{"a":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}},"properties":{"c":true,"d":false}}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{}},"required":["a","b"]}`,
			`{"type":"OBJECT","properties":{"a":{"type":"STRING"},"b":{"type":"INTEGER"},"c":{"type":"STRING","description":"Any JSON value."}},"required":["a","b"]}`},
		{"default", props(`{"type":"boolean","default":false}`), props(`{"type":"boolean","default":false}`), `{"type":"OBJECT","properties":{"p":{"type":"BOOLEAN"}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.json, string(gemini.ConvertSchema([]byte(tt.in), gemini.FormJSON))); d != "" {
				t.Errorf("JSON Schema (-want +got)\n%s", d)
			}
			if d := cmp.Diff(tt.proto, string(gemini.ConvertSchema([]byte(tt.in), gemini.FormProto))); d != "" {
				t.Errorf("Google's schema (-want +got)\n%s", d)
			}
			accepted(t, []byte(tt.in))
		})
	}
}

// accepted checks that whatever a schema becomes is accepted.
func accepted(t interface {
	Helper()
	Fatalf(string, ...any)
}, raw []byte) {
	t.Helper()
	check := map[int]func([]byte) error{gemini.FormJSON: geminitest.CheckJSONSchema,
		gemini.FormProto: geminitest.CheckSchema, gemini.FormShallow: geminitest.CheckSchema}
	for form, check := range check {
		out := gemini.ConvertSchema(raw, form)
		if out == nil {
			continue
		}
		if err := check(out); err != nil {
			t.Fatalf("form %d of %.2000s: %v\n%.2000s", form, raw, err, out)
		}
	}
}

func TestConvertSchemaBounds(t *testing.T) {
	deep := strings.Repeat(`{"type":"object","properties":{"p":`, 3000) + "{}" + strings.Repeat("}}", 3000)
	accepted(t, []byte(deep))
	var doubling strings.Builder // each definition has the next one twice
	doubling.WriteString(`{"type":"object","properties":{"p":{"$ref":"#/$defs/d0"}},"$defs":{`)
	for i := range 40 {
		fmt.Fprintf(&doubling, `"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}},`, i, i+1, i+1)
	}
	doubling.WriteString(`"d40":{"type":"string"}}}`)
	accepted(t, []byte(doubling.String()))
	if n := len(gemini.ConvertSchema([]byte(doubling.String()), gemini.FormJSON)); n == 0 || n > 1<<20 {
		t.Errorf("references made a schema of %d bytes", n)
	}
	accepted(t, []byte(`{"$ref":"#"}`))
	accepted(t, []byte(`{"allOf":[{"$ref":"#/allOf/1"},{"$ref":"#/allOf/0"}],"properties":{"p":{"$ref":"#/properties/p"}}}`))
}

// schemaGen makes what a JSON Schema may look like, and what it may not.
func schemaGen(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(rapid.Just[any](nil), rapid.Just[any](true), rapid.Just[any](false), rapid.Just[any](""),
		rapid.Map(rapid.SampledFrom([]string{"a", "b", "string", "#", "#/$defs/a", "#/properties/b", "date-time"}), func(s string) any { return s }),
		rapid.Map(rapid.IntRange(-3, 9), func(i int) any { return i }), rapid.Map(rapid.Float64Range(-1e3, 1e3), func(f float64) any { return f }))
	if depth == 0 {
		return scalar
	}
	inner := rapid.Deferred(func() *rapid.Generator[any] { return schemaGen(depth - 1) })
	list := rapid.Map(rapid.SliceOfN(inner, 0, 4), func(l []any) any { return l })
	types := rapid.SampledFrom([]any{"object", "object", "array", "string", "integer", "number", "boolean", "null", "any",
		[]any{"string", "null"}, []any{"object", "array", "null"}, []any{"string", "string"}, []any{}, 7})
	mapOf := rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "", "type", "x y"}), inner, 0, 4), func(m map[string]any) any { return m })
	keywords := rapid.SampledFrom([]string{"type", "type", "properties", "properties", "required", "items", "prefixItems", "anyOf", "oneOf",
		"allOf", "not", "enum", "const", "$ref", "$defs", "definitions", "additionalProperties", "minimum", "exclusiveMinimum", "maximum",
		"exclusiveMaximum", "minItems", "maxItems", "format", "description", "default", "nullable", "pattern", "title", "$schema"})
	return rapid.OneOf(scalar, list, rapid.Custom(func(t *rapid.T) any {
		o := map[string]any{}
		for range rapid.IntRange(0, 6).Draw(t, "members") {
			key := keywords.Draw(t, "keyword")
			switch key {
			case "type":
				o[key] = types.Draw(t, "type")
			case "properties", "$defs", "definitions":
				o[key] = mapOf.Draw(t, "schemas")
			case "anyOf", "oneOf", "allOf", "prefixItems", "enum", "required":
				o[key] = list.Draw(t, "list")
			default:
				o[key] = inner.Draw(t, "value")
			}
		}
		return o
	}))
}

func TestAnySchemaIsAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(map[string]any{"type": "object",
			"properties": map[string]any{"p": schemaGen(3).Draw(t, "p"), "q": schemaGen(2).Draw(t, "q")},
			"$defs":      map[string]any{"a": schemaGen(2).Draw(t, "a")}, "required": []string{"p"}})
		if err != nil {
			t.Fatal(err)
		}
		accepted(t, raw)
		root, err := json.Marshal(schemaGen(3).Draw(t, "root"))
		if err != nil {
			t.Fatal(err)
		}
		accepted(t, root)
	})
}

func FuzzConvertSchema(f *testing.F) {
	for _, s := range []string{`{"$ref":"#"}`, `{"type":"object","properties":{"a":{"anyOf":[{"type":["null","array"]},{"const":1}]}},"required":["a"]}`,
		`{"allOf":[{"properties":{"a":{"items":[true,{}]}}}]}`, `[]`, `{"properties":{"p":{"minimum":1e999,"exclusiveMaximum":3,"type":"integer"}}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { accepted(t, raw) })
}
