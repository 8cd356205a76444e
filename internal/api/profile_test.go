package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/llm"
)

const (
	profiles  = "/api/v1/settings/profiles"
	profkey   = "sk-of-a-profile-0123456789"
	profmodel = "openai/gpt-p"
)

// llmOf is a profile's request.
func llmOf(model string, more ...any) map[string]any {
	l := map[string]any{"model": model, "api_key": profkey}
	for i := 0; i+1 < len(more); i += 2 {
		l[more[i].(string)] = more[i+1]
	}
	return map[string]any{"llm": l}
}

func (w *world) settings() *account.Settings {
	w.Helper()
	s, err := w.store.Accounts().Settings(w.Context(), account.FirstUserID)
	check(w.TB, err)
	return s
}

// V1 9.2, from the first profile to the last.
func TestProfiles(t *testing.T) {
	w := newWorld(t)
	if a := w.call(200, "GET", profiles, nil); len(a.list("profiles")) != 0 || a.at("active_profile") != nil {
		t.Errorf("%s", a.body)
	}
	w.call(404, "GET", profiles+"/none", nil)
	a := w.call(201, "POST", profiles+"/fast", llmOf(profmodel, "base_url", "http://x/v1", "temperature", 0.5))
	if a.text("name") != "fast" || a.text("message") == "" {
		t.Errorf("%s", a.body)
	}
	w.call(201, "POST", profiles+"/copy", nil) // no body: what the settings choose
	a = w.call(200, "GET", profiles, nil)
	if a.text("profiles", 0, "name") != "copy" || a.text("profiles", 0, "model") != "test/model" || a.at("profiles", 0, "api_key_set") != true ||
		a.text("profiles", 1, "base_url") != "http://x/v1" || a.at("active_profile") != nil {
		t.Errorf("%s", a.body)
	}
	a = w.call(200, "GET", profiles+"/fast", nil)
	if a.at("config", "api_key") != nil || a.at("api_key_set") != true || a.at("config", "temperature") != 0.5 {
		t.Errorf("%s", a.body)
	}

	a = w.call(200, "POST", profiles+"/fast/activate", nil)
	if a.text("model") != profmodel || *w.settings().LLMModel != profmodel || w.settings().LLMAPIKey.Reveal() != profkey {
		t.Errorf("%s, settings %v", a.body, *w.settings().LLMModel)
	}
	if a := w.call(200, "POST", profiles+"/fast/rename", map[string]any{"new_name": "faster"}); a.text("name") != "faster" {
		t.Errorf("%s", a.body)
	}
	if a := w.call(200, "GET", profiles, nil); a.text("active_profile") != "faster" {
		t.Errorf("the active flag did not follow: %s", a.body)
	}
	w.call(404, "GET", profiles+"/fast", nil)
	w.call(404, "POST", profiles+"/fast/rename", map[string]any{"new_name": "x"})
	w.call(404, "POST", profiles+"/fast/activate", nil)
	w.call(409, "POST", profiles+"/faster/rename", map[string]any{"new_name": "copy"})
	w.call(200, "POST", profiles+"/faster/rename", map[string]any{"new_name": "faster"})

	w.call(200, "DELETE", profiles+"/faster", nil)
	w.call(200, "DELETE", profiles+"/faster", nil) // also if absent
	if a := w.call(200, "GET", profiles, nil); len(a.list("profiles")) != 1 || a.at("active_profile") != nil {
		t.Errorf("%s", a.body)
	}
	if *w.settings().LLMModel != profmodel {
		t.Error("the settings lost the model of the deleted profile")
	}
	// Nobody else sees them.
	if a := w.as(otherKey, "GET", profiles, nil).is(200); len(a.list("profiles")) != 0 {
		t.Errorf("%s", a.body)
	}
	w.as(otherKey, "GET", profiles+"/copy", nil).is(404)
	w.as("", "GET", profiles, nil).is(401)
}

