package account_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/account"
	"parley/internal/fault"
)

// store merges requests one after the other, as POST /api/settings does.
func store(t *testing.T, requests ...string) *account.Settings {
	t.Helper()
	var s *account.Settings
	for _, raw := range requests {
		m := merge(t, raw)
		s = m.Apply(s)
	}
	return s
}

func merge(t *testing.T, raw string) *account.SettingsMerge {
	t.Helper()
	var in account.SettingsInput
	if err := json.Unmarshal([]byte(raw), &in); err != nil {
		t.Fatal(err)
	}
	m, err := in.Check("body")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const everything = `{"language":"de","agent":"A","max_iterations":7,"security_analyzer":"llm","confirmation_mode":true,
	"llm_model":"p/m","llm_api_key":"k1","llm_base_url":"http://u","remote_runtime_resource_factor":2,
	"secrets_store":{"provider_tokens":{"github":{"token":"t1","host":"gh.example","user_id":"u1"}},
		"custom_secrets":{"S1":{"secret":"v1","description":"d1"}}},
	"enable_default_condenser":false,"enable_sound_notifications":true,"enable_proactive_conversation_starters":false,
	"enable_solvability_analysis":false,"user_consents_to_analytics":true,"sandbox_base_container_image":"b",
	"sandbox_runtime_container_image":"r","mcp_config":{"sse_servers":["http://a"]},"search_api_key":"k2",
	"sandbox_api_key":"k3","max_budget_per_task":1.5,"condenser_max_size":20,"email":"e@x","email_verified":true,
	"git_user_name":"n","git_user_email":"g@x","v1_enabled":true}`

func TestStoreKeepsEveryField(t *testing.T) {
	got := store(t, everything)
	want := &account.Settings{Language: ref("de"), Agent: ref("A"), MaxIterations: ref(7), SecurityAnalyzer: ref("llm"),
		ConfirmationMode: ref(true), LLMModel: ref("p/m"), LLMAPIKey: account.NewSecret("k1"), LLMBaseURL: ref("http://u"),
		RemoteRuntimeResourceFactor: ref(2), EnableSoundNotifications: true, UserConsentsToAnalytics: ref(true),
		SandboxBaseContainerImage: ref("b"), SandboxRuntimeContainerImage: ref("r"),
		MCP: &account.MCPConfig{SSE: []account.MCPHTTPServer{{URL: "http://a"}}, Stdio: []account.MCPStdioServer{},
			SHTTP: []account.MCPHTTPServer{}},
		SearchAPIKey: account.NewSecret("k2"), SandboxAPIKey: account.NewSecret("k3"), MaxBudgetPerTask: ref(1.5),
		CondenserMaxSize: ref(20), Email: ref("e@x"), EmailVerified: ref(true), GitUserName: ref("n"),
		GitUserEmail: ref("g@x"), V1Enabled: ref(true),
		Secrets: account.Secrets{
			ProviderTokens: map[string]account.ProviderToken{"github": {Token: account.NewSecret("t1"), Host: ref("gh.example"), UserID: ref("u1")}},
			Custom:         map[string]account.CustomSecret{"S1": {Value: account.NewSecret("v1"), Description: "d1"}}}}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b account.Secret) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

// TestTrap1ReplaceWithExceptions: storing is neither a merge nor a full replace.
func TestTrap1ReplaceWithExceptions(t *testing.T) {
	for name, second := range map[string]string{"omitted": `{}`, "null": `{"llm_api_key":null,"llm_model":null,"llm_base_url":null,
		"search_api_key":null,"sandbox_api_key":null,"user_consents_to_analytics":null,"mcp_config":null,"language":null}`} {
		t.Run(name, func(t *testing.T) {
			s := store(t, everything, second)
			kept := []bool{s.LLMAPIKey.Reveal() == "k1", *s.LLMModel == "p/m", *s.LLMBaseURL == "http://u",
				s.SearchAPIKey.Reveal() == "k2", *s.UserConsentsToAnalytics, s.SandboxAPIKey.Reveal() == "k3",
				s.Secrets.ProviderTokens["github"].Token.Reveal() == "t1", s.Secrets.Custom["S1"].Value.Reveal() == "v1"}
			for i, ok := range kept {
				if !ok {
					t.Errorf("kept member %d was lost", i)
				}
			}
			s.LLMAPIKey, s.SearchAPIKey, s.SandboxAPIKey = account.Secret{}, account.Secret{}, account.Secret{}
			s.LLMModel, s.LLMBaseURL, s.UserConsentsToAnalytics = nil, nil, nil
			s.Secrets = account.Secrets{}
			if diff := cmp.Diff(account.DefaultSettings(), s, cmp.Comparer(func(a, b account.Secret) bool { return a == b })); diff != "" {
				t.Errorf("not reset: %s", diff)
			}
		})
	}
}

// TestTrap1EmptyTextClears: "" is not null.
func TestTrap1EmptyTextClears(t *testing.T) {
	for _, blank := range []string{"", "  \t"} {
		s := store(t, everything, fmt.Sprintf(`{"llm_api_key":%q,"search_api_key":%q,"sandbox_api_key":%q,"llm_model":"","llm_base_url":""}`, blank, blank, blank))
		if s.LLMAPIKey.IsSet() || s.SearchAPIKey.IsSet() || s.SandboxAPIKey.IsSet() {
			t.Errorf("%q did not clear the keys", blank)
		}
		if *s.LLMModel != "" || *s.LLMBaseURL != "" {
			t.Errorf("%q was not stored as an empty text", blank)
		}
	}
}

// TestTrap2UnknownKeysAreIgnored: clients send back what they read, and more.
func TestTrap2UnknownKeysAreIgnored(t *testing.T) {
	s := store(t, `{"llm_model":"p/m","provider_tokens_set":{"github":null},"llm_api_key_set":true,"selected_repository":"a/b",
		"conversation_instructions":"x","git_provider":"github","replay_json":null}`)
	if *s.LLMModel != "p/m" {
		t.Error("not stored")
	}
}

// TestMaskIsNoKey: a client that sends back asterisks never stores them.
func TestMaskIsNoKey(t *testing.T) {
	s := store(t, everything, `{"llm_api_key":"**********","secrets_store":{"provider_tokens":{"github":{"token":"**********"}},
		"custom_secrets":{"S1":{"secret":"**********"}}}}`)
	if s.LLMAPIKey.Reveal() != "k1" || s.Secrets.ProviderTokens["github"].Token.Reveal() != "t1" || s.Secrets.Custom["S1"].Value.Reveal() != "v1" {
		t.Error("the mask replaced a secret")
	}
}

// TestSecretsStoreIsMerged is choice 3 of the contract's section 20.
func TestSecretsStoreIsMerged(t *testing.T) {
	s := store(t, everything, `{"secrets_store":{
		"provider_tokens":{"gitlab":{"token":"t2"},"github":{"token":"","host":"new.example"},"nobody":{"token":"x"},
			"bitbucket":"plain","azure_devops":{"host":"only.example"}},
		"custom_secrets":{"S2":{"secret":"v2"},"PLAIN":"text","S3":{"secret":""},"":{"secret":"x"}}}}`)
	tokens := s.Secrets.ProviderTokens
	if len(tokens) != 2 || tokens["gitlab"].Token.Reveal() != "t2" {
		t.Errorf("tokens: %v", tokens)
	}
	if g := tokens["github"]; g.Token.Reveal() != "t1" || *g.Host != "new.example" || *g.UserID != "u1" {
		t.Errorf("github: %v", g)
	}
	if c := s.Secrets.Custom; len(c) != 2 || c["S2"].Value.Reveal() != "v2" || c["S1"].Description != "d1" {
		t.Errorf("custom: %v", c)
	}
	for _, empty := range []string{`{}`, `{"secrets_store":{}}`, `{"secrets_store":{"provider_tokens":{},"custom_secrets":{}}}`} {
		if s := store(t, everything, empty); len(s.Secrets.ProviderTokens) != 1 || len(s.Secrets.Custom) != 1 {
			t.Errorf("%s wiped the secrets", empty)
		}
	}
}

func TestApplyLeavesTheOldAlone(t *testing.T) {
	old := store(t, everything)
	merge(t, `{"secrets_store":{"custom_secrets":{"S2":{"secret":"v2"}}}}`).Apply(old)
	if len(old.Secrets.Custom) != 1 {
		t.Error("the stored settings were changed")
	}
}

func TestCheckRefuses(t *testing.T) {
	for in, want := range map[string]string{
		`{"condenser_max_size":19}`:                                      `["body","condenser_max_size"] greater_than_equal Input should be greater than or equal to 20`,
		`{"mcp_config":{"x":1}}`:                                         `["body","mcp_config","x"] extra_forbidden Extra inputs are not permitted`,
		`{"secrets_store":{"provider_tokens":{"github":{"token":5}}}}`:   `["body","secrets_store","provider_tokens","github","token"] string_type Input should be a valid string`,
		`{"secrets_store":{"provider_tokens":{"github":{"host":5}}}}`:    `["body","secrets_store","provider_tokens","github","host"] string_type Input should be a valid string`,
		`{"secrets_store":{"custom_secrets":{"A":{"secret":["hush"]}}}}`: `["body","secrets_store","custom_secrets","A","secret"] string_type Input should be a valid string`,
	} {
		var input account.SettingsInput
		if err := json.Unmarshal([]byte(in), &input); err != nil {
			t.Fatal(err)
		}
		_, err := input.Check("body")
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.Invalid || len(f.Fields) != 1 {
			t.Errorf("%s: got %v", in, err)
			continue
		}
		if got := wrong(f.Fields[0]); got != want {
			t.Errorf("%s: got %s", in, got)
		}
		if strings.Contains(fmt.Sprint(f.Fields[0].Input), "hush") {
			t.Errorf("%s: the secret is echoed", in)
		}
	}
}

// TestNoRangeChecks: values that only never help are accepted, as clients expect.
func TestNoRangeChecks(t *testing.T) {
	s := store(t, `{"max_iterations":-1,"max_budget_per_task":0,"agent":"NoSuchAgent","email":"no address","condenser_max_size":20}`)
	if *s.MaxIterations != -1 || *s.CondenserMaxSize != 20 {
		t.Error("not stored")
	}
}
