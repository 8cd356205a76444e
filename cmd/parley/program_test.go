package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"parley/internal/config"
	"parley/internal/sandbox"
)

// result is how a command line ended.
type result struct {
	code     int
	out, err string
}

// newProgram is a program with an environment of the test's own.
func newProgram(t *testing.T, env ...string) *program {
	t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = null.Close() })
	return &program{
		in: null, env: append([]string{"HOME=" + t.TempDir()}, env...),
		version: versionInfo{"1.2.3", "abc", "go1", "linux/amd64"},
		serve: func(context.Context, config.Config, io.Writer, *slog.Logger) error {
			return errors.New("not expected")
		},
	}
}

func (p *program) try(t *testing.T, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	p.out, p.err = &out, &errOut
	code := p.run(t.Context(), args)
	return result{code, out.String(), errOut.String()}
}

func TestUsageErrors(t *testing.T) {
	tests := map[string]struct {
		args []string
		env  []string
		want []string
	}{
		"unknown command":    {args: []string{"serv"}, want: []string{`unknown command "serv"`, "serve"}},
		"unknown flag":       {args: []string{"serve", "--lisen", "x"}, want: []string{"--lisen", "did you mean --listen?"}},
		"unknown short flag": {args: []string{"serve", "-q"}, want: []string{"-q"}},
		"flag without value": {args: []string{"serve", "--listen"}, want: []string{"--listen"}},
		"extra argument":     {args: []string{"serve", "now"}, want: []string{`"now"`}},
		"bad value":          {args: []string{"serve", "--listen", "3000"}, want: []string{"--listen", "is not host:port"}},
		"unknown variable":   {args: []string{"config"}, env: []string{"PARLEY_LISTN=x"}, want: []string{"PARLEY_LISTN", "did you mean PARLEY_LISTEN?"}},
		"no message":         {args: []string{"chat"}, want: []string{"no message"}},
		"dir and resume":     {args: []string{"chat", "-c", "x", "--dir", ".", "hi"}, want: []string{"--dir is for new conversations"}},
		"model and resume":   {args: []string{"chat", "-c", "x", "-m", "y", "hi"}, want: []string{"--model is for new conversations"}},
		"empty conversation": {args: []string{"chat", "-c", "", "hi"}, want: []string{"needs the id"}},
		"two models":         {args: []string{"models", "a", "b"}, want: []string{"at most 1 arg"}},
		"usage of what":      {args: []string{"usage", "x"}, want: []string{`"x"`}},
		"bad server":         {args: []string{"chat", "--server", "localhost:3000", "hi"}, want: []string{"--server", "http://"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := newProgram(t, test.env...).try(t, test.args...)
			if got.code != 2 || got.out != "" {
				t.Errorf("exit %d, printed %q", got.code, got.out)
			}
			for _, part := range test.want {
				if !strings.Contains(got.err, part) {
					t.Errorf("message lacks %q: %s", part, got.err)
				}
			}
		})
	}
}

func TestServe(t *testing.T) {
	p := newProgram(t, "SESSION_API_KEY=secret-key")
	p.serve = func(_ context.Context, cfg config.Config, out io.Writer, log *slog.Logger) error {
		log.Info("hello", "listen", cfg.Listen, "key", cfg.SessionAPIKey)
		log.Debug("not shown")
		_, err := fmt.Fprintln(out, "the URL")
		return err
	}
	got := p.try(t, "serve", "--listen=127.0.0.1:0", "--log-format=json", "--demo")
	if got.code != 0 || got.out != "the URL\n" {
		t.Errorf("%+v", got)
	}
	var line map[string]any
	if err := json.Unmarshal([]byte(got.err), &line); err != nil || line["listen"] != "127.0.0.1:0" {
		t.Errorf("%v: %s", err, got.err)
	}
	if strings.Contains(got.err, "secret-key") {
		t.Errorf("the log shows the key: %s", got.err)
	}
	p.serve = func(context.Context, config.Config, io.Writer, *slog.Logger) error { return errors.New("port in use") }
	if got := p.try(t, "serve"); got.code != 1 || got.err != "parley: port in use\n" {
		t.Errorf("%+v", got)
	}
}

