package patch

import (
	"fmt"
	"slices"
	"strings"

	"parley/internal/tool"
	"parley/internal/tool/textfile"
)

// What it costs to find lines that are not exactly those of the patch.
const (
	fuzzEnd    = 1      // white space at the ends of lines
	fuzzSpaces = 100    // white space at both sides of lines
	fuzzNotEOF = 10_000 // not at the end of the file, where the patch says
)

// change replaces lines [from, to) of a file.
type change struct {
	from, to int
	lines    []string
}

// target is a file that hunks are applied to.
type target struct {
	path  string
	lines []string
	floor int // hunks come in order: what is before it was changed or passed
	fuzz  int
	work  int // lines compared
}

// maxWork bounds the lines compared for one file: lines that are all the same take
// the product of two lengths.
const maxWork = 20_000_000

// applyHunks returns the text with all hunks applied, and the fuzz it took.
func applyHunks(path, text string, hunks []hunk) (string, int, error) {
	lines, ended := textfile.SplitLines(text)
	t := &target{path: path, lines: lines}
	var changes []change
	for i := range hunks {
		more, err := t.apply(hunks[i:])
		if err != nil {
			return "", 0, err
		}
		changes = append(changes, more...)
	}
	var out []string
	at := 0
	for _, c := range changes {
		out = append(append(out, lines[at:c.from]...), c.lines...)
		at = c.to
	}
	out = append(out, lines[at:]...)
	result := strings.Join(out, "\n")
	if len(out) > 0 && (ended || len(lines) == 0) {
		result += "\n"
	}
	return result, t.fuzz, nil
}

// apply applies the first of the hunks that are left.
func (t *target) apply(left []hunk) ([]change, error) {
	h := left[0]
	anchored, err := t.anchor(h)
	if err != nil {
		return nil, err
	}
	old := h.old()
	at, ok, err := t.locate(left, old, anchored)
	for n := len(old); err == nil && !ok && h.trimGap() && n > 0; n-- {
		old = h.old()
		at, ok, err = t.locate(left, old, anchored)
	}
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, t.notFound(left[0], old)
	}
	return t.place(h, at), nil
}

// old returns the lines that the hunk expects.
func (h *hunk) old() []string {
	var old []string
	for _, l := range h.lines {
		if l.kind != '+' {
			old = append(old, l.text)
		}
	}
	return old
}

// trimGap removes an empty line from the end that may only be a gap in the patch.
func (h *hunk) trimGap() bool {
	last := len(h.lines) - 1
	if last < 0 || !h.lines[last].bare {
		return false
	}
	h.lines = h.lines[:last]
	return true
}

// anchor moves to behind the anchors of a hunk. One that was passed already holds
// for what follows as well.
func (t *target) anchor(h hunk) (bool, error) {
	at := t.floor
	for _, anchor := range h.anchors {
		found, fuzz, ok := t.seek(t.lines, []string{anchor}, at)
		if ok {
			at = found + 1
			t.fuzz += fuzz
			continue
		}
		if _, _, passed := t.seek(t.lines[:at], []string{anchor}, 0); !passed {
			return false, tool.Wrong("The line after \"@@\" in line %d of the patch, %s, was not found in %s.%s",
				h.number, show(anchor), t.path, textfile.Hint(strings.Join(t.lines, "\n"), anchor))
		}
	}
	t.floor = at
	return len(h.anchors) > 0, nil
}

// locate finds where the first hunk's old lines are.
func (t *target) locate(left []hunk, old []string, anchored bool) (at int, ok bool, err error) {
	h := left[0]
	if len(old) == 0 {
		if anchored {
			return t.floor, true, nil
		}
		return len(t.lines), true, nil
	}
	if at = len(t.lines) - len(old); h.atEnd && at >= t.floor {
		if fuzz, ok := t.matches(t.lines[at:], old); ok {
			t.fuzz += fuzz
			return at, true, nil
		}
	}
	at, fuzz, ok := t.seek(t.lines, old, t.floor)
	if !ok && anchored && t.floor > 0 && sameLine(t.lines[t.floor-1], old[0]) { // the anchor is repeated as context
		t.floor--
		at, fuzz, ok = t.seek(t.lines, old, t.floor)
	}
	if !ok {
		return 0, false, nil
	}
	if !anchored && !h.atEnd {
		if err := t.unique(left, old, at, fuzz); err != nil {
			return 0, false, err
		}
	}
	if h.atEnd {
		fuzz += fuzzNotEOF
	}
	t.fuzz += fuzz
	return at, true, nil
}

