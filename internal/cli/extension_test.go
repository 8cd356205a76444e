package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/internal/cli"
)

const trustPath = "/api/v1/app-conversations/" + testConv + "/trust"

// asking is a server whose conversation asks two questions, which try to take the
// terminal over.
func asking(t *testing.T, entries ...entry) *server {
	t.Helper()
	s := newServer(t, entries...)
	s.onMessage = runs
	s.override["GET "+trustPath] = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"questions":[{"subject":"directory /repo","hash":"h1","runs":["hook PreToolUse: ./guard.sh","server s: npx \u001b[2Jevil\u202e"]},
			{"subject":"plugin p","hash":"h2","runs":["script .openhands/setup.sh"]}]}`)
	}
	s.override["POST "+trustPath] = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"success":true}`) }
	return s
}

// decisions are the answers that the server got, "subject hash trusted".
func decisions(t *testing.T, s *server) []string {
	t.Helper()
	var all []string
	for _, call := range callsTo(s, "POST "+trustPath) {
		var d struct {
			Subject, Hash string
			Trusted       bool
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(call, "POST "+trustPath+" ")), &d); err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %s %v", d.Subject, d.Hash, d.Trusted))
	}
	return all
}

func TestTrustIsAskedBeforeTheFirstMessage(t *testing.T) {
	s := asking(t)
	c := startChat(t, s, cli.ChatOptions{Message: "q", Dir: t.TempDir()}, person())
	c.out.waitFor(t, "Trust it?", 1)
	for _, want := range []string{"directory /repo wants to run:", "hook PreToolUse: ./guard.sh", "server s: npx evil\\u202e"} {
		if !strings.Contains(c.out.String(), want) {
			t.Errorf("no %q in\n%s", want, c.out)
		}
	}
	if calls := callsTo(s, "send-message"); len(calls) != 0 {
		t.Errorf("said before the answer: %v", calls)
	}
	if start := callsTo(s, "POST /api/v1/app-conversations {"); len(start) != 1 || strings.Contains(start[0], "initial_message") {
		t.Errorf("started with %v", start)
	}
	c.typeLine("perhaps")
	c.out.waitFor(t, "Trust it?", 2)
	c.typeLine("yes")
	c.out.waitFor(t, "plugin p wants to run:", 1)
	c.typeLine("N")
	c.out.waitFor(t, "-- finished", 1)
	_ = c.keys.Close()
	c.wait()
	if got := decisions(t, s); !slices.Equal(got, []string{"directory /repo h1 true", "plugin p h2 false"}) {
		t.Errorf("decided %v", got)
	}
	if calls := callsTo(s, "send-message"); len(calls) != 1 {
		t.Errorf("said %v", calls)
	}
}

func TestTrustCanWait(t *testing.T) {
	s := asking(t)
	c := startChat(t, s, cli.ChatOptions{Message: "q", Dir: t.TempDir()}, person())
	for range 2 {
		c.out.waitFor(t, "Trust it?", 1)
		c.typeLine("later")
	}
	c.out.waitFor(t, "-- finished", 1)
	_ = c.keys.Close()
	c.wait()
	if got := decisions(t, s); len(got) != 0 {
		t.Errorf("decided %v", got)
	}
}

// Without a terminal nothing is trusted by itself, and the way to answer is told.
func TestTrustWithoutATerminal(t *testing.T) {
	for name, c := range map[string]struct {
		opts cli.ChatOptions
		want []string
	}{
		"asked later": {cli.ChatOptions{Message: "q"}, nil},
		"detached":    {cli.ChatOptions{Message: "q", Detach: true}, nil},
		"--trust":     {cli.ChatOptions{Message: "q", Trust: true}, []string{"directory /repo h1 true", "plugin p h2 true"}},
		"resumed":     {cli.ChatOptions{Message: "q", Conversation: testConv, Trust: true}, []string{"directory /repo h1 true", "plugin p h2 true"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := asking(t)
			if c.opts.Conversation == "" {
				c.opts.Dir = t.TempDir()
			}
			chat := startChat(t, s, c.opts, cli.Terminal{})
			if exit := chat.wait(); exit != cli.ExitOK || chat.failure != nil {
				t.Fatalf("exit %d, %v", exit, chat.failure)
			}
			if got := decisions(t, s); !slices.Equal(got, c.want) {
				t.Errorf("decided %v", got)
			}
			hint := strings.Contains(chat.out.String(), "answer with: parley chat --conversation "+testConv)
			if hint != (c.want == nil) || !strings.Contains(chat.out.String(), "./guard.sh") {
				t.Errorf("%s", chat.out)
			}
			if calls := callsTo(s, "send-message"); len(calls) != 1 {
				t.Errorf("said %v", calls)
			}
		})
	}
}

