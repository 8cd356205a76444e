// Package glob matches paths with the patterns of shells and of .gitignore files.
//
// Every pattern becomes a regular expression of the standard library, so that
// matching takes time in proportion to the path, whatever somebody wrote into the
// pattern. Paths are relative, with "/" between names, and may hold any bytes.
// The package does no I/O.
package glob

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxPattern bounds a pattern, in bytes.
const maxPattern = 1000

// Pattern is a compiled pattern. It may be used concurrently.
type Pattern struct {
	re     *regexp.Regexp
	dir    string
	hidden bool
}

// Compile reads a pattern:
//
//   - any characters of one name
//     **       as a whole name: any number of directories, none included
//     ?        one character of a name
//     [a-z]    one of these characters; [!a-z] or [^a-z]: none of them
//     {a,b}    either; braces nest
//     \x       x itself
//
// A pattern without "/" is matched against the last name of a path, at any depth.
// Wildcards do not match the dot that begins a hidden name. The error says what is
// wrong in words a user can act on.
func Compile(pattern string) (*Pattern, error) {
	switch {
	case len(pattern) > maxPattern:
		return nil, fmt.Errorf("the pattern is longer than %d bytes", maxPattern)
	case strings.ContainsRune(pattern, 0):
		return nil, errors.New("the pattern contains a NUL character")
	}
	anchored := strings.Contains(pattern, "/")
	pattern = strings.TrimLeft(strings.TrimPrefix(pattern, "./"), "/")
	if pattern == "" {
		return nil, errors.New("the pattern is empty")
	}
	for name := range strings.SplitSeq(pattern, "/") {
		if name == ".." || name == "." {
			return nil, fmt.Errorf("the pattern contains %q: give the directory apart from the pattern", name)
		}
	}
	full := pattern
	if !anchored {
		full = "**/" + pattern
	}
	re, err := regexp.Compile(translate(full, dialect{braces: true}))
	if err != nil {
		return nil, fmt.Errorf("the pattern cannot be read: %w", err)
	}
	return &Pattern{re: re, dir: literalDir(full), hidden: namesHidden(pattern)}, nil
}

// Match reports whether the pattern matches a whole path.
func (p *Pattern) Match(path string) bool { return p.re.MatchString(path) }

// Dir returns the directory that every match is in, as far as the pattern names
// it without wildcards; "" is the top.
func (p *Pattern) Dir() string { return p.dir }

// Hidden reports whether the pattern names something hidden, so that it can match
// in directories whose names begin with a dot.
func (p *Pattern) Hidden() bool { return p.hidden }

// literalDir returns the leading directories without wildcards.
func literalDir(pattern string) string {
	names := strings.Split(pattern, "/")
	n := 0
	for n < len(names)-1 && names[n] != "" && !strings.ContainsAny(names[n], `*?[{\`) && utf8.ValidString(names[n]) {
		n++
	}
	if strings.Contains(strings.Join(names[:n], "/"), "}") {
		return "" // a brace that spans names
	}
	return strings.Join(names[:n], "/")
}

func namesHidden(pattern string) bool {
	for _, begin := range []string{"/.", "{.", ",.", `\.`} {
		if strings.Contains(pattern, begin) {
			return true
		}
	}
	return strings.HasPrefix(pattern, ".")
}
