package api_test

import (
	"strings"
	"testing"

	"parley/internal/forge"
	"parley/internal/forge/forgetest"
)

const gitTest = "/api/v1/git/test"

func TestATokenIsTriedWithoutBeingStored(t *testing.T) {
	w := newWorld(t)
	s := forgetest.New(t, forge.GitHub)
	s.Allow([]string{"public_repo"})
	try := func(token, host any) *answer {
		return w.call(200, "POST", gitTest, map[string]any{"provider": "github", "token": token, "host": host})
	}
	good := try(forgetest.Token, s.Host())
	if good.at("ok") != true || good.text("login") != "ada" || good.text("host") != s.Host() || good.text("scopes", 0) != "public_repo" ||
		good.text("missing_scopes", 0) != "repo" || good.at("error") != nil {
		t.Errorf("%s", good.body)
	}
	wrong := try("ghp_wrong-token", s.Host())
	if wrong.at("ok") != false || wrong.text("error", "code") != forge.CodeRejected || !strings.Contains(wrong.text("error", "action"), "expired") {
		t.Errorf("%s", wrong.body)
	}
	inside := try(forgetest.Token, "http://169.254.169.254")
	if inside.text("error", "code") != "git_host_address" {
		t.Errorf("%s", inside.body)
	}
	if len(w.stored()) != 0 {
		t.Errorf("a trial stored %v", w.stored())
	}
	for _, text := range []string{w.log.String(), string(good.body), string(wrong.body), string(inside.body)} {
		if strings.Contains(text, forgetest.Token) || strings.Contains(text, "ghp_wrong") {
			t.Errorf("the token is told: %s", text)
		}
	}
}

func TestAStoredTokenIsTried(t *testing.T) {
	w, servers := configured(t, forge.GitLab)
	s := servers[forge.GitLab]
	for _, body := range []map[string]any{{"provider": "gitlab"}, {"provider": "gitlab", "token": "", "host": s.Host()}, {"provider": "gitlab", "token": "**********"}} {
		if a := w.call(200, "POST", gitTest, body); a.at("ok") != true || a.text("host") != s.Host() || a.at("scopes") != nil {
			t.Errorf("%v: %s", body, a.body)
		}
	}
	before := len(s.Seen())
	for _, body := range []map[string]any{{"provider": "gitlab", "host": "https://elsewhere.example.com"}, {"provider": "gitlab", "host": "gitlab.com"},
		{"provider": "github"}, {"provider": "sourceforge", "token": "x"}, {"token": "x"}} {
		w.call(422, "POST", gitTest, body)
	}
	w.as(otherKey, "POST", gitTest, map[string]any{"provider": "gitlab"}).is(422) // the token is another user's
	w.as("", "POST", gitTest, map[string]any{"provider": "gitlab"}).is(401)
	if len(s.Seen()) != before {
		t.Errorf("%v", s.Seen()[before:])
	}
}
