package fake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"parley/internal/sandbox/sandboxtest"
)

// home is the home directory inside.
const home = "/root"

// shell interprets programs in a run of a box.
type shell struct {
	machine *machine
	run     *run
}

// exec runs a command for a client and returns what it wrote, once the box is not
// frozen. It goes on if the client leaves.
func (m *machine) exec(ctx context.Context, r *run, argv []string) sandboxtest.Output {
	sh := &shell{m, r}
	var text output
	result := make(chan sandboxtest.Output, 1)
	ended, err := m.fork(r)
	if err != nil {
		return sandboxtest.Output{Code: -1, Err: "fork: " + err.Error()}
	}
	go func() {
		defer ended()
		code := sh.start(argv, &text)
		_ = m.act(r, func() error { return nil })
		result <- sandboxtest.Output{Text: text.String(), Code: code}
	}()
	select {
	case out := <-result:
		return out
	case <-ctx.Done():
		return sandboxtest.Output{Code: -1, Err: ctx.Err().Error()}
	}
}

// start runs argv in the working directory.
func (sh *shell) start(argv []string, out io.Writer) int {
	env := map[string]string{"HOME": home, "PATH": "/usr/local/bin:/usr/bin:/bin"}
	maps.Copy(env, sh.machine.spec.Env)
	var list []string
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		var err error
		if quoted[i], err = syntax.Quote(arg, syntax.LangBash); err != nil {
			return 126
		}
	}
	return sh.interpret(sh.run.ctx, program{text: strings.Join(quoted, " "), dir: sh.machine.spec.WorkingDir,
		env: expand.ListEnviron(list...), out: out, err: out})
}

// program is a text for the interpreter.
type program struct {
	text, dir string
	params    []string
	env       expand.Environ
	in        io.Reader // nil: nothing
	out, err  io.Writer
}

// interpret runs a program to its end and returns its exit code.
func (sh *shell) interpret(ctx context.Context, p program) int {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(p.text), "")
	if err != nil {
		_, _ = fmt.Fprintf(p.err, "sh: %v\n", err)
		return 2
	}
	runner, err := interp.New(interp.StdIO(p.in, p.out, p.err), interp.Env(p.env), interp.Params(append([]string{"--"}, p.params...)...),
		interp.CallHandler(sh.call), interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return sh.command }),
		interp.OpenHandler(sh.open), interp.StatHandler(sh.stat), interp.ReadDirHandler2(sh.readDir), interp.AccessHandler(sh.access))
	if err != nil {
		_, _ = fmt.Fprintf(p.err, "sh: %v\n", err)
		return 2
	}
	runner.Dir = p.dir // the option would look at the host's directory
	err = runner.Run(ctx, file)
	var status interp.ExitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	}
	return 128 + int(syscall.SIGKILL) // the run is over
}

// call waits while the box is frozen, and keeps builtins that look at the host
// from being called.
func (sh *shell) call(_ context.Context, args []string) ([]string, error) {
	if err := sh.machine.act(sh.run, func() error { return nil }); err != nil {
		return nil, err
	}
	if args[0] == "pwd" {
		return append([]string{"/bin/pwd"}, args[1:]...), nil
	}
	return args, nil
}

// command runs what is no builtin of the shell.
func (sh *shell) command(ctx context.Context, args []string) error {
	hc := interp.HandlerCtx(ctx)
	ended, err := sh.machine.fork(sh.run)
	if err != nil {
		_, _ = fmt.Fprintln(hc.Stderr, "sh: Cannot fork")
		return interp.ExitStatus(2)
	}
	defer ended()
	c := &call{shell: sh, ctx: ctx, hc: hc, args: args[1:], name: path.Base(args[0])}
	dir := path.Dir(args[0])
	if run := commands()[c.name]; run != nil && (dir == "." || dir == "/bin" || dir == "/usr/bin") {
		return exit(run(c))
	}
	if text, err := c.script(args[0]); err == nil {
		return exit(c.nested(program{text: text, dir: hc.Dir, params: args[1:]}))
	}
	_, _ = fmt.Fprintf(hc.Stderr, "sh: %s: not found\n", args[0])
	return interp.ExitStatus(127)
}

func exit(code int) error {
	if code == 0 {
		return nil
	}
	return interp.ExitStatus(uint8(code))
}

