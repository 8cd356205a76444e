package sandboxd

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// launcher makes commands that see the sandbox's environment and nothing of the
// daemon's own.
type launcher struct {
	base map[string]string
	dir  string
}

// command prepares argv in dir ("" = the working directory) with extra on top of
// the base environment.
func (l launcher) command(argv []string, dir string, extra map[string]string) (*exec.Cmd, error) {
	if err := checkArgv(argv); err != nil {
		return nil, err
	}
	dir, err := l.workingDir(dir)
	if err != nil {
		return nil, err
	}
	env := map[string]string{"PATH": defaultPath, "PWD": dir}
	maps.Copy(env, l.base)
	maps.Copy(env, extra)
	if err := checkEnv(env); err != nil {
		return nil, err
	}
	program, err := lookPath(argv[0], env["PATH"], dir)
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: program, Args: argv, Dir: dir, Env: flatten(env)}, nil
}

func checkArgv(argv []string) error {
	if len(argv) == 0 || argv[0] == "" {
		return invalid("argv needs the name of a program.")
	}
	for _, arg := range argv {
		if strings.IndexByte(arg, 0) >= 0 {
			return invalid("An argument must not contain a NUL byte.")
		}
	}
	return nil
}

func checkEnv(env map[string]string) error {
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.IndexByte(value, 0) >= 0 {
			return invalid("The environment variable %q is not valid.", name)
		}
	}
	return nil
}

// workingDir checks the directory itself, because exec's error does not say
// whether it or the program is missing.
func (l launcher) workingDir(dir string) (string, error) {
	if dir == "" {
		dir = l.dir
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(l.dir, dir)
	}
	if strings.IndexByte(dir, 0) >= 0 {
		return "", invalid("A directory must not contain a NUL byte.")
	}
	info, err := os.Stat(dir)
	if errors.Is(err, unix.ENOENT) {
		return "", fault.Wrap(err, fault.NotFound, CodeDirNotFound, "There is no directory %s to start in.", dir)
	}
	if err != nil {
		return "", pathFault(err, "start in", dir)
	}
	if !info.IsDir() {
		return "", pathFault(unix.ENOTDIR, "start in", dir)
	}
	return dir, nil
}

// lookPath finds the program as the new process's PATH names it, not as the
// daemon's does.
func lookPath(name, path, dir string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	denied := ""
	for _, entry := range filepath.SplitList(path) {
		if !filepath.IsAbs(entry) {
			entry = filepath.Join(dir, entry)
		}
		candidate := filepath.Join(entry, name)
		info, err := os.Stat(candidate)
		if err != nil || info.IsDir() {
			continue
		}
		if info.Mode()&0o111 != 0 {
			return candidate, nil
		}
		denied = candidate
	}
	if denied != "" {
		return "", notExecutable(unix.EACCES, denied)
	}
	return "", programNotFound(unix.ENOENT, name)
}

func flatten(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// startFault classifies why a program did not start.
func startFault(err error, program string) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return fault.Wrap(err, fault.Internal, "start_failed", "Cannot start %s.", program)
	}
	switch errno {
	case unix.ENOENT:
		// Also when a script's interpreter or the dynamic loader is missing.
		return programNotFound(err, program)
	case unix.EACCES, unix.EPERM, unix.EISDIR:
		return notExecutable(err, program)
	case unix.ENOEXEC:
		return fault.Wrap(err, fault.Invalid, "not_a_program", "%s is neither a program of this machine nor a script with a #! line.", program)
	case unix.E2BIG:
		return fault.Wrap(err, fault.TooLarge, CodeTooLarge, "The arguments and environment of %s are too long.", program).
			WithHint("Pass the data on standard input or in a file.")
	}
	return pathFault(err, "start", program)
}

func programNotFound(err error, program string) error {
	return fault.Wrap(err, fault.NotFound, CodeProgramNotFound, "There is no program %s in the sandbox.", program).
		WithHint("If it exists, the interpreter or loader that it names is missing.")
}

func notExecutable(err error, program string) error {
	return fault.Wrap(err, fault.Forbidden, CodeNotExecutable, "%s may not be executed.", program)
}

func findShell() string {
	for _, shell := range []string{"/bin/bash", "/usr/bin/bash"} {
		if info, err := os.Stat(shell); err == nil && info.Mode().IsRegular() {
			return shell
		}
	}
	return "/bin/sh"
}
