package httpkit_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/api/httpkit"
	"parley/internal/fault"
)

const schemas = `
openapi: 3.1.0
paths: {}
components:
  schemas:
    Int: {type: integer, minimum: 1, maximum: 10}
    OpenInt: {type: integer, exclusiveMinimum: 0}
    Num: {type: number}
    Bool: {type: boolean}
    Text: {type: string, minLength: 2, maxLength: 4}
    Upper: {type: string, pattern: "^[A-Z]+$"}
    Maybe: {type: [string, "null"]}
    IntOrText: {anyOf: [{type: integer}, {type: string}]}
    Color: {type: string, enum: [red, green, blue]}
    Role: {type: string, const: user}
    ID: {type: string, format: uuid}
    Time: {type: string, format: date-time}
    List: {type: array, minItems: 1, maxItems: 2, items: {$ref: "#/components/schemas/Int"}}
    Map: {type: object, additionalProperties: {type: integer}}
    Tags: {type: object, propertyNames: {pattern: "^[a-z]+$"}, additionalProperties: {type: string}}
    Strict: {type: object, additionalProperties: false, properties: {a: {type: integer}}, required: [a]}
    Lax: {type: object, properties: {a: {type: integer, default: 5}, b: {type: [string, "null"]}}}
    Secret: {type: object, properties: {name: {type: string}, hidden: {type: integer, x-secret: true}, api_key: {type: string}}, required: [name]}
    Tree: {type: object, properties: {child: {anyOf: [{$ref: "#/components/schemas/Tree"}, {type: "null"}]}, n: {type: integer}}}
    Cat: {type: object, properties: {kind: {type: string, const: cat}, lives: {type: integer}}, required: [kind, lives]}
    Dog: {type: object, properties: {kind: {type: string, const: dog}}, required: [kind]}
    Pet: {oneOf: [{$ref: "#/components/schemas/Cat"}, {$ref: "#/components/schemas/Dog"}], discriminator: {propertyName: kind}}
    TextContent: {type: object, additionalProperties: false, properties: {type: {type: string, const: text, default: text}, text: {type: string}}, required: [text]}
    ImageContent: {type: object, properties: {type: {type: string, const: image, default: image}, image_urls: {type: array, items: {type: string}}}, required: [image_urls]}
    Content: {anyOf: [{$ref: "#/components/schemas/TextContent"}, {$ref: "#/components/schemas/ImageContent"}]}
`

