package content_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"parley/internal/content"
)

func TestDecodeReadsOneValue(t *testing.T) {
	got, err := content.Decode([]byte(` {"a": [1.50, 12345678901234567890, "x", null, true]} `))
	want := map[string]any{"a": []any{json.Number("1.50"), json.Number("12345678901234567890"), "x", nil, true}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%#v %v", got, err)
	}
	for text, part := range map[string]string{"": "too early", " ": "too early", `{"a":`: "too early", "1 2": "text after", "{}]": "text after", "x": "invalid character"} {
		if v, err := content.Decode([]byte(text)); err == nil || v != nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v %v", text, v, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{"", "1", `{"a":[1.5,"x"]}`, "{} {}", "[[", "\"\\ud800\"", "1e999"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := content.Decode(raw)
		if (err == nil) != json.Valid(raw) {
			t.Fatalf("%v", err)
		}
		if err != nil {
			return
		}
		again, err := content.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if w, err := content.Decode(again); err != nil || !reflect.DeepEqual(v, w) {
			t.Fatalf("%s became %s", raw, again)
		}
	})
}
