package app

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

// TestInsideProgram unpacks the program that sandboxes run: once, again after an
// update, and again where what is there was damaged.
func TestInsideProgram(t *testing.T) {
	data := t.TempDir()
	carrying := func(program string) fstest.MapFS {
		return fstest.MapFS{"dist/parley-inside": {Data: []byte(program)}}
	}
	unpack := func(program string) os.FileInfo {
		t.Helper()
		path, err := insideProgram(carrying(program), data)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != program {
			t.Fatalf("unpacked %q, %v, not %q", got, err, program)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o755 {
			t.Errorf("the program's mode is %v; boxes run it as accounts that own nothing", info.Mode())
		}
		return info
	}
	first := unpack("one")
	if !os.SameFile(first, unpack("one")) {
		t.Error("the same program was written twice")
	}
	if os.SameFile(first, unpack("two")) {
		t.Error("a program that runs was written over")
	}
	if err := os.Truncate(filepath.Join(data, "programs", "parley-inside"), 1); err != nil {
		t.Fatal(err)
	}
	unpack("two")
	if left, err := os.ReadDir(filepath.Join(data, "programs")); err != nil || len(left) != 1 {
		t.Errorf("left beside the program: %v, %v", left, err)
	}
	if path, err := insideProgram(fstest.MapFS{}, data); err != nil || path != "" {
		t.Errorf("without a program to carry: %q, %v", path, err)
	}
}
