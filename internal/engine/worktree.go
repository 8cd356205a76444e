package engine

import (
	"context"
	_ "embed" // the script
	"path"
	"strings"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/tool"
)

//go:embed worktree.sh
var worktreeScript string

// worktreeBranch is the branch of a conversation that works in a worktree of its own
// (agent protocol 2.1).
func worktreeBranch(id conversation.ID) string { return "openhands/" + string(id) }

// worktree makes a git worktree for the conversation and returns where in it dir is;
// dir itself where there is no repository with anything in it.
func (e *Engine) worktree(ctx context.Context, conv *conversation.Conversation, hands tool.Hands, dir string) (string, error) {
	res, err := hands.Exec(ctx, tool.ExecRequest{Argv: []string{"/bin/sh", "-c", worktreeScript, "worktree"}, Dir: "/",
		Timeout: cloneTimeout, MaxOutput: 1 << 16, Env: map[string]string{"PARLEY_DIR": dir, "PARLEY_ID": string(conv.ID),
			"PARLEY_BRANCH": worktreeBranch(conv.ID), "GIT_TERMINAL_PROMPT": "0"}})
	if err != nil {
		return "", err
	}
	at := string(res.Stdout)
	if res.ExitCode != 0 || !path.IsAbs(at) || path.Clean(at) != at {
		return "", fault.New(fault.Unavailable, "worktree", "The git worktree of %s could not be made: %.500s", dir, strings.TrimSpace(string(res.Stderr))).
			WithHint("Start without worktree, or look at the repository.")
	}
	return at, nil
}

// worktreeNote tells the model where it is, "" if it is in no worktree.
func worktreeNote(conv *conversation.Conversation) string {
	if !conv.Options.Worktree || !strings.Contains(conv.Options.WorkingDir, "/conversation-worktrees/"+string(conv.ID)+"/") {
		return ""
	}
	return "The working directory is a git worktree of its own, on the branch " + worktreeBranch(conv.ID) +
		". Commit there. Do not switch its branch, and leave other working copies of the repository alone."
}
