package forge_test

import (
	"net/url"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/forge"
)

func TestAHostHasOneSpelling(t *testing.T) {
	for _, c := range []struct {
		provider, host, web, api string
		own                      bool
	}{
		{forge.GitHub, "", "https://github.com", "https://api.github.com", false},
		{forge.GitHub, "  GitHub.com ", "https://github.com", "https://api.github.com", false},
		{forge.GitHub, "https://www.github.com:443/", "https://github.com", "https://api.github.com", false},
		{forge.GitHub, "api.github.com", "https://github.com", "https://api.github.com", false},
		{forge.GitHub, "ghe.example.com", "https://ghe.example.com", "https://ghe.example.com/api/v3", true},
		{forge.GitHub, "https://ghe.example.com:8443/api/v3/", "https://ghe.example.com:8443", "https://ghe.example.com:8443/api/v3", true},
		{forge.GitHub, "acme.ghe.com", "https://acme.ghe.com", "https://api.acme.ghe.com", true},
		{forge.GitLab, "", "https://gitlab.com", "https://gitlab.com/api/v4", false},
		{forge.GitLab, "example.com/git/lab/", "https://example.com/git/lab", "https://example.com/git/lab/api/v4", true},
		{forge.GitLab, "http://10.1.2.3:80", "http://10.1.2.3", "http://10.1.2.3/api/v4", true},
		{forge.Bitbucket, "", "https://bitbucket.org", "https://api.bitbucket.org/2.0", false},
		{forge.BitbucketDataCenter, "bb.example.com/bitbucket", "https://bb.example.com/bitbucket", "https://bb.example.com/bitbucket/rest/api/1.0", true},
		{forge.Forgejo, "git.example.com:3000", "https://git.example.com:3000", "https://git.example.com:3000/api/v1", true},
		{forge.Forgejo, "[fd00::1]:3000", "https://[fd00::1]:3000", "https://[fd00::1]:3000/api/v1", true},
		{forge.AzureDevOps, "dev.azure.com/contoso", "https://dev.azure.com/contoso", "https://dev.azure.com/contoso", false},
	} {
		p, err := forge.PlaceOf(c.provider, c.host)
		if err != nil {
			t.Errorf("%s %q: %v", c.provider, c.host, err)
			continue
		}
		if p.Web.String() != c.web || p.API().String() != c.api || p.Own != c.own {
			t.Errorf("%s %q: %s, %s, %v", c.provider, c.host, &p.Web, p.API(), p.Own)
		}
	}
}

func TestWhatIsNoHostIsRefused(t *testing.T) {
	for _, host := range []string{"ftp://x.example.com", "https://user:password@x.example.com", "https://", "x.example.com?q", "x.example.com#f",
		"x.example.com/../y", "file:///etc/passwd", "exa mple.com", strings.Repeat("x", 600), "https://x.example.com:port", `x.example.com/a\b`} {
		_, err := forge.PlaceOf(forge.GitLab, host)
		if !fault.Is(err, fault.Invalid) || fault.CodeOf(err) != forge.CodeBadHost {
			t.Errorf("%q: %v", host, err)
		}
		if err != nil && strings.Contains(err.Error(), "password") {
			t.Errorf("%q: the error repeats it: %v", host, err)
		}
	}
	if _, err := forge.PlaceOf(forge.BitbucketDataCenter, ""); !fault.Is(err, fault.Invalid) {
		t.Errorf("Bitbucket Data Center without a host: %v", err)
	}
	if _, err := forge.PlaceOf("enterprise_sso", ""); fault.CodeOf(err) != forge.CodeBadProvider {
		t.Errorf("a provider without an API: %v", err)
	}
}