func TestProfilesThatAreRefused(t *testing.T) {
	w := newWorld(t)
	for path, body := range map[string]any{
		"bad%20name": llmOf(profmodel), strings.Repeat("x", 65): llmOf(profmodel), "a%2Fb": llmOf(profmodel),
	} {
		if a := w.call(422, "POST", profiles+"/"+path, body); a.at("detail", 0, "loc", 0) != "path" || a.at("detail", 0, "loc", 1) != "name" {
			t.Errorf("%s", a.body)
		}
	}
	for name, x := range map[string]struct {
		body any
		loc  []any
		typ  string
	}{
		"unknown member": {llmOf(profmodel, "custom_header", "x"), []any{"body", "llm", "custom_header"}, "extra_forbidden"},
		"no model":       {map[string]any{"llm": map[string]any{}}, []any{"body", "llm", "model"}, "missing"},
		"range":          {llmOf(profmodel, "temperature", 3), []any{"body", "llm", "temperature"}, "less_than_equal"},
		"type":           {llmOf(profmodel, "api_key", map[string]any{"secret": profkey}), []any{"body", "llm", "api_key"}, "string_type"},
		"headers":        {llmOf(profmodel, "extra_headers", map[string]any{"X": []any{profkey}}), []any{"body", "llm", "extra_headers", "X"}, "string_type"},
		"no object":      {map[string]any{"llm": profkey}, []any{"body", "llm"}, "dict_type"},
	} {
		a := w.call(422, "POST", profiles+"/p", x.body)
		if fmt.Sprint(a.at("detail", 0, "loc")) != fmt.Sprint(x.loc) || a.text("detail", 0, "type") != x.typ {
			t.Errorf("%s: %s", name, a.body)
		}
		if strings.Contains(string(a.body), profkey) && name != "no object" {
			t.Errorf("%s: the key is echoed: %s", name, a.body)
		}
	}
	w.call(422, "POST", profiles+"/p/rename", map[string]any{"new_name": "a b"})
	w.call(422, "POST", profiles+"/p/rename", map[string]any{})
	for i := range account.MaxProfiles {
		w.call(201, "POST", fmt.Sprintf("%s/p%d", profiles, i), llmOf(profmodel))
	}
	if a := w.call(409, "POST", profiles+"/one-more", llmOf(profmodel)); a.text("code") != account.CodeProfileLimit {
		t.Errorf("%s", a.body)
	}
	w.call(201, "POST", profiles+"/p0", llmOf(profmodel)) // in place of one
}

func TestWhatHappensToTheKeyOfAProfile(t *testing.T) {
	w := newWorld(t)
	key := func(name string) string {
		p, err := w.settings().Profile(name)
		check(t, err)
		return p.APIKey.Reveal()
	}
	without := map[string]any{"llm": map[string]any{"model": profmodel}}
	w.call(201, "POST", profiles+"/p", llmOf(profmodel))
	w.call(201, "POST", profiles+"/p", llmOf(profmodel, "api_key", account.Mask))
	if key("p") != profkey {
		t.Error("the mask replaced the key")
	}
	without["preserve_existing_api_key"] = true
	w.call(201, "POST", profiles+"/p", without)
	if key("p") != profkey {
		t.Error("the key was not preserved")
	}
	elsewhere := map[string]any{"llm": map[string]any{"model": profmodel, "base_url": "https://evil.example"}, "preserve_existing_api_key": true}
	w.call(422, "POST", profiles+"/p", elsewhere)
	delete(without, "preserve_existing_api_key")
	w.call(201, "POST", profiles+"/p", without)
	if key("p") != "" {
		t.Error("the key was kept")
	}
	secretless := llmOf(profmodel)
	secretless["include_secrets"] = false
	w.call(201, "POST", profiles+"/p", secretless)
	if key("p") != "" {
		t.Error("a key was stored with include_secrets false")
	}
	if strings.Contains(w.log.String(), profkey) {
		t.Error("the key is in the server's log")
	}
}

// A user without settings can begin with a profile.
func TestFirstProfileMakesSettings(t *testing.T) {
	w := newWorld(t)
	const key = "key-of-a-user-without-settings"
	check(t, w.store.Accounts().PutUser(t.Context(), account.User{ID: "new"}))
	check(t, w.store.Accounts().SetKeys(t.Context(), "new", "test", []account.KeyHash{account.HashKey(key)}))
	w.as(key, "GET", profiles, nil).is(200)
	w.as(key, "DELETE", profiles+"/p", nil).is(200)
	w.as(key, "POST", profiles+"/p/activate", nil).is(404)
	w.as(key, "POST", profiles+"/p", nil).is(400)
	if _, err := w.store.Accounts().Settings(t.Context(), "new"); err == nil {
		t.Error("requests that did nothing stored settings")
	}
	w.as(key, "POST", profiles+"/p", llmOf(profmodel)).is(201)
	w.as(key, "POST", profiles+"/p/activate", nil).is(200)
	w.as(key, "POST", "/api/v1/app-conversations", message("hi")).is(200)
}

func TestConcurrentSavesLoseNothing(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { // without the checker of answers, which is not made for this
			req, err := http.NewRequestWithContext(t.Context(), "POST", fmt.Sprintf("%s%s/p%d", w.server.URL, profiles, i), nil)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("X-Session-API-Key", userKey)
			resp, err := w.server.Client().Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusCreated {
				t.Errorf("%d %v", resp.StatusCode, err)
			}
		})
	}
	all.Wait()
	if n := len(w.call(200, "GET", profiles, nil).list("profiles")); n != 20 {
		t.Errorf("%d profiles", n)
	}
}

