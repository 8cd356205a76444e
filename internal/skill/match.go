package skill

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"unicode"
)

// Activation is a skill that something called for.
type Activation struct {
	Skill   Skill
	Trigger string // the keyword, or the pattern of the path, as the skill has it
}

// maxActivations bounds what one text or path brings in.
const maxActivations = 20

// Match returns the skills whose triggers a text contains, each once and in the
// order of skills, with the first of its triggers that is there (agent protocol
// 4.10). used tells which were activated before and are left out; nil = none.
//
// Case does not matter, and any white space is as good as one space. A trigger is
// a whole word: "git" is not in "digits", but in "git's" and between Chinese
// characters, because in a script without spaces nothing else ends a word. "c++" is
// not in "c+++", and "/review", a command, stands where a word could begin: not in
// "src/review" or "/review-all". The time is linear in the text; triggers of more
// than 200 bytes never match, and after 20 skills it is enough.
func Match(skills []Skill, text string, used func(name string) bool) []Activation {
	m := newMatcher()
	done := map[string]bool{}
	for i, s := range skills {
		if len(s.Triggers) == 0 || done[s.Name] || used != nil && used(s.Name) {
			continue
		}
		done[s.Name] = true
		for j, trigger := range s.Triggers {
			m.add(trigger, found{skill: i, trigger: j})
		}
	}
	var out []Activation
	for _, hit := range m.scan(fold(text)) {
		s := skills[hit.skill]
		if n := len(out); n > 0 && out[n-1].Skill.Name == s.Name {
			continue
		} else if n == maxActivations {
			break
		}
		out = append(out, Activation{Skill: s, Trigger: s.Triggers[hit.trigger]})
	}
	return out
}

// MatchPath returns the skills whose patterns match a path, each once and in the
// order of skills. file is relative to the workspace; one that leads out of it
// matches nothing. Patterns are those of package glob, except that wildcards match
// hidden names too. used and the bound are as in Match.
func MatchPath(skills []Skill, file string, used func(name string) bool) []Activation {
	if file = path.Clean(file); file == "." || path.IsAbs(file) || file == ".." || strings.HasPrefix(file, "../") {
		return nil
	}
	var out []Activation
	done := map[string]bool{}
	for _, s := range skills {
		if len(out) == maxActivations {
			break
		}
		if len(s.Paths) == 0 || done[s.Name] || used != nil && used(s.Name) {
			continue
		}
		done[s.Name] = true
		if i := slices.IndexFunc(s.Paths, func(pattern string) bool { return matchPath(pattern, file) }); i >= 0 {
			out = append(out, Activation{Skill: s, Trigger: s.Paths[i]})
		}
	}
	return out
}

func matchPath(pattern, file string) bool {
	p, err := compile(pattern)
	if err != nil {
		return false
	}
	if p.Match(file) {
		return true
	}
	// Below the directories that the pattern names, ".x" is a name like any other:
	// a NUL, which no pattern can have, takes the place of its dot.
	head, rest, ok := "", file, true
	if dir := p.Dir(); dir != "" {
		head = dir + "/"
		rest, ok = strings.CutPrefix(file, head)
	}
	rest = strings.ReplaceAll("/"+rest, "/.", "/\x00")[1:]
	return ok && p.Match(head+rest)
}

// found is where a trigger comes from.
type found struct{ skill, trigger int }

// pattern is a trigger as it is searched for.
type pattern struct {
	length  int  // runes
	command bool // begins with a slash
	owners  []found
	hit     bool
}

// state is a node of the matcher: a text that one of the triggers begins with.
type state struct {
	fail   int // the longest proper end of the text that is a state too
	output int // the nearest state with a pattern, along fail and from here; 0 = none
	next   int // of output, the one after it
	own    *pattern
}

type edge struct {
	from int
	char rune
}

// matcher finds many triggers in one pass (Aho-Corasick). State 0 is the root.
type matcher struct {
	states []state
	edges  map[edge]int
	order  []edge // of the edges, as they were made
	root   [128]int
	open   int // patterns that were not hit
}

func newMatcher() *matcher { return &matcher{states: make([]state, 1), edges: map[edge]int{}} }

