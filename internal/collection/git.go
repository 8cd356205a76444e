package collection

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"parley/internal/fault"
)

// Bounds of one refresh of a repository.
const (
	gitTimeout  = time.Minute // of one command
	gitGrace    = 5 * time.Second
	maxRepo     = 100 << 20 // bytes of what is fetched
	maxListing  = 16 << 20  // bytes of the names in a tree
	maxRefs     = 1 << 20   // bytes of a remote's answer about a few refs
	maxMessages = 4 << 10   // bytes kept of what git says about an error
	watchEvery  = 20 * time.Millisecond
)

// Fault codes of a refresh.
const (
	codeGitMissing = "collection_git_missing"
	codeTooLarge   = "collection_too_large"
	codeTimeout    = "collection_timeout"
	codeNoRef      = "collection_ref_missing"
	codeFetch      = "collection_fetch"
	codeRead       = "collection_read"
)

// gitConfig is all that git is configured with: what a repository, a user or the
// machine says does not count. Only https leaves the machine, nothing asks for a
// password, nothing runs beside git, and what arrives is checked before it is used.
var gitConfig = []string{
	"core.hooksPath=/dev/null", "core.symlinks=false", "core.fsmonitor=false", "core.askPass=", "credential.helper=",
	"protocol.allow=never", "protocol.https.allow=always", "protocol.version=2", "http.followRedirects=false",
	"http.lowSpeedLimit=1", "http.lowSpeedTime=30", // a git whose server was killed ends, too
	"transfer.fsckObjects=true", "fetch.fsckObjects=true", "submodule.recurse=false", "fetch.recurseSubmodules=false",
	"fetch.unpackLimit=1", "transfer.unpackLimit=1", // one pack, however few objects
	"core.bigFileThreshold=4m", "pack.threads=1", // large files need no memory
	"gc.auto=0", "maintenance.auto=false",
}

// git runs the program for one repository, in a scratch directory of its own.
type git struct {
	path     string
	scratch  string
	url      string
	timeout  time.Duration
	max      int64 // bytes of the scratch directory
	loopback bool  // http to this machine is allowed
}

// environment is the whole of it.
func (g *git) environment() []string {
	env := []string{"PATH=" + filepath.Dir(g.path) + ":/usr/bin:/bin", "HOME=" + g.scratch, "XDG_CONFIG_HOME=" + g.scratch,
		"TMPDIR=" + g.scratch, "LC_ALL=C", "GIT_DIR=" + g.repository(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_LFS_SKIP_SMUDGE=1"}
	if r, err := http.NewRequest(http.MethodGet, g.url, nil); err == nil {
		if proxy, err := http.ProxyFromEnvironment(r); err == nil && proxy != nil {
			env = append(env, "https_proxy="+proxy.String())
		}
	}
	return env
}

func (g *git) repository() string { return filepath.Join(g.scratch, "repository") }

// run returns the output of one command, of at most limit bytes. What comes from
// a configuration or a remote stands behind "--" or is a whole object id.
func (g *git) run(ctx context.Context, limit int64, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.timeout, fault.New(fault.Timeout, codeTimeout,
		"git took longer than %v.", g.timeout).WithHint("Look at the network and the size of the repository."))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out, messages := &bounded{left: limit}, &bounded{left: maxMessages, cut: true}
	cmd := g.command(ctx, args)
	cmd.Stdout, cmd.Stderr = out, messages
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		g.watch(done, stop)
	}()
	err := cmd.Run()
	close(done)
	<-watched
	switch {
	case treeSize(g.scratch) > g.max:
		return nil, g.tooLarge()
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case out.full:
		return nil, fault.New(fault.TooLarge, codeTooLarge, "git %s says more than %d bytes.", args[0], limit).
			WithHint("Name a smaller repository or a subdirectory.")
	case err != nil:
		return nil, g.failed(args[0], err, messages.String())
	}
	return out.Bytes(), nil
}

// command is git in a process group of its own, which ends with ctx.
func (g *git) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, g.path, g.arguments(args)...)
	cmd.Env, cmd.Dir = g.environment(), g.scratch
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // its helpers, too
	cmd.WaitDelay = gitGrace
	return cmd
}

func (g *git) arguments(args []string) []string {
	all := []string{"--no-pager"}
	for _, c := range gitConfig {
		all = append(all, "-c", c)
	}
	if g.loopback {
		all = append(all, "-c", "protocol.http.allow=always")
	}
	return append(all, args...)
}