func document(t testing.TB, src string) *httpkit.Document {
	t.Helper()
	d, err := httpkit.ParseDocument([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func decode(t testing.TB, text string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// Values and errors as pydantic 2 has them (legacy contract §1.4).
func TestCheck(t *testing.T) {
	d := document(t, schemas)
	for _, c := range []struct{ schema, in, out, errors string }{
		{"Int", `5`, `5`, ""},
		{"Int", `"5"`, `5`, ""},
		{"Int", `" 5 "`, `5`, ""},
		{"Int", `5.0`, `5`, ""},
		{"Int", `"5.0"`, `5`, ""},
		{"Int", `5e0`, `5`, ""},
		{"Int", `true`, `1`, ""},
		{"Int", `5.5`, ``, "body int_from_float: Input should be a valid integer, got a number with a fractional part"},
		{"Int", `"five"`, ``, "body int_parsing: Input should be a valid integer, unable to parse string as an integer"},
		{"Int", `""`, ``, "body int_parsing: Input should be a valid integer, unable to parse string as an integer"},
		{"Int", `99999999999999999999`, ``, "body int_parsing_size: Unable to parse input string as an integer, exceeded maximum size"},
		{"Int", `"99999999999999999999"`, ``, "body int_parsing_size: Unable to parse input string as an integer, exceeded maximum size"},
		{"Int", `1e400`, ``, "body int_parsing_size: Unable to parse input string as an integer, exceeded maximum size"},
		{"Int", `null`, ``, "body int_type: Input should be a valid integer"},
		{"Int", `[]`, ``, "body int_type: Input should be a valid integer"},
		{"Int", `0`, ``, "body greater_than_equal: Input should be greater than or equal to 1"},
		{"Int", `11`, ``, "body less_than_equal: Input should be less than or equal to 10"},
		{"OpenInt", `0`, ``, "body greater_than: Input should be greater than 0"},
		{"Num", `"1.5"`, `1.5`, ""},
		{"Num", `2`, `2`, ""},
		{"Num", `"nan"`, ``, "body finite_number: Input should be a finite number"},
		{"Num", `"x"`, ``, "body float_parsing: Input should be a valid number, unable to parse string as a number"},
		{"Num", `{}`, ``, "body float_type: Input should be a valid number"},
		{"Bool", `"YES"`, `true`, ""},
		{"Bool", `"off"`, `false`, ""},
		{"Bool", `0`, `false`, ""},
		{"Bool", `1.0`, `true`, ""},
		{"Bool", `2`, ``, "body bool_parsing: Input should be a valid boolean, unable to interpret input"},
		{"Bool", `"maybe"`, ``, "body bool_parsing: Input should be a valid boolean, unable to interpret input"},
		{"Bool", `null`, ``, "body bool_type: Input should be a valid boolean"},
		{"Text", `5`, ``, "body string_type: Input should be a valid string"},
		{"Text", `"ä"`, ``, "body string_too_short: String should have at least 2 characters"},
		{"Text", `"abcde"`, ``, "body string_too_long: String should have at most 4 characters"},
		{"Upper", `"abc"`, ``, "body string_pattern_mismatch: String should match pattern '^[A-Z]+$'"},
		{"Maybe", `null`, `null`, ""},
		{"IntOrText", `"12"`, `"12"`, ""},
		{"IntOrText", `12`, `12`, ""},
		{"IntOrText", `[]`, ``, "body.int int_type: Input should be a valid integer; body.str string_type: Input should be a valid string"},
		{"Color", `"pink"`, ``, "body enum: Input should be 'red', 'green' or 'blue'"},
		{"Role", `"x"`, ``, "body literal_error: Input should be 'user'"},
		{"ID", `"9D2B5F6A-1C3E-4F58-9a7b-0c1d2e3f4a5b"`, `"9D2B5F6A-1C3E-4F58-9a7b-0c1d2e3f4a5b"`, ""},
		{"ID", `"x"`, ``, "body uuid_parsing: Input should be a valid UUID, expected 32 hexadecimal digits, with or without dashes"},
		{"ID", `"{9d2b5f6a-1c3e-4f58-9a7b-0c1d2e3f4a5b}"`, ``, "body uuid_parsing: Input should be a valid UUID, expected 32 hexadecimal digits, with or without dashes"},
		{"ID", `7`, ``, "body uuid_type: UUID input should be a string, bytes or UUID object"},
		{"Time", `"soon"`, ``, "body datetime_from_date_parsing: Input should be a valid datetime or date, expected ISO 8601"},
		{"List", `[1,"2"]`, `[1,2]`, ""},
		{"List", `[]`, ``, "body too_short: List should have at least 1 item after validation, not 0"},
		{"List", `[1,2,3]`, ``, "body too_long: List should have at most 2 items after validation, not 3"},
		{"List", `{}`, ``, "body list_type: Input should be a valid list"},
		{"List", `[1,"x"]`, ``, "body.1 int_parsing: Input should be a valid integer, unable to parse string as an integer"},
		{"Map", `{"x":"1"}`, `{"x":1}`, ""},
		{"Map", `[]`, ``, "body dict_type: Input should be a valid dictionary"},
		{"Tags", `{"Bad":"x"}`, ``, "body.Bad.[key] string_pattern_mismatch: String should match pattern '^[a-z]+$'"},
		{"Strict", `{"a":1,"b":2}`, ``, "body.b extra_forbidden: Extra inputs are not permitted"},
		{"Strict", `{}`, ``, "body.a missing: Field required"},
		{"Strict", `{"a":"x","b":1}`, ``, "body.a int_parsing: Input should be a valid integer, unable to parse string as an integer; body.b extra_forbidden: Extra inputs are not permitted"},
		{"Strict", `"x"`, ``, "body model_attributes_type: Input should be a valid dictionary or object to extract fields from"},
		{"Lax", `{"x":1,"A":2}`, `{"a":5}`, ""},
		{"Lax", `{"b":null}`, `{"a":5,"b":null}`, ""},
		{"Tree", `{"child":{"child":{"n":"x"}}}`, ``, "body.child.child.n int_parsing: Input should be a valid integer, unable to parse string as an integer"},
		{"Pet", `{"kind":"dog"}`, `{"kind":"dog"}`, ""},
		{"Pet", `{}`, ``, "body union_tag_not_found: Unable to extract tag using discriminator 'kind'"},
		{"Pet", `{"kind":"cow"}`, ``, "body union_tag_invalid: Input tag 'cow' found using 'kind' does not match any of the expected tags: 'cat', 'dog'"},
		{"Pet", `{"kind":"cat"}`, ``, "body.cat.lives missing: Field required"},
		{"Content", `{"text":"x"}`, `{"text":"x","type":"text"}`, ""},
		{"Content", `{"image_urls":["u"],"detail":1}`, `{"image_urls":["u"],"type":"image"}`, ""},
		{"Content", `{"type":"text"}`, ``, "body.TextContent.text missing: Field required; " +
			"body.ImageContent.image_urls missing: Field required; body.ImageContent.type literal_error: Input should be 'image'"},
	} {
		out, fields := d.Schema(c.schema).Check(decode(t, c.in), "body")
		if got := describe(fields); got != c.errors {
			t.Errorf("%s %s:\n got %s\nwant %s", c.schema, c.in, got, c.errors)
		}
		if c.errors != "" {
			continue
		}
		raw, err := json.Marshal(out)
		if err != nil || string(raw) != c.out {
			t.Errorf("%s %s: %s, want %s", c.schema, c.in, raw, c.out)
		}
	}
}

func describe(fields []fault.Field) string {
	var all []string
	for _, f := range fields {
		loc := strings.Trim(strings.ReplaceAll(strings.Trim(jsonOf(f.Loc), "[]"), ",", "."), `"`)
		loc = strings.ReplaceAll(loc, `"`, "")
		if strings.HasSuffix(loc, ".[key") {
			loc += "]"
		}
		all = append(all, loc+" "+f.Type+": "+f.Msg)
	}
	return strings.Join(all, "; ")
}

func jsonOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func TestInputsOfErrorsAreRedacted(t *testing.T) {
	d := document(t, schemas)
	long := strings.Repeat("x", 5000)
	for _, c := range []struct{ schema, in, want string }{
		{"Secret", `{"api_key":"hush","hidden":"hush","other":{"deep":{"token":"hush"}}}`, ""},
		{"Secret", `{"name":5,"api_key":["hush"]}`, ""},
		{"Lax", `{"a":"` + long + `"}`, ""},
		{"Strict", `{"password":"hush","list":[` + strings.Repeat(`{"x":1},`, 500) + `1]}`, ""},
	} {
		_, fields := d.Schema(c.schema).Check(decode(t, c.in), "body")
		raw := jsonOf(httpkit.FieldsBody(fields))
		if len(fields) == 0 || strings.Contains(raw, "hush") || len(raw) > 4000 {
			t.Errorf("%s: %s", c.in[:min(len(c.in), 60)], raw[:min(len(raw), 300)])
		}
	}
}

func TestErrorsAreBounded(t *testing.T) {
	d := document(t, schemas)
	_, fields := d.Schema("Map").Check(decode(t, `{`+strings.TrimSuffix(strings.Repeat(`"k`+`":"x",`, 1), ",")+`}`), "body")
	if len(fields) != 1 {
		t.Errorf("%d", len(fields))
	}
	many := map[string]any{}
	for i := range 1000 {
		many[strings.Repeat("k", i+1)] = "x"
	}
	if _, fields := d.Schema("Map").Check(many, "body"); len(fields) != 100 {
		t.Errorf("%d errors", len(fields))
	}
}

func TestDocumentsThatWouldNotBeEnforcedAreRefused(t *testing.T) {
	for name, schema := range map[string]string{
		"unknown keyword": `{type: string, contains: x}`,
		"unknown type":    `{type: text}`,
		"unknown format":  `{type: string, format: hostname}`,
		"unknown ref":     `{$ref: "#/components/schemas/None"}`,
		"foreign ref":     `{$ref: "other.yaml#/x"}`,
		"bad pattern":     `{type: string, pattern: "("}`,
		"untagged branch": `{oneOf: [{type: object, properties: {kind: {type: string}}}], discriminator: {propertyName: kind}}`,
		"bad bound":       `{type: integer, minimum: x}`,
	} {
		src := "openapi: 3.1.0\npaths: {}\ncomponents: {schemas: {X: " + schema + "}}"
		if _, err := httpkit.ParseDocument([]byte(src)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	for name, src := range map[string]string{
		"no object":       `[]`,
		"no YAML":         "a: [",
		"no operationId":  `{paths: {/x: {get: {responses: {}}}}}`,
		"unknown method":  `{paths: {/x: {trace: {operationId: a}}}}`,
		"cookie":          `{paths: {/x: {get: {operationId: a, parameters: [{name: x, in: cookie, schema: {}}]}}}}`,
		"nameless":        `{paths: {/x: {get: {operationId: a, parameters: [{in: query, schema: {}}]}}}}`,
		"unknown default": `{paths: {/x: {get: {operationId: a, parameters: [{$ref: "#/components/parameters/No"}]}}}}`,
	} {
		if _, err := httpkit.ParseDocument([]byte(src)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestMergeRenamesClashes(t *testing.T) {
	part := func(name, schema string) httpkit.Part {
		return httpkit.Part{Name: name, Prefix: "/" + name, Document: document(t, `
openapi: 3.1.0
paths:
  /x:
    get:
      operationId: get
      responses: {200: {content: {application/json: {schema: {$ref: "#/components/schemas/Thing"}}}}}
components: {schemas: {Thing: `+schema+`, Same: {type: string}}}`)}
	}
	raw, err := httpkit.Merge("T", "1", part("a", "{type: string}"), part("b", "{type: integer}"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			ID        string `json:"operationId"`
			Responses map[string]struct {
				Content map[string]struct {
					Schema map[string]string
				}
			}
		}
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	if got := doc.Paths["/b/x"]["get"]; got.ID != "b_get" || got.Responses["200"].Content["application/json"].Schema["$ref"] != "#/components/schemas/Thing.b" {
		t.Errorf("%+v", got)
	}
	if got := doc.Paths["/a/x"]["get"].Responses["200"].Content["application/json"].Schema["$ref"]; got != "#/components/schemas/Thing" {
		t.Errorf("%s", got)
	}
	want := map[string]any{"Thing": map[string]any{"type": "string"}, "Thing.b": map[string]any{"type": "integer"}, "Same": map[string]any{"type": "string"}}
	if d := cmp.Diff(want, doc.Components.Schemas); d != "" {
		t.Error(d)
	}
}

func FuzzCheck(f *testing.F) {
	d := document(f, schemas)
	for _, seed := range []string{`{"a":1}`, `[1,2]`, `"x"`, `{"child":{"child":null}}`, `{"kind":"cat","lives":1e99}`, `-0`, `1e400`, `"\ud800"`} {
		f.Add(seed)
	}
	names := []string{"Int", "Num", "Bool", "Text", "IntOrText", "ID", "Time", "List", "Map", "Tags", "Strict", "Lax", "Secret", "Tree", "Pet", "Content"}
	f.Fuzz(func(t *testing.T, text string) {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		var v any
		if dec.Decode(&v) != nil {
			return
		}
		for _, name := range names {
			out, fields := d.Schema(name).Check(v, "body")
			if _, err := json.Marshal(httpkit.FieldsBody(fields)); err != nil {
				t.Fatalf("%s: errors are no JSON: %v", name, err)
			}
			if len(fields) > 0 {
				continue
			}
			raw, err := json.Marshal(out)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			again := json.NewDecoder(strings.NewReader(string(raw)))
			again.UseNumber()
			var w any
			if err := again.Decode(&w); err != nil {
				t.Fatal(err)
			}
			if _, fields := d.Schema(name).Check(w, "body"); len(fields) > 0 {
				t.Fatalf("%s accepts %q but not its own result %s: %v", name, text, raw, fields)
			}
		}
	})
}

func FuzzCheckJSON(f *testing.F) {
	s := document(f, schemas).Schema("Lax")
	for _, seed := range []string{`{"a":1}`, `{`, "\xff", strings.Repeat("[", 100), `{}{}`, `"\"[`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v map[string]any
		err := httpkit.CheckJSON(s, []byte(text), &v, "message")
		if err != nil && !fault.Is(err, fault.Invalid) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

func FuzzParseCursor(f *testing.F) {
	f.Add("5", "")
	f.Add("-1", "7")
	f.Add("x", "99999999999999999999")
	f.Fuzz(func(t *testing.T, last, after string) {
		n, ok := httpkit.ParseCursor(last, after)
		if n < -1 || !ok && n != -1 {
			t.Fatalf("%q %q: %d %v", last, after, n, ok)
		}
	})
}

func FuzzParseTime(f *testing.F) {
	f.Add("2026-08-01T12:00:00Z")
	f.Add("2026-08-01T12:00:00 02:00")
	f.Fuzz(func(t *testing.T, text string) {
		at, _, err := httpkit.ParseTime(text)
		if err == nil {
			if _, _, err := httpkit.ParseTime(httpkit.FormatTime(at)); err != nil && at.Year() > 0 && at.Year() < 10000 {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}
