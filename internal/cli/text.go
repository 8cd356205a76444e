package cli

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// cut shortens a line to at most n runes.
func cut(line string, n int) string {
	if len(line) <= n || utf8.RuneCountInString(line) <= n {
		return line
	}
	runes := []rune(line)
	return string(runes[:n]) + "..."
}

// fold keeps the first head and the last tail lines and says how many it left
// out. A single line is never replaced by a note about it.
func fold(lines []string, head, tail int) []string {
	hidden := len(lines) - head - tail
	if hidden < 2 {
		return lines
	}
	out := append([]string{}, lines[:head]...)
	out = append(out, fmt.Sprintf("... %s lines ...", thousands(int64(hidden))))
	return append(out, lines[len(lines)-tail:]...)
}

// thousands writes 1234567 as 1,234,567. n is not negative.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// textLines splits cleaned text into lines without the empty ones at its end.
func textLines(text string) []string {
	text = strings.TrimRight(text, "\n\t ")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
