package textfile_test

import (
	"bytes"
	"testing"

	"parley/internal/tool/textfile"
)

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		data, text string
		ok         bool
	}{
		{"", "", true},
		{"a\nb", "a\nb", true},
		{"a\r\nb\r\n", "a\nb\n", true},
		{"a\r\nb\n", "a\r\nb\n", true},
		{"a\rb", "a\rb", true},
		{"\xef\xbb\xbfa\r\n", "a\n", true},
		{"\xff\xfea\x00\r\x00\n\x00", "a\n", true},
		{"\xfe\xff\x00\xfc", "\u00fc", true},
		{"caf\xe9", "caf\u00e9", true},
		{"\x1b[31mred", "\x1b[31mred", true},
		{"a\x00b", "", false},
		{"\xff\xfea", "", false},           // half a unit
		{"\xff\xfe\x00\xd8", "", false},    // half a pair
		{"\xef\xbb\xbf\xff", "", false},    // no UTF-8 after its mark
		{"\x01\x02\x03\x04abc", "", false}, // control characters
		{"MZ\x90\x00\x03\x00\x00", "", false},
	} {
		f, ok := textfile.Decode([]byte(c.data))
		if ok != c.ok || ok && f.Text != c.text {
			t.Errorf("%q: %q %v", c.data, f.Text, ok)
		}
	}
}

// FuzzDecode: what is read as text is stored as it was.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"a\r\nb", "a\r\n", "\xef\xbb\xbfx", "\xff\xfea\x00", "\xfe\xff\x00a", "caf\xe9\r\r\n", "\xff\xfe\xff\xfe"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, ok := textfile.Decode(data)
		if !ok {
			return
		}
		if back, ok := file.Encode(file.Text); !ok || !bytes.Equal(back, data) {
			t.Fatalf("%q becomes %q", data, back)
		}
	})
}
