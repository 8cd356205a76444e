// Package lazyre holds regular expressions that are compiled when they are first
// used. A program that compiles all of its expressions at its start pays for them
// in time and memory even where it uses none: every sandbox's first process is
// this program.
//
// It promises what package regexp does. That all expressions can be compiled is a
// test in internal/arch.
package lazyre

import (
	"regexp"
	"sync"
)

// Regexp is an expression; see regexp.Regexp for its methods. It may be used from
// any goroutine.
type Regexp struct{ compiled func() *regexp.Regexp }

// MustCompile returns the expression. Its first use panics if it cannot be compiled.
func MustCompile(expr string) *Regexp {
	return &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
}

// MatchString reports whether s holds a match.
func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }

// FindStringSubmatch returns the leftmost match and its groups, nil if there is none.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }

// FindSubmatch is FindStringSubmatch of bytes.
func (r *Regexp) FindSubmatch(b []byte) [][]byte { return r.compiled().FindSubmatch(b) }

// FindAllString returns up to n matches, all if n < 0.
func (r *Regexp) FindAllString(s string, n int) []string { return r.compiled().FindAllString(s, n) }

// FindAllStringSubmatch returns up to n matches with their groups, all if n < 0.
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compiled().FindAllStringSubmatch(s, n)
}

// ReplaceAllString replaces matches by repl, in which $1 is the first group.
func (r *Regexp) ReplaceAllString(s, repl string) string {
	return r.compiled().ReplaceAllString(s, repl)
}

// ReplaceAllLiteralString replaces matches by repl as it is.
func (r *Regexp) ReplaceAllLiteralString(s, repl string) string {
	return r.compiled().ReplaceAllLiteralString(s, repl)
}

// ReplaceAllStringFunc replaces matches by what repl makes of them.
func (r *Regexp) ReplaceAllStringFunc(s string, repl func(string) string) string {
	return r.compiled().ReplaceAllStringFunc(s, repl)
}

// ReplaceAll is ReplaceAllString of bytes.
func (r *Regexp) ReplaceAll(b, repl []byte) []byte { return r.compiled().ReplaceAll(b, repl) }

// String returns the expression.
func (r *Regexp) String() string { return r.compiled().String() }
