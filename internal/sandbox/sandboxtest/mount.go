package sandboxtest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"parley/internal/sandbox"
)

// mountInto checks that directories of the host appear where the spec says, and
// that what is made inside belongs to the directory's owner outside.
func (s *suite) mountInto(t *testing.T, b sandbox.Backend) {
	project, manual := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(project, "given"), []byte("given\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	box := s.box(t, b, sandbox.Spec{Mounts: []sandbox.Mount{
		{Source: project, Target: sandbox.WorkingDir},
		{Source: manual, Target: "/manual", ReadOnly: true},
	}})
	got := s.sh(t, box, `cat given; echo made > made; mkdir -p a/b; touch /manual/x 2>/dev/null || echo refused; chmod 4755 made 2>/dev/null || echo no-suid
		bounds=$(grep CapBnd /proc/self/status | cut -f 2); [ $(( (0x$bounds >> 31) & 1 )) = 0 ] && echo no-file-capabilities`)
	if got != "given\nrefused\nno-suid\nno-file-capabilities" {
		t.Errorf("inside: %q", got)
	}
	info, err := os.Stat(filepath.Join(project, "made"))
	if err != nil {
		t.Fatalf("the file made inside: %v", err)
	}
	dir, err := os.Stat(project)
	if err != nil {
		t.Fatal(err)
	}
	if owner(info) != owner(dir) {
		t.Errorf("made inside: owner %v, the directory's is %v", owner(info), owner(dir))
	}
	if err := b.Destroy(s.context(t), box.Handle()); err != nil {
		t.Fatalf("destroy: %v", err)
	}
	if _, err := os.Stat(filepath.Join(project, "made")); err != nil {
		t.Errorf("destroying the box removed the host's files: %v", err)
	}
}

func owner(info os.FileInfo) [2]uint32 {
	st := info.Sys().(*syscall.Stat_t)
	return [2]uint32{st.Uid, st.Gid}
}
