package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/app"
	"parley/internal/config"
)

// agentRun is what parley agent-server starts.
type agentRun struct {
	cfg  config.Config
	mode app.AgentMode
}

// runAgent runs the command with a server that notes what it is told.
func runAgent(t *testing.T, env []string, args ...string) (*agentRun, result) {
	t.Helper()
	p, run := newProgram(t, env...), (*agentRun)(nil)
	p.serveAgent = func(_ context.Context, cfg config.Config, mode app.AgentMode, _ io.Writer, _ *slog.Logger) error {
		run = &agentRun{cfg, mode}
		return nil
	}
	return run, p.try(t, append([]string{"agent-server"}, args...)...)
}

func TestAgentServerFlags(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	run, got := runAgent(t, []string{"SESSION_API_KEY=first-0123456789", "OH_SESSION_API_KEYS_0=second-0123456789", "OH_SESSION_API_KEYS_2=beyond-a-gap",
		"OH_WEB_URL=https://agent.example.org/base", "OH_ALLOW_CORS_ORIGINS_0=https://a.example.org", "OH_ALLOW_CORS_ORIGINS_1=https://b.example.org",
		"OH_NONSENSE=1"}, "--host", "0.0.0.0", "--port", "8001", "--workspace", link, "--reload")
	if got.code != 0 || run == nil {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	var keys []string
	for _, k := range run.mode.Keys {
		keys = append(keys, k.Reveal())
	}
	if run.cfg.Listen != "0.0.0.0:8001" || run.mode.Workspace != dir || run.mode.Open || strings.Join(keys, " ") != "first-0123456789 second-0123456789" {
		t.Errorf("%s %+v %v", run.cfg.Listen, run.mode, keys)
	}
	if run.cfg.PublicURL != "https://agent.example.org/base" || strings.Join(run.cfg.CORSOrigins, " ") != "https://a.example.org https://b.example.org" {
		t.Errorf("%q %q", run.cfg.PublicURL, run.cfg.CORSOrigins)
	}
	if !strings.Contains(got.err, "OH_NONSENSE") || !strings.Contains(got.err, "--reload") || strings.Contains(got.err, "OH_WEB_URL") || strings.Contains(got.err, "0123456789") {
		t.Errorf("the log says %q", got.err)
	}
	if base := filepath.Base(run.cfg.Data); !strings.HasPrefix(base, filepath.Base(dir)+"-") || filepath.Base(filepath.Dir(run.cfg.Data)) != "agent-servers" {
		t.Errorf("it keeps its data in %s", run.cfg.Data)
	}

	other, _ := runAgent(t, []string{"PARLEY_PUBLIC_URL=https://own.example.org", "OH_WEB_URL=https://other.example.org"},
		"--workspace", dir, "--data", filepath.Join(dir, "data"), "--no-auth")
	if other == nil || other.cfg.PublicURL != "https://own.example.org" || other.cfg.Data != filepath.Join(dir, "data") || !other.mode.Open || other.cfg.Listen != "127.0.0.1:8000" {
		t.Errorf("%+v", other)
	}
}

func TestAgentServerDefaultWorkspace(t *testing.T) {
	t.Chdir(t.TempDir())
	run, got := runAgent(t, nil)
	if run == nil || !strings.HasSuffix(run.mode.Workspace, "/workspace/project") {
		t.Fatalf("%+v %+v", run, got)
	}
	if info, err := os.Stat(run.mode.Workspace); err != nil || !info.IsDir() {
		t.Errorf("the workspace was not made: %v", err)
	}
}

func TestAgentServerRefusals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env, args []string
		want      string
	}{
		"a port beyond all":        {nil, []string{"--port", "65536"}, "is no port"},
		"no such directory":        {nil, []string{"--workspace", file + "/x"}, "workspace"},
		"a file":                   {nil, []string{"--workspace", file}, "is not a directory"},
		"a key that nobody needs":  {[]string{"SESSION_API_KEY=0123456789"}, []string{"--no-auth", "--workspace", "."}, "choose one"},
		"a key that is too short":  {[]string{"OH_SESSION_API_KEYS_0=short"}, []string{"--workspace", "."}, "the key has 5 characters"},
		"a key with a space":       {[]string{"OH_SESSION_API_KEYS_0=0123456789 x"}, []string{"--workspace", "."}, "HTTP header"},
		"a legacy key, too short":  {[]string{"SESSION_API_KEY=short"}, []string{"--workspace", "."}, "the key has 5 characters"},
		"an argument":              {nil, []string{"x"}, "x"},
		"a public URL that is bad": {[]string{"OH_WEB_URL=nonsense"}, []string{"--workspace", "."}, "PARLEY_PUBLIC_URL"},
	} {
		if run, got := runAgent(t, c.env, c.args...); run != nil || got.code == 0 || !strings.Contains(got.err, c.want) {
			t.Errorf("%s: exit %d, %q", name, got.code, got.err)
		}
	}
}

// TestAgentServerKeepsItsDataToItself: what works in the workspace never sees the
// server's keys, whatever the backend.
func TestAgentServerKeepsItsDataToItself(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "data", "inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(root, "link")
	if err := os.Symlink(filepath.Join(root, "data"), link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ data, workspace string }{{"data", "."}, {"data", "data"}, {"data", "data/inner"}, {"link", "data/inner"}} {
		p := newProgram(t)
		p.serveAgent = func(ctx context.Context, cfg config.Config, mode app.AgentMode, out io.Writer, log *slog.Logger) error {
			return app.ServeAgent(ctx, cfg, mode, app.Version{}, out, log)
		}
		got := p.try(t, "agent-server", "--port", "0", "--sandbox", "process", "--data", filepath.Join(root, c.data), "--workspace", filepath.Join(root, c.workspace))
		if got.code == 0 || !strings.Contains(got.err, "own data") {
			t.Errorf("data in %s, workspace %s: exit %d: %s", c.data, c.workspace, got.code, got.err)
		}
	}
}