// What changed since the question was shown is not trusted, and the session goes on.
func TestTrustOfWhatChanged(t *testing.T) {
	s := asking(t)
	s.override["POST "+trustPath] = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"detail":"The content of it is another one."}`)
	}
	c := startChat(t, s, cli.ChatOptions{Message: "q", Dir: t.TempDir(), Trust: true}, cli.Terminal{})
	if exit := c.wait(); exit != cli.ExitOK || !strings.Contains(c.out.String(), "The content of it is another one.") {
		t.Errorf("exit %d, %v\n%s", exit, c.failure, c.out)
	}
}

func notes(value string) string {
	return event("ConversationStateUpdateEvent", "environment", `"key":"agent_state","value":`+value)
}

func hookRan(members string) string {
	return event("HookExecutionEvent", "hook", `"hook_command":"./guard.sh \u001b[31m",`+members)
}

// extendedRun has one of everything that skills, hooks, servers and sub-agents leave in
// a log.
func extendedRun() []string {
	const task = `"id":"task_00000001","conversation_id":"` + testTask + `","agent":"code-explorer","description":"look\naround"`
	return []string{
		event("MessageEvent", "user", `"llm_message":{"role":"user","content":[{"type":"text","text":"use git"}]},"activated_skills":["git","e\u001b[31mvil"],"extended_content":[]`),
		event("MessageEvent", "environment", `"llm_message":{"role":"user","content":[{"type":"text","text":"all of the skill"}]},"activated_skills":["late"],"extended_content":[]`),
		status("running"),
		notes(`{"mcp_servers":[{"name":"fetch","state":"failed","tools":0,"detail":"uvx is not there"},{"name":"gh","state":"needs_login","tools":0}],"extension_problems":["repository: .agents/skills/x/SKILL.md:3: the name is not valid"],"trust_questions":[{"subject":"repository https://x/y","hash":"h","runs":["hook x"]}]}`),
		notes(`{"mcp_servers":[{"name":"gh","state":"needs_login","tools":0}],"trust_questions":[{"subject":"repository https://x/y","hash":"h","runs":["hook x"]}],"extension_problems":["repository: .agents/skills/x/SKILL.md:3: the name is not valid"]}`),
		terminal("c1", "rm -rf /"),
		hookRan(`"hook_event_type":"PreToolUse","tool_name":"terminal","success":true,"blocked":true,"exit_code":2,"reason":"too\ndangerous","action_id":"e"`),
		event("UserRejectObservation", "environment", `"tool_name":"terminal","tool_call_id":"c1","rejection_reason":"too dangerous","rejection_source":"hook","action_id":"e"`),
		hookRan(`"hook_event_type":"PostToolUse","tool_name":"terminal","success":false,"blocked":false,"exit_code":3`),
		hookRan(`"hook_event_type":"PostToolUse","tool_name":"terminal","success":false,"blocked":false,"exit_code":0,"error":"it timed out"`),
		hookRan(`"hook_event_type":"SessionStart","success":true,"blocked":false,"exit_code":0`),
		acts("task", "c2", "", `{"kind":"TaskAction","prompt":"look around","subagent_type":"code-explorer"}`),
		notes(`{"tasks":[{` + task + `,"status":"running"}]}`), notes(`{"tasks":[{` + task + `,"status":"running"}]}`),
		notes(`{"tasks":[{` + task + `,"status":"waiting_for_confirmation"}]}`), notes(`{"tasks":[{` + task + `,"status":"finished"}]}`),
		observes("task", "c2", `{"kind":"TaskObservation","content":[{"type":"text","text":"it is a library"}],"is_error":false,"task_id":"task_00000001"}`),
		hookRan(`"hook_event_type":"Stop","success":true,"blocked":true,"exit_code":2,"reason":"the tests fail"`),
		notes(`{"sandbox_incidents":[{"time":"2026-01-01T00:00:00Z","kind":"out_of_memory","text":"The sandbox reached its memory limit."}]}`),
		notes(`{"sandbox_incidents":[{"time":"2026-01-01T00:00:00Z","kind":"out_of_memory","text":"The sandbox reached its memory limit."},{"time":"2026-01-01T00:00:09Z","kind":"disk_full","text":"The sandbox's\ndisk is full."}]}`),
		says("agent", "done"), status("finished"),
	}
}

func TestExtensionsOnTheScreen(t *testing.T) {
	c := startChat(t, newServer(t, stored(extendedRun()...)...), cli.ChatOptions{Message: "q"}, cli.Terminal{})
	if exit := c.wait(); exit != cli.ExitOK || c.failure != nil {
		t.Errorf("exit %d, %v", exit, c.failure)
	}
	golden(t, "extensions.txt", c.out.String())
}

func TestNotesAreNoEventsInJSON(t *testing.T) {
	c := startChat(t, newServer(t, stored(extendedRun()...)...), cli.ChatOptions{Message: "q", JSON: true}, cli.Terminal{})
	c.wait()
	for line := range strings.Lines(c.out.String()) {
		if strings.HasPrefix(line, "{") && !json.Valid([]byte(line)) {
			t.Errorf("%s", line)
		}
	}
}

func TestSkills(t *testing.T) {
	c, asked := answering(t, "/api/v1/skills/search",
		`{"items":[{"name":"git","type":"knowledge","source":"user","triggers":["git","commit"],"description":null,"disabled":false}],"next_page_id":"1"}`,
		`{"items":[{"name":"e\u001b[31mvil","type":"repo","source":"global","triggers":null,"description":"says\nso","disabled":true}],"next_page_id":null}`,
		`{"items":[],"next_page_id":null}`)
	var out strings.Builder
	for range 2 {
		if err := cli.ShowSkills(t.Context(), c, &out); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "skills.txt", out.String())
	if got := strings.Join(*asked, " "); got != "limit=100 limit=100&page_id=1 limit=100" {
		t.Errorf("asked %s", got)
	}
}

func TestPutSkill(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{"pdf/SKILL.md": "---\nname: pdf\n---\nx", "git.md": "about git", "big.md": strings.Repeat("x", 1<<20+1), "bad.md": "---\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := newServer(t)
	stores := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"name":%q,"type":"knowledge"}`, filepath.Base(r.URL.Path))
	}
	s.override["PUT /api/v1/skills/pdf"], s.override["PUT /api/v1/skills/git"] = stores, stores
	s.override["PUT /api/v1/skills/bad"] = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"detail":[{"type":"value_error","loc":["body","content"],"msg":"The skill cannot be read: line 1: the front matter has no end","input":null}]}`)
	}
	s.override["DELETE /api/v1/skills/git"] = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"success":true}`) }
	c := testClient(s)
	defer c.Close()
	for file, want := range map[string]string{"pdf/SKILL.md": "", "git.md": "", "big.md": "larger than", "bad.md": "line 1", "none.md": "no such file"} {
		var out strings.Builder
		err := cli.PutSkill(t.Context(), c, &out, filepath.Join(dir, file))
		switch {
		case want == "" && (err != nil || !strings.HasPrefix(out.String(), "Stored the skill ")):
			t.Errorf("%s: %v, %q", file, err, &out)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
	if calls := callsTo(s, `{"content":"about git"}`); len(calls) != 1 {
		t.Errorf("%v", s.called())
	}
	if err := cli.RemoveSkill(t.Context(), c, "git"); err != nil {
		t.Error(err)
	}
	if err := cli.RemoveSkill(t.Context(), c, "none"); err == nil {
		t.Error("removed what is not there")
	}
}

func TestServerTest(t *testing.T) {
	s := newServer(t)
	body := `{"ok":true,"tools":[{"name":"fetch","description":"Gets\na page"},{"name":"e\u001b[31mvil"}]}`
	s.override["POST /api/v1/mcp/test"] = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
	c := testClient(s)
	defer c.Close()
	var out strings.Builder
	if err := cli.ShowServerTest(t.Context(), c, &out, "web", testConv); err != nil {
		t.Fatal(err)
	}
	golden(t, "mcp.txt", out.String())
	if calls := callsTo(s, `{"name":"web","sandbox_id":"sb1","timeout":45}`); len(calls) != 1 {
		t.Errorf("%v", s.called())
	}
	body = `{"ok":true,"tools":[]}`
	if err := cli.ShowServerTest(t.Context(), c, &out, "web", ""); err != nil {
		t.Error(err)
	}
	body = `{"ok":false,"error":"uvx \u001b[31mis not there","error_kind":"connection"}`
	err := cli.ShowServerTest(t.Context(), c, io.Discard, "web", "")
	if err == nil || !strings.Contains(err.Error(), "uvx is not there") || !strings.Contains(err.Error(), "--conversation") || cli.ExitOf(err) != cli.ExitFailure {
		t.Errorf("%v", err)
	}
	if err := cli.ShowServerTest(t.Context(), c, io.Discard, "web", "unknown"); err == nil || !strings.Contains(err.Error(), "no conversation unknown") {
		t.Errorf("%v", err)
	}
}
