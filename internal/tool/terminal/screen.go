package terminal

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The size of the terminal. Wide, so that programs do not wrap or cut their
// lines; of ordinary height, so that a full-screen program stays readable.
const (
	rows = 50
	cols = 200
	// maxCol bounds cursor movement: a line longer than the terminal is kept whole,
	// but a sequence must not conjure up a line of a billion spaces.
	maxCol = 4 * cols
	// maxPadding bounds the spaces that sequences conjure up in all.
	maxPadding = 2 << 20
)

// cleanText turns a terminal's raw output into text: sequences are interpreted or
// dropped, overwritten progress bars show their last state, what is not UTF-8 is
// replaced.
func cleanText(raw []byte) string {
	text, _ := render(nil, raw)
	return text
}

// render is cleanText on a screen that already shows something, nil for an empty
// one, which it may change. It returns the screen as it is then if a program has
// drawn on it: the next output changes that drawing.
func render(base *screen, raw []byte) (string, *screen) {
	if base == nil && plain(raw) {
		return strings.ToValidUTF8(string(bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n"))), "\ufffd"), nil
	}
	if base == nil {
		base = &screen{}
	}
	base.write(raw)
	text := base.text()
	if !base.second && (!base.painted || base.top > 0) {
		return text, nil
	}
	return text, base
}

// plain tells that raw needs no interpretation.
func plain(raw []byte) bool {
	for i, c := range raw {
		switch {
		case c >= 0x20 && c != 0x7f && c != 0xc2: // 0xc2 may begin a C1 control
		case c == '\n' || c == '\t':
		case c == '\r' && i+1 < len(raw) && raw[i+1] == '\n':
		default:
			return false
		}
	}
	return true
}

// screen follows a cursor over lines: the last rows of them are the screen, the
// ones above have scrolled off and do not change any more.
type screen struct {
	done     strings.Builder // lines that were scrolled off
	lines    [][]rune        // nil: never written
	top      int             // index of the screen's first line
	row, col int             // row is an index into lines, which may not exist yet
	padding  int             // spaces made so far
	searched bool            // stringLength searched in vain,
	endless  int             // up to so many bytes before the input's end
	savedRow int             // relative to top
	savedCol int
	// A program that addresses the screen and then writes has painted it: what is
	// there is a drawing, not lines that were printed.
	addressed, painted bool
	second             bool // the second screen is shown
}

func (s *screen) write(raw []byte) {
	for len(raw) > 0 {
		c := raw[0]
		switch {
		case c == 0x1b:
			raw = raw[s.escape(raw):]
		case c < 0x20 || c == 0x7f:
			s.control(c)
			raw = raw[1:]
		default:
			r, size := utf8.DecodeRune(raw)
			if r < 0x80 || r > 0x9f {
				s.put(r)
			}
			raw = raw[size:]
		}
	}
}

func (s *screen) control(c byte) {
	switch c {
	case '\n', '\v', '\f':
		s.newline()
	case '\r':
		s.col = 0
	case '\b':
		s.col = max(0, s.col-1)
	case '\t':
		s.put('\t')
	}
}

func (s *screen) newline() {
	s.line() // an empty line is a line
	s.row++
	s.col = 0
	if s.row >= s.top+rows {
		s.top = s.row - rows + 1
		s.flush()
	}
}

// flush moves lines that cannot change any more out of the way, many at a time.
func (s *screen) flush() {
	if s.top < 4*rows {
		return
	}
	s.emit(s.lines[:min(s.top, len(s.lines))])
	s.lines = append([][]rune(nil), s.lines[min(s.top, len(s.lines)):]...)
	s.row -= s.top
	s.top = 0
}

// emit writes lines out. Lines that were never written are holes of a drawing.
func (s *screen) emit(lines [][]rune) {
	for _, line := range lines {
		if line != nil {
			s.done.WriteString(strings.TrimRight(string(line), " "))
			s.done.WriteByte('\n')
		}
	}
}

// line returns the cursor's line and makes it if needed.
func (s *screen) line() *[]rune {
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, nil)
	}
	l := &s.lines[s.row]
	if *l == nil {
		*l = make([]rune, 0, 16)
	}
	return l
}

