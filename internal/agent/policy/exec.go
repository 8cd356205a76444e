package policy

import (
	"maps"
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// command is a command with its words expanded.
type command struct {
	*shell
	name   string // without its directory
	args   []data
	in     data
	piped  bool // in is not the terminal
	socket bool // it is connected to the network
}

// callExpr runs a simple command.
func (s *shell) callExpr(c *syntax.CallExpr, r redirected) data {
	argv := s.words(c.Args)
	if len(c.Args) == 0 {
		s.assigns(c.Assigns)
		return data{}
	}
	restore := s.temporary(c.Assigns)
	defer restore()
	return s.exec(argv, r)
}

// temporary carries out what is set for one command, and returns what undoes it.
func (s *shell) temporary(list []*syntax.Assign) func() {
	before := map[string][]data{}
	for _, a := range list {
		if a.Name != nil {
			before[a.Name.Value] = s.vars[a.Name.Value]
		}
	}
	s.assigns(list)
	return func() { maps.Copy(s.vars, before) }
}

// exec runs a command.
func (s *shell) exec(argv []data, r redirected) data {
	if len(argv) == 0 || !s.spend() {
		return unknown(r.in.from)
	}
	if s.level >= maxLevel {
		s.unclear("nested too deeply")
		return unknown(r.in.from)
	}
	s.charge(argv...)
	s.charge(r.in)
	s.level++
	defer func() { s.level-- }()
	first := argv[0]
	name := base(first.text)
	if first.has(fromGuess) {
		s.unclear("a command whose name may be another one")
	}
	if strings.Contains(name, hole) || name == "" {
		return s.nameless(first, r)
	}
	c := &command{shell: s, name: name, args: argv[1:], in: r.in, piped: r.piped, socket: r.socket}
	return s.named(c, first)
}

// nameless judges a command whose name is not known: by where the name is from.
func (s *shell) nameless(first data, r redirected) data {
	switch {
	case first.has(fromNet):
		s.high(fetchToExec)
	case first.has(fromCode):
		s.high("runs_decoded")
	case first.text == "":
	case first.has(fromNowhere) || !first.has(fromFile|fromLocal):
		s.unclear("a command whose name is not known")
	}
	return unknown(first.from | r.in.from)
}

func (s *shell) named(c *command, first data) data {
	if strings.HasPrefix(c.name, "!") {
		s.unclear("a command of the history")
	}
	if strings.ContainsAny(c.name, "*?[") && len(c.name) > 1 {
		s.unclear("a command whose name is a pattern")
		c.name = likely(c.name)
	}
	defined, ok := s.defined(c, first)
	if d, ok := s.files[resolve(s.cwd(), first.text)]; ok && (strings.Contains(first.text, "/") || d.has(fromNet)) {
		return s.runText(d, c.args, c.in)
	}
	if c.socket {
		c.connected()
	}
	c.judgeLine()
	if out, ok := c.wrapped(); ok {
		return defined.then(out)
	}
	if h := handler(c.name); h != nil {
		return defined.then(h(c))
	}
	if ok {
		return defined
	}
	return unknown(c.in.from &^ (fromFile | fromLocal)) // what it makes of a file is not the file
}

// defined runs the functions and aliases of the name. They are judged besides the
// program of that name: whether they count depends on who calls, and on whether
// their definition was reached.
func (s *shell) defined(c *command, first data) (data, bool) {
	var out data
	_, isFunc := s.funcs[first.text]
	if isFunc {
		out = s.call(first.text, c.args, c.in)
	}
	alias, isAlias := s.aliases[first.text]
	if mark := "alias " + first.text; isAlias && !s.calling[mark] {
		s.calling[mark] = true
		out = out.then(s.eval(alias.then(known(" ")).then(joined(c.args)), c.in))
		delete(s.calling, mark)
	}
	return out, isFunc
}

// likely is the dangerous command that a pattern may stand for.
func likely(pattern string) string {
	for _, name := range []string{"rm", "dd", "sh", "bash", "curl", "wget", "nc", "mkfs.ext4", "shred", "chmod", "python3"} {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return name
		}
	}
	return pattern
}

