package v0_test

import (
	"encoding/json"
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
)

// withGit gives the rig the real services.
func (r *rig) withGit() {
	s := forge.New(forge.Config{Settings: r.store.Accounts(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Openers: map[string]forge.Opener{forge.GitHub: github.Open, forge.GitLab: gitlab.Open, forge.Bitbucket: bitbucket.Open,
			forge.BitbucketDataCenter: bitbucketdc.Open, forge.Forgejo: forgejo.Open, forge.AzureDevOps: azuredevops.Open}})
	r.Cleanup(s.Close)
	r.git = s
	r.restart()
}

// tokens is a request to store tokens: provider, token, host, and so on.
func tokens(t testing.TB, all ...any) string {
	m := map[string]any{}
	for i := 0; i < len(all); i += 3 {
		m[all[i].(string)] = map[string]any{"token": all[i+1], "host": all[i+2]}
	}
	raw, err := json.Marshal(map[string]any{"provider_tokens": m})
	check(t, err)
	return string(raw)
}

func goodToken(provider string) string {
	if provider == forge.Bitbucket {
		return forgetest.Basic
	}
	return forgetest.Token
}

const providersStored = `{"message":"Git providers stored"}`

// configured stores tokens of services that it starts.
func (r *rig) configured(providers ...string) map[string]*forgetest.Server {
	r.withGit()
	servers := map[string]*forgetest.Server{}
	var all []any
	for _, p := range providers {
		servers[p] = forgetest.New(r.TB, p)
		all = append(all, p, goodToken(p), servers[p].Host())
	}
	r.want("POST", "/api/add-git-providers", tokens(r.TB, all...), 200, providersStored)
	return servers
}

func (r *rig) storedTokens() map[string]account.ProviderToken {
	s, err := r.store.Accounts().Settings(r.Context(), "user-1")
	check(r.TB, err)
	return s.Secrets.ProviderTokens
}

func TestTokensAreVerifiedBeforeTheyAreStored(t *testing.T) {
	r := newRig(t)
	servers := r.configured(forge.GitHub)
	host := servers[forge.GitHub].Host()
	bad := `{"error":"Invalid token. Please make sure it is a valid github token."}`
	r.want("POST", "/api/add-git-providers", tokens(t, "github", "wrong-token", host), 401, bad)
	if r.storedTokens()["github"].Token.Reveal() != forgetest.Token {
		t.Error("a wrong token was stored")
	}
	// Any that fails counts, not the last one only.
	lab := forgetest.New(t, forge.GitLab)
	r.want("POST", "/api/add-git-providers", tokens(t, "github", "wrong-token", host, "gitlab", forgetest.Token, lab.Host()), 401, bad)
	r.want("POST", "/api/add-git-providers", tokens(t, "github", forgetest.Token, host, "gitlab", "wrong-token", lab.Host()), 401,
		`{"error":"Invalid token. Please make sure it is a valid gitlab token."}`)
	// A token is no other provider's, and what cannot be asked is not verified.
	for name, body := range map[string]string{
		"enterprise_sso": tokens(t, "enterprise_sso", "t", nil),
		"azure_devops":   tokens(t, "azure_devops", "t", nil),
		"bitbucket":      tokens(t, "bitbucket", "line\nbreak", nil),
		"gitlab":         tokens(t, "gitlab", "t", "http://169.254.169.254"),
		"forgejo":        tokens(t, "forgejo", "t", "ftp://x"),
	} {
		r.want("POST", "/api/add-git-providers", body, 401, `{"error":"Invalid token. Please make sure it is a valid `+name+` token."}`)
	}
	if len(r.storedTokens()) != 1 {
		t.Error("something was stored")
	}
}

func TestProvidersAreReplacedAsAWhole(t *testing.T) {
	r := newRig(t)
	servers := r.configured(forge.GitHub, forge.GitLab)
	lab, hub := servers[forge.GitLab].Host(), servers[forge.GitHub].Host()
	r.call("POST", "/api/secrets", `{"name":"S","value":"v"}`)
	asked := len(servers[forge.GitLab].Seen())
	for _, empty := range []any{nil, ""} { // keeps the token; the same host is not asked again
		r.want("POST", "/api/add-git-providers", tokens(t, "gitlab", empty, lab), 200, providersStored)
		if got := r.storedTokens(); len(got) != 1 || got["gitlab"].Token.Reveal() != forgetest.Token {
			t.Errorf("%v", got)
		}
	}
	if len(servers[forge.GitLab].Seen()) != asked {
		t.Error("a token that stays was verified again")
	}
	r.want("POST", "/api/add-git-providers", tokens(t, "github", nil, hub), 200, providersStored) // nothing to keep
	if got := r.storedTokens(); len(got) != 0 {
		t.Errorf("an entry without a token is stored: %v", got)
	}
	var set struct {
		Set map[string]*string `json:"provider_tokens_set"`
	}
	r.call("POST", "/api/settings", `{}`)
	r.want("POST", "/api/add-git-providers", tokens(t, "github", forgetest.Token, hub), 200, providersStored)
	r.decode("GET", "/api/settings", "", &set)
	if set.Set["github"] == nil || *set.Set["github"] != hub {
		t.Errorf("%v", set)
	}
	r.want("POST", "/api/add-git-providers", `{"mcp_config":{"anything":[7]},"more":1}`, 200, providersStored) // {} wipes all
	if got := r.storedTokens(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	r.want("GET", "/api/secrets", "", 200, `{"custom_secrets":[{"name":"S","description":""}]}`)
	r.want("POST", "/api/add-git-providers", tokens(t, "github", forgetest.Token, hub), 200, providersStored)
	r.want("POST", "/api/unset-provider-tokens", "", 200, `{"message":"Unset Git provider tokens"}`)
	r.want("GET", "/api/secrets", "", 200, `{"custom_secrets":[{"name":"S","description":""}]}`)
	if got := r.storedTokens(); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// A stored token is verified again where its host changes.
func TestAnotherHostIsVerified(t *testing.T) {
	r := newRig(t)
	servers := r.configured(forge.GitLab)
	before := servers[forge.GitLab].Host()
	other := forgetest.New(t, forge.GitLab)
	other.Fail(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusUnauthorized); return true })
	r.want("POST", "/api/add-git-providers", tokens(t, "gitlab", "", other.Host()), 401,
		`{"error":"Invalid token. Please make sure it is a valid gitlab token."}`)
	if got := r.storedTokens()["gitlab"]; got.Host == nil || *got.Host != before {
		t.Errorf("%v", got.Host)
	}
	other.Fail(nil)
	r.want("POST", "/api/add-git-providers", tokens(t, "gitlab", "", other.Host()), 200, providersStored)
}

// Choice 8 of the contract's section 20: without a way out tokens are stored, with a
// warning.
func TestTokensAreStoredWhereNobodyCanBeAsked(t *testing.T) {
	r := newRig(t)
	r.withGit()
	s := forgetest.New(t, forge.Forgejo)
	for _, status := range []int{http.StatusBadGateway, http.StatusTooManyRequests} {
		s.Fail(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(status); return true })
		r.want("POST", "/api/add-git-providers", tokens(t, "forgejo", "token-unseen", s.Host()), 200, providersStored)
		r.want("POST", "/api/unset-provider-tokens", "", 200, `{"message":"Unset Git provider tokens"}`)
	}
	r.want("POST", "/api/add-git-providers", tokens(t, "forgejo", "token-unseen", "http://localhost:1"), 200, providersStored)
	if r.storedTokens()["forgejo"].Token.Reveal() != "token-unseen" {
		t.Error("it is not stored")
	}
	if log := r.log.String(); strings.Count(log, "level=WARN") != 3 || strings.Contains(log, "token-unseen") {
		t.Errorf("%s", log)
	}
	s.Fail(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusForbidden); return true })
	r.want("POST", "/api/add-git-providers", tokens(t, "forgejo", "few-rights", s.Host()), 200, providersStored)
}

