package eventwire_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/internal/api/eventwire"
	"parley/internal/stream"
)

func TestWithoutNulls(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"no null stays byte for byte", `{ "b":1,  "a":[ ] }`, `{ "b":1,  "a":[ ] }`},
		{"null only as text", `{"a":"null"}`, `{"a":"null"}`},
		{"members in order", `{"z":null,"b":{"x":null,"y":1},"a":[]}`, `{"b":{"y":1},"a":[]}`},
		{"nulls in lists mean something", `{"a":[null,{"b":null}]}`, `{"a":[null,{}]}`},
		{"opaque values", `{"action":{"kind":"MCPToolAction","data":{"x":null}},"p":null}`,
			`{"action":{"kind":"MCPToolAction","data":{"x":null}}}`},
		{"numbers keep their spelling", `{"a":1.50,"n":null}`, `{"a":1.50}`},
	} {
		got, err := eventwire.WithoutNulls(json.RawMessage(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
	}
}

func FuzzWithoutNulls(f *testing.F) {
	f.Add(`{"a":null,"b":[null,{"c":null}]}`)
	f.Add(`{"a":"\u0000null","a":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		out, err := eventwire.WithoutNulls(json.RawMessage(text))
		if json.Valid([]byte(text)) && (err != nil || !json.Valid(out)) {
			t.Fatalf("%q -> %q, %v", text, out, err)
		}
	})
}

func TestTimestampComparesAsText(t *testing.T) {
	for in, want := range map[string]string{
		"2026-08-01T12:00:00":           "2026-08-01T12:00:00.000000",
		"2026-08-01T12:00:00.5":         "2026-08-01T12:00:00.500000",
		"2026-08-01T14:00:00+02:00":     "2026-08-01T12:00:00.000000",
		"2026-08-01T14:00:00 02:00":     "2026-08-01T12:00:00.000000", // an unescaped plus
		"2026-08-01T12:00:00.123456Z":   "2026-08-01T12:00:00.123456",
		"2026-08-01":                    "2026-08-01T00:00:00.000000",
		"whatever a client kept as its": "whatever a client kept as its",
	} {
		if got := eventwire.Timestamp(in); got != want {
			t.Errorf("%q -> %q, want %q", in, got, want)
		}
	}
}

func TestLiveEventsHaveFreshIDsAndNoNulls(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	raw, err := eventwire.Delta(&stream.Delta{Text: "hel"}, now)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if got["id"] == "" {
		t.Error("no id")
	}
	delete(got, "id")
	want := map[string]any{"kind": "StreamingDeltaEvent", "source": "agent", "content": "hel",
		"timestamp": "2026-08-01T12:00:00.000000"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestShortKind(t *testing.T) {
	for _, in := range []string{"MessageEvent", "a.b.message.MessageEvent"} {
		if got := eventwire.ShortKind(in); got != "MessageEvent" {
			t.Errorf("%q -> %q", in, got)
		}
	}
}
