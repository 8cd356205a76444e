package compat_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestPythonSDK runs a whole session of the published Python SDK.
func TestPythonSDK(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("python/session.py")
	if err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(filepath.Dir(script), ".venv", "bin", "python")
	if _, err := os.Stat(filepath.Join(filepath.Dir(script), ".venv", "installed")); err != nil {
		missing(t, "python-client", "the Python SDK is not installed: run scripts/clients")
	}
	sessions(t, client{argv: []string{python, script}, limit: 4 * time.Minute, env: []string{
		"OPENHANDS_SUPPRESS_BANNER=1", "LITELLM_LOCAL_MODEL_COST_MAP=True", // no talk, no look at the network
	}})
}
