package terminal_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/internal/content"
	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/process"
	"parley/internal/sandboxd"
	"parley/internal/tool"
	"parley/internal/tool/terminal"
)

// initArg makes this test binary the first process of a sandbox.
const initArg = "sandbox-init"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == initArg {
		process.Init(os.Args[2:], func(ctx context.Context, lis net.Listener, in hostbox.Inside) error {
			return sandboxd.Serve(ctx, lis, sandboxd.Options{WorkingDir: in.WorkingDir, Env: in.Env, PID1: true})
		})
	}
	goleak.VerifyTestMain(m)
}

// newProcessBox is a box of the process backend: the daemon is a process of its own.
func newProcessBox(t testing.TB) *box {
	t.Helper()
	dir, err := os.MkdirTemp("", "boxes") // short, for the socket's address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	backend, err := process.New(process.Options{Dir: dir, InitArgs: []string{initArg}, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	sandbox, err := backend.Create(context.Background(), sandbox.Spec{ID: "terminal"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := backend.Destroy(context.Background(), sandbox.Handle()); err != nil {
			t.Error(err)
		}
		_ = backend.Close()
	})
	b := &box{TB: t, dial: sandbox.Dial, env: &tool.Env{ConversationID: "terminal-" + filepath.Base(dir), WorkingDir: dir}}
	t.Cleanup(func() { _ = os.RemoveAll(b.env.StateDir()) })
	b.connect(terminal.Config{})
	return b
}

// box is a sandbox daemon in this process and a conversation with a terminal.
type box struct {
	testing.TB
	tool tool.Tool
	env  *tool.Env
	dial func(context.Context) (net.Conn, error)
}

// newBox starts a daemon on a unix socket. The soft time-out is long enough for a
// slow machine unless a test says otherwise.
func newBox(t testing.TB, config terminal.Config) *box {
	t.Helper()
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- sandboxd.Serve(ctx, listener, sandboxd.Options{
			WorkingDir: work,
			Env:        map[string]string{"PATH": os.Getenv("PATH"), "HOME": work},
		})
	}()
	b := &box{TB: t}
	b.dial = func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	b.env = &tool.Env{ConversationID: "terminal-" + filepath.Base(filepath.Dir(dir)), WorkingDir: work}
	t.Cleanup(func() { _ = os.RemoveAll(b.env.StateDir()) })
	b.connect(config)
	return b
}

// connect is a server that starts: a new client and a tool that knows nothing.
func (b *box) connect(config terminal.Config) {
	if config.Secret == nil {
		config.Secret = []byte("the server's secret")
	}
	if config.SoftTimeout == 0 {
		config.SoftTimeout = 20 * time.Second
	}
	client := sandboxd.NewClient(b.dial)
	b.Cleanup(client.Close)
	b.tool = terminal.New(config)
	b.env.Hands = client
}

// observation is what a client sees, and what the model reads.
type observation struct {
	Kind     string         `json:"kind"`
	Content  []content.Part `json:"content"`
	IsError  bool           `json:"is_error"`
	Command  string         `json:"command"`
	ExitCode int            `json:"exit_code"`
	Timeout  bool           `json:"timeout"`
	Metadata struct {
		ExitCode   int    `json:"exit_code"`
		PID        int    `json:"pid"`
		Username   string `json:"username"`
		WorkingDir string `json:"working_dir"`
		Prefix     string `json:"prefix"`
		Suffix     string `json:"suffix"`
	} `json:"metadata"`
	SaveDir string `json:"full_output_save_dir"`
	model   string
}

func (o observation) text() string { return content.JoinText(o.Content) }

func (b *box) start(ctx context.Context, args map[string]any) (tool.Result, error) {
	b.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		b.Fatal(err)
	}
	action, err := b.tool.Parse(raw)
	if err != nil {
		b.Fatalf("parse %s: %v", raw, err)
	}
	return b.tool.Run(ctx, b.env, action)
}

func (b *box) call(args map[string]any) observation {
	b.Helper()
	result, err := b.start(context.Background(), args)
	if err != nil {
		b.Fatalf("run %v: %v", args, err)
	}
	var o observation
	if err := json.Unmarshal(result.Observation, &o); err != nil {
		b.Fatal(err)
	}
	if o.Kind != "TerminalObservation" || o.IsError != result.IsError {
		b.Fatalf("kind %q, is_error %v, result %v", o.Kind, o.IsError, result.IsError)
	}
	o.model = content.JoinText(result.Parts)
	return o
}

// run runs a command that must end.
func (b *box) run(command string) observation {
	b.Helper()
	o := b.ended(b.call(map[string]any{"command": command}))
	if o.IsError {
		b.Fatalf("%q: %s", command, o.model)
	}
	return o
}

// input types into the running program.
func (b *box) input(text string) observation {
	b.Helper()
	return b.call(map[string]any{"command": text, "is_input": true})
}

// want checks output and exit code.
func (b *box) want(o observation, text string, code int) {
	b.Helper()
	if o.text() != text || o.ExitCode != code {
		b.Errorf("%q gave %q and exit code %d; want %q and %d", clip(o.Command), clip(o.text()), o.ExitCode, clip(text), code)
	}
}

func (b *box) wantIn(text, part string) {
	b.Helper()
	if !strings.Contains(text, part) {
		b.Errorf("%q is missing in %q", part, clip(text))
	}
}

func clip(s string) string {
	if len(s) > 600 {
		return s[:300] + "[...]" + s[len(s)-300:]
	}
	return s
}
