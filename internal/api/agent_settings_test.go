package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fernet"
)

const (
	llmSecret    = "sk-llm-key-of-the-user" // of the first user's settings
	serverSecret = "token-of-an-mcp-server-0123"
)

// box starts a conversation and returns its sandbox's key and the prefix below which
// the owner's key opens it.
func (w *world) box() (key, prefix string) {
	w.Helper()
	_, a := w.begin(map[string]any{})
	return a.text("session_api_key"), "/agent/" + a.text("sandbox_id")
}

// exposed calls with the owner's key and X-Expose-Secrets.
func (w *world) exposed(want int, how, path string) *answer {
	w.Helper()
	return w.do("GET", path, http.Header{"X-Session-Api-Key": {userKey}, "X-Expose-Secrets": {how}}, nil).is(want)
}

// hides fails if a secret is in an answer or in the server's log.
func (w *world) hides(a *answer, secrets ...string) {
	w.Helper()
	for _, secret := range secrets {
		if strings.Contains(string(a.body), secret) {
			w.Errorf("the answer shows a secret: %s", a.body)
		}
		if strings.Contains(w.log.String(), secret) {
			w.Error("the log shows a secret")
		}
	}
}

// Agent protocol 1.8, GET and PATCH /api/settings.
func TestAgentSettings(t *testing.T) {
	w := newWorld(t)
	key, at := w.box()
	for _, a := range []*answer{w.as(key, "GET", "/api/settings", nil).is(200), w.call(200, "GET", at+"/api/settings", nil)} {
		if a.text("agent_settings", "llm", "model") != "test/model" || a.text("agent_settings", "llm", "api_key") != account.Mask ||
			a.at("llm_api_key_is_set") != true || a.at("active_profile") != nil || a.at("conversation_settings", "max_iterations") != 500.0 ||
			a.at("agent_settings", "enable_switch_llm_tool") != true || len(a.at("misc_settings").(map[string]any)) != 0 {
			t.Errorf("%s", a.body)
		}
		w.hides(a, llmSecret)
	}
	a := w.call(200, "PATCH", at+"/api/settings", map[string]any{
		"agent_settings_diff": map[string]any{"llm": map[string]any{"temperature": 0.5, "api_key": account.Mask},
			"mcp_config": map[string]any{"a": map[string]any{"url": "https://a.example/mcp", "auth": map[string]any{"strategy": "bearer", "value": serverSecret}},
				"b": map[string]any{"command": "run-b", "env": map[string]any{"T": serverSecret}}},
			"tools": []any{map[string]any{"name": "sh"}}},
		"conversation_settings_diff": map[string]any{"max_iterations": 7},
		"misc_settings_diff":         map[string]any{"app_preferences": map[string]any{"theme": "dark", "size": 3}}})
	if a.at("agent_settings", "llm", "temperature") != 0.5 || a.at("conversation_settings", "max_iterations") != 7.0 ||
		a.text("misc_settings", "app_preferences", "theme") != "dark" || a.text("agent_settings", "tools", 0, "name") != "sh" {
		t.Errorf("%s", a.body)
	}
	w.hides(a, llmSecret, serverSecret)
	if w.settings().LLMAPIKey.Reveal() != llmSecret {
		t.Error("the mask replaced the key")
	}
	a = w.call(200, "PATCH", at+"/api/settings", `{"agent_settings_diff":{"mcp_config":{"b":null,"a":{"timeout":9}},"tools":null},
		"misc_settings_diff":{"app_preferences":{"theme":null}}}`)
	if servers := a.at("agent_settings", "mcp_config").(map[string]any); len(servers) != 1 || a.at("agent_settings", "mcp_config", "a", "timeout") != 9.0 ||
		a.at("agent_settings", "tools") != nil || a.at("misc_settings", "app_preferences", "size") != 3.0 {
		t.Errorf("not merged deeply: %s", a.body)
	}
	if got := w.settings().MCP.SHTTP[0].APIKey.Reveal(); got != serverSecret {
		t.Errorf("the server's key became %q", got)
	}
	if v1 := w.call(200, "GET", settingsPath, nil); v1.at("agent_settings", "llm", "temperature") != 0.5 {
		t.Errorf("V1 shows other settings: %s", v1.body)
	}
}

func TestAgentSettingsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	_, at := w.box()
	w.call(400, "PATCH", at+"/api/settings", `{}`)
	w.call(400, "PATCH", at+"/api/settings", `{"unknown":1}`)
	for name, body := range map[string]string{
		"a wrong value":           `{"agent_settings_diff":{"llm":{"temperature":"hot"}}}`,
		"a wrong server":          `{"agent_settings_diff":{"mcp_config":{"a":{}}}}`,
		"an unknown agent":        `{"active_agent_profile_id":"` + uuid.NewString() + `"}`,
		"the key elsewhere":       `{"agent_settings_diff":{"llm":{"base_url":"https://elsewhere.example"}}}`,
		"a token of somebody":     `{"agent_settings_diff":{"llm":{"api_key":"` + fernet.Of("other").Encrypt("x") + `"}}}`,
		"another kind of agent":   `{"agent_settings_diff":{"agent_kind":"acp"}}`,
		"too few for a condenser": `{"agent_settings_diff":{"condenser":{"max_size":3}}}`,
	} {
		if a := w.call(422, "PATCH", at+"/api/settings", body); len(a.list("detail")) == 0 {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	w.call(404, "PATCH", at+"/api/settings", `{"active_profile":"none"}`)
	if s := w.settings(); *s.LLMModel != "test/model" || s.Tuning != nil && s.Tuning.Temperature != nil {
		t.Error("a refused change changed something")
	}
}

func TestActiveProfileInAgentSettings(t *testing.T) {
	w := newWorld(t)
	_, at := w.box()
	w.call(201, "POST", profiles+"/p", llmOf(profmodel))
	if a := w.call(200, "PATCH", at+"/api/settings", `{"active_profile":"p"}`); a.text("active_profile") != "p" || a.text("agent_settings", "llm", "model") != profmodel {
		t.Errorf("%s", a.body)
	}
	if a := w.call(200, "PATCH", at+"/api/settings", `{"active_profile":null}`); a.at("active_profile") != nil || a.text("agent_settings", "llm", "model") != profmodel {
		t.Errorf("%s", a.body)
	}
	w.call(200, "PATCH", at+"/api/settings", `{"agent_settings_diff":{"llm":{"model":"test/model","api_key":"sk-again"}}}`)
	a := w.call(200, "PATCH", at+"/api/settings", `{"active_profile":"p","agent_settings_diff":{"llm":{"temperature":0.1}}}`)
	if a.at("active_profile") != nil || a.text("agent_settings", "llm", "model") != "test/model" {
		t.Errorf("a profile is active whose model is not chosen: %s", a.body)
	}
	w.hides(a, profkey, "sk-again")
}

// What is shown encrypted is taken back by a start and by a change, and is the key.
func TestSecretsGoRoundEncrypted(t *testing.T) {
	w := newWorld(t, say("hello"))
	_, at := w.box()
	w.call(200, "PATCH", at+"/api/settings", map[string]any{"agent_settings_diff": map[string]any{"mcp_config": map[string]any{
		"a": map[string]any{"url": "https://a.example/mcp", "enabled": false, "headers": map[string]any{"X-Key": serverSecret}}}}})
	a := w.exposed(200, "encrypted", at+"/api/settings")
	w.hides(a, llmSecret, serverSecret)
	token, other := a.text("agent_settings", "llm", "api_key"), a.text("agent_settings", "mcp_config", "a", "headers", "X-Key")
	if !fernet.IsToken(token) || !fernet.IsToken(other) || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%s", a.body)
	}
	settings, _ := a.at("agent_settings").(map[string]any)
	settings["llm"].(map[string]any)["stream"] = true
	b := w.call(201, "POST", at+"/api/conversations", map[string]any{"agent_settings": settings, "secrets_encrypted": true,
		"secrets":   map[string]any{"S": map[string]any{"kind": "StaticSecret", "value": other}},
		"workspace": map[string]any{"working_dir": "."}, "initial_message": map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": token}}}})
	id := strings.ReplaceAll(b.text("id"), "-", "")
	w.waitFor(id, conversation.Finished)
	v, err := w.engine.View(t.Context(), account.FirstUserID, conversation.ID(id))
	check(t, err)
	o := v.Options
	if o.LLM.APIKey.Reveal() != llmSecret || o.Secrets["S"].Value.Reveal() != serverSecret || o.MCP.SHTTP[0].Headers["X-Key"].Reveal() != serverSecret {
		t.Error("the secrets of the start are not those that were encrypted")
	}
	w.hides(b, llmSecret, serverSecret)
	w.call(200, "PATCH", at+"/api/settings", map[string]any{"agent_settings_diff": settings})
	if s := w.settings(); s.LLMAPIKey.Reveal() != llmSecret || s.MCP.SHTTP[0].Headers["X-Key"].Reveal() != serverSecret {
		t.Error("a change with the encrypted values replaced the secrets")
	}
	plain := w.exposed(200, "plaintext", at+"/api/settings")
	if plain.text("agent_settings", "llm", "api_key") != llmSecret || plain.text("agent_settings", "mcp_config", "a", "headers", "X-Key") != serverSecret {
		t.Errorf("%s", plain.body)
	}
	if log := w.log.String(); strings.Contains(log, llmSecret) || strings.Contains(log, token) {
		t.Error("the log shows a secret")
	}
}

func TestStartWithWhatOthersEncryptedIsRefused(t *testing.T) {
	w := newWorld(t)
	key, at := w.box()
	body := func(token string) map[string]any {
		return map[string]any{"agent": map[string]any{"kind": "Agent", "llm": map[string]any{"model": "test/model", "api_key": token, "base_url": "https://x.example"}},
			"secrets_encrypted": true, "workspace": map[string]any{"working_dir": "."}}
	}
	foreign := w.call(422, "POST", at+"/api/conversations", body(fernet.Of("cipher of "+otherUser).Encrypt("x")))
	if got := foreign.list("detail", 0, "loc"); got[len(got)-1] != "api_key" {
		t.Errorf("%s", foreign.body)
	}
	// What runs in a sandbox must not have a key sent where it likes.
	own := fernet.Of("cipher of " + account.FirstUserID).Encrypt(llmSecret)
	if a := w.as(key, "POST", at+"/api/conversations", body(own)).is(403); a.text("code") != "owner_key_required" {
		t.Errorf("%s", a.body)
	}
	w.as(key, "POST", at+"/api/conversations", body("sk-plain")).is(201) // the flag alone is nothing
}

func TestExposedProfiles(t *testing.T) {
	w := newWorld(t)
	key, at := w.box()
	w.call(201, "POST", profiles+"/p", llmOf(profmodel, "extra_headers", map[string]any{"X": serverSecret}))
	for _, a := range []*answer{w.as(key, "GET", "/api/profiles/p", nil).is(200), w.call(200, "GET", at+"/api/profiles/p", nil)} {
		if w.hides(a, profkey, serverSecret); a.at("config", "api_key") != nil {
			t.Errorf("%s", a.body)
		}
	}
	a := w.exposed(200, "true", at+"/api/profiles/p")
	w.hides(a, profkey, serverSecret)
	w.call(201, "POST", at+"/api/profiles/q", map[string]any{"llm": a.at("config")})
	if p, err := w.settings().Profile("q"); err != nil || p.APIKey.Reveal() != profkey || p.ExtraHeaders["X"].Reveal() != serverSecret {
		t.Errorf("%v", err)
	}
	if a := w.exposed(200, "plaintext", at+"/api/profiles/p"); a.text("config", "api_key") != profkey {
		t.Errorf("%s", a.body)
	}
	w.hides(w.exposed(200, "plaintext", at+"/api/profiles"), profkey)
	w.exposed(400, "everything", at+"/api/settings")
	w.exposed(400, "everything", at+"/api/profiles")
}

// The key of a sandbox changes nothing of its owner's, and reads nothing unmasked.
func TestSandboxKeyIsNotTheOwners(t *testing.T) {
	w := newWorld(t)
	key, at := w.box()
	w.call(201, "POST", profiles+"/p", llmOf(profmodel))
	w.call(200, "PUT", at+"/api/settings/secrets", map[string]any{"name": "S", "value": "value-of-s"})
	for _, base := range []string{"", at} {
		for _, x := range []struct {
			method, path string
			body         any
		}{
			{"PATCH", "/api/settings", map[string]any{"conversation_settings_diff": map[string]any{"max_iterations": 3}}},
			{"POST", "/api/settings/mcp/s", map[string]any{"url": "https://x.example"}},
			{"PATCH", "/api/settings/mcp/s", map[string]any{"url": "https://x.example"}},
			{"DELETE", "/api/settings/mcp/s", nil},
			{"PUT", "/api/settings/secrets", map[string]any{"name": "S", "value": "x"}},
			{"DELETE", "/api/settings/secrets/S", nil},
			{"POST", "/api/profiles/p", llmOf(profmodel)},
			{"DELETE", "/api/profiles/p", nil},
			{"POST", "/api/profiles/p/rename", map[string]any{"new_name": "q"}},
			{"POST", "/api/profiles/p/activate", nil},
		} {
			if a := w.as(key, x.method, base+x.path, x.body).is(403); a.text("code") != "owner_key_required" || !strings.Contains(a.text("detail"), "/agent/{sandbox_id}") {
				t.Errorf("%s %s: %s", x.method, x.path, a.body)
			}
		}
		for _, how := range []string{"encrypted", "true", "plaintext"} {
			for _, path := range []string{"/api/settings", "/api/profiles", "/api/profiles/p"} {
				a := w.do("GET", base+path, http.Header{"X-Session-Api-Key": {key}, "X-Expose-Secrets": {how}}, nil).is(403)
				w.hides(a, profkey, llmSecret)
			}
		}
	}
	if s := w.settings(); s.MaxIterations != nil || len(s.Profiles) != 1 || s.Secrets.Custom["S"].Value.Reveal() != "value-of-s" {
		t.Error("something changed")
	}
}

// Where a server serves one sandbox and its only user, their keys are the same.
func TestOwnerKeys(t *testing.T) {
	w := newWorldWith(t, func(c *config) { c.agent.OwnerKeys = true })
	key, _ := w.box()
	w.as(key, "PATCH", "/api/settings", map[string]any{"conversation_settings_diff": map[string]any{"max_iterations": 3}}).is(200)
	w.as(key, "POST", "/api/profiles/p", llmOf(profmodel)).is(201)
	a := w.do("GET", "/api/settings", http.Header{"X-Session-Api-Key": {key}, "X-Expose-Secrets": {"plaintext"}}, nil).is(200)
	if a.text("agent_settings", "llm", "api_key") != llmSecret || *w.settings().MaxIterations != 3 {
		t.Errorf("%s", a.body)
	}
}

func TestNoCipher(t *testing.T) {
	w := newWorldWith(t, func(c *config) { c.agent.Cipher = nil })
	_, at := w.box()
	w.exposed(503, "encrypted", at+"/api/settings")
	w.exposed(200, "plaintext", at+"/api/settings")
}

func TestSecretsOfTheSettings(t *testing.T) {
	w := newWorld(t)
	key, at := w.box()
	const value = "line one\nline two: s3cr3t-value"
	path := at + "/api/settings/secrets"
	a := w.call(200, "PUT", path, map[string]any{"name": "TOKEN_1", "value": value, "description": "of a thing"})
	w.hides(a, value)
	w.call(200, "PUT", path, map[string]any{"name": "B", "value": "b"})
	a = w.call(200, "GET", path, nil)
	if a.text("secrets", 1, "name") != "TOKEN_1" || a.text("secrets", 1, "description") != "of a thing" || a.at("secrets", 0, "description") != nil {
		t.Errorf("%s", a.body)
	}
	w.hides(a, value)
	for _, k := range []string{userKey, key} {
		got := w.as(k, "GET", path+"/TOKEN_1", nil).is(200)
		if string(got.body) != value || !strings.HasPrefix(got.header.Get("Content-Type"), "text/plain") || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%q %v", got.body, got.header)
		}
	}
	w.call(200, "PUT", path, map[string]any{"name": "TOKEN_1", "value": account.Mask})
	if c := w.settings().Secrets.Custom["TOKEN_1"]; c.Value.Reveal() != value || c.Description != "of a thing" {
		t.Error("the mask changed the secret")
	}
	w.call(422, "PUT", path, map[string]any{"name": "NEW", "value": account.Mask})
	w.call(422, "PUT", path, map[string]any{"name": "1", "value": "x"})
	w.hides(w.call(422, "PUT", path, map[string]any{"name": "TOKEN_2", "value": strings.Repeat("long-secret", 10_000)}), "long-secret")
	w.call(422, "GET", path+"/no-name", nil)
	w.call(404, "GET", path+"/NONE", nil)
	w.as(otherKey, "GET", path+"/TOKEN_1", nil).is(404)
	w.as("", "GET", path+"/TOKEN_1", nil).is(401)
	if a := w.call(200, "DELETE", path+"/TOKEN_1", nil); a.at("deleted") != true {
		t.Errorf("%s", a.body)
	}
	w.call(404, "DELETE", path+"/TOKEN_1", nil)
	w.call(404, "GET", path+"/TOKEN_1", nil)
	if strings.Contains(w.log.String(), "s3cr3t-value") {
		t.Error("the log shows a secret")
	}
}

func TestServersOfAgentSettings(t *testing.T) {
	w := newWorld(t)
	_, at := w.box()
	path := at + "/api/settings/mcp/s"
	body := map[string]any{"url": "https://s.example/mcp", "headers": map[string]any{"X-Key": serverSecret}}
	a := w.call(201, "POST", path, body)
	w.hides(a, serverSecret)
	if a.text("agent_settings", "mcp_config", "s", "headers", "X-Key") != account.Mask {
		t.Errorf("%s", a.body)
	}
	w.call(409, "POST", path, body)
	a = w.call(200, "PATCH", path, map[string]any{"enabled": false})
	if s := w.settings().MCP.SHTTP[0]; !s.Disabled || s.Headers["X-Key"].Reveal() != serverSecret {
		t.Errorf("%s", a.body)
	}
	w.call(422, "PATCH", path, map[string]any{"url": "https://elsewhere.example"}) // the header was for the other place
	w.call(422, "POST", at+"/api/settings/mcp/t", map[string]any{})
	w.call(422, "POST", at+"/api/settings/mcp/t.t", body)
	w.call(404, "PATCH", at+"/api/settings/mcp/none", body)
	w.call(404, "DELETE", at+"/api/settings/mcp/none", nil)
	if a := w.call(200, "DELETE", path, nil); len(a.at("agent_settings", "mcp_config").(map[string]any)) != 0 {
		t.Errorf("%s", a.body)
	}
}

func TestNoProviderConnections(t *testing.T) {
	w := newWorld(t)
	key, _ := w.box()
	if a := w.as(key, "GET", "/api/llm/provider-connections", nil).is(200); len(a.list()) != 0 {
		t.Errorf("%s", a.body)
	}
	if a := w.as(key, "GET", "/api/plugins/installed", nil).is(200); len(a.list("plugins")) != 0 {
		t.Errorf("%s", a.body)
	}
	w.as(key, "POST", "/api/plugins", map[string]any{}).is(501)
	w.as(key, "POST", "/api/llm/provider-connections", map[string]any{"provider": "openai"}).is(501)
}

// What a form offers can be set, all at once.
func TestFormsOfTheSettings(t *testing.T) {
	w := newWorld(t)
	key, at := w.box()
	change := map[string]any{}
	for form, part := range map[string]string{"agent-schema": "agent_settings", "conversation-schema": "conversation_settings"} {
		a := w.as(key, "GET", "/api/settings/"+form, nil).is(200)
		diff := map[string]any{}
		for i := range a.list("sections") {
			for _, field := range a.list("sections", i, "fields") {
				set(diff, walk(t, field, "key").(string), sample(t, field))
			}
		}
		change[part+"_diff"] = diff
	}
	a := w.call(200, "PATCH", at+"/api/settings", change)
	if a.text("agent_settings", "llm", "model") != "one" || a.at("agent_settings", "llm", "timeout") != 30.0 || a.at("conversation_settings", "max_iterations") != 30.0 {
		t.Errorf("%s", a.body)
	}
}

// sample is a value that a field of a form takes.
func sample(t *testing.T, field any) any {
	t.Helper()
	switch kind := walk(t, field, "value_type"); kind {
	case "boolean":
		return true
	case "integer", "number":
		if name := walk(t, field, "key"); name == "llm.temperature" || name == "llm.top_p" {
			return 0.5
		}
		return 30
	case "object":
		return map[string]any{}
	}
	if choices := walk(t, field, "choices").([]any); len(choices) > 0 {
		return walk(t, choices[0], "value")
	}
	return "one"
}

// set sets the member at a path with dots.
func set(in map[string]any, path string, v any) {
	name, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		in[name] = v
		return
	}
	if in[name] == nil {
		in[name] = map[string]any{}
	}
	set(in[name].(map[string]any), rest, v)
}