func (s *screen) put(r rune) {
	s.painted = s.painted || s.addressed
	l := s.line()
	if s.col > len(*l) {
		*l = append(*l, s.blanks(s.col-len(*l))...)
		s.col = len(*l)
	}
	if s.col < len(*l) {
		(*l)[s.col] = r
	} else {
		*l = append(*l, r)
	}
	s.col++
}

// blanks makes n spaces, or none once there were too many.
func (s *screen) blanks(n int) []rune {
	if s.padding += n; s.padding > maxPadding {
		return nil
	}
	return []rune(strings.Repeat(" ", n))
}

// text returns everything, without the line end after the last line. What was
// scrolled off is forgotten then.
func (s *screen) text() string {
	s.emit(s.lines)
	text := s.done.String()
	s.done.Reset()
	s.padding = 0
	s.lines = slices.Clone(s.lines[min(s.top, len(s.lines)):])
	s.row, s.top = s.row-s.top, 0
	if s.col == 0 { // the cursor stands on a fresh line
		return text
	}
	return strings.TrimSuffix(text, "\n")
}

// maxString bounds a sequence that carries a text (title, clipboard, graphics).
const maxString = 64 << 10

// escape interprets the sequence at the beginning of raw and returns its length.
func (s *screen) escape(raw []byte) int {
	if len(raw) < 2 {
		return len(raw)
	}
	switch c := raw[1]; {
	case c == '[':
		return s.csi(raw)
	case c == ']' || c == 'P' || c == '_' || c == '^' || c == 'X':
		return s.stringLength(raw)
	case c >= 0x20 && c <= 0x2f: // intermediates: charsets and the like
		n := 2
		for n < len(raw) && raw[n] >= 0x20 && raw[n] <= 0x2f {
			n++
		}
		return min(n+1, len(raw))
	case c == '7':
		s.save()
	case c == '8':
		s.restore()
	case c == 'M':
		s.row = max(s.top, s.row-1)
	case c < 0x20 || c >= 0x7f: // not a sequence
		return 1
	}
	return 2
}

func (s *screen) save()    { s.savedRow, s.savedCol = s.row-s.top, s.col }
func (s *screen) restore() { s.row, s.col = s.top+s.savedRow, s.savedCol }

// stringLength returns the length of a sequence that ends with BEL or ESC \. One
// without an end is not a sequence: only its introducer is dropped. What was
// searched in vain is not searched again.
func (s *screen) stringLength(raw []byte) int {
	i := 2
	if s.searched {
		i = max(i, len(raw)-s.endless)
	}
	for ; i < min(len(raw), maxString) && raw[i] != '\n'; i++ {
		switch {
		case raw[i] == '\a':
			return i + 1
		case raw[i] == 0x1b && i+1 < len(raw) && raw[i+1] == '\\':
			return i + 2
		}
	}
	s.searched, s.endless = true, len(raw)-i
	return 2
}

// csi interprets ESC [ parameters intermediates final.
func (s *screen) csi(raw []byte) int {
	n := 2
	for n < len(raw) && raw[n] >= 0x30 && raw[n] <= 0x3f {
		n++
	}
	params := string(raw[2:n])
	start := n
	for n < len(raw) && raw[n] >= 0x20 && raw[n] <= 0x2f {
		n++
	}
	if n >= len(raw) || raw[n] < 0x40 || raw[n] > 0x7e {
		return n // broken off; what follows is text
	}
	if start == n {
		s.dispatch(raw[n], params)
	}
	return n + 1
}

