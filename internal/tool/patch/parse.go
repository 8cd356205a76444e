package patch

import (
	"fmt"
	"strings"

	"parley/internal/lazyre"
	"parley/internal/tool"
)

// Markers of the format.
const (
	markBegin  = "*** Begin Patch"
	markEnd    = "*** End Patch"
	markAdd    = "*** Add File:"
	markUpdate = "*** Update File:"
	markDelete = "*** Delete File:"
	markMove   = "*** Move to:"
	markEOF    = "*** End of File"
	markHunk   = "@@"
)

// maxSections bounds the files of a patch.
const maxSections = 200

// action is what a section does.
type action string

const (
	actionAdd    action = "add"
	actionUpdate action = "update"
	actionDelete action = "delete"
)

// section is what a patch does with one file.
type section struct {
	action  action
	path    string
	moveTo  string   // actionUpdate; "" = it stays
	content []string // actionAdd: the lines
	hunks   []hunk   // actionUpdate
}

// hunk is a change of lines that belong together.
type hunk struct {
	anchors []string // lines that come before it, in order
	lines   []line
	atEnd   bool // it reaches the end of the file
	number  int  // of the line in the patch where it begins
}

// line is a line of a hunk: context, removed or added.
type line struct {
	kind byte // ' ', '-' or '+'
	text string
	bare bool // context without the space before it: maybe only a gap between sections
}

// parser reads a patch line by line.
type parser struct {
	lines []string
	at    int
}

// parse reads a patch. Errors are for the model (tool.Wrong).
func parse(text string) ([]section, error) {
	p := &parser{lines: unwrap(text)}
	if p.at == len(p.lines) || p.next() != markBegin {
		return nil, tool.Wrong("The patch does not begin with the line %q.", markBegin)
	}
	var sections []section
	for {
		if p.at == len(p.lines) {
			return nil, tool.Wrong("The patch does not end with the line %q.", markEnd)
		}
		mark := strings.TrimSpace(p.next())
		if mark == markEnd {
			break
		}
		if mark == "" {
			continue
		}
		s, err := p.section(mark)
		if err != nil {
			return nil, err
		}
		if sections = append(sections, s); len(sections) > maxSections {
			return nil, tool.Wrong("The patch changes more than %d files: split it.", maxSections)
		}
	}
	switch {
	case strings.TrimSpace(strings.Join(p.lines[p.at:], "")) != "":
		return nil, tool.Wrong("There is text after %q, in line %d of the patch.", markEnd, p.at+1)
	case len(sections) == 0:
		return nil, tool.Wrong("The patch changes nothing. Name a file with %q, %q or %q.", markUpdate, markAdd, markDelete)
	}
	return sections, nil
}

