package terminal_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"parley/internal/tool"
)

// cost runs a command again and again in a sandbox that is a process of its own.
func cost(b *testing.B, command string) {
	box := newProcessBox(b)
	box.run("true")
	args, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		b.Fatal(err)
	}
	action, err := box.tool.Parse(args)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := box.tool.Run(context.Background(), box.env, action); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTrue is the cost of a command that costs bash nothing: all of it is ours.
// The promise is 2 ms.
func BenchmarkTrue(b *testing.B) { cost(b, "true") }

// BenchmarkAfterFailure has a $? to restore.
func BenchmarkAfterFailure(b *testing.B) { cost(b, "f() { return 42; }; f") }

// BenchmarkProgram has a program in it, fork and exec included.
func BenchmarkProgram(b *testing.B) { cost(b, "/bin/true") }

// BenchmarkLongCommand has a command of 64 KB, which is typed line by line.
func BenchmarkLongCommand(b *testing.B) {
	text := make([]byte, 64<<10)
	for i := range text {
		text[i] = 'x'
	}
	cost(b, ": "+string(text))
}

// BenchmarkShell is what a terminal without this package takes for a command: one
// write, one read, and bash.
func BenchmarkShell(b *testing.B) {
	hands := newProcessBox(b).env.Hands
	info, err := hands.OpenTerminal(context.Background(), tool.TerminalRequest{
		ID: "bare", Argv: []string{"bash", "--noprofile", "--norc", "--noediting", "-i"}, Rows: 50, Cols: 200,
	})
	if err != nil {
		b.Fatal(err)
	}
	at := info.End
	run := func(line, end string) {
		if err := hands.WriteTerminal(context.Background(), "bare", []byte(line)); err != nil {
			b.Fatal(err)
		}
		out, err := hands.ReadTerminal(context.Background(), "bare", tool.TerminalRead{Offset: at, Wait: time.Minute, Until: end})
		if err != nil {
			b.Fatal(err)
		}
		at = out.End
	}
	run("stty -echo; PS1=; echo rea''dy\n", "ready")
	for b.Loop() {
		run("true; echo done\n", "done")
	}
}

// BenchmarkOutput is the cost of 10 MB of output.
func BenchmarkOutput(b *testing.B) {
	b.SetBytes(10_000_000)
	cost(b, "head -c 10000000 /dev/zero | tr '\\0' x | fold -w 99")
}
