package policy

import (
	"strings"

	"parley/internal/lazyre"
)

func (c *command) changeDir() data {
	ops := c.operands("")
	switch {
	case len(ops) == 0 && c.name == "cd":
		c.enter("~")
	case len(ops) == 0 || ops[0].text == "-":
		c.enter("")
	default:
		c.enter(resolve(c.cwd(), ops[0].text))
	}
	return data{}
}

func (c *command) readLines() data {
	takes := "-a -d -n -N -p -t -u -i"
	if c.name != "read" {
		takes = "-d -n -O -s -u -C -c"
	}
	names := texts(c.operands(takes))
	if o := parseOptions(c.args, "-a"); len(o.values("-a")) > 0 {
		names = append(names, texts(o.values("-a"))...)
	}
	if len(names) == 0 {
		names = []string{"REPLY", "MAPFILE"}
	}
	c.setLines(names, c.in)
	return data{}
}

// define carries out the assignments of export and its like where they are not
// parsed as such (command export X=...), and looks at what aliases will run.
func (c *command) define() data {
	for _, a := range c.operands("") {
		name, value, ok := strings.Cut(a.text, "=")
		switch {
		case !ok:
		case c.name != "alias":
			c.hooked(name, data{value, a.from})
			c.assign(name, data{value, a.from})
		default:
			c.aliases[name] = data{value, a.from}
			c.aside(func() { c.child(data{value, a.from}, nil, data{}) })
		}
	}
	return unknown(fromSecret) // export alone lists all that there is
}

// setParams is set, which may give $1 and so on new values.
func (c *command) setParams() data {
	if len(c.args) == 0 {
		return unknown(fromSecret) // lists all that is set
	}
	values := c.args
	if i := indexText(c.args, "--"); i >= 0 {
		values = c.args[i+1:]
	} else if first := values[0].text; strings.HasPrefix(first, "-") || strings.HasPrefix(first, "+") {
		return data{}
	}
	if c.params = values; c.branch > 0 {
		c.params = nil // which of them hold afterwards is not followed
	}
	return data{}
}

func (c *command) shift() data {
	if len(c.args) == 0 && len(c.params) > 0 {
		c.params = c.params[1:]
	} else {
		c.params = nil
	}
	return data{}
}

// make judges the recipes of a makefile that comes through its input.
func (c *command) make() data {
	o := parseOptions(c.args, "-f -C -I -o -W --file --makefile --directory")
	for _, f := range o.values("-f", "--file", "--makefile") {
		text := c.in
		if f.text != "-" && f.text != "/dev/stdin" {
			text = c.read(f.text)
		}
		c.recipes(text)
	}
	return unknown(0)
}

func (c *command) recipes(text data) {
	if text.text == hole && text.has(fromNet) {
		c.high(fetchToExec)
	}
	c.aside(func() {
		for line := range strings.Lines(text.text) {
			if _, recipe, ok := strings.Cut(line, ";"); ok && !strings.HasPrefix(line, "\t") {
				line = recipe
			}
			c.child(data{strings.TrimLeft(line, "\t @-+"), text.from}, nil, data{})
		}
	})
}

// editor judges the commands that an editor or debugger is told to start.
func (c *command) editor() data {
	for _, a := range c.args {
		if _, text, ok := strings.Cut(a.text, "!"); ok {
			c.aside(func() { c.child(data{text, a.from}, nil, data{}) })
		}
		if text, ok := strings.CutPrefix(a.text, "shell "); ok {
			c.child(data{text, a.from}, nil, data{})
		}
		if strings.Contains(a.text, "shell-command") || strings.Contains(a.text, "call-process") {
			c.aside(func() { c.codeStrings(a.text + " system") })
		}
	}
	return unknown(0)
}

func (c *command) trap() data {
	if ops := c.operands(""); len(ops) > 1 && ops[0].text != "" {
		c.aside(func() { c.child(ops[0], nil, data{}) })
	}
	return data{}
}

