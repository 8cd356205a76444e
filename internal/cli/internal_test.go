package cli

import (
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestClean(t *testing.T) {
	tests := map[string]string{
		"plain\ttext\nline":                            "plain\ttext\nline",
		"\x1b[1;31mred\x1b[0m":                         "red",
		"\x1b]0;title\x07after":                        "after",
		"\x1b]8;;http://x\x1b\\link":                   "link",
		"\x1bPdcs\x1b\\x":                              "x",
		"\x1b(Bx\x1bcy":                                "xy",
		"\u009b31mx":                                   "x",
		"\u009dtitle\u009cx":                           "x",
		"a\rb\r\nc":                                    "a\nb\nc",
		"bell\x07 back\x08 del\x7f nul\x00":            "bell back del nul",
		"\x1b]unfinished\nnext":                        "\nnext",
		"\x1b[999\nnext":                               "\nnext",
		"\u202eabc\u2066\u200b\ufeff":                  `\u202eabc\u2066\u200b\ufeff`,
		"zero width joiner \U0001F468\u200d\U0001F469": "zero width joiner \U0001F468\u200d\U0001F469",
		"caf\u00e9 \u65e5\u672c":                       "caf\u00e9 \u65e5\u672c",
		"bad \xff utf":                                 "bad \ufffd utf",
	}
	for in, want := range tests {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

// Cleaning in pieces gives the same text, and it never lets a control through.
func FuzzSanitizer(f *testing.F) {
	f.Add("\x1b]0;t\x07a\x1b[31mb\r\n\u009bmc", 3)
	f.Add("\x1b\x1b[[\x1b\\", 1)
	f.Fuzz(func(t *testing.T, text string, at int) {
		whole := Clean(text)
		for _, r := range whole {
			if r != '\n' && r != '\t' && (r < 0x20 || r >= 0x7f && r <= 0x9f || r == '\u202e') {
				t.Fatalf("%q lets %U through: %q", text, r, whole)
			}
		}
		if Clean(whole) != whole {
			t.Errorf("not idempotent: %q", whole)
		}
		if !utf8.ValidString(text) || at < 0 || at > len(text) || at < len(text) && !utf8.RuneStart(text[at]) {
			return
		}
		var s Sanitizer
		if pieces := s.Write(text[:at]) + s.Write(text[at:]); pieces != whole {
			t.Errorf("%q in pieces gives %q, whole %q", text, pieces, whole)
		}
	})
}

func frames(text string, limit int) ([]sseFrame, error) {
	r := newSSEReader(strings.NewReader(text), func() {})
	r.max = limit
	var all []sseFrame
	for {
		frame, err := r.next()
		if err != nil {
			return all, err
		}
		all = append(all, frame)
	}
}

func TestSSE(t *testing.T) {
	text := ": hello\n\nid: 3\nevent: message\ndata: {\"a\":1}\n\ndata:one\r\ndata: two\r\n\r\nretry: 5\n\nid: 4\n\n" +
		"unknown: x\ndata\n\ndata: cut off"
	want := []sseFrame{{"3", "message", []byte(`{"a":1}`)}, {"", "", []byte("one\ntwo")}, {"", "", nil}}
	got, err := frames(text, 1000)
	if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, io.EOF) {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := frames("data: "+strings.Repeat("x", 100)+"\n\n", 50); !errors.Is(err, errFrameTooLarge) {
		t.Errorf("a long line: %v", err)
	}
	if _, err := frames(strings.Repeat("data: x\n", 100), 50); !errors.Is(err, errFrameTooLarge) {
		t.Errorf("many lines: %v", err)
	}
}

func FuzzSSE(f *testing.F) {
	f.Add("id: 1\ndata: x\n\n: c\n\ndata: a\ndata: b\r\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := frames(text, 1<<16)
		if err == nil {
			t.Fatal("the stream never ends")
		}
		if len(all) > strings.Count(text, "data") {
			t.Errorf("%d frames of %q", len(all), text)
		}
	})
}

func TestFold(t *testing.T) {
	lines := strings.Split("abcdefghij", "")
	if got := strings.Join(fold(lines, 2, 1), ""); got != "ab... 7 lines ...j" {
		t.Error(got)
	}
	if got := len(fold(lines, 5, 4)); got != 10 {
		t.Errorf("one hidden line was replaced by a note: %d", got)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func TestDiff(t *testing.T) {
	if lines, ok := diffLines("a\n", "a\n"); !ok || len(lines) != 0 {
		t.Errorf("equal texts: %q", lines)
	}
	if _, ok := diffLines(strings.Repeat("a\n", maxDiffBytes), ""); ok {
		t.Error("a huge text was compared")
	}
	lines, _ := diffLines("x\x1b[2Jy\n", "z\n")
	if got := strings.Join(lines, "|"); got != "@@ -1 +1 @@|-xy|+z" {
		t.Error(got)
	}
}

func TestParseVerdict(t *testing.T) {
	tests := []struct {
		in     string
		accept bool
		why    string
		ok     bool
	}{
		{"y", true, "", true}, {" YES ", true, "", true}, {"n", false, "", true},
		{"no, use make clean", false, "use make clean", true}, {"never", false, "", false}, {"", false, "", false}, {"yesterday", false, "", false},
	}
	for _, test := range tests {
		accept, why, ok := parseVerdict(test.in)
		if accept != test.accept || why != test.why || ok != test.ok {
			t.Errorf("%q: %v %q %v", test.in, accept, why, ok)
		}
	}
}
