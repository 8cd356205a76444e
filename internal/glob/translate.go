package glob

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// dialect is what differs between shells and .gitignore.
type dialect struct {
	braces bool // {a,b} is a choice
	dots   bool // wildcards match the dot of a hidden name
}

// anyName is one whole name of a path.
func (d dialect) anyName() string {
	if d.dots {
		return `[^/]+`
	}
	return `[^./][^/]*`
}

// translator turns one pattern into a regular expression.
type translator struct {
	dialect
	in    string
	at    int
	depth int // open braces
	begin bool
	out   strings.Builder
}

// translate returns the regular expression that matches what pattern matches.
func translate(pattern string, d dialect) string {
	t := &translator{dialect: d, in: pattern, begin: true}
	t.out.WriteString(`^(?s:`)
	for t.at < len(t.in) {
		t.next()
	}
	t.out.WriteString(`)$`)
	return t.out.String()
}

// next translates one element.
func (t *translator) next() {
	c := t.in[t.at]
	begin := t.begin
	t.begin = false
	switch {
	case c == '*':
		t.stars(begin)
	case c == '?':
		t.at++
		t.out.WriteString(t.one(begin))
	case c == '[':
		t.class()
	case c == '/':
		t.at++
		t.begin = true
		t.out.WriteByte('/')
	case c == '{' && t.braces && t.closes():
		t.choice(begin)
	default:
		t.literal()
	}
}

func (t *translator) one(begin bool) string {
	if begin && !t.dots {
		return `[^./]`
	}
	return `[^/]`
}

// stars translates a run of stars: as a whole name two are directories.
func (t *translator) stars(begin bool) {
	run := len(t.in[t.at:]) - len(strings.TrimLeft(t.in[t.at:], "*"))
	t.at += run
	rest := t.in[t.at:]
	whole := begin && run > 1
	switch {
	case whole && strings.HasPrefix(rest, "/"):
		for strings.HasPrefix(rest, "/**/") { // the same again says nothing new
			rest = rest[len("/**"):]
		}
		t.at = len(t.in) - len(rest) + 1
		t.begin = true
		t.out.WriteString(`(?:` + t.anyName() + `/)*`)
	case whole && t.ends(rest):
		t.out.WriteString(`(?:` + t.anyName() + `/)*` + t.anyName())
	case begin && !t.dots && strings.HasPrefix(rest, "."):
		t.out.WriteString(`[^./][^/]*`) // "*.go" is not ".go"
	case begin && !t.dots:
		t.out.WriteString(`(?:[^./][^/]*)?`)
	default:
		t.out.WriteString(`[^/]*`)
	}
}

// ends reports whether rest ends the pattern or the branch of a choice.
func (t *translator) ends(rest string) bool {
	return rest == "" || t.depth > 0 && (rest[0] == ',' || rest[0] == '}')
}

// closes reports whether the brace at the current position has its counterpart.
func (t *translator) closes() bool {
	depth := 0
	for i := t.at; i < len(t.in); i++ {
		switch t.in[i] {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return true
			}
		}
	}
	return false
}

// choice translates {a,b} up to its closing brace.
func (t *translator) choice(begin bool) {
	t.at++
	t.depth++
	t.begin = begin
	t.out.WriteString(`(?:`)
	for t.at < len(t.in) && t.in[t.at] != '}' {
		if t.in[t.at] != ',' {
			t.next()
			continue
		}
		t.at++
		t.begin = begin
		t.out.WriteByte('|')
	}
	t.at++
	t.depth--
	t.out.WriteByte(')')
}

// literal copies one character, which a backslash may protect.
func (t *translator) literal() {
	if t.in[t.at] == '\\' && t.at+1 < len(t.in) {
		t.at++
	}
	r, size := utf8.DecodeRuneInString(t.in[t.at:])
	if r == utf8.RuneError && size == 1 {
		t.out.WriteString(`[^/]`) // no UTF-8: regular expressions cannot name the byte
	} else {
		t.out.WriteString(regexp.QuoteMeta(string(r)))
	}
	t.at += size
}

// class translates [a-z].
func (t *translator) class() {
	body, rest, ok := cutClass(t.in[t.at+1:])
	if !ok {
		t.at++
		t.out.WriteString(t.openClass())
		return
	}
	t.at = len(t.in) - len(rest)
	negated := body[0] == '!' || body[0] == '^'
	if negated {
		body = body[1:]
	}
	t.out.WriteString(classExpression(ranges(body), negated))
}

// openClass is what a bracket without its counterpart means: itself, but git takes
// such a rule for one that matches nothing.
func (t *translator) openClass() string {
	if t.braces {
		return `\[`
	}
	return nothing
}

// nothing matches no character.
const nothing = `[^\x{0}-\x{10ffff}]`

// cutClass separates the inside of a class from what follows it. A bracket that
// comes first, or in [:alpha:], does not end it.
func cutClass(text string) (body, rest string, ok bool) {
	i := 0
	if strings.HasPrefix(text, "!") || strings.HasPrefix(text, "^") {
		i++
	}
	for first := i; i < len(text); i++ {
		switch {
		case text[i] == ']' && i > first:
			return text[:i], text[i+1:], true
		case text[i] == '\\':
			i++
		case strings.HasPrefix(text[i:], "[:"):
			if end := strings.Index(text[i+2:], ":]"); end >= 0 {
				i += 2 + end + 1
			}
		}
	}
	return "", "", false
}

// namedRanges are the classes that have names, as pairs of bounds.
func namedRanges(name string) []rune {
	switch name {
	case "alpha":
		return []rune("AZaz")
	case "digit":
		return []rune("09")
	case "alnum":
		return []rune("09AZaz")
	case "upper":
		return []rune("AZ")
	case "lower":
		return []rune("az")
	case "space":
		return []rune("\t\r  ")
	case "punct":
		return []rune("!/:@[`{~")
	case "xdigit":
		return []rune("09AFaf")
	}
	return nil
}

// ranges reads the inside of a class as pairs of bounds.
func ranges(body string) []rune {
	var pairs []rune
	for body != "" {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(body, "[:"), ":]"); ok && strings.HasPrefix(body, "[:") {
			pairs = append(pairs, namedRanges(name)...)
			body = rest
			continue
		}
		low, rest := member(body)
		body = rest
		high := low
		if strings.HasPrefix(body, "-") && len(body) > 1 {
			high, body = member(body[1:])
		}
		if low <= high {
			pairs = append(pairs, low, high)
		}
	}
	return pairs
}

// member reads one character of a class.
func member(body string) (r rune, rest string) {
	if strings.HasPrefix(body, `\`) && len(body) > 1 {
		body = body[1:]
	}
	r, size := utf8.DecodeRuneInString(body)
	return r, body[size:]
}

// classExpression never matches "/": a class is for one character of a name.
func classExpression(pairs []rune, negated bool) string {
	var b strings.Builder
	add := func(low, high rune) {
		if low <= high {
			fmt.Fprintf(&b, `\x{%x}-\x{%x}`, low, high)
		}
	}
	if negated {
		add('/', '/')
	}
	for i := 0; i < len(pairs); i += 2 {
		if low, high := pairs[i], pairs[i+1]; low <= '/' && '/' <= high {
			add(low, '/'-1)
			add('/'+1, high)
		} else {
			add(low, high)
		}
	}
	switch {
	case b.Len() == 0: // it has no member
		return nothing
	case negated:
		return `[^` + b.String() + `]`
	}
	return `[` + b.String() + `]`
}
