package sandboxtest

import (
	"strings"
	"testing"
	"time"

	"parley/internal/sandbox"
	"parley/internal/tool"
)

// console checks that a pseudo terminal works inside, keeps what is typed while the box
// is paused, and ends with what was started on it when it is closed.
func (s *suite) console(t *testing.T) {
	if s.NoPrograms {
		return
	}
	b := s.backend(t)
	box := s.box(t, b, sandbox.Spec{})
	client := hands(box)
	defer client.Close()
	c, err := client.StartConsole(s.context(t), tool.ConsoleRequest{Rows: 33, Cols: 99, Argv: []string{"sh", "-c",
		`sleep 1000 & echo $! > pid; test -t 0 && stty size; while read -r line; do echo "<$line>"; stty size; done`}})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	defer func() { _ = c.Close() }()
	shown, buf := "", make([]byte, 4096)
	shows := func(want string) {
		t.Helper()
		for !strings.Contains(shown, want) {
			n, err := c.Read(buf)
			if shown += string(buf[:n]); err != nil {
				t.Fatalf("%q is not shown, but %q: %v", want, shown, err)
			}
		}
	}
	types := func(text string) {
		t.Helper()
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatalf("type: %v", err)
		}
	}
	shows("33 99\r\n")
	if b.Caps().Pause {
		if err := box.Pause(s.context(t)); err != nil {
			t.Fatalf("pause: %v", err)
		}
		types("paused\n")
		if err := box.Resume(s.context(t)); err != nil {
			t.Fatalf("resume: %v", err)
		}
		shows("<paused>\r\n")
	}
	if err := c.Resize(44, 111); err != nil {
		t.Fatalf("resize: %v", err)
	}
	types("resized\n")
	shows("44 111\r\n")
	const living = `{ read -r line < /proc/$(cat pid)/stat && case "${line##*) }" in Z*) ;; *) echo lives;; esac; } 2>/dev/null || true`
	if s.sh(t, box, living) == "" {
		t.Error("the child does not live while its terminal does")
	}
	_ = c.Close()
	for deadline := time.Now().Add(s.Patience); s.sh(t, box, living) != ""; {
		if time.Now().After(deadline) {
			t.Fatal("a child outlives its terminal")
		}
	}
}
