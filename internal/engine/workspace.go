package engine

import (
	"context"
	_ "embed"
	"path"
	"slices"
	"strings"
	"time"

	"parley/internal/conversation"
	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/lazyre"
	"parley/internal/sandbox"
	"parley/internal/tool"
)

//go:embed prepare.sh
var prepareScript string

const (
	cloneTimeout = 15 * time.Minute
	setupTimeout = 10 * time.Minute // the repository's own set-up script
)

var branchName = lazyre.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_./+@#-]*$`)

// workspace makes the working directory ready and returns its path inside.
func (e *Engine) workspace(ctx context.Context, task *conversation.StartTask, conv *conversation.Conversation, hands tool.Hands) (string, error) {
	if conv.Options.WorkingDir != "" {
		return conv.Options.WorkingDir, nil // the parent's, or ready since an earlier life of the server
	}
	base, err := e.baseDir(ctx, conv)
	if err != nil {
		return "", err
	}
	req := tool.ExecRequest{Argv: []string{"/bin/sh", "-c", prepareScript, "prepare"}, Dir: "/", Timeout: cloneTimeout, MaxOutput: 1 << 16,
		Env: map[string]string{"PARLEY_DIR": base, "GIT_TERMINAL_PROMPT": "0",
			"PARLEY_GIT_NAME": conv.Options.GitUserName, "PARLEY_GIT_EMAIL": conv.Options.GitUserEmail}}
	dir := base
	switch {
	case conv.Repository != "":
		e.progress(task, conversation.TaskRepository)
		if dir, err = e.cloneEnv(ctx, conv, base, req.Env); err != nil {
			return "", err
		}
	case conv.Options.AskedDir != "":
		req.Env["PARLEY_INIT"] = "outside" // of every repository: the user may mean a part of one
	case conv.Options.HostDir == "":
		req.Env["PARLEY_INIT"] = "here"
	}
	if err := e.exec(ctx, conv, hands, req, "The workspace could not be prepared"); err != nil {
		return "", err
	}
	if conv.Options.Worktree {
		return e.worktree(ctx, conv, hands, dir)
	}
	return dir, nil
}

// baseDir is where the conversation works. Conversations that share a sandbox
// have directories of their own, unless they ask for one.
func (e *Engine) baseDir(ctx context.Context, conv *conversation.Conversation) (string, error) {
	if conv.Options.AskedDir != "" {
		return conv.Options.AskedDir, nil
	}
	s, err := e.opt.Fleet.Get(ctx, conv.Owner, conv.SandboxID)
	if err != nil {
		return "", err
	}
	dir := s.WorkingDir
	if dir == "" {
		dir = sandbox.WorkingDir
	}
	n, err := e.opt.Store.Conversations().Count(ctx, queryBySandbox(conv.Owner, conv.SandboxID))
	if err != nil {
		return "", err
	}
	if n > 1 || conv.Options.OwnDir {
		dir = path.Join(dir, string(conv.ID))
	}
	return dir, nil
}

// The set-up scripts of a repository.
const (
	setupScript = ".openhands/setup.sh"
	commitHook  = ".openhands/pre-commit.sh"
)

// setUp runs what a trusted repository brings: its set-up script and its commit hook,
// each only while it is as it was when it was trusted. Both run inside the sandbox
// only, and that they fail does not stop a start. next hears of each step.
func (e *Engine) setUp(ctx context.Context, conv *conversation.Conversation, hands tool.Hands, b extension.Bundle, next func(conversation.TaskStatus)) error {
	for _, step := range []struct {
		status        conversation.TaskStatus
		name, command string
	}{
		{conversation.TaskSetupScript, setupScript, `exec bash "$1"`},
		{conversation.TaskGitHooks, commitHook, installHook},
	} {
		next(step.status)
		file := path.Join(b.Root, step.name)
		at := slices.IndexFunc(b.Pins, func(p extension.Pin) bool { return p.Path == file })
		if at < 0 || !slices.Contains(b.Scripts, step.name) {
			continue
		}
		res, err := hands.Exec(ctx, tool.ExecRequest{Argv: []string{"/bin/bash", "-c", whileTrusted + step.command, "set-up", file, b.Pins[at].SHA256},
			Dir: b.Root, Timeout: setupTimeout, MaxOutput: 1 << 16})
		if err != nil {
			return err
		}
		if res.ExitCode != 0 {
			e.opt.Logger.Warn("a step of the repository's set-up failed", "conversation", conv.ID, "step", step.status, "exit_code", res.ExitCode)
		}
	}
	return nil
}

// whileTrusted ends a script unless the file $1 has the SHA-256 $2.
const whileTrusted = `sum=$(command -p sha256sum <"$1") && [ "${sum%% *}" = "$2" ] || exit 126
`

const installHook = `if [ -d .git ]; then
  hook=.git/hooks/pre-commit
  mkdir -p .git/hooks
  if [ -f "$hook" ] && [ ! -f "$hook.local" ]; then mv "$hook" "$hook.local"; fi
  cp "$1" "$hook" && chmod +x "$hook"
fi`

func (e *Engine) exec(ctx context.Context, conv *conversation.Conversation, hands tool.Hands, req tool.ExecRequest, what string) error {
	res, err := hands.Exec(ctx, req)
	if err != nil {
		return err
	}
	if res.ExitCode == 0 {
		return nil
	}
	masker, err := e.maskerFor(ctx, conv)
	if err != nil {
		return err
	}
	said := masker.Mask(strings.TrimSpace(string(res.Stderr))) // before it is cut: half a secret is one, too
	if len(said) > 1000 {
		said = said[len(said)-1000:]
	}
	return fault.New(fault.Unavailable, "workspace_failed", "%s: %s", what, strings.ToValidUTF8(said, "?"))
}
