package bash

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzText: whatever the pieces in which bytes come and go, valid text comes out as it
// went in, and what is none never parts what is.
func FuzzText(f *testing.F) {
	f.Add("plain", uint8(2))
	f.Add("\u00e4\u20ac\U0001f600", uint8(1))
	f.Add("a\xffb\xe2\x82", uint8(3))
	f.Add("\xf0\x9f\x98", uint8(1))
	f.Fuzz(func(t *testing.T, s string, step uint8) {
		var in text
		var out strings.Builder
		n := int(step%7) + 1
		for at := 0; at < len(s); at += n {
			in.write([]byte(s[at:min(at+n, len(s))]))
			piece := in.read(false)
			if !utf8.ValidString(piece) {
				t.Errorf("piece %q", piece)
			}
			out.WriteString(piece)
		}
		out.WriteString(in.read(true))
		if !in.empty() || !utf8.ValidString(out.String()) {
			t.Errorf("%q", out.String())
		}
		if utf8.ValidString(s) && out.String() != s {
			t.Errorf("%q became %q", s, out.String())
		}
	})
}
