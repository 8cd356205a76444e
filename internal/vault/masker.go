package vault

import (
	"slices"
	"strings"
)

// Hidden is what a Masker writes in place of a secret.
const Hidden = "<secret-hidden>"

// minValue is the length in bytes below which a value is no secret: hiding it
// would only destroy text.
const minValue = 4

// window is the number of bytes that a search step looks at.
const window = 4

// Masker replaces every occurrence of its values in a text by Hidden: as they
// are, and base64, URL and JSON encoded (base64 also where the value is in the
// middle of what was encoded). A line break inside an occurrence of 8 bytes or
// more does not hide it: terminals and encoders wrap. Occurrences that overlap become one mask. It is
// safe for concurrent use; a nil Masker changes nothing.
//
// It does not find other encodings (hex, compression), a value that is cut
// into pieces by other text, or values below 4 bytes.
type Masker struct {
	seen   [1 << 10]uint64      // filter: bit set of window hashes
	probes map[uint32][]probe   // by the window's bytes
	starts map[string]struct{}  // the first bytes of patterns, fewer than a window
	most   int                  // bytes of the longest pattern
	known  map[pattern]struct{} // already added; nil when complete
}

// pattern is one form of a value, without line breaks.
type pattern struct {
	text   string
	before int // characters in front of and behind text that hold bits of
	after  int // the value, too (base64)
}

// probe finds a pattern by the window at offset: a second one finds it where a
// line break is inside the first window.
type probe struct {
	pattern *pattern
	offset  int
}

// NewMasker makes a masker for values. Empty and very short ones (below 4
// bytes, line breaks not counted) are ignored.
func NewMasker(values ...string) *Masker {
	m := &Masker{probes: map[uint32][]probe{}, starts: map[string]struct{}{}, known: map[pattern]struct{}{}}
	for _, v := range values {
		if len(unbroken(v)) < minValue {
			continue
		}
		for _, p := range forms(v) {
			m.add(p)
		}
	}
	if len(m.probes) > 0 {
		m.add(pattern{text: Hidden}) // masking twice must not change the text again
	}
	m.known = nil
	return m
}

func (m *Masker) add(p pattern) {
	p.text = unbroken(p.text)
	if _, ok := m.known[p]; ok || len(p.text) < window {
		return
	}
	m.known[p] = struct{}{}
	m.most = max(m.most, len(p.text))
	for n := 1; n < window; n++ {
		m.starts[p.text[:n]] = struct{}{}
	}
	offsets := []int{0}
	if len(p.text) >= 2*window {
		offsets = append(offsets, window)
	}
	for _, off := range offsets {
		w := load(p.text[off:])
		m.probes[w] = append(m.probes[w], probe{&p, off})
		h := hash(w)
		m.seen[h/64] |= 1 << (h % 64)
	}
}

// Mask returns text with all secrets hidden.
func (m *Masker) Mask(text string) string {
	if m == nil || len(m.probes) == 0 {
		return text
	}
	spans := m.find(text)
	if len(spans) == 0 {
		return text
	}
	return replace(text, merge(spans))
}

type span struct {
	from, to int
	open     bool // it ends where the text does, and what follows may belong to it
}

// find returns all occurrences, overlapping ones included.
func (m *Masker) find(text string) []span {
	var spans []span
	if len(text) < window {
		return nil
	}
	w := load(text) << 8
	for i := window - 1; i < len(text); i++ {
		w = w>>8 | uint32(text[i])<<24
		if h := hash(w); m.seen[h/64]&(1<<(h%64)) == 0 {
			continue
		}
		at := i - window + 1
		for _, p := range m.probes[w] {
			if s, ok := p.match(text, at); ok {
				spans = append(spans, s)
			}
		}
	}
	return spans
}

// match reports the occurrence whose bytes from p.offset on start at text[at].
func (p probe) match(text string, at int) (span, bool) {
	from := at
	for k := p.offset - 1; k >= 0; k-- {
		from = skipBack(text, from-1)
		if from < 0 || text[from] != p.pattern.text[k] {
			return span{}, false
		}
	}
	to := at
	for k := p.offset; k < len(p.pattern.text); k++ {
		to = skip(text, to)
		if to >= len(text) || text[to] != p.pattern.text[k] {
			return span{}, false
		}
		to++
	}
	return p.pattern.widen(text, span{from: from, to: to}), true
}

// widen takes in the neighbours that hold bits of the value, and padding.
func (p *pattern) widen(text string, s span) span {
	for range p.before {
		if at := skipBack(text, s.from-1); at >= 0 && isBase64(text[at]) {
			s.from = at
		}
	}
	for range p.after {
		if at := skip(text, s.to); at < len(text) && isBase64(text[at]) {
			s.to = at + 1
		}
		for s.to < len(text) && text[s.to] == '=' {
			s.to++
		}
	}
	s.open = p.after > 0 && skip(text, s.to) == len(text)
	return s
}

// skip returns the first position from at on that is no line break.
func skip(text string, at int) int {
	for at < len(text) && isBreak(text[at]) {
		at++
	}
	return at
}

// skipBack returns the last position up to at that is no line break, or below 0.
func skipBack(text string, at int) int {
	for at >= 0 && isBreak(text[at]) {
		at--
	}
	return at
}

// merge sorts spans and joins those that overlap.
func merge(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	out := spans[:1]
	for _, s := range spans[1:] {
		last := &out[len(out)-1]
		if s.from < last.to {
			last.to = max(last.to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

func replace(text string, spans []span) string {
	var b strings.Builder
	b.Grow(len(text))
	at := 0
	for _, s := range spans {
		b.WriteString(text[at:s.from])
		b.WriteString(Hidden)
		at = s.to
	}
	b.WriteString(text[at:])
	return b.String()
}

func load(s string) uint32 {
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

// hash maps a window to 16 bits.
func hash(w uint32) uint32 { return w * 2654435761 >> 16 }

func isBreak(c byte) bool { return c == '\n' || c == '\r' }

func isBase64(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '+' || c == '/' || c == '-' || c == '_'
}

func unbroken(s string) string {
	if !strings.ContainsAny(s, "\r\n") {
		return s
	}
	return strings.NewReplacer("\n", "", "\r", "").Replace(s)
}
