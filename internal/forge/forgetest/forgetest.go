// Package forgetest has strict servers that answer as git hosting services document
// it, over one set of data. They refuse what the services refuse, and fail the test
// at what no client should send: unknown paths, parameters and credentials.
package forgetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"parley/internal/forge"
)

// Token is what the servers take.
const Token = "good-token-of-the-user"

// Basic is the token of Bitbucket with its user.
const Basic = "ada:" + Token

// Org is the organization of Azure DevOps.
const Org = "contoso"

// Repo is a repository of the data.
type Repo struct {
	Owner, Name string
	Public      bool
	Stars       int
	Group       bool // the owner is an organization
	Updated     string
	Main        string
}

// Branch is a branch of the repository acme/alpha.
type Branch struct {
	Name, Commit string
	Protected    bool
}

// Repos are all repositories, the one that changed last first.
func Repos() []Repo {
	return []Repo{
		{"acme", "alpha", true, 30, true, "2026-03-05T10:00:00Z", "main"},
		{"acme", "beta", false, 5, true, "2026-03-04T10:00:00Z", "develop"},
		{"ada", "notes", false, 1, false, "2026-03-03T10:00:00Z", "main"},
		{"ada", "alphabet", true, 12, false, "2026-03-02T10:00:00Z", "main"},
		{"acme", "gamma", true, 0, true, "2026-03-01T10:00:00Z", "main"},
	}
}

// Branches are those of acme/alpha; the others have none.
func Branches() []Branch {
	return []Branch{{"main", "a1", true}, {"feature/one", "b2", false}, {"feature/two", "c3", false}, {"fix-1", "d4", false}, {"release", "e5", true}}
}

// Server is a service.
type Server struct {
	t        testing.TB
	provider string
	http     *httptest.Server
	prefix   string // of the path that the service lives below
	header   string // the Authorization that it takes
	most     int    // items of a page

	mu     sync.Mutex
	seen   []string
	scopes []string
	fail   func(w http.ResponseWriter, r *http.Request) bool
}

// New starts a service until the end of the test. Installations of one's own are below
// a path.
func New(t testing.TB, provider string) *Server {
	t.Helper()
	s := &Server{t: t, provider: provider, most: 100}
	mux := http.NewServeMux()
	routes := map[string]func(*Server) map[string]route{forge.GitHub: github, forge.GitLab: gitlab, forge.Bitbucket: bitbucket,
		forge.BitbucketDataCenter: bitbucketDC, forge.Forgejo: forgejo, forge.AzureDevOps: azure}[provider](s)
	addFiles(provider, routes)
	for pattern, r := range routes {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+s.prefix+path, func(w http.ResponseWriter, q *http.Request) { s.serve(w, q, r) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.t.Errorf("forgetest: %s has no %s %s", provider, r.Method, r.URL)
		w.WriteHeader(http.StatusNotFound)
	})
	s.http = httptest.NewServer(mux)
	t.Cleanup(s.http.Close)
	return s
}

// Host is what a user stores as the host.
func (s *Server) Host() string {
	if s.provider == forge.AzureDevOps {
		return s.http.URL + "/" + Org
	}
	return s.http.URL + strings.TrimSuffix(s.prefix, map[string]string{forge.GitHub: "/api"}[s.provider])
}

// Name is a repository's full name at the service.
func (s *Server) Name(owner, name string) string {
	if s.provider == forge.AzureDevOps {
		return Org + "/" + owner + "/" + name
	}
	return owner + "/" + name
}

// Fail lets f answer instead of the service as long as it says so; nil = never.
func (s *Server) Fail(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// Allow lets the service say that the token has these scopes; nil = it does not tell.
func (s *Server) Allow(scopes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scopes = scopes
}

// Scopes are those of Allow.
func (s *Server) Scopes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scopes
}

