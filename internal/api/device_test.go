package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// clock is a time that the test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func newDevices(t *testing.T) (*world, *clock) {
	c := &clock{at: time.Now()}
	return newWorldWith(t, func(cfg *config) { cfg.now = c.now }), c
}

// form posts one without a key.
func (w *world) form(path string, values ...string) *answer {
	w.Helper()
	form := url.Values{}
	for i := 0; i < len(values); i += 2 {
		form.Set(values[i], values[i+1])
	}
	return w.do("POST", path, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, form.Encode())
}

func TestDeviceLogin(t *testing.T) {
	w, c := newDevices(t)
	begun := w.form("/oauth/device/authorize", "client_id", "a cli\x1b[31m").is(200)
	code, device := begun.text("user_code"), begun.text("device_code")
	if at := begun.text("verification_uri"); at != w.server.URL+"/oauth/device" || begun.text("verification_uri_complete") != at+"?user_code="+code {
		t.Errorf("%s", begun.body)
	}
	poll := func() *answer {
		t.Helper()
		return w.form("/oauth/device/token", "grant_type", "urn:ietf:params:oauth:grant-type:device_code", "device_code", device)
	}
	if got := poll().is(400).text("error"); got != "authorization_pending" {
		t.Errorf("before the user decides: %s", got)
	}
	if a := poll().is(400); a.text("error") != "slow_down" || a.at("interval") != 10.0 {
		t.Errorf("a second poll at once: %s", a.body)
	}
	w.as("", "POST", "/oauth/device/verify-authenticated", map[string]any{"user_code": code}).is(401)
	w.call(404, "POST", "/oauth/device/verify-authenticated", map[string]any{"user_code": "BCDF-GHJK"})
	if got := w.as(otherKey, "POST", "/oauth/device/verify-authenticated", map[string]any{"user_code": " " + strings.ToLower(strings.ReplaceAll(code, "-", " "))}).is(200); got.at("success") != true {
		t.Errorf("%s", got.body)
	}
	w.call(404, "POST", "/oauth/device/verify-authenticated", map[string]any{"user_code": code}) // decided already, by somebody else
	c.pass(time.Minute)
	key := poll().is(200)
	if key.text("token_type") != "bearer" || key.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v %s", key.header, key.body)
	}
	me := w.do("GET", "/api/v1/users/me", http.Header{"Authorization": {"Bearer " + key.text("access_token")}}, nil).is(200)
	if me.text("id") != otherUser {
		t.Errorf("the key opens the account of %s", me.text("id"))
	}
	listed := string(w.as(otherKey, "GET", "/api/keys", nil).is(200).body)
	if !strings.Contains(listed, "device login: a cli[31m") || strings.Contains(listed, key.text("access_token")) {
		t.Errorf("the user's keys: %s", listed)
	}
	if got := poll().is(400).text("error"); got != "expired_token" {
		t.Errorf("a code that was used: %s", got)
	}
	if log := w.log.String(); strings.Contains(log, key.text("access_token")) || strings.Contains(log, device) {
		t.Error("the log names a key")
	}
}

func TestDeviceLoginIsRefusedOrExpires(t *testing.T) {
	w, c := newDevices(t)
	refused := w.form("/oauth/device/authorize").is(200)
	w.call(200, "POST", "/oauth/device/verify-authenticated", map[string]any{"user_code": refused.text("user_code"), "approve": false})
	if got := w.form("/oauth/device/token", "device_code", refused.text("device_code")).is(400).text("error"); got != "access_denied" {
		t.Errorf("refused: %s", got)
	}
	late := w.as("", "POST", "/oauth/device/authorize", map[string]any{"client_id": "json"}).is(200)
	c.pass(10 * time.Minute)
	w.call(404, "POST", "/oauth/device/verify-authenticated", map[string]any{"user_code": late.text("user_code")})
	for _, device := range []string{late.text("device_code"), "", "nonsense"} {
		if got := w.form("/oauth/device/token", "device_code", device).is(400).text("error"); got != "expired_token" {
			t.Errorf("%q: %s", device, got)
		}
	}
	for range 10 {
		w.form("/oauth/device/authorize").is(200)
	}
	if a := w.form("/oauth/device/authorize").is(429); a.header.Get("Retry-After") == "" {
		t.Errorf("%v %s", a.header, a.body)
	}
	w.as("", "POST", "/oauth/device/authorize", "{nonsense").is(400)
	w.as("", "POST", "/oauth/device/token", strings.Repeat("x", 20<<10)).is(413)
	page := w.as("", "GET", "/oauth/device?user_code=AB", nil).is(200)
	if !strings.Contains(page.header.Get("Content-Security-Policy"), "script-src 'sha256-") {
		t.Errorf("%v", page.header)
	}
}