// textRunner is a command that gives a text to a shell.
func (c *command) textRunner() data {
	switch c.name {
	case "ssh":
		return c.ssh()
	case "su", "runuser", "script", "flock", "nix-shell":
		return c.textOption()
	case "watch", "entr":
		_, rest := leading(c.args, "-n --interval", false)
		return c.child(joined(rest), nil, data{})
	case "crontab":
		return c.crontab()
	}
	if c.piped { // at, batch
		c.medium("runs_later")
		return c.runText(c.in, nil, data{})
	}
	return data{}
}

// ssh runs its arguments on another machine, where they do the same harm.
func (c *command) ssh() data {
	c.medium("other_machine")
	o, rest := leading(c.args, "-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B", false)
	for _, v := range o.values("-o") {
		if name, value, ok := strings.Cut(v.text, "="); ok && (strings.EqualFold(name, "ProxyCommand") || strings.EqualFold(name, "LocalCommand")) {
			c.child(data{value, v.from}, nil, data{})
		}
	}
	c.sends(c.in)
	if len(rest) > 1 {
		c.sends(rest[1:]...)
		c.apart(func() data { return c.child(joined(rest[1:]), nil, c.in) })
	}
	return unknown(fromNet | c.in.from)
}

// textOption is a command with the text in -c or --run, or its command behind a file.
func (c *command) textOption() data {
	if c.name == "su" || c.name == "runuser" {
		c.medium("privileged")
	}
	const takes = "-c --command --run -u -s --shell -g -G -E -w --session-command"
	o, rest := leading(c.args, takes, false)
	switch {
	case c.name == "runuser" && o.has("-u"):
		c.exec(rest, redirected{in: c.in, piped: c.piped})
	case c.name == "flock" && len(rest) > 1:
		c.exec(rest[1:], redirected{in: c.in, piped: c.piped})
	}
	o = parseOptions(c.args, takes)
	var out data
	for _, v := range o.values("-c", "--command", "--run", "--session-command") {
		out = out.then(c.child(v, nil, c.in))
	}
	if c.name == "su" && len(o.set) == 0 && c.piped {
		return c.runText(c.in, nil, data{})
	}
	return out
}

func (c *command) crontab() data {
	o := parseOptions(c.args, "-u")
	switch {
	case o.has("-l"):
		return unknown(fromFile)
	case o.has("-r"):
		c.medium("removes_schedule")
	case len(o.operands) > 0 || c.piped:
		c.high("schedules")
	}
	return data{}
}

// xargs runs a command with the words of its input.
func (c *command) xargs() data {
	o, rest := leading(c.args, "-I -a -d -E -L -n -P -s -j --max-args --max-procs --replace --arg-file --delimiter --jobs --max-lines", false)
	in := c.in
	for _, f := range o.values("-a", "--arg-file") {
		in = c.read(f.text)
	}
	if c.name == "parallel" {
		rest, in = colons(rest, in)
	}
	if len(rest) == 0 {
		if c.name == "parallel" {
			return c.runText(in, nil, data{})
		}
		return in
	}
	mark := "{}"
	if v := o.values("-I", "--replace"); len(v) > 0 && v[0].text != "" {
		mark = v[0].text
	}
	if c.name == "parallel" || o.has("-I", "--replace", "-i") {
		return c.each(rest, mark, in)
	}
	words := splitBlanks(strings.ReplaceAll(in.text, "\x00", "\n"))
	for _, w := range words {
		if w != "" {
			rest = append(rest[:len(rest):len(rest)], data{w, in.from})
		}
	}
	return c.exec(rest, redirected{in: data{"", in.from}})
}

// colons takes the words after ::: of parallel as its input.
func colons(args []data, in data) ([]data, data) {
	for i, a := range args {
		if strings.HasPrefix(a.text, ":::") {
			var lines data
			for _, w := range args[i+1:] {
				lines = lines.then(w).then(known("\n"))
			}
			return args[:i], lines
		}
	}
	return args, in
}

