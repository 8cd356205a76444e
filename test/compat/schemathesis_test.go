package compat_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"parley/test/testkit/parleytest"
)

// What is not sent: streams have no end; what ends the conversation or its sandbox
// leaves nothing to work on; an archive of a directory with files that cannot be read
// breaks off, as it must.
var notSent = []string{"delete_app_conversation", "delete_conversation",
	"agent_delete_conversation", "delete_sandbox", "pause_sandbox", "archive_directory"}

// TestSchemathesis sends all that the server's document allows, what is just outside of
// it, and what is not meant by anybody. Nothing may be an error of the server: 501 is
// of what is not built, 503 of what a sandbox does not have.
func TestSchemathesis(t *testing.T) {
	t.Parallel()
	python := python(t, "schemathesis", "python")
	g := newGenerated(t, "python")
	id := g.server.Conversation("say something")
	g.server.WaitStatus(id, "finished")
	box := g.server.AgentOf(id)
	key := "known"
	for path, body := range map[string]map[string]any{
		"/api/v1/settings/profiles/" + key: {"llm": map[string]any{"model": "openai/x", "base_url": g.model.URL() + "/v1"}},
		"/api/v1/secrets":                  {"name": key, "value": "v"},
	} {
		if code := g.server.Call("POST", path, body, nil); code != 201 {
			t.Fatalf("POST %s: %d", path, code)
		}
	}
	g.write("schemathesis.toml", []byte(fmt.Sprintf(`
headers = { "X-Session-API-Key" = %q }
request-timeout = 30
[parameters]
conversation_id = %q
sandbox_id = %q
name = %q
secret_id = %q
[generation]
max-examples = 5
deterministic = true
[checks]
enabled = false
[checks.not_a_server_error]
enabled = true
expected-statuses = ["2xx", "4xx", 501, 503]
`, parleytest.Key, id, box.Sandbox, key, key)))
	arguments := []string{"-m", "schemathesis.cli", "--config-file", "schemathesis.toml", "run", "openapi.json", "--url", g.server.URL,
		"--phases", "coverage,fuzzing", "--workers", "2", "--no-color", "--exclude-path-regex", "/stream(-start)?$"}
	for _, op := range notSent {
		arguments = append(arguments, "--exclude-operation-id", op)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, arguments...)
	cmd.Dir = g.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("schemathesis: %v\n%.30000s", err, out)
	}
	if !strings.Contains(string(out), "Tested: ") {
		t.Errorf("nothing was tested:\n%.5000s", out)
	}
	if code := g.server.Call("GET", "/ready", nil, nil); code != 200 {
		t.Errorf("the server is not ready any more: %d", code)
	}
}
