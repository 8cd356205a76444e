package files_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"parley/internal/tool"
	"parley/internal/tool/files"
	"parley/internal/tool/tooltest"
)

var _ = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type observation struct {
	FilePath     string  `json:"file_path"`
	FileContent  string  `json:"file_content"`
	IsTruncated  bool    `json:"is_truncated"`
	LinesShown   *[2]int `json:"lines_shown"`
	TotalLines   *int    `json:"total_lines"`
	IsNewFile    bool    `json:"is_new_file"`
	Replacements int     `json:"replacements_made"`
	OldContent   *string `json:"old_content"`
	NewContent   *string `json:"new_content"`
	DirPath      string  `json:"dir_path"`
	Entries      []struct {
		Name        string `json:"name"`
		Path        string `json:"path"`
		IsDirectory bool   `json:"is_directory"`
		Size        int64  `json:"size"`
		Modified    string `json:"modified_time"`
	} `json:"entries"`
	TotalCount int `json:"total_count"`
}

func edit(path, old, repl string, more ...any) map[string]any {
	m := map[string]any{"file_path": path, "old_string": old, "new_string": repl}
	if len(more) > 0 {
		m["expected_replacements"] = more[0]
	}
	return m
}

func TestEdit(t *testing.T) {
	for _, c := range []struct {
		name, before, old, repl string
		count                   int
		after                   string
	}{
		{"once", "a\nb\n", "b", "B", 1, "a\nB\n"},
		{"all", "x y x\nx", "x", "z", 3, "z y z\nz"},
		{"delete", "a\nb\n", "a\n", "", 1, "b\n"},
		{"crlf", "a\r\nb\r\n", "a\nb", "c\nd", 1, "c\r\nd\r\n"},
		{"mixed ends", "a\r\nb\nc", "b", "d", 1, "a\r\nd\nc"},
		{"bom", "\xef\xbb\xbfa", "a", "b", 1, "\xef\xbb\xbfb"},
		{"latin-1", "caf\xe9", "\u00e9", "\u00e8", 1, "caf\xe8"},
		{"no regexp", "a.c abc", "a.c", "$1", 1, "$1 abc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := tooltest.New(t)
			b.Write("f", c.before)
			var o observation
			b.OK(files.Edit(), edit("f", c.old, c.repl, c.count), &o)
			b.Holds("f", c.after)
			if o.Replacements != c.count || o.FilePath != b.Path("f") || o.OldContent == nil || o.NewContent == nil || o.IsNewFile {
				t.Errorf("observation %+v", o)
			}
			if info, err := os.Stat(b.Path("f")); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
		})
	}
}

func TestEditRefused(t *testing.T) {
	b := tooltest.New(t)
	b.Write("f", "one\ntwo\none\n\tdeep thing\n")
	b.Write("bin", "\x00")
	b.Write("latin", "\xe9")
	for _, c := range []struct {
		args  map[string]any
		parts []string
	}{
		{edit("f", "one", "1"), []string{"occurs 2 times", "lines 1, 3", "expected_replacements is 1"}},
		{edit("f", "two", "2", 2), []string{"occurs 1 times", "lines 2"}},
		{edit("f", "two", "2", 0), []string{"expected_replacements is 0"}},
		{edit("f", "three", "3"), []string{"not found"}},
		{edit("f", "  deep thing", "x"), []string{"Lines 4 to 4 differ from it only in white space"}},
		{edit("f", "deep thong", "x"), []string{"Lines 4 to 4 are the nearest match", "deep thing"}},
		{edit("f", "two", "two"), []string{"same"}},
		{edit("f", "", "x"), []string{"exists already"}},
		{edit("none", "a", "x"), []string{"does not exist"}},
		{edit("bin", "a", "x"), []string{"binary"}},
		{edit("latin", "\u00e9", "\u4e2d"), []string{"Latin-1"}},
		{edit(".", "a", "x"), []string{"directory"}},
		{edit(" ", "a", "x"), []string{"empty"}},
		{edit("a\x00", "a", "x"), []string{"NUL"}},
	} {
		b.Refused(files.Edit(), c.args, c.parts...)
	}
	b.Holds("f", "one\ntwo\none\n\tdeep thing\n")
}

