package fileeditor_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/sandboxd"
	"parley/internal/tool"
	"parley/internal/tool/fileeditor"
	"parley/internal/tool/tooltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// box is a sandbox daemon in this process with an editor.
type box struct {
	testing.TB
	tool tool.Tool
	env  *tool.Env
	dir  string
}

func newBox(t testing.TB) *box {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "work")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(root, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- sandboxd.Serve(ctx, listener, sandboxd.Options{WorkingDir: dir}) }()
	client := sandboxd.NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	})
	id := "editor-" + filepath.Base(filepath.Dir(root))
	env := &tool.Env{ConversationID: id, WorkingDir: dir, Hands: client}
	t.Cleanup(func() {
		client.Close()
		stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		_ = os.RemoveAll(env.StateDir())
	})
	return &box{TB: t, tool: fileeditor.New(), env: env, dir: dir}
}

type observation struct {
	Kind       string         `json:"kind"`
	Content    []content.Part `json:"content"`
	IsError    bool           `json:"is_error"`
	Command    string         `json:"command"`
	Path       string         `json:"path"`
	PrevExist  bool           `json:"prev_exist"`
	OldContent *string        `json:"old_content"`
	NewContent *string        `json:"new_content"`
}

func (o observation) text() string { return content.JoinText(o.Content) }

func (b *box) call(command, path string, more map[string]any) observation {
	b.Helper()
	args := map[string]any{"command": command, "path": path}
	for k, v := range more {
		args[k] = v
	}
	raw, err := json.Marshal(args)
	if err != nil {
		b.Fatal(err)
	}
	action, err := b.tool.Parse(raw)
	if err != nil {
		b.Fatalf("parse %s: %v", raw, err)
	}
	result, err := b.tool.Run(context.Background(), b.env, action)
	if err != nil {
		b.Fatalf("run %s: %v", raw, err)
	}
	var o observation
	if err := json.Unmarshal(result.Observation, &o); err != nil {
		b.Fatal(err)
	}
	if o.Kind != "FileEditorObservation" || o.Command != command || o.IsError != result.IsError {
		b.Errorf("observation %s", result.Observation)
	}
	return o
}

func (b *box) ok(o observation) observation {
	b.Helper()
	if o.IsError {
		b.Fatalf("%s %s: %s", o.Command, o.Path, o.text())
	}
	return o
}

func (b *box) refused(o observation, parts ...string) {
	b.Helper()
	if !o.IsError {
		b.Fatalf("%s %s is no error: %s", o.Command, o.Path, o.text())
	}
	for _, part := range parts {
		b.contains(o.text(), part)
	}
}

func (b *box) contains(text, part string) {
	b.Helper()
	if !strings.Contains(text, part) {
		b.Errorf("%q is missing in %q", part, text)
	}
}

func (b *box) write(name, text string) string {
	b.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		b.Fatal(err)
	}
	return path
}

func (b *box) holds(path, want string) {
	b.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	if string(got) != want {
		b.Errorf("%s holds %q, want %q", filepath.Base(path), got, want)
	}
}

func TestCreate(t *testing.T) {
	b := newBox(t)
	path := filepath.Join(b.dir, "a/b/new.txt")
	o := b.ok(b.call("create", path, map[string]any{"file_text": "one\ntwo"}))
	b.holds(path, "one\ntwo")
	if o.PrevExist || o.OldContent != nil || o.NewContent == nil || *o.NewContent != "one\ntwo" || o.Path != path {
		t.Errorf("observation %+v", o)
	}
	b.refused(b.call("create", path, map[string]any{"file_text": "x"}), "exists already", "str_replace")
	b.holds(path, "one\ntwo")
	b.refused(b.call("create", b.dir, map[string]any{"file_text": "x"}), "is a directory")
	b.refused(b.call("create", filepath.Join(b.dir, "z"), nil), "file_text")
	b.refused(b.call("create", path+"/below", map[string]any{"file_text": "x"}))
	b.ok(b.call("create", filepath.Join(b.dir, "empty"), map[string]any{"file_text": ""}))
	b.holds(filepath.Join(b.dir, "empty"), "")
}