func (m *matcher) add(trigger string, owner found) {
	runes := fold(trigger)
	if len(runes) == 0 || len(trigger) > maxTrigger {
		return
	}
	at := 0
	for _, c := range runes {
		e := edge{at, c}
		next, ok := m.edges[e]
		if !ok {
			next = len(m.states)
			m.states = append(m.states, state{})
			m.edges[e] = next
			m.order = append(m.order, e)
			if at == 0 && c < 128 {
				m.root[c] = next
			}
		}
		at = next
	}
	if m.states[at].own == nil {
		m.states[at].own = &pattern{length: len(runes), command: runes[0] == '/'}
		m.open++
	}
	m.states[at].own.owners = append(m.states[at].own.owners, owner)
}

// link fills the fail and output links, shorter texts first.
func (m *matcher) link() {
	depth := make([]int, len(m.states))
	for _, e := range m.order { // an edge is made after the one it begins at
		depth[m.edges[e]] = depth[e.from] + 1
	}
	slices.SortStableFunc(m.order, func(a, b edge) int { return depth[a.from] - depth[b.from] })
	for _, e := range m.order {
		at := m.edges[e]
		s := &m.states[at]
		if e.from != 0 {
			s.fail = m.step(m.states[e.from].fail, e.char)
		}
		s.output = m.states[s.fail].output
		if s.own != nil {
			s.next, s.output = s.output, at
		}
	}
}

// step goes on from a state with a character.
func (m *matcher) step(at int, c rune) int {
	for at != 0 {
		if next, ok := m.edges[edge{at, c}]; ok {
			return next
		}
		at = m.states[at].fail
	}
	if c < 128 {
		return m.root[c]
	}
	return m.edges[edge{0, c}]
}

// scan returns what was found, by skill and trigger.
func (m *matcher) scan(text []rune) []found {
	m.link()
	starts := startsOf(text)
	var out []found
	for i, at := 0, 0; i < len(text) && m.open > 0; i++ {
		at = m.step(at, text[i])
		after := ' '
		if i+1 < len(text) {
			after = text[i+1]
		}
		if m.states[at].output == 0 || !mayFollow(after, text[i]) {
			continue
		}
		goesOn := after == '-' || after == '/' // a command's name can
		for o := m.states[at].output; o != 0; o = m.states[o].next {
			p := m.states[o].own
			if !p.hit && starts[i+1-p.length] && !(p.command && goesOn) {
				p.hit = true
				m.open--
				out = append(out, p.owners...)
			}
		}
	}
	slices.SortFunc(out, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.skill, b.skill), cmp.Compare(a.trigger, b.trigger))
	})
	return out
}

// startsOf tells where in a text a trigger may begin.
func startsOf(text []rune) []bool {
	out := make([]bool, len(text))
	before := ' '
	for i, r := range text {
		out[i] = mayPrecede(before, r)
		before = r
	}
	return out
}

// mayPrecede: a word begins where no other one goes on; what begins with a sign
// does so after a space, or after what opens something.
func mayPrecede(before, first rune) bool {
	switch classOf(first) {
	case charWord:
		return classOf(before) != charWord
	case charSign:
		return before == ' ' || classOf(before) == charUnspaced || unicode.In(before, unicode.Ps, unicode.Pi) ||
			strings.ContainsRune("\"'`*,;:", before)
	}
	return true
}

// mayFollow: a word ends where it does not go on, nor does what ends with a sign.
func mayFollow(after, last rune) bool {
	switch classOf(last) {
	case charWord:
		return classOf(after) != charWord
	case charSign:
		return classOf(after) != charWord && after != last
	}
	return true
}

// The classes of characters.
const (
	charSign     = iota
	charWord     // letters, digits, marks and "_" where spaces are between words
	charUnspaced // letters of scripts without such spaces, or that join words to others
)

func classOf(r rune) int {
	switch {
	case r < 128:
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z' {
			return charWord
		}
		return charSign
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tibetan):
		return charUnspaced
	case unicode.In(r, unicode.L, unicode.M, unicode.N):
		return charWord
	}
	return charSign
}

// fold returns a text without the difference of case, with one space for any white
// space, none at its ends.
func fold(text string) []rune {
	out := make([]rune, 0, len(text))
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			if n := len(out); n > 0 && out[n-1] != ' ' {
				out = append(out, ' ')
			}
			continue
		case r < 128 && 'A' <= r && r <= 'Z':
			r |= 0x20
		case r >= 128:
			r = unicode.ToLower(unicode.ToUpper(r))
		}
		out = append(out, r)
	}
	if n := len(out); n > 0 && out[n-1] == ' ' {
		out = out[:n-1]
	}
	return out
}
