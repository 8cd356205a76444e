package mcp_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/tool"
	"parley/internal/tool/mcp"
	"parley/internal/tool/mcp/mcptest"
)

func TestNamesThatClash(t *testing.T) {
	b := newBench(t)
	serverOf := func(tools ...string) string { return listen(t, (&mcptest.Server{Tools: tools}).Handler()) }
	a, c := remote("a", serverOf("search", "only_a", "x.y", "x y")), remote("c", serverOf("search", "terminal", "browser_go"))
	browser := remote("browser", serverOf("browser_go", "search"))
	want := []string{"a_search", "only_a", "x_y", "x_y_2", "browser_browser_go", "browser_search", "c_search", "c_terminal", "c_browser_go"}
	for _, servers := range [][]tool.Server{{a, browser, c}, {c, a, browser}} {
		got := names(b.open(servers...))
		slices.Sort(got)
		// Of a server called browser not even the prefix makes a name that is free.
		wanted := slices.Clone(want)
		wanted[4], wanted[5] = "mcp_browser_browser_go", "mcp_browser_search"
		slices.Sort(wanted)
		if !slices.Equal(got, wanted) {
			t.Errorf("%v, want %v", got, wanted)
		}
	}
}

// TestToolSetHoldsAll: whatever servers offer, the tools have names of their own.
func TestToolSetHoldsAll(t *testing.T) {
	b := newBench(t)
	var servers []tool.Server
	for i := range 6 {
		servers = append(servers, remote(fmt.Sprintf("s%d", i), listen(t, (&mcptest.Server{Mode: mcptest.ManyTools}).Handler())))
	}
	s := b.open(append(servers, servers[0])...) // one name twice, against the contract
	set, err := tool.NewSet(s.Tools()...)
	if err != nil || set.Len() != 512 {
		t.Fatalf("%d tools, %v", len(s.Tools()), err)
	}
	if last := s.Status()[5]; last.Tools != 0 || !strings.Contains(last.Detail, "128 tools not used") {
		t.Errorf("%+v", last)
	}
}

func TestServersStartInParallelUnderOneLimit(t *testing.T) {
	b := newBench(t, func(cfg *mcp.Config) { cfg.PerSession, cfg.ConnectTimeout = 3, 500*time.Millisecond })
	log := b.Path("starts")
	var servers []tool.Server
	for i := range 3 {
		servers = append(servers, tool.Server{Name: fmt.Sprintf("bad%d", i),
			Stdio: &account.MCPStdioServer{Command: "sh", Args: []string{"-c", "echo >>" + log + "; exec sleep 100"}}})
	}
	start := time.Now()
	s := b.host.Open(b.opt, servers)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	s.Settle(ctx) // returns with its context
	if took := time.Since(start); took > 300*time.Millisecond {
		t.Errorf("Open and Settle took %v", took)
	}
	until(t, "all three start together", func() bool { raw, _ := os.ReadFile(log); return len(raw) == 3 })
	s.Set(append(servers, remote("good", listen(t, (&mcptest.Server{}).Handler()))))
	until(t, "the good server, after one of those that hang", func() bool { return s.Status()[3].State == tool.ServerConnected })
	if took := time.Since(start); took < 500*time.Millisecond {
		t.Errorf("a fourth server started within %v", took)
	}
}

func TestRestartsBackOff(t *testing.T) {
	b := newBench(t, func(cfg *mcp.Config) { cfg.MinBackoff, cfg.MaxBackoff = 50*time.Millisecond, 10*time.Second })
	log := b.Path("starts")
	server := tool.Server{Name: "x", Stdio: &account.MCPStdioServer{Command: "sh", Args: []string{"-c", "date +%s%N >>" + log + "; exit 1"}}}
	s := b.open(server)
	times := func() (out []int64) {
		raw, _ := os.ReadFile(log)
		for line := range strings.Lines(string(raw)) {
			n, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
			out = append(out, n)
		}
		return out
	}
	starts := func() int { return len(times()) }
	until(t, "five starts", func() bool { return starts() >= 5 })
	at := times()
	for i, least := range []time.Duration{25, 50, 100, 200} {
		if pause := time.Duration(at[i+1] - at[i]); pause < least*time.Millisecond {
			t.Errorf("pause %d was %v", i, pause)
		}
	}
	n := starts()
	s.Set([]tool.Server{server}) // a user who cannot wait
	until(t, "a start at once", func() bool { return starts() > n })
}

