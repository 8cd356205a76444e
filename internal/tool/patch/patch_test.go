package patch_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"parley/internal/tool/patch"
	"parley/internal/tool/tooltest"
)

var _ = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func args(lines ...string) map[string]any {
	return map[string]any{"patch": "*** Begin Patch\n" + strings.Join(lines, "\n") + "\n*** End Patch"}
}

type observation struct {
	Message string `json:"message"`
	Fuzz    int    `json:"fuzz"`
	Commit  *struct {
		Changes map[string]struct {
			Type       string  `json:"type"`
			OldContent *string `json:"old_content"`
			NewContent *string `json:"new_content"`
			MovePath   *string `json:"move_path"`
		} `json:"changes"`
	} `json:"commit"`
}

func TestUpdate(t *testing.T) {
	for _, c := range []struct {
		name, before, hunks, after string
		fuzz                       int
	}{
		{"replace", "a\nb\nc\n", "@@\n a\n-b\n+B\n c", "a\nB\nc\n", 0},
		{"no header", "a\nb\nc\n", "-b\n+B", "a\nB\nc\n", 0},
		{"delete", "a\nb\nc\n", " a\n-b\n c", "a\nc\n", 0},
		{"delete all", "a\n", "-a", "", 0},
		{"insert", "a\nc\n", " a\n+b\n c", "a\nb\nc\n", 0},
		{"append", "a\n", "@@\n+b", "a\nb\n", 0},
		{"into empty", "", "+a", "a\n", 0},
		{"no final newline", "a\nb", "-b\n+c", "a\nc", 0},
		{"two hunks", "a\nb\nc\nd\ne\n", "@@\n-a\n+A\n@@\n-e\n+E", "A\nb\nc\nd\nE\n", 0},
		{"shared context", "a\nb\nc\n", "@@\n-a\n+A\n b\n@@\n b\n-c\n+C", "A\nb\nC\n", 0},
		{"anchor", "def f:\n x\ndef g:\n x\n", "@@ def g:\n- x\n+ y", "def f:\n x\ndef g:\n y\n", 0},
		{"anchor repeated", "def f:\n x\ndef g:\n x\n", "@@ def g:\n def g:\n- x\n+ y", "def f:\n x\ndef g:\n y\n", 0},
		{"nested anchors", "class A\n f\n  x\nclass B\n f\n  x\n", "@@ class B\n@@  f\n-  x\n+  y", "class A\n f\n  x\nclass B\n f\n  y\n", 0},
		{"anchor and insertion", "a\nb\n", "@@ a\n+x", "a\nx\nb\n", 0},
		{"anchor passed", "a\nb\nc\n", "@@ a\n-b\n+B\n@@ a\n-c\n+C", "a\nB\nC\n", 0},
		{"unified header", "a\nb\n", "@@ -1,2 +1,2 @@ func x\n a\n-b\n+B", "a\nB\n", 0},
		{"end of file", "x\ny\nx\n", "@@\n-x\n+z\n*** End of File", "x\ny\nz\n", 0},
		{"not at the end", "x\ny\n", "@@\n-x\n+z\n*** End of File", "z\ny\n", 10_000},
		{"trailing space", "a  \nb\n", " a\n-b\n+B", "a  \nB\n", 1},
		{"indentation", "\t\ta\n\t\tb\n", " a\n-b\n+\t\tB", "\t\ta\n\t\tB\n", 100},
		{"exact before alike", " a\na\n", "-a\n+b", " a\nb\n", 0},
		{"empty context", "a\n\nb\n", " a\n\n-b\n+B", "a\n\nB\n", 0},
		{"gap at the end", "a\nb\n", "@@\n-a\n+A\n\n", "A\nb\n", 0},
		{"as many as hunks", "x\na\nx\nb\nx\n", "@@\n-x\n+y\n@@\n-x\n+y\n@@\n-x\n+y", "y\na\ny\nb\ny\n", 0},
		{"crlf", "a\r\nb\r\n", " a\n-b\n+B\n+C", "a\r\nB\r\nC\r\n", 0},
		{"mixed ends", "a\r\nb\nc\r\n", " a\n+x\n-b\n+B\n c", "a\r\nx\r\nB\nc\r\n", 0},
		{"bom", "\xef\xbb\xbfa\n", "-a\n+b", "\xef\xbb\xbfb\n", 0},
		{"utf-16", "\xff\xfea\x00\n\x00", "-a\n+b", "\xff\xfeb\x00\n\x00", 0},
		{"latin-1", "caf\xe9\nb\n", " caf\u00e9\n-b\n+th\u00e9", "caf\xe9\nth\xe9\n", 0},
		{"no newline mark", "a\nb\n", "-b\n\\ No newline at end of file\n+c", "a\nc\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := tooltest.New(t)
			b.Write("f", c.before)
			var o observation
			b.OK(patch.New(), args("*** Update File: f", c.hunks), &o)
			b.Holds("f", c.after)
			if o.Fuzz != c.fuzz || o.Commit == nil || o.Commit.Changes["f"].Type != "update" {
				t.Errorf("observation %+v", o)
			}
			if info, err := os.Stat(b.Path("f")); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
		})
	}
}

