package forge_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/forge"
	"parley/internal/forge/forgetest"
	"parley/internal/forge/rest"
	"parley/test/testkit/gittest"
)

// settings are those of all users.
type settings account.Settings

func (s *settings) Settings(context.Context, string) (*account.Settings, error) {
	return (*account.Settings)(s), nil
}

// internet lets every public host be one local server.
func internet(t testing.TB, server *gittest.Server) *http.Client {
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(server.Host(), "http://"))
	}
	tr := &http.Transport{DialContext: dial, DialTLSContext: dial}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func newService(t testing.TB, public *http.Client, tokens map[string]account.ProviderToken) *forge.Service {
	s := forge.New(forge.Config{Settings: &settings{Secrets: account.Secrets{ProviderTokens: tokens}}, Openers: openers,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Public: public})
	t.Cleanup(s.Close)
	return s
}

func tokenAt(s *forgetest.Server, token string) account.ProviderToken {
	host := s.Host()
	return account.ProviderToken{Token: account.NewSecret(token), Host: &host}
}

func TestARepositoryIsFoundWithTheTokens(t *testing.T) {
	hub, lab := forgetest.New(t, forge.GitHub), forgetest.New(t, forge.GitLab)
	s := newService(t, nil, map[string]account.ProviderToken{forge.GitHub: tokenAt(hub, forgetest.Token), forge.GitLab: tokenAt(lab, forgetest.Token)})
	for _, c := range []struct{ provider, repository, want string }{
		{"", "acme/alpha", forge.GitHub},
		{forge.GitLab, "acme/alpha", forge.GitLab}, // the named one first
		{"enterprise_sso", "acme/alpha", forge.GitHub},
		{"", lab.Host() + "/acme/alpha", forge.GitLab},
		{"", lab.Host() + "/acme/alpha.git", forge.GitLab},
	} {
		got, err := s.Find(t.Context(), "ada", c.provider, c.repository)
		if err != nil || got != c.want {
			t.Errorf("%+v: %s %v", c, got, err)
		}
	}
	hub.Fail(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusNotFound); return true })
	if got, err := s.Find(t.Context(), "ada", forge.GitHub, "acme/alpha"); err != nil || got != forge.GitLab {
		t.Errorf("the others are asked, too: %s %v", got, err)
	}
	before := len(lab.Seen())
	for _, name := range []string{"acme", "../acme/alpha", "acme/a b", "https://user:pw@git.example.com/a/b", "ssh://git@x/a/b", "://"} {
		if _, err := s.Find(t.Context(), "ada", forge.GitLab, name); err == nil {
			t.Errorf("%s is found", name)
		}
	}
	if len(lab.Seen()) != before {
		t.Error("the service was asked for what is no repository")
	}
}

// Choice 7 of the legacy contract's section 20: public repositories need no token.
func TestAPublicRepositoryIsFoundWithoutAToken(t *testing.T) {
	server := gittest.New(t)
	server.Commit("acme/alpha", gittest.Text(map[string]string{"README": "x"}))
	s := newService(t, internet(t, server), nil)
	for _, c := range []struct{ provider, repository, want string }{
		{"", "acme/alpha", forge.GitHub},
		{forge.GitLab, "acme/alpha", forge.GitLab},
		{"", "https://git.example.com/acme/alpha.git", ""},
		{forge.Forgejo, "https://git.example.com/acme/alpha.git/", forge.Forgejo},
	} {
		got, err := s.Find(t.Context(), "ada", c.provider, c.repository)
		if err != nil || got != c.want {
			t.Errorf("%+v: %s %v", c, got, err)
		}
	}
	for _, name := range []string{"acme/gone", "https://git.example.com/acme/gone"} {
		if _, err := s.Find(t.Context(), "ada", "", name); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, provider := range []string{"enterprise_sso", forge.BitbucketDataCenter} { // no place of their own
		if _, err := s.Find(t.Context(), "ada", provider, "acme/alpha"); err == nil {
			t.Errorf("found at %s", provider)
		}
	}
	server.Demand("u", "p")
	if _, err := s.Find(t.Context(), "ada", "", "acme/alpha"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a private one: %v", err)
	}
	for _, login := range server.Logins() {
		if login != "" {
			t.Error("a login was sent")
		}
	}
}

// The server connects to no private address that no user stored: a clone from there is
// the sandbox's business.
func TestAnAddressThatNobodyCanBeAskedAtIsTaken(t *testing.T) {
	server := gittest.New(t)
	s := newService(t, nil, nil)
	if got, err := s.Find(t.Context(), "ada", "", server.URL("acme/alpha")); err != nil || got != "" || len(server.Logins()) != 0 {
		t.Errorf("%s %v, %d requests", got, err, len(server.Logins()))
	}
	gone := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
	}}}
	_, err := newService(t, gone, nil).Find(t.Context(), "ada", "", "acme/alpha")
	if !fault.Is(err, fault.Unavailable) || fault.CodeOf(err) != rest.CodeUnreachable {
		t.Errorf("a name where nobody answers: %v", err)
	}
}
