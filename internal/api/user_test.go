package api_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/internal/account"
)

const (
	secretsPath = "/api/v1/secrets"
	keysPath    = "/api/keys"
	mePath      = "/api/v1/users/me"
)

// V1 9.3.
func TestSecretsOfV1(t *testing.T) {
	w := newWorld(t)
	const value = "v4lue-of-a-secret"
	for i := range 5 {
		a := w.call(201, "POST", secretsPath, map[string]any{"name": fmt.Sprintf("NAME_%d", i), "value": value, "description": "d"})
		if w.hides(a, value); a.text("message") == "" {
			t.Errorf("%s", a.body)
		}
	}
	a := w.call(200, "GET", secretsPath+"/search?limit=2", nil)
	if a.text("items", 1, "name") != "NAME_1" || a.text("items", 1, "description") != "d" || a.text("next_page_id") != "2" {
		t.Errorf("%s", a.body)
	}
	w.hides(a, value)
	if a := w.call(200, "GET", secretsPath+"/search?limit=2&page_id=4", nil); a.text("items", 0, "name") != "NAME_4" || a.at("next_page_id") != nil {
		t.Errorf("%s", a.body)
	}
	for _, page := range []string{"nonsense", "-1"} { // restart at the beginning
		if a := w.call(200, "GET", secretsPath+"/search?page_id="+page, nil); len(a.list("items")) != 5 {
			t.Errorf("%s", a.body)
		}
	}
	if a := w.call(200, "GET", secretsPath+"/search?page_id=99", nil); len(a.list("items")) != 0 {
		t.Errorf("%s", a.body)
	}
	if a := w.call(200, "GET", secretsPath+"/search?name__contains=e_3", nil); len(a.list("items")) != 1 {
		t.Errorf("%s", a.body)
	}
	w.call(422, "GET", secretsPath+"/search?limit=101", nil)

	w.call(200, "PUT", secretsPath+"/NAME_0", map[string]any{"name": "other name/../x"[:10], "description": nil})
	if c := w.settings().Secrets.Custom["other name"]; c.Value.Reveal() != value || c.Description != "d" {
		t.Errorf("%+v", c)
	}
	if a := w.call(400, "PUT", secretsPath+"/NAME_1", map[string]any{"name": "NAME_2"}); !strings.Contains(a.text("message"), "already") {
		t.Errorf("%s", a.body)
	}
	if a := w.call(404, "PUT", secretsPath+"/NAME_0", map[string]any{"name": "X"}); a.text("error") == "" {
		t.Errorf("%s", a.body)
	}
	w.call(201, "POST", secretsPath, map[string]any{"name": "NAME_1", "value": "new"}) // upsert
	if w.settings().Secrets.Custom["NAME_1"].Value.Reveal() != "new" {
		t.Error("not replaced")
	}
	for _, body := range []map[string]any{{"name": "", "value": "x"}, {"name": "a/b", "value": "x"}, {"name": "A"}, {"name": "A", "value": ""}, {"name": "A", "value": []any{value}}} {
		w.hides(w.call(422, "POST", secretsPath, body), value)
	}
	w.call(200, "DELETE", secretsPath+"/other%20name", nil)
	w.call(404, "DELETE", secretsPath+"/other%20name", nil)
	if a := w.as(otherKey, "GET", secretsPath+"/search", nil).is(200); len(a.list("items")) != 0 {
		t.Errorf("%s", a.body)
	}
	w.as(otherKey, "DELETE", secretsPath+"/NAME_1", nil).is(404)
	w.as("", "GET", secretsPath+"/search", nil).is(401)
}

