package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/account"
	"parley/internal/conversation"
)

const settingsPath = "/api/v1/settings"

// newcomer is a user without settings; it returns the key.
func (w *world) newcomer() string {
	w.Helper()
	const key = "key-of-a-user-without-settings"
	check(w.TB, w.store.Accounts().PutUser(w.Context(), account.User{ID: "new"}))
	check(w.TB, w.store.Accounts().SetKeys(w.Context(), "new", "test", []account.KeyHash{account.HashKey(key)}))
	return key
}

// store changes the first user's settings.
func (w *world) change(body string) {
	w.Helper()
	if a := w.call(200, "POST", settingsPath, body); string(a.body) != `{"message":"Settings stored"}`+"\n" {
		w.Errorf("%s", a.body)
	}
}

func (w *world) agentDiff(llm string) string { return `{"agent_settings_diff":{"llm":` + llm + `}}` }

// V1 9.1: before the first store, after it, and what a new user is shown.
func TestSettingsOfANewUser(t *testing.T) {
	w := newWorld(t)
	key := w.newcomer()
	if a := w.as(key, "GET", settingsPath, nil).is(404); strings.TrimSpace(string(a.body)) != `{"error":"Settings not found"}` {
		t.Errorf("%s", a.body)
	}
	if a := w.as("", "GET", settingsPath, nil).is(401); a.text("error") != "Invalid token" {
		t.Errorf("%s", a.body)
	}
	w.as(key, "POST", settingsPath, `{}`).is(200)
	a := w.as(key, "GET", settingsPath, nil).is(200)
	const want = `{"language":null,"user_version":null,"remote_runtime_resource_factor":null,"secrets_store":{"provider_tokens":{}},
		"enable_sound_notifications":false,"enable_proactive_conversation_starters":true,"user_consents_to_analytics":null,
		"sandbox_base_container_image":null,"sandbox_runtime_container_image":null,"disabled_skills":null,"search_api_key":null,
		"sandbox_api_key":null,"max_budget_per_task":null,"email":null,"email_verified":null,"git_user_name":null,"git_user_email":null,
		"title_llm_profile":null,"git_full_clone":false,"v1_enabled":true,
		"agent_settings":{"schema_version":5,"agent_kind":"openhands","agent":"CodeActAgent","llm":{"model":"","base_url":null,"api_key":null},
			"mcp_config":{},"condenser":{"enabled":true,"max_size":80}},
		"conversation_settings":{"schema_version":1,"max_iterations":500,"confirmation_mode":false,"security_analyzer":null},
		"sandbox_grouping_strategy":"NO_GROUPING","default_sandbox_spec_id":null,"llm_profiles":{"profiles":{},"active":null},
		"active_agent_profile_id":null,"active_agent_profile_revision":null,"registered_marketplaces":[],"inherited_marketplaces":[],
		"provider_tokens_set":{},"llm_api_key_set":false,"search_api_key_set":false}`
	if diff := cmp.Diff(decoded(t, want), a.value()); diff != "" {
		t.Error(diff)
	}
}

func decoded(t *testing.T, raw string) any {
	t.Helper()
	var v any
	check(t, json.Unmarshal([]byte(raw), &v))
	return v
}

