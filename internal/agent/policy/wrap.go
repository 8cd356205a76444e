package policy

import (
	"slices"
	"strings"
)

// wrapper is a command that runs the command in its arguments.
type wrapper struct {
	takes   string // options with a value
	skip    int    // operands before the command
	assigns bool   // NAME=value may come before it
	rule    rule   // what the wrapper itself is, "" = nothing
}

// wrapperOf returns how to find the command in the arguments of a wrapper.
func wrapperOf(name string) (wrapper, bool) {
	switch name {
	case "sudo":
		return wrapper{takes: "-u -g -p -C -T -h -r -t -D -R -U --user --group --prompt --close-from --command-timeout " +
			"--host --role --type --chdir --chroot --other-user", assigns: true, rule: "privileged"}, true
	case "doas", "pkexec", "gosu", "su-exec":
		return wrapper{takes: "-u -C --user", skip: oneOf(name, "gosu", "su-exec"), rule: "privileged"}, true
	case "env":
		return wrapper{takes: "-u -C --unset --chdir", assigns: true}, true
	case "nohup", "setsid", "unbuffer", "command", "builtin", "chronic", "fakeroot", "busybox", "toybox", "linux32", "linux64",
		"torsocks", "firejail", "dbus-run-session", "setpriv", "catchsegv", "noglob", "nocorrect", "winpty", "wine", "tini", "dumb-init":
		return wrapper{takes: "--reuid --regid --groups"}, true
	case "proxychains", "proxychains4", "caffeinate":
		return wrapper{takes: "-f -t -w"}, true
	case "xvfb-run":
		return wrapper{takes: "-e -f -n -p -s -w --server-args --server-num"}, true
	case "systemd-run":
		return wrapper{takes: "-p -u -M -H -E --property --unit --uid --gid --setenv --slice --description"}, true
	case "unshare":
		return wrapper{takes: "-S -G -R -w --setuid --setgid --root --wd"}, true
	case "rlwrap":
		return wrapper{takes: "-f -H -s -S -C -b -l -P -t"}, true
	case "exec":
		return wrapper{takes: "-a"}, true
	case "sshpass":
		return wrapper{takes: "-p -f -d -P"}, true
	case "nice":
		return wrapper{takes: "-n --adjustment"}, true
	case "ionice":
		return wrapper{takes: "-c -n -p -P -u --class --classdata"}, true
	case "timeout":
		return wrapper{takes: "-k -s --kill-after --signal", skip: 1}, true
	case "chrt", "taskset", "faketime", "setarch":
		return wrapper{skip: 1}, true
	case "chroot":
		return wrapper{takes: "--userspec --groups", skip: 1, rule: "privileged"}, true
	case "nsenter":
		return wrapper{takes: "-t --target", rule: "privileged"}, true
	case "stdbuf":
		return wrapper{takes: "-i -o -e --input --output --error"}, true
	case "time":
		return wrapper{takes: "-f -o --format --output"}, true
	case "strace", "ltrace":
		return wrapper{takes: "-o -e -s -p -u -E -P -O -S -a -X -I"}, true
	case "valgrind", "gtimeout", "npx", "bunx", "pnpx", "dotenv", "direnv-exec":
		return wrapper{skip: oneOf(name, "gtimeout"), takes: "-p --package -e -f -c --call"}, true
	}
	return wrapper{}, false
}

func oneOf(name string, names ...string) int {
	if slices.Contains(names, name) {
		return 1
	}
	return 0
}

// wrapped follows a wrapper to the command in it. false: it is none, or runs none.
func (c *command) wrapped() (data, bool) {
	args, w, ok := c.inner()
	if !ok {
		return data{}, false
	}
	o, rest := leading(args, w.takes, w.assigns)
	if w.rule != "" {
		c.medium(w.rule)
	}
	for _, a := range o.values("=") {
		name, value, _ := strings.Cut(a.text, "=")
		c.hooked(name, data{value, a.from})
		before := c.vars[name]
		c.vars[name] = []data{{value, a.from}}
		defer func() { c.vars[name] = before }()
	}
	if c.name == "env" {
		if text, ok := splitString(args); ok {
			return c.child(text, nil, c.in), true
		}
	}
	if c.name == "npx" || c.name == "npm" {
		for _, v := range o.values("-c", "--call") {
			c.child(v, nil, c.in)
		}
	}
	if c.name == "env" && len(rest) > 0 && rest[0].text == "-" {
		_, rest = leading(rest[1:], w.takes, true)
	}
	if c.name == "command" && o.has("-v", "-V") {
		return joined(rest), true
	}
	if len(rest) <= w.skip {
		return data{}, false
	}
	return c.exec(rest[w.skip:], redirected{in: c.in, piped: c.piped, socket: c.socket}), true
}

// inner returns the arguments of a wrapper after its name, and after its
// sub-command where it has one.
func (c *command) inner() ([]data, wrapper, bool) {
	if w, ok := wrapperOf(c.name); ok {
		return c.args, w, true
	}
	var sub []string
	switch c.name {
	case "poetry", "pipenv", "uv", "rye", "pdm", "hatch", "conda", "mamba", "micromamba", "op", "doppler", "pixi":
		sub = []string{"run"}
	case "bundle", "npm", "pnpm", "yarn", "direnv", "asdf", "mise", "rbenv", "pyenv":
		sub = []string{"exec"}
	case "perf":
		sub = []string{"stat", "record", "trace"}
	case "kubectl", "oc", "lxc", "incus", "multipass":
		return c.afterDashes()
	}
	if len(c.args) < 2 || !slices.Contains(sub, c.args[0].text) {
		return nil, wrapper{}, false
	}
	w := wrapper{takes: "-n -p -e -o -c --call --name --prefix --with --python --project --package"}
	if c.name == "direnv" {
		w.skip = 1
	}
	return c.args[1:], w, true
}

// afterDashes is what stands after --, as the command of kubectl exec does.
func (c *command) afterDashes() ([]data, wrapper, bool) {
	i := slices.IndexFunc(c.args, func(d data) bool { return d.text == "--" })
	if len(c.args) == 0 || c.args[0].text != "exec" || i < 0 {
		return nil, wrapper{}, false
	}
	return c.args[i:], wrapper{}, true
}

// splitString is the command in one text of env -S.
func splitString(args []data) (data, bool) {
	for i, a := range args {
		if text, ok := strings.CutPrefix(a.text, "--split-string="); ok {
			return data{text, a.from}, true
		}
		if !strings.HasPrefix(a.text, "-") || strings.HasPrefix(a.text, "--") && a.text != "--split-string" {
			return data{}, false
		}
		letters, text, ok := strings.Cut(a.text, "S")
		switch {
		case a.text == "--split-string" && i+1 < len(args):
			return joined(args[i+1:]), true
		case ok && strings.Trim(letters, "-iv0") == "":
			return data{text + " ", a.from}.then(joined(args[i+1:])), true
		}
	}
	return data{}, false
}