// unique refuses a hunk that fits in more places than there are hunks like it: the
// first is as likely the wrong one.
func (t *target) unique(left []hunk, old []string, first, fuzz int) error {
	alike := 1
	for i := range left[1:] {
		if slices.Equal(left[1+i].old(), old) {
			alike++
		}
	}
	var places []string
	for at := first; at+len(old) <= len(t.lines) && len(places) < 20; at++ {
		if cost, ok := t.matches(t.lines[at:], old); ok && cost == fuzz {
			places = append(places, fmt.Sprint(at+1))
		}
	}
	if len(places) <= alike {
		return nil
	}
	return tool.Wrong("The hunk in line %d of the patch fits %s in several places, at lines %s. Add lines around it, or \"@@\" with a line before it.",
		left[0].number, t.path, strings.Join(places, ", "))
}

func (t *target) notFound(h hunk, old []string) error {
	if t.work > maxWork {
		return tool.Wrong("%s is too large and too repetitive to find the hunk in line %d of the patch in it. Use the terminal.", t.path, h.number)
	}
	where := "in"
	if t.floor > 0 {
		where = fmt.Sprintf("after line %d of", t.floor)
	}
	rest := strings.Join(old, "\n")
	hint := textfile.Hint(strings.Join(t.lines, "\n"), rest)
	return tool.Wrong("The lines of the hunk in line %d of the patch were not found %s %s.%s View the file and copy its lines exactly.",
		h.number, where, t.path, hint)
}

// place turns a hunk that is at a line into changes. Context stays as the file has
// it.
func (t *target) place(h hunk, at int) []change {
	var changes []change
	next := func() *change {
		if n := len(changes); n > 0 && changes[n-1].to == at {
			return &changes[n-1]
		}
		changes = append(changes, change{from: at, to: at})
		return &changes[len(changes)-1]
	}
	for _, l := range h.lines {
		switch l.kind {
		case ' ':
			at++
			continue
		case '-':
			c := next()
			at++
			c.to = at
		case '+':
			c := next()
			c.lines = append(c.lines, l.text+t.ending(at, l.text))
		}
		t.floor = at
	}
	return changes
}

// ending returns the carriage return that the lines around have, in a file that
// mixes line ends.
func (t *target) ending(at int, text string) string {
	near := ""
	if at > 0 {
		near = t.lines[at-1]
	} else if len(t.lines) > 0 {
		near = t.lines[0]
	}
	if strings.HasSuffix(near, "\r") && !strings.HasSuffix(text, "\r") {
		return "\r"
	}
	return ""
}

// seek finds old at or after from: exactly if possible, then with less and less
// regard for white space.
func (t *target) seek(lines, old []string, from int) (at, fuzz int, ok bool) {
	best, place := -1, 0
	for i := from; i+len(old) <= len(lines); i++ {
		cost, ok := t.matches(lines[i:], old)
		if ok && (best < 0 || cost < best) {
			best, place = cost, i
		}
		if best == 0 {
			break
		}
	}
	return place, max(best, 0), best >= 0
}

// matches compares the beginning of lines with old.
func (t *target) matches(lines, old []string) (fuzz int, ok bool) {
	for i, want := range old {
		if t.work++; t.work > maxWork {
			return 0, false
		}
		have := strings.TrimSuffix(lines[i], "\r")
		want = strings.TrimSuffix(want, "\r")
		switch {
		case have == want:
		case strings.TrimRight(have, " \t") == strings.TrimRight(want, " \t"):
			fuzz = max(fuzz, fuzzEnd)
		case strings.TrimSpace(have) == strings.TrimSpace(want):
			fuzz = max(fuzz, fuzzSpaces)
		default:
			return 0, false
		}
	}
	return fuzz, true
}

func sameLine(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }
