package facts_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/test/compat/facts"
)

func read(t *testing.T, text string) facts.Document {
	t.Helper()
	var raw map[string]any
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		t.Fatal(err)
	}
	doc, err := facts.Read(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestADocumentIsReducedToItsFacts(t *testing.T) {
	doc := read(t, `{"paths": {"/a/{id}": {"parameters": [{"name": "id", "in": "path"}], "post": {
		"parameters": [{"$ref": "#/components/parameters/Limit"}],
		"requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Message"}}}},
		"responses": {"201": {"content": {"application/json": {"schema": {"type": "array", "items": {"anyOf": [
			{"$ref": "#/components/schemas/Message"}, {"type": "null"}]}}}}}, "404": {}}}}},
		"components": {"parameters": {"Limit": {"name": "limit", "in": "query", "schema": {"type": "integer"}}}, "schemas": {
			"Message": {"type": "object", "required": ["role"], "properties": {
				"role": {"type": "string", "enum": ["user", "agent"]}, "tags": {"type": "object", "additionalProperties": {"type": "string"}},
				"tool": {"oneOf": [{"properties": {"kind": {"const": "A"}}}, {"properties": {"kind": {"const": "B"}}}]},
				"self": {"allOf": [{"$ref": "#/components/schemas/Loop"}]}, "title": {"type": ["string", "null"]}}},
			"Loop": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Loop"}}}}}}`)
	op := doc["POST /a/{id}"]
	if diff := cmp.Diff(map[string]facts.Fact{"query limit": "integer"}, op.Params); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]facts.Fact{"": "object!", "role": "string(agent,user)!", "tags{}": "string!", "title": "null|string",
		"tool": "object", "tool.kind": "string(A,B)", "self": "object", "self.next.next": "object"} {
		if got := op.Body[name]; got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := op.Responses["201"]["[]"]; got != "null|object!" {
		t.Errorf("items: %q", got)
	}
	if _, kept := op.Responses["404"]; kept {
		t.Error("an error is kept")
	}
}

func TestCompareFindsWhatAClientWouldMiss(t *testing.T) {
	op := func(params, body, response map[string]facts.Fact) facts.Document {
		return facts.Document{"POST /a": {Params: params, Body: body, Responses: map[string]map[string]facts.Fact{"200": response}}}
	}
	type m = map[string]facts.Fact
	tests := []struct {
		name         string
		theirs, ours facts.Document
		want         string
	}{
		{name: "the same is no difference", theirs: op(m{"query a": "string"}, m{"": "object!"}, m{"": "object!"}), ours: op(m{"query a": "string"}, m{"": "object!"}, m{"": "object!"})},
		{name: "more is no difference", theirs: op(nil, m{"": "object!", "a": "string(x)"}, m{"": "object!"}), ours: op(m{"query b": "string"}, m{"": "object!", "a": "string(x,y)", "b": "string"}, m{"": "object!", "c": "string"})},
		{name: "an operation that is not there", theirs: op(nil, nil, nil), ours: facts.Document{}, want: "missing"},
		{name: "another status", theirs: op(nil, nil, nil), ours: facts.Document{"POST /a": {Responses: map[string]map[string]facts.Fact{"201": {}}}}, want: "200: missing"},
		{name: "a parameter that must be given", theirs: op(nil, nil, nil), ours: op(m{"query a": "string!"}, nil, nil), want: "query a: required"},
		{name: "a parameter that is not known", theirs: op(m{"query a": "string"}, nil, nil), ours: op(nil, nil, nil), want: "query a: not read"},
		{name: "a value that is not taken", theirs: op(nil, m{"": "object", "a": "null|string"}, nil), ours: op(nil, m{"": "object", "a": "string"}, nil), want: "body a: does not take null"},
		{name: "a value that clients do not know", theirs: op(nil, nil, m{"": "object", "a": "string(x)"}), ours: op(nil, nil, m{"": "object", "a": "string(x,y)"}), want: "200 a: may be y"},
		{name: "a member that is not always there", theirs: op(nil, nil, m{"": "object", "a": "string!"}), ours: op(nil, nil, m{"": "object", "a": "string"}), want: "200 a: may be missing"},
		{name: "one difference for all that is below", theirs: op(nil, nil, m{"": "object", "a": "object", "a.b": "string", "a.b.c": "string"}), ours: op(nil, nil, m{"": "object", "x": "string"}), want: "200 a: missing"},
		{name: "members that are not said", theirs: op(nil, nil, m{"": "object", "a": "object", "a.b": "string"}), ours: op(nil, nil, m{"": "object", "a": "object"}), want: "200 a: members not documented"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := facts.Compare(test.theirs, test.ours, func(path string) string { return path })
			switch {
			case test.want == "" && len(got) > 0:
				t.Errorf("found %v", got)
			case test.want != "" && (len(got) != 1 || got[0].What != test.want):
				t.Errorf("found %v, want %q", got, test.want)
			}
		})
	}
}

func TestPathsAreTheSameWhateverTheirParametersAreCalled(t *testing.T) {
	theirs := facts.Document{"GET /a/{x}/b/": {}}
	ours := facts.Document{"GET /p/{q}/a/{y_id}/b": {}}
	if got := facts.Compare(theirs, ours, func(path string) string { return "/p/{q}" + path }); len(got) > 0 {
		t.Error(got)
	}
}
