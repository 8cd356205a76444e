package v0_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/account"
)

const loadedDefaults = `{"language":null,"agent":null,"max_iterations":null,"security_analyzer":null,"confirmation_mode":null,` +
	`"llm_model":null,"llm_api_key":null,"llm_base_url":null,"remote_runtime_resource_factor":null,"secrets_store":{"provider_tokens":{}},` +
	`"enable_default_condenser":true,"enable_sound_notifications":false,"enable_proactive_conversation_starters":true,` +
	`"enable_solvability_analysis":true,"user_consents_to_analytics":null,"sandbox_base_container_image":null,` +
	`"sandbox_runtime_container_image":null,"mcp_config":null,"search_api_key":null,"sandbox_api_key":null,"max_budget_per_task":null,` +
	`"condenser_max_size":null,"email":null,"email_verified":null,"git_user_name":null,"git_user_email":null,"v1_enabled":null,` +
	`"provider_tokens_set":{},"llm_api_key_set":false,"search_api_key_set":false}`

func TestSettingsBeforeTheFirstStore(t *testing.T) {
	newRig(t).want("GET", "/api/settings", "", 404, `{"error":"Settings not found"}`)
}

// TestSettingsKeyOrder: all keys, in the order they have always had.
func TestSettingsKeyOrder(t *testing.T) {
	r := newRig(t)
	r.want("POST", "/api/settings", `{}`, 200, `{"message":"Settings stored"}`)
	r.want("GET", "/api/settings", "", 200, loadedDefaults)
}

func TestSettingsRoundTrip(t *testing.T) {
	r := newRig(t)
	r.want("POST", "/api/settings", `{"language":"de","agent":"A","max_iterations":"12","security_analyzer":"llm","confirmation_mode":"yes",
		"llm_model":"p/m","llm_api_key":"hush-1","llm_base_url":"http://u","remote_runtime_resource_factor":2.0,
		"secrets_store":{"provider_tokens":{"github":{"token":"hush-2","host":"gh.example"},"gitlab":{"token":"hush-6"},"nobody":{"token":"hush-3"}},
			"custom_secrets":{"S":{"secret":"hush-4"}}},
		"enable_default_condenser":false,"enable_sound_notifications":1,"enable_proactive_conversation_starters":"off",
		"enable_solvability_analysis":false,"user_consents_to_analytics":false,"sandbox_base_container_image":"b",
		"sandbox_runtime_container_image":"r","mcp_config":{"sse_servers":["http://a"],"stdio_servers":[{"name":"n","command":"c","args":"x y","env":"A=1"}],
		"shttp_servers":[{"url":"http://b","api_key":"k"}]},"search_api_key":"hush-5",
		"sandbox_api_key":"hush-7","max_budget_per_task":"1.5","condenser_max_size":20,"email":"e@x","email_verified":true,
		"git_user_name":"n","git_user_email":"g@x","v1_enabled":true,"unknown":1}`, 200, `{"message":"Settings stored"}`)
	code, got := r.call("GET", "/api/settings", "")
	want := `{"language":"de","agent":"A","max_iterations":12,"security_analyzer":"llm","confirmation_mode":true,` +
		`"llm_model":"p/m","llm_api_key":null,"llm_base_url":"http://u","remote_runtime_resource_factor":2,"secrets_store":{"provider_tokens":{}},` +
		`"enable_default_condenser":false,"enable_sound_notifications":true,"enable_proactive_conversation_starters":false,` +
		`"enable_solvability_analysis":false,"user_consents_to_analytics":false,"sandbox_base_container_image":"b",` +
		`"sandbox_runtime_container_image":"r","mcp_config":{"sse_servers":[{"url":"http://a","api_key":null}],` +
		`"stdio_servers":[{"name":"n","command":"c","args":["x","y"],"env":{"A":"1"}}],"shttp_servers":[{"url":"http://b","api_key":"k","timeout":60}]},` +
		`"search_api_key":null,"sandbox_api_key":null,"max_budget_per_task":1.5,` +
		`"condenser_max_size":20,"email":"e@x","email_verified":true,"git_user_name":"n","git_user_email":"g@x","v1_enabled":true,` +
		`"provider_tokens_set":{"github":"gh.example","gitlab":null},"llm_api_key_set":true,"search_api_key_set":true}`
	if diff := cmp.Diff(want, got); code != 200 || diff != "" {
		t.Errorf("%d %s", code, diff)
	}
	if strings.Contains(got, "hush") {
		t.Error("a secret is shown")
	}
	stored, err := r.store.Accounts().Settings(t.Context(), "user-1")
	check(t, err)
	if stored.LLMAPIKey.Reveal() != "hush-1" || stored.SandboxAPIKey.Reveal() != "hush-7" || stored.Secrets.Custom["S"].Value.Reveal() != "hush-4" {
		t.Error("a secret was not stored")
	}
	if code, _ := r.callAs(otherKey, "GET", "/api/settings", ""); code != 404 {
		t.Error("another user's settings are shown")
	}
	r.want("POST", "/api/settings", got, 200, `{"message":"Settings stored"}`) // what a web client does
	if _, again := r.call("GET", "/api/settings", ""); again != got {
		t.Errorf("a round trip changed: %s", cmp.Diff(got, again))
	}
}

