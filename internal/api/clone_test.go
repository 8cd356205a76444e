package api_test

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/forge"
	"parley/internal/forge/forgetest"
	"parley/internal/store"
	"parley/test/testkit/gittest"
)

// hosting is a git hosting service: its API and its repositories at one address.
type hosting struct {
	api  *forgetest.Server
	git  *gittest.Server
	host string // as a user stores it

	mu   sync.Mutex
	seen []string // command lines with the token, during requests of git
}

// newHosting starts a service whose repository acme/alpha has a branch feature/one.
func newHosting(t *testing.T, provider string) *hosting {
	h := &hosting{api: forgetest.New(t, provider), git: gittest.New(t)}
	h.git.Commit("acme/alpha", gittest.Text(map[string]string{"README": "main"}))
	h.git.Branch("acme/alpha", "feature/one", gittest.Text(map[string]string{"README": "one"}))
	apiURL, err := url.Parse(h.api.Host())
	check(t, err)
	gitURL, err := url.Parse(h.git.Host())
	check(t, err)
	prefix := strings.TrimSuffix(strings.TrimSuffix(apiURL.Path, "/2.0"), "/rest/api/1.0")
	toAPI, toGit := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: apiURL.Host}), httputil.NewSingleHostReverseProxy(gitURL)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, ".git") && !strings.Contains(r.URL.Path, "/_git/") {
			toAPI.ServeHTTP(w, r)
			return
		}
		h.look(t)
		r.URL.Path = strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, prefix), "/scm")
		if project, rest, azure := strings.Cut(r.URL.Path, "/_git/"); azure {
			name, rest, _ := strings.Cut(rest, "/")
			r.URL.Path = project + "/" + name + ".git/" + rest
		}
		toGit.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	h.host = front.URL + prefix
	return h
}

// look searches the command lines of all processes for the token, while git runs.
func (h *hosting) look(t *testing.T) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	check(t, err)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range all {
		if line, err := os.ReadFile(name); err == nil && bytes.Contains(line, []byte(forgetest.Token)) {
			h.seen = append(h.seen, string(line))
		}
	}
}

// conversationOf starts a conversation in a repository and returns where it works.
func (w *world) conversationOf(provider, name, branch string) (id, dir string) {
	w.Helper()
	body := message("go")
	body["selected_repository"], body["git_provider"] = name, provider
	if branch != "" {
		body["selected_branch"] = branch
	}
	id, _ = w.begin(body)
	w.waitFor(id, conversation.Finished)
	return id, w.dirOf(id)
}

func (w *world) dirOf(id string) string {
	conv, err := w.store.Conversations().Get(w.Context(), account.FirstUserID, conversation.ID(id))
	check(w.TB, err)
	return conv.Options.WorkingDir
}

// TestAPrivateRepositoryIsCloned: the token logs git in, now and later, and is in no
// command line, file, event or log.
func TestAPrivateRepositoryIsCloned(t *testing.T) {
	logins := map[string]string{forge.GitHub: "x-access-token", forge.GitLab: "oauth2", forge.Bitbucket: "ada",
		forge.BitbucketDataCenter: "x-token-auth", forge.Forgejo: "oauth2", forge.AzureDevOps: "pat"}
	for _, provider := range forge.Providers() {
		t.Run(provider, func(t *testing.T) {
			h := newHosting(t, provider)
			h.git.Demand(logins[provider], forgetest.Token)
			token, name := forgetest.Token, h.api.Name("acme", "alpha")
			if provider == forge.Bitbucket {
				token = forgetest.Basic
			}
			w := newWorld(t, callTool("sh", `{"command":"git ls-remote --heads origin 2>&1"}`),
				callTool("sh", `{"command":"echo token:$`+strings.ToUpper(provider)+`_TOKEN"}`),
				callTool("sh", `{"command":"echo others: $(env | grep -c _TOKEN)"}`))
			w.call(200, "POST", gitProviders, gitTokens(provider, token, h.host))
			id, dir := w.conversationOf(provider, name, "feature/one")
			if text, err := os.ReadFile(filepath.Join(dir, "README")); string(text) != "one" {
				t.Errorf("%q, %v", text, err)
			}
			head, err := os.ReadFile(filepath.Join(dir, ".git/HEAD"))
			if string(head) != "ref: refs/heads/feature/one\n" {
				t.Errorf("%q, %v", head, err)
			}
			log := ""
			for _, e := range w.events(id) {
				if e.Kind != "SystemPromptEvent" {
					log += string(e.Raw) + "\n"
				}
			}
			if !strings.Contains(log, "refs/heads/main") || !strings.Contains(log, "token:<secret-hidden>") || !strings.Contains(log, "others: 0") {
				t.Errorf("git of the agent is not logged in, or others are: %s", log)
			}
			if strings.Contains(log, forgetest.Token) || strings.Contains(w.log.String(), forgetest.Token) {
				t.Error("an event or the log holds the token")
			}
			if len(h.seen) > 0 {
				t.Errorf("a command line holds the token: %q", h.seen)
			}
			grep(t, filepath.Dir(dir), forgetest.Token)
		})
	}
}

