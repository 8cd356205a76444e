package terminal

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCleanText(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{"plain", "a\r\nb\tc\n", "a\nb\tc\n"},
		{"colours", "\x1b[1;31mred\x1b[0m\x1b[K plain", "red plain"},
		{"progress", " 10%\r 50%\r100%\r\ndone\r\n", "100%\ndone\n"},
		{"shorter overwrite", "downloading\rdone\x1b[K\n", "done\n"},
		{"overwrite keeps the rest", "abcdef\rXY\n", "XYcdef\n"},
		{"backspace", "abc\b\b\bxyz\n", "xyz\n"},
		{"title", "\x1b]0;title\aa\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "alink\n"},
		{"title without end", "\x1b]0;title\ntext\n", "0;title\ntext\n"},
		{"charset", "\x1b(Ba\x1b=b\x1b>\n", "ab\n"},
		{"dcs", "\x1bP1$r0m\x1b\\x\n", "x\n"},
		{"c1", "a\u0085b\u009bc\n", "abc\n"},
		{"controls", "a\x00\x01\x0e\x7fb\n", "ab\n"},
		{"invalid utf-8", "a\xff\xfeb\r\n", "a\ufffdb\n"},
		{"invalid utf-8 with a sequence", "\x1b[mcaf\xe9\n", "caf\ufffd\n"},
		{"broken sequence at the end", "a\x1b[", "a"},
		{"escape at the end", "a\x1b", "a"},
		{"lines redrawn", "one\r\ntwo\r\n\x1b[2A\x1b[2Kuno\r\n\x1b[2Kdue\r\n", "uno\ndue\n"},
		{"erase line", "abc\x1b[2K\rx\n", "x\n"},
		{"erase to cursor", "abcdef\x1b[3D\x1b[1K\n", "    ef\n"},
		{"erase below", "a\nb\nc\x1b[2A\r\x1b[J", "\n"},
		{"clear after text keeps it", "text\n\x1b[H\x1b[2J\x1b[3Jafter\n", "text\nafter\n"},
		{"clear first", "text\n\x1b[2J\x1b[Hafter\n", "text\nafter\n"},
		{"frames", "\x1b[H\x1b[2Jframe 1\x1b[H\x1b[2Jframe 2\n", "frame 2\n"},
		{"full screen left", "a\n\x1b[?1049h\x1b[Hdrawing\x1b[?1049lb\n", "a\nb\n"},
		{"full screen stays", "a\n\x1b[?1049h\x1b[2;4Hx\x1b[1;1Htop", "a\ntop\n   x"},
		{"delete and insert", "abcdef\x1b[4D\x1b[2P\x1b[1@X\n", "abXef\n"},
		{"erase chars", "abcdef\r\x1b[2C\x1b[2Xx\n", "abx ef\n"},
		{"column", "\x1b[5Gx\x1b[1Gy\n", "y   x\n"},
		{"far column", "\x1b[999999999Gx\n", strings.Repeat(" ", maxCol-1) + " x\n"},
		{"save and restore", "ab\x1b7cd\x1b8X\n", "abXd\n"},
		{"intermediate", "\x1b[0 qa\x1b[!pb\n", "ab\n"},
		{"private", "\x1b[?25l\x1b[?2004ha\x1b[>c\n", "a\n"},
		{"empty lines", "\r\n\r\n\x1b[ma\r\n", "\n\na\n"},
	} {
		if got := cleanText([]byte(c.raw)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestCleanTextScrolls: lines that left the screen are complete and in order.
func TestCleanTextScrolls(t *testing.T) {
	var raw, want strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&raw, "\x1b[3%dmline %d\x1b[0m\r\n", i%8, i)
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if got := cleanText([]byte(raw.String())); got != want.String() {
		t.Errorf("%d bytes, want %d", len(got), want.Len())
	}
}

// TestCleanTextIsBounded: sequences made to cost much cost little.
func TestCleanTextIsBounded(t *testing.T) {
	for _, unit := range []string{"\x1b[800@", "\x1b[800Gx\r\n", "x\x1b[1K", "\x1b[P", "\x1b[800X", "\x1b[2J", "\x1b[J", "\x1b]", "\x1bP", "\x1b[1J\x1b[50;1Hx", "\n\x1bM", "\x1b[", "\r"} {
		for _, before := range []string{"", strings.Repeat("x", 1<<18)} {
			raw := before + strings.Repeat(unit, (1<<18)/len(unit))
			if got := cleanText([]byte(raw)); len(got) > len(raw)+2*maxPadding {
				t.Errorf("%q: %d bytes became %d", unit, len(raw), len(got))
			}
		}
	}
}

func FuzzCleanText(f *testing.F) {
	for _, seed := range []string{"a\r\nb", "\x1b[2J\x1b[H\x1b[5;5Hx\x1b[1K\x1b[?1049l", "\x1b]0;x\a\x1bP\x1b\\", "\xff\x1b[3P\x1b[9@\b\r",
		"\x1b[99A\x1b[99B\x1b7\n\x1b8\x1bM\x1b[J"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := cleanText(raw)
		if !utf8.ValidString(got) {
			t.Fatalf("not UTF-8: %q", got)
		}
		if i := strings.IndexFunc(got, func(r rune) bool { return r < 0x20 && r != '\n' && r != '\t' || r == 0x7f }); i >= 0 {
			t.Fatalf("a control character at %d of %q", i, got)
		}
		if len(got) > 4*len(raw)+maxPadding {
			t.Fatalf("%d bytes became %d", len(raw), len(got))
		}
	})
}

func TestTyped(t *testing.T) {
	for input, want := range map[string]string{
		"C-c": "\x03", "C-d": "\x04", "c-c": "c-c\r", "Ctrl+C": "\x03", "^C": "\x03", "C-[": "\x1b", "C-?": "\x7f", "C-": "C-\r",
		"UP": "\x1b[A", "DOWN DOWN ENTER": "\x1b[B\x1b[B\r", "up": "up\r", "UP and away": "UP and away\r",
		"": "\r", " ": "\r", "y": "y\r", "y\n": "y\r", "a\nb": "a\rb\r", "a\r\nb\r\n": "a\rb\r", "TAB": "\t", "ESC": "\x1b", "BS": "\x7f",
		"C-\u00e9": "C-\u00e9\r",
	} {
		if got := string(typed(input)); got != want {
			t.Errorf("%q: %q, want %q", input, got, want)
		}
	}
}

// TestQuote: bash reads back what was quoted.
func TestQuote(t *testing.T) {
	for _, s := range []string{"", "a b", `it's "x" \n $y !z`, "tab\tnl\ncr\rbell\aesc\x1bdel\x7f", "\u00fc\u4e2d\U0001F600", "\x01\x022", strings.Repeat("\\'", 100)} {
		line := quote(s)
		if strings.ContainsAny(line, "\n\x03\x04\x7f!") {
			t.Errorf("%q holds keys", line)
		}
		got, err := exec.Command("bash", "-c", "printf %s "+line).Output()
		if err != nil || string(got) != s {
			t.Errorf("%q became %q, %v", s, got, err)
		}
	}
}

func TestScriptLines(t *testing.T) {
	m := newMarks([]byte("k"), "c")
	for _, size := range []int{0, 1, 2000, 3000, 4000, 50_000} {
		for _, char := range []string{"a", "\n", "\u4e2d", "'"} {
			text := script(m, newNonce(), strings.Repeat(char, size), map[string]string{"A": strings.Repeat(char, size)}, 130, true)
			for line := range strings.SplitSeq(text, "\n") {
				if len(line) > 4000 {
					t.Errorf("%d times %q: a line of %d bytes", size, char, len(line))
				}
			}
		}
	}
}

// split cuts output into pieces as a reader of small reads does.
func split(m marks, data string, step int) (text string, nonces []string, ends []status) {
	read := 0
	for have := 0; have < len(data); {
		have = min(len(data), have+step)
		for {
			p, ok := m.next([]byte(data[read:have]))
			if !ok {
				break
			}
			read += p.size
			switch {
			case p.end != nil:
				ends = append(ends, *p.end)
			case p.nonce != "":
				nonces = append(nonces, p.nonce)
			}
			text += string(p.text)
		}
	}
	return text + data[read:], nonces, ends
}

func TestMarks(t *testing.T) {
	m := newMarks([]byte("secret"), "c1")
	other := newMarks([]byte("secret"), "c2")
	if m.secret == other.secret || m.secret == newMarks([]byte("other"), "c1").secret {
		t.Fatal("different conversations or servers share a marker")
	}
	begin := m.begin + "n1" + bell
	end := m.end + "n1" + unit + strings.Join([]string{"3", "42", "u", "h", "/py", "/a\x1fb\ac"}, unit) + m.until
	fake := other.begin + "n" + bell + other.end + "n" + unit + "0" + other.until
	data := "before" + begin + "out\x1b[31m" + fake + "\x1b" + end + "after\x1b"
	for step := 1; step <= len(data); step++ {
		text, nonces, ends := split(m, data, step)
		if want := "before" + "out\x1b[31m" + fake + "\x1b" + "after\x1b"; text != want {
			t.Fatalf("step %d: text %q, want %q", step, text, want)
		}
		if fmt.Sprint(nonces) != "[n1]" || len(ends) != 1 {
			t.Fatalf("step %d: %v %v", step, nonces, ends)
		}
		if want := (status{code: 3, job: 42, user: "u", host: "h", python: "/py", cwd: "/a\x1fb\ac"}); ends[0] != want {
			t.Fatalf("step %d: %+v, want %+v", step, ends[0], want)
		}
	}
}

func FuzzMarks(f *testing.F) {
	m := newMarks([]byte("secret"), "c1")
	f.Add("a"+m.begin+"n"+bell+"b"+m.end+"n"+unit+"0"+m.until, uint8(3))
	f.Add(m.begin+m.end+m.until+"\x1b\x1b]6973;", uint8(1))
	f.Fuzz(func(t *testing.T, data string, step uint8) {
		text, nonces, ends := split(m, data, int(step)+1)
		whole, n2, e2 := split(m, data, len(data)+1)
		if text != whole || len(nonces) != len(n2) || len(ends) != len(e2) {
			t.Fatalf("%q: pieces give %q %v %v, the whole %q %v %v", data, text, nonces, ends, whole, n2, e2)
		}
		if !strings.Contains(data, m.secret) && text != data {
			t.Fatalf("%q became %q", data, text)
		}
	})
}

func TestCapture(t *testing.T) {
	var c capture
	chunk := []byte(strings.Repeat("0123456789abcde\n", 4096))
	total := 0
	for total < 3*(keepHead+keepTail) {
		c.add(chunk)
		total += len(chunk)
	}
	c.add([]byte("end"))
	if len(c.head) != keepHead || len(c.tail) > 2*keepTail || int64(len(c.head)+len(c.tail))+c.dropped != int64(total+3) {
		t.Errorf("head %d, tail %d, dropped %d of %d", len(c.head), len(c.tail), c.dropped, total)
	}
	if text, _ := c.text(); !strings.HasPrefix(text, "0123") || !strings.HasSuffix(text, "end") || !strings.Contains(text, "bytes of output are not shown") {
		t.Errorf("text of %d bytes", len(text))
	}
	var l capture
	l.add([]byte("head"))
	l.lose(100)
	l.add([]byte("tail"))
	if text, _ := l.text(); text != "head\n[... 100 bytes of output are not shown ...]\ntail" {
		t.Errorf("%q", text)
	}
}

// TestCutAt: an output that is cleaned piece by piece gives the same text as one
// that is cleaned at once.
func TestCutAt(t *testing.T) {
	line := "caf\u00e9 \u4e2d\u6587 \U0001F600\r\n"
	for _, text := range []string{
		strings.Repeat(line, 30),
		strings.Repeat("\u00e9", 200), strings.Repeat("\u4e2d", 200), strings.Repeat("\U0001F600", 200),
		strings.Repeat("x", 300) + "\r\n" + strings.Repeat("y", 300) + "\r\n",
		strings.Repeat("xyz\x1b[31m", 100), strings.Repeat("\x1b[1;31mword\x1b[0m and \u00e9", 40),
		"\r\n\r\n\r\n" + strings.Repeat("z", 90),
	} {
		for size := 65; size < 90; size++ {
			var got strings.Builder
			held := []byte{}
			for rest := []byte(text); len(rest) > 0; {
				n := min(size, len(rest))
				held, rest = append(held, rest[:n]...), rest[n:]
				if cut := cutAt(held); len(held) > size/2 {
					got.WriteString(cleanText(held[:cut]))
					held = held[cut:]
				}
			}
			got.WriteString(cleanText(held))
			if want := cleanText([]byte(text)); got.String() != want {
				t.Errorf("%q in pieces of %d: %q, want %q", text[:20], size, got.String(), want)
			}
		}
	}
}

func FuzzCutAt(f *testing.F) {
	f.Add("a\r\nb\x1b[31m\u4e2d\xff")
	f.Fuzz(func(t *testing.T, raw string) {
		if raw == "" {
			return
		}
		if cut := cutAt([]byte(raw)); cut < 1 || cut > len(raw) {
			t.Fatalf("%q is cut at %d", raw, cut)
		}
	})
}
