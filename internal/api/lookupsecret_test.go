package api_test

import (
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/conversation"
)

// Clients of the agent protocol name stored secrets by their addresses: the SDK with the
// server's, the web UI relative to it.
func TestSecretsByTheirAddress(t *testing.T) {
	b := newBench(t, callTool("sh", `{"command":"for s in $KEPT $ALIAS $WHOLE $V1 $TOKEN $DEEP; do printf '[%s]' $s | rev; done"}`), say("done"))
	check(t, b.store.Accounts().UpdateSettings(t.Context(), account.FirstUserID, func(s *account.Settings) (*account.Settings, error) {
		s.Secrets.Custom = map[string]account.CustomSecret{"KEPT": {Value: account.NewSecret("hush-kept")}, "STORED": {Value: account.NewSecret("hush-stored")}}
		s.SetTokens(map[string]account.ProviderToken{"github": {Token: account.NewSecret("hush-github")}})
		return s, nil
	}))
	at := func(url string) map[string]any {
		return map[string]any{"kind": "LookupSecret", "url": url, "headers": map[string]any{"X-Session-API-Key": "hush-key"}, "description": "by address"}
	}
	agent := b.with(nil)["agent"].(map[string]any)
	agent["agent_context"] = map[string]any{"secrets": map[string]any{"DEEP": at("/api/settings/secrets/STORED")}}
	a := b.post(201, conversations, b.with(map[string]any{"agent": agent, "initial_message": userSays("go"), "secrets": map[string]any{
		"KEPT":  at("/api/settings/secrets/KEPT"),
		"ALIAS": at("/api/settings/secrets/STORED"),
		"WHOLE": at(b.server.URL + "/agent/" + b.sandbox + "/api/settings/secrets/STORED"),
		"V1":    at(b.server.URL + "/api/v1/sandboxes/" + b.sandbox + "/settings/secrets/STORED"),
		"TOKEN": at("/api/v1/sandboxes/" + b.sandbox + "/settings/secrets/github_token"),
	}}))
	b.waitFor(hexOf(a), conversation.Finished)
	if strings.Contains(string(a.body), "hush") {
		t.Errorf("the answer shows a secret: %s", a.body)
	}
	log := string(b.as(b.key, "GET", conversations+"/"+a.text("id")+"/events/search", nil).is(200).body)
	if want := "]tpek-hsuh[" + strings.Repeat("]derots-hsuh[", 3) + "]buhtig-hsuh[]derots-hsuh["; !strings.Contains(log, want) {
		t.Errorf("the command did not see %s: %s", want, log)
	}
	path := conversations + "/" + a.text("id")
	b.post(200, path+"/secrets", map[string]any{"secrets": map[string]any{"LATER": at("/api/settings/secrets/STORED"), "KEPT": at("/api/settings/secrets/KEPT")}})
	if sources := b.info(path); walk(t, sources.value(), "secret_registry", "secret_sources", "LATER") == nil {
		t.Errorf("%s", sources.body)
	}
	for _, no := range []string{"/api/settings/secrets/NONE", "/api/settings/secrets/", "/api/settings/secrets/a/b", "http://elsewhere.example/api/settings/secrets/STORED",
		"//elsewhere.example/api/settings/secrets/STORED", "file:///api/settings/secrets/STORED", "http://u:p@" + strings.TrimPrefix(b.server.URL, "http://") + "/api/settings/secrets/STORED",
		"http://169.254.169.254/latest", "/settings/secrets/STORED", "", "::", "javascript:/api/settings/secrets/STORED"} {
		b.post(422, path+"/secrets", map[string]any{"secrets": map[string]any{"X": at(no)}})
	}
	b.post(422, path+"/secrets", map[string]any{"secrets": map[string]any{"X": map[string]any{"kind": "LookupSecret"}}})
}

// Clients call some routes that the protocol does not have, and take 404 as an answer.
func TestRoutesThatNobodyHas(t *testing.T) {
	b := newBench(t)
	for _, path := range []string{"/api/llm/balance", "/api/meta-profiles", "/api/cloud-proxy", "/api/automation/x"} {
		b.as(b.key, "GET", path, nil).is(404)
	}
	b.as(b.key, "POST", "/api/llm/subscription/openai/device/start", nil).is(501)
	b.as(b.key, "DELETE", "/api/llm/provider-connections/x", nil).is(501)
}
