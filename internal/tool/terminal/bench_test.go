package terminal_test

import (
	"context"
	"testing"

	"parley/internal/tool/terminal"
)

// BenchmarkTrue is the cost of the shortest command, with a real daemon and bash.
func BenchmarkTrue(b *testing.B) {
	box := newBox(b, terminal.Config{})
	box.run("true")
	action, err := box.tool.Parse([]byte(`{"command":"true"}`))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := box.tool.Run(context.Background(), box.env, action); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOutput is the cost of 10 MB of output.
func BenchmarkOutput(b *testing.B) {
	box := newBox(b, terminal.Config{})
	box.run("true")
	action, err := box.tool.Parse([]byte(`{"command":"head -c 10000000 /dev/zero | tr '\\0' x | fold -w 99"}`))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(10_000_000)
	for b.Loop() {
		if _, err := box.tool.Run(context.Background(), box.env, action); err != nil {
			b.Fatal(err)
		}
	}
}