// grep fails the test if a file below a directory holds a text.
func grep(t *testing.T, dir, text string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(name)
		files++
		if bytes.Contains(raw, []byte(text)) {
			t.Errorf("%s holds the token", name)
		}
		return err
	})
	check(t, err)
	if files < 5 {
		t.Errorf("only %d files below %s", files, dir)
	}
}

// failed starts a conversation that cannot be, and returns what its task says.
func (w *world) failedStart(body map[string]any) string {
	w.Helper()
	task, detail := w.call(200, "POST", "/api/v1/app-conversations", body).text("id"), ""
	w.eventually("ERROR", func() bool {
		a := w.call(200, "GET", "/api/v1/app-conversations/start-tasks?ids="+task, nil)
		if a.text(0, "status") == "READY" {
			w.Fatalf("it started: %s", a.body)
		}
		if a.text(0, "status") != "ERROR" {
			return false
		}
		detail = a.text(0, "detail")
		return true
	})
	return detail
}

func TestARepositoryIsLookedForBeforeASandboxIsMade(t *testing.T) {
	w := newWorld(t)
	h := newHosting(t, forge.Forgejo)
	w.call(200, "POST", gitProviders, gitTokens("forgejo", forgetest.Token, h.host))
	start := map[string]any{"selected_repository": "acme/gone", "git_provider": "forgejo"}
	if said := w.failedStart(start); !strings.Contains(said, "has no repository acme/gone") {
		t.Errorf("%q", said)
	}
	h.api.Fail(func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusUnauthorized)
		return true
	})
	start["selected_repository"] = "acme/alpha"
	if said := w.failedStart(start); !strings.Contains(said, "rejected the token") {
		t.Errorf("%q", said)
	}
	boxes, err := w.fleet.Search(t.Context(), store.SandboxQuery{Owner: account.FirstUserID, Limit: 10})
	check(t, err)
	if len(boxes.Items) != 0 {
		t.Errorf("a sandbox was made: %+v", boxes.Items[0])
	}
	if len(h.git.Logins()) != 0 {
		t.Error("git was asked")
	}
	// A service that cannot answer now is not waited for.
	h.api.Fail(func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	if _, dir := w.conversationOf("forgejo", "acme/alpha", ""); filepath.Base(dir) != "alpha" {
		t.Error(dir)
	}
}

func TestANameWithoutAProviderIsLookedForEverywhere(t *testing.T) {
	w := newWorld(t)
	empty, h := forgetest.New(t, forge.GitHub), newHosting(t, forge.GitLab)
	empty.Fail(func(rw http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/repos/") {
			rw.WriteHeader(http.StatusNotFound)
			return true
		}
		return false
	})
	w.call(200, "POST", gitProviders, gitTokens("github", forgetest.Token, empty.Host(), "gitlab", forgetest.Token, h.host))
	id, view := w.begin(map[string]any{"selected_repository": "acme/alpha"})
	if view.text("git_provider") != "gitlab" || filepath.Base(w.dirOf(id)) != "alpha" {
		t.Errorf("%s", view.body)
	}
	if said := w.failedStart(map[string]any{"selected_repository": "acme/gone"}); !strings.Contains(said, "has no repository") {
		t.Errorf("%q", said)
	}
	// One that cannot say is none that has it.
	empty.Fail(func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusBadGateway)
		return true
	})
	if _, view := w.begin(map[string]any{"selected_repository": "acme/alpha"}); view.text("git_provider") != "gitlab" {
		t.Errorf("%s", view.body)
	}
}

