package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// wellKnown are variables that have a value without being set. ~ stands for the
// home directory everywhere.
func wellKnown(name string) (string, bool) {
	switch name {
	case "HOME":
		return "~", true
	case "PWD":
		return ".", true
	case "OLDPWD":
		return hole, true
	case "IFS":
		return " \t\n", true
	case "TMPDIR":
		return "/tmp", true
	case "SHELL", "BASH", "0":
		return "bash", true
	}
	return "", false
}

// lookup returns the value that a variable has in this pass, and whether it is
// known to have one.
func (s *shell) lookup(name string) (data, bool) {
	if v := s.vars[name]; len(v) > 0 {
		s.most = max(s.most, len(v))
		return v[s.pick%len(v)], true
	}
	if v, ok := s.positional(name); ok {
		return v, true
	}
	if v, ok := wellKnown(name); ok {
		return known(v), true
	}
	return unknown(0), false
}

func (s *shell) variable(name string) data {
	v, _ := s.lookup(name)
	return v
}

// positional is $1 to $9, $@ and $*, where they are known.
func (s *shell) positional(name string) (data, bool) {
	if s.params == nil {
		return data{}, false
	}
	if name == "@" || name == "*" {
		return joined(s.params), true
	}
	if len(name) == 1 && name >= "1" && name <= "9" {
		if i := int(name[0] - '1'); i < len(s.params) {
			return s.params[i], true
		}
		return data{}, true
	}
	return data{}, false
}

// assign gives a variable a value: the one it has from now on, or one more that it
// may have where it is not sure that the assignment is reached.
func (s *shell) assign(name string, v data) {
	if s.branch == 0 && s.pick == 0 {
		s.vars[name] = []data{v}
		return
	}
	have := s.vars[name]
	switch {
	case slices.Contains(have, v):
	case len(have) < maxValues:
		s.vars[name] = append(slices.Clip(have), v)
	default:
		s.unclear("a variable with too many values")
	}
}

// assigns carries out the assignments of a command or declaration.
func (s *shell) assigns(list []*syntax.Assign) {
	for _, a := range list {
		switch {
		case a.Name == nil:
			s.value(a.Value)
		case a.Naked:
		default:
			s.assign(a.Name.Value, s.assigned(a))
		}
	}
}

func (s *shell) assigned(a *syntax.Assign) data {
	if a.Index != nil {
		s.arithmetic(a.Index)
	}
	v := s.value(a.Value)
	if a.Array != nil {
		var words []*syntax.Word
		for _, e := range a.Array.Elems {
			if e.Value != nil {
				words = append(words, e.Value)
			}
		}
		v = joined(s.words(words))
	}
	s.hooked(a.Name.Value, v)
	if !a.Append {
		return v
	}
	old, _ := s.lookup(a.Name.Value)
	if a.Array != nil {
		old = old.then(known(" "))
	}
	return old.then(v)
}

// hooked judges variables whose value other programs run or load.
func (s *shell) hooked(name string, v data) {
	switch name {
	case "PROMPT_COMMAND", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_EDITOR", "PAGER",
		"EDITOR", "VISUAL", "LESSOPEN", "BASH_ENV", "ENV", "GIT_SSH", "GIT_ASKPASS", "SSH_ASKPASS":
		if strings.ContainsAny(v.text, " \t;|&`$(") || v.has(fromNet|fromCode) {
			s.child(v, nil, data{})
		}
	case "LD_PRELOAD", "LD_AUDIT":
		s.medium("preload")
	case "HISTFILE", "HISTSIZE":
		if v.text == "" || v.text == "0" || v.text == "/dev/null" {
			s.medium("hides_traces")
		}
	}
}

// setLines gives variables what is read from a text: any of its lines.
func (s *shell) setLines(names []string, in data) {
	s.branch++
	defer func() { s.branch-- }()
	if in.text == "" {
		in = unknown(in.from)
	}
	for _, name := range names {
		delete(s.vars, name)
		for line := range strings.Lines(in.text) {
			if len(s.vars[name]) < maxValues {
				s.assign(name, data{strings.TrimSpace(line), in.from})
			}
		}
	}
}
