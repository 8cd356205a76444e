package textfile

import (
	"fmt"
	"strings"
)

// Bounds of a search for what is similar: it is for an error's text.
const (
	maxNearLines = 20     // of what is looked for
	maxFileLines = 50_000 // of the file
	maxNearLine  = 200    // bytes of a line that are compared
	maxNearText  = 1500   // bytes of lines that are shown
	leastAlike   = 0.6    // below that, it is something else
)

// Range are lines of a text, from 1.
type Range struct {
	First, Last int
	Spaces      bool // they differ in white space only
}

// Nearest finds the lines that are most like want, for somebody who looked for want
// and did not find it. False: nothing is alike.
func Nearest(lines, want []string) (Range, bool) {
	for len(want) > 1 && strings.TrimSpace(want[0]) == "" {
		want = want[1:]
	}
	for len(want) > 1 && strings.TrimSpace(want[len(want)-1]) == "" {
		want = want[:len(want)-1]
	}
	if strings.TrimSpace(strings.Join(want, "")) == "" {
		return Range{}, false
	}
	have, looked := squeeze(lines, maxFileLines), squeeze(want, maxNearLines)
	best, at := 0.0, 0
	for i := 0; i+len(looked) <= len(have); i++ {
		if score := alike(have[i:], looked, best); score > best {
			best, at = score, i
		}
	}
	if best < leastAlike {
		return Range{}, false
	}
	return Range{First: at + 1, Last: min(at+len(want), len(lines)), Spaces: best >= 1 && len(want) <= maxNearLines}, true
}

// squeeze returns at most n lines without the white space that is so often wrong.
func squeeze(lines []string, n int) []string {
	out := make([]string, min(len(lines), n))
	for i := range out {
		line := strings.Join(strings.Fields(lines[i][:min(len(lines[i]), 2*maxNearLine)]), " ")
		out[i] = line[:min(len(line), maxNearLine)]
	}
	return out
}

// alike compares line by line: 1 is the same. It gives up on what cannot be better
// than best.
func alike(have, want []string, best float64) float64 {
	sum := 0.0
	for i := range want {
		sum += likeness(have[i], want[i])
		if (sum+float64(len(want)-1-i))/float64(len(want)) <= best {
			return 0
		}
	}
	return sum / float64(len(want))
}

// likeness is the share of two lines that their beginnings and ends have in common.
func likeness(a, b string) float64 {
	switch {
	case a == b:
		return 1
	case a == "" || b == "":
		return 0
	}
	front := 0
	for front < min(len(a), len(b)) && a[front] == b[front] {
		front++
	}
	back := 0
	for back < min(len(a), len(b))-front && a[len(a)-1-back] == b[len(b)-1-back] {
		back++
	}
	return float64(2*(front+back)) / float64(len(a)+len(b)) * 0.99
}

// Hint says where the lines are that are most like want, and shows them; "" if
// nothing is alike.
func Hint(text, want string) string {
	lines, _ := SplitLines(text)
	looked, _ := SplitLines(want)
	r, ok := Nearest(lines, looked)
	if !ok {
		return ""
	}
	what := "are the nearest match"
	if r.Spaces {
		what = "differ from it only in white space"
	}
	return fmt.Sprintf(" Lines %d to %d %s:\n%s", r.First, r.Last, what, numbered(lines, r))
}

// numbered shows lines with their numbers, as many as fit.
func numbered(lines []string, r Range) string {
	var b strings.Builder
	for i := r.First; i <= r.Last; i++ {
		line := strings.TrimSuffix(lines[i-1], "\r")
		if b.Len()+min(len(line), maxNearLine) > maxNearText {
			b.WriteString("[...]\n")
			break
		}
		if len(line) > maxNearLine {
			line = strings.ToValidUTF8(line[:maxNearLine], "") + " [...]"
		}
		fmt.Fprintf(&b, "%6d\t%s\n", i, line)
	}
	return b.String()
}
