package workspace

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzParseRaw(f *testing.F) {
	for _, s := range []string{"", ":100644 100644 a b M\x00f\x00", ":100644 100644 a b R100\x00old\x00new\x00:000000 100644 0 b A\x00x\x00",
		":100644 100644 a b R100\x00old\x00", ":\x00\x00", ":1 2 3 4 U\x00f\x00:1 2 3 4 M\x00f\x00", "fatal\x00", ":a \x00b\x00", "\xff\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		paths := map[string]bool{}
		for _, c := range parseRaw(text) {
			if paths[c.Path] || !utf8.ValidString(c.Path) || !slices.Contains([]Status{Moved, Added, Deleted, Updated}, c.Status) {
				t.Errorf("%+v", c)
			}
			paths[c.Path] = true
		}
	})
}

func FuzzParseCommits(f *testing.F) {
	f.Add("sha\x00sh\x00subject\x00who\x002026-01-01T00:00:00Z\x00")
	f.Add("")
	f.Add("\x00\x00\xff\x00\xff\x00\x00")
	f.Fuzz(func(t *testing.T, text string) {
		all := parseCommits(text)
		if len(all) > strings.Count(text, "\x00")/4+1 {
			t.Errorf("%d commits of %q", len(all), text)
		}
		for _, c := range all {
			if !utf8.ValidString(c.Subject) || !utf8.ValidString(c.Author) {
				t.Errorf("%+v", c)
			}
		}
	})
}

func TestParseRawTakesWhatIsWhole(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		":100644 100644 a b M\x00f\x00": "UPDATED f",
		":100644 100644 a b M\x00f\x00:100644 100644 a b D\x00half":               "UPDATED f",
		":100644 100644 a b R090\x00a b\x00c\nd\x00:000000 160000 0 b A\x00m\x00": "MOVED c\nd, ADDED m",
		":100644 100644 a b C100\x00a\x00b\x00":                                   "ADDED b",
		":100644 120000 a b T\x00f\x00":                                           "UPDATED f",
		":000000 000000 0 0 U\x00f\x00:100644 000000 a 0 M\x00f\x00":              "UPDATED f",
	} {
		var got []string
		for _, c := range parseRaw(text) {
			got = append(got, string(c.Status)+" "+c.Path)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
