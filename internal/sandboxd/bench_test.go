package sandboxd_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/sandboxd"
	"parley/internal/tool"
)

// benchDaemon is a daemon process, so that client and daemon do not share a heap
// and limits are those of a sandbox.
func benchDaemon(b *testing.B) (*daemonProcess, *sandboxd.Client) {
	socket := newSocket(b)
	p := spawn(b, socket, "subreaper")
	return p, connect(b, socket)
}

func BenchmarkExecTrue(b *testing.B) {
	_, c := benchDaemon(b)
	for b.Loop() {
		if _, err := c.Exec(context.Background(), tool.ExecRequest{Argv: []string{"/bin/true"}}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHealth(b *testing.B) {
	_, c := benchDaemon(b)
	for b.Loop() {
		if _, err := c.Health(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTerminalCommand types a line and waits for its end.
func BenchmarkTerminalCommand(b *testing.B) {
	_, c := benchDaemon(b)
	open(b, c, "t", "bash", "--norc", "--noprofile")
	typeIn(b, c, "t", "stty -echo; PS1=; echo rea''dy\n")
	end := readUntil(b, c, "t", 0, "ready\r\n").End
	for i := 0; b.Loop(); i++ {
		typeIn(b, c, "t", fmt.Sprintf("echo mark-%d.\n", i))
		end = readUntil(b, c, "t", end, fmt.Sprintf("mark-%d.", i)).End
	}
}

// BenchmarkTerminalEcho is the way of one keystroke.
func BenchmarkTerminalEcho(b *testing.B) {
	_, c := benchDaemon(b)
	open(b, c, "t", "sh", "-c", "stty raw -echo; echo ready; exec cat")
	end := readUntil(b, c, "t", 0, "ready").End
	for b.Loop() {
		typeIn(b, c, "t", "x")
		out, err := c.ReadTerminal(context.Background(), "t", tool.TerminalRead{Offset: end, Wait: patience})
		if err != nil {
			b.Fatal(err)
		}
		end = out.End
	}
}

// BenchmarkProgramLine is the way of one line to a program with pipes and back.
func BenchmarkProgramLine(b *testing.B) {
	_, c := benchDaemon(b)
	p := startProgram(b, c, "cat")
	in := bufio.NewReader(p)
	line := []byte(strings.Repeat("x", 100) + "\n")
	for b.Loop() {
		if _, err := p.Write(line); err != nil {
			b.Fatal(err)
		}
		if _, err := in.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkProgramStart is from the start of a program to its end.
func BenchmarkProgramStart(b *testing.B) {
	_, c := benchDaemon(b)
	for b.Loop() {
		p := startProgram(b, c, "/bin/true")
		<-p.Done()
		_ = p.Close()
	}
}

func BenchmarkTerminal100MB(b *testing.B) {
	const size = 100 << 20
	for _, until := range []string{"", "a text that never comes"} {
		name := "read"
		if until != "" {
			name = "until"
		}
		b.Run(name, func(b *testing.B) {
			_, c := benchDaemon(b)
			b.SetBytes(size)
			for i := 0; b.Loop(); i++ {
				id := fmt.Sprint("t", i)
				open(b, c, id, "sh", "-c", fmt.Sprintf("stty raw; head -c %d /dev/zero", size))
				follow(b, c, id, until, size)
			}
		})
	}
}

func follow(b *testing.B, c *sandboxd.Client, id, until string, size int64) {
	var offset int64
	for {
		out, err := c.ReadTerminal(context.Background(), id, tool.TerminalRead{Offset: offset, Wait: patience, Until: until})
		if err != nil {
			b.Fatal(err)
		}
		offset = out.Offset + int64(len(out.Data))
		if out.Exited && offset == out.End {
			if out.End != size {
				b.Fatalf("%d bytes", out.End)
			}
			return
		}
	}
}

func BenchmarkWriteFile(b *testing.B) {
	_, c := benchDaemon(b)
	path := filepath.Join(b.TempDir(), "file")
	data := []byte(strings.Repeat("x", 10_000))
	for b.Loop() {
		if err := c.WriteFile(context.Background(), path, data, tool.WriteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkIdle reports what a daemon weighs that has run a command and has an
// idle terminal: memory that is its own, not the program's text.
func BenchmarkIdle(b *testing.B) {
	p, c := benchDaemon(b)
	open(b, c, "t", "cat")
	run(b, c, "true")
	for b.Loop() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.Process.Pid))
		if err != nil {
			b.Skip(err)
		}
		for line := range strings.Lines(string(text)) {
			var name string
			var kib float64
			if _, err := fmt.Sscan(line, &name, &kib); err == nil && name == "Private_Dirty:" {
				b.ReportMetric(kib, "KiB-private")
			}
		}
	}
}

// BenchmarkStart is from exec to the first answer.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		socket := newSocket(b)
		p := spawn(b, socket, "subreaper")
		conn, err := net.Dial("unix", socket)
		if err != nil {
			b.Fatal(err)
		}
		_ = conn.Close()
		_ = p.Process.Kill()
		<-p.exited
	}
}

// BenchmarkForkTrue is the floor of BenchmarkExecTrue: no daemon, no pipes.
func BenchmarkForkTrue(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}