// script reads a program that was written inside.
func (c *call) script(name string) (string, error) {
	var data []byte
	err := c.shell.act(func(t *tree) error {
		n, err := t.find("exec", c.path(name), true)
		if err != nil {
			return err
		}
		if n.mode&0o111 == 0 || !bytes.HasPrefix(n.data, []byte("#!/bin/sh\n")) {
			return fs.ErrPermission
		}
		data = bytes.Clone(n.data)
		return nil
	})
	return string(data), err
}

// nested runs a program in place of a command.
func (c *call) nested(p program) int {
	p.env, p.in, p.out, p.err = c.hc.Env, c.hc.Stdin, c.hc.Stdout, c.hc.Stderr
	return c.shell.interpret(c.ctx, p)
}

// act works on the files.
func (sh *shell) act(f func(*tree) error) error {
	return sh.machine.act(sh.run, func() error { return f(sh.machine.files) })
}

func absolute(ctx context.Context, name string) string {
	if path.IsAbs(name) {
		return name
	}
	return interp.HandlerCtx(ctx).Dir + "/" + name
}

func (sh *shell) stat(ctx context.Context, name string, follow bool) (found fs.FileInfo, err error) {
	err = sh.act(func(t *tree) error {
		n, err := t.find("stat", absolute(ctx, name), follow)
		if err == nil {
			found = infoOf(name, n)
		}
		return err
	})
	return found, err
}

func (sh *shell) readDir(ctx context.Context, name string) (entries []fs.DirEntry, err error) {
	err = sh.act(func(t *tree) error {
		all, err := t.list(absolute(ctx, name))
		for _, entry := range all {
			entries = append(entries, fs.FileInfoToDirEntry(entry))
		}
		return err
	})
	return entries, err
}

// access lets the superuser do everything but execute what nobody may.
func (sh *shell) access(ctx context.Context, name string, mode interp.AccessMode) error {
	found, err := sh.stat(ctx, name, true)
	if err == nil && mode&interp.AccessExec != 0 && !found.IsDir() && found.Mode()&0o111 == 0 {
		return fs.ErrPermission
	}
	return err
}

// open is for redirections.
func (sh *shell) open(ctx context.Context, name string, flag int, perm os.FileMode) (io.ReadWriteCloser, error) {
	return sh.openFile(absolute(ctx, name), flag, perm)
}

func (sh *shell) openFile(name string, flag int, perm fs.FileMode) (io.ReadWriteCloser, error) {
	switch path.Clean(name) {
	case "/dev/null":
		return device{}, nil
	case "/dev/zero":
		return device{endless: true}, nil
	}
	f := &file{shell: sh, appends: flag&os.O_APPEND != 0}
	err := sh.act(func(t *tree) (err error) {
		if flag&os.O_CREATE != 0 {
			f.node, err = t.create(name, perm)
		} else {
			f.node, err = t.find("open", name, true)
		}
		if err == nil && f.node.mode.IsDir() {
			err = pathError("open", name, syscall.EISDIR)
		}
		if err == nil && flag&os.O_TRUNC != 0 {
			t.truncate(f.node)
		}
		return err
	})
	var known *fs.PathError
	if err != nil && !errors.As(err, &known) { // another error would end the shell
		err = pathError("open", name, err)
	}
	return f, err
}

// file is an open file.
type file struct {
	shell   *shell
	node    *node
	appends bool
	offset  int
}

func (f *file) Read(p []byte) (n int, err error) {
	err = f.shell.act(func(*tree) error {
		if f.offset >= len(f.node.data) {
			return io.EOF
		}
		n = copy(p, f.node.data[f.offset:])
		f.offset += n
		return nil
	})
	return n, err
}

func (f *file) Write(p []byte) (n int, err error) {
	err = f.shell.act(func(t *tree) (err error) {
		if f.appends {
			f.offset = len(f.node.data)
		}
		n, err = t.write(f.node, f.offset, p)
		f.offset += n
		return err
	})
	return n, err
}

func (f *file) Close() error { return nil }

// device is /dev/null, or /dev/zero if it is endless.
type device struct{ endless bool }

func (d device) Read(p []byte) (int, error) {
	if !d.endless {
		return 0, io.EOF
	}
	clear(p)
	return len(p), nil
}

func (d device) Write(p []byte) (int, error) { return len(p), nil }
func (d device) Close() error                { return nil }

// output collects what several programs write at a time.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the output.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