// watch stops a command when the scratch directory grows too large.
func (g *git) watch(done <-chan struct{}, stop context.CancelCauseFunc) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if treeSize(g.scratch) > g.max {
				stop(g.tooLarge())
				return
			}
		}
	}
}

func (g *git) tooLarge() error {
	return fault.New(fault.TooLarge, codeTooLarge, "The repository is larger than %d bytes.", g.max).
		WithHint("Keep skills and agents in a repository of their own.")
}

// failed is the error of a command that ran; git's messages are for the log.
func (g *git) failed(command string, err error, messages string) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return fault.Wrap(err, fault.Unavailable, codeGitMissing, "git could not be started.").
			WithHint("Install git on the server's machine.")
	}
	cause := errors.New("git " + command + ": " + err.Error() + ": " + strconv.Quote(messages))
	return fault.Wrap(cause, fault.Unavailable, codeFetch, "git could not read the repository (git %s failed).", command).
		WithHint("The server's log has what git said. The repository must be readable without a password, at this address without a redirect.")
}

// treeSize adds up the files below dir. Files that vanish meanwhile do not count.
func treeSize(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if info, err := e.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil
	})
	return size
}

// bounded keeps so much of what is written. With cut it drops the rest, else it
// fails, so that the writer ends.
type bounded struct {
	bytes.Buffer
	left int64
	cut  bool
	full bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	keep := p[:min(int64(len(p)), b.left)]
	b.left -= int64(len(keep))
	_, _ = b.Buffer.Write(keep) // never fails
	if len(keep) < len(p) && !b.cut {
		b.full = true
		return len(keep), errors.New("too much output")
	}
	return len(p), nil
}

// head asks the remote for the commit that a place names, and the ref to fetch it
// by. A commit that is pinned is taken as it is.
func (g *git) head(ctx context.Context, p place) (commit, ref string, err error) {
	if p.commit != "" {
		return p.commit, p.commit, nil
	}
	refs := []string{"HEAD"}
	if p.ref != "" {
		refs = []string{"refs/tags/" + p.ref, "refs/heads/" + p.ref}
	}
	args := []string{"ls-remote", "--", p.url}
	for _, r := range refs {
		args = append(args, r, r+peeled)
	}
	out, err := g.run(ctx, maxRefs, args...)
	if err != nil {
		return "", "", err
	}
	found := parseRefs(out)
	for _, r := range refs {
		if id := found[r]; id != "" {
			if c := found[r+peeled]; c != "" {
				id = c
			}
			return id, r, nil
		}
	}
	return "", "", fault.New(fault.NotFound, codeNoRef, "The repository has no branch or tag %q.", cmp.Or(p.ref, "HEAD")).
		WithHint("Name one that is there behind the # of the location.")
}

// peeled is behind the name of a tag that has an object of its own, for the commit.
const peeled = "^{}"

// parseRefs reads the lines of ls-remote: object ids by ref.
func parseRefs(out []byte) map[string]string {
	refs := map[string]string{}
	for line := range bytes.Lines(out) {
		id, name, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), "\t")
		if ok && commitID.MatchString(id) {
			refs[name] = id
		}
	}
	return refs
}

// fetch brings one ref without its history and returns its commit, which is the
// pinned one if there is one.
func (g *git) fetch(ctx context.Context, p place, ref string) (string, error) {
	const local = "refs/collection/head"
	if err := os.Mkdir(g.repository(), 0o700); err != nil {
		return "", cacheFault(err)
	}
	if _, err := g.run(ctx, maxMessages, "init", "--quiet", "--bare", "--template=", "--", g.repository()); err != nil {
		return "", err
	}
	_, err := g.run(ctx, maxMessages, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules",
		"--no-write-fetch-head", "--no-auto-maintenance", "--", p.url, "+"+ref+":"+local)
	if err != nil {
		return "", err
	}
	out, err := g.run(ctx, maxMessages, "rev-parse", "--verify", "--quiet", local+"^{commit}")
	if err != nil {
		return "", err
	}
	commit := strings.TrimSpace(string(out))
	if !commitID.MatchString(commit) || p.commit != "" && commit != p.commit {
		return "", fault.New(fault.Unavailable, codeFetch, "The repository answered with another commit than %s.", cmp.Or(p.commit, ref)).
			WithHint("Name the 40 digits of a commit, not of a tag.")
	}
	return commit, nil
}
