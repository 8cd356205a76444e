package policy

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxValues bounds how many values a variable is followed with.
const maxValues = 64

// shell follows a shell text as far as that is possible without running it:
// variables, functions, files that it writes, the directory it is in, and what
// goes through its pipes.
type shell struct {
	*scan
	vars    map[string][]data         // the values that a variable may have here
	files   map[string]data           // written by the text, by their path
	sinks   map[string][]*syntax.Stmt // what reads the files that >(...) makes
	funcs   map[string][]*syntax.Stmt // the bodies that a function may have here
	aliases map[string]data
	called  map[string]bool
	calling map[string]bool
	params  []data // $1...; nil = not known
	holes   origin // where holes in the text itself come from
	runs    int    // shell texts around this one
	level   int    // statements around this one
	branch  int    // > 0: what is done here may not be done
	simple  bool   // inside of a simple command
	pick    int    // which of several values variables have in this pass
	most    int    // passes needed
}

func newShell(s *scan) *shell {
	return &shell{scan: s, vars: map[string][]data{}, files: map[string]data{},
		sinks: map[string][]*syntax.Stmt{}, funcs: map[string][]*syntax.Stmt{}, aliases: map[string]data{},
		called: map[string]bool{}, calling: map[string]bool{}}
}

// eval judges a text that this shell runs itself, and returns what it writes.
func (s *shell) eval(d data, in data) data {
	file := s.parse(d)
	if file == nil {
		return unknown(d.from)
	}
	holes := s.holes
	s.holes = d.from
	s.runs++
	out := s.all(file.Stmts, in)
	s.uncalled()
	s.runs--
	s.holes = holes
	return out
}

// child judges a text that another shell runs.
func (s *shell) child(d data, params []data, in data) data {
	c := *s
	c.vars, c.funcs = maps.Clone(s.vars), maps.Clone(s.funcs)
	c.called, c.params = map[string]bool{}, params
	c.pick, c.most, c.simple = 0, 0, false
	return c.eval(d, in)
}

func (s *shell) parse(d data) *syntax.File {
	switch {
	case s.runs >= maxRuns:
		s.unclear("shells in shells, nested too deeply")
	case len(d.text) > maxShell:
		s.unclear("a shell text that is too long")
	case len(d.text) > s.bytes:
		s.bytes = 0
		s.unclear("too much to judge")
	case nesting(d.text) > maxNested:
		s.unclear("a shell text that is nested too deeply")
	default:
		s.bytes -= len(d.text)
		return s.parseText(d)
	}
	return nil
}

func (s *shell) parseText(d data) *syntax.File {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(d.text), "")
	if err == nil {
		return file
	}
	s.unclear("a shell text that cannot be read")
	s.lines(d)
	return nil
}

// lines judges what can be read of a text that is no correct program, line by
// line: a shell, too, runs the lines before a mistake.
func (s *shell) lines(d data) {
	if !strings.Contains(d.text, "\n") {
		return
	}
	for line := range strings.Lines(d.text) {
		if !s.spend() || len(line) > s.bytes {
			return
		}
		s.bytes -= len(line)
		file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
		if err == nil {
			s.all(file.Stmts, data{})
		}
	}
}

// nesting is how many brackets are open at most. Quotes are not looked at: it
// only protects the parser, which is recursive.
func nesting(text string) int {
	open, most := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{', '[':
			open++
			most = max(most, open)
		case ')', '}', ']':
			open = max(open-1, 0)
		}
	}
	return most
}

// uncalled judges the functions that the text defines and does not call: a later
// call may.
func (s *shell) uncalled() {
	for _, name := range slices.Sorted(maps.Keys(s.funcs)) {
		if !s.called[name] {
			s.call(name, nil, data{})
		}
	}
}

// call runs a function.
func (s *shell) call(name string, params []data, in data) data {
	s.called[name] = true
	if s.calling[name] {
		return unknown(0)
	}
	s.calling[name] = true
	saved := s.params
	s.params = params
	s.branch++
	var out data
	for _, body := range s.funcs[name] {
		out = out.then(s.stmt(body, in))
		s.params = params
	}
	s.branch--
	s.params = saved
	delete(s.calling, name)
	return out
}

