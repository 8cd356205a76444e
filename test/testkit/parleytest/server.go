// Package parleytest runs the real binary for end-to-end tests: it builds it,
// starts it on a free loopback port with a data directory of its own, talks to
// it, kills it and starts it again.
package parleytest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Key is the first user's key in every test server.
const Key = "test-key-0123456789abcdef"

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "parley-e2e-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "parley")
	if err := os.Chmod(dir, 0o755); err != nil { // tests run it as another user too
		return "", err
	}
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	script := filepath.Join(filepath.Dir(strings.TrimSpace(string(mod))), "scripts", "build")
	if out, err := exec.Command(script, bin).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return bin, nil
})

// Binary returns the path of the freshly built binary. PARLEY_TEST_BINARY names
// another one.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("PARLEY_TEST_BINARY"); path != "" {
		return path
	}
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// Cleanup removes what Binary built; call it at the end of TestMain.
func Cleanup() {
	if bin, err := build(); err == nil {
		_ = os.RemoveAll(filepath.Dir(bin))
	}
}

// Options say how to run a server. The zero value runs with the sandbox backend
// that tests use by default and without the demo model.
type Options struct {
	Dir     string   // data directory; "" = a fresh one
	Sandbox string   // "" = local
	Args    []string // further arguments of serve
	Env     []string // further environment
	Demo    bool
	Agent   string              // run as the agent-server of this directory; "" = serve
	Cred    *syscall.Credential // run as another user
}

// Server is a running binary.
type Server struct {
	URL  string
	Dir  string
	opt  Options
	t    testing.TB
	cmd  *exec.Cmd
	log  *logBuffer
	done chan struct{}
}

// logBuffer collects standard error.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Start runs a server and waits until it is ready. It ends with the test.
func Start(t testing.TB, opt Options) *Server {
	t.Helper()
	if opt.Dir == "" {
		opt.Dir = dataDir(t)
	}
	if opt.Sandbox == "" {
		opt.Sandbox = "local"
	}
	s := &Server{Dir: opt.Dir, opt: opt, t: t}
	s.URL = "http://" + freeAddress(t)
	t.Cleanup(func() {
		s.Stop()
		s.removeSandboxes()
		if t.Failed() {
			t.Logf("server log:\n%s", s.Log())
		}
	})
	s.Again()
	return s
}

// dataDir is short, because unix sockets live below it, and outside t.TempDir,
// whose removal would fail on files of other users.
func dataDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pt-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func freeAddress(t testing.TB) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	return lis.Addr().String()
}

// Again starts the server (again) over the same data directory.
func (s *Server) Again() {
	s.t.Helper()
	args := []string{"serve", "--listen", strings.TrimPrefix(s.URL, "http://")}
	if s.opt.Agent != "" {
		_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
		args = []string{"agent-server", "--port", port, "--workspace", s.opt.Agent}
	}
	args = append(args, "--data", s.Dir, "--sandbox", s.opt.Sandbox)
	if s.opt.Demo {
		args = append(args, "--demo")
	}
	s.log = &logBuffer{}
	s.cmd = exec.Command(Binary(s.t), append(args, s.opt.Args...)...)
	s.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.Dir, "SESSION_API_KEY=" + Key,
		"PARLEY_LLM_RETRY_MIN=50ms", "PARLEY_LLM_RETRY_MAX=200ms",
		"PARLEY_AUTO_TITLES=false"}, s.opt.Env...)
	s.cmd.Stderr, s.cmd.Stdout = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.opt.Cred}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) { _ = cmd.Wait(); close(done) }(s.cmd, s.done)
	s.Eventually("the server to be ready", func() bool {
		select {
		case <-s.done:
			s.t.Fatalf("the server ended:\n%s", s.Log())
		default:
		}
		resp, err := http.Get(s.URL + "/ready")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// Log returns what the server wrote.
func (s *Server) Log() string { return s.log.String() }

// PID is the server's process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Kill ends the server like a crash.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop ends the server with SIGTERM and returns how long it took.
func (s *Server) Stop() time.Duration {
	start := time.Now()
	s.end(syscall.SIGTERM)
	return time.Since(start)
}

func (s *Server) end(sig syscall.Signal) {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig)
	select {
	case <-s.done:
	case <-time.After(20 * time.Second):
		_ = s.cmd.Process.Kill()
		s.t.Errorf("the server did not end after %s", sig)
	}
}

// removeSandboxes deletes all sandboxes of the data directory.
func (s *Server) removeSandboxes() {
	if _, err := os.Stat(filepath.Join(s.Dir, "parley.db")); err != nil {
		return
	}
	s.opt.Agent = "" // sandboxes are V1's
	s.Again()
	var page struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
	}
	for {
		if code := s.Call("GET", "/api/v1/sandboxes/search", nil, &page); code != http.StatusOK || len(page.Items) == 0 {
			break
		}
		for _, it := range page.Items {
			if code := s.Call("DELETE", "/api/v1/sandboxes/"+it.ID, nil, nil); code != http.StatusOK {
				s.t.Errorf("sandbox %s not removed: %d", it.ID, code)
				s.Stop()
				return
			}
		}
		page.Items = nil
	}
	s.Stop()
}

// Eventually polls until ok or a deadline passes.
func (s *Server) Eventually(what string, ok func() bool) {
	s.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited in vain for %s\n%s", what, s.Log())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Call makes a request with the user's key, decodes a JSON answer into out (if
// not nil) and returns the status.
func (s *Server) Call(method, path string, body, out any) int {
	s.t.Helper()
	return s.CallAs(Key, method, path, body, out)
}

// CallAs is Call with another key; "" sends none.
func (s *Server) CallAs(key, method, path string, body, out any) int {
	s.t.Helper()
	status, raw, err := s.Raw(context.Background(), key, method, path, body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	if out != nil {
		if err := json.Unmarshal(raw, out); err != nil {
			s.t.Fatalf("%s %s: %d %s: %v", method, path, status, raw, err)
		}
	}
	return status
}

// Raw makes a request and returns status and body. A string or []byte body is
// sent as it is, anything else as JSON.
func (s *Server) Raw(ctx context.Context, key, method, path string, body any) (int, []byte, error) {
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	case []byte:
		r = bytes.NewReader(b)
	default:
		raw, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.resolve(path), r)
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("X-Session-API-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, raw, err
}

func (s *Server) resolve(path string) string {
	if strings.HasPrefix(path, "http") {
		return path
	}
	return s.URL + path
}

// ErrNoConversation says that a start task failed.
var ErrNoConversation = errors.New("the conversation did not start")
