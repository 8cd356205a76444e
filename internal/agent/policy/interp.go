package policy

import (
	"strings"

	"parley/internal/lazyre"
)

func isShell(name string) bool {
	switch name {
	case "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "rbash", "csh", "tcsh", "yash", "pwsh":
		return true
	}
	return false
}

// interpreters are programs that run code in another language than the shell's.
var interpreters = lazyre.MustCompile(`^(?:python|pypy|ipython|perl|ruby|irb|node|nodejs|deno|bun|php|lua|luajit|tclsh|Rscript|osascript|ghci|elixir|groovy|jshell)[\d.]*$`)

func isInterpreter(name string) bool { return interpreters.MatchString(name) }

// shellCommand is a shell that is started: with a text, with a file, or with what
// comes through its input.
func (c *command) shellCommand() data {
	o, rest := leading(c.args, "-o -O +o +O --rcfile --init-file", false)
	for _, f := range o.values("--rcfile", "--init-file") {
		c.file(f, nil)
	}
	switch {
	case o.has("-c") && len(rest) > 0:
		if len(rest) > 1 {
			before := c.vars["0"]
			c.vars["0"] = rest[1:2]
			defer func() { c.vars["0"] = before }()
			return c.runText(rest[0], rest[2:], c.in)
		}
		return c.runText(rest[0], []data{}, c.in)
	case len(rest) > 0 && !o.has("-s") && rest[0].text != "-" && rest[0].text != "/dev/stdin":
		return c.file(rest[0], rest[1:])
	case c.piped:
		return c.runText(c.in, nil, data{})
	}
	return unknown(c.in.from)
}

// file runs a file. What is in it is only known if the same text wrote it.
func (c *command) file(name data, params []data) data {
	d := c.read(name.text)
	switch {
	case d != unknown(fromFile):
		return c.runText(d, params, c.in)
	case name.text == hole || name.has(fromNet):
		c.nameless(name, redirected{})
	}
	return unknown(c.in.from)
}

func (c *command) source() data {
	if len(c.args) == 0 {
		return data{}
	}
	name := c.args[0]
	if name.text == "/dev/stdin" {
		return c.eval(c.in, data{})
	}
	switch d := c.read(name.text); {
	case d != unknown(fromFile):
		return c.eval(d, c.in)
	case name.text == hole && !name.has(fromFile|fromLocal):
		return c.nameless(name, redirected{})
	}
	return data{}
}

func (c *command) evalCommand() data {
	d := joined(c.args)
	if d.has(fromCode) {
		c.medium("runs_decoded")
	}
	return c.eval(d, c.in)
}

// interpreter is a program that runs code: given as an argument, or as its input.
func (c *command) interpreter() data {
	o, rest := leading(c.args, "-c -e -E -r -m -W -X --eval --print -p -I -M", false)
	code := o.values("-c", "-e", "-E", "-r", "--eval", "--print", "-p")
	for _, d := range code {
		c.code(d)
	}
	out := unknown(c.in.from)
	switch {
	case len(code) > 0:
		out.from |= origins(code)
	case o.has("-m"):
	case len(rest) > 0 && (rest[0].text == "eval" || rest[0].text == "run") && (c.name == "deno" || c.name == "bun"):
		if len(rest) > 1 {
			c.codeFile(rest[1])
		}
	case len(rest) > 0 && rest[0].text != "-" && rest[0].text != "/dev/stdin":
		c.codeFile(rest[0])
	case c.piped:
		c.code(c.in)
	}
	if fetchesInCode.MatchString(joined(code).text + c.in.text) {
		out.from |= fromNet
	}
	return out
}

func (c *command) codeFile(name data) {
	switch d := c.read(name.text); {
	case d != unknown(fromFile):
		c.code(d)
	case name.text == hole || name.has(fromNet):
		c.nameless(name, redirected{})
	}
}

