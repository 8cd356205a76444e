package api_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/forge"
	"parley/internal/forge/azuredevops"
	"parley/internal/forge/bitbucket"
	"parley/internal/forge/bitbucketdc"
	"parley/internal/forge/forgejo"
	"parley/internal/forge/forgetest"
	"parley/internal/forge/github"
	"parley/internal/forge/gitlab"
	"parley/internal/forge/pass"
)

// newForge is the service of a world's users.
func newForge(w *world) *forge.Service {
	s := forge.New(forge.Config{Settings: w.store.Accounts(), Passes: pass.New([]byte(strings.Repeat("k", 32))),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Openers: map[string]forge.Opener{forge.GitHub: github.Open, forge.GitLab: gitlab.Open, forge.Bitbucket: bitbucket.Open,
			forge.BitbucketDataCenter: bitbucketdc.Open, forge.Forgejo: forgejo.Open, forge.AzureDevOps: azuredevops.Open}})
	w.Cleanup(s.Close)
	return s
}

const gitProviders = "/api/v1/secrets/git-providers"

func gitTokens(all ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(all); i += 3 {
		m[all[i].(string)] = map[string]any{"token": all[i+1], "host": all[i+2]}
	}
	return map[string]any{"provider_tokens": m}
}

// configured starts the services and stores the user's tokens.
func configured(t *testing.T, providers ...string) (*world, map[string]*forgetest.Server) {
	w, servers := newWorld(t), map[string]*forgetest.Server{}
	var all []any
	for _, p := range providers {
		servers[p] = forgetest.New(t, p)
		token := forgetest.Token
		if p == forge.Bitbucket {
			token = forgetest.Basic
		}
		all = append(all, p, token, servers[p].Host())
	}
	w.call(200, "POST", gitProviders, gitTokens(all...))
	return w, servers
}

func (w *world) stored() map[string]account.ProviderToken {
	s, err := w.store.Accounts().Settings(w.Context(), account.FirstUserID)
	check(w.TB, err)
	return s.Secrets.ProviderTokens
}

func TestGitRoutesOfEveryProvider(t *testing.T) {
	w, servers := configured(t, forge.Providers()...)
	for _, p := range forge.Providers() {
		s := servers[p]
		alpha := s.Name("acme", "alpha")
		first := w.call(200, "GET", "/api/v1/git/repositories/search?provider="+p+"&limit=2", nil)
		repo := first.list("items")[0].(map[string]any)
		if repo["full_name"] != alpha || repo["git_provider"] != p || repo["is_public"] != true || repo["id"] == "" {
			t.Errorf("%s: %v", p, repo)
		}
		next := w.call(200, "GET", "/api/v1/git/repositories/search?provider="+p+"&limit=2&sort_order=updated-desc&page_id="+first.text("next_page_id"), nil)
		if next.list("items")[0].(map[string]any)["full_name"] == alpha {
			t.Errorf("%s: the second page is the first", p)
		}
		branches := w.call(200, "GET", "/api/v1/git/branches/search?provider="+p+"&repository="+alpha+"&query=feature&limit=1", nil)
		if b := branches.list("items")[0].(map[string]any); b["name"] != "feature/one" || b["commit_sha"] != "b2" || branches.at("next_page_id") == nil {
			t.Errorf("%s: %s", p, branches.body)
		}
		if all := w.call(200, "GET", "/api/v1/git/branches/search?provider="+p+"&repository="+alpha+"&query=", nil).list("items"); len(all) != 5 {
			t.Errorf("%s: %v", p, all)
		}
		w.call(404, "GET", "/api/v1/git/branches/search?provider="+p+"&repository="+s.Name("acme", "gone")+"&query=", nil)
		w.call(200, "GET", "/api/v1/git/installations/search?provider="+p, nil)
	}
	tasks := w.call(200, "GET", "/api/v1/git/suggested-tasks/search?limit=3", nil)
	if len(tasks.list("items")) != 3 || tasks.text("items", 0, "task_type") != "MERGE_CONFLICTS" || tasks.text("items", 0, "git_provider") != "github" {
		t.Errorf("%s", tasks.body)
	}
	if me := w.call(200, "GET", "/api/v1/users/git-info", nil); me.text("login") != "ada" || me.text("id") != "7" || me.at("company") != nil {
		t.Errorf("%s", me.body)
	}
	orgs := w.call(200, "GET", "/api/v1/users/git-organizations", nil)
	if orgs.text("provider") != "github" || orgs.text("organizations", 0) != "acme" {
		t.Errorf("%s", orgs.body)
	}
	if set := w.call(200, "GET", "/api/v1/settings", nil).at("provider_tokens_set").(map[string]any); len(set) != 6 || set["gitlab"] != servers["gitlab"].Host() {
		t.Errorf("%v", set)
	}
	if strings.Contains(w.log.String(), forgetest.Token) {
		t.Error("the log holds the token")
	}
}

