package collection

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// remote is a real repository behind a real HTTP server that runs git's own
// program for that.
type remote struct {
	t   *testing.T
	dir string // below it are the repositories
	*httptest.Server

	mu    sync.Mutex
	posts []string                                          // bodies of POST requests
	hook  func(w http.ResponseWriter, r *http.Request) bool // answers instead, if it returns true
}

// gitProgram skips a test on a machine without git.
func gitProgram(t testing.TB) string {
	t.Helper()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git on this machine: repositories cannot be tested")
	}
	return program
}

func newRemote(t *testing.T) *remote {
	t.Helper()
	program := gitProgram(t)
	r := &remote{t: t, dir: t.TempDir()}
	r.git("", nil, "init", "--quiet", "--bare", "--initial-branch=main", r.repository())
	backend := filepath.Join(strings.TrimSpace(r.git("", nil, "--exec-path")), "git-http-backend")
	if _, err := exec.LookPath(backend); err != nil {
		t.Skipf("git has no http-backend on this machine: repositories cannot be tested (%v)", err)
	}
	handler := &cgi.Handler{Path: program, Args: []string{"http-backend"}, Root: "/", Dir: r.dir,
		Env: []string{"GIT_PROJECT_ROOT=" + r.dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}, Stderr: io.Discard}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.record(req)
		r.mu.Lock()
		hook := r.hook
		r.mu.Unlock()
		if hook == nil || !hook(w, req) {
			handler.ServeHTTP(w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// record keeps the body of a request and leaves it to be read again.
func (r *remote) record(req *http.Request) {
	if req.Method != http.MethodPost {
		return
	}
	var body bytes.Buffer
	_, _ = body.ReadFrom(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posts = append(r.posts, body.String())
	req.Body = readCloser{bytes.NewReader(body.Bytes())}
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

// fetches counts how often objects were asked for.
func (r *remote) fetches() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(r.posts), func(p string) bool { return !strings.Contains(p, "command=fetch") }))
}

func (r *remote) answer(hook func(w http.ResponseWriter, r *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hook = hook
}

func (r *remote) repository() string { return filepath.Join(r.dir, "r.git") }

// git runs a command on the repository; stdin may be nil.
func (r *remote) git(dir string, stdin []byte, args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(context.Background(), "git", args...)
	cmd.Dir, cmd.Stdin = r.dir, bytes.NewReader(stdin)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + r.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=T", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@example.com"}
	if dir != "" {
		cmd.Env = append(cmd.Env, "GIT_DIR="+dir)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// entry is what a path of a commit is.
type entry struct {
	mode string // "" = 100644
	data string // of a submodule: the commit
}

// commit replaces all files of a branch and returns the commit.
func (r *remote) commit(branch string, files map[string]entry) string {
	r.t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "commit refs/heads/%s\ncommitter T <t@example.com> 1700000000 +0000\ndata 1\nm\n", branch)
	if _, err := exec.Command("git", "--git-dir", r.repository(), "rev-parse", "--verify", "refs/heads/"+branch).Output(); err == nil {
		fmt.Fprintf(&b, "from refs/heads/%s^0\n", branch)
	}
	b.WriteString("deleteall\n")
	for name, e := range files {
		switch e.mode {
		case "160000":
			fmt.Fprintf(&b, "M 160000 %s %s\n", e.data, name)
		case "":
			e.mode = "100644"
			fallthrough
		default:
			fmt.Fprintf(&b, "M %s inline %s\ndata %d\n%s\n", e.mode, name, len(e.data), e.data)
		}
	}
	r.git(r.repository(), b.Bytes(), "fast-import", "--quiet", "--force")
	return r.id("refs/heads/" + branch)
}

func (r *remote) id(ref string) string {
	r.t.Helper()
	return strings.TrimSpace(r.git(r.repository(), nil, "rev-parse", "--verify", ref+"^{commit}"))
}

// location is of the repository, with a fragment behind it.
func (r *remote) location(fragment string) string { return r.URL + "/r.git" + fragment }

// skillFile is an AgentSkill.
func skillFile(name, text string) string {
	return fmt.Sprintf("---\nname: %s\ndescription: What %s is for.\n---\n%s\n", name, name, text)
}

// skills is a commit with one skill per name.
func skills(names ...string) map[string]entry {
	files := map[string]entry{}
	for _, name := range names {
		files["skills/"+name+"/SKILL.md"] = entry{data: skillFile(name, "text of "+name)}
	}
	return files
}