// Seen are the requests until now: "GET /path".
func (s *Server) Seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// route is one resource.
type route struct {
	params []string // those that may be sent
	answer func(r *http.Request, w http.ResponseWriter) any
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, to route) {
	s.mu.Lock()
	s.seen = append(s.seen, r.Method+" "+r.URL.Path)
	fail := s.fail
	s.mu.Unlock()
	if fail != nil && fail(w, r) {
		return
	}
	if r.Header.Get("Authorization") != s.header {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprint(w, `{"message":"Bad credentials"}`)
		return
	}
	if r.Header.Get("User-Agent") == "" || strings.Contains(r.URL.String(), Token) {
		s.t.Errorf("forgetest: a request without an agent, or with the token in its address: %s", r.URL)
	}
	for name := range r.URL.Query() {
		if !slices.Contains(to.params, name) {
			s.t.Errorf("forgetest: %s %s takes no %s", s.provider, r.URL.Path, name)
		}
	}
	answer := to.answer(r, w)
	if status, ok := answer.(int); ok {
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, `{"message":"no"}`)
		return
	}
	if text, ok := answer.(plain); ok {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, string(text))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.t.Error(err)
	}
}

type object = map[string]any

// number reads a parameter in its bounds; a wrong one fails the test.
func (s *Server) number(q url.Values, name string, least, most, absent int) int {
	if !q.Has(name) {
		return absent
	}
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < least || n > most {
		s.t.Errorf("forgetest: %s does not take %s=%s", s.provider, name, q.Get(name))
		return least
	}
	return n
}

// pages cuts a list by page numbers and links to the next one.
func pages[T any](s *Server, r *http.Request, w http.ResponseWriter, all []T, sizeName string) []T {
	q := r.URL.Query()
	page := s.number(q, "page", 1, 1<<20, 1)
	size := min(s.number(q, sizeName, 1, 100, 20), s.most)
	from := min((page-1)*size, len(all))
	to := min(from+size, len(all))
	if to < len(all) {
		q.Set("page", strconv.Itoa(page+1))
		next := *r.URL
		next.Scheme, next.Host, next.RawQuery = "https", "elsewhere.example.com", q.Encode()
		w.Header().Set("Link", fmt.Sprintf(`<https://x.example.com/?page=1>; rel="first", <%s>; rel="next"`, next.String()))
	}
	return all[from:to]
}

// repos filters the data.
func repos(keep func(Repo) bool) []Repo {
	return slices.DeleteFunc(Repos(), func(r Repo) bool { return !keep(r) })
}

func find(owner, name string) (Repo, bool) {
	found := repos(func(r Repo) bool { return strings.EqualFold(r.Owner, owner) && strings.EqualFold(r.Name, name) })
	if len(found) == 0 {
		return Repo{}, false
	}
	return found[0], true
}

// branchesOf is nil for a repository that is not there.
func branchesOf(owner, name, text string) []Branch {
	r, ok := find(owner, name)
	switch {
	case !ok:
		return nil
	case r.Name != "alpha":
		return []Branch{}
	}
	return slices.DeleteFunc(Branches(), func(b Branch) bool { return !strings.Contains(b.Name, text) })
}

func each[T, U any](all []T, f func(T) U) []U {
	out := make([]U, 0, len(all))
	for _, v := range all {
		out = append(out, f(v))
	}
	return out
}

// graphql reads a query; its braces must match.
func (s *Server) graphql(r *http.Request) (query string, vars object) {
	var in struct {
		Query     string `json:"query"`
		Variables object `json:"variables"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Header.Get("Content-Type") != "application/json" ||
		strings.Count(in.Query, "{") != strings.Count(in.Query, "}") || strings.Count(in.Query, "(") != strings.Count(in.Query, ")") {
		s.t.Errorf("forgetest: this is no query: %v %q", err, in.Query)
	}
	for name := range in.Variables {
		if !strings.Contains(in.Query, "$"+name+":") {
			s.t.Errorf("forgetest: the query does not declare %s", name)
		}
	}
	return in.Query, in.Variables
}
