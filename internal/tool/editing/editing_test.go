package editing_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/tool"
	"parley/internal/tool/editing"
	"parley/internal/tool/fileeditor"
	"parley/internal/tool/files"
	"parley/internal/tool/patch"
	"parley/internal/tool/tooltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = map[string]any

// way is one of the ways to change "old" into "new" in a file.
type way struct {
	name string
	tool tool.Tool
	args func(b *tooltest.Box, file string) object
}

// ways are all there are. The file's second line is "old".
func ways() []way {
	return []way{
		{"str_replace", fileeditor.New(), func(b *tooltest.Box, f string) object {
			return object{"command": "str_replace", "path": b.Path(f), "old_str": "old", "new_str": "new"}
		}},
		{"insert", fileeditor.New(), func(b *tooltest.Box, f string) object {
			return object{"command": "insert", "path": b.Path(f), "insert_line": 1, "new_str": "new"}
		}},
		{"edit", files.Edit(), func(_ *tooltest.Box, f string) object {
			return object{"file_path": f, "old_string": "old", "new_string": "new"}
		}},
		{"write_file", files.Write(), func(_ *tooltest.Box, f string) object {
			return object{"file_path": f, "content": "first\nnew\nthird\u00fc\n"}
		}},
		{"apply_patch", patch.New(), func(_ *tooltest.Box, f string) object {
			return object{"patch": "*** Begin Patch\n*** Update File: " + f + "\n-old\n+new\n*** End Patch"}
		}},
	}
}

// makers are the ways to make a file.
func makers() []way {
	return []way{
		{"create", fileeditor.New(), func(b *tooltest.Box, f string) object {
			return object{"command": "create", "path": b.Path(f), "file_text": "made\n"}
		}},
		{"edit", files.Edit(), func(_ *tooltest.Box, f string) object {
			return object{"file_path": f, "old_string": "", "new_string": "made\n"}
		}},
		{"write_file", files.Write(), func(_ *tooltest.Box, f string) object { return object{"file_path": f, "content": "made\n"} }},
		{"apply_patch", patch.New(), func(_ *tooltest.Box, f string) object {
			return object{"patch": "*** Begin Patch\n*** Add File: " + f + "\n+made\n*** End Patch"}
		}},
	}
}

// lookers only look.
func lookers() []way {
	return []way{
		{"view", fileeditor.New(), func(b *tooltest.Box, f string) object { return object{"command": "view", "path": b.Path(f)} }},
		{"planning view", fileeditor.NewPlanning(), func(b *tooltest.Box, f string) object { return object{"command": "view", "path": b.Path(f)} }},
		{"read_file", files.Read(), func(_ *tooltest.Box, f string) object { return object{"file_path": f} }},
		{"list_directory", files.List(), func(_ *tooltest.Box, f string) object { return object{"dir_path": f} }},
	}
}

func undo(b *tooltest.Box, file string) {
	b.Helper()
	b.OK(fileeditor.New(), object{"command": "undo_edit", "path": b.Path(file)}, nil)
}

func utf16le(s string) string {
	out := "\xff\xfe"
	for _, r := range s {
		out += string([]byte{byte(r), byte(r >> 8)})
	}
	return out
}

func utf16be(s string) string {
	out := "\xfe\xff"
	for _, r := range s {
		out += string([]byte{byte(r >> 8), byte(r)})
	}
	return out
}

// TestKept: what an edit does not name stays as it is, and can be had back.
func TestKept(t *testing.T) {
	plain := func(s string) string { return s }
	for _, form := range []struct {
		name   string
		encode func(string) string
		ending string
	}{
		{"utf-8", plain, "\n"},
		{"crlf", func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }, "\n"},
		{"bom", func(s string) string { return "\xef\xbb\xbf" + s }, "\n"},
		{"utf-16 le", utf16le, "\n"},
		{"utf-16 be with crlf", func(s string) string { return utf16be(strings.ReplaceAll(s, "\n", "\r\n")) }, "\n"},
		{"latin-1", func(s string) string { return strings.ReplaceAll(s, "\u00fc", "\xfc") }, "\n"},
		{"no newline at the end", plain, ""},
		{"stray returns", func(s string) string {
			return strings.ReplaceAll(strings.ReplaceAll(s, "\u00fc", "\u00fc\r"), "\n", "\r\n")
		}, "\n"},
	} {
		for _, w := range ways() {
			t.Run(form.name+"/"+w.name, func(t *testing.T) {
				if form.name == "stray returns" && w.name == "write_file" {
					t.Skip("it keeps no lines")
				}
				b := tooltest.New(t)
				before := form.encode("first\nold\nthird\u00fc" + form.ending)
				after := "first\nnew\nthird\u00fc" + form.ending
				switch w.name {
				case "insert":
					after = "first\nnew\nold\nthird\u00fc" + form.ending
				case "write_file":
					after = "first\nnew\nthird\u00fc\n"
				}
				file := b.Write("f", before)
				if err := os.Chmod(file, 0o755|os.ModeSetgid); err != nil {
					t.Fatal(err)
				}
				b.OK(w.tool, w.args(b, "f"), nil)
				b.Holds("f", form.encode(after))
				undo(b, "f")
				b.Holds("f", before)
				if info, err := os.Stat(file); err != nil || info.Mode() != 0o755|os.ModeSetgid {
					t.Errorf("mode %v %v", info.Mode(), err)
				}
				if tree := b.Tree(); !slices.Equal(tree, []string{"f"}) {
					t.Errorf("there is %v", tree)
				}
			})
		}
	}
}

// TestOutside: a path in the working directory is not followed out of it, whether it
// is there or not; its real path may be named.
func TestOutside(t *testing.T) {
	b := tooltest.New(t)
	outside := t.TempDir()
	if err := os.WriteFile(outside+"/f", []byte("first\nold\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.Link(outside+"/f", "file")
	b.Link(outside, "dir")
	b.Link("dir/f", "chain")
	b.Link("../../../../../../.."+outside+"/f", "up")
	b.Link(outside+"/none", "dangling")
	for _, w := range append(ways(), lookers()...) {
		for _, file := range []string{"file", "dir/f", "chain", "up", "dir/../file"} {
			b.Refused(w.tool, w.args(b, file), "symbolic link", outside+"/f")
		}
		b.Refused(w.tool, w.args(b, "dangling"))
	}
	for _, w := range lookers() {
		if w.name != "read_file" {
			b.Refused(w.tool, w.args(b, "dir"), "symbolic link", outside)
		}
	}
	for _, w := range makers() {
		b.Refused(w.tool, w.args(b, "dir/made"), "symbolic link", outside+"/made")
		b.Refused(w.tool, w.args(b, "dir/a/b/made"), "symbolic link", outside+"/a/b/made")
		b.Refused(w.tool, w.args(b, "dangling"))
	}
	remove := object{"patch": "*** Begin Patch\n*** Delete File: file\n*** End Patch"}
	b.Refused(patch.New(), remove, "not inside")
	move := object{"patch": "*** Begin Patch\n*** Update File: file\n*** Move to: here\n*** End Patch"}
	b.Refused(patch.New(), move, "not inside")
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("outside there is %v, %v", entries, err)
	}
	if got, err := os.ReadFile(outside + "/f"); err != nil || string(got) != "first\nold\n" {
		t.Errorf("outside: %q %v", got, err)
	}
	b.OK(fileeditor.New(), object{"command": "str_replace", "path": outside + "/f", "old_str": "old", "new_str": "new"}, nil)
	b.OK(fileeditor.New(), object{"command": "create", "path": outside + "/deep/n", "file_text": "x"}, nil)
	b.OK(files.Read(), object{"file_path": outside + "/deep/n"}, nil)
	b.Refused(patch.New(), object{"patch": "*** Begin Patch\n*** Delete File: " + outside + "/f\n*** End Patch"}, "not inside")
}

// TestLinksInside are followed and stay links, also where the working directory is
// one itself.
func TestLinksInside(t *testing.T) {
	for _, w := range ways() {
		b := tooltest.New(t)
		b.Write("real/f", "first\nold\n")
		b.Link("real", "way")
		b.Link("way/f", "f")
		if err := os.Symlink(b.Dir, b.Dir+"2"); err != nil {
			t.Fatal(err)
		}
		b.Env.WorkingDir, b.Dir = b.Dir+"2", b.Dir+"2"
		b.OK(w.tool, w.args(b, "f"), nil)
		undo(b, "f")
		b.Holds("real/f", "first\nold\n")
		for _, name := range []string{"f", "way"} {
			if info, err := os.Lstat(b.Path(name)); err != nil || info.Mode()&os.ModeSymlink == 0 {
				t.Errorf("%s: %s is no link any more: %v", w.name, name, err)
			}
		}
	}
	for _, w := range makers() {
		b := tooltest.New(t)
		b.Write("real/x", "")
		b.Link("real", "way")
		b.OK(w.tool, w.args(b, "way/new/f"), nil)
		b.Holds("real/new/f", "made\n")
	}
}

// TestNoFiles: what is no regular file is refused, at once.
func TestNoFiles(t *testing.T) {
	b := tooltest.New(t)
	b.Write("d/f", "")
	if err := unix.Mkfifo(b.Path("pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", b.Path("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	names := []string{"pipe", "socket", "d", "loop", "f/below"}
	if err := unix.Mknod(b.Path("zero"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err == nil {
		names = append(names, "zero")
	}
	b.Link("loop", "loop")
	b.Write("f", "old\n")
	before := b.Tree()
	start := time.Now()
	for _, name := range names {
		for _, w := range append(ways(), makers()...) {
			b.Refused(w.tool, w.args(b, name))
		}
		for _, w := range lookers() {
			if name != "d" {
				b.Refused(w.tool, w.args(b, name))
			}
		}
		b.Refused(patch.New(), object{"patch": "*** Begin Patch\n*** Delete File: " + name + "\n*** End Patch"})
	}
	for _, name := range []string{"/dev/zero", "/dev/null", "/dev/tty"} {
		b.Refused(fileeditor.New(), object{"command": "str_replace", "path": name, "old_str": "a", "new_str": "b"})
		b.Refused(fileeditor.New(), object{"command": "view", "path": name})
		b.Refused(files.Write(), object{"file_path": name, "content": "x"})
	}
	for _, name := range []string{"d/", "f/", "n/"} {
		for _, w := range makers()[1:3] {
			b.Refused(w.tool, w.args(b, name), "slash")
		}
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	if after := b.Tree(); !slices.Equal(before, after) {
		t.Errorf("there is %v", after)
	}
}

func TestUnfit(t *testing.T) {
	b := tooltest.New(t)
	b.Write("binary", "first\nold\n\x00\x01")
	b.Write("huge", "first\nold\n"+strings.Repeat("x", editing.MaxFile))
	b.Write("latin", "first\nold\ncaf\xe9")
	for _, w := range ways() {
		b.Refused(w.tool, w.args(b, "binary"), "binary")
		b.Refused(w.tool, w.args(b, "huge"), "larger than 10 MB")
	}
	b.Refused(files.Write(), object{"file_path": "latin", "content": "\u4e2d"}, "Latin-1", "iconv")
	b.Write("nearly", "first\nold\n"+strings.Repeat("x", editing.MaxFile-20))
	long := strings.Repeat("y", 100)
	b.Refused(fileeditor.New(), object{"command": "str_replace", "path": b.Path("nearly"), "old_str": "old", "new_str": long}, "larger than 10 MB")
	b.Refused(files.Edit(), object{"file_path": "nearly", "old_string": "old", "new_string": long}, "larger than 10 MB")
}

// TestHardLinks: the other name keeps what it held, as with any tool that replaces a
// file as a whole.
func TestHardLinks(t *testing.T) {
	for _, w := range ways() {
		b := tooltest.New(t)
		if err := os.Link(b.Write("f", "first\nold\n"), b.Path("other")); err != nil {
			t.Fatal(err)
		}
		b.OK(w.tool, w.args(b, "f"), nil)
		b.Holds("other", "first\nold\n")
	}
}

// meddler is a sandbox in which a program changes a file just before a tool does.
type meddler struct {
	tool.Hands
	meddle func()
}

func (m *meddler) ChangeFiles(ctx context.Context, root string, changes []tool.FileChange) error {
	m.meddle()
	return m.Hands.ChangeFiles(ctx, root, changes)
}

// TestChangedMeanwhile: a change by a program between reading and writing is never
// lost.
func TestChangedMeanwhile(t *testing.T) {
	for _, w := range ways() {
		b := tooltest.New(t)
		b.Write("f", "first\nold\n")
		b.Env.Hands = &meddler{b.Env.Hands, func() { b.Write("f", "first\nold\nby a program\n") }}
		b.Refused(w.tool, w.args(b, "f"), "changed meanwhile")
		b.Holds("f", "first\nold\nby a program\n")
		b.Refused(fileeditor.New(), object{"command": "undo_edit", "path": b.Path("f")}, "no edit")
	}
	for _, w := range makers() {
		b := tooltest.New(t)
		b.Env.Hands = &meddler{b.Env.Hands, func() { b.Write("f", "by a program\n") }}
		b.Refused(w.tool, w.args(b, "f"), "exists already")
		b.Holds("f", "by a program\n")
	}
	b := tooltest.New(t)
	b.Write("f", "first\nold\n")
	b.OK(fileeditor.New(), ways()[0].args(b, "f"), nil)
	b.Env.Hands = &meddler{b.Env.Hands, func() { b.Write("f", "by a program\n") }}
	b.Refused(fileeditor.New(), object{"command": "undo_edit", "path": b.Path("f")}, "changed meanwhile")
	b.Holds("f", "by a program\n")
}

// TestOneWins: of edits that were computed from the same content, one is made.
func TestOneWins(t *testing.T) {
	b := tooltest.New(t)
	for round := range 10 {
		old := fmt.Sprint("round ", round)
		file := b.Write("f", old)
		won := make(chan string, 16)
		var group errgroup.Group
		for i := range cap(won) {
			group.Go(func() error {
				text := fmt.Sprint("edit ", i)
				_, err := editing.Replace(t.Context(), b.Env, file, []byte(old), []byte(text))
				if err == nil {
					won <- text
				} else if !fault.Is(err, fault.Conflict) {
					return err
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		if len(won) != 1 {
			t.Fatalf("%d edits were made", len(won))
		}
		b.Holds("f", <-won)
	}
}

// TestChangedSinceView: an edit works on what the file holds now, not on what was
// viewed.
func TestChangedSinceView(t *testing.T) {
	for _, w := range ways() {
		if w.name == "write_file" || w.name == "insert" {
			continue // replaces everything; counts lines
		}
		b := tooltest.New(t)
		b.Write("f", "first\nold\n")
		b.OK(fileeditor.New(), object{"command": "view", "path": b.Path("f")}, nil)
		run(b, "sed -i 's/first/changed first/' f")
		b.OK(w.tool, w.args(b, "f"), nil)
		b.Holds("f", "changed first\nnew\n")
		undo(b, "f")
		b.Holds("f", "changed first\nold\n")
	}
}

func run(b *tooltest.Box, command string) string {
	b.Helper()
	r, err := b.Env.Hands.Exec(b.Context(), tool.ExecRequest{Argv: []string{"sh", "-c", command}, Dir: b.Dir})
	if err != nil || r.ExitCode != 0 {
		b.Fatalf("%s: %+v %v", command, r, err)
	}
	return string(r.Stdout)
}

// TestTerminalSees: what a tool wrote is what a shell that runs reads next, and what
// the shell wrote is what a tool reads next.
func TestTerminalSees(t *testing.T) {
	b := tooltest.New(t)
	hands := b.Env.Hands
	if _, err := hands.OpenTerminal(t.Context(), tool.TerminalRequest{ID: "sh", Argv: []string{"sh"}, Dir: b.Dir, Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	var offset int64
	shell := func(n int, command string) string {
		t.Helper()
		text := fmt.Sprintf("%s; echo \"do\"ne-%d\n", command, n)
		if err := hands.WriteTerminal(t.Context(), "sh", []byte(text)); err != nil {
			t.Fatal(err)
		}
		out, err := hands.ReadTerminal(t.Context(), "sh", tool.TerminalRead{Offset: offset, Wait: 20 * time.Second, Until: fmt.Sprintf("done-%d", n)})
		if err != nil {
			t.Fatal(err)
		}
		offset = out.End
		return string(out.Data)
	}
	for i, w := range slices.Concat(makers(), ways()) {
		name := fmt.Sprintf("f%d", i)
		want := "made"
		if i >= len(makers()) {
			want = "new"
			shell(10*i, "printf 'first\\nold\\n' > "+name)
		}
		b.OK(w.tool, w.args(b, name), nil)
		if got := shell(10*i+1, "cat "+name); !strings.Contains(got, want) {
			t.Errorf("%s: the shell reads %q", w.name, got)
		}
		shell(10*i+2, "echo by the shell >> "+name)
		if got := b.OK(files.Read(), object{"file_path": name}, nil); !strings.Contains(got, "by the shell") {
			t.Errorf("%s: the tool reads %q", w.name, got)
		}
	}
	if err := hands.CloseTerminal(t.Context(), "sh"); err != nil {
		t.Fatal(err)
	}
}

// TestAtomic: a program that reads all the time sees one version or the other.
func TestAtomic(t *testing.T) {
	for _, w := range ways() {
		b := tooltest.New(t)
		old := "first\nold\n" + strings.Repeat("x", 50_000) + "\nend"
		file := b.Write("f", old)
		stop, torn := make(chan struct{}), make(chan string, 1)
		go func() {
			defer close(torn)
			for {
				select {
				case <-stop:
					return
				default:
				}
				data, err := os.ReadFile(file)
				if s := string(data); err != nil || s != old && !strings.HasPrefix(s, "first\nnew\n") || s != old && w.name != "write_file" && !strings.HasSuffix(s, "\nend") {
					torn <- fmt.Sprintf("%d bytes, %v", len(data), err)
					return
				}
			}
		}()
		for range 5 {
			b.OK(w.tool, w.args(b, "f"), nil)
			undo(b, "f")
		}
		close(stop)
		if text := <-torn; text != "" {
			t.Errorf("%s: %s", w.name, text)
		}
	}
}

// TestUndo: undo_edit takes back what any of the tools did, the last first.
func TestUndo(t *testing.T) {
	b := tooltest.New(t)
	b.Write("f", "first\nold\n")
	if err := os.Chmod(b.Path("f"), 0o755); err != nil {
		t.Fatal(err)
	}
	var was []string
	for _, w := range ways() {
		data, err := os.ReadFile(b.Path("f"))
		if err != nil {
			t.Fatal(err)
		}
		was = append(was, string(data))
		if w.name == "apply_patch" || w.name == "edit" {
			b.OK(files.Write(), object{"file_path": "f", "content": "first\nold\n" + w.name}, nil)
			was = append(was, "first\nold\n"+w.name)
		}
		b.OK(w.tool, w.args(b, "f"), nil)
	}
	b.OK(patch.New(), object{"patch": "*** Begin Patch\n*** Delete File: f\n*** End Patch"}, nil)
	undo(b, "f")
	if info, err := os.Stat(b.Path("f")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("brought back with mode %v, %v", info.Mode(), err)
	}
	for _, want := range slices.Backward(was) {
		undo(b, "f")
		b.Holds("f", want)
	}
	b.Refused(fileeditor.New(), object{"command": "undo_edit", "path": b.Path("f")}, "no edit")
	for _, w := range makers() {
		b.OK(w.tool, w.args(b, "made"), nil)
		undo(b, "made")
	}
	b.OK(patch.New(), object{"patch": "*** Begin Patch\n*** Update File: f\n*** Move to: g\n-old\n+new\n*** End Patch"}, nil)
	undo(b, "g")
	undo(b, "f")
	b.Holds("f", "first\nold\n")
	if tree := b.Tree(); !slices.Equal(tree, []string{"f"}) {
		t.Errorf("there is %v", tree)
	}
}

// TestUndoOutside: an undo does not follow a link that appeared meanwhile.
func TestUndoOutside(t *testing.T) {
	outside := t.TempDir() + "/f"
	for _, target := range []string{outside, outside + ".none"} {
		if err := os.WriteFile(outside, []byte("new\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		b := tooltest.New(t)
		b.Write("f", "old\n")
		b.OK(files.Edit(), object{"file_path": "f", "old_string": "old", "new_string": "new"}, nil)
		if err := os.Remove(b.Path("f")); err != nil {
			t.Fatal(err)
		}
		b.Link(target, "f")
		b.Refused(fileeditor.New(), object{"command": "undo_edit", "path": b.Path("f")}, "symbolic link")
		if got, err := os.ReadFile(outside); err != nil || string(got) != "new\n" {
			t.Errorf("outside: %q %v", got, err)
		}
		if _, err := os.Lstat(outside + ".none"); err == nil {
			t.Error("a file was made outside")
		}
	}
}

// TestPlanOutside: the plan is a file of its own, whatever links there are.
func TestPlanOutside(t *testing.T) {
	editor := fileeditor.NewPlanning()
	for _, link := range []string{"dangling", "file", "dir", "inside"} {
		b := tooltest.New(t)
		outside := t.TempDir()
		plan := b.Path(".agents_tmp/PLAN.md")
		b.OK(editor, object{"command": "create", "path": plan, "file_text": "one\n"}, nil)
		b.OK(editor, object{"command": "str_replace", "path": plan, "old_str": "one", "new_str": "two"}, nil)
		if err := os.RemoveAll(b.Path(".agents_tmp")); err != nil {
			t.Fatal(err)
		}
		switch link {
		case "dir":
			b.Link(outside, ".agents_tmp")
		case "inside":
			b.Write("src/PLAN.md", "two\n")
			b.Link("src", ".agents_tmp")
		default:
			if err := os.Mkdir(b.Path(".agents_tmp"), 0o755); err != nil {
				t.Fatal(err)
			}
			if link == "file" {
				if err := os.WriteFile(outside+"/f", []byte("two\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			b.Link(outside+"/f", ".agents_tmp/PLAN.md")
		}
		for _, command := range []string{"create", "str_replace", "insert", "undo_edit"} {
			b.Refused(editor, object{"command": command, "path": plan, "file_text": "x", "old_str": "two", "new_str": "x", "insert_line": 0})
		}
		if link == "inside" {
			b.Holds("src/PLAN.md", "two\n")
		}
		if entries, err := os.ReadDir(outside); err != nil || link == "file" && len(entries) != 1 || link != "file" && len(entries) != 0 {
			t.Errorf("%s: outside there is %v, %v", link, entries, err)
		}
	}
}

// TestReadOnly runs as a user without rights, if need be in a process of its own.
func TestReadOnly(t *testing.T) {
	if os.Geteuid() == 0 {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestReadOnly$")
		cmd.Dir, cmd.Env = "/", append(os.Environ(), "TMPDIR=/tmp", "HOME=/")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	for _, w := range ways() {
		b := tooltest.New(t)
		b.Write("f", "first\nold\n")
		b.Write("shut/f", "first\nold\n")
		for name, mode := range map[string]os.FileMode{"f": 0o444, "shut": 0o555} {
			if err := os.Chmod(b.Path(name), mode); err != nil {
				t.Fatal(err)
			}
		}
		b.Refused(w.tool, w.args(b, "f"), "permission denied")
		b.Refused(w.tool, w.args(b, "shut/f"), "permission denied")
		b.Holds("f", "first\nold\n")
		b.Holds("shut/f", "first\nold\n")
		for _, m := range makers() {
			b.Refused(m.tool, m.args(b, "shut/new"), "permission denied")
		}
		b.Refused(patch.New(), object{"patch": "*** Begin Patch\n*** Delete File: shut/f\n*** End Patch"}, "permission denied")
		if err := os.Chmod(b.Path("shut"), 0o755); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadDir(b.Path("shut")); err != nil || len(got) != 1 {
			t.Errorf("there is %v %v", got, err)
		}
	}
}

// TestHistoryIsBounded: the oldest edits are forgotten.
func TestHistoryIsBounded(t *testing.T) {
	b := tooltest.New(t)
	for i := range editing.MaxHistory + 3 {
		b.OK(files.Write(), object{"file_path": "f", "content": fmt.Sprint(i)}, nil)
	}
	entries, err := filepath.Glob(filepath.Join(b.Env.StateDir(), "undo", "*", "*"))
	if err != nil || len(entries) != editing.MaxHistory {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	for range editing.MaxHistory {
		undo(b, "f")
	}
	b.Refused(fileeditor.New(), object{"command": "undo_edit", "path": b.Path("f")}, "no edit")
	b.Holds("f", "2")
}