func TestPaths(t *testing.T) {
	b := newBox(t)
	b.write("here.txt", "x\n")
	b.refused(b.call("view", "here.txt", nil), "not absolute", b.dir+"/here.txt")
	b.refused(b.call("view", "", nil), "path is empty")
	b.refused(b.call("view", "/here.txt", nil), "does not exist", "Did you mean "+b.dir+"/here.txt")
	b.refused(b.call("view", "/a\x00b", nil), "NUL")
	o := b.ok(b.call("view", b.dir+"/sub/../here.txt", nil))
	if o.Path != b.dir+"/here.txt" {
		t.Errorf("path %q", o.Path)
	}
	view := b.tool.Claims([]byte(`{"command":"view","path":"/a/./b"}`))
	create := b.tool.Claims([]byte(`{"command":"create","path":"/a/b"}`))
	if !tool.Conflict(view, create) || tool.Conflict(view, view) || !tool.Conflict(create, create) {
		t.Errorf("claims %v and %v", view, create)
	}
}

func TestView(t *testing.T) {
	b := newBox(t)
	path := b.write("f.txt", "one\ntwo\nthree\nfour")
	for _, c := range []struct {
		lines any
		want  string
	}{
		{nil, path + ", 4 lines:\n     1\tone\n     2\ttwo\n     3\tthree\n     4\tfour\n"},
		{[]int{2, 3}, path + ", lines 2 to 3 of 4:\n     2\ttwo\n     3\tthree\n"},
		{[]int{3, -1}, path + ", lines 3 to 4 of 4:\n     3\tthree\n     4\tfour\n"},
		{[]int{4, 99}, path + ", lines 4 to 4 of 4:\n     4\tfour\n[The file ends at line 4.]\n"},
		{"[1, 1]", path + ", lines 1 to 1 of 4:\n     1\tone\n"},
	} {
		o := b.ok(b.call("view", path, map[string]any{"view_range": c.lines}))
		if o.text() != c.want {
			t.Errorf("%v: %q, want %q", c.lines, o.text(), c.want)
		}
	}
	for _, bad := range [][]int{{0, 2}, {5, 6}, {3, 2}, {1}, {1, 2, 3}, {-1, 2}} {
		b.refused(b.call("view", path, map[string]any{"view_range": bad}), "view_range")
	}
	empty := b.write("empty", "")
	b.contains(b.ok(b.call("view", empty, nil)).text(), "is empty")
	b.refused(b.call("view", empty, map[string]any{"view_range": []int{1, 2}}))
}

func TestViewIsCut(t *testing.T) {
	b := newBox(t)
	path := b.write("long.txt", strings.Repeat("a line of text\n", 3000))
	o := b.ok(b.call("view", path, nil))
	if n := len([]rune(o.text())); n > 16_000 || n < 15_000 {
		t.Errorf("%d characters", n)
	}
	var next int
	if _, err := fmt.Sscanf(o.text()[strings.Index(o.text(), "view_range ["):], "view_range [%d, 3000]", &next); err != nil {
		t.Fatalf("no hint where to go on: %v", err)
	}
	o = b.ok(b.call("view", path, map[string]any{"view_range": []int{next, next}}))
	b.contains(o.text(), fmt.Sprintf("%6d\ta line of text", next))

	path = b.write("wide.txt", strings.Repeat("\u00fc", 40_000)+"\nsecond\n")
	o = b.ok(b.call("view", path, nil))
	if n := len([]rune(o.text())); n > 16_000 {
		t.Errorf("%d characters", n)
	}
	b.contains(o.text(), "longer than fits")
	b.contains(o.text(), "view_range [2, 2]")
}

