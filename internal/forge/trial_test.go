package forge_test

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/forge"
	"parley/internal/forge/forgetest"
	"parley/internal/forge/rest"
)

func given(token, host string) account.ProviderToken {
	t := account.ProviderToken{Token: account.NewSecret(token)}
	if host != "" {
		t.Host = &host
	}
	return t
}

func TestATrialOfEveryService(t *testing.T) {
	service := newService(t, nil, nil)
	everywhere(t, func(t *testing.T, s *forgetest.Server, _ forge.Host, provider string) {
		good := service.Try(t.Context(), provider, given(tokenOf(provider), s.Host()))
		if good.Err != nil || !strings.HasPrefix(good.Login, "ada") || !strings.HasPrefix(s.Host(), good.Host) || good.Seconds <= 0 || good.Scopes != nil || good.Lacks != nil {
			t.Errorf("%+v", good)
		}
		wrong := service.Try(t.Context(), provider, given("another-token", s.Host()))
		if fault.CodeOf(wrong.Err) != rest.CodeRejected || wrong.Login != "" || strings.Contains(wrong.Err.Error(), "another-token") {
			t.Errorf("a wrong token: %+v", wrong)
		}
		s.Fail(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusForbidden); return true })
		few := service.Try(t.Context(), provider, given(tokenOf(provider), s.Host()))
		if fault.CodeOf(few.Err) != forge.CodeScope || !strings.Contains(fault.PublicText(few.Err), "The token ") && provider != forge.GitHub {
			t.Errorf("too few rights: %+v", few)
		}
		s.Fail(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true })
		if down := service.Try(t.Context(), provider, given(tokenOf(provider), s.Host())); fault.CodeOf(down.Err) != rest.CodeFailed {
			t.Errorf("a host that fails: %+v", down)
		}
	})
}

func TestATrialTellsScopesThatAreMissing(t *testing.T) {
	for _, c := range []struct {
		name, provider string
		scopes, lacks  []string
	}{
		{"github, all", forge.GitHub, []string{"read:org", "repo"}, nil},
		{"github, public repositories only", forge.GitHub, []string{"public_repo"}, []string{"repo"}},
		{"github, none", forge.GitHub, []string{}, []string{"repo"}},
		{"gitlab, api", forge.GitLab, []string{"api"}, nil},
		{"gitlab, two", forge.GitLab, []string{"read_api", "write_repository"}, nil},
		{"gitlab, reading only", forge.GitLab, []string{"read_api"}, []string{"write_repository"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := forgetest.New(t, c.provider)
			s.Allow(c.scopes)
			got := newService(t, nil, nil).Try(t.Context(), c.provider, given(forgetest.Token, s.Host()))
			if got.Err != nil || !slices.Equal(got.Scopes, c.scopes) || !slices.Equal(got.Lacks, c.lacks) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestATrialOfHostsThatAreNone(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	closed := lis.Addr().String()
	check(t, lis.Close())
	for _, c := range []struct{ name, provider, host, token, code string }{
		{"nobody listens", forge.GitLab, "http://" + closed, "x", rest.CodeUnreachable},
		{"an address of this network's metadata", forge.GitLab, "http://169.254.169.254", "x", rest.CodeAddress},
		{"no host", forge.Forgejo, "http://a b", "x", forge.CodeBadHost},
		{"a host is needed", forge.BitbucketDataCenter, "", "x", forge.CodeBadHost},
		{"no such provider", "sourceforge", "", "x", forge.CodeBadProvider},
		{"a token that cannot be sent", forge.GitHub, "", "a\nb", forge.CodeBadToken},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := newService(t, nil, nil).Try(t.Context(), c.provider, given(c.token, c.host))
			if fault.CodeOf(got.Err) != c.code {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestAStoredTokenGoesToItsHostOnly(t *testing.T) {
	for _, c := range []struct {
		name          string
		stored, asked account.ProviderToken
		token         string
		ok            bool
	}{
		{"the given one", given("old", "a.example"), given("new", "b.example"), "new", true},
		{"the stored one", given("old", "a.example"), given("", ""), "old", true},
		{"the same host in other words", given("old", "a.example"), given("", "https://A.example/api/v4"), "old", true},
		{"another host", given("old", "a.example"), given("", "b.example"), "old", false},
		{"no longer encrypted", given("old", "a.example"), given("", "http://a.example"), "old", false},
		{"of the public service", given("old", ""), given("", "gitlab.com"), "old", true},
		{"none", account.ProviderToken{}, given("", ""), "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := forge.Merged(forge.GitLab, c.stored, c.asked)
			if ok != c.ok || ok && got.Token.Reveal() != c.token {
				t.Errorf("%v %v", got.Token.Reveal(), ok)
			}
		})
	}
}
