package api_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/conversation"
	"parley/internal/llm"
)

// git runs git in a directory of the bench, whose sandbox has no walls.
func (b *bench) git(dir string, args ...string) string {
	b.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// repository makes one with a commit below the bench's directory.
func (b *bench) repository(name string) string {
	b.Helper()
	dir := filepath.Join(b.dir, name)
	check(b.TB, os.MkdirAll(filepath.Join(dir, "part"), 0o755))
	check(b.TB, os.WriteFile(filepath.Join(dir, "part", "file"), []byte("one\n"), 0o644))
	b.git(dir, "init", "--quiet", "--initial-branch=main")
	b.git(dir, "add", ".")
	b.git(dir, "commit", "--quiet", "-m", "one")
	check(b.TB, os.WriteFile(filepath.Join(dir, ".git", "hooks", "post-checkout"), []byte("#!/bin/sh\ntouch '"+dir+"/hooked'\n"), 0o755))
	return dir
}

func TestWorktree(t *testing.T) {
	var prompt string
	b := newBench(t, func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		prompt = req.Messages[0].Text()
		return callTool("sh", `{"command":"echo two > file && pwd"}`)(ctx, req)
	}, say("changed"))
	dir := b.repository("repo")
	a := b.post(201, conversations, b.with(map[string]any{"worktree": true, "workspace": map[string]any{"working_dir": "repo/part"},
		"initial_message": userSays("change it")}))
	b.waitFor(hexOf(a), conversation.Finished)
	at := b.as(b.key, "GET", conversations+"/"+a.text("id"), nil).is(200).text("workspace", "working_dir")
	if !strings.HasSuffix(at, "/conversation-worktrees/"+hexOf(a)+"/repo/part") {
		t.Errorf("it works in %s", at)
	}
	branch := "openhands/" + hexOf(a)
	if got := b.git(at, "branch", "--show-current"); got != branch || !strings.Contains(prompt, branch) {
		t.Errorf("on branch %q; told of %s: %v", got, branch, strings.Contains(prompt, branch))
	}
	if text, err := os.ReadFile(filepath.Join(at, "file")); err != nil || string(text) != "two\n" {
		t.Errorf("in the worktree: %q, %v", text, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "part", "file")); err != nil || string(text) != "one\n" {
		t.Errorf("in the repository's own working copy: %q, %v", text, err)
	}
	if got := b.git(dir, "branch", "--show-current"); got != "main" {
		t.Errorf("the repository is on %q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "hooked")); err == nil {
		t.Error("a hook of the repository ran")
	}
}

func TestWorktreeWithoutCommits(t *testing.T) {
	b := newBench(t)
	a := b.post(201, conversations, b.with(map[string]any{"worktree": true, "workspace": map[string]any{"working_dir": "new"}}))
	if got := a.text("workspace", "working_dir"); got != filepath.Join(b.dir, "new") {
		t.Errorf("it works in %s", got)
	}
}

// A working directory in a repository is a part of it, and gets none of its own.
func TestNoRepositoryInARepository(t *testing.T) {
	b := newBench(t)
	dir := b.repository("repo")
	b.post(201, conversations, b.with(map[string]any{"workspace": map[string]any{"working_dir": "repo/part"}}))
	if _, err := os.Stat(filepath.Join(dir, "part", ".git")); err == nil {
		t.Error("there is a repository in the repository")
	}
	outside := filepath.Join(t.TempDir(), "new")
	b.post(201, conversations, b.with(map[string]any{"workspace": map[string]any{"working_dir": outside}}))
	if _, err := os.Stat(filepath.Join(outside, ".git")); err != nil {
		t.Errorf("outside of all repositories: %v", err)
	}
}
