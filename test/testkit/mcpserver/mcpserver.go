// Package mcpserver builds a small MCP server that runs inside sandboxes: a static
// program, so that it needs nothing but itself. What it does, its arguments say; see
// package program.
package mcpserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var build = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "mcpserver-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "mcpserver")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", file, "parley/test/testkit/mcpserver/program")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, &buildError{err, string(out)}
	}
	return os.ReadFile(file)
})

type buildError struct {
	err error
	out string
}

func (e *buildError) Error() string { return e.err.Error() + "\n" + e.out }

// Program is the program's file, built once for all tests of a binary.
func Program(t testing.TB) []byte {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatalf("mcpserver: %v", err)
	}
	return program
}
