package engine

import (
	"context"
	_ "embed"
	"encoding/base64"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"parley/internal/account"
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

// gitHosts are the hosts of the providers that "owner/name" stands for.
var gitHosts = map[string]string{"": "github.com", "github": "github.com", "gitlab": "gitlab.com",
	"bitbucket": "bitbucket.org", "azure_devops": "dev.azure.com", "forgejo": "codeberg.org"}

// repositoryName is "owner/name", with groups in between where a provider has them.
var repositoryName = lazyre.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]*(/[A-Za-z0-9_.][A-Za-z0-9_.-]*)+$`)

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

// cloneEnv tells the script what to clone and returns the clone's directory.
func (e *Engine) cloneEnv(ctx context.Context, conv *conversation.Conversation, base string, env map[string]string) (string, error) {
	remote, err := repositoryURL(conv)
	if err != nil {
		return "", err
	}
	if conv.Branch != "" && !branchName.MatchString(conv.Branch) {
		return "", fault.New(fault.Invalid, "bad_branch", "The branch name %q is not valid.", conv.Branch)
	}
	settings, err := e.settings(ctx, conv.Owner)
	if err != nil {
		return "", err
	}
	token := settings.Secrets.ProviderTokens[providerOf(conv)]
	home := tokenHome(token, conv.GitProvider)
	if token.Host != nil && *token.Host != "" && repositoryName.MatchString(conv.Repository) {
		remote.Scheme, remote.Host = home.Scheme, home.Host
	}
	dir := path.Join(base, strings.TrimSuffix(path.Base(remote.Path), ".git"))
	env["PARLEY_CLONE"], env["PARLEY_CLONE_DIR"], env["PARLEY_BRANCH"] = remote.String(), dir, conv.Branch
	env["PARLEY_NEW_BRANCH"] = "openhands-workspace-" + string(conversation.NewID())[:8]
	if token.Token.IsSet() && remote.Scheme == home.Scheme && strings.EqualFold(remote.Host, home.Host) {
		addGitHeader(env, remote, token.Token.Reveal())
	}
	return dir, nil
}

// tokenHome is where a provider's token is good for, and the only place it is
// sent to: the host stored with it, or the provider's own.
func tokenHome(token account.ProviderToken, provider string) *url.URL {
	host := gitHosts[provider]
	if token.Host != nil && *token.Host != "" {
		host = *token.Host
	}
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	u, err := url.Parse(host)
	if err != nil {
		return &url.URL{}
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}
}

// addGitHeader authenticates git by environment: nothing of it is kept in the
// repository's configuration.
func addGitHeader(env map[string]string, remote *url.URL, token string) {
	basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + token))
	env["GIT_CONFIG_COUNT"] = "1"
	env["GIT_CONFIG_KEY_0"] = "http." + remote.Scheme + "://" + remote.Host + "/.extraHeader"
	env["GIT_CONFIG_VALUE_0"] = "Authorization: Basic " + basic
}

func providerOf(conv *conversation.Conversation) string {
	if conv.GitProvider == "" {
		return "github"
	}
	return conv.GitProvider
}

// repositoryURL returns the HTTPS address of the conversation's repository.
func repositoryURL(conv *conversation.Conversation) (*url.URL, error) {
	bad := fault.New(fault.Invalid, "bad_repository", "The repository %q is not valid.", conv.Repository).
		WithHint("Use owner/name with git_provider, or an https:// address.")
	if repositoryName.MatchString(conv.Repository) && !strings.Contains(conv.Repository, "..") {
		host, ok := gitHosts[conv.GitProvider]
		if !ok {
			return nil, bad
		}
		return &url.URL{Scheme: "https", Host: host, Path: "/" + conv.Repository + ".git"}, nil
	}
	u, err := url.Parse(conv.Repository)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || len(u.Path) < 2 ||
		strings.Contains(u.Path, "..") {
		return nil, bad
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}, nil
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
