package fake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
)

// call is one command under way.
type call struct {
	shell *shell
	ctx   context.Context
	hc    interp.HandlerContext
	name  string
	args  []string
}

// commands are the programs of a box. They return their exit code.
func commands() map[string]func(*call) int {
	return map[string]func(*call) int{
		"sh": sh, "nohup": runs, "setsid": runs, "env": env, "pwd": pwd, "true": succeed, "sync": succeed,
		"date": date, "sleep": sleep, "seq": seq,
		"cat": cat, "head": head, "wc": wc, "tr": tr,
		"ls": ls, "stat": stat, "readlink": readlink, "touch": touch, "mkdir": mkdir, "chmod": chmod,
		"rm": rm, "rmdir": rm, "ln": ln, "cp": cp,
	}
}

// path is an operand as an absolute path.
func (c *call) path(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return c.hc.Dir + "/" + name
}

// split separates options that have no argument of their own from operands.
func (c *call) split() (options string, operands []string) {
	for i, arg := range c.args {
		if len(arg) < 2 || arg[0] != '-' {
			return options, c.args[i:]
		}
		options += arg[1:]
	}
	return options, nil
}

func (c *call) fail(err error) int {
	_, _ = fmt.Fprintf(c.hc.Stderr, "%s: %v\n", c.name, err)
	return 1
}

func (c *call) say(format string, args ...any) int {
	if _, err := fmt.Fprintf(c.hc.Stdout, format, args...); err != nil {
		return c.fail(err)
	}
	return 0
}

// each does something with the files for every name, and goes on after errors.
func (c *call) each(names []string, f func(t *tree, name string) error) int {
	code := 0
	for _, name := range names {
		if err := c.shell.act(func(t *tree) error { return f(t, c.path(name)) }); err != nil {
			code = c.fail(err)
		}
	}
	return code
}