func TestStartWithAProfile(t *testing.T) {
	w := newWorld(t)
	w.call(201, "POST", profiles+"/p", llmOf(profmodel))
	id, a := w.begin(map[string]any{"llm_profile": "p"})
	if a.text("llm_model") != profmodel {
		t.Errorf("%s", a.body)
	}
	if a := w.call(200, "POST", "/api/v1/app-conversations", map[string]any{"llm_profile": "p", "parent_conversation_id": id}); a.text("request", "llm_profile") != "p" || a.at("request", "llm_model") != nil {
		t.Errorf("%s", a.body)
	}
	before := w.call(200, "GET", "/api/v1/app-conversations/count", nil)
	b := w.call(404, "POST", "/api/v1/app-conversations", map[string]any{"llm_profile": "none"})
	if b.text("code") != account.CodeProfileNotFound {
		t.Errorf("%s", b.body)
	}
	if after := w.call(200, "GET", "/api/v1/app-conversations/count", nil); string(after.body) != string(before.body) {
		t.Error("something was stored")
	}
}

func TestSwitchProfile(t *testing.T) {
	w := newWorld(t)
	w.call(201, "POST", profiles+"/p", llmOf(profmodel))
	id, _ := w.begin(map[string]any{})
	path := "/api/v1/app-conversations/" + id
	if a := w.call(200, "POST", path+"/switch_profile", map[string]any{"profile_name": "p"}); a.at("success") != true {
		t.Errorf("%s", a.body)
	}
	if a := w.call(200, "GET", path, nil); a.text("llm_model") != profmodel {
		t.Errorf("%s", a.body)
	}
	w.call(404, "POST", path+"/switch_profile", map[string]any{"profile_name": "none"})
	w.call(422, "POST", path+"/switch_profile", map[string]any{"profile_name": ""})
	w.call(404, "POST", "/api/v1/app-conversations/"+string(conversation.NewID())+"/switch_profile", map[string]any{"profile_name": "p"})
	w.as(otherKey, "POST", path+"/switch_profile", map[string]any{"profile_name": "p"}).is(404)
}

// failing is a model server that refuses the key.
func failing(context.Context, *llm.Request) (*llm.Response, error) {
	return nil, &llm.Error{Class: llm.ClassAuth, Message: "no such key: " + profkey}
}

func TestTestsOfModels(t *testing.T) {
	w := newWorld(t)
	w.model.bare = []step{say("ready"), failing, say("ready"), say("ready")}
	w.call(201, "POST", profiles+"/p", llmOf(profmodel))
	a := w.call(200, "POST", profiles+"/p/test", nil)
	if a.at("ok") != true || a.text("text") != "ready" || a.at("cost") != 0.25 || a.at("error") != nil {
		t.Errorf("%s", a.body)
	}
	a = w.call(200, "POST", profiles+"/p/test", nil)
	if a.at("ok") != false || a.text("error", "code") != "LLMAuthenticationError" || a.text("error", "action") == "" || a.text("error", "detail") == "" ||
		strings.Contains(string(a.body), profkey) {
		t.Errorf("%s", a.body)
	}
	w.call(404, "POST", profiles+"/none/test", nil)
	for _, body := range []any{nil, map[string]any{}, map[string]any{"llm": map[string]any{"model": "test/other", "api_key": account.Mask}}} {
		if a := w.call(200, "POST", "/api/v1/settings/llm/test", body); a.at("ok") != true {
			t.Errorf("%v: %s", body, a.body)
		}
	}
	w.call(422, "POST", "/api/v1/settings/llm/test", map[string]any{"llm": map[string]any{"model": "test/x", "api_key": account.Mask, "base_url": "http://evil.example"}})
	w.call(422, "POST", "/api/v1/settings/llm/test", map[string]any{"llm": map[string]any{"model": "test/x", "novel": 1}})
	if a := w.call(200, "POST", "/api/v1/settings/llm/test", map[string]any{"llm": map[string]any{"model": "elsewhere/x"}}); a.text("error", "code") != "llm_key_missing" {
		t.Errorf("%s", a.body)
	}
	keyed := map[string]any{"model": "elsewhere/x", "extra_headers": map[string]any{"authorization": "Bearer x"}}
	if a := w.call(200, "POST", "/api/v1/settings/llm/test", map[string]any{"llm": keyed}); a.at("ok") != true {
		t.Errorf("a key in a header: %s", a.body)
	}
	// They cost, and count for the day.
	u := w.call(200, "GET", "/api/v1/usage", nil)
	if u.text("items", 0, "use") != "probe" || u.at("total", "cost") != 1.25 {
		t.Errorf("%s", u.body)
	}
}