// TestSetOfTheSameChangesNothing: conversations set their servers at every step.
func TestSetOfTheSameChangesNothing(t *testing.T) {
	b := newBench(t)
	var changed atomic.Int64
	b.opt.Changed = func() { changed.Add(1) }
	servers := []tool.Server{remote("one", listen(t, (&mcptest.Server{Tools: []string{"t1"}}).Handler())),
		remote("two", listen(t, (&mcptest.Server{Tools: []string{"t2"}}).Handler()))}
	s := b.open(servers...)
	until(t, "the host has told of both", func() bool { return changed.Load() >= 3 })
	before, told := s.Tools(), changed.Load()
	s.Set(servers)
	if !slices.Equal(s.Tools(), before) || changed.Load() != told {
		t.Errorf("the tools were made anew: %v; told %d times more", !slices.Equal(s.Tools(), before), changed.Load()-told)
	}
	servers[0].From = "elsewhere"
	s.Set(servers)
	if st := s.Status(); st[0].From != "elsewhere" || changed.Load() != told+1 {
		t.Errorf("%+v; told %d times more", st[0], changed.Load()-told)
	}
}

func TestSetReplacesServers(t *testing.T) {
	b := newBench(t)
	var changed atomic.Int64
	b.opt.Changed = func() { changed.Add(1) }
	one, two := remote("one", listen(t, (&mcptest.Server{Tools: []string{"t1"}}).Handler())), remote("two", listen(t, (&mcptest.Server{Tools: []string{"t2"}}).Handler()))
	s := b.open(one)
	kept := find(t, s, "t1")
	s.Set([]tool.Server{two, one})
	s.Settle(t.Context())
	if got := names(s); !slices.Equal(got, []string{"t1", "t2"}) {
		t.Errorf("%v", got)
	}
	if st := s.Status(); st[0].Name != "two" || st[1].Name != "one" {
		t.Errorf("%+v", st)
	}
	b.OK(kept, nil, nil)
	s.Set([]tool.Server{two})
	until(t, "the old server is gone", func() bool { return slices.Equal(names(s), []string{"t2"}) })
	if changed.Load() < 3 {
		t.Errorf("told %d times", changed.Load())
	}
	action, err := kept.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	var r tool.Result
	until(t, "its tool says so", func() bool {
		if r, err = kept.Run(t.Context(), b.Env, action); err != nil {
			t.Fatal(err)
		}
		return r.IsError && strings.Contains(parts(r), `"one" is not connected`)
	})
}

func TestClosedHost(t *testing.T) {
	b := newBench(t)
	b.host.Close()
	s := b.host.Open(b.opt, []tool.Server{remote("r", "http://127.0.0.1:1")})
	s.Settle(t.Context())
	if st := s.Status(); st[0].State != tool.ServerStopped {
		t.Errorf("%+v", st)
	}
}

func TestSandboxThatDoesNotCome(t *testing.T) {
	b := newBench(t)
	b.opt.Hands = func(ctx context.Context) (tool.Hands, error) {
		return nil, fault.New(fault.Unavailable, "x", "The sandbox is gone.")
	}
	b.wantStatus(b.open(program(t, "one", mcptest.Fine)), tool.ServerFailed, "The sandbox is gone.")
	b.opt.Hands = func(ctx context.Context) (tool.Hands, error) { <-ctx.Done(); return nil, ctx.Err() }
	s := b.host.Open(b.opt, []tool.Server{program(t, "one", mcptest.Fine), remote("two", listen(t, (&mcptest.Server{}).Handler()))})
	until(t, "the others do not wait for it", func() bool { return s.Status()[1].State == tool.ServerConnected })
	s.Close()
}