func TestEditCreates(t *testing.T) {
	b := tooltest.New(t)
	var o observation
	b.OK(files.Edit(), edit("new/dir/f", "", "text\n"), &o)
	b.Holds("new/dir/f", "text\n")
	if !o.IsNewFile || o.OldContent != nil || *o.NewContent != "text\n" || o.Replacements != 0 {
		t.Errorf("observation %+v", o)
	}
}

func TestWrite(t *testing.T) {
	b := tooltest.New(t)
	var o observation
	b.OK(files.Write(), map[string]any{"file_path": "d/f", "content": "a\nb\n"}, &o)
	b.Holds("d/f", "a\nb\n")
	if !o.IsNewFile || o.OldContent != nil {
		t.Errorf("observation %+v", o)
	}
	b.Write("crlf", "a\r\n")
	b.OK(files.Write(), map[string]any{"file_path": b.Path("crlf"), "content": "x\ny\n"}, &o)
	b.Holds("crlf", "x\r\ny\r\n")
	if o.IsNewFile || o.OldContent == nil || *o.NewContent != "x\ny\n" {
		t.Errorf("observation %+v", o)
	}
	if info, err := os.Stat(b.Path("crlf")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	b.Refused(files.Write(), map[string]any{"file_path": ".", "content": "x"}, "directory")
	b.Refused(files.Write(), map[string]any{"file_path": "crlf/x", "content": "x"})
	b.Refused(files.Write(), map[string]any{"file_path": "/proc/none", "content": "x"})
}

func TestRead(t *testing.T) {
	b := tooltest.New(t)
	b.Write("f", "1\n2\n3\n4")
	b.Write("empty", "")
	b.Write("crlf", "a\r\nb\r\n")
	for _, c := range []struct {
		args      map[string]any
		content   string
		shown     [2]int
		truncated bool
	}{
		{map[string]any{"file_path": "f"}, "1\n2\n3\n4", [2]int{}, false},
		{map[string]any{"file_path": "f", "offset": 1, "limit": 2}, "2\n3\n", [2]int{2, 3}, true},
		{map[string]any{"file_path": "f", "offset": 3}, "4", [2]int{4, 4}, true},
		{map[string]any{"file_path": "f", "limit": 9}, "1\n2\n3\n4", [2]int{}, false},
		{map[string]any{"file_path": "empty"}, "", [2]int{}, false},
		{map[string]any{"file_path": "crlf"}, "a\nb\n", [2]int{}, false},
	} {
		var o observation
		text := b.OK(files.Read(), c.args, &o)
		if o.FileContent != c.content || o.IsTruncated != c.truncated || (o.LinesShown != nil) != c.truncated || !strings.HasPrefix(text, c.content) {
			t.Errorf("%v: %+v, text %q", c.args, o, text)
		}
		if o.LinesShown != nil && *o.LinesShown != c.shown {
			t.Errorf("%v: lines %v", c.args, *o.LinesShown)
		}
	}
	b.Refused(files.Read(), map[string]any{"file_path": "f", "offset": 4}, "4 lines")
	b.Refused(files.Read(), map[string]any{"file_path": "none"}, "does not exist")
	b.Refused(files.Read(), map[string]any{"file_path": b.Write("bin", "\x00")}, "binary")
	b.Refused(files.Read(), map[string]any{"file_path": b.Write("big", strings.Repeat("x", 10<<20+1))}, "larger than 10 MB")
}

func TestReadIsCut(t *testing.T) {
	b := tooltest.New(t)
	b.Write("long", strings.Repeat("a line of text\n", 3000))
	var o observation
	if text := b.OK(files.Read(), map[string]any{"file_path": "long"}, &o); !strings.Contains(text, "Lines 1 to 1000 of 3000. Read on with offset 1000.") {
		t.Errorf("text ends %q", text[len(text)-100:])
	}
	b.Write("wide", strings.Repeat(strings.Repeat("\u00fc", 30_000)+"\n", 3))
	b.OK(files.Read(), map[string]any{"file_path": "wide"}, &o)
	if *o.LinesShown != [2]int{1, 1} || !o.IsTruncated {
		t.Errorf("lines %v", *o.LinesShown)
	}
	b.Write("one", strings.Repeat("x", 200_000))
	if b.OK(files.Read(), map[string]any{"file_path": "one"}, &o); len(o.FileContent) != 50_000 || !o.IsTruncated {
		t.Errorf("%d bytes", len(o.FileContent))
	}
}

func TestList(t *testing.T) {
	b := tooltest.New(t)
	b.Write("a.txt", "abc")
	b.Write("sub/b.txt", "b")
	b.Write("sub/deep/c.txt", "c")
	b.Write(".hidden", "")
	b.Write("bad\xff", "")
	for recursive, want := range map[bool]string{false: ".hidden a.txt bad\ufffd sub", true: ".hidden a.txt bad\ufffd sub b.txt deep"} {
		var o observation
		text := b.OK(files.List(), map[string]any{"recursive": recursive}, &o)
		var names []string
		for _, e := range o.Entries {
			names = append(names, e.Name)
			if e.IsDirectory != (e.Name == "sub" || e.Name == "deep") || e.Modified == "" || !strings.Contains(text, e.Path) {
				t.Errorf("entry %+v", e)
			}
		}
		if got := strings.Join(names, " "); got != want || o.DirPath != b.Dir || o.TotalCount != len(names) || o.IsTruncated {
			t.Errorf("%q %+v", got, o)
		}
	}
	for i := range 600 {
		b.Write(fmt.Sprintf("many/%03d", i), "")
	}
	var o observation
	if text := b.OK(files.List(), map[string]any{"dir_path": "many"}, &o); len(o.Entries) != 500 || o.TotalCount != 600 || !o.IsTruncated || !strings.Contains(text, "100 more") {
		t.Errorf("%d of %d", len(o.Entries), o.TotalCount)
	}
	b.Refused(files.List(), map[string]any{"dir_path": "none"}, "no such file")
	b.Refused(files.List(), map[string]any{"dir_path": "a.txt"}, "not a directory")
}

func TestGolden(t *testing.T) {
	b := tooltest.New(t)
	b.Write("f", "a\nb\n")
	b.Golden(files.Read(), map[string]any{"file_path": "f", "limit": 1}, "testdata/read.json")
	b.Golden(files.Edit(), edit("f", "a", "c"), "testdata/edit.json")
	b.Golden(files.Edit(), edit("f", "a", "c"), "testdata/edit_error.json")
	b.Golden(files.Write(), map[string]any{"file_path": "g", "content": "x"}, "testdata/write.json")
}

func TestSpecs(t *testing.T) {
	for _, c := range []struct {
		tool     tool.Tool
		name     string
		readOnly bool
		schema   string
	}{
		{files.Edit(), "Edit", false, `"required":["file_path","old_string","new_string"]`},
		{files.Read(), "ReadFile", true, `"required":["file_path"]`},
		{files.Write(), "WriteFile", false, `"required":["file_path","content"]`},
		{files.List(), "ListDirectory", true, `"dir_path"`},
	} {
		s := c.tool.Spec()
		if s.ActionKind != c.name+"Action" || s.ObservationKind != c.name+"Observation" || s.ReadOnly != c.readOnly || !strings.Contains(string(s.Parameters), c.schema) {
			t.Errorf("%s: %s %s %v %s", s.Name, s.ActionKind, s.ObservationKind, s.ReadOnly, s.Parameters)
		}
	}
}