func TestServeEndsOnInterrupt(t *testing.T) {
	p := newProgram(t)
	p.serve = func(ctx context.Context, _ config.Config, _ io.Writer, _ *slog.Logger) error {
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	if got := p.try(t, "serve"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	signal.Reset(syscall.SIGINT)
}

func TestConfig(t *testing.T) {
	p := newProgram(t, "SESSION_API_KEY=secret-key", "PARLEY_LOG_LEVEL=debug")
	got := p.try(t, "config", "--demo")
	for _, part := range []string{"environment PARLEY_LOG_LEVEL", "flag --demo", "**********", "environment SESSION_API_KEY", "ORIGIN"} {
		if !strings.Contains(got.out, part) {
			t.Errorf("lacks %q:\n%s", part, got.out)
		}
	}
	if got.code != 0 || strings.Contains(got.out, "secret-key") {
		t.Errorf("exit %d\n%s", got.code, got.out)
	}
	got = p.try(t, "config", "--json")
	var shown struct {
		Settings []config.Setting `json:"settings"`
		Warnings []string         `json:"warnings"`
	}
	if err := json.Unmarshal([]byte(got.out), &shown); err != nil || len(shown.Settings) < 20 || strings.Contains(got.out, "secret-key") {
		t.Errorf("%v\n%s", err, got.out)
	}
}

func TestConfigWarns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(path, []byte("api_key: abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := newProgram(t).try(t, "config", "--config", path); got.code != 0 || !strings.Contains(got.err, "chmod 600") {
		t.Errorf("%+v", got)
	}
}

func TestVersion(t *testing.T) {
	if got := newProgram(t).try(t, "version"); got.code != 0 || got.out != "parley 1.2.3 (commit abc, go1, linux/amd64)\n" {
		t.Errorf("%+v", got)
	}
	var v versionInfo
	got := newProgram(t).try(t, "version", "--json")
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || v.Commit != "abc" {
		t.Errorf("%v %+v", err, got)
	}
	if v := buildVersion(); v.Version == "" || v.Commit == "" || v.Go == "" {
		t.Errorf("%+v", v)
	}
}

func TestDoctor(t *testing.T) {
	p := newProgram(t)
	p.probe = func(context.Context, config.Config) []sandbox.Guarantee {
		return []sandbox.Guarantee{{Name: "user_namespace", Holds: true, Detail: "probed"}}
	}
	got := p.try(t, "doctor", "--json", "--listen=127.0.0.1:1")
	var report struct {
		Healthy  bool `json:"healthy"`
		Findings []struct{ Check, Level, Found string }
	}
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != 0 || !report.Healthy || report.Findings[0].Found != "probed" {
		t.Errorf("%v %+v", err, got)
	}
	got = p.try(t, "doctor", "--server=http://127.0.0.1:1")
	if got.code != 1 || !strings.Contains(got.out, "no Parley server answers") || got.err != "" {
		t.Errorf("a server that was named must answer: %+v", got)
	}
}

func TestModelsAndUsageWithoutAServer(t *testing.T) {
	for _, command := range []string{"models", "usage"} {
		got := newProgram(t, "PARLEY_LISTEN=127.0.0.1:1").try(t, command)
		if got.code != 7 || !strings.Contains(got.err, "parley serve") || got.out != "" {
			t.Errorf("%+v", got)
		}
	}
}

func TestChatWithoutAServer(t *testing.T) {
	got := newProgram(t, "PARLEY_LISTEN=127.0.0.1:1").try(t, "chat", "hello")
	if got.code != 7 || !strings.Contains(got.err, "parley serve") || got.out != "" {
		t.Errorf("%+v", got)
	}
}

func TestInsideCommandsSkipTheCommandTree(t *testing.T) {
	p := newProgram(t, "PARLEY_NONSENSE=1")
	var seen []string
	p.inside = map[string]func([]string){"sandbox-init": func(args []string) { seen = args }}
	if !p.runInside([]string{"sandbox-init", "--anything", "x"}) || strings.Join(seen, " ") != "--anything x" {
		t.Errorf("seen %v", seen)
	}
	if p.runInside(nil) || p.runInside([]string{"serve"}) {
		t.Error("other commands are taken for it")
	}
	if got := p.try(t, "sandbox-init"); got.code != 2 {
		t.Errorf("it is in the command tree: %+v", got)
	}
	if got := p.try(t, "--help"); strings.Contains(got.out, "sandbox-init") {
		t.Errorf("help shows it:\n%s", got.out)
	}
}

func TestHelpAndCompletion(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"serve", "--help"}, {"chat", "--help"}, {"completion", "bash"}, {"--version"}} {
		if got := newProgram(t).try(t, args...); got.code != 0 || got.out == "" || got.err != "" {
			t.Errorf("%v: %+v", args, got)
		}
	}
}