// all runs statements and returns what they write.
func (s *shell) all(stmts []*syntax.Stmt, in data) data {
	var out data
	for _, st := range stmts {
		out = out.then(s.stmt(st, in))
	}
	return out
}

// maybe runs statements that may not be run.
func (s *shell) maybe(stmts []*syntax.Stmt, in data) data {
	s.branch++
	defer func() { s.branch-- }()
	return s.all(stmts, in)
}

// apart runs statements in a shell of their own: what they do to the directory
// stays there.
func (s *shell) apart(run func() data) data {
	cwd := s.vars[cwdName]
	s.branch++
	out := run()
	s.branch--
	s.vars[cwdName] = cwd
	return out
}

// cwdName is the variable that the directory is kept in: like others it may have
// several values where it is not sure what was reached.
const cwdName = "/cwd"

// cwd is the directory in this pass; "" is where the call starts.
func (s *shell) cwd() string {
	if v := s.vars[cwdName]; len(v) > 0 {
		s.most = max(s.most, len(v))
		return v[s.pick%len(v)].text
	}
	return ""
}

// enter goes to a directory. Where that may not be reached, the one before stays
// possible.
func (s *shell) enter(dir string) {
	if len(s.vars[cwdName]) == 0 {
		s.vars[cwdName] = []data{{}}
	}
	s.assign(cwdName, data{text: dir})
}

func (s *shell) stmt(st *syntax.Stmt, in data) data {
	if st == nil || !s.spend() {
		return unknown(0)
	}
	if s.level >= maxLevel {
		s.unclear("nested too deeply")
		return unknown(0)
	}
	s.level++
	defer func() { s.level-- }()
	if isSimple(st.Cmd) && !s.simple {
		return s.passes(st, in)
	}
	return s.once(st, in)
}

func isSimple(c syntax.Command) bool {
	switch c.(type) {
	case nil, *syntax.CallExpr, *syntax.DeclClause:
		return true
	}
	return false
}

// passes runs a simple command once for each value that a variable in it may
// have. Variables take their values side by side, not in every combination.
func (s *shell) passes(st *syntax.Stmt, in data) data {
	s.simple, s.pick, s.most = true, 0, 1
	out := s.once(st, in)
	for s.pick = 1; s.pick < s.most && s.steps > 0; s.pick++ {
		out = out.then(s.once(st, in))
	}
	s.simple, s.pick = false, 0
	return out
}

// once runs a statement with its redirections.
func (s *shell) once(st *syntax.Stmt, in data) data {
	r := s.redirections(st, in)
	out := s.command(st.Cmd, r)
	for _, target := range r.targets {
		if target.other {
			s.write(target.path, data{}, true)
			continue
		}
		s.write(target.path, out, target.appends)
		out = data{}
	}
	return out
}

func (s *shell) command(c syntax.Command, r redirected) data {
	in := r.in
	switch c := c.(type) {
	case nil:
		return in // `<file` alone, in a substitution
	case *syntax.CallExpr:
		return s.callExpr(c, r)
	case *syntax.DeclClause:
		s.assigns(c.Args)
		if !slices.ContainsFunc(c.Args, func(a *syntax.Assign) bool { return a.Name != nil }) {
			return unknown(fromSecret) // a list of all that is set
		}
	case *syntax.BinaryCmd:
		return s.binary(c, in)
	case *syntax.Block:
		return s.all(c.Stmts, in)
	case *syntax.Subshell:
		return s.apart(func() data { return s.all(c.Stmts, in) })
	case *syntax.IfClause:
		return s.ifClause(c, in)
	case *syntax.WhileClause:
		return s.all(c.Cond, in).then(s.maybe(c.Do, in))
	case *syntax.ForClause:
		return s.loop(c, in)
	case *syntax.CaseClause:
		return s.caseClause(c, in)
	case *syntax.FuncDecl:
		s.declare(c)
	case *syntax.TimeClause:
		return s.stmt(c.Stmt, in)
	case *syntax.CoprocClause:
		return s.stmt(c.Stmt, in)
	default:
		s.arithmetic(c)
	}
	return data{}
}

