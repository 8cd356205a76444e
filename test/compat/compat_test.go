// Package compat_test drives the real binary with clients that others wrote and
// published, as they are: whole sessions with a model that answers by a script.
// scripts/clients installs the clients, pinned by lock files; what is not installed
// is skipped, unless PARLEY_TEST_REQUIRE names it.
//
// A session is a program in the client's language. It tells of each of its steps in
// a line of JSON, and asks in the same way for what only this side can do.
package compat_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/test/testkit/openaitest"
	"parley/test/testkit/parleytest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	parleytest.Cleanup()
	os.Exit(code)
}

// requireVar lists with commas what must not be skipped.
const requireVar = "PARLEY_TEST_REQUIRE"

// missing skips a test, or fails it where its client is required.
func missing(t *testing.T, client, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv(requireVar), ","), client) {
		t.Fatalf("%s, and %s requires %s", why, requireVar, client)
	}
	t.Skip(why)
}

// client is a published client, ready to run a session.
type client struct {
	argv  []string // of the session
	env   []string // further environment
	limit time.Duration
}

// line is what a session says: a step that ended, or something to do.
type line struct {
	Step   string `json:"step"`
	Status string `json:"status"` // ok, failed, skipped
	Detail string `json:"detail"`
	Do     string `json:"do"` // restart: kill the server like a crash, and start it again
}

// sessions runs a client's program against a server with all APIs, where it works in
// one sandbox with the owner's key (a sandbox's own opens no settings), and against an
// agent server. Each step is a subtest.
func sessions(t *testing.T, c client) {
	t.Run("serve", func(t *testing.T) {
		model := openaitest.New(t)
		server := parleytest.Start(t, parleytest.Options{})
		server.UseModel(model.URL()+"/v1", nil)
		session(t, c, server, model, server.Agent().Base, "/workspace/project")
	})
	t.Run("agent-server", func(t *testing.T) { agentSession(t, c) })
}

// agentSession runs a client's program against the agent server of a directory.
func agentSession(t *testing.T, c client) {
	t.Helper()
	model := openaitest.New(t)
	dir, err := os.MkdirTemp("", "compat-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // what a sandbox made there may be another user's
	server := parleytest.Start(t, parleytest.Options{Agent: dir})
	if code := server.Call("PATCH", "/api/settings", map[string]any{"agent_settings_diff": map[string]any{"llm": map[string]any{
		"model": "openai/test-model", "api_key": "sk-secret-of-the-user", "base_url": model.URL() + "/v1"}}}, nil); code != 200 {
		t.Fatalf("PATCH /api/settings: %d", code)
	}
	session(t, c, server, model, server.URL, dir)
}

// session runs a client's program in a directory.
func session(t *testing.T, c client, server *parleytest.Server, model *openaitest.Server, base, project string) {
	t.Helper()
	model.Handle(answer)
	c.env = append([]string{"COMPAT_PROJECT=" + project, "COMPAT_KEY=" + parleytest.Key, "COMPAT_MODEL=" + model.URL() + "/v1"}, c.env...)
	run(t, c, server, base)
}

// program runs a client's program against any server.
func program(t *testing.T, c client, base string) {
	t.Helper()
	run(t, c, nil, base)
}

// run runs a client's program against an address, and restarts the server when the
// program asks for it.
func run(t *testing.T, c client, server *parleytest.Server, base string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), c.limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	home := t.TempDir()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "COMPAT_HOST=" + base, "DO_NOT_TRACK=1"}, c.env...)
	cmd.Dir = home
	var stderr strings.Builder
	cmd.Stderr = &stderr
	replies, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := follow(t, server, out, replies)
	if err := cmd.Wait(); err != nil || !ended {
		t.Errorf("the session broke off: %v\n%s", err, stderr.String())
	}
	if t.Failed() {
		t.Logf("the session wrote:\n%s", stderr.String())
	}
}

// follow reports the steps of a session, and does what it asks for. It tells whether
// the session came to its end.
func follow(t *testing.T, server *parleytest.Server, out io.Reader, replies io.Writer) bool {
	t.Helper()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Logf("the session said %s", lines.Text()) // a client's own talk
			continue
		}
		switch {
		case l.Do == "restart":
			server.Kill()
			server.Again()
			if _, err := io.WriteString(replies, "done\n"); err != nil {
				t.Error(err)
			}
		case l.Do == "end":
			return true
		case l.Step != "":
			step(t, l)
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	return false
}

func step(t *testing.T, l line) {
	t.Run(strings.ReplaceAll(l.Step, " ", "_"), func(t *testing.T) {
		switch l.Status {
		case "ok":
		case "skipped":
			t.Skip(l.Detail)
		default:
			t.Error(l.Detail)
		}
	})
}

// answer is the model's script: what the last message of the user begins with says
// what it does.
func answer(req *openaitest.Request) openaitest.Reply {
	if len(req.Tools) == 0 || strings.Contains(req.LastUser(), "<question>") {
		return openaitest.Text("forty-two")
	}
	// Messages that follow each other are one to a model: the last line counts.
	said := strings.Split(strings.TrimSpace(req.LastUser()), "\n")
	verb, rest, _ := strings.Cut(said[len(said)-1], " ")
	done := results(req) > 0
	switch {
	case done:
		// Not at once: pieces of an answer that is there already are sent to nobody.
		return openaitest.Reply{Text: "It is done.", ChunkDelay: 20 * time.Millisecond}
	case verb == "slowly":
		return openaitest.Reply{Text: "Slowly said: " + rest, ChunkDelay: 100 * time.Millisecond}
	case verb == "run":
		return openaitest.Tool("terminal", map[string]any{"command": rest, "security_risk": "LOW"})
	case verb == "write":
		return openaitest.Tool("file_editor", map[string]any{"command": "create", "path": rest, "file_text": "made by a tool\n", "security_risk": "LOW"})
	case verb == "wait":
		return openaitest.Reply{Hang: true}
	case verb == "finish":
		return openaitest.Tool("finish", map[string]any{"message": rest})
	}
	return openaitest.Reply{Text: "You said: " + verb + " " + rest}
}

// results counts the tool results after the last message of the user.
func results(req *openaitest.Request) int {
	n := 0
	for _, m := range req.Messages {
		switch m.Role {
		case "user":
			n = 0
		case "tool":
			n++
		}
	}
	return n
}