func TestOfAServer(t *testing.T) {
	fine := func(t *testing.T) tool.Server { return program(t, "x", mcptest.Fine) }
	for name, c := range map[string]struct {
		server  func(t *testing.T) tool.Server
		call    *tool.ServerCall
		timeout time.Duration
		ok      bool
		kind    string
		part    string // of the result or the error
	}{
		"tools":          {server: fine, ok: true},
		"call":           {server: fine, ok: true, call: &tool.ServerCall{Name: "echo", Arguments: map[string]any{"text": "hi"}}, part: `{\"text\":\"hi\"}`},
		"no arguments":   {server: fine, ok: true, call: &tool.ServerCall{Name: "echo"}, part: `"{}"`},
		"hangs":          {server: func(t *testing.T) tool.Server { return program(t, "x", mcptest.Hang) }, timeout: 300 * time.Millisecond, kind: "timeout", part: "did not answer in time"},
		"hangs in call":  {server: fine, call: &tool.ServerCall{Name: "slow"}, timeout: 700 * time.Millisecond, kind: "timeout", part: "did not answer in time"},
		"no command":     {server: func(t *testing.T) tool.Server { s := fine(t); s.Stdio.Command = "no-such-command"; return s }, kind: "connection", part: "no-such-command"},
		"ends":           {server: func(t *testing.T) tool.Server { return program(t, "x", mcptest.Exit) }, kind: "connection", part: "boom: TOKEN"},
		"dies in call":   {server: func(t *testing.T) tool.Server { return program(t, "x", mcptest.Die) }, call: &tool.ServerCall{Name: "echo"}, kind: "connection", part: "exit code 7"},
		"nobody there":   {server: func(*testing.T) tool.Server { return remote("x", "http://127.0.0.1:1") }, kind: "connection", part: "cannot be reached"},
		"neither":        {server: func(*testing.T) tool.Server { return tool.Server{Name: "x"} }, kind: "unknown", part: "neither"},
		"unknown secret": {server: func(*testing.T) tool.Server { return remote("x", "http://${HOST}") }, kind: "unknown", part: `"HOST"`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			timeout := c.timeout
			if timeout == 0 {
				timeout = time.Minute
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			r := b.host.Test(ctx, b.opt, c.server(t), c.call)
			if r.OK != c.ok || r.ErrorKind != c.kind || !strings.Contains(string(r.Result)+r.Error, c.part) {
				t.Errorf("%+v %s", r, r.Result)
			}
			if c.ok && (len(r.Tools) != 6 || r.Tools[0].Name != "echo" || len(r.Tools[0].InputSchema) == 0) {
				t.Errorf("%+v", r.Tools)
			}
		})
	}
}

// published are servers from npm, pinned in test/mcp.
func TestPublishedServers(t *testing.T) {
	modules, err := filepath.Abs("../../../test/mcp/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(modules); err != nil {
		t.Skip("the published servers are not installed: cd test/mcp && npm ci --ignore-scripts --no-audit --no-fund")
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("the published servers need Node.js, and there is no node in the PATH")
	}
	run := func(name string, args ...string) tool.Server {
		path := filepath.Join(modules, "@modelcontextprotocol", "server-"+name, "dist", "index.js")
		return tool.Server{Name: name, Stdio: &account.MCPStdioServer{Command: "node", Args: append([]string{path}, args...)}}
	}
	b := newBench(t)
	b.Write("hello.txt", "hello from a file")
	memory := run("memory")
	memory.Stdio.Env = map[string]account.Secret{"MEMORY_FILE_PATH": account.NewSecret(b.Path("memory.json"))}
	s := b.open(run("everything", "stdio"), run("filesystem", b.Dir), memory)
	for _, st := range s.Status() {
		if st.State != tool.ServerConnected {
			t.Errorf("%+v", st)
		}
	}
	if text := b.OK(find(t, s, "echo"), map[string]any{"message": "hi"}, nil); !strings.Contains(text, "Echo: hi") {
		t.Error(text)
	}
	if text := b.OK(find(t, s, "read_text_file"), map[string]any{"path": b.Path("hello.txt")}, nil); !strings.Contains(text, "hello from a file") {
		t.Error(text)
	}
	b.Refused(find(t, s, "read_text_file"), map[string]any{"path": "/etc/passwd"}, "denied")
	b.OK(find(t, s, "create_entities"), map[string]any{"entities": []any{map[string]any{"name": "Parley", "entityType": "server", "observations": []any{"speaks MCP"}}}}, nil)
	if text := b.OK(find(t, s, "read_graph"), nil, nil); !strings.Contains(text, "speaks MCP") {
		t.Error(text)
	}
	if text := b.OK(find(t, s, "mcp_list_resources"), nil, nil); !strings.Contains(text, "MCP server everything") {
		t.Error(text)
	}
	t.Log(names(s))
}
