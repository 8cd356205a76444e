package glob

import (
	"path"
	"regexp"
	"strings"
)

// maxRules bounds how many rules of one file count: each costs time for every
// path.
const maxRules = 5000

// Ignore are the rules of one .gitignore file. It may be used concurrently.
type Ignore struct{ rules []rule }

// rule is one line.
type rule struct {
	negated bool // "!": what matches is not ignored
	dirOnly bool // "name/"
	name    string
	suffix  string
	re      *regexp.Regexp // of the whole path, or of the name
	byName  bool           // the pattern has no slash: it is about the last name
}

// ParseIgnore reads a .gitignore file. What is no rule is skipped, as git does.
func ParseIgnore(text string) *Ignore {
	ig := &Ignore{}
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		if r, ok := parseRule(strings.TrimRight(line, "\r\n")); ok {
			ig.rules = append(ig.rules, r)
		}
		if len(ig.rules) == maxRules {
			break
		}
	}
	return ig
}

// Len returns how many rules there are.
func (ig *Ignore) Len() int { return len(ig.rules) }

// Match tells what the rules say of a path, relative to the directory of their
// file: decided is false if no rule is about it. Whether one of its directories is
// ignored is for the caller to know, who comes from above.
func (ig *Ignore) Match(rel string, dir bool) (ignored, decided bool) {
	name := path.Base(rel)
	for i := len(ig.rules) - 1; i >= 0; i-- {
		if r := &ig.rules[i]; (dir || !r.dirOnly) && r.match(rel, name) {
			return !r.negated, true
		}
	}
	return false, false
}

func (r *rule) match(rel, name string) bool {
	switch {
	case r.name != "":
		return name == r.name
	case r.suffix != "":
		return strings.HasSuffix(name, r.suffix)
	case r.byName:
		return r.re.MatchString(name)
	}
	return r.re.MatchString(rel)
}

func parseRule(line string) (r rule, ok bool) {
	line = trimSpaces(line)
	if line == "" || line[0] == '#' || len(line) > maxPattern {
		return r, false
	}
	if line, r.negated = strings.CutPrefix(line, "!"); line == "" {
		return r, false
	}
	if line, r.dirOnly = strings.CutSuffix(line, "/"); line == "" || line == `\` {
		return r, false
	}
	r.byName = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	const special = `*?[\`
	star, tail := strings.CutPrefix(line, "*")
	switch {
	case r.byName && !strings.ContainsAny(line, special):
		r.name = line
		return r, true
	case r.byName && tail && star != "" && !strings.ContainsAny(star, special):
		r.suffix = star
		return r, true
	}
	var err error
	r.re, err = regexp.Compile(translate(line, dialect{dots: true}))
	return r, err == nil && line != ""
}

// trimSpaces removes trailing spaces that no backslash protects.
func trimSpaces(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}