func TestProvidersOfWrongForm(t *testing.T) {
	r := newRig(t)
	r.withGit()
	for body, want := range map[string]string{
		``:                         `["body"] missing`,
		`null`:                     `["body"] missing`,
		`[{}]`:                     `["body"] model_attributes_type`,
		`{"provider_tokens":[]}`:   `["body","provider_tokens"] dict_type`,
		`{"provider_tokens":null}`: `["body","provider_tokens"] dict_type`,
		`{"provider_tokens":{"svn":{"token":"hush"}}}`:         `["body","provider_tokens","svn","[key]"] enum Input should be 'github', 'gitlab'`,
		`{"provider_tokens":{"github":"hush"}}`:                `["body","provider_tokens","github"] model_attributes_type`,
		`{"provider_tokens":{"github":{"token":["hush"]}}}`:    `["body","provider_tokens","github","token"] string_type`,
		`{"provider_tokens":{"github":{"token":12345678901}}}`: `["body","provider_tokens","github","token"] string_type`,
		`{"provider_tokens":{"github":{"host":7}}}`:            `["body","provider_tokens","github","host"] string_type`,
	} {
		got := r.wrongs("POST", "/api/add-git-providers", body)
		if len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: %q", body, got)
		}
		if _, answer := r.call("POST", "/api/add-git-providers", body); strings.Contains(answer, "hush") || strings.Contains(answer, "1234567") {
			t.Errorf("%s: a token is shown: %s", body, answer)
		}
	}
	r.want("POST", "/api/add-git-providers", `{}`, 200, providersStored)
	r.want("GET", "/api/settings", "", 404, `{"error":"Settings not found"}`)
	r.want("POST", "/api/reset-settings", "", 410, `{"error":"Reset settings functionality has been removed."}`)
	r.want("POST", "/api/reset-settings", `nonsense`, 410, `{"error":"Reset settings functionality has been removed."}`)
}
