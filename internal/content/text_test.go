package content_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"parley/internal/content"
)

func TestTextsAreCutBetweenCharacters(t *testing.T) {
	const text = "a\u00e4\u20ac\U0001F600z" // 1, 2, 3, 4 and 1 bytes
	for most, want := range map[int][2]string{
		-1: {"", ""}, 0: {"", ""}, 1: {"a", "z"}, 2: {"a", "z"}, 3: {"a\u00e4", "z"}, 5: {"a\u00e4", "\U0001F600z"},
		6: {"a\u00e4\u20ac", "\U0001F600z"}, 9: {"a\u00e4\u20ac", "\u20ac\U0001F600z"}, 10: {"a\u00e4\u20ac\U0001F600", "\u00e4\u20ac\U0001F600z"},
		11: {text, text}, 12: {text, text},
	} {
		if head, tail := content.Head(text, most), content.Tail(text, most); head != want[0] || tail != want[1] {
			t.Errorf("%d bytes: %q and %q", most, head, tail)
		}
	}
	for most, want := range map[int]string{0: "...", 2: "a\u00e4...", 4: "a\u00e4\u20ac\U0001F600...", 5: text, 6: text} {
		if got := content.Short(text, most); got != want {
			t.Errorf("%d characters: %q", most, got)
		}
	}
}

func TestCutTextsAreTheLongest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, most := rapid.String().Draw(t, "s"), rapid.IntRange(0, 40).Draw(t, "most")
		head, tail := content.Head(s, most), content.Tail(s, most)
		for what, part := range map[string]string{"head": head, "tail": tail} {
			if len(part) > most || len(part) < min(len(s), most-utf8.UTFMax+1) || !utf8.ValidString(part) {
				t.Fatalf("%s %q", what, part)
			}
		}
		if !strings.HasPrefix(s, head) || !strings.HasSuffix(s, tail) {
			t.Fatalf("%q and %q", head, tail)
		}
		want := s
		if r := []rune(s); len(r) > most {
			want = string(r[:most]) + "..."
		}
		if short := content.Short(s, most); short != want {
			t.Fatalf("%q, not %q", short, want)
		}
	})
}