// Every member is stored where the legacy API and the engine find it, and what is
// left out stays.
func TestSettingsArePartial(t *testing.T) {
	w := newWorld(t)
	w.change(`{"language":"de","remote_runtime_resource_factor":2,"enable_sound_notifications":true,"enable_proactive_conversation_starters":false,
		"user_consents_to_analytics":true,"sandbox_base_container_image":"b","sandbox_runtime_container_image":"r","max_budget_per_task":1.5,
		"email":"e@x","email_verified":true,"git_user_name":"n","git_user_email":"g@x","v1_enabled":false,"search_api_key":"hush-search",
		"sandbox_api_key":"hush-sandbox","secrets_store":{"provider_tokens":{"github":{"token":"hush-token","host":"gh.example"}}},
		"agent_settings_diff":{"agent":"A","llm":{"model":"openai/m","api_key":"hush-llm","base_url":"https://x/v1","temperature":0.5},
			"condenser":{"enabled":false,"max_size":30}},
		"conversation_settings_diff":{"max_iterations":7,"confirmation_mode":true,"security_analyzer":"llm"}}`)
	w.change(`{"user_consents_to_analytics":false,"agent_settings_diff":{"llm":{"top_p":0.9}},"conversation_settings_diff":{"max_iterations":8}}`)
	w.change(`{}`)
	s := w.settings()
	l := s.LLM()
	for what, ok := range map[string]bool{"language": *s.Language == "de", "factor": *s.RemoteRuntimeResourceFactor == 2,
		"sound": s.EnableSoundNotifications, "starters": !s.EnableProactiveConversationStarter, "consent": !*s.UserConsentsToAnalytics,
		"images": *s.SandboxBaseContainerImage == "b" && *s.SandboxRuntimeContainerImage == "r", "budget": *s.MaxBudgetPerTask == 1.5,
		"email": *s.Email == "e@x" && *s.EmailVerified, "git": *s.GitUserName == "n" && *s.GitUserEmail == "g@x", "v1": !*s.V1Enabled,
		"keys": s.SearchAPIKey.Reveal() == "hush-search" && s.SandboxAPIKey.Reveal() == "hush-sandbox", "agent": *s.Agent == "A",
		"llm":       *s.LLMModel == "openai/m" && s.LLMAPIKey.Reveal() == "hush-llm" && *s.LLMBaseURL == "https://x/v1",
		"tuning":    *l.Temperature == 0.5 && *l.TopP == 0.9,
		"condenser": !s.EnableDefaultCondenser && *s.CondenserMaxSize == 30, "iterations": *s.MaxIterations == 8,
		"policy": *s.ConfirmationMode && *s.SecurityAnalyzer == "llm", "token": s.Secrets.ProviderTokens["github"].Token.Reveal() == "hush-token"} {
		if !ok {
			t.Errorf("%s is not as sent: %+v", what, s)
		}
	}
	a := w.call(200, "GET", settingsPath, nil)
	if strings.Contains(string(a.body), "hush") {
		t.Errorf("a secret is shown: %s", a.body)
	}
	if a.at("llm_api_key_set") != true || a.at("search_api_key_set") != true || a.text("provider_tokens_set", "github") != "gh.example" ||
		a.at("agent_settings", "llm", "temperature") != 0.5 || a.at("agent_settings", "condenser", "max_size") != 30.0 ||
		a.at("conversation_settings", "max_iterations") != 8.0 {
		t.Errorf("%s", a.body)
	}
	w.change(`{"language":null,"enable_proactive_conversation_starters":null,"max_budget_per_task":null,"search_api_key":null,"sandbox_api_key":"",
		"agent_settings_diff":{"llm":{"api_key":null,"temperature":null},"condenser":null},"conversation_settings_diff":{"max_iterations":null}}`)
	s = w.settings()
	l = s.LLM()
	if s.Language != nil || !s.EnableProactiveConversationStarter || s.MaxBudgetPerTask != nil || !s.SearchAPIKey.IsSet() || s.SandboxAPIKey.IsSet() ||
		l.APIKey.Reveal() != "hush-llm" || l.Temperature != nil || *l.TopP != 0.9 || !s.EnableDefaultCondenser || s.CondenserMaxSize != nil || s.MaxIterations != nil {
		t.Errorf("null: %+v", s)
	}
	if strings.Contains(w.log.String(), "hush") {
		t.Error("a secret is in the log")
	}
}