func TestSeveralFiles(t *testing.T) {
	b := tooltest.New(t)
	b.Write("up", "a\n")
	b.Write("gone", "x")
	b.Write("dir/moved", "m\n")
	b.Write("bin", "\x00\x01")
	if err := os.Chmod(b.Path("dir/moved"), 0o755); err != nil {
		t.Fatal(err)
	}
	var o observation
	text := b.OK(patch.New(), args("*** Update File: ./up", "-a", "+b", "", "*** Add File: new/deep/n", "+1", "+", "+3", "",
		"*** Add File: "+b.Path("empty"), "*** Delete File: gone", "*** Update File: dir/moved", "*** Move to: else/here", "@@", "-m", "+M",
		"*** Update File: bin", "*** Move to: bin2"), &o)
	b.Holds("up", "b\n")
	b.Holds("new/deep/n", "1\n\n3\n")
	b.Holds("empty", "")
	b.Holds("else/here", "M\n")
	b.Holds("bin2", "\x00\x01")
	want := []string{"bin2", "dir", "else", "else/here", "empty", "new", "new/deep", "new/deep/n", "up"}
	if got := b.Tree(); !slices.Equal(got, want) {
		t.Errorf("there is %v", got)
	}
	if info, err := os.Stat(b.Path("else/here")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	for _, part := range []string{"M ./up", "A new/deep/n", "D gone", "R dir/moved -> else/here"} {
		if !strings.Contains(text, part+"\n") {
			t.Errorf("%q is missing in %q", part, text)
		}
	}
	if c := o.Commit.Changes["dir/moved"]; c.MovePath == nil || *c.MovePath != "else/here" || *c.OldContent != "m\n" || *c.NewContent != "M\n" {
		t.Errorf("change %+v", c)
	}
}

// TestRefused: nothing is changed, and the model learns why.
func TestRefused(t *testing.T) {
	b := tooltest.New(t)
	outside := t.TempDir()
	if err := os.WriteFile(outside+"/f", []byte("f\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.Write("f", "one\ntwo\nthree\none\ntwo\n")
	b.Write("g", "func main() {\n\tprintln(\"hello\")\n}\n")
	b.Write("bin", "\x00")
	b.Write("latin", "caf\xe9\n")
	b.Link(outside, "out")
	b.Link(outside+"/f", "link")
	before := b.Tree()
	good := "*** Add File: made\n+x\n*** Update File: g\n-}\n+} // end"
	for _, c := range []struct {
		patch string
		parts []string
	}{
		{"*** Update File: f\n-one\n+1", []string{"several places", "lines 1, 4", "@@"}},
		{"*** Update File: f\n-four\n+4", []string{"not found in f", "line 8 of the patch"}},
		{"*** Update File: f\n@@ nowhere\n-one\n+1", []string{`"nowhere"`, "not found"}},
		{"*** Update File: f\n@@\n-three\n+3\n@@\n-three\n+3", []string{"after line 3 of"}},
		{"*** Update File: none\n-a\n+b", []string{"none does not exist"}},
		{"*** Update File: bin\n-a\n+b", []string{"binary"}},
		{"*** Update File: latin\n-caf\u00e9\n+\u4e2d", []string{"Latin-1"}},
		{"*** Update File: f", []string{"not how"}},
		{"*** Update File: f\n@@\n one", []string{"changes nothing"}},
		{"*** Update File: f\nxone\n+1", []string{`"xone"`, "begins with none"}},
		{"*** Update File:\n-a", []string{"names no file"}},
		{"*** Update File: f\n*** Move to:\n-a", []string{"names no file"}},
		{"*** Update File: f\n*** Move to: latin", []string{"exists"}},
		{"*** Add File: f\n+x", []string{"exists already"}},
		{"*** Add File: n\nx", []string{`does not begin with "+"`}},
		{"*** Add File: f/below\n+x", []string{"f"}},
		{"*** Delete File: none", []string{"does not exist"}},
		{"*** Delete File: f\n-x", []string{"text after the deletion"}},
		{"*** Delete File: f\n*** Add File: ./f\n+x", []string{"twice"}},
		{"*** Rename File: f", []string{`"*** Rename File: f"`}},
		{"*** Add File: ../n\n+x", []string{"not inside"}},
		{"*** Add File: /tmp/n\n+x", []string{"not inside"}},
		{"*** Add File: out/n\n+x", []string{"not inside"}},
		{"*** Update File: out/f\n-f\n+x", []string{"not inside"}},
		{"*** Update File: link\n-f\n+x", []string{"not inside"}},
		{"*** Delete File: out/f", []string{"not inside"}},
		{"*** Update File: f\n*** Move to: out/f2", []string{"not inside"}},
		{"*** Add File: a\x00b\n+x", []string{"NUL"}},
		{"*** Update File: bin\n*** Move to: made", []string{"twice"}},
	} {
		b.Refused(patch.New(), args(good, c.patch), append(c.parts, "No file was changed")...)
	}
	for text, part := range map[string]string{"": "does not begin", "x": "does not begin", "*** Begin Patch": "does not end",
		"*** Begin Patch\n*** End Patch": "changes nothing", "*** Begin Patch\n*** Delete File: f\n*** End Patch\nmore": "text after"} {
		b.Refused(patch.New(), map[string]any{"patch": text}, part)
	}
	b.Holds("g", "func main() {\n\tprintln(\"hello\")\n}\n")
	b.Holds("f", "one\ntwo\nthree\none\ntwo\n")
	if got := b.Tree(); !slices.Equal(got, before) {
		t.Errorf("there is %v", got)
	}
	if got, err := os.ReadFile(outside + "/f"); err != nil || string(got) != "f\n" {
		t.Errorf("outside: %q %v", got, err)
	}
}

func TestHint(t *testing.T) {
	b := tooltest.New(t)
	b.Write("g", "package main\n\nfunc main() {\n\tprintln(\"hello\")\n}\n")
	b.Refused(patch.New(), args("*** Update File: g", " func main() {", "-\tprintln(\"hallo\")", "+x", " }"),
		"Lines 3 to 5 are the nearest match", "     4\t\tprintln(\"hello\")\n")
}

func TestWrapped(t *testing.T) {
	for _, text := range []string{
		"\n\n*** Begin Patch\n*** Update File: f\n-a\n+b\n*** End Patch\n\n",
		"```diff\n*** Begin Patch\n*** Update File: f\n-a\n+b\n*** End Patch\n```",
		"*** Begin Patch\r\n*** Update File: f\r\n-a\r\n+b\r\n*** End Patch\r\n",
	} {
		b := tooltest.New(t)
		b.Write("f", "a\n")
		b.OK(patch.New(), map[string]any{"patch": text}, nil)
		b.Holds("f", "b\n")
	}
}

func TestLinkInside(t *testing.T) {
	b := tooltest.New(t)
	b.Write("real/f", "a\n")
	b.Link(b.Path("real"), "way")
	b.OK(patch.New(), args("*** Update File: way/f", "-a", "+b"), nil)
	b.Holds("real/f", "b\n")
}

func TestGolden(t *testing.T) {
	b := tooltest.New(t)
	b.Write("f", "a\nb\n")
	b.Golden(patch.New(), args("*** Update File: f", "-b  ", "+c", "*** Add File: n", "+x"), "testdata/applied.json")
	b.Golden(patch.New(), args("*** Update File: f", "-nothing", "+c"), "testdata/refused.json")
}
