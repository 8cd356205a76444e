package compat_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestCanvas runs a session of the published web UI in a browser, against the agent
// server of one directory.
func TestCanvas(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		missing(t, "canvas", "node is not installed (apt-get install nodejs)")
	}
	if out, err := exec.Command(node, "-p", "process.versions.node.split('.')[0] >= 20").Output(); err != nil || string(out) != "true\n" {
		missing(t, "canvas", "what drives the browser needs Node.js 20 or later")
	}
	browser, err := exec.LookPath("chromium")
	if err != nil {
		missing(t, "canvas", "chromium is not installed (apt-get install chromium)")
	}
	script, err := filepath.Abs("canvas/session.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("canvas/node_modules/@openhands/agent-canvas/build/index.html"); err != nil {
		missing(t, "canvas", "the web UI is not installed: run scripts/clients")
	}
	agentSession(t, client{argv: []string{node, script}, env: []string{"COMPAT_BROWSER=" + browser}, limit: 3 * time.Minute})
}
