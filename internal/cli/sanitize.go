package cli

import (
	"fmt"
	"strings"
	"unicode"
)

// Sanitizer makes text safe to print on a terminal: escape sequences are
// removed whole, other control characters are dropped, and characters that
// reorder or hide text are spelled out. Line breaks and tabs stay. Text may come
// in pieces: a sequence that is cut in two is still recognised. The zero value
// is ready.
type Sanitizer struct {
	state state
	cr    bool // the last rune was a carriage return
}

type state uint8

const (
	ground  state = iota
	escape        // after ESC
	csi           // inside a control sequence: ends with a byte from 0x40 to 0x7e
	control       // inside a string (OSC, DCS, ...): ends with BEL or ST
	stringEscape
)

// Clean returns a complete text made safe.
func Clean(text string) string {
	var s Sanitizer
	return s.Write(text)
}

// CleanLine is Clean on one line: line breaks and tabs become spaces.
func CleanLine(text string) string {
	return strings.Join(strings.Fields(Clean(text)), " ")
}

// Write returns the safe form of the next piece.
func (s *Sanitizer) Write(piece string) string {
	var b strings.Builder
	b.Grow(len(piece))
	for _, r := range piece {
		s.rune(&b, r)
	}
	return b.String()
}

func (s *Sanitizer) rune(b *strings.Builder, r rune) {
	// A line break ends any sequence, so that an unfinished one hides at most the
	// rest of its line.
	if r == '\n' {
		s.state = ground
		if !s.cr {
			b.WriteByte('\n')
		}
		s.cr = false
		return
	}
	s.cr = false
	switch s.state {
	case ground:
		s.plain(b, r)
	case escape:
		s.state = afterEscape(r)
	case csi:
		if r >= 0x40 && r <= 0x7e {
			s.state = ground
		}
	case control:
		switch r {
		case 0x1b:
			s.state = stringEscape
		case 0x07, 0x9c:
			s.state = ground
		}
	case stringEscape:
		s.state = control
		if r == '\\' {
			s.state = ground
		}
	}
}

func afterEscape(r rune) state {
	switch {
	case r == '[':
		return csi
	case strings.ContainsRune("]PX^_", r):
		return control
	case r >= 0x20 && r <= 0x2f: // an intermediate byte: one more follows
		return escape
	}
	return ground
}

// plain writes a rune outside of sequences. A lone carriage return would let the
// rest of a line overwrite its beginning: it becomes a line break.
func (s *Sanitizer) plain(b *strings.Builder, r rune) {
	switch {
	case r == '\t':
		b.WriteByte('\t')
	case r == '\r':
		b.WriteByte('\n')
		s.cr = true
	case r == 0x1b:
		s.state = escape
	case r == 0x9b:
		s.state = csi
	case r == 0x90 || r == 0x98 || r == 0x9d || r == 0x9e || r == 0x9f:
		s.state = control
	case r < 0x20 || (r >= 0x7f && r <= 0x9f):
	case deceptive(r):
		fmt.Fprintf(b, "\\u%04x", r)
	default:
		b.WriteRune(r)
	}
}

// deceptive reports the characters that reorder text or take no room: what is
// shown would not be what is there. The joiners that scripts and emoji need are
// not among them.
func deceptive(r rune) bool {
	if r == '\u200c' || r == '\u200d' {
		return false
	}
	return unicode.Is(unicode.Cf, r) && (r < 0xe0020 || r > 0xe007f) || r == '\u2028' || r == '\u2029'
}