// V1 3.2: a sandbox fetches what its owner hands to it, with its own key and no other.
func TestSecretsOfASandbox(t *testing.T) {
	w := newWorld(t)
	key, at := w.box()
	other, _ := w.box()
	path := "/api/v1/sandboxes/" + strings.TrimPrefix(at, "/agent/") + "/settings/secrets"
	const value, token = "v4lue-of-a-secret", "ghp_t0ken-of-the-user"
	w.call(201, "POST", secretsPath, map[string]any{"name": "MINE", "value": value})
	check(t, w.store.Accounts().UpdateSettings(t.Context(), account.FirstUserID, func(s *account.Settings) (*account.Settings, error) {
		s.Secrets.ProviderTokens = map[string]account.ProviderToken{"github": {Token: account.NewSecret(token)}, "gitlab": {}}
		return s, nil
	}))
	a := w.as(key, "GET", path, nil).is(200)
	if len(a.list("secrets")) != 2 || a.text("secrets", 0, "name") != "MINE" || a.text("secrets", 1, "name") != "github_token" {
		t.Errorf("%s", a.body)
	}
	w.hides(a, value, token)
	for name, want := range map[string]string{"MINE": value, "github_token": token, "GITHUB_TOKEN": token} {
		b := w.as(key, "GET", path+"/"+name, nil).is(200)
		if string(b.body) != want || !strings.HasPrefix(b.header.Get("Content-Type"), "text/plain") || b.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %q %v", name, b.body, b.header)
		}
	}
	w.as(key, "GET", path+"/gitlab_token", nil).is(404)
	w.as(key, "GET", path+"/NONE", nil).is(404)
	w.call(201, "POST", secretsPath, map[string]any{"name": "github_token", "value": "my own"})
	if b := w.as(key, "GET", path+"/github_token", nil).is(200); string(b.body) != "my own" {
		t.Errorf("%s", b.body)
	}
	for name, k := range map[string]string{"nobody": "", "the user": userKey, "another sandbox": other, "a wrong key": "wrong"} {
		for _, p := range []string{path, path + "/MINE"} {
			b := w.as(k, "GET", p, nil)
			if b.status != 401 {
				t.Errorf("%s: %d", name, b.status)
			}
			w.hides(b, value, token)
		}
	}
	w.do("GET", path+"/MINE", http.Header{"Authorization": {"Bearer " + userKey}, "X-Session-Api-Key": {key}}, nil).is(401)
	w.call(200, "DELETE", "/api/v1/sandboxes/"+strings.TrimPrefix(at, "/agent/"), nil)
	w.as(key, "GET", path, nil).is(401)
}

// V1 9.4 and trap 11.
func TestCurrentUser(t *testing.T) {
	w := newWorld(t)
	key, at := w.box()
	w.call(201, "POST", profiles+"/p", llmOf(profmodel))
	w.change(`{"search_api_key":"tvly-search-key","agent_settings_diff":{"mcp_config":{"a":{"url":"https://a.example/mcp","auth":{"strategy":"bearer","value":"` + serverSecret + `"}},
		"b":{"command":"run-b","args":["-x"],"env":{"T":"` + serverSecret + `"}},"c":{"url":"https://c.example","enabled":false}}}}`)
	secrets := []string{llmSecret, profkey, serverSecret, "tvly-search-key"}
	a := w.call(200, "GET", mePath, nil)
	if a.text("id") != account.FirstUserID || a.text("llm_model") != "test/model" || a.at("llm_api_key") != nil || a.at("org_id") != nil || a.at("role") != nil ||
		a.text("mcp_config", "shttp_servers", 0, "url") != "https://a.example/mcp" || len(a.list("mcp_config", "shttp_servers")) != 1 ||
		a.text("mcp_config", "stdio_servers", 0, "args", 0) != "-x" || a.at("llm_profiles", "profiles", "p", "api_key") != nil || a.at("llm_api_key_set") != true {
		t.Errorf("%s", a.body)
	}
	w.hides(a, secrets...)

	me := func(want int, bearer, session string) *answer {
		t.Helper()
		h := http.Header{}
		if bearer != "" {
			h.Set("Authorization", "Bearer "+bearer)
		}
		if session != "" {
			h.Set("X-Session-API-Key", session)
		}
		return w.do("GET", mePath+"?expose_secrets=true", h, nil).is(want)
	}
	b := me(200, userKey, key)
	if b.text("llm_api_key") != llmSecret || b.text("agent_settings", "llm", "api_key") != llmSecret || b.text("llm_profiles", "profiles", "p", "api_key") != profkey ||
		b.text("mcp_config", "shttp_servers", 0, "api_key") != serverSecret || b.text("mcp_config", "stdio_servers", 0, "env", "T") != serverSecret ||
		b.text("search_api_key") != "tvly-search-key" || b.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s", b.body)
	}
	for _, x := range []struct {
		what, bearer, session string
		want                  int
	}{
		{"no second key", userKey, "", 401}, {"the user's key twice", userKey, userKey, 401}, {"no bearer", "", userKey, 401},
		{"the sandbox's key alone", "", key, 401}, {"the sandbox's key twice", key, key, 401}, {"a wrong second key", userKey, "wrong", 401},
		{"another user", otherKey, key, 403},
	} {
		if c := me(x.want, x.bearer, x.session); c.status == x.want {
			for _, s := range secrets {
				if strings.Contains(string(c.body), s) {
					t.Errorf("%s: %s", x.what, c.body)
				}
			}
		}
	}
	w.call(200, "POST", "/api/v1/sandboxes/"+strings.TrimPrefix(at, "/agent/")+"/pause", nil)
	me(403, userKey, key)
	for _, s := range secrets {
		if strings.Contains(w.log.String(), s) {
			t.Error("the log shows a secret")
		}
	}
}

