package httpkit

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestServedSchemasAreOnesThatGeneratorsUnderstand(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"an array says what its items are", `{"type":"array"}`, `{"type":"array","items":{}}`},
		{"also one that may be null", `{"type":["array","null"]}`, `{"type":["array","null"],"items":{}}`},
		{"a type and null stay", `{"type":["string","null"]}`, `{"type":["string","null"]}`},
		{"several types are several schemas", `{"type":["string","integer"],"description":"d"}`, `{"anyOf":[{"type":"string"},{"type":"integer"}],"description":"d"}`},
		{"null is one of them", `{"type":["string","array","null"],"items":{"type":"string"}}`, `{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}},{"type":"null"}]}`},
		{"wherever they are", `{"properties":{"a":{"items":{"type":["string","number"]},"type":"array"}}}`, `{"properties":{"a":{"items":{"anyOf":[{"type":"string"},{"type":"number"}]},"type":"array"}}}`},
		{"a choice is not lost", `{"type":["string","integer"],"anyOf":[{"minLength":1}]}`, `{"type":["string","integer"],"anyOf":[{"minLength":1}]}`},
		{"a member that is called type is none", `{"properties":{"type":{"type":"string"}}}`, `{"properties":{"type":{"type":"string"}}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got, want any
			if err := json.Unmarshal([]byte(test.in), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			portable(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestResponsesAreNotCalledAsSchemas(t *testing.T) {
	doc := map[string]any{
		"paths": map[string]any{"/a": map[string]any{"$ref": "#/components/responses/Error"}},
		"components": map[string]any{"responses": map[string]any{"Error": map[string]any{"$ref": "#/components/schemas/Error"}},
			"schemas": map[string]any{"Error": map[string]any{}}, "parameters": map[string]any{"Error": map[string]any{}}}}
	tellApart(doc)
	want := map[string]any{
		"paths": map[string]any{"/a": map[string]any{"$ref": "#/components/responses/ErrorAnswer"}},
		"components": map[string]any{"responses": map[string]any{"ErrorAnswer": map[string]any{"$ref": "#/components/schemas/Error"}},
			"schemas": map[string]any{"Error": map[string]any{}}, "parameters": map[string]any{"ErrorParameter": map[string]any{}}}}
	if diff := cmp.Diff(want, doc); diff != "" {
		t.Error(diff)
	}
}
