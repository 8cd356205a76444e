// Package gittest serves git repositories over HTTP for tests, with git's own
// program for that. Their files are written by hand: a repository may have what no
// file system would take, such as a link that leads anywhere.
package gittest

import (
	"bytes"
	"fmt"
	"io"
	"net"
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

// Server serves repositories until the end of the test.
type Server struct {
	t    testing.TB
	dir  string
	http *httptest.Server

	mu     sync.Mutex
	login  string // "user:password" that it demands; "" = none
	logins []string
}

// Demand lets the server take requests with a user and password only (Basic).
func (s *Server) Demand(user, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.login = user + ":" + password
}

// Logins are the users and passwords of the requests until now, "" for those without.
func (s *Server) Logins() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.logins)
}

// Host is the server's address.
func (s *Server) Host() string { return s.http.URL }

// guard demands a login.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, ok := r.BasicAuth()
		got := ""
		if ok {
			got = user + ":" + password
		}
		s.mu.Lock()
		s.logins = append(s.logins, got)
		want := s.login
		s.mu.Unlock()
		if want != "" && got != want {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// File is a file of a commit. The zero value is an empty one.
type File struct {
	Data    string // content; of a link its target
	Program bool   // it can be executed
	Link    bool   // a symbolic link
}

// Text makes files of texts.
func Text(files map[string]string) map[string]File {
	out := make(map[string]File, len(files))
	for name, text := range files {
		out[name] = File{Data: text}
	}
	return out
}

// New starts a server on 127.0.0.1. Without git, or its program that serves, the test
// is skipped.
func New(t testing.TB) *Server {
	t.Helper()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Skip("SKIPPED: there is no git on this machine, so that no repository can be served")
	}
	s := &Server{t: t, dir: t.TempDir()}
	backend := filepath.Join(strings.TrimSpace(s.git(nil, "--exec-path")), "git-http-backend")
	if _, err := exec.LookPath(backend); err != nil {
		t.Skipf("SKIPPED: git has no http-backend on this machine, so that no repository can be served: %v", err)
	}
	lis, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("gittest: %v", err)
	}
	s.http = httptest.NewUnstartedServer(s.guard(&cgi.Handler{Path: program, Args: []string{"http-backend"}, Root: "/", Dir: s.dir,
		Env: append(environment(s.dir), "GIT_PROJECT_ROOT="+s.dir, "GIT_HTTP_EXPORT_ALL=1"), Stderr: io.Discard}))
	_ = s.http.Listener.Close()
	s.http.Listener = lis
	s.http.Start()
	t.Cleanup(s.http.Close)
	return s
}

// URL is the address of a repository.
func (s *Server) URL(name string) string { return s.http.URL + "/" + name + ".git" }

// Commit replaces all files of a repository's branch main, which is made if it is not
// there, and returns the commit.
func (s *Server) Commit(name string, files map[string]File) string {
	s.t.Helper()
	dir := filepath.Join(s.dir, name+".git")
	s.git(nil, "init", "--quiet", "--bare", "--initial-branch=main", dir)
	s.git(stream(files), "-C", dir, "fast-import", "--quiet", "--force")
	return strings.TrimSpace(s.git(nil, "-C", dir, "rev-parse", "main"))
}

// Branch puts a commit on top of a repository's branch main, in another branch.
func (s *Server) Branch(name, branch string, files map[string]File) {
	s.t.Helper()
	dir := filepath.Join(s.dir, name+".git")
	commit := strings.Replace(string(stream(files)), "refs/heads/main", "refs/heads/"+branch, 1)
	commit = strings.Replace(commit, "data 1\nm\n", "data 1\nm\nfrom refs/heads/main^0\n", 1)
	s.git([]byte(commit), "-C", dir, "fast-import", "--quiet", "--force")
}

// stream is a commit as git fast-import reads it.
func stream(files map[string]File) []byte {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	var b bytes.Buffer
	b.WriteString("commit refs/heads/main\ncommitter T <t@example.com> 1700000000 +0000\ndata 1\nm\n")
	for _, name := range names {
		f := files[name]
		mode := "100644"
		switch {
		case f.Link:
			mode = "120000"
		case f.Program:
			mode = "100755"
		}
		fmt.Fprintf(&b, "M %s inline %s\ndata %d\n%s\n", mode, quote(name), len(f.Data), f.Data)
	}
	return b.Bytes()
}

// quote writes a path in the quotes that git reads.
func quote(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + `"`
}

func environment(home string) []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
}

func (s *Server) git(stdin []byte, args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin, cmd.Env = s.dir, bytes.NewReader(stdin), environment(s.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %v: %v\n%.2000s", args, err, out)
	}
	return string(out)
}