// TestTrap1OverHTTP: replace with exceptions, null keeps, "" clears.
func TestTrap1OverHTTP(t *testing.T) {
	r := newRig(t)
	r.call("POST", "/api/settings", `{"llm_model":"p/m","llm_api_key":"k","search_api_key":"s","language":"de"}`)
	r.call("POST", "/api/settings", `{"llm_api_key":null}`)
	var got map[string]json.RawMessage
	r.decode("GET", "/api/settings", "", &got)
	if string(got["llm_api_key_set"]) != "true" || string(got["llm_model"]) != `"p/m"` || string(got["language"]) != "null" {
		t.Errorf("after null: %s", got)
	}
	r.call("POST", "/api/settings", `{"llm_api_key":"","search_api_key":""}`)
	r.decode("GET", "/api/settings", "", &got)
	if string(got["llm_api_key_set"]) != "false" || string(got["search_api_key_set"]) != "false" {
		t.Errorf(`after "": %s`, got)
	}
}

// TestValidation has the facts of the contract's section 1.4.
func TestValidation(t *testing.T) {
	r := newRig(t)
	for body, want := range map[string][]string{
		`{"language":`:                        {`["body",12] json_invalid JSON decode error`},
		`null`:                                {`["body"] missing Field required`},
		``:                                    {`["body"] missing Field required`},
		`[]`:                                  {`["body"] model_attributes_type Input should be a valid dictionary or object to extract fields from`},
		`"x"`:                                 {`["body"] model_attributes_type Input should be a valid dictionary or object to extract fields from`},
		`{"language":5}`:                      {`["body","language"] string_type Input should be a valid string`},
		`{"llm_api_key":5}`:                   {`["body","llm_api_key"] string_type Input should be a valid string`},
		`{"max_iterations":"x"}`:              {`["body","max_iterations"] int_parsing Input should be a valid integer, unable to parse string as an integer`},
		`{"max_iterations":1.5}`:              {`["body","max_iterations"] int_from_float Input should be a valid integer, got a number with a fractional part`},
		`{"confirmation_mode":2}`:             {`["body","confirmation_mode"] bool_parsing Input should be a valid boolean, unable to interpret input`},
		`{"confirmation_mode":[]}`:            {`["body","confirmation_mode"] bool_type Input should be a valid boolean`},
		`{"enable_default_condenser":null}`:   {`["body","enable_default_condenser"] bool_type Input should be a valid boolean`},
		`{"max_budget_per_task":"x"}`:         {`["body","max_budget_per_task"] float_parsing Input should be a valid number, unable to parse string as a number`},
		`{"condenser_max_size":19}`:           {`["body","condenser_max_size"] greater_than_equal Input should be greater than or equal to 20`},
		`{"mcp_config":{"x":1}}`:              {`["body","mcp_config","x"] extra_forbidden Extra inputs are not permitted`},
		`{"mcp_config":{"sse_servers":null}}`: {`["body","mcp_config","sse_servers"] list_type Input should be a valid list`},
		`{"mcp_config":{"sse_servers":["x"]}}`: {
			`["body","mcp_config","sse_servers",0,"url"] value_error Value error, URL must include a scheme (http:// or https://)`},
		`{"mcp_config":{"shttp_servers":[{"url":7}]}}`: {`["body","mcp_config","shttp_servers",0,"url"] string_type Input should be a valid string`},
		`{"agent":1,"email":2}`:                        {`["body","agent"] string_type Input should be a valid string`, `["body","email"] string_type Input should be a valid string`},
	} {
		if diff := cmp.Diff(want, r.wrongs("POST", "/api/settings", body)); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
	for _, body := range []string{`{"secrets_store":null}`, `{"secrets_store":"x"}`, `{"secrets_store":{"provider_tokens":5}}`} {
		if got := r.wrongs("POST", "/api/settings", body); len(got) != 1 || !strings.Contains(got[0], `"secrets_store"`) {
			t.Errorf("%s: %q", body, got)
		}
	}
	if code, _ := r.call("GET", "/api/settings", ""); code != 404 {
		t.Error("something was stored")
	}
}

// TestLaxCoercion: strings never come from numbers, numbers and booleans do from texts.
func TestLaxCoercion(t *testing.T) {
	r := newRig(t)
	for body, want := range map[string]string{
		`{"max_iterations":"12"}`: "12", `{"max_iterations":2.0}`: "2", `{"max_iterations":true}`: "1", `{"max_iterations":-1}`: "-1",
	} {
		r.want("POST", "/api/settings", body, 200, `{"message":"Settings stored"}`)
		var got map[string]json.RawMessage
		r.decode("GET", "/api/settings", "", &got)
		if string(got["max_iterations"]) != want {
			t.Errorf("%s: %s", body, got["max_iterations"])
		}
	}
	for _, yes := range []string{`true`, `1`, `"yes"`, `"ON"`, `"t"`, `"Y"`, `"TRUE"`, `"1"`} {
		r.want("POST", "/api/settings", `{"confirmation_mode":`+yes+`}`, 200, `{"message":"Settings stored"}`)
		var got map[string]json.RawMessage
		r.decode("GET", "/api/settings", "", &got)
		if string(got["confirmation_mode"]) != "true" {
			t.Errorf("%s: %s", yes, got["confirmation_mode"])
		}
	}
}

func TestAuthentication(t *testing.T) {
	r := newRig(t)
	for _, k := range []string{"", "wrong", strings.ToUpper(key)} {
		for _, path := range []string{"/api/settings", "/api/conversations", "/api/options/config"} {
			code, body := r.callAs(k, "GET", path, "")
			if code != http.StatusUnauthorized || body != `{"detail":"Unauthorized"}` {
				t.Errorf("%s with %q: %d %s", path, k, code, body)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	r := newRig(t)
	r.want("GET", "/api/options/models", "", 200, `["a/m","b/m"]`)
	r.want("GET", "/api/options/agents", "", 200, `["CodeActAgent"]`)
	r.want("GET", "/api/options/security-analyzers", "", 200, `["llm"]`)
	var config map[string]json.RawMessage
	r.decode("GET", "/api/options/config", "", &config)
	if got := sortedKeys(config); !slices.Equal(got, []string{"APP_MODE", "FEATURE_FLAGS", "GITHUB_CLIENT_ID", "POSTHOG_CLIENT_KEY"}) {
		t.Error(got)
	}
}

// The legacy request is complete, but has no word for profiles: they stay, and
// what one brought goes with the model.
func TestSettingsKeepProfiles(t *testing.T) {
	r := newRig(t)
	tuned := 0.5
	check(t, r.store.Accounts().UpdateSettings(t.Context(), "user-1", func(*account.Settings) (*account.Settings, error) {
		s := account.DefaultSettings()
		s.Profiles = map[string]account.LLM{"p": {Model: "p/m", APIKey: account.NewSecret("hush"), Temperature: &tuned}}
		s.TitleProfile, s.Kept = "p", json.RawMessage(`{"git_full_clone":true}`)
		return s, s.ActivateProfile("p")
	}))
	stored := func() *account.Settings {
		s, err := r.store.Accounts().Settings(t.Context(), "user-1")
		check(t, err)
		return s
	}
	r.want("POST", "/api/settings", `{"language":"de","max_budget_per_task":2}`, 200, `{"message":"Settings stored"}`)
	if s := stored(); s.ActiveProfile != "p" || s.TitleProfile != "p" || s.Kept == nil || s.LLM().Temperature == nil || s.LLMAPIKey.Reveal() != "hush" {
		t.Errorf("%+v", s)
	}
	r.want("POST", "/api/settings", `{"llm_model":"other/m"}`, 200, `{"message":"Settings stored"}`)
	if s := stored(); s.ActiveProfile != "" || len(s.Profiles) != 1 || s.LLM().Temperature != nil || s.LLM().Model != "other/m" {
		t.Errorf("%+v", s)
	}
}