func (s *shell) binary(c *syntax.BinaryCmd, in data) data {
	if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
		return s.apart(func() data { return s.stmt(c.Y, s.stmt(c.X, in)) })
	}
	return s.stmt(c.X, in).then(s.maybe([]*syntax.Stmt{c.Y}, in))
}

func (s *shell) ifClause(c *syntax.IfClause, in data) data {
	var out data
	for ; c != nil; c = c.Else {
		out = out.then(s.all(c.Cond, in)).then(s.maybe(c.Then, in))
	}
	return out
}

func (s *shell) loop(c *syntax.ForClause, in data) data {
	if it, ok := c.Loop.(*syntax.WordIter); ok {
		s.vars[it.Name.Value] = nil
		s.branch++
		for _, v := range s.words(it.Items) {
			s.assign(it.Name.Value, v)
		}
		s.branch--
	} else {
		s.arithmetic(c.Loop)
	}
	return s.maybe(c.Do, in)
}

func (s *shell) caseClause(c *syntax.CaseClause, in data) data {
	s.value(c.Word)
	var out data
	for _, item := range c.Items {
		out = out.then(s.maybe(item.Stmts, in))
	}
	return out
}

func (s *shell) declare(c *syntax.FuncDecl) {
	if c.Name == nil {
		s.unclear("a function without a name")
		return
	}
	if s.isBomb(c) {
		s.high("fork_bomb")
	}
	if s.branch == 0 && s.called[c.Name.Value] {
		s.funcs[c.Name.Value] = nil
	}
	if have := s.funcs[c.Name.Value]; len(have) < maxValues {
		s.funcs[c.Name.Value] = append(slices.Clip(have), c.Body)
	} else {
		s.unclear("a function with too many bodies")
	}
	delete(s.called, c.Name.Value)
}

// isBomb reports whether a function starts itself in the background or in a pipe.
func (s *shell) isBomb(f *syntax.FuncDecl) bool {
	calls, spreads := 0, false
	syntax.Walk(f.Body, func(n syntax.Node) bool {
		if !s.spend() {
			return false
		}
		switch n := n.(type) {
		case *syntax.CallExpr:
			if len(n.Args) > 0 && n.Args[0].Lit() == f.Name.Value {
				calls++
			}
		case *syntax.BinaryCmd:
			spreads = spreads || n.Op == syntax.Pipe
		case *syntax.Stmt:
			spreads = spreads || n.Background
		}
		return true
	})
	return calls > 0 && spreads
}

// arithmetic runs the substitutions in what is otherwise not followed:
// calculations, tests.
func (s *shell) arithmetic(n syntax.Node) {
	if n == nil {
		return
	}
	syntax.Walk(n, func(n syntax.Node) bool {
		if !s.spend() {
			return false
		}
		switch n := n.(type) {
		case *syntax.CmdSubst:
			s.substitute(n)
			return false
		case *syntax.ProcSubst:
			s.process(n)
			return false
		}
		return true
	})
}

// substitute is $(...).
func (s *shell) substitute(c *syntax.CmdSubst) data {
	out := s.apart(func() data { return s.all(c.Stmts, data{}) })
	return data{strings.TrimRight(out.text, "\n"), out.from}
}

// process is <(...) and >(...): a file. What the inner commands write is in it, or
// what is written into it goes to them.
func (s *shell) process(p *syntax.ProcSubst) data {
	name := "/dev/fd/substitution" + strconv.Itoa(len(s.files)+len(s.sinks))
	out := s.apart(func() data { return s.all(p.Stmts, data{}) })
	if p.Op == syntax.CmdOut {
		s.sinks[name] = p.Stmts
	} else {
		s.files[name] = out
	}
	return known(name)
}
