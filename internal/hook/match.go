package hook

import (
	"regexp"
	"strings"
)

// meta are the characters that make a matcher a regular expression.
const meta = `|.*+?[]()^$\`

func (m Matcher) all() bool { return m.Matcher == "" || m.Matcher == "*" }

// matches reports whether a matcher is for a tool (agent protocol 4.9). A matcher
// that cannot be read, which Parse refuses, is for every tool: no guard is lost.
func (m Matcher) matches(tool string) bool {
	if m.all() {
		return true
	}
	pattern, isPattern := m.pattern()
	if !isPattern {
		return m.Matcher == tool
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return true
	}
	// The leftmost-longest match is the whole name if any match is. Anchors around
	// the pattern would not do: it may quote or group them away.
	re.Longest()
	found := re.FindStringIndex(tool)
	return found != nil && found[0] == 0 && found[1] == len(tool)
}

// pattern returns the regular expression of a matcher that is one.
func (m Matcher) pattern() (string, bool) {
	s := m.Matcher
	if len(s) > 2 && s[0] == '/' && s[len(s)-1] == '/' {
		return s[1 : len(s)-1], true
	}
	return s, !m.all() && strings.ContainsAny(s, meta)
}