func TestCurrentUserWithoutSettings(t *testing.T) {
	w := newWorld(t)
	const key = "key-of-a-user-without-settings"
	check(t, w.store.Accounts().PutUser(t.Context(), account.User{ID: "new"}))
	check(t, w.store.Accounts().SetKeys(t.Context(), "new", "test", []account.KeyHash{account.HashKey(key)}))
	if a := w.as(key, "GET", mePath, nil).is(200); a.text("id") != "new" || a.at("llm_model") != nil {
		t.Errorf("%s", a.body)
	}
	w.as("", "GET", mePath, nil).is(401)
}

// Several keys of one user open the same; each is shown once, and is revoked at once.
func TestAPIKeys(t *testing.T) {
	w := newWorld(t)
	if a := w.call(200, "GET", keysPath, nil); len(a.list()) != 0 {
		t.Errorf("the configuration's keys are listed: %s", a.body)
	}
	before := time.Now()
	a := w.call(200, "POST", keysPath, map[string]any{"name": " laptop "})
	key := a.text("key")
	if a.text("name") != "laptop" || a.at("last_used_at") != nil || a.header.Get("Cache-Control") != "no-store" || len(key) < 40 {
		t.Errorf("%s", a.body)
	}
	second := w.as(key, "POST", keysPath, map[string]any{}).is(200) // a key makes keys
	w.as(second.text("key"), "GET", settingsPath, nil).is(200)
	list := w.call(200, "GET", keysPath, nil)
	used, err := time.Parse(time.RFC3339Nano, list.text(0, "last_used_at"))
	if err != nil || used.Before(before.Add(-time.Second)) || len(list.list()) != 2 || list.at(1, "name") != nil {
		t.Errorf("%s", list.body)
	}
	w.hides(list, key, second.text("key"))
	current := w.as(key, "GET", keysPath+"/current", nil).is(200)
	if current.at("id") != a.at("id") || current.text("user_id") != account.FirstUserID || current.text("name") != "laptop" || current.at("bound_org_id") != nil {
		t.Errorf("%s", current.body)
	}
	if c := w.call(200, "GET", keysPath+"/current", nil); c.text("name") != "test" { // the label of the configuration's
		t.Errorf("%s", c.body)
	}
	id := fmt.Sprint(a.at("id"))
	w.as(otherKey, "DELETE", keysPath+"/"+id, nil).is(404)
	w.call(404, "DELETE", keysPath+"/999999", nil)
	w.call(422, "DELETE", keysPath+"/one", nil)
	w.call(200, "DELETE", keysPath+"/"+id, nil)
	w.as(key, "GET", settingsPath, nil).is(401)
	w.as(second.text("key"), "GET", settingsPath, nil).is(200)
	w.call(404, "DELETE", keysPath+"/"+id, nil)
	w.call(404, "DELETE", keysPath+"/"+fmt.Sprint(w.call(200, "GET", keysPath+"/current", nil).at("id")), nil) // not the configuration's

	soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	later := w.call(200, "POST", keysPath, map[string]any{"not_before": soon})
	w.as(later.text("key"), "GET", settingsPath, nil).is(401)
	for _, body := range []map[string]any{{"expires_at": "2020-01-01T00:00:00Z"}, {"not_before": soon, "expires_at": soon}, {"expires_at": "soon"}, {"name": strings.Repeat("x", 256)}} {
		w.call(422, "POST", keysPath, body)
	}
	w.call(404, "POST", keysPath, map[string]any{"org_id": "b1946ac9-2f8f-4a48-9c4b-3f0c6d8c5a11"})
	w.as("", "GET", keysPath, nil).is(401)
	if strings.Contains(w.log.String(), key) {
		t.Error("the log shows a key")
	}
}

