package workspace

import (
	"context"
	"path"
	"strings"

	"parley/internal/fault"
	"parley/internal/tool"
)

const (
	maxGitOutput = 8 << 20 // bytes of a list of changes; what is beyond is left out
	maxFilters   = 50      // that a repository may configure
	maxRef       = 250     // bytes of a ref's name
)

// gitFlags keep a repository's own configuration from running anything: its hooks,
// monitors, pagers and helpers. Filters are switched off by name, see open.
func gitFlags() []string {
	return []string{"--no-pager", "--no-optional-locks", "--literal-pathspecs",
		"-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat",
		"-c", "core.untrackedCache=false", "-c", "core.quotePath=false", "-c", "core.attributesFile=/dev/null",
		"-c", "diff.external=", "-c", "diff.relative=false", "-c", "core.sshCommand=false", "-c", "core.gitProxy=", "-c", "credential.helper=",
		"-c", "protocol.allow=never", "-c", "gpg.program=false", "-c", "log.showSignature=false", "-c", "submodule.recurse=false"}
}

// gitEnv keeps git from reading other configurations, from asking and from fetching.
func (w *Workspace) gitEnv() map[string]string {
	return map[string]string{"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ATTR_NOSYSTEM": "1",
		"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_PAGER": "cat", "LC_ALL": "C",
		"GIT_CEILING_DIRECTORIES": path.Dir(w.dir)} // a repository around the sandbox's files is not the sandbox's
}

// repository is a directory in the work tree of a repository.
type repository struct {
	w       *Workspace
	dir     string
	prefix  string   // of dir below the top of the work tree: "", or it ends with a slash
	filters []string // flags that switch them off
}

// errNoRepository says that there is none.
var errNoRepository = fault.New(fault.Invalid, "not_a_repository", "There is no git repository at this path.")

// open finds the repository that dir is in; errNoRepository if there is none.
func (w *Workspace) open(ctx context.Context, dir string) (*repository, error) {
	r := &repository{w: w, dir: dir}
	res, err := r.git(ctx, "rev-parse", "--show-prefix", "--is-inside-work-tree")
	switch {
	case fault.CodeOf(err) == "program_not_found":
		return nil, fault.New(fault.Invalid, "no_git", "There is no git in the sandbox.")
	case fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid): // no directory to be in
		return nil, errNoRepository
	case err != nil:
		return nil, err
	}
	at := strings.LastIndex(strings.TrimSuffix(string(res.Stdout), "\n"), "\n")
	switch {
	case res.ExitCode != 0 && (strings.Contains(string(res.Stderr), "not a git repository") || strings.Contains(string(res.Stderr), "work tree")):
		return nil, errNoRepository
	case res.ExitCode != 0:
		return nil, gitFailed(res)
	case at < 0 || strings.TrimSpace(string(res.Stdout[at+1:])) != "true":
		return nil, errNoRepository
	}
	r.prefix = string(res.Stdout[:at])
	return r, r.switchOffFilters(ctx)
}

// switchOffFilters keeps programs that the repository's configuration names from
// running while git compares files.
func (r *repository) switchOffFilters(ctx context.Context) error {
	res, err := r.git(ctx, "config", "--null", "--name-only", "--get-regexp", `^filter\.`)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for key := range strings.SplitSeq(string(res.Stdout), "\x00") {
		at := strings.LastIndexByte(key, '.')
		if at < 0 || known[key[:at]] {
			continue
		}
		name := key[:at]
		if known[name] = true; strings.ContainsAny(name, "=\n") || len(known) > maxFilters || res.Truncated {
			return fault.New(fault.Invalid, "git_filters", "The repository configures filters that cannot be switched off.").
				WithHint("Remove them from .git/config.")
		}
		r.filters = append(r.filters, "-c", name+".clean=", "-c", name+".smudge=", "-c", name+".process=", "-c", name+".required=false")
	}
	return nil
}

// git runs git in the repository; what it says is in the result whatever its exit code.
func (r *repository) git(ctx context.Context, args ...string) (tool.ExecResult, error) {
	argv := append([]string{"git"}, gitFlags()...)
	argv = append(append(argv, r.filters...), args...)
	return r.w.run(ctx, tool.ExecRequest{Argv: argv, Dir: r.dir, Env: r.w.gitEnv(), MaxOutput: maxGitOutput})
}

// must is git that has to succeed.
func (r *repository) must(ctx context.Context, args ...string) (string, error) {
	res, err := r.git(ctx, args...)
	if err == nil && res.ExitCode != 0 {
		err = gitFailed(res)
	}
	return string(res.Stdout), err
}

// line is git that prints a line, "" if it fails.
func (r *repository) line(ctx context.Context, args ...string) (string, error) {
	res, err := r.git(ctx, args...)
	if err != nil || res.ExitCode != 0 {
		return "", err
	}
	return strings.TrimSuffix(string(res.Stdout), "\n"), nil
}

func gitFailed(res tool.ExecResult) error {
	return fault.New(fault.Invalid, "git_failed", "git failed: %s", said(res))
}

// commit returns the id of the commit that a name means, "" if there is none. Names
// that git could take for an option are none.
func (r *repository) commit(ctx context.Context, name string) (string, error) {
	if name == "" || len(name) > maxRef || name[0] == '-' || strings.ContainsAny(name, "\x00\n") {
		return "", nil
	}
	return r.line(ctx, "rev-parse", "--verify", "--quiet", name+"^{commit}")
}

// base returns what changes are compared with: the ref if there is one, else what the
// remote has of the branch, else where the branch left the remote's default branch,
// else that branch, else nothing at all (V0 API, 12).
func (r *repository) base(ctx context.Context, ref string) (string, error) {
	if ref != "" {
		return r.named(ctx, ref)
	}
	current, err := r.line(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	if err != nil {
		return "", err
	}
	if current != "" {
		if id, err := r.commit(ctx, "refs/remotes/origin/"+current); err != nil || id != "" {
			return id, err
		}
	}
	trunk, err := r.line(ctx, "symbolic-ref", "--quiet", "refs/remotes/origin/HEAD")
	if err != nil {
		return "", err
	}
	for _, name := range []string{trunk, "refs/remotes/origin/main", "refs/remotes/origin/master"} {
		id, err := r.commit(ctx, name)
		if err != nil {
			return "", err
		}
		if id == "" {
			continue
		}
		fork, err := r.line(ctx, "merge-base", "HEAD", id)
		if err == nil && fork == "" {
			fork = id
		}
		return fork, err
	}
	return r.nothing(ctx)
}

// named is the base that a client names. HEAD of a repository without commits is
// nothing.
func (r *repository) named(ctx context.Context, ref string) (string, error) {
	id, err := r.commit(ctx, ref)
	if err != nil || id != "" {
		return id, err
	}
	if ref == "HEAD" {
		if branch, err := r.line(ctx, "symbolic-ref", "--quiet", "HEAD"); err != nil || branch != "" {
			if err != nil {
				return "", err
			}
			return r.nothing(ctx)
		}
	}
	return "", fault.New(fault.Invalid, "bad_ref", "The repository has no commit %.100q.", ref)
}

// nothing is the tree with no files in it.
func (r *repository) nothing(ctx context.Context) (string, error) {
	id, err := r.must(ctx, "hash-object", "-t", "tree", "/dev/null")
	return strings.TrimSpace(id), err
}
