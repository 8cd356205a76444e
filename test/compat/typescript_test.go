package compat_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestTypeScriptClient runs a whole session of the published TypeScript client.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		missing(t, "typescript-client", "node is not installed (apt-get install nodejs)")
	}
	script, err := filepath.Abs("typescript/session.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("typescript/node_modules/@openhands/typescript-client"); err != nil {
		missing(t, "typescript-client", "the TypeScript client is not installed: run scripts/clients")
	}
	sessions(t, client{argv: []string{node, script}, limit: 4 * time.Minute})
}
