// Package workspace is what clients do with the files and git repositories of a
// sandbox. Everything happens inside the sandbox, through its hands: paths are the
// sandbox's, and git runs there, as the git of a repository that nobody trusts. What
// comes back is bounded in size, count and time.
package workspace

import (
	"context"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/tool"
)

const (
	maxPath     = 4096             // bytes
	commandTime = 30 * time.Second // for one command inside
	maxSaid     = 300              // bytes of a command's complaint that clients see
)

// Workspace is a directory of a sandbox and all that can be reached from it.
type Workspace struct {
	hands tool.Hands
	dir   string
}

// New returns the workspace in dir, an absolute path inside, that relative paths
// are relative to.
func New(hands tool.Hands, dir string) *Workspace { return &Workspace{hands, path.Clean("/" + dir)} }

// Dir is the directory that relative paths are relative to.
func (w *Workspace) Dir() string { return w.dir }

// Absolute returns the path inside that p means. Invalid (code "bad_path") for what
// can be no path.
func (w *Workspace) Absolute(p string) (string, error) {
	if !path.IsAbs(p) {
		if p == "" {
			return w.dir, nil
		}
		p = w.dir + "/" + p
	}
	return checkPath(p)
}

func checkPath(p string) (string, error) {
	if !path.IsAbs(p) || len(p) > maxPath || strings.ContainsRune(p, 0) || !utf8.ValidString(p) {
		return "", fault.New(fault.Invalid, "bad_path", "The path %.200q is not an absolute path.", p).
			WithHint("Send a path inside the sandbox that begins with a slash.")
	}
	return path.Clean(p), nil
}

// run runs a program inside to its end. A time that is up is a Timeout.
func (w *Workspace) run(ctx context.Context, req tool.ExecRequest) (tool.ExecResult, error) {
	if req.Timeout == 0 {
		req.Timeout = commandTime
	}
	res, err := w.hands.Exec(ctx, req)
	if err == nil && res.TimedOut {
		return res, fault.New(fault.Timeout, "workspace_timeout", "%s in the sandbox did not end within %s.", req.Argv[0], req.Timeout)
	}
	return res, err
}

// said is what a command complained of, fit for clients: its text may be a hostile
// repository's.
func said(res tool.ExecResult) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(res.Stderr), "\ufffd"))
	return content.Head(strings.TrimSpace(text), maxSaid)
}

// clean makes a name of the sandbox one that JSON can hold.
func clean(name string) string { return strings.ToValidUTF8(name, "\ufffd") }
