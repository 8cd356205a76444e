package terminal_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"parley/internal/tool/fileeditor"
	"parley/internal/tool/terminal"
)

// saved reads the file that a result names.
func (b *box) saved(o observation) []byte {
	b.Helper()
	_, rest, ok := strings.Cut(o.model, " "+o.SaveDir+"/output-")
	name, _, _ := strings.Cut(rest, ".txt")
	if !ok || !strings.HasPrefix(o.SaveDir, b.env.StateDir()) {
		b.Fatalf("no file is named in %q, directory %q", clip(o.model), o.SaveDir)
	}
	data, err := os.ReadFile(o.SaveDir + "/output-" + name + ".txt")
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// TestLongOutputIsSaved: an output that is too long for memory is in the file as a
// whole, piece by piece.
func TestLongOutputIsSaved(t *testing.T) {
	b := newBox(t, terminal.Config{})
	o := b.run("seq 1 1500000; printf '\\377\\033[31mend\\033[0m\\n'")
	if !strings.HasPrefix(o.text(), "1\n2\n3\n") || !strings.HasSuffix(o.text(), "\n1500000\n\ufffdend") {
		t.Errorf("head or tail is missing: %q", clip(o.text()))
	}
	if n := len(o.text()); n > 31_000 {
		t.Errorf("%d characters", n)
	}
	var want bytes.Buffer
	for i := range 1_500_000 {
		fmt.Fprintln(&want, i+1)
	}
	want.WriteString("\ufffdend\n")
	if got := b.saved(o); !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%d bytes were saved, want %d: %q", len(got), want.Len(), clip(string(got)))
	}
}

// TestEndlessLine: of an output without line ends and without end, head and tail are
// kept, in bounded memory and on a bounded piece of the disk.
func TestEndlessLine(t *testing.T) {
	b := newBox(t, terminal.Config{})
	b.run("true")
	peak := watchHeap(t)
	o := b.run("printf begin; head -c 150000000 /dev/zero | tr '\\0' x; echo; echo the end")
	if !strings.HasPrefix(o.text(), "beginxxx") || !strings.HasSuffix(o.text(), "xxx\nthe end") {
		t.Errorf("head or tail is missing: %q", clip(o.text()))
	}
	b.wantIn(o.text(), "Of 150000016 bytes the first 64 MiB and the last ones are in ")
	if used := peak(); used > 64<<20 {
		t.Errorf("%d MB of memory", used>>20)
	}
	saved := b.saved(o)
	if len(saved) < 64<<20 || len(saved) > 68<<20 || !bytes.HasPrefix(saved, []byte("beginxxx")) ||
		!bytes.HasSuffix(saved, []byte("xxx\nthe end\n")) || !bytes.Contains(saved, []byte(" bytes of output were not kept ...]")) {
		t.Errorf("%d bytes were saved: %q", len(saved), clip(string(saved)))
	}
	b.want(b.run("echo ready"), "ready", 0)
}

// watchHeap measures how much the heap grows until the returned function is called.
func watchHeap(t *testing.T) (peak func() uint64) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	before, most := heap(), uint64(0)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-tick.C:
				most = max(most, heap())
			case <-stop:
				tick.Stop()
				return
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-done
		return most - min(most, before)
	}
}

// TestSavedOutputsAreSwept: the oldest go, by number and by size.
func TestSavedOutputsAreSwept(t *testing.T) {
	b := newBox(t, terminal.Config{})
	dir := b.run("seq 1 20000").SaveDir
	old := filepath.Join(dir, "output-old.txt")
	for i, size := range []int64{100 << 20, 80 << 20} { // sparse: they take no room
		path := fmt.Sprintf("%s.%d", old, i)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Duration(i-2)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	exists := func(path string) bool { _, err := os.Stat(path); return err == nil }
	b.run("seq 1 20000")
	if !exists(old+".0") || !exists(old+".1") {
		t.Error("files were removed that fit")
	}
	if err := os.Truncate(old+".1", 150<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(old+".1", time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	b.run("seq 1 20000")
	if exists(old+".0") || !exists(old+".1") {
		t.Error("the oldest should have gone, and nothing else")
	}
	for range 25 {
		b.run("seq 1 20000")
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 20 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

// TestCutSecrets: a secret that lies across the place where an output is cut is
// hidden before.
func TestCutSecrets(t *testing.T) {
	const secret = "swordfish-swordfish"
	b := newBox(t, terminal.Config{})
	b.env.Mask = func(text string) string { return strings.ReplaceAll(text, secret, "<hidden>") }
	for shift := range len(secret) {
		o := b.run(fmt.Sprintf("printf 'a%%.0s' {1..%d}; printf %s; printf 'b%%.0s' {1..20000}; printf %s; printf 'c%%.0s' {1..%d}",
			15_000-shift, secret, secret, 15_000-shift))
		if strings.Contains(o.model, "sword") || strings.Contains(o.model, "fish") {
			t.Errorf("shift %d: a part of a secret is left", shift)
		}
	}
	o := b.run("echo " + secret + " &")
	o2 := b.run("wait; echo x")
	if all := o.text() + o2.model; strings.Contains(all, "sword") {
		t.Errorf("%q", all)
	}
}

// TestUnsavedOutput: a full disk, or a place that cannot be written, costs the file
// and nothing else.
func TestUnsavedOutput(t *testing.T) {
	b := newBox(t, terminal.Config{})
	if err := os.WriteFile(b.env.StateDir(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"seq 1 20000", "seq 1 600000"} {
		o := b.run(command)
		b.wantIn(o.text(), "could not be saved")
		if o.SaveDir != "" || o.ExitCode != 0 || !strings.HasPrefix(o.text(), "1\n2\n") {
			t.Errorf("directory %q, exit code %d", o.SaveDir, o.ExitCode)
		}
	}
}

// TestFilesAtOnce: what the terminal writes is there for the editor at once, and the
// other way round.
func TestFilesAtOnce(t *testing.T) {
	b := newBox(t, terminal.Config{})
	file := filepath.Join(b.env.WorkingDir, "file.txt")
	shell, editor := b.tool, fileeditor.New()
	edit := func(args map[string]any) {
		t.Helper()
		args["path"] = file
		b.tool = editor
		defer func() { b.tool = shell }()
		if r, err := b.start(t.Context(), args); err != nil || r.IsError {
			t.Fatalf("%v: %s %v", args, r.Observation, err)
		}
	}
	b.run("echo one >file.txt")
	edit(map[string]any{"command": "str_replace", "old_str": "one", "new_str": "two"})
	b.want(b.run("cat file.txt; echo three >>file.txt"), "two", 0)
	edit(map[string]any{"command": "str_replace", "old_str": "two\nthree", "new_str": "four"})
	b.want(b.run("cat file.txt; rm file.txt"), "four", 0)
	edit(map[string]any{"command": "create", "file_text": "five\n"})
	b.want(b.run("cat file.txt"), "five", 0)
}