func TestGitRoutesCheckWhatIsAsked(t *testing.T) {
	w, _ := configured(t, forge.GitHub)
	for _, path := range []string{"repositories/search", "repositories/search?provider=sourceforge", "repositories/search?provider=github&limit=101",
		"repositories/search?provider=github&sort_order=best", "branches/search?provider=github&repository=a/b", "branches/search?provider=github&query=",
		"installations/search", "suggested-tasks/search?limit=0"} {
		w.call(422, "GET", "/api/v1/git/"+path, nil)
	}
	w.call(400, "GET", "/api/v1/git/branches/search?provider=github&repository=../x&query=", nil)
	w.call(400, "GET", "/api/v1/git/repositories/search?provider=github&query="+strings.Repeat("x", 300), nil)
	w.call(200, "GET", "/api/v1/git/repositories/search?provider=github&page_id=nonsense&unknown=1", nil)
}

func TestWithoutATokenOfTheProviderTheAnswerIsAText(t *testing.T) {
	w, _ := configured(t, forge.GitHub)
	for _, path := range []string{"/git/repositories/search?provider=gitlab", "/git/installations/search?provider=enterprise_sso",
		"/git/branches/search?provider=forgejo&repository=a/b&query="} {
		a := w.call(401, "GET", "/api/v1"+path, nil)
		if text, ok := a.value().(string); !ok || text == "" {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	for _, path := range []string{"/git/suggested-tasks/search", "/users/git-info", "/users/git-organizations"} {
		a := w.as(otherKey, "GET", "/api/v1"+path, nil).is(401) // another user has none at all
		if _, ok := a.value().(string); !ok {
			t.Errorf("%s: %s", path, a.body)
		}
		a = w.as("", "GET", "/api/v1"+path, nil).is(401)
		if a.text("detail") != "Unauthorized" {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	// A token that was revoked meanwhile.
	check(t, w.store.Accounts().UpdateSettings(t.Context(), account.FirstUserID, func(s *account.Settings) (*account.Settings, error) {
		next := *s
		old := next.Secrets.ProviderTokens["github"]
		old.Token = account.NewSecret("revoked-token-of-the-user")
		next.SetTokens(map[string]account.ProviderToken{"github": old})
		return &next, nil
	}))
	a := w.call(401, "GET", "/api/v1/users/git-info", nil)
	if text, ok := a.value().(string); !ok || !strings.Contains(text, "rejected") || strings.Contains(text, "revoked-token") {
		t.Errorf("%s", a.body)
	}
}

func TestTokensAreTriedBeforeTheyAreStored(t *testing.T) {
	w, servers := configured(t, forge.GitHub)
	before := w.stored()["github"]
	a := w.call(401, "POST", gitProviders, gitTokens("github", "wrong-token-of-the-user", servers["github"].Host()))
	if !strings.HasPrefix(a.text("error"), "Invalid token") || strings.Contains(string(a.body), "wrong-token") {
		t.Errorf("%s", a.body)
	}
	if now := w.stored()["github"]; now.Token != before.Token || *now.Host != *before.Host {
		t.Error("a wrong token was stored")
	}
	servers["github"].Fail(func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("Retry-After", "9")
		rw.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	a = w.call(429, "POST", gitProviders, gitTokens("github", "another-token", servers["github"].Host()))
	if a.header.Get("Retry-After") != "9" || a.text("error") == "" {
		t.Errorf("%v %s", a.header, a.body)
	}
	servers["github"].Fail(func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusForbidden) // it must not say whose it is
		return true
	})
	w.call(200, "POST", gitProviders, gitTokens("github", "token-for-code-only", servers["github"].Host()))
	if w.stored()["github"].Token.Reveal() != "token-for-code-only" {
		t.Error("a token with few rights was not stored")
	}
	for _, host := range []string{"https://user:pw@git.example.com", "ftp://x", "a b"} {
		a = w.call(400, "POST", gitProviders, gitTokens("gitlab", "t", host))
		if a.text("error") == "" || strings.Contains(string(a.body), "pw@") {
			t.Errorf("%s", a.body)
		}
	}
	w.call(400, "POST", gitProviders, gitTokens("github", "line\nbreak", nil))
	w.call(400, "POST", gitProviders, gitTokens("bitbucket_data_center", "needs-a-host", nil))
	w.call(403, "POST", gitProviders, gitTokens("gitlab", "t", "http://169.254.169.254"))
	w.call(422, "POST", gitProviders, gitTokens("sourceforge", "t", nil))
	w.call(422, "POST", gitProviders, gitTokens("enterprise_sso", "t", nil))
}

func TestTheMapReplacesTheProviders(t *testing.T) {
	w, servers := configured(t, forge.GitHub, forge.GitLab)
	lab := servers["gitlab"]
	// An empty token keeps the stored one; a provider that is not named is gone.
	for _, empty := range []any{"", nil, account.Mask} {
		w.call(200, "POST", gitProviders, gitTokens("gitlab", empty, lab.Host()+"/"))
		got := w.stored()
		if len(got) != 1 || got["gitlab"].Token.Reveal() != forgetest.Token || *got["gitlab"].Host != lab.Host()+"/" {
			t.Fatalf("%+v", got)
		}
	}
	w.call(200, "POST", gitProviders, map[string]any{"provider_tokens": map[string]any{}})
	w.call(200, "POST", gitProviders, map[string]any{})
	if len(w.stored()) != 1 {
		t.Error("an empty object changed something")
	}
	// The stored token is tried at its new host before it is kept for it.
	elsewhere := forgetest.New(t, forge.GitLab)
	elsewhere.Fail(func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusUnauthorized)
		return true
	})
	w.call(401, "POST", gitProviders, gitTokens("gitlab", "", elsewhere.Host()))
	if got := w.stored()["gitlab"]; *got.Host != lab.Host()+"/" {
		t.Errorf("%+v", got)
	}
	w.call(200, "DELETE", gitProviders, nil)
	if len(w.stored()) != 0 {
		t.Errorf("%+v", w.stored())
	}
	if set := w.call(200, "GET", "/api/v1/settings", nil).at("provider_tokens_set").(map[string]any); len(set) != 0 {
		t.Errorf("%v", set)
	}
}

func TestAnAccessTokenOpensOneGitToken(t *testing.T) {
	w, _ := configured(t, forge.GitHub)
	const path = "/api/v1/webhooks/secrets"
	issued := w.call(201, "POST", "/api/v1/git/access-tokens", map[string]any{"provider": "github"})
	if !strings.HasSuffix(issued.text("url"), path) {
		t.Errorf("%s", issued.body)
	}
	redeem := func(token string) *answer {
		return w.do("GET", path, http.Header{"X-Access-Token": {token}}, nil)
	}
	a := redeem(issued.text("token")).is(200)
	if string(a.body) != forgetest.Token || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v %s", a.header, a.body)
	}
	for _, bad := range []string{"", "x", issued.text("token") + "x", "a.b.c", userKey} {
		redeem(bad).is(401)
	}
	w.as(userKey, "GET", path, nil).is(401) // a user's key is no access token
	other := w.as(otherKey, "POST", "/api/v1/git/access-tokens", map[string]any{"provider": "github"}).is(201)
	if a := redeem(other.text("token")).is(404); a.text("detail") != "No such provider" {
		t.Errorf("%s", a.body)
	}
	w.call(400, "POST", "/api/v1/git/access-tokens", map[string]any{"provider": "enterprise_sso"})
	w.call(200, "DELETE", gitProviders, nil)
	redeem(issued.text("token")).is(404) // it opens what is stored now
	if strings.Contains(w.log.String(), issued.text("token")) || strings.Contains(w.log.String(), forgetest.Token) {
		t.Error("the log holds a token")
	}
}

func TestAProviderThatFailsIsLeftOutOfTheTasks(t *testing.T) {
	w, servers := configured(t, forge.GitHub, forge.Forgejo)
	down := func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusBadGateway)
		return true
	}
	servers["github"].Fail(down)
	if tasks := w.call(200, "GET", "/api/v1/git/suggested-tasks/search", nil).list("items"); len(tasks) != 2 {
		t.Errorf("%v", tasks)
	}
	if me := w.call(200, "GET", "/api/v1/users/git-info", nil); me.text("login") != "ada" {
		t.Errorf("%s", me.body)
	}
	servers["forgejo"].Fail(down)
	for _, path := range []string{"/git/suggested-tasks/search", "/users/git-info", "/git/repositories/search?provider=github"} {
		w.call(503, "GET", "/api/v1"+path, nil)
	}
}