func TestViewOther(t *testing.T) {
	b := newBox(t)
	b.refused(b.call("view", b.write("bin", "ELF\x00\x01\x02"), nil), "binary")
	b.refused(b.call("view", b.write("big", strings.Repeat("x", 10<<20+1)), nil), "larger than 10 MB")
	b.refused(b.call("view", filepath.Join(b.dir, "none"), nil), "does not exist")
	b.refused(b.call("view", "/dev/null", nil))

	png := "\x89PNG\r\n\x1a\n\x00data"
	o := b.ok(b.call("view", b.write("pic.PNG", png), nil))
	want := "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(png))
	if len(o.Content) != 2 || len(o.Content[1].ImageURLs) != 1 || o.Content[1].ImageURLs[0] != want {
		t.Errorf("image %+v", o.Content)
	}
}

func TestViewDirectory(t *testing.T) {
	b := newBox(t)
	for _, name := range []string{"a.txt", "sub/b.txt", "sub/deep/c.txt", ".git/config", ".env", "sub/.hidden"} {
		b.write(name, "x")
	}
	o := b.ok(b.call("view", b.dir, nil))
	d := b.dir
	want := d + ", two levels deep:\n" + d + "/\n" + d + "/a.txt\n" + d + "/sub/\n" + d + "/sub/b.txt\n" + d + "/sub/deep/\n" +
		"[2 hidden entries of this directory are not shown. Use `ls -la` in the terminal to see them.]\n"
	if o.text() != want {
		t.Errorf("%q, want %q", o.text(), want)
	}
	b.refused(b.call("view", b.dir, map[string]any{"view_range": []int{1, 2}}), "directory")
	b.refused(b.call("str_replace", b.dir, map[string]any{"old_str": "a", "new_str": "b"}))
	for i := range 1200 {
		b.write(fmt.Sprintf("many/file-%04d", i), "")
	}
	o = b.ok(b.call("view", b.dir+"/many", nil))
	b.contains(o.text(), "more entries are not shown")
	if n := len([]rune(o.text())); n > 16_000 {
		t.Errorf("%d characters", n)
	}
}

func TestStrReplace(t *testing.T) {
	for _, c := range []struct{ name, before, old, new, after string }{
		{"plain", "a\nb\nc\n", "b", "B", "a\nB\nc\n"},
		{"lines", "a\nb\nc\n", "a\nb\n", "x\n", "x\nc\n"},
		{"delete", "a\nb\nc\n", "b\n", "", "a\nc\n"},
		{"all", "only", "only", "", ""},
		{"no final newline", "a\nb", "b", "c", "a\nc"},
		{"stripped", "a\n  foo()\nc\n", "\nfoo()\n\n", "\nbar()\n\n", "a\n  bar()\nc\n"},
		{"crlf", "a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", "x\r\ny\r\nz\r\nc\r\n"},
		{"crlf given", "a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n"},
		{"mixed ends", "a\r\nb\nc\n", "a\nb", "x\ny", "x\r\ny\nc\n"},
		{"mixed ends kept", "a\r\nb\nc\r\n", "b\nc", "x\ny", "a\r\nx\ny\r\n"},
		{"regexp characters", "a.*b\naxxb\n", "a.*b", "$1\\0", "$1\\0\naxxb\n"},
		{"unicode", "gr\u00fc\u00df\n", "\u00fc", "u", "gru\u00df\n"},
		{"bom", "\xef\xbb\xbfa\nb\n", "a", "x", "\xef\xbb\xbfx\nb\n"},
		{"utf-16 le", "\xff\xfea\x00\n\x00\xfc\x00", "a\n", "\U0001F600", "\xff\xfe\x3d\xd8\x00\xde\xfc\x00"},
		{"utf-16 be", "\xfe\xff\x00a\x00\r\x00\n\x00b\x00\r\x00\n", "a\nb", "c\nd", "\xfe\xff\x00c\x00\r\x00\n\x00d\x00\r\x00\n"},
		{"latin-1", "caf\xe9\nb\n", "caf\u00e9", "th\u00e9", "th\xe9\nb\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBox(t)
			path := b.write("f", c.before)
			o := b.ok(b.call("str_replace", path, map[string]any{"old_str": c.old, "new_str": c.new}))
			b.holds(path, c.after)
			if o.OldContent == nil || o.NewContent == nil || !o.PrevExist {
				t.Errorf("observation %+v", o)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("mode %v %v", info.Mode(), err)
			}
			b.ok(b.call("undo_edit", path, nil))
			b.holds(path, c.before)
		})
	}
}