// connected judges a command with a network connection as its input or output.
func (c *command) connected() {
	if isShell(c.name) || isInterpreter(c.name) || c.name == "exec" || c.name == "script" {
		c.high("reverse_shell")
		return
	}
	c.medium("raw_connection")
	if c.in.has(fromSecret) || origins(c.args)&fromSecret != 0 {
		c.high("sends_secret")
	}
}

// runText judges a text that is run by a shell of its own.
func (s *shell) runText(d data, params []data, in data) data {
	if d.has(fromCode) {
		s.medium("runs_decoded")
	}
	if line, _, _ := strings.Cut(d.text, "\n"); strings.HasPrefix(line, "#!") && !strings.Contains(line, "sh") {
		s.code(d)
		return unknown(d.from | in.from)
	}
	return s.child(d, params, in)
}

// operands are the arguments that are no options. takes is as for parseOptions.
func (c *command) operands(takes string) []data {
	return parseOptions(c.args, takes).operands
}

// handler returns what follows a command, nil for one that only its line is judged of.
func handler(name string) func(*command) data {
	switch {
	case isShell(name):
		return (*command).shellCommand
	case isInterpreter(name):
		return (*command).interpreter
	case isFetcher(name):
		return (*command).fetch
	case strings.HasPrefix(name, "mkfs") || name == "mke2fs" || name == "mkswap":
		return (*command).format
	}
	if h := textHandler(name); h != nil {
		return h
	}
	if h := fileHandler(name); h != nil {
		return h
	}
	return shellHandler(name)
}

// shellHandler returns what follows the shell's own commands, and those that start
// others.
func shellHandler(name string) func(*command) data {
	switch name {
	case "eval":
		return (*command).evalCommand
	case "source", ".":
		return (*command).source
	case "cd", "pushd":
		return (*command).changeDir
	case "popd":
		return func(c *command) data { c.enter(""); return data{} }
	case "read", "mapfile", "readarray":
		return (*command).readLines
	case "export", "declare", "local", "typeset", "readonly", "alias":
		return (*command).define
	case "set":
		return (*command).setParams
	case "shift":
		return (*command).shift
	case "make", "gmake", "bmake":
		return (*command).make
	case "vim", "vi", "nvim", "ex", "view", "ed", "emacs", "gdb", "man":
		return (*command).editor
	case "trap":
		return (*command).trap
	case "xargs", "parallel":
		return (*command).xargs
	case "find", "fd", "fdfind":
		return (*command).findFiles
	case "ssh", "su", "runuser", "watch", "script", "flock", "entr", "at", "batch", "nix-shell", "crontab":
		return (*command).textRunner
	case "docker", "podman", "nerdctl":
		return (*command).container
	case "git":
		return (*command).git
	case "which", "type":
		return func(c *command) data { return joined(c.operands("")) }
	case "mktemp":
		return func(*command) data { return data{"/tmp/" + hole, 0} }
	case "pwd":
		return func(c *command) data { return known(resolve(c.cwd(), ".")) }
	case "env", "printenv":
		return func(*command) data { return unknown(fromSecret) }
	case "ssh-agent", "direnv", "pyenv", "rbenv", "nodenv", "jenv", "goenv", "asdf", "mise", "brew", "conda", "mamba", "micromamba",
		"opam", "fnm", "zoxide", "starship", "dircolors", "luarocks", "rustup", "register-python-argcomplete", "kubectl", "minikube",
		"docker-machine", "keychain", "lesspipe", "thefuck", "fzf", "npm", "getopt", "resize", "go":
		return func(c *command) data { return unknown(c.in.from | fromLocal) }
	}
	return nil
}
