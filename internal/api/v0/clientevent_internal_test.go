package v0

import (
	"encoding/json"
	"slices"
	"testing"

	"parley/internal/fault"
)

// FuzzReadEvent: whatever clients send is read or refused with the fields that are
// wrong, never with anything else.
func FuzzReadEvent(f *testing.F) {
	for _, s := range []string{`{"action":"message","args":{"content":"x","image_urls":null,"file_urls":["a"],"timestamp":"t"}}`,
		`{"action":"change_agent_state","args":{"agent_state":"stopped","thought":""}}`, `{"action":"run","args":{"command":"ls","hidden":true}}`,
		`{"action":"loop_recovery","args":{"option":2}}`, `{"action":"null","args":{}}`, `{"action":"message","id":-1,"source":null,"args":{"content":""}}`,
		`{"action":"run","args":{"command":"ls","hidden":"yes","x":1}}`, `[]`, `{"args":[]}`, `{"action":{}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		e, err := readEvent(raw)
		if err != nil {
			if !fault.Is(err, fault.Invalid) || len(fieldsOf(err)) == 0 || told(err) == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		if _, known := argsOf[e.action]; !known || e.option < 0 || e.option > 3 || e.action == actionRecovery && e.option == 0 {
			t.Fatalf("%+v", e)
		}
	})
}

// TestReadEvent is the tolerance of section 9.5, and that all that is wrong is told.
func TestReadEvent(t *testing.T) {
	for raw, want := range map[string]clientEvent{
		`{"action":"message","args":{"content":"x","image_urls":["a"],"images_urls":["b"],"file_urls":["c"],"timestamp":"t","security_risk":"?"}}`: {
			action: actionMessage, text: "x", images: []string{"a", "b"}, files: []string{"c"}},
		`{"action":"run","args":{"command":"ls","is_confirmed":"confirmed","keep_prompt":true,"hidden":null},"source":"agent","id":-1,"timeout":3}`: {
			action: actionRun, text: "ls"},
		`{"action":"null"}`: {action: actionNull},
	} {
		got, err := readEvent([]byte(raw))
		if err != nil || got.action != want.action || got.text != want.text || got.hidden != want.hidden ||
			!slices.Equal(got.images, want.images) || !slices.Equal(got.files, want.files) {
			t.Errorf("%s: %+v %v", raw, got, err)
		}
	}
	_, err := readEvent([]byte(`{"action":"message","args":{"image_urls":[1],"file_urls":7,"content":null}}`))
	if n := len(fieldsOf(err)); n != 3 {
		t.Errorf("%d fields are wrong: %v", n, err)
	}
}