// input is the concatenation of files, or standard input if there are none.
func (c *call) input(names []string) (io.Reader, error) {
	if len(names) == 0 {
		if c.hc.Stdin == nil {
			return strings.NewReader(""), nil
		}
		return c.hc.Stdin, nil
	}
	var all []io.Reader
	for _, name := range names {
		f, err := c.shell.openFile(c.path(name), os.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return io.MultiReader(all...), nil
}

func succeed(*call) int { return 0 }

func sh(c *call) int {
	if len(c.args) < 2 || c.args[0] != "-c" {
		return c.fail(syscall.EINVAL)
	}
	return c.nested(program{text: c.args[1], dir: c.hc.Dir, params: c.args[min(3, len(c.args)):]})
}

// runs runs the command that follows: there is no terminal to leave.
func runs(c *call) int {
	if len(c.args) == 0 {
		return c.fail(syscall.EINVAL)
	}
	var status interp.ExitStatus
	if errors.As(c.shell.command(c.ctx, c.args), &status) {
		return int(status)
	}
	return 0
}

func env(c *call) int {
	var text strings.Builder
	for name, value := range c.hc.Env.Each {
		if value.Exported && value.Kind == expand.String {
			text.WriteString(name + "=" + value.Str + "\n")
		}
	}
	return c.say("%s", text.String())
}

func pwd(c *call) int { return c.say("%s\n", path.Clean(c.hc.Dir)) }

func date(c *call) int {
	now := time.Now()
	format := "+%s"
	if len(c.args) > 0 {
		format = c.args[0]
	}
	return c.say("%s\n", strings.NewReplacer("+", "", "%s", strconv.FormatInt(now.Unix(), 10),
		"%3N", fmt.Sprintf("%03d", now.Nanosecond()/1e6), "%N", fmt.Sprintf("%09d", now.Nanosecond())).Replace(format))
}

func sleep(c *call) int {
	seconds, err := strconv.ParseFloat(strings.Join(c.args, " "), 64)
	if err != nil {
		return c.fail(err)
	}
	select {
	case <-time.After(time.Duration(seconds * float64(time.Second))):
		return 0
	case <-c.ctx.Done():
		return 128 + int(syscall.SIGKILL)
	}
}

func seq(c *call) int {
	n, err := strconv.Atoi(strings.Join(c.args, " "))
	if err != nil {
		return c.fail(err)
	}
	var text strings.Builder
	for i := range n {
		text.WriteString(strconv.Itoa(i+1) + "\n")
	}
	return c.say("%s", text.String())
}

func cat(c *call) int {
	code := 0
	copyAll := func(names ...string) {
		from, err := c.input(names)
		if err == nil {
			_, err = io.Copy(c.hc.Stdout, from)
		}
		if err != nil {
			code = c.fail(err)
		}
	}
	if len(c.args) == 0 {
		copyAll()
	}
	for _, name := range c.args {
		copyAll(name)
	}
	return code
}

// head copies bytes: "head -c N [FILE]".
func head(c *call) int {
	if len(c.args) < 2 || c.args[0] != "-c" {
		return c.fail(syscall.EINVAL)
	}
	n, err := strconv.ParseInt(c.args[1], 10, 64)
	if err != nil {
		return c.fail(err)
	}
	from, err := c.input(c.args[2:])
	if err == nil {
		_, err = io.Copy(c.hc.Stdout, io.LimitReader(from, n))
	}
	if err != nil {
		return c.fail(err)
	}
	return 0
}

// wc counts lines or bytes: "wc -l" or "wc -c".
func wc(c *call) int {
	options, names := c.split()
	from, err := c.input(names)
	if err != nil {
		return c.fail(err)
	}
	data, err := io.ReadAll(from)
	if err != nil {
		return c.fail(err)
	}
	if options == "c" {
		return c.say("%d\n", len(data))
	}
	return c.say("%d\n", bytes.Count(data, []byte("\n")))
}

// tr maps characters: both sets are lists, the last of the second stands for more.
func tr(c *call) int {
	if len(c.args) != 2 || c.args[0] == "" || c.args[1] == "" {
		return c.fail(syscall.EINVAL)
	}
	escapes := strings.NewReplacer(`\n`, "\n", `\0`, "\x00", `\t`, "\t", `\\`, `\`)
	from, to := escapes.Replace(c.args[0]), escapes.Replace(c.args[1])
	in, err := c.input(nil)
	if err != nil {
		return c.fail(err)
	}
	data, err := io.ReadAll(in)
	if err != nil {
		return c.fail(err)
	}
	for i, b := range data {
		if at := strings.IndexByte(from, b); at >= 0 {
			data[i] = to[min(at, len(to)-1)]
		}
	}
	return c.say("%s", data)
}

func ls(c *call) int {
	options, names := c.split()
	if len(names) == 0 {
		names = []string{"."}
	}
	var text strings.Builder
	code := c.each(names, func(t *tree, name string) error {
		n, err := t.find("ls", name, true)
		if err != nil {
			return err
		}
		if !n.mode.IsDir() {
			text.WriteString(path.Base(name) + "\n")
			return nil
		}
		all, err := t.list(name)
		for _, entry := range all {
			if entry.name[0] != '.' || strings.ContainsAny(options, "aA") {
				text.WriteString(entry.name + "\n")
			}
		}
		return err
	})
	return max(code, c.say("%s", text.String()))
}

// stat prints permissions, size or the number of names: "stat -c FORMAT FILE...".
func stat(c *call) int {
	if len(c.args) < 3 || c.args[0] != "-c" {
		return c.fail(syscall.EINVAL)
	}
	var text strings.Builder
	code := c.each(c.args[2:], func(t *tree, name string) error {
		n, err := t.find("stat", name, false)
		if err == nil {
			text.WriteString(strings.NewReplacer("%a", strconv.FormatUint(uint64(n.mode.Perm()), 8),
				"%s", strconv.Itoa(len(n.data)), "%h", strconv.Itoa(n.names)).Replace(c.args[1]) + "\n")
		}
		return err
	})
	return max(code, c.say("%s", text.String()))
}

func readlink(c *call) int {
	var text strings.Builder
	code := c.each(c.args, func(t *tree, name string) error {
		n, err := t.find("readlink", name, false)
		if err == nil && n.mode&fs.ModeSymlink == 0 {
			err = syscall.EINVAL
		}
		if err == nil {
			text.WriteString(n.target + "\n")
		}
		return err
	})
	return max(code, c.say("%s", text.String()))
}

func touch(c *call) int {
	return c.each(c.args, func(t *tree, name string) error {
		n, err := t.create(name, 0o644)
		if err == nil {
			n.changed = time.Now()
		}
		return err
	})
}

func mkdir(c *call) int {
	options, names := c.split()
	return c.each(names, func(t *tree, name string) error {
		if strings.Contains(options, "p") {
			return t.mkdirAll(name, 0o755)
		}
		return t.add("mkdir", name, newDir(0o755))
	})
}

func chmod(c *call) int {
	if len(c.args) < 2 {
		return c.fail(syscall.EINVAL)
	}
	perm, err := strconv.ParseUint(c.args[0], 8, 32)
	if err != nil {
		return c.fail(err)
	}
	return c.each(c.args[1:], func(t *tree, name string) error {
		n, err := t.find("chmod", name, true)
		if err == nil {
			n.mode = n.mode.Type() | fs.FileMode(perm)&fs.ModePerm
		}
		return err
	})
}

// rm is also rmdir, which removes what is empty.
func rm(c *call) int {
	options, names := c.split()
	return c.each(names, func(t *tree, name string) error {
		n, err := t.find("rm", name, false)
		if err != nil {
			if strings.Contains(options, "f") {
				return nil
			}
			return err
		}
		if n.mode.IsDir() && c.name == "rm" && !strings.ContainsAny(options, "rR") {
			return pathError("rm", name, syscall.EISDIR)
		}
		return t.remove(name, c.name == "rm")
	})
}

func ln(c *call) int {
	options, names := c.split()
	if len(names) != 2 {
		return c.fail(syscall.EINVAL)
	}
	return c.each(names[1:], func(t *tree, name string) error {
		if strings.Contains(options, "s") {
			return t.add("ln", name, &node{mode: fs.ModeSymlink | 0o777, target: names[0], changed: time.Now()})
		}
		n, err := t.find("ln", c.path(names[0]), false)
		if err == nil && n.mode.IsDir() {
			err = pathError("ln", names[0], syscall.EPERM)
		}
		if err != nil {
			return err
		}
		return t.add("ln", name, n)
	})
}

// destination is where a copy goes: into a directory, or to the name itself.
func (c *call) destination(t *tree, from, to string) string {
	if n, err := t.find("stat", to, true); err == nil && n.mode.IsDir() {
		return to + "/" + path.Base(from)
	}
	return to
}

func cp(c *call) int {
	if len(c.args) != 2 {
		return c.fail(syscall.EINVAL)
	}
	return c.each(c.args[1:], func(t *tree, to string) error {
		n, err := t.find("cp", c.path(c.args[0]), true)
		if err != nil {
			return err
		}
		copied, err := t.create(c.destination(t, c.args[0], to), n.mode.Perm())
		if err != nil {
			return err
		}
		t.truncate(copied)
		_, err = t.write(copied, 0, n.data)
		return err
	})
}
