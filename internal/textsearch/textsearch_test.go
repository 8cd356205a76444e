package textsearch_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/internal/textsearch"
)

func TestParse(t *testing.T) {
	for query, want := range map[string]string{
		"":                         "[]",
		" - * () ^ \x00":           "[]",
		"Foo bar":                  "[[foo] [bar]]",
		`"Foo bar" baz`:            "[[foo bar] [baz]]",
		`foo "open phrase`:         "[[foo] [open phrase]]",
		`""`:                       "[]",
		"foo* AND NOT col:bar":     "[[foo] [and] [not] [col] [bar]]",
		"a.b/c-d":                  "[[a] [b] [c] [d]]",
		"\u00dcber e\u0301t\u00e9": "[[\u00fcber] [e\u0301t\u00e9]]",
		strings.Repeat("x ", 40):   "[" + strings.TrimSpace(strings.Repeat("[x] ", 16)) + "]",
	} {
		if got := fmt.Sprint(textsearch.Parse(query)); got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
}

func TestSnippetShowsTheFirstMatch(t *testing.T) {
	long := strings.Repeat("far away ", 50) + "the Needle\nis \u00fcber here" + strings.Repeat(" and more", 50)
	s, marks := textsearch.Snippet(long, textsearch.Parse(`needle "is \u00fcber"`+` "is über"`))
	if !strings.HasPrefix(s, "...") || !strings.HasSuffix(s, "...") || strings.Contains(s, "\n") {
		t.Errorf("snippet %q", s)
	}
	var got []string
	for _, m := range marks {
		got = append(got, string([]rune(s)[m.Start:m.End]))
	}
	if fmt.Sprint(got) != "[Needle is \u00fcber]" {
		t.Errorf("marked %q in %q", got, s)
	}
	if s, marks = textsearch.Snippet("short", textsearch.Parse("other")); s != "short" || len(marks) != 0 {
		t.Errorf("%q %v", s, marks)
	}
}

func FuzzSnippet(f *testing.F) {
	f.Add("the needle is here", "needle")
	f.Add("\xff\x00\u0301a\u0301", `"a b`)
	f.Fuzz(func(t *testing.T, text, query string) {
		terms := textsearch.Parse(query)
		s, marks := textsearch.Snippet(text, terms)
		n := utf8.RuneCountInString(s)
		if n > 260 || !utf8.ValidString(s) {
			t.Fatalf("%d characters, %q", n, s)
		}
		last := 0
		for _, m := range marks {
			if m.Start < last || m.End <= m.Start || m.End > n {
				t.Fatalf("marks %v in %d characters", marks, n)
			}
			last = m.End
		}
	})
}
