package textfile

import "strings"

// SplitLines returns the lines without their ends, and whether the last one has
// an end. An empty text has no lines.
func SplitLines(text string) (lines []string, ended bool) {
	if text == "" {
		return nil, true
	}
	body, ended := strings.CutSuffix(text, "\n")
	return strings.Split(body, "\n"), ended
}

// LineAt returns the number of the line that holds the byte at offset, from 1.
func LineAt(text string, offset int) int { return 1 + strings.Count(text[:offset], "\n") }
