package account

import (
	"errors"
	"strings"
)

// Errors of SplitArgs.
var (
	ErrNoClosingQuotation = errors.New("no closing quotation")
	ErrNoEscapedCharacter = errors.New("no escaped character")
)

// SplitArgs splits a command line into arguments by the quoting rules of the
// POSIX shell, without any expansion.
func SplitArgs(line string) ([]string, error) {
	s := splitter{args: []string{}}
	for _, r := range line {
		s.rune(r)
	}
	switch {
	case s.escaped:
		return nil, ErrNoEscapedCharacter
	case s.quote != 0:
		return nil, ErrNoClosingQuotation
	}
	s.flush()
	return s.args, nil
}

type splitter struct {
	args    []string
	word    strings.Builder
	inWord  bool // a word began; it may be empty, as ""
	quote   rune // the open quotation mark, 0 = none
	escaped bool // the last rune was an active backslash
}

func (s *splitter) rune(r rune) {
	switch {
	case s.escaped:
		s.escape(r)
	case r == '\\' && s.quote != '\'':
		s.escaped, s.inWord = true, true
	case s.quote != 0 && r == s.quote:
		s.quote = 0
	case s.quote == 0 && (r == '\'' || r == '"'):
		s.quote, s.inWord = r, true
	case s.quote == 0 && strings.ContainsRune(" \t\r\n", r):
		s.flush()
	default:
		s.inWord = true
		s.word.WriteRune(r)
	}
}

// escape takes the rune after a backslash. Inside double quotes the backslash
// only escapes the quotation mark and itself.
func (s *splitter) escape(r rune) {
	if s.quote == '"' && r != '"' && r != '\\' {
		s.word.WriteRune('\\')
	}
	s.word.WriteRune(r)
	s.escaped = false
}

func (s *splitter) flush() {
	if s.inWord {
		s.args = append(s.args, s.word.String())
	}
	s.word.Reset()
	s.inWord = false
}