// The agent protocol's spelling (1.8), with the owner's key.
func TestAgentProfiles(t *testing.T) {
	w := newWorld(t)
	w.model.bare = []step{say("ready"), failing, func(context.Context, *llm.Request) (*llm.Response, error) {
		return nil, &llm.Error{Class: llm.ClassRateLimit, Message: "slow down"}
	}}
	id, a := w.begin(map[string]any{})
	at := "/agent/" + a.text("sandbox_id")
	const path = "/api/profiles"
	as := func(want int, method, path string, body any) *answer {
		t.Helper()
		return w.call(want, method, at+path, body)
	}
	as(201, "POST", path+"/p", llmOf(profmodel, "a_member_of_the_future", map[string]any{"x": 1}))
	b := as(200, "GET", path, nil)
	if b.text("profiles", 0, "name") != "p" || b.at("profiles", 0, "api_key_set") != true || b.at("active_profile") != nil {
		t.Errorf("%s", b.body)
	}
	if b := as(200, "POST", path+"/p/activate", map[string]any{}); b.text("model") != profmodel || b.at("llm_applied") != true {
		t.Errorf("%s", b.body)
	}
	as(200, "POST", path+"/p/rename", map[string]any{"new_name": "q"})
	if b := as(200, "GET", path, nil); b.text("active_profile") != "q" {
		t.Errorf("%s", b.body)
	}
	if b := as(200, "POST", path+"/new/validate", llmOf(profmodel)); b.at("valid") != true || b.at("error") != nil {
		t.Errorf("%s", b.body)
	}
	if b := as(200, "POST", path+"/q/validate", nil); b.at("valid") != false || b.text("error", "type") != "LLMAuthenticationError" || strings.Contains(string(b.body), profkey) {
		t.Errorf("%s", b.body)
	}
	if b := as(200, "POST", path+"/q/validate", map[string]any{}); b.at("valid") != true {
		t.Errorf("a rate limit is no error of the profile: %s", b.body)
	}
	as(404, "POST", path+"/new/validate", nil)
	as(422, "POST", path+"/.x", llmOf(profmodel)) // other names than V1's
	as(422, "POST", path+"/x", map[string]any{})
	as(422, "POST", path+"/x", llmOf(profmodel, "temperature", "hot"))
	as(404, "GET", path+"/none", nil)
	as(404, "POST", path+"/none/activate", nil)

	c := "/api/conversations/" + id
	as(200, "POST", c+"/switch_profile", map[string]any{"profile_name": "q"})
	if b := as(200, "GET", c, nil); b.text("current_model_id") != profmodel {
		t.Errorf("%s", b.body)
	}
	as(404, "POST", c+"/switch_profile", map[string]any{"profile_name": "none"})
	as(200, "POST", c+"/switch_llm", llmOf("openai/other", "a_member_of_the_future", 1))
	if b := as(200, "GET", c, nil); b.text("current_model_id") != "openai/other" || strings.Contains(string(b.body), profkey) {
		t.Errorf("%s", b.body)
	}
	// The key that the conversation has stays with its endpoint.
	as(200, "POST", c+"/switch_llm", map[string]any{"llm": map[string]any{"model": "openai/third", "api_key": account.Mask}})
	as(422, "POST", c+"/switch_llm", map[string]any{"llm": map[string]any{"model": "openai/third", "api_key": account.Mask, "base_url": "http://evil.example"}})
	as(422, "POST", c+"/switch_llm", map[string]any{"llm": map[string]any{}})
	as(400, "POST", c+"/switch_llm", map[string]any{"llm": map[string]any{"model": "elsewhere/x"}})
	unknown := "/api/conversations/" + string(conversation.NewID())
	as(404, "POST", unknown+"/switch_llm", llmOf(profmodel))
	as(404, "POST", unknown+"/switch_profile", map[string]any{"profile_name": "q"})
	as(200, "DELETE", path+"/q", nil)
	as(200, "DELETE", path+"/q", nil)
	w.as("", "GET", at+path, nil).is(401)
}

// V1 1.2: 409 unless the sandbox runs; 404 if it is gone.
func TestSwitchingNeedsARunningSandbox(t *testing.T) {
	w := newWorld(t)
	w.call(201, "POST", "/api/v1/settings/profiles/p", map[string]any{"llm": map[string]any{"model": "openai/other", "api_key": "k"}})
	id, a := w.begin(map[string]any{})
	box, path := "/api/v1/sandboxes/"+a.text("sandbox_id"), "/api/v1/app-conversations/"+id+"/switch_profile"
	body := map[string]any{"profile_name": "p"}
	w.call(200, "POST", path, body)
	w.call(200, "POST", box+"/pause", nil)
	w.call(409, "POST", path, body)
	w.call(200, "POST", box+"/resume", nil)
	w.eventually("RUNNING", func() bool {
		return w.call(200, "GET", "/api/v1/app-conversations/"+id, nil).text("sandbox_status") == "RUNNING"
	})
	w.call(200, "POST", path, body)
	w.call(200, "DELETE", box, nil)
	w.call(404, "POST", path, body)
}