// What runs in a sandbox makes no keys.
func TestSandboxKeyMakesNoKeys(t *testing.T) {
	w := newWorld(t)
	key, at := w.box()
	for _, base := range []string{"", at} {
		for _, x := range []struct{ method, path string }{{"GET", ""}, {"POST", ""}, {"GET", "/current"}, {"DELETE", "/1"}} {
			if a := w.request(w.server.URL, x.method, base+keysPath+x.path, http.Header{"X-Session-Api-Key": {key}}, map[string]any{}); a.status != 404 {
				t.Errorf("%s %s: %d %s", x.method, x.path, a.status, a.body)
			}
		}
	}
}

func TestWebClientConfig(t *testing.T) {
	w := newWorld(t)
	a := w.as("", "GET", "/api/v1/web-client/config", nil).is(200)
	if a.text("app_mode") != "oss" || a.at("feature_flags", "enable_billing") != false || a.text("kind") != "WebClientConfig" {
		t.Errorf("%s", a.body)
	}
	for _, form := range []string{"agent-schema", "conversation-schema"} {
		if a := w.call(200, "GET", "/api/v1/settings/"+form, nil); len(a.list("sections")) == 0 {
			t.Errorf("%s", a.body)
		}
		w.as("", "GET", "/api/v1/settings/"+form, nil).is(401)
	}
}

// There are no organisations; clients that ask for them are told so in JSON.
func TestNoOrganisations(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/api/organizations", "/api/organizations/x/me", "/api/organizations/x/profiles", "/api/keys/llm/byor", "/api/billing/credits"} {
		a := w.request(w.server.URL, "GET", path, http.Header{"X-Session-Api-Key": {userKey}}, nil).is(404)
		if a.text("detail") == "" || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s", path, a.body)
		}
	}
}

// What a key has open ends with it: the event stream, and the socket with the close
// code that says why.
func TestADeletedKeyEndsWhatItHasOpen(t *testing.T) {
	w := newWorld(t)
	id, _ := w.begin(map[string]any{})
	made := w.call(200, "POST", keysPath, map[string]any{"name": "lent"})
	lent := made.text("key")
	stream := w.listen("/api/v1/conversation/"+id+"/events/stream", http.Header{"X-Session-Api-Key": {lent}})
	mine := w.listen("/api/v1/conversation/"+id+"/events/stream", nil)
	socket := w.dial("/sockets/events/"+id, lent)
	socket.state()
	w.call(200, "DELETE", keysPath+"/"+fmt.Sprint(made.at("id")), nil)
	if code := socket.closed(); code != 4001 {
		t.Errorf("the socket: close code %d", code)
	}
	for {
		if _, err := stream.next(); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
	}
	w.send(id, "hello")
	mine.until("the owner's own stream goes on", func(f frame) bool { return strings.Contains(f.data, "hello") })
}