// Words of code in the usual languages. Together, not alone, they say something.
var (
	fetchesInCode = lazyre.MustCompile(`(?i)\burlopen\b|\burlretrieve\b|\brequests\.(?:get|post)\b|\bhttpx?\.(?:get|request)\b|\bfetch\(|Net::HTTP|open-uri|URI\.open|LWP::|file_get_contents\(\s*['"]https?:|\bWebClient\b|Invoke-WebRequest`)
	runsInCode    = lazyre.MustCompile(`\bexec\s*\(|\beval\b|\bos\.system\b|\bos\.popen\b|\bos\.exec|\bos\.spawn|\bsubprocess\b|\bpty\.spawn\b|\bchild_process\b|\bexecSync\b|\bspawn|\bsystem\b|\bpopen\b|\bpassthru\b|\bshell_exec\b|\bIO\.popen\b|\bKernel\.|\bcompile\(|\bFunction\(|\bqx\b|` + "`")
	// evaluates is the part of runsInCode that runs a text as code.
	evaluates     = lazyre.MustCompile(`\bexec\s*\(|\beval\b|\bos\.system\b|\bos\.popen\b|\bsubprocess\b|\bexecSync\b|\bchild_process\b|\bshell_exec\b|\bFunction\(`)
	decodesInCode = lazyre.MustCompile(`(?i)b64decode|base64_decode|decode64|frombase64|\batob\(|['"]base64['"]|fromhex|unhexlify|\bmarshal\.loads|\bcodecs\.decode|\bpack\(`)
	socketInCode  = lazyre.MustCompile(`(?i)\bsocket\b|TCPSocket|fsockopen|net\.connect|net\.Socket`)
	shellInCode   = lazyre.MustCompile(`dup2|pty\.spawn|/bin/(?:ba|da|z)?sh|\bcmd\.exe`)
	removesInCode = lazyre.MustCompile(`\brmtree\b|\brm_rf\b|\bremove_tree\b|\brmSync\b|\brmdirSync\b|\brm\(|\brimraf\b|\bunlink\b|\bos\.remove|remove_entry|\brm_r\b`)
	opensInCode   = lazyre.MustCompile(`\bopen\(|\bwrite|appendFile|file_put_contents|copyfile|shutil\.`)
	quotedInCode  = lazyre.MustCompile(`"(?:[^"\\]|\\.)+"|'(?:[^'\\]|\\.)+'|` + "`[^`]+`" + `|\bq[qxw]?[{(|/]([^})|/]+)[})|/]`)
)

// maxStrings bounds how many texts in quotes of one piece of code are looked at.
const maxStrings = 500

// code judges code in another language: by the words in it, and by what its texts
// in quotes would do as commands or paths where the words say that they are.
func (s *shell) code(d data) {
	switch {
	case d.text == hole && d.has(fromNet):
		s.high(fetchToExec)
	case d.text == hole && d.has(fromCode):
		s.high("runs_decoded")
	case d.text == hole && !d.has(fromFile|fromLocal):
		s.unclear("code that is not known")
	case len(d.text) > s.bytes:
		s.bytes = 0
		s.unclear("too much to judge")
	default:
		s.bytes -= len(d.text)
		s.codeWords(d.text)
		s.codeStrings(d.text)
	}
}

func (s *shell) codeWords(text string) {
	if evaluates.MatchString(text) {
		if fetchesInCode.MatchString(text) {
			s.high(fetchToExec)
		}
		if decodesInCode.MatchString(text) {
			s.high("runs_decoded")
		}
	}
	if socketInCode.MatchString(text) && shellInCode.MatchString(text) {
		s.high("reverse_shell")
	}
}

func (s *shell) codeStrings(text string) {
	runs, removes, opens := runsInCode.MatchString(text), removesInCode.MatchString(text), opensInCode.MatchString(text)
	if !runs && !removes && !opens {
		return
	}
	all := quotedInCode.FindAllString(text, maxStrings)
	inner := make([]data, len(all))
	for i, q := range all {
		inner[i] = data{unescapeC(strings.Trim(q, "\"'`")), fromFile}
	}
	for _, d := range inner {
		p := resolve(s.cwd(), d.text)
		if removes && isWhole(p) {
			s.high(catastrophicDelete)
		}
		if (opens || removes) && (strings.HasPrefix(p, "/") || strings.HasPrefix(p, "~")) {
			judgePath(s.scan, p)
		}
	}
	if !runs {
		return
	}
	s.aside(func() {
		for _, d := range inner {
			if strings.ContainsAny(d.text, " \t") {
				s.child(d, nil, data{})
			}
		}
		if len(inner) > 1 { // ["rm", "-rf", "/"]
			s.exec(inner, redirected{})
		}
	})
}

// codeFileText judges code that is written into a file, where what is far apart has
// nothing to do with each other.
func codeFileText(s *scan, text string) {
	if fetchedCode.MatchString(text) {
		s.high(fetchToExec)
	}
	if decodedCode.MatchString(text) {
		s.high("runs_decoded")
	}
	if deletingCode.MatchString(text) {
		s.high(catastrophicDelete)
	}
}

var (
	fetchedCode  = lazyre.MustCompile(`\b(?:exec|eval|os\.system|Function)\s*\(\s*[^\n;]{0,60}(?:urlopen|requests\.get|httpx\.get|file_get_contents\(\s*['"]https?:|Net::HTTP)`)
	decodedCode  = lazyre.MustCompile(`\b(?:exec|eval|os\.system|Function)\s*\(\s*[^\n;]{0,60}(?:b64decode|base64_decode|atob\(|fromhex|unhexlify|marshal\.loads)`)
	deletingCode = lazyre.MustCompile(`\b(?:rmtree|rm_rf|remove_tree|rmSync|rimraf)\s*\(\s*['"](?:/|~|/home|/etc|/usr|/var)/?['"]`)
)