func TestWhatIsNoRepositoryIsRefusedAtOnce(t *testing.T) {
	w := newWorld(t)
	for _, body := range []map[string]any{
		{"selected_repository": "../etc"}, {"selected_repository": "alpha"}, {"selected_repository": "--upload-pack=x/y"},
		{"selected_repository": "https://user:secret-password@git.example.com/a/b"}, {"selected_repository": "file:///etc/passwd"},
		{"selected_repository": "ext::sh -c x/y"}, {"selected_repository": "a/b", "git_provider": "enterprise_sso"},
		{"selected_repository": "a/b", "git_provider": "bitbucket_data_center"}, {"selected_repository": "a/b", "selected_branch": "--x"},
		{"selected_repository": "a/b", "selected_branch": "a b"},
	} {
		a := w.call(400, "POST", "/api/v1/app-conversations", body)
		if a.text("detail") == "" || strings.Contains(string(a.body), "secret-password") {
			t.Errorf("%v: %s", body, a.body)
		}
	}
}

func TestATokenIsNotSentElsewhere(t *testing.T) {
	w := newWorld(t)
	h, other := newHosting(t, forge.Forgejo), gittest.New(t)
	other.Commit("acme/alpha", gittest.Text(map[string]string{"README": "other"}))
	other.Demand("oauth2", forgetest.Token)
	w.call(200, "POST", gitProviders, gitTokens("forgejo", forgetest.Token, h.host))
	said := w.failedStart(map[string]any{"selected_repository": other.URL("acme/alpha"), "git_provider": "forgejo"})
	if strings.Contains(said, forgetest.Token) || said == "" {
		t.Errorf("%q", said)
	}
	if logins := other.Logins(); len(logins) == 0 || strings.Join(logins, "") != "" {
		t.Errorf("another host was told %q", logins)
	}
	// By its address, a repository of the place is logged in at, too.
	h.git.Demand("oauth2", forgetest.Token)
	if _, view := w.begin(map[string]any{"selected_repository": h.host + "/acme/alpha.git"}); view.text("selected_repository") == "" {
		t.Errorf("%s", view.body)
	}
}

func TestHowMuchHistoryIsCloned(t *testing.T) {
	h := newHosting(t, forge.Forgejo)
	shallow := func(full any, more map[string]any) bool {
		w := newWorld(t)
		w.call(200, "POST", gitProviders, gitTokens("forgejo", forgetest.Token, h.host))
		w.call(200, "POST", "/api/v1/settings", map[string]any{"git_full_clone": full})
		body := map[string]any{"selected_repository": "acme/alpha", "git_provider": "forgejo", "selected_branch": "feature/one"}
		for k, v := range more {
			body[k] = v
		}
		id, _ := w.begin(body)
		_, err := os.Stat(filepath.Join(w.dirOf(id), ".git/shallow"))
		return err == nil
	}
	task := func(typ string) map[string]any {
		return map[string]any{"suggested_task": map[string]any{"git_provider": "forgejo", "task_type": typ, "repo": "acme/alpha", "issue_number": 4, "title": "t"}}
	}
	if !shallow(nil, nil) || !shallow(false, task("OPEN_ISSUE")) {
		t.Error("all of the history was cloned")
	}
	if shallow(true, nil) || shallow(nil, task("MERGE_CONFLICTS")) {
		t.Error("a part of the history was cloned")
	}
}

func TestASuggestedTaskBringsItsRepository(t *testing.T) {
	w := newWorld(t)
	h := newHosting(t, forge.Forgejo)
	w.call(200, "POST", gitProviders, gitTokens("forgejo", forgetest.Token, h.host))
	id, view := w.begin(map[string]any{"suggested_task": map[string]any{"git_provider": "forgejo", "task_type": "OPEN_ISSUE",
		"repo": "acme/alpha", "issue_number": 4, "title": "A bug"}})
	w.waitFor(id, conversation.Finished)
	if view.text("selected_repository") != "acme/alpha" || view.text("git_provider") != "forgejo" {
		t.Errorf("%s", view.body)
	}
	said := ""
	for _, e := range w.events(id) {
		said += string(e.Raw)
	}
	if !strings.Contains(said, "issue #4") || !strings.Contains(said, "FORGEJO_TOKEN") {
		t.Errorf("the agent was not told: %s", said)
	}
}

// A commit is neither a branch nor a tag.
func TestACommitCanBeCheckedOut(t *testing.T) {
	w := newWorld(t)
	h := newHosting(t, forge.Forgejo)
	commit := h.git.Commit("acme/beta", gittest.Text(map[string]string{"README": "old"}))
	w.call(200, "POST", gitProviders, gitTokens("forgejo", forgetest.Token, h.host))
	_, dir := w.conversationOf("forgejo", "acme/beta", commit)
	if head, err := os.ReadFile(filepath.Join(dir, ".git/HEAD")); strings.TrimSpace(string(head)) != commit {
		t.Errorf("%q, %v", head, err)
	}
}
