package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/tool"
	"parley/internal/tool/mcp"
	"parley/internal/tool/mcp/mcptest"
	"parley/internal/tool/tooltest"
)

// TestMain is also the hostile server: the test binary with these arguments is one.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "mcp-server" {
		serve(os.Args[2:])
		return
	}
	goleak.VerifyTestMain(m)
}

func serve(args []string) {
	if args[0] == mcptest.Exit {
		fmt.Fprintln(os.Stderr, "boom: TOKEN is not set")
		os.Exit(3)
	}
	info := map[string]string{"args": strings.Join(args[1:], " "), "pid": fmt.Sprint(os.Getpid())}
	for _, pair := range os.Environ() {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "MCPTEST_") {
			info[name] = value
		}
	}
	info["dir"], _ = os.Getwd()
	(&mcptest.Server{Mode: args[0], Info: info, Die: os.Exit}).Serve(os.Stdin, os.Stdout)
}

// bench is a host with a real sandbox.
type bench struct {
	*tooltest.Box
	host    *mcp.Host
	opt     tool.ServerOptions
	secrets map[string]string
}

func newBench(t testing.TB, change ...func(*mcp.Config)) *bench {
	t.Helper()
	b := &bench{Box: tooltest.New(t), secrets: map[string]string{}}
	cfg := mcp.Config{Reserved: []string{"terminal", "browser_*"}, ConnectTimeout: 20 * time.Second,
		MinBackoff: 5 * time.Millisecond, MaxBackoff: 20 * time.Millisecond, RelistPause: 10 * time.Millisecond}
	for _, c := range change {
		c(&cfg)
	}
	b.host = mcp.New(cfg)
	t.Cleanup(b.host.Close)
	b.opt = tool.ServerOptions{Owner: "u", Conversation: "c-1", WorkingDir: b.Dir,
		Hands:  func(context.Context) (tool.Hands, error) { return b.Env.Hands, nil },
		Secret: func(name string) (string, bool) { v, ok := b.secrets[name]; return v, ok }}
	return b
}

// program is the hostile server as a program.
func program(t testing.TB, name, mode string, args ...string) tool.Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return tool.Server{Name: name, From: "settings", Stdio: &account.MCPStdioServer{Name: name, Command: self, Args: append([]string{"mcp-server", mode}, args...)}}
}

func remote(name, url string) tool.Server {
	return tool.Server{Name: name, HTTP: &account.MCPHTTPServer{URL: url}}
}

func listen(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// open opens a session and waits until its servers have started or failed.
func (b *bench) open(servers ...tool.Server) tool.ServerSession {
	b.Helper()
	s := b.host.Open(b.opt, servers)
	ctx, cancel := context.WithTimeout(b.context(), time.Minute)
	defer cancel()
	s.Settle(ctx)
	return s
}

func (b *bench) context() context.Context {
	if t, ok := b.TB.(*testing.T); ok {
		return t.Context()
	}
	return context.Background()
}

func names(s tool.ServerSession) []string {
	var out []string
	for _, t := range s.Tools() {
		out = append(out, t.Spec().Name)
	}
	return out
}

func find(t testing.TB, s tool.ServerSession, name string) tool.Tool {
	t.Helper()
	for _, tl := range s.Tools() {
		if tl.Spec().Name == name {
			return tl
		}
	}
	t.Fatalf("no tool %s in %v; %+v", name, names(s), s.Status())
	return nil
}

// until polls, because servers come and go by themselves.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (b *bench) wantStatus(s tool.ServerSession, state string, parts ...string) {
	b.Helper()
	var st tool.ServerStatus
	defer func() {
		if b.Failed() {
			b.Logf("last: %+v", st)
		}
	}()
	until(b, state+" "+strings.Join(parts, ", "), func() bool {
		st = s.Status()[0]
		return st.State == state && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(st.Detail, p) })
	})
}

// info is what the server knows of how it was started.
func (b *bench) info(s tool.ServerSession) map[string]string {
	b.Helper()
	text := b.OK(find(b, s, "info"), nil, nil)
	_, raw, _ := strings.Cut(text, "\n")
	var info map[string]string
	if err := json.Unmarshal([]byte(raw), &info); err != nil {
		b.Fatal(err, text)
	}
	return info
}

func parts(r tool.Result) string { return content.JoinText(r.Parts) }