// unwrap returns the lines without what models put around a patch: blank lines, a
// code fence, the line ends of another system.
func unwrap(text string) []string {
	text = strings.TrimSpace(text)
	if strings.Count(text, "\n") == strings.Count(text, "\r\n") {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	lines := strings.Split(text, "\n")
	if len(lines) > 2 && strings.HasPrefix(lines[0], "```") && strings.TrimSpace(lines[len(lines)-1]) == "```" {
		lines = lines[1 : len(lines)-1]
	}
	lines[0] = strings.TrimSpace(lines[0])
	return lines
}

func (p *parser) next() string {
	p.at++
	return p.lines[p.at-1]
}

// peek returns the current line; false if the section ends before it.
func (p *parser) peek() (string, bool) {
	if p.at == len(p.lines) {
		return "", false
	}
	l := p.lines[p.at]
	for _, mark := range []string{markEnd, markAdd, markUpdate, markDelete} {
		if strings.HasPrefix(l, mark) {
			return "", false
		}
	}
	return l, true
}

func (p *parser) section(mark string) (section, error) {
	for _, kind := range []struct {
		mark   string
		action action
		body   func(*section) error
	}{
		{markAdd, actionAdd, p.added}, {markUpdate, actionUpdate, p.updated}, {markDelete, actionDelete, p.deleted},
	} {
		name, ok := strings.CutPrefix(mark, kind.mark)
		if !ok {
			continue
		}
		s := section{action: kind.action, path: strings.TrimSpace(name)}
		if s.path == "" {
			return s, tool.Wrong("Line %d of the patch names no file after %q.", p.at, kind.mark)
		}
		return s, kind.body(&s)
	}
	return section{}, tool.Wrong("Line %d of the patch is %s, where %q, %q, %q or %q must be.",
		p.at, show(mark), markUpdate, markAdd, markDelete, markEnd)
}

// show quotes a line, shortened.
func show(text string) string {
	if len(text) > 80 {
		text = strings.ToValidUTF8(text[:80], "") + "..."
	}
	return fmt.Sprintf("%q", text)
}

// added reads the lines of a new file.
func (p *parser) added(s *section) error {
	gap := 0 // empty lines, which only count if more follows
	for l, ok := p.peek(); ok; l, ok = p.peek() {
		p.at++
		if l == "" {
			gap++
			continue
		}
		text, ok := strings.CutPrefix(l, "+")
		if !ok {
			return tool.Wrong("Line %d of the patch, in the new file %s, does not begin with \"+\".", p.at, s.path)
		}
		for ; gap > 0; gap-- {
			s.content = append(s.content, "")
		}
		s.content = append(s.content, text)
	}
	return nil
}

func (p *parser) deleted(s *section) error {
	for l, ok := p.peek(); ok; l, ok = p.peek() {
		p.at++
		if strings.TrimSpace(l) != "" {
			return tool.Wrong("Line %d of the patch has text after the deletion of %s.", p.at, s.path)
		}
	}
	return nil
}

// updated reads the hunks of a file.
func (p *parser) updated(s *section) error {
	if l, ok := p.peek(); ok && strings.HasPrefix(l, markMove) {
		p.at++
		if s.moveTo = strings.TrimSpace(strings.TrimPrefix(l, markMove)); s.moveTo == "" {
			return tool.Wrong("Line %d of the patch names no file after %q.", p.at, markMove)
		}
	}
	for l, ok := p.peek(); ok; l, ok = p.peek() {
		if strings.TrimSpace(l) == "" && p.gap() {
			p.at++
			continue
		}
		h, err := p.hunk()
		if err != nil {
			return err
		}
		s.hunks = append(s.hunks, h)
	}
	if len(s.hunks) == 0 && s.moveTo == "" {
		return tool.Wrong("The patch says to update %s, but not how: lines with \"-\" and \"+\" are missing.", s.path)
	}
	return nil
}

// gap reports whether only blank lines are left before the next section or hunk.
func (p *parser) gap() bool {
	for i := p.at; i < len(p.lines); i++ {
		if l := p.lines[i]; strings.TrimSpace(l) != "" {
			return strings.HasPrefix(l, "***") || strings.HasPrefix(l, markHunk)
		}
	}
	return true
}

// numbers is the header of a unified diff: its line numbers are ignored, because
// models cannot count.
var numbers = lazyre.MustCompile(`^-\d+(,\d+)? \+\d+(,\d+)? @@.*$`)

// hunk reads anchors and lines.
func (p *parser) hunk() (hunk, error) {
	h := hunk{number: p.at + 1}
	for l, ok := p.peek(); ok && strings.HasPrefix(l, markHunk); l, ok = p.peek() {
		p.at++
		anchor := strings.TrimPrefix(strings.TrimPrefix(l, markHunk), " ")
		if strings.TrimSpace(anchor) != "" && !numbers.MatchString(anchor) {
			h.anchors = append(h.anchors, anchor)
		}
	}
	for l, ok := p.peek(); ok && !strings.HasPrefix(l, markHunk); l, ok = p.peek() {
		p.at++
		if strings.TrimRight(l, " \t") == markEOF {
			h.atEnd = true
			break
		}
		switch {
		case l == "":
			h.lines = append(h.lines, line{kind: ' ', bare: true})
		case l[0] == ' ' || l[0] == '-' || l[0] == '+':
			h.lines = append(h.lines, line{kind: l[0], text: l[1:]})
		case l == `\ No newline at end of file`:
		default:
			return h, tool.Wrong("Line %d of the patch, %s, begins with none of \" \" (context), \"-\" (removed), \"+\" (added) and \"@@\".", p.at, show(l))
		}
	}
	if !h.changes() {
		return h, tool.Wrong("The hunk in line %d of the patch changes nothing: it has no line with \"-\" or \"+\".", h.number)
	}
	return h, nil
}

func (h *hunk) changes() bool {
	for _, l := range h.lines {
		if l.kind != ' ' {
			return true
		}
	}
	return false
}
