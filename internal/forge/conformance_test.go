package forge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/forge"
	"parley/internal/forge/azuredevops"
	"parley/internal/forge/bitbucket"
	"parley/internal/forge/bitbucketdc"
	"parley/internal/forge/forgejo"
	"parley/internal/forge/forgetest"
	"parley/internal/forge/github"
	"parley/internal/forge/gitlab"
	"parley/internal/forge/rest"
)

var openers = map[string]forge.Opener{forge.GitHub: github.Open, forge.GitLab: gitlab.Open, forge.Bitbucket: bitbucket.Open,
	forge.BitbucketDataCenter: bitbucketdc.Open, forge.Forgejo: forgejo.Open, forge.AzureDevOps: azuredevops.Open}

func tokenOf(provider string) string {
	if provider == forge.Bitbucket {
		return forgetest.Basic
	}
	return forgetest.Token
}

func open(t testing.TB, provider, host, token string) forge.Host {
	t.Helper()
	place, err := forge.PlaceOf(provider, host)
	check(t, err)
	client := rest.NewHTTP(place.Own)
	t.Cleanup(client.CloseIdleConnections)
	h, err := openers[provider](forge.Conn{Place: place, Token: account.NewSecret(token), HTTP: client})
	check(t, err)
	return h
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// everywhere runs a test against every service.
func everywhere(t *testing.T, f func(t *testing.T, s *forgetest.Server, h forge.Host, provider string)) {
	for _, provider := range forge.Providers() {
		t.Run(provider, func(t *testing.T) {
			s := forgetest.New(t, provider)
			f(t, s, open(t, provider, s.Host(), tokenOf(provider)), provider)
		})
	}
}

func TestTheUserIsWhomTheTokenBelongsTo(t *testing.T) {
	everywhere(t, func(t *testing.T, s *forgetest.Server, h forge.Host, provider string) {
		u, err := h.User(t.Context())
		check(t, err)
		if u.ID == "" || !strings.HasPrefix(u.Login, "ada") || u.Name != "Ada" {
			t.Errorf("%+v", u)
		}
		_, err = open(t, provider, s.Host(), "another-token").User(t.Context())
		if !fault.Is(err, fault.Unauthenticated) || fault.CodeOf(err) != rest.CodeRejected || strings.Contains(err.Error(), "another-token") {
			t.Errorf("a wrong token: %v", err)
		}
	})
}

func TestOrganizations(t *testing.T) {
	everywhere(t, func(t *testing.T, s *forgetest.Server, h forge.Host, provider string) {
		names, err := h.Organizations(t.Context())
		check(t, err)
		want := "acme"
		if provider == forge.AzureDevOps {
			want = forgetest.Org
		}
		if !slices.Contains(names, want) {
			t.Errorf("%q", names)
		}
		l, err := h.Installations(t.Context(), forge.Page{Limit: 1})
		check(t, err)
		if provider == forge.GitHub { // the token is none of an app
			if len(l.Items) != 0 || l.Next != "" {
				t.Errorf("%+v", l)
			}
		} else if len(l.Items) != 1 || l.Items[0] != "acme" {
			t.Errorf("%+v", l)
		}
	})
}

// names reads all pages of repositories.
func names(t *testing.T, h forge.Host, q forge.RepositoryQuery) []string {
	t.Helper()
	var all []string
	for range 20 {
		l, err := h.Repositories(t.Context(), q)
		check(t, err)
		if len(l.Items) > q.Limit {
			t.Errorf("a page of %d has %d", q.Limit, len(l.Items))
		}
		for _, r := range l.Items {
			all = append(all, r.FullName)
		}
		if q.ID = l.Next; q.ID == "" {
			return all
		}
	}
	t.Fatal("the list does not end")
	return nil
}

func sorted(names ...string) []string {
	slices.Sort(names)
	return names
}

func expect(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(sorted(got...), sorted(want...)) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestRepositories(t *testing.T) {
	everywhere(t, func(t *testing.T, s *forgetest.Server, h forge.Host, provider string) {
		var every []string
		for _, r := range forgetest.Repos() {
			every = append(every, s.Name(r.Owner, r.Name))
		}
		p := forge.Page{Limit: 2}
		expect(t, "pages", names(t, h, forge.RepositoryQuery{Page: p}), every)
		first, err := h.Repositories(t.Context(), forge.RepositoryQuery{Page: p})
		check(t, err)
		for _, id := range []string{"zzz", "-1", "99999999999999999999", "0x1"} {
			again, err := h.Repositories(t.Context(), forge.RepositoryQuery{Page: forge.Page{ID: id, Limit: 2}})
			check(t, err)
			if len(again.Items) != len(first.Items) || again.Items[0].FullName != first.Items[0].FullName {
				t.Errorf("an unknown page %q is not the first: %+v", id, again)
			}
		}
		alpha, alphabet := s.Name("acme", "alpha"), s.Name("ada", "alphabet")
		expect(t, "search", names(t, h, forge.RepositoryQuery{Text: "alpha", Page: p}), []string{alpha, alphabet})
		expect(t, "an owner's", names(t, h, forge.RepositoryQuery{Text: "ada/alph", Page: p}), []string{alphabet})
		expect(t, "nothing", names(t, h, forge.RepositoryQuery{Text: "nothing-like-this", Page: p}), nil)
		expect(t, "an installation's", names(t, h, forge.RepositoryQuery{Installation: "acme", Page: p}),
			[]string{alpha, s.Name("acme", "beta"), s.Name("acme", "gamma")})
		place, err := forge.PlaceOf(provider, s.Host())
		check(t, err)
		address, err := place.CloneURL(alpha)
		check(t, err)
		expect(t, "an address", names(t, h, forge.RepositoryQuery{Text: address.String(), Page: p}), []string{alpha})
		address.Path = strings.Replace(address.Path, "alpha", "gone", 1)
		expect(t, "an address of nothing", names(t, h, forge.RepositoryQuery{Text: address.String(), Page: p}), nil)
	})
}

func TestARepositoryIsShownAsItIs(t *testing.T) {
	everywhere(t, func(t *testing.T, s *forgetest.Server, h forge.Host, provider string) {
		for _, want := range forgetest.Repos() {
			r, err := h.Repository(t.Context(), s.Name(want.Owner, want.Name))
			check(t, err)
			if r.FullName != s.Name(want.Owner, want.Name) || r.Public != want.Public || r.ID == "" || r.Provider != provider ||
				r.Stars != nil && *r.Stars != want.Stars || r.MainBranch != "" && r.MainBranch != want.Main {
				t.Errorf("%+v of %+v", r, want)
			}
			if owner := map[bool]forge.OwnerType{true: forge.OwnerOrganization, false: forge.OwnerUser}[want.Group]; r.OwnerType != "" &&
				r.OwnerType != owner && provider != forge.AzureDevOps {
				t.Errorf("%s belongs to %q", r.FullName, r.OwnerType)
			}
		}
		if _, err := h.Repository(t.Context(), s.Name("acme", "gone")); !fault.Is(err, fault.NotFound) {
			t.Errorf("one that is not there: %v", err)
		}
		before := len(s.Seen())
		for _, name := range []string{"", "alpha", "acme/..", "../acme/alpha", "acme//alpha", "acme/al pha\n", "acme/a?b", "acme/a%2fb", strings.Repeat("a/", 300) + "b"} {
			if _, err := h.Repository(t.Context(), name); !fault.Is(err, fault.Invalid) {
				t.Errorf("%q: %v", name, err)
			}
		}
		if len(s.Seen()) != before {
			t.Error("the service was asked for what is no name")
		}
	})
}

func TestRepositoriesCanBeSortedByStars(t *testing.T) {
	for _, provider := range []string{forge.GitHub, forge.GitLab, forge.Forgejo} {
		t.Run(provider, func(t *testing.T) {
			s := forgetest.New(t, provider)
			h := open(t, provider, s.Host(), forgetest.Token)
			for _, text := range []string{"", "a"} {
				l, err := h.Repositories(t.Context(), forge.RepositoryQuery{Text: text, Sort: "stars", Page: forge.Page{Limit: 10}})
				check(t, err)
				if !slices.IsSortedFunc(l.Items, func(a, b forge.Repository) int { return *b.Stars - *a.Stars }) || len(l.Items) < 3 {
					t.Errorf("%q: %+v", text, l.Items)
				}
			}
		})
	}
}

func TestBranches(t *testing.T) {
	everywhere(t, func(t *testing.T, s *forgetest.Server, h forge.Host, _ string) {
		read := func(text string, limit int, id string) (all []string) {
			for range 20 {
				l, err := h.Branches(t.Context(), forge.BranchQuery{Repository: s.Name("acme", "alpha"), Text: text, Page: forge.Page{ID: id, Limit: limit}})
				check(t, err)
				if len(l.Items) > limit {
					t.Errorf("a page of %d has %d", limit, len(l.Items))
				}
				for _, b := range l.Items {
					all = append(all, b.Name+" "+b.Commit)
				}
				if id = l.Next; id == "" {
					return all
				}
			}
			t.Fatal("the list does not end")
			return nil
		}
		expect(t, "pages", read("", 2, ""), []string{"main a1", "feature/one b2", "feature/two c3", "fix-1 d4", "release e5"})
		expect(t, "search", read("feature", 1, ""), []string{"feature/one b2", "feature/two c3"})
		expect(t, "nothing", read("nothing", 10, ""), nil)
		_, err := h.Branches(t.Context(), forge.BranchQuery{Repository: s.Name("acme", "gone"), Page: forge.Page{Limit: 5}})
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("of a repository that is not there: %v", err)
		}
	})
}

func TestAPageOfASearchThatNobodyGaveIsTheFirst(t *testing.T) {
	s := forgetest.New(t, forge.GitHub)
	h := open(t, forge.GitHub, s.Host(), forgetest.Token)
	l, err := h.Branches(t.Context(), forge.BranchQuery{Repository: "acme/alpha", Text: "feature", Page: forge.Page{ID: "nonsense", Limit: 1}})
	check(t, err)
	if len(l.Items) != 1 || l.Items[0].Name != "feature/one" {
		t.Errorf("%+v", l)
	}
}

func TestTasks(t *testing.T) {
	conflict, red, talk := "MERGE_CONFLICTS acme/alpha 1", "FAILING_CHECKS acme/alpha 2", "UNRESOLVED_COMMENTS acme/alpha 3"
	open, issue := "OPEN_PR acme/alpha 4", "OPEN_ISSUE acme/beta 5"
	want := map[string][]string{forge.GitHub: {conflict, red, talk, open, issue}, forge.GitLab: {conflict, red, talk, open, issue},
		forge.Bitbucket: {open}, forge.BitbucketDataCenter: {conflict, talk, open}, forge.Forgejo: {open, issue},
		forge.AzureDevOps: {"MERGE_CONFLICTS contoso/acme/alpha 1", "OPEN_PR contoso/acme/alpha 4"}}
	everywhere(t, func(t *testing.T, _ *forgetest.Server, h forge.Host, provider string) {
		tasks, err := h.Tasks(t.Context())
		check(t, err)
		var got []string
		for _, task := range tasks {
			if task.GitProvider != provider || task.Title == "" {
				t.Errorf("%+v", task)
			}
			got = append(got, fmt.Sprintf("%s %s %d", task.TaskType, task.Repo, task.IssueNumber))
		}
		expect(t, "tasks", got, want[provider])
	})
}

// calls are all requests of a host.
func calls(h forge.Host, name string) map[string]func(ctx context.Context) error {
	p := forge.Page{Limit: 5}
	return map[string]func(ctx context.Context) error{
		"user": func(ctx context.Context) error { _, err := h.User(ctx); return err },
		"repositories": func(ctx context.Context) error {
			_, err := h.Repositories(ctx, forge.RepositoryQuery{Page: p})
			return err
		},
		"search": func(ctx context.Context) error {
			_, err := h.Repositories(ctx, forge.RepositoryQuery{Text: "a", Page: p})
			return err
		},
		"repository": func(ctx context.Context) error { _, err := h.Repository(ctx, name); return err },
		"branches": func(ctx context.Context) error {
			_, err := h.Branches(ctx, forge.BranchQuery{Repository: name, Page: p})
			return err
		},
		"branch search": func(ctx context.Context) error {
			_, err := h.Branches(ctx, forge.BranchQuery{Repository: name, Text: "a", Page: p})
			return err
		},
		"tasks":   func(ctx context.Context) error { _, err := h.Tasks(ctx); return err },
		"request": func(ctx context.Context) error { _, err := h.IsOpen(ctx, name, 4); return err },
	}
}

func TestWhatAServiceRefusesIsSaid(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		header map[string]string
		body   string
		kind   fault.Kind
		wait   time.Duration
	}{
		{"401", 401, nil, `{}`, fault.Unauthenticated, 0},
		{"403", 403, nil, `{}`, fault.Forbidden, 0},
		{"403 of a limit", 403, map[string]string{"X-RateLimit-Remaining": "0", "Retry-After": "17"}, `{}`, fault.RateLimited, 17 * time.Second},
		{"404", 404, nil, `<html>`, fault.NotFound, 0},
		{"422", 422, nil, `{}`, fault.Invalid, 0},
		{"429", 429, map[string]string{"Retry-After": "61"}, ``, fault.RateLimited, 61 * time.Second},
		{"429 for longer than a day", 429, map[string]string{"Retry-After": "999999999"}, ``, fault.RateLimited, 24 * time.Hour},
		{"429 without a time", 429, map[string]string{"Retry-After": "soon"}, ``, fault.RateLimited, 0},
		{"500", 500, nil, `{}`, fault.Unavailable, 0},
		{"a page", 200, nil, `<html>log in</html>`, fault.Unavailable, 0},
		{"half an answer", 200, nil, `{"id": 7, "values": [`, fault.Unavailable, 0},
		{"too much", 200, nil, `"` + strings.Repeat("x", 9<<20) + `"`, fault.Unavailable, 0},
		{"another host", 302, map[string]string{"Location": "https://elsewhere.example.com/"}, ``, fault.Unavailable, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, s *forgetest.Server, h forge.Host, provider string) {
				s.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
					for k, v := range c.header {
						w.Header().Set(k, v)
					}
					w.WriteHeader(c.status)
					_, _ = w.Write([]byte(c.body))
					return true
				})
				for name, call := range calls(h, s.Name("acme", "alpha")) {
					err := call(t.Context())
					var f *fault.Error
					if !fault.Is(err, c.kind) {
						t.Errorf("%s: %v", name, err)
					} else if !errors.As(err, &f) || f.RetryAfter != c.wait || f.Public == "" {
						t.Errorf("%s: %+v", name, f)
					}
					if err != nil && strings.Contains(fmt.Sprintf("%+v %#v", err, err), forgetest.Token) {
						t.Errorf("%s: the error holds the token: %v", name, err)
					}
				}
			})
		})
	}
}

func TestTheTokenGoesToItsHostOnly(t *testing.T) {
	var got []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.URL.String()) }))
	defer other.Close()
	everywhere(t, func(t *testing.T, s *forgetest.Server, h forge.Host, _ string) {
		s.Fail(func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		})
		for name, call := range calls(h, s.Name("acme", "alpha")) {
			if err := call(t.Context()); !fault.Is(err, fault.Unavailable) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	if len(got) > 0 {
		t.Errorf("the other host was asked: %q", got)
	}
}

func TestARenamedRepositoryIsFollowed(t *testing.T) {
	s := forgetest.New(t, forge.GitHub)
	s.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/old") {
			http.Redirect(w, r, strings.TrimSuffix(r.URL.Path, "old")+"alpha", http.StatusMovedPermanently)
			return true
		}
		return false
	})
	r, err := open(t, forge.GitHub, s.Host(), forgetest.Token).Repository(t.Context(), "acme/old")
	check(t, err)
	if r.FullName != "acme/alpha" {
		t.Errorf("%+v", r)
	}
}

func TestAServiceThatHangsIsLeftWithTheContext(t *testing.T) {
	everywhere(t, func(t *testing.T, s *forgetest.Server, h forge.Host, _ string) {
		asked, stop := make(chan struct{}, 10), make(chan struct{})
		defer close(stop)
		s.Fail(func(_ http.ResponseWriter, r *http.Request) bool {
			asked <- struct{}{}
			select {
			case <-r.Context().Done():
			case <-stop:
			}
			return true
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-asked; cancel() }()
		if _, err := h.User(ctx); !fault.Is(err, fault.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

func TestNobodyThereIsUnavailable(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, err := open(t, forge.GitLab, gone.URL, forgetest.Token).User(t.Context())
	if !fault.Is(err, fault.Unavailable) || fault.CodeOf(err) != rest.CodeUnreachable || strings.Contains(err.Error(), forgetest.Token) {
		t.Errorf("%v", err)
	}
}

func TestACertificateThatNobodyVouchesForIsRefused(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("it was asked with %v", r.Header)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	_, err := open(t, forge.Forgejo, s.URL, forgetest.Token).User(t.Context())
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.PublicText(err), "certificate") {
		t.Errorf("%v", err)
	}
}