// Members without an effect come back, also after a request of the legacy API,
// which does not know them; secrets among them are not stored.
func TestSettingsThatAreKept(t *testing.T) {
	w := newWorld(t)
	w.change(`{"disabled_skills":["a","b"],"git_full_clone":true,"sandbox_grouping_strategy":"ADD_TO_ANY","default_sandbox_spec_id":"img:1",
		"registered_marketplaces":[{"name":"m","source":"github:a/b","ref":null,"auto_load":true}],"user_version":3,
		"active_agent_profile_revision":2,"inherited_marketplaces":[1],"llm_profiles":{"profiles":{}},
		"agent_settings_diff":{"tools":[{"name":"terminal"}],"enable_sub_agents":true,"tool_concurrency_limit":2,
			"verification":{"critic_enabled":true,"critic_api_key":"hush-1"},"agent_context":{"secrets":{"X":"hush-2"},"system_message_suffix":"be brief",
			"skills":[{"name":"s","trigger":{"keywords":["k"]},"env":{"Y":"hush-3"}}]},"condenser":{"max_tokens":5,"keep_first":4}},
		"conversation_settings_diff":{"hooks":{"x":[1]}}}`)
	w.change(`{"agent_settings_diff":{"verification":{"critic_threshold":0.25},"tool_concurrency_limit":null}}`)
	w.legacy(`{"language":"fr"}`)
	a := w.call(200, "GET", settingsPath, nil)
	for path, want := range map[string]string{"disabled_skills": `["a","b"]`, "git_full_clone": `true`, "sandbox_grouping_strategy": `"ADD_TO_ANY"`,
		"default_sandbox_spec_id": `"img:1"`, "registered_marketplaces": `[{"auto_load":true,"name":"m","ref":null,"source":"github:a/b"}]`,
		"user_version": `3`, "active_agent_profile_id": `null`, "active_agent_profile_revision": `null`, "inherited_marketplaces": `[]`, "language": `"fr"`,
		"agent_settings tools": `[{"name":"terminal"}]`, "agent_settings enable_sub_agents": `true`,
		"agent_settings verification":  `{"critic_enabled":true,"critic_threshold":0.25}`,
		"agent_settings agent_context": `{"skills":[{"name":"s","trigger":{"keywords":["k"]}}],"system_message_suffix":"be brief"}`,
		"agent_settings condenser":     `{"enabled":true,"keep_first":4,"max_size":80,"max_tokens":5}`,
		"conversation_settings hooks":  `{"x":[1]}`} {
		var steps []any
		for _, step := range strings.Fields(path) {
			steps = append(steps, step)
		}
		got, err := json.Marshal(a.at(steps...))
		check(t, err)
		if string(got) != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if _, there := a.at("agent_settings").(map[string]any)["tool_concurrency_limit"]; there {
		t.Error("null did not remove a member")
	}
	raw, err := account.EncodePrivate(w.settings())
	check(t, err)
	if strings.Contains(string(raw), "hush") {
		t.Errorf("a secret without a use was stored: %s", raw)
	}
	w.change(`{"disabled_skills":null,"git_full_clone":null,"sandbox_grouping_strategy":null,"registered_marketplaces":null,"user_version":null,
		"default_sandbox_spec_id":null,"active_agent_profile_id":null,"active_agent_profile_revision":null,"conversation_settings_diff":{"hooks":null},
		"agent_settings_diff":{"tools":null,"enable_sub_agents":null,"verification":null,"agent_context":null,"condenser":null}}`)
	if kept := w.settings().Kept; kept != nil {
		t.Errorf("%s", kept)
	}
	big := `{"agent_settings_diff":{"agent_context":{"system_message_suffix":"` + strings.Repeat("x", 300<<10) + `"}}}`
	w.call(413, "POST", settingsPath, big)
	if w.settings().Kept != nil {
		t.Error("what is too large was stored")
	}
}

// legacy stores settings as the legacy API does.
func (w *world) legacy(body string) {
	w.Helper()
	var in account.SettingsInput
	check(w.TB, json.Unmarshal([]byte(body), &in))
	merge, err := in.Check("body")
	check(w.TB, err)
	check(w.TB, w.store.Accounts().UpdateSettings(w.Context(), account.FirstUserID,
		func(old *account.Settings) (*account.Settings, error) { return merge.Apply(old), nil }))
}

func TestSettingsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	w.change(`{"language":"de"}`)
	before := w.call(200, "GET", settingsPath, nil)
	for body, want := range map[string]string{
		`[]`:                      "[body] model_attributes_type",
		`{"agent_settings":{}}`:   "[body agent_settings] extra_forbidden",
		`{"agent_settings":null}`: "[body agent_settings] extra_forbidden",
		`{"agent_settings":1,"conversation_settings":{}}`:                               "[body agent_settings] extra_forbidden,[body conversation_settings] extra_forbidden",
		`{"language":1,"max_budget_per_task":"x"}`:                                      "[body language] string_type,[body max_budget_per_task] float_parsing",
		`{"search_api_key":{"x":"hush"}}`:                                               "[body search_api_key] string_type",
		`{"title_llm_profile":"none"}`:                                                  "[body title_llm_profile] value_error",
		`{"sandbox_grouping_strategy":"NONE"}`:                                          "[body sandbox_grouping_strategy] enum",
		`{"disabled_skills":"a"}`:                                                       "[body disabled_skills] list_type",
		`{"agent_settings_diff":[]}`:                                                    "[body agent_settings_diff] model_attributes_type",
		`{"agent_settings_diff":{"agent_kind":"acp"}}`:                                  "[body agent_settings_diff agent_kind] enum",
		`{"agent_settings_diff":{"condenser":{"max_size":19}}}`:                         "[body agent_settings_diff condenser max_size] greater_than_equal",
		`{"conversation_settings_diff":{"max_iterations":0}}`:                           "[body conversation_settings_diff max_iterations] greater_than_equal",
		`{"conversation_settings_diff":{"security_analyzer":"x"}}`:                      "[body conversation_settings_diff security_analyzer] enum",
		w.agentDiff(`{"model":null}`):                                                   "[body agent_settings_diff llm model] missing",
		w.agentDiff(`{"temperature":3,"no_such":1}`):                                    "[body agent_settings_diff llm temperature] less_than_equal,[body agent_settings_diff llm no_such] extra_forbidden",
		`{"title_llm_profile":"x","agent_settings_diff":{"llm":{"temperature":"hot"}}}`: "[body title_llm_profile] value_error,[body agent_settings_diff llm temperature] float_type",
		`{"secrets_store":{"provider_tokens":{"github":{"token":["hush"]}}}}`:           "[body secrets_store provider_tokens github token] string_type",
		`{"agent_settings_diff":{"mcp_config":{"a":{"url":"x","auth":{"strategy":"basic","password":"hush"}},"b c":{"command":"c","no":1}}}}`: "[body agent_settings_diff mcp_config a url] value_error," +
			"[body agent_settings_diff mcp_config a auth] value_error,[body agent_settings_diff mcp_config b c] value_error,[body agent_settings_diff mcp_config b c no] extra_forbidden",
	} {
		a := w.call(422, "POST", settingsPath, body)
		var got []string
		for _, d := range a.list("detail") {
			m, _ := d.(map[string]any)
			got = append(got, fmt.Sprint(m["loc"], " ", m["type"]))
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s:\n%s, want\n%s", body, strings.Join(got, ","), want)
		}
		if a.text("error") == "" || strings.Contains(string(a.body), "hush") {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	if after := w.call(200, "GET", settingsPath, nil); string(after.body) != string(before.body) {
		t.Errorf("something was stored: %s", after.body)
	}
}

// A stored key is never sent to another endpoint, and stays with its own.
func TestSettingsKeepTheKeyAtItsPlace(t *testing.T) {
	w := newWorld(t)
	for _, x := range []struct {
		llm, key string // "" = refused
	}{
		{`{"model":"openai/a","api_key":"k-1"}`, "k-1"},
		{`{"model":"openai/b"}`, "k-1"},
		{`{"model":"openai/b","api_key":null}`, "k-1"},
		{`{"model":"openai/b","api_key":"**********"}`, "k-1"},
		{`{"model":"anthropic/b"}`, ""},
		{`{"base_url":"https://evil.example"}`, ""},
		{`{"base_url":"https://evil.example","api_key":null}`, ""},
		{`{"base_url":"https://evil.example","api_key":"**********"}`, ""},
		{`{"base_url":"https://mine.example","api_key":"k-2","extra_headers":{"X":"k-h"}}`, "k-2"},
		{`{"base_url":"https://MINE.example/","extra_headers":{"Y":"k-i"}}`, "k-2"},
		{`{"base_url":null,"api_key":"k-3"}`, ""}, // the headers would go there
		{`{"base_url":null,"api_key":"k-3","extra_headers":null}`, "k-3"},
		{`{"model":"ollama/a","base_url":"http://127.0.0.1:1","api_key":""}`, "none"},
		{`{"model":"openai/a","base_url":null}`, "none"},
	} {
		before := w.settings().LLM()
		if x.key == "" {
			w.call(422, "POST", settingsPath, w.agentDiff(x.llm))
			if diff := cmp.Diff(before, w.settings().LLM(), cmp.Comparer(func(a, b account.Secret) bool { return a == b })); diff != "" {
				t.Errorf("%s: refused, and stored: %s", x.llm, diff)
			}
			continue
		}
		w.call(200, "POST", settingsPath, w.agentDiff(x.llm))
		l := w.settings().LLM()
		if got := l.APIKey.Reveal(); got != x.key && (x.key != "none" || got != "") {
			t.Errorf("%s: key %q, want %q", x.llm, got, x.key)
		}
		if strings.Contains(x.llm, `"Y"`) && (l.ExtraHeaders["X"].Reveal() != "k-h" || l.ExtraHeaders["Y"].Reveal() != "k-i") {
			t.Errorf("%s: headers %d", x.llm, len(l.ExtraHeaders))
		}
	}
}

// The active flag holds as long as the settings are the profile's.
func TestSettingsAndTheActiveProfile(t *testing.T) {
	for diff, active := range map[string]bool{
		`{}`: true,
		`{"model":"` + profmodel + `","litellm_extra_body":{"a":1},"stream":true}`: true,
		`{"api_key":null,"temperature":0.5}`:                                       true,
		`{"api_key":"` + profkey + `"}`:                                            true,
		`{"api_key":"another"}`:                                                    false,
		`{"temperature":0.6}`:                                                      false,
		`{"stream":null}`:                                                          false,
		`{"model":"openai/other"}`:                                                 false,
	} {
		w := newWorld(t)
		w.call(201, "POST", profiles+"/p", llmOf(profmodel, "temperature", 0.5, "extra_headers", map[string]any{"X": "hush"},
			"litellm_extra_body", map[string]any{"a": 1}, "stream", true))
		w.call(200, "POST", profiles+"/p/activate", nil)
		w.change(w.agentDiff(diff))
		a := w.call(200, "GET", settingsPath, nil)
		if (a.at("llm_profiles", "active") == "p") != active {
			t.Errorf("%s: %s", diff, a.body)
		}
		if a.at("llm_profiles", "profiles", "p", "api_key") != nil || strings.Contains(string(a.body), "hush") || strings.Contains(string(a.body), profkey) {
			t.Errorf("%s", a.body)
		}
	}
}

func TestTitleProfileInTheSettings(t *testing.T) {
	w := newWorld(t)
	w.call(201, "POST", profiles+"/cheap", llmOf(profmodel))
	w.change(`{"title_llm_profile":"cheap"}`)
	w.legacy(`{}`)
	w.call(200, "POST", profiles+"/cheap/rename", map[string]any{"new_name": "cheaper"})
	if a := w.call(200, "GET", settingsPath, nil); a.text("title_llm_profile") != "cheaper" {
		t.Errorf("%s", a.body)
	}
	w.call(422, "POST", settingsPath, `{"title_llm_profile":"cheap"}`)
	if got := w.settings().TitleProfile; got != "cheaper" {
		t.Errorf("%q", got)
	}
	w.change(`{"title_llm_profile":null}`)
	if a := w.call(200, "GET", settingsPath, nil); a.at("title_llm_profile") != nil {
		t.Errorf("%s", a.body)
	}
	w.call(422, "POST", profiles+"/cheaper/rename", map[string]any{"new_name": ".."})
	w.call(422, "POST", profiles+"/%2E", llmOf(profmodel))
}

// MCP servers go by their names, and keep their secrets there.
func TestMCPServersInTheSettings(t *testing.T) {
	w := newWorld(t)
	mcp := func(servers string) string { return `{"agent_settings_diff":{"mcp_config":` + servers + `}}` }
	w.change(mcp(`{"files":{"command":"npx","args":["-y","x"],"env":{"K":"hush-1","L":"v"},"cwd":"/w","timeout":9},
		"web":{"url":"https://a.example/mcp","auth":{"strategy":"bearer","value":"hush-2"},"timeout":30,"description":"d"},
		"old":{"url":"https://b.example/sse","transport":"sse","headers":{"Authorization":"Bearer hush-3"},"enabled":false}}`))
	a := w.call(200, "GET", settingsPath, nil)
	const want = `{"files":{"transport":"stdio","command":"npx","args":["-y","x"],"env":{"K":"**********","L":"**********"},"cwd":"/w","timeout":9,"enabled":true},
		"web":{"transport":"http","url":"https://a.example/mcp","auth":{"strategy":"bearer","value":"**********"},"timeout":30,"description":"d","enabled":true},
		"old":{"transport":"sse","url":"https://b.example/sse","auth":{"strategy":"bearer","value":"**********"},"timeout":null,"enabled":false}}`
	if diff := cmp.Diff(decoded(t, want), a.at("agent_settings", "mcp_config")); diff != "" {
		t.Error(diff)
	}
	shown, err := json.Marshal(a.at("agent_settings", "mcp_config"))
	check(t, err)
	w.change(mcp(string(shown))) // what a form does
	w.change(`{"agent_settings_diff":{"agent":"A"}}`)
	c := w.settings().MCP
	if c.Stdio[0].Env["K"].Reveal() != "hush-1" || c.SHTTP[0].APIKey.Reveal() != "hush-2" || c.SSE[0].APIKey.Reveal() != "hush-3" {
		t.Errorf("a secret was lost: %+v", c)
	}
	if e := c.Enabled(); len(e.SSE) != 0 || len(e.Stdio) != 1 || len(e.SHTTP) != 1 {
		t.Errorf("%+v", e)
	}
	id, _ := w.begin(map[string]any{})
	conv, err := w.store.Conversations().Get(t.Context(), account.FirstUserID, conversation.ID(id))
	check(t, err)
	if got := conv.Options.MCP; got == nil || len(got.SSE) != 0 || len(got.SHTTP) != 1 {
		t.Errorf("the conversation got %+v", got)
	}
	w.call(422, "POST", settingsPath, mcp(strings.Replace(string(shown), "a.example", "evil.example", 1)))
	w.call(422, "POST", settingsPath, mcp(strings.Replace(string(shown), "npx", "other", 1)))
	w.change(mcp(`{"web":{"url":"https://a.example/mcp","auth":{"strategy":"bearer","value":null}},"new":{"command":"c","env":{"K":"**********"}}}`))
	c = w.settings().MCP // replaced, not merged
	if len(c.SSE) != 0 || len(c.Stdio) != 1 || len(c.Stdio[0].Env) != 0 || c.SHTTP[0].APIKey.Reveal() != "hush-2" {
		t.Errorf("%+v", c)
	}
	w.legacy(`{"mcp_config":{"shttp_servers":[{"url":"https://c.example","api_key":"hush-4"}]}}`)
	if a := w.call(200, "GET", settingsPath, nil); a.text("agent_settings", "mcp_config", "shttp-1", "url") != "https://c.example" {
		t.Errorf("%s", a.body)
	}
	w.change(mcp(`{"shttp-1":{"url":"https://c.example","auth":{"strategy":"bearer","value":"**********"}}}`))
	if c = w.settings().MCP; c.SHTTP[0].APIKey.Reveal() != "hush-4" {
		t.Errorf("%+v", c)
	}
	w.change(mcp(`{"sse_servers":["https://d.example"]}`))
	if c = w.settings().MCP; len(c.SSE) != 1 || len(c.SHTTP) != 0 {
		t.Errorf("%+v", c)
	}
	w.change(mcp(`null`))
	if c = w.settings().MCP; c != nil {
		t.Errorf("%+v", c)
	}
}