// each runs a command for each line of the input, put in where mark is.
func (c *command) each(argv []data, mark string, in data) data {
	var out data
	for line := range strings.Lines(strings.ReplaceAll(in.text, "\x00", "\n")) {
		if !c.spend() {
			break
		}
		line = strings.TrimSpace(line)
		filled := make([]data, len(argv))
		marked := false
		for i, a := range argv {
			filled[i] = a
			if strings.Contains(a.text, mark) {
				filled[i] = data{clipData(strings.ReplaceAll(a.text, mark, line)), a.from | in.from}
				marked = true
			}
		}
		if c.name != "parallel" {
			out = out.then(c.exec(filled, redirected{}))
			continue
		}
		if !marked {
			filled = append(filled, data{line, in.from})
		}
		out = out.then(c.child(joined(filled), nil, data{}))
	}
	return out
}

// container judges docker and its like: what is started inside is shut in, what
// of this machine is handed to it is not.
func (c *command) container() data {
	line := " " + strings.Join(texts(c.args), " ") + " "
	if strings.Contains(line, " --privileged ") || strings.Contains(line, "docker.sock") || strings.Contains(line, " --pid=host ") ||
		hostMount.MatchString(line) {
		c.high("leaves_container")
	}
	return unknown(c.in.from)
}

// hostMount is a mount of all of this machine, or of what governs it.
var hostMount = lazyre.MustCompile(`(?:-v|--volume|source|src)[ =]?(?:/|/etc|/root|/home|/proc|/dev|/var|~|/var/run|/run)/?(?::|,| )`)

func (c *command) git() data {
	o, rest := leading(c.args, "-c -C --git-dir --work-tree --namespace --exec-path --config-env", false)
	for _, v := range o.values("-c") {
		c.gitSetting(v)
	}
	if len(rest) == 0 {
		return data{}
	}
	ops := parseOptions(rest[1:], "-f --file -m --message -C -F --author --date -b -o --origin --upload-pack -u --receive-pack").operands
	switch rest[0].text {
	case "config":
		if len(ops) > 0 && (ops[0].text == "set" || ops[0].text == "--add") {
			ops = ops[1:]
		}
		if len(ops) > 1 {
			c.gitSetting(ops[0].then(known("=")).then(ops[1]))
		}
	case "submodule", "bisect":
		if i := indexText(rest, "foreach", "run"); i >= 0 {
			_, inner := leading(rest[i+1:], "", false)
			c.child(joined(inner), nil, data{})
		}
	case "show", "cat-file", "log", "diff":
		return unknown(fromFile)
	}
	return unknown(c.in.from)
}

func indexText(words []data, names ...string) int {
	for i, w := range words {
		for _, n := range names {
			if w.text == n {
				return i
			}
		}
	}
	return -1
}

// gitSetting judges a setting that git runs the value of.
func (c *command) gitSetting(d data) {
	name, value, _ := strings.Cut(d.text, "=")
	name = strings.ToLower(name)
	switch {
	case strings.HasPrefix(name, "alias."):
		if text, ok := strings.CutPrefix(value, "!"); ok {
			c.medium("git_runs")
			c.child(data{text, d.from}, nil, data{})
		}
	case name == "core.hookspath", name == "core.fsmonitor", name == "core.sshcommand", name == "core.gitproxy",
		name == "core.askpass", name == "core.alternaterefscommand", name == "uploadpack.packobjectshook",
		strings.HasPrefix(name, "filter."), strings.HasPrefix(name, "diff.") && strings.HasSuffix(name, ".textconv"):
		c.medium("git_runs")
		c.aside(func() { c.child(data{value, d.from}, nil, data{}) })
	case name == "core.pager", name == "core.editor", name == "sequence.editor", name == "credential.helper":
		c.aside(func() { c.child(data{strings.TrimPrefix(value, "!"), d.from}, nil, data{}) })
	case name == "http.sslverify" && value == "false":
		c.medium("no_verification")
	}
}
