package v0_test

import (
	"net/http"
	"strings"
	"testing"

	"parley/internal/account"
)

func TestSecretsAreCreatedRenamedAndDeleted(t *testing.T) {
	r := newRig(t)
	r.want("GET", "/api/secrets", "", 200, `{"custom_secrets":[]}`)
	created := `{"message":"Secret created successfully"}`
	r.want("POST", "/api/secrets", `{"name":"B","value":"hush-1","description":"what for"}`, 201, created) // trap 4
	r.want("POST", "/api/secrets", `{"name":"A","value":"hush-2","description":null,"x":1}`, 201, created)
	r.want("POST", "/api/secrets", `{"name":"","value":""}`, 201, created) // no rule for names and values
	r.want("GET", "/api/secrets", "", 200,
		`{"custom_secrets":[{"name":"","description":""},{"name":"A","description":""},{"name":"B","description":"what for"}]}`)
	r.want("POST", "/api/secrets", `{"name":"A","value":"other"}`, 400, `{"message":"Secret A already exists"}`) // trap 4

	updated := `{"message":"Secret updated successfully"}`
	r.want("PUT", "/api/secrets/A", `{"name":"C","value":"ignored","description":"new"}`, 200, updated)
	r.want("PUT", "/api/secrets/C", `{"name":"C"}`, 200, updated)
	r.want("PUT", "/api/secrets/C", `{"name":"B"}`, 400, `{"message":"Secret B already exists"}`)
	r.want("PUT", "/api/secrets/A", `{"name":"D"}`, 404, `{"error":"Secret with ID A not found"}`)
	s, err := r.store.Accounts().Settings(t.Context(), "user-1")
	check(t, err)
	if c := s.Secrets.Custom["C"]; c.Value.Reveal() != "hush-2" || c.Description != "" {
		t.Errorf("the value is not kept, or the description is not replaced: %+v", c)
	}

	r.want("DELETE", "/api/secrets/A", "", 404, `{"error":"Secret with ID A not found"}`)
	r.want("DELETE", "/api/secrets/C", "", 200, `{"message":"Secret deleted successfully"}`)
	r.want("GET", "/api/secrets", "", 200, `{"custom_secrets":[{"name":"","description":""},{"name":"B","description":"what for"}]}`)
	if code, body := r.callAs(otherKey, "GET", "/api/secrets", ""); code != 200 || body != `{"custom_secrets":[]}` {
		t.Errorf("another user: %d %s", code, body)
	}
	if code, _ := r.callAs(otherKey, "PUT", "/api/secrets/B", `{"name":"X"}`); code != http.StatusOK {
		t.Errorf("another user has no secrets yet: %d", code)
	}
}

// Without a store of secrets changing one is no error (legacy API 5.2).
func TestSecretsBeforeTheFirstOne(t *testing.T) {
	r := newRig(t)
	updated, deleted := `{"message":"Secret updated successfully"}`, `{"message":"Secret deleted successfully"}`
	r.want("PUT", "/api/secrets/A", `{"name":"B"}`, 200, updated)
	r.want("DELETE", "/api/secrets/A", "", 200, deleted)
	r.want("POST", "/api/unset-provider-tokens", "", 200, `{"message":"Unset Git provider tokens"}`)
	r.want("GET", "/api/settings", "", 404, `{"error":"Settings not found"}`)
	r.want("POST", "/api/settings", `{}`, 200, `{"message":"Settings stored"}`)
	r.want("PUT", "/api/secrets/A", `{"name":"B"}`, 200, updated)
	r.want("POST", "/api/secrets", `{"name":"A","value":"v"}`, 201, `{"message":"Secret created successfully"}`)
	r.want("DELETE", "/api/secrets/A", "", 200, deleted)
	r.want("DELETE", "/api/secrets/A", "", 404, `{"error":"Secret with ID A not found"}`)
}