func TestWhereARepositoryIsClonedFrom(t *testing.T) {
	for _, c := range []struct{ provider, host, name, want string }{
		{forge.GitHub, "", "acme/alpha", "https://github.com/acme/alpha.git"},
		{forge.GitHub, "", "acme/alpha.git", "https://github.com/acme/alpha.git"},
		{forge.GitLab, "example.com/lab", "g/sub/alpha", "https://example.com/lab/g/sub/alpha.git"},
		{forge.Bitbucket, "", "acme/alpha", "https://bitbucket.org/acme/alpha.git"},
		{forge.BitbucketDataCenter, "bb.example.com/bb", "~ada/alpha", "https://bb.example.com/bb/scm/~ada/alpha.git"},
		{forge.Forgejo, "http://git.example.com:3000", "a/b", "http://git.example.com:3000/a/b.git"},
		{forge.AzureDevOps, "dev.azure.com/contoso", "contoso/My Project/repo", "https://dev.azure.com/contoso/My%20Project/_git/repo"},
		{forge.AzureDevOps, "dev.azure.com/contoso", "My Project/repo", "https://dev.azure.com/contoso/My%20Project/_git/repo"},
		{forge.AzureDevOps, "", "contoso/project/repo", "https://dev.azure.com/contoso/project/_git/repo"},
	} {
		p, err := forge.PlaceOf(c.provider, c.host)
		check(t, err)
		u, err := p.CloneURL(c.name)
		if err != nil || u.String() != c.want {
			t.Errorf("%s %s %s: %v, %v", c.provider, c.host, c.name, u, err)
			continue
		}
		if !p.Holds(u) {
			t.Errorf("%s is not at %s", u, &p.Web)
		}
		if name := p.Name(u.String()); name == "" {
			t.Errorf("%s has no name", u)
		} else if again, err := p.CloneURL(name); err != nil || again.String() != c.want {
			t.Errorf("%s is named %s, which is at %v: %v", u, name, again, err)
		}
	}
	for _, name := range []string{"alpha", "a/b/c", "-x/y", "a/-b", "a/..", "a/b?c", "a/b#c", "a/b:c", "a@b/c", "a b/c", "a/\nb", ""} {
		p, err := forge.PlaceOf(forge.GitHub, "")
		check(t, err)
		if u, err := p.CloneURL(name); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v, %v", name, u, err)
		}
	}
}

func TestATokenIsForItsPlaceOnly(t *testing.T) {
	p, err := forge.PlaceOf(forge.GitLab, "https://example.com/lab")
	check(t, err)
	for address, want := range map[string]bool{"https://example.com/lab/a/b.git": true, "https://EXAMPLE.com:443/lab/a/b": true,
		"https://example.com/labor/a/b": false, "http://example.com/lab/a/b": false, "https://example.com:444/lab/a": false,
		"https://example.com.evil.example.org/lab/a": false, "https://evil.example.org/lab/a": false, "https://example.com/lab/../a/b": false,
		"https://example.com/a/b": false} {
		u, err := url.Parse(address)
		check(t, err)
		if p.Holds(u) != want {
			t.Errorf("%s: %v", address, !want)
		}
	}
}

func TestWhatGitSendsForAToken(t *testing.T) {
	for _, c := range []struct{ provider, token, user, password string }{
		{forge.GitHub, "t", "x-access-token", "t"},
		{forge.GitHub, "a:b", "x-access-token", "a:b"},
		{forge.GitLab, "t", "oauth2", "t"},
		{forge.Bitbucket, "t", "x-token-auth", "t"},
		{forge.Bitbucket, "ada:pw", "ada", "pw"},
		{forge.Bitbucket, "ada@example.com:api", "x-bitbucket-api-token-auth", "api"},
		{forge.BitbucketDataCenter, "ada@example.com:pw", "ada@example.com", "pw"},
		{forge.AzureDevOps, "t", "pat", "t"},
	} {
		user, password := forge.Place{Provider: c.provider}.Login(account.NewSecret(c.token))
		if user != c.user || password.Reveal() != c.password {
			t.Errorf("%s: %s %s", c.provider, user, password.Reveal())
		}
	}
}

// Whatever a user or client writes, a clone stays at the place, and no address makes
// git take it for an option.
func FuzzPlace(f *testing.F) {
	for _, p := range forge.Providers() {
		f.Add(p, "git.example.com:8443/x", "acme/alpha")
	}
	f.Add(forge.GitHub, "https://a.example.com/%2e%2e/b", "a/..")
	f.Fuzz(func(t *testing.T, provider, host, name string) {
		p, err := forge.PlaceOf(provider, host)
		if err != nil {
			return
		}
		again, err := forge.PlaceOf(provider, p.Web.String())
		if err != nil || again.Web != p.Web {
			t.Fatalf("%q is %s, and that is %s: %v", host, &p.Web, &again.Web, err)
		}
		u, err := p.CloneURL(name)
		if err != nil {
			return
		}
		if !p.Holds(u) || strings.ContainsAny(u.String(), " \n\r\x00") || !strings.HasPrefix(u.String(), p.Web.Scheme+"://"+p.Web.Host+"/") {
			t.Fatalf("%q %q: %s", host, name, u)
		}
		_ = p.Name(name)
	})
}