func (s *screen) dispatch(final byte, params string) {
	if mode, private := strings.CutPrefix(params, "?"); private {
		if (final == 'h' || final == 'l') && (mode == "1049" || mode == "1047" || mode == "47") {
			s.alternate(final == 'h')
		}
		return
	}
	first, second := numbers(params)
	switch final {
	case 'A', 'F':
		s.move(s.row-s.top-max(1, first), s.col)
	case 'B', 'E':
		s.move(s.row-s.top+max(1, first), s.col)
	case 'C', 'a':
		s.col = min(maxCol, s.col+max(1, first))
	case 'D':
		s.col = max(0, s.col-max(1, first))
	case 'G', '`':
		s.col = min(maxCol, max(1, first)-1)
	case 'd':
		s.paint(max(1, first)-1, s.col)
	case 'H', 'f':
		s.paint(max(1, first)-1, max(1, second)-1)
	case 's':
		s.save()
	case 'u':
		s.restore()
	default:
		s.edit(final, first)
	}
	if final == 'E' || final == 'F' {
		s.col = 0
	}
}

// edit interprets the sequences that change text.
func (s *screen) edit(final byte, first int) {
	switch final {
	case 'J':
		s.eraseScreen(first)
	case 'K':
		s.eraseLine(first)
	case 'X':
		s.overwrite(s.col, s.col+min(maxCol, max(1, first)))
	case 'P':
		s.deleteChars(max(1, first))
	case '@':
		s.insertBlanks(min(maxCol, max(1, first)))
	}
}

// numbers reads the first two parameters; absent ones are 0.
func numbers(params string) (first, second int) {
	fields := strings.SplitN(params, ";", 3)
	first, _ = strconv.Atoi(fields[0])
	if len(fields) > 1 {
		second, _ = strconv.Atoi(fields[1])
	}
	return min(max(first, 0), 1<<16), min(max(second, 0), 1<<16)
}

// move puts the cursor on a row of the screen.
func (s *screen) move(row, col int) {
	s.row = s.top + min(max(row, 0), rows-1)
	s.col = min(max(col, 0), maxCol)
}

func (s *screen) paint(row, col int) {
	s.addressed = true
	s.move(row, col)
}

// alternate enters or leaves the second screen of full-screen programs. What was
// drawn there is gone when it is left.
func (s *screen) alternate(enter bool) {
	s.clear()
	s.addressed, s.painted, s.second = enter, enter, enter
	if !enter {
		s.row, s.col = s.top, 0
	}
}

// clear begins an empty screen. Lines that were printed stay above it; a drawing
// is replaced.
func (s *screen) clear() {
	kept := min(s.top, len(s.lines))
	if !s.painted {
		kept = len(s.lines)
	}
	s.lines = s.lines[:kept]
	row := s.row - s.top
	s.top = kept
	s.row = s.top
	if s.painted {
		s.row += row
	}
	s.flush()
}

func (s *screen) eraseScreen(mode int) {
	switch mode {
	case 0:
		if s.row < len(s.lines) {
			s.lines = s.lines[:s.row+1]
		}
		s.eraseLine(0)
	case 1:
		for i := s.top; i < min(s.row, len(s.lines)); i++ {
			s.lines[i] = nil
		}
		s.eraseLine(1)
	case 2, 3:
		s.clear()
	}
}

func (s *screen) eraseLine(mode int) {
	if s.row >= len(s.lines) || s.lines[s.row] == nil {
		return
	}
	l := &s.lines[s.row]
	switch mode {
	case 0:
		*l = (*l)[:min(s.col, len(*l))]
	case 1:
		s.overwrite(0, s.col+1)
	case 2:
		*l = (*l)[:0]
	}
}

// overwrite blanks columns from up to but not including to, of a long line the last
// ones of them.
func (s *screen) overwrite(from, to int) {
	l := *s.line()
	for i := max(from, to-maxCol); i < min(to, len(l)); i++ {
		l[i] = ' '
	}
}

// deleteChars and insertBlanks leave lines alone that are much wider than the
// terminal: no program edits those, and shifting them again and again takes long.
func (s *screen) deleteChars(n int) {
	l := s.line()
	if s.col < len(*l) && len(*l) <= maxCol {
		*l = append((*l)[:s.col], (*l)[min(len(*l), s.col+n):]...)
	}
}

func (s *screen) insertBlanks(n int) {
	l := s.line()
	if s.col < len(*l) && len(*l) <= maxCol {
		*l = append((*l)[:s.col], append(s.blanks(n), (*l)[s.col:]...)...)
	}
}