// Old web clients greet a user whose settings are not found; a secret that came first
// does not change that.
func TestASecretIsNoSettings(t *testing.T) {
	r := newRig(t)
	r.want("POST", "/api/secrets", `{"name":"A","value":"v"}`, 201, `{"message":"Secret created successfully"}`)
	r.want("GET", "/api/settings", "", 404, `{"error":"Settings not found"}`)
	r.want("POST", "/api/settings", `{"language":"de"}`, 200, `{"message":"Settings stored"}`)
	if code, _ := r.call("GET", "/api/settings", ""); code != 200 {
		t.Error(code)
	}
	r.want("GET", "/api/secrets", "", 200, `{"custom_secrets":[{"name":"A","description":""}]}`)
}

// What another API stored beside secrets counts as settings.
func TestSettingsOfAnotherAPIAreFound(t *testing.T) {
	r := newRig(t)
	r.call("POST", "/api/secrets", `{"name":"A","value":"v"}`)
	model := "p/m"
	check(t, r.store.Accounts().UpdateSettings(t.Context(), "user-1", func(old *account.Settings) (*account.Settings, error) {
		next := *old
		next.LLMModel = &model
		return &next, nil
	}))
	if code, _ := r.call("GET", "/api/settings", ""); code != 200 {
		t.Error(code)
	}
}

func TestSecretsOfWrongForm(t *testing.T) {
	r := newRig(t)
	for body, want := range map[string]string{
		``:                              `["body"] missing`,
		`null`:                          `["body"] missing`,
		`[]`:                            `["body"] model_attributes_type`,
		`7`:                             `["body"] model_attributes_type`,
		`{"name":"A"`:                   `["body",11] json_invalid`,
		`{"name":"A"}`:                  `["body","value"] missing`,
		`{"value":"hush"}`:              `["body","name"] missing`,
		`{"name":null,"value":"hush"}`:  `["body","name"] string_type`,
		`{"name":1,"value":"hush"}`:     `["body","name"] string_type`,
		`{"name":"A","value":17}`:       `["body","value"] string_type`,
		`{"name":"A","value":["hush"]}`: `["body","value"] string_type`,
		`{"name":"A","value":"hush","description":{}}`:              `["body","description"] string_type`,
		`{"name":"A","value":"` + strings.Repeat("x", 65537) + `"}`: `["body","value"] string_too_long`,
	} {
		got := r.wrongs("POST", "/api/secrets", body)
		if len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%.60s: %q", body, got)
		}
		if _, answer := r.call("POST", "/api/secrets", body); strings.Contains(answer, "hush") || strings.Contains(answer, "17") || len(answer) > 1000 {
			t.Errorf("%.60s: a value is shown: %.200s", body, answer)
		}
	}
	if got := r.wrongs("PUT", "/api/secrets/A", `{"value":"v"}`); len(got) != 1 || !strings.HasPrefix(got[0], `["body","name"] missing`) {
		t.Errorf("%q", got)
	}
	if got := r.wrongs("POST", "/api/secrets", `{"name":"`+strings.Repeat("x", 1001)+`","value":"v"}`); len(got) != 1 || !strings.HasPrefix(got[0], `["body","name"] string_too_long`) {
		t.Errorf("%.200q", got)
	}
	r.want("GET", "/api/secrets", "", 200, `{"custom_secrets":[]}`)
	// The last of doubled keys counts, a value that looks like the mask is one.
	r.want("POST", "/api/secrets", `{"name":"A","name":"B","value":"**********"}`, 201, `{"message":"Secret created successfully"}`)
	s, err := r.store.Accounts().Settings(t.Context(), "user-1")
	check(t, err)
	if s.Secrets.Custom["B"].Value.Reveal() != account.Mask {
		t.Error("the value is another one")
	}
}

func TestThereAreBoundsOfSecrets(t *testing.T) {
	r := newRig(t)
	check(t, r.store.Accounts().UpdateSettings(t.Context(), "user-1", func(*account.Settings) (*account.Settings, error) {
		s := account.DefaultSettings()
		s.Secrets.Custom = map[string]account.CustomSecret{}
		for i := range account.MaxCustomSecrets {
			s.Secrets.Custom[strings.Repeat("x", i)] = account.CustomSecret{}
		}
		return s, nil
	}))
	code, body := r.call("POST", "/api/secrets", `{"name":"new","value":"v"}`)
	if code != 409 || !strings.HasPrefix(body, `{"error":"There are 500 secrets`) {
		t.Errorf("%d %s", code, body)
	}
}
