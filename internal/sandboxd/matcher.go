package sandboxd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

const (
	maxExpression   = 1000     // bytes
	maxProgram      = 2000     // instructions, each of which every byte may have to pass
	matchBlock      = 64 << 10 // bytes read at a time
	maxMatchLine    = 1 << 20  // bytes; of a longer line pieces are looked at
	matchOverlap    = 4 << 10  // bytes that pieces of a line have in common
	binaryLookahead = 8 << 10  // bytes in which a NUL means that a file is binary
)

// matcher finds a line that matches an expression, in time proportional to the
// text and with bounded memory. It is for one goroutine.
type matcher struct {
	re      *regexp.Regexp
	literal []byte // lower case; text without it cannot match; empty = unknown
	buf     []byte // of the file before, to be used again
}

// newMatcher compiles an expression so that it ignores case and never matches
// across lines: a block of lines can then be searched at once.
func newMatcher(expression string) (*matcher, error) {
	if len(expression) > maxExpression {
		return nil, invalid("The expression is longer than %d bytes.", maxExpression)
	}
	tree, err := syntax.Parse(expression, syntax.Perl&^syntax.OneLine|syntax.FoldCase)
	var wrong *syntax.Error
	if errors.As(err, &wrong) {
		return nil, invalid("The expression %q cannot be read: %s: %s. The syntax is RE2's, without look-around and back references.",
			expression, wrong.Code, wrong.Expr)
	}
	if err != nil {
		return nil, invalid("The expression %q cannot be read.", expression)
	}
	if !oneLine(tree) {
		return nil, invalid("The expression %q asks for a line break; only text inside one line can be found.", expression)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		return nil, invalid("The expression is too complex: its repetitions make it too large. Search for less.")
	}
	re, err := regexp.Compile(tree.String())
	if err != nil {
		return nil, invalid("The expression %q cannot be used.", expression)
	}
	return &matcher{re: re, literal: []byte(required(tree))}, nil
}

// oneLine takes line breaks out of everything that could match one. False: the
// expression names a line break itself.
func oneLine(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpAnyChar:
		re.Op = syntax.OpAnyCharNotNL
	case syntax.OpBeginText:
		re.Op = syntax.OpBeginLine
	case syntax.OpEndText:
		re.Op = syntax.OpEndLine
	case syntax.OpCharClass:
		re.Rune = without(re.Rune, '\n')
		return len(re.Rune) > 0
	case syntax.OpLiteral:
		return !strings.ContainsRune(string(re.Rune), '\n')
	}
	for _, sub := range re.Sub {
		if !oneLine(sub) {
			return false
		}
	}
	return true
}

// without removes a character from pairs of bounds.
func without(pairs []rune, r rune) []rune {
	var out []rune
	for i := 0; i < len(pairs); i += 2 {
		low, high := pairs[i], pairs[i+1]
		if r < low || high < r {
			out = append(out, low, high)
			continue
		}
		if low < r {
			out = append(out, low, r-1)
		}
		if r < high {
			out = append(out, r+1, high)
		}
	}
	return out
}

// required returns the longest text, in lower case, that every match contains.
func required(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		return plainPart(re.Rune)
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		best := ""
		for _, sub := range re.Sub {
			if text := required(sub); len(text) > len(best) {
				best = text
			}
		}
		return best
	}
	return ""
}

// plainPart returns the longest part of a literal whose letters have no other case
// than the ASCII ones: k and s are also the Kelvin sign and the long s.
func plainPart(literal []rune) string {
	best, part := "", ""
	for _, r := range literal {
		r = unicode.ToLower(r)
		if r > unicode.MaxASCII || r == 'k' || r == 's' {
			part = ""
			continue
		}
		if part += string(r); len(part) > len(best) {
			best = part
		}
	}
	return best
}

// inFile reports whether a line of a text file matches. Binary files have none.
func (m *matcher) inFile(ctx context.Context, path string) (bool, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	return m.inText(ctx, file)
}

// inText reads block by block. What follows the last line break waits for more.
func (m *matcher) inText(ctx context.Context, r io.Reader) (bool, error) {
	if cap(m.buf) == 0 {
		m.buf = make([]byte, 0, 2*matchBlock)
	}
	buf := m.buf[:0]
	defer func() { m.buf = buf }()
	for first := true; ctx.Err() == nil; first = false {
		if cap(buf)-len(buf) < matchBlock {
			grown := make([]byte, len(buf), 2*cap(buf))
			copy(grown, buf)
			buf = grown
		}
		n, err := io.ReadFull(r, buf[len(buf):len(buf)+matchBlock])
		buf = buf[:len(buf)+n]
		ended := err == io.EOF || err == io.ErrUnexpectedEOF
		switch {
		case err != nil && !ended:
			return false, err
		case first && bytes.IndexByte(buf[:min(len(buf), binaryLookahead)], 0) >= 0:
			return false, nil
		}
		whole, rest, ok := split(buf, ended)
		if ok && m.inLines(whole) {
			return true, nil
		}
		if ended {
			return false, nil
		}
		buf = buf[:copy(buf, rest)]
	}
	return false, context.Cause(ctx)
}

// split separates whole lines, without their last line break, from the beginning
// of the next one; ok is false if there is none yet. Of a line that is too long, a
// piece counts as whole.
func split(buf []byte, ended bool) (whole, rest []byte, ok bool) {
	if ended {
		return bytes.TrimSuffix(buf, []byte("\n")), nil, len(buf) > 0
	}
	if i := bytes.LastIndexByte(buf, '\n'); i >= 0 {
		return buf[:i], buf[i+1:], true
	}
	if len(buf) < maxMatchLine {
		return nil, buf, false
	}
	return buf, buf[len(buf)-matchOverlap:], true
}

func (m *matcher) inLines(text []byte) bool {
	if !containsFold(text, m.literal) {
		return false
	}
	text = bytes.TrimSuffix(text, []byte("\r"))
	if bytes.Contains(text, []byte("\r\n")) { // "$" is before the whole line end
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	}
	return m.re.Match(text)
}

// containsFold finds lower in text, ASCII case ignored.
func containsFold(text, lower []byte) bool {
	if len(lower) == 0 {
		return true
	}
	const piece = 4 << 10
	var folded [piece]byte
	for len(text) >= len(lower) {
		n := min(len(text), piece)
		for i, c := range text[:n] {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			folded[i] = c
		}
		if bytes.Contains(folded[:n], lower) {
			return true
		}
		if n == len(text) {
			return false
		}
		text = text[n-len(lower)+1:]
	}
	return false
}
