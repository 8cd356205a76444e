package wire_test

import (
	"encoding/json"
	"testing"

	"parley/internal/llm/wire"
)

func TestObjectSchema(t *testing.T) {
	const none, bare = `{"type":"object","properties":{}}`, `{"properties":{},"type":"object"}`
	tests := map[string]struct{ in, want string }{
		"none":          {``, none},
		"null":          {`null`, none},
		"empty":         {`{}`, none},
		"no object":     {`[1]`, none},
		"as it came":    {`{ "type":"object", "properties":{"a":{"anyOf":[{}]}} }`, `{ "type":"object", "properties":{"a":{"anyOf":[{}]}} }`},
		"no properties": {`{"type":"object"}`, bare},
		"properties":    {`{"type":"object","properties":[]}`, bare},
		"another type":  {`{"type":["object","null"],"properties":{"a":{}}}`, `{"properties":{"a":{}},"type":"object"}`},
		"enum and not":  {`{"type":"object","properties":{},"enum":[{}],"not":{}}`, `{"properties":{},"type":"object"}`},
		"alternatives of demands": {`{"type":"object","properties":{"a":{},"b":{},"c":{}},"required":["c"],"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
			`{"properties":{"a":{},"b":{},"c":{}},"required":["c"],"type":"object"}`},
		"alternatives of objects": {`{"oneOf":[{"type":"object","properties":{"a":{"type":"string"},"k":{"const":1}},"required":["k","a"]},{"properties":{"b":{},"k":{"const":2}},"required":["b","k"]}]}`,
			`{"properties":{"a":{"type":"string"},"b":{},"k":{"const":1}},"required":["k"],"type":"object"}`},
		"all of them": {`{"allOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b","a","what"]}]}`,
			`{"properties":{"a":{},"b":{}},"required":["a","b"],"type":"object"}`},
		"broken alternatives": {`{"type":"object","properties":{},"anyOf":7,"allOf":[7,null]}`, `{"properties":{},"type":"object"}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := wire.ObjectSchema(json.RawMessage(tt.in))
			if string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if again := wire.ObjectSchema(got); string(again) != string(got) {
				t.Errorf("once more: %s", again)
			}
		})
	}
}

func FuzzObjectSchema(f *testing.F) {
	f.Add([]byte(`{"anyOf":[{"properties":{"a":{}},"required":["a"]}],"required":[1]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := wire.Object(wire.ObjectSchema(raw))
		if wire.Text(got["type"]) != "object" || wire.Object(got["properties"]) == nil || got["anyOf"] != nil {
			t.Errorf("%s: %s", raw, got)
		}
	})
}
