package account_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/account"
)

func TestMergeDiff(t *testing.T) {
	for _, x := range []struct{ base, diff, want string }{
		{`{"a":1,"b":{"c":2,"d":[1]}}`, `{"b":{"c":3,"e":{"f":null,"g":1}},"h":"i"}`, `{"a":1,"b":{"c":3,"d":[1],"e":{"g":1}},"h":"i"}`},
		{`{"a":{"b":1},"c":2}`, `{"a":null,"x":null}`, `{"c":2}`},
		{`{"a":{"b":1},"c":2}`, `{"a":5,"c":{"d":1}}`, `{"a":5,"c":{"d":1}}`},
		{`{"a":[1,2]}`, `{"a":[3]}`, `{"a":[3]}`},
		{`null`, `{"a":1}`, `{"a":1}`},
		{`{"a":1}`, `null`, `{"a":1}`},
	} {
		var base, diff, want map[string]any
		for _, p := range []struct {
			raw string
			to  *map[string]any
		}{{x.base, &base}, {x.diff, &diff}, {x.want, &want}} {
			if err := json.Unmarshal([]byte(p.raw), p.to); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(want, account.MergeDiff(base, diff)); d != "" {
			t.Errorf("%s + %s: %s", x.base, x.diff, d)
		}
		again, err := json.Marshal(base)
		if err != nil || string(again) != x.base {
			t.Errorf("%s became %s %v", x.base, again, err)
		}
	}
}

// A change of nothing changes nothing, whatever the LLM says.
func TestChangeLLMKeepsWhatIsNotNamed(t *testing.T) {
	s := &account.Settings{}
	save(t, s, "p", strings.Replace(clientDefaults, `"extra_headers":null`, `"extra_headers":{"X":"h"},"fallback_profiles":["f"]`, 1))
	if err := s.ActivateProfile("p"); err != nil {
		t.Fatal(err)
	}
	before := s.LLM()
	for _, diff := range []string{``, `null`, `{}`, `{"api_key":null}`, `{"model":"openai/gpt-4o"}`, `{"extra_headers":{"X":"**********"}}`} {
		if err := s.ChangeLLM(json.RawMessage(diff), "body"); err != nil {
			t.Fatalf("%s: %v", diff, fields(err))
		}
		if d := cmp.Diff(before, s.LLM(), sameSecret); d != "" || s.ActiveProfile != "p" {
			t.Errorf("%s: %s active %q", diff, d, s.ActiveProfile)
		}
	}
}

// FuzzChangeLLM: what is refused changes nothing, what is stored can be read and
// changed again, and keys stay at their place.
func FuzzChangeLLM(f *testing.F) {
	for _, seed := range []string{`{"model":"openai/n"}`, `{"base_url":"http://x"}`, `{"base_url":"http://x","api_key":"n","extra_headers":null}`,
		`{"extra_headers":{"X":null,"Y":"z"}}`, `{"litellm_extra_body":{"a":{"b":1}}}`, clientDefaults, `{"timeout":1e400}`, `[]`, `{"":null}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, diff string) {
		s := &account.Settings{}
		save(t, s, "p", `{"model":"openai/m","api_key":"stored","extra_headers":{"X":"header"},"litellm_extra_body":{"a":{"c":2}}}`)
		if err := s.ActivateProfile("p"); err != nil {
			t.Fatal(err)
		}
		before := s.LLM()
		err := s.ChangeLLM(json.RawMessage(diff), "body")
		after := s.LLM()
		if err != nil {
			if d := cmp.Diff(before, after, sameSecret); d != "" {
				t.Errorf("refused, and changed: %s", d)
			}
			return
		}
		if !after.SameEndpoint(&before) && (after.APIKey == before.APIKey || after.ExtraHeaders["X"] == before.ExtraHeaders["X"]) &&
			!strings.Contains(diff, "stored") && !strings.Contains(diff, "header") {
			t.Errorf("%s takes a key along", diff)
		}
		if err := s.ChangeLLM(json.RawMessage(`{"temperature":1}`)); err != nil {
			t.Errorf("cannot be changed again: %v", fields(err))
		}
	})
}
