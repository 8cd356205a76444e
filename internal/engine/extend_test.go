package engine_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/extension"
	"parley/internal/hook"
	"parley/internal/llm"
	"parley/internal/skill"
)

// on makes hooks of one event that run a command.
func on(event hook.Event, command string) string {
	raw := must(json.Marshal(map[string]any{string(event): []any{map[string]any{"matcher": "*",
		"hooks": []any{map[string]any{"type": "command", "command": command, "timeout": 60}}}}}))
	return string(raw)
}

// withHooks is a request that brings hooks.
func withHooks(config, message string) engine.StartRequest {
	return engine.StartRequest{Owner: owner, InitialMessage: words(message),
		Brought: &extension.Bundle{Name: "request", Level: skill.LevelExplicit, Hooks: *must(hook.Parse(json.RawMessage(config)))}}
}

func words(text string) []content.Part {
	if text == "" {
		return nil
	}
	return []content.Part{content.Text(text)}
}

// gate is a hook's command that begins, waits to be let through and goes on.
type gate struct {
	*world
	dir string
}

func newGate(w *world) *gate { return &gate{w, w.TempDir()} }

func (g *gate) command(then string) string {
	return "touch " + g.dir + "/started; until [ -f " + g.dir + "/open ]; do sleep 0.02; done; " + then
}

func (g *gate) started() {
	g.Helper()
	g.eventually("the hook", func() bool { return exists(filepath.Join(g.dir, "started")) })
}

func (g *gate) open() { write(g, filepath.Join(g.dir, "open"), "") }

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

func read(path string) string { data, _ := os.ReadFile(path); return string(data) }

func write(t interface{ Fatal(...any) }, path, text string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// place is a directory with files.
func place(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := must(filepath.EvalSymlinks(t.TempDir()))
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

// path is one in a conversation's working directory.
func (w *world) path(id conversation.ID, name string) string {
	w.Helper()
	return filepath.Join(must(w.engine.View(w.Context(), owner, id)).Options.WorkingDir, name)
}

// has checks that a trace ends with events.
func (w *world) ends(id conversation.ID, want ...string) {
	w.Helper()
	got := w.trace(id)
	if tail := got[max(0, len(got)-len(want)):]; strings.Join(tail, "\n") != strings.Join(want, "\n") {
		w.Errorf("the log ends\n  %s\nwant\n  %s\nall of it\n  %s", strings.Join(tail, "\n  "), strings.Join(want, "\n  "), strings.Join(got, "\n  "))
	}
}

// brain is a model that decides by what it reads.
type brain struct {
	info llm.Info
	do   func(ctx context.Context, req *llm.Request) (*llm.Response, error)
}

func (b *brain) Info() llm.Info {
	if b.info.Model == "" {
		return llm.Info{Model: "test/model", NativeTools: true}
	}
	return b.info
}

func (b *brain) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	resp, err := b.do(ctx, req)
	if resp != nil {
		resp.ID = string(conversation.NewID())
	}
	return resp, err
}

// thinking gives all conversations one brain.
func thinking(do step, more ...func(*engine.Options)) func(*engine.Options) {
	return func(o *engine.Options) {
		o.Models = func(_ account.LLM, mo engine.ModelOptions) (llm.Model, error) { return guard(mo, &brain{do: do}), nil }
		for _, m := range more {
			m(o)
		}
	}
}

// lastAsked is the text of the last message of the request.
func lastAsked(req *llm.Request) string { return req.Messages[len(req.Messages)-1].Text() }

// whole is all that a request says.
func whole(req *llm.Request) string {
	var b strings.Builder
	for _, m := range req.Messages {
		b.WriteString(m.Role + ": " + m.Text() + "\n")
	}
	return b.String()
}