func TestStrReplaceRefused(t *testing.T) {
	b := newBox(t)
	path := b.write("f", "x\ny\nx = 1\n\tif a {\n\t\tb\n\t}\nx\n")
	latin := b.write("latin", "caf\xe9\n")
	for _, c := range []struct {
		path  string
		args  map[string]any
		parts []string
	}{
		{path, map[string]any{"old_str": "x", "new_str": "z"}, []string{"occurs 3 times", "lines 1, 3, 7"}},
		{path, map[string]any{"old_str": "nope", "new_str": "z"}, []string{"was not found"}},
		{path, map[string]any{"old_str": "if a {\nb\n}", "new_str": "z"}, []string{"Lines 4 to 6 differ from it only in white space"}},
		{path, map[string]any{"old_str": "y", "new_str": "y"}, []string{"same"}},
		{path, map[string]any{"old_str": "", "new_str": "y"}, []string{"old_str"}},
		{path, map[string]any{"new_str": "y"}, []string{"old_str"}},
		{path, map[string]any{"old_str": "y"}, []string{"new_str"}},
		{path + ".none", map[string]any{"old_str": "y", "new_str": "z"}, []string{"does not exist"}},
		{latin, map[string]any{"old_str": "caf", "new_str": "\u4e2d"}, []string{"Latin-1"}},
		{b.write("bin", "a\x00b"), map[string]any{"old_str": "a", "new_str": "c"}, []string{"binary"}},
	} {
		b.refused(b.call("str_replace", c.path, c.args), c.parts...)
	}
	b.holds(path, "x\ny\nx = 1\n\tif a {\n\t\tb\n\t}\nx\n")
	b.holds(latin, "caf\xe9\n")
}

func TestSnippet(t *testing.T) {
	b := newBox(t)
	path := b.write("f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n")
	o := b.ok(b.call("str_replace", path, map[string]any{"old_str": "6\n", "new_str": "six\nsix and a half\n"}))
	want := "Edited " + path + ". The result:\n"
	for i, line := range []string{"2", "3", "4", "5", "six", "six and a half", "7", "8", "9", "10"} {
		want += fmt.Sprintf("%6d\t%s\n", i+2, line)
	}
	if !strings.HasPrefix(o.text(), want) {
		t.Errorf("%q, want %q", o.text(), want)
	}
}

func TestInsert(t *testing.T) {
	for _, c := range []struct {
		before string
		line   int
		text   string
		after  string
	}{
		{"a\nb\n", 0, "x", "x\na\nb\n"},
		{"a\nb\n", 1, "x\ny\n", "a\nx\ny\nb\n"},
		{"a\nb\n", 2, "x\n", "a\nb\nx\n"},
		{"a\nb", 2, "x\n", "a\nb\nx"},
		{"a\nb", 1, "x", "a\nx\nb"},
		{"", 0, "x", "x\n"},
		{"\n", 1, "x", "\nx\n"},
		{"a\r\nb\r\n", 1, "x\ny", "a\r\nx\r\ny\r\nb\r\n"},
		{"a\n", 1, "", "a\n\n"},
	} {
		b := newBox(t)
		path := b.write("f", c.before)
		b.ok(b.call("insert", path, map[string]any{"insert_line": c.line, "new_str": c.text}))
		b.holds(path, c.after)
	}
	b := newBox(t)
	path := b.write("f", "a\nb\n")
	b.refused(b.call("insert", path, map[string]any{"insert_line": 3, "new_str": "x"}), "from 0 to 2")
	b.refused(b.call("insert", path, map[string]any{"insert_line": 1}), "new_str")
	b.refused(b.call("insert", path, map[string]any{"new_str": "x"}), "insert_line")
	b.holds(path, "a\nb\n")
}

func TestUndo(t *testing.T) {
	b := newBox(t)
	path := filepath.Join(b.dir, "f")
	b.refused(b.call("undo_edit", path, nil), "no edit")
	b.ok(b.call("create", path, map[string]any{"file_text": "v0\n"}))
	for i := range 12 {
		b.ok(b.call("str_replace", path, map[string]any{"old_str": fmt.Sprintf("v%d\n", i), "new_str": fmt.Sprintf("v%d\n", i+1)}))
	}
	b.tool = fileeditor.New() // a restart of the server
	for i := 11; i >= 2; i-- {
		o := b.ok(b.call("undo_edit", path, nil))
		b.holds(path, fmt.Sprintf("v%d\n", i))
		if o.NewContent == nil || *o.NewContent != fmt.Sprintf("v%d\n", i) {
			t.Errorf("new content %v", o.NewContent)
		}
	}
	b.refused(b.call("undo_edit", path, nil), "no edit")

	fresh := filepath.Join(b.dir, "fresh")
	b.ok(b.call("create", fresh, map[string]any{"file_text": "x"}))
	b.ok(b.call("undo_edit", fresh, nil))
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("the created file is still there: %v", err)
	}
	b.refused(b.call("create", path, map[string]any{"file_text": "x"}))
	b.refused(b.call("undo_edit", path, nil), "no edit")
}

func TestReadOnlyFile(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write every file")
	}
	b := newBox(t)
	path := b.write("f", "a\n")
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	b.refused(b.call("str_replace", path, map[string]any{"old_str": "a", "new_str": "b"}))
	b.holds(path, "a\n")
}

// TestLargeContents: what would bloat the log is left out of the observation.
func TestLargeContents(t *testing.T) {
	b := newBox(t)
	path := b.write("f", strings.Repeat("x", 2<<20)+"\nend\n")
	o := b.ok(b.call("str_replace", path, map[string]any{"old_str": "end", "new_str": "END"}))
	if o.OldContent != nil || o.NewContent != nil {
		t.Error("contents above 1 MiB are in the observation")
	}
}

func TestNoSandbox(t *testing.T) {
	b := newBox(t)
	client := sandboxd.NewClient(func(context.Context) (net.Conn, error) { return nil, os.ErrClosed })
	defer client.Close()
	b.env.Hands = client
	_, err := b.tool.Run(context.Background(), b.env, []byte(`{"command":"view","path":"/x","kind":"FileEditorAction"}`))
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("error %v", err)
	}
}

func TestSchema(t *testing.T) {
	spec := fileeditor.New().Spec()
	if spec.Kind != "FileEditorTool" || spec.ActionKind != "FileEditorAction" || spec.ObservationKind != "FileEditorObservation" {
		t.Errorf("spec %+v", spec)
	}
	for _, c := range []struct{ args, action string }{
		{`{"command":"insert","path":"/a","insert_line":"0","new_str":["a","b"],"extra":1,"view_range":null}`,
			`{"command":"insert","path":"/a","new_str":"a\nb","insert_line":0,"kind":"FileEditorAction"}`},
		{`{"command":"str_replace","path":"/a","old_str":"a","new_str":""}`,
			`{"command":"str_replace","path":"/a","old_str":"a","new_str":"","kind":"FileEditorAction"}`},
	} {
		action, err := fileeditor.New().Parse([]byte(c.args))
		if err != nil || string(action) != c.action {
			t.Errorf("%s: %s %v", c.args, action, err)
		}
	}
}

func FuzzEdit(f *testing.F) {
	shared := newBox(f)
	f.Add([]byte("a\nb\n"), "b", "c", 1)
	f.Add([]byte("\xff\xfea\x00"), "a", "\u4e2d", 0)
	f.Add([]byte("a\r\nb\nc\xe9"), "a\nb", "", 3)
	path := filepath.Join(shared.dir, "f")
	f.Fuzz(func(t *testing.T, data []byte, old, repl string, line int) {
		b := &box{TB: t, tool: shared.tool, env: shared.env, dir: shared.dir}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"view", "str_replace", "insert"} {
			o := b.call(command, path, map[string]any{"old_str": old, "new_str": repl, "insert_line": max(0, min(line, 1<<20))})
			if command != "view" && !o.IsError {
				b.ok(b.call("undo_edit", path, nil))
			}
			b.holds(path, string(data))
		}
	})
}

