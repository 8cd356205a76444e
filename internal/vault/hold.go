package vault

import "strings"

// mostHeld bounds what Hold holds back, as a multiple of the longest value's
// form: beyond it, line breaks alone fill the space between the characters.
const mostHeld = 4

// Hold returns how many bytes at the end of text must wait for what follows: they
// may be the beginning of a value. A text that arrives in pieces is masked as a
// whole one is by masking what need not wait, and the rest when there is no more;
// but for the one character before a base64 form that holds some bits of it.
func (m *Masker) Hold(text string) int {
	if m == nil || len(m.probes) == 0 || text == "" {
		return 0
	}
	cut := m.opening(text)
	spans := m.find(text)
	for _, s := range spans {
		if s.open {
			cut = min(cut, s.from)
		}
	}
	for changed := true; changed; { // what is cut in two would not be found again
		changed = false
		for _, s := range spans {
			if s.from < cut && cut < s.to {
				cut, changed = s.from, true
			}
		}
	}
	if held := len(text) - cut; held <= mostHeld*m.most {
		return held
	}
	return 0
}

// opening returns where the first of the values begins that text may end in; the
// length of text if none does.
func (m *Masker) opening(text string) int {
	tail, at := m.tail(text)
	for i := range len(tail) { // bytes: a value may begin within a character
		if m.begins(tail[i:]) {
			return at[i]
		}
	}
	return len(text)
}

// tail returns the end of text without line breaks, one byte less than the longest
// pattern, and where each byte is.
func (m *Masker) tail(text string) (tail string, at []int) {
	n := m.most - 1
	b := make([]byte, n)
	at = make([]int, n)
	for i := skipBack(text, len(text)-1); i >= 0 && n > 0; i = skipBack(text, i-1) {
		n--
		b[n], at[n] = text[i], i
	}
	return string(b[n:]), at[n:]
}

// begins reports whether a pattern is longer than s and begins with it.
func (m *Masker) begins(s string) bool {
	if len(s) < window {
		_, ok := m.starts[s]
		return ok
	}
	w := load(s)
	if h := hash(w); m.seen[h/64]&(1<<(h%64)) == 0 {
		return false
	}
	for _, p := range m.probes[w] {
		if p.offset == 0 && len(p.pattern.text) > len(s) && strings.HasPrefix(p.pattern.text, s) {
			return true
		}
	}
	return false
}
