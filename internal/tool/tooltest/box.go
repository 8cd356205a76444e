// Package tooltest is the bench on which tools are tested: a real sandbox daemon in
// the test's process, with a working directory of its own.
package tooltest

import (
	"context"
	"encoding/json"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/content"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

// Box is a sandbox and a conversation in it.
type Box struct {
	testing.TB
	Env *tool.Env
	Dir string // the working directory
}

// New starts a sandbox that ends with the test.
func New(t testing.TB) *Box {
	t.Helper()
	root, err := os.MkdirTemp("", "box") // short, for the socket's address
	if err != nil {
		t.Fatal(err)
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		t.Fatal(err)
	}
	dir, socket := filepath.Join(root, "work"), filepath.Join(root, "s")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- sandboxd.Serve(ctx, listener, sandboxd.Options{WorkingDir: dir}) }()
	client := sandboxd.NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	})
	env := &tool.Env{ConversationID: filepath.Base(root), WorkingDir: dir, Hands: client}
	t.Cleanup(func() {
		client.Close()
		stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		_ = os.RemoveAll(root)
		_ = os.RemoveAll(env.StateDir())
	})
	return &Box{TB: t, Env: env, Dir: dir}
}

// Call parses arguments and runs the tool, as the engine does. The observation is
// decoded into out, if there is one, and its text returned.
func (b *Box) Call(tl tool.Tool, args map[string]any, out any) (text string, isError bool) {
	b.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		b.Fatal(err)
	}
	action, err := tl.Parse(raw)
	if err != nil {
		b.Fatalf("parse %s: %v", raw, err)
	}
	result, err := tl.Run(context.Background(), b.Env, action)
	if err != nil {
		b.Fatalf("run %s: %v", raw, err)
	}
	var o struct {
		Kind    string `json:"kind"`
		IsError bool   `json:"is_error"`
	}
	if err := json.Unmarshal(result.Observation, &o); err != nil {
		b.Fatal(err)
	}
	if o.Kind != tl.Spec().ObservationKind || o.IsError != result.IsError {
		b.Errorf("observation %s", result.Observation)
	}
	if out != nil {
		if err := json.Unmarshal(result.Observation, out); err != nil {
			b.Fatal(err)
		}
	}
	return content.JoinText(result.Parts), result.IsError
}

// OK is Call of what must succeed.
func (b *Box) OK(tl tool.Tool, args map[string]any, out any) string {
	b.Helper()
	text, isError := b.Call(tl, args, out)
	if isError {
		b.Fatalf("%s %v: %s", tl.Spec().Name, args, text)
	}
	return text
}

// Refused is Call of what must fail with a text that has all parts in it.
func (b *Box) Refused(tl tool.Tool, args map[string]any, parts ...string) {
	b.Helper()
	text, isError := b.Call(tl, args, nil)
	if !isError {
		b.Errorf("%s %v is no error: %s", tl.Spec().Name, args, text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			b.Errorf("%q is missing in %q", part, text)
		}
	}
}

// Path is the absolute path of a file in the working directory.
func (b *Box) Path(name string) string { return filepath.Join(b.Dir, name) }

// Write makes a file with mode 0640 and returns its path.
func (b *Box) Write(name, text string) string {
	b.Helper()
	path := b.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		b.Fatal(err)
	}
	return path
}

// Link makes a symbolic link.
func (b *Box) Link(target, name string) {
	b.Helper()
	if err := os.Symlink(target, b.Path(name)); err != nil {
		b.Fatal(err)
	}
}

// Holds checks what a file holds.
func (b *Box) Holds(name, want string) {
	b.Helper()
	got, err := os.ReadFile(b.Path(name))
	if err != nil || string(got) != want {
		b.Errorf("%s holds %q (%v), want %q", name, got, err, want)
	}
}

// Tree lists all that is in the working directory.
func (b *Box) Tree() []string {
	b.Helper()
	names := []string{}
	err := filepath.WalkDir(b.Dir, func(path string, _ os.DirEntry, err error) error {
		if path != b.Dir {
			names = append(names, path[len(b.Dir)+1:])
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return names
}

// Golden compares an observation, with the working directory as "/work", with a
// golden file; -update writes it.
func (b *Box) Golden(tl tool.Tool, args map[string]any, golden string) {
	b.Helper()
	var raw json.RawMessage
	b.Call(tl, args, &raw)
	got := strings.ReplaceAll(string(raw), b.Dir, "/work") + "\n"
	if update := flag.Lookup("update"); update != nil && update.Value.String() == "true" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || got != string(want) {
		b.Errorf("%s (%v):\ngot  %swant %s", golden, err, got, want)
	}
}