// TestNearest: what is not found is shown where it is most alike.
func TestNearest(t *testing.T) {
	b := newBox(t)
	path := b.write("f", "package main\n\nfunc main() {\n\tfmt.Println(\"hello\")\n\treturn\n}\n")
	b.refused(b.call("str_replace", path, map[string]any{"old_str": "\tfmt.Println(\"hallo\")\n\treturn", "new_str": "x"}),
		"was not found", "Lines 4 to 5 are the nearest match:\n     4\t\tfmt.Println(\"hello\")\n     5\t\treturn\n")
	o := b.call("str_replace", path, map[string]any{"old_str": "something else entirely, which is nowhere", "new_str": "x"})
	if b.refused(o, "was not found"); strings.Contains(o.text(), "nearest") {
		t.Errorf("a match that is none: %q", o.text())
	}
	big := b.write("big", strings.Repeat(strings.Repeat("abc ", 300)+"\n", 8000))
	o = b.call("str_replace", big, map[string]any{"old_str": strings.Repeat(strings.Repeat("abc ", 299)+"x\n", 30), "new_str": "x"})
	if b.refused(o, "was not found"); len(o.text()) > 4000 {
		t.Errorf("%d bytes", len(o.text()))
	}
}

// TestUndoOfOthers: undoing must not take the changes of other programs with it.
func TestUndoOfOthers(t *testing.T) {
	b := newBox(t)
	path := b.write("f", "a\n")
	b.ok(b.call("str_replace", path, map[string]any{"old_str": "a", "new_str": "b"}))
	b.write("f", "c\n")
	b.refused(b.call("undo_edit", path, nil), "changed by something else")
	b.holds(path, "c\n")
	b.write("f", "b\n")
	b.ok(b.call("undo_edit", path, nil))
	b.holds(path, "a\n")
	b.ok(b.call("str_replace", path, map[string]any{"old_str": "a", "new_str": "b"}))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	b.ok(b.call("undo_edit", path, nil)) // nothing is lost by bringing it back
	b.holds(path, "a\n")
}

func TestPlanning(t *testing.T) {
	b := tooltest.New(t)
	editor, plan := fileeditor.NewPlanning(), b.Path(".agents_tmp/PLAN.md")
	other := b.Write("code.go", "package a\n")
	var o observation
	b.OK(editor, map[string]any{"command": "create", "path": plan, "file_text": "one\ntwo\n"}, &o)
	if o.Kind != "PlanningFileEditorObservation" || o.PrevExist || o.NewContent == nil {
		t.Errorf("observation %+v", o)
	}
	b.OK(editor, map[string]any{"command": "str_replace", "path": b.Path("x/../.agents_tmp/./PLAN.md"), "old_str": "two", "new_str": "2"}, nil)
	b.OK(editor, map[string]any{"command": "insert", "path": plan, "insert_line": 2, "new_str": "3"}, nil)
	b.Holds(".agents_tmp/PLAN.md", "one\n2\n3\n")
	b.OK(editor, map[string]any{"command": "undo_edit", "path": plan}, nil)
	b.OK(editor, map[string]any{"command": "view", "path": other}, nil)
	for _, command := range []string{"create", "str_replace", "insert", "undo_edit"} {
		b.Refused(editor, map[string]any{"command": command, "path": other, "file_text": "x", "old_str": "a", "new_str": "x", "insert_line": 0},
			"only the plan", plan)
		b.Refused(editor, map[string]any{"command": command, "path": b.Path("PLAN.md"), "file_text": "x", "old_str": "a", "new_str": "x", "insert_line": 0}, "only the plan")
	}
	b.Holds("code.go", "package a\n")
	if err := os.Remove(plan); err != nil {
		t.Fatal(err)
	}
	b.Link(other, ".agents_tmp/PLAN.md")
	b.Refused(editor, map[string]any{"command": "str_replace", "path": plan, "old_str": "a", "new_str": "x"}, "symbolic link")
	b.Holds("code.go", "package a\n")
}
