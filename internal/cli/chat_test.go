package cli_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"parley/internal/account"
	"parley/internal/cli"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func golden(t *testing.T, name, have string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), have); diff != "" {
		t.Errorf("%s (-want +have):\n%s", path, diff)
	}
}

// longRun has one of everything that is shown.
func longRun() []string {
	var lines []string
	for i := range 100 {
		lines = append(lines, fmt.Sprintf("line %d", i))
	}
	log := []string{
		event("SystemPromptEvent", "agent", `"system_prompt":{"type":"text","text":"S"},"tools":[]`),
		says("user", "fix the failing test\nand nothing else"), status("running"),
		acts("terminal", "c1", "I look at the tests first.", `{"kind":"TerminalAction","command":"go test ./...","is_input":false}`),
		output("c1", "--- FAIL: TestAdd\r\nFAIL", 1),
		terminal("c2", "for i in 1 2; do\necho $i\ndone"), output("c2", strings.Join(lines, "\n"), 0),
		terminal("c3", "sleep 100"),
		observes("terminal", "c3", `{"kind":"TerminalObservation","content":[],"is_error":false,"exit_code":-1,"timeout":true}`),
		acts("terminal", "c4", "", `{"kind":"TerminalAction","command":"C-c","is_input":true}`), output("c4", "", 130),
		// Text that tries to take the terminal over.
		terminal("c5", "printf evil"), output("c5", "\x1b]0;title\x07\x1b[31mred\x1b[0m \x1b[2J\u009b5mC1 a\rb \u202Egnp.exe", 0),
		acts("think", "c6", "", `{"kind":"ThinkAction","thought":"It adds the wrong way round."}`),
		observes("think", "c6", `{"kind":"ThinkObservation","content":[{"type":"text","text":"ok"}],"is_error":false}`),
		event("ConversationStateUpdateEvent", "environment", `"key":"agent_state","value":{"llm_retry":{"attempt":1,"max_attempts":5,"wait_seconds":8,"reason":"overloaded","code":"LLMServiceUnavailableError"}}`),
		event("ConversationStateUpdateEvent", "environment", `"key":"agent_state","value":{}`),
		event("AgentErrorEvent", "agent", `"tool_name":"nope","tool_call_id":"c7","error":"there is no tool nope"`),
		event("UserRejectObservation", "environment", `"tool_name":"terminal","tool_call_id":"c8","rejection_reason":"too risky","rejection_source":"user","action_id":"e"`),
		says("environment", "Use a tool or answer."),
		event("ConversationStateUpdateEvent", "environment", `"key":"goal","value":{"active":true,"status":"running","iteration":2,"max_iterations":5,"objective":"o","verdict":{"score":0.4,"complete":false,"missing":"the tests"}}`),
		event("Condensation", "environment", `"forgotten_event_ids":[],"llm_response_id":"r"`),
		event("FutureEvent", "agent", `"anything":1`),
		acts("browser", "c9", "", `{"kind":"BrowserNavigateAction","url":"http://x"}`),
		observes("browser", "c9", `{"kind":"BrowserObservation","content":[{"type":"text","text":"a page"},{"type":"image","image_urls":["data:x"]}],"is_error":false}`),
		observes("file_editor", "d0", `{"kind":"FileEditorObservation","content":[{"type":"text","text":"no such file"}],"is_error":true,"command":"view","path":"/x"}`),
	}
	log = append(log, edits("d1", "str_replace", "/workspace/project/add.go", "package p\n\nfunc Add(a, b int) int {\n\treturn a - b\n}\n", "package p\n\nfunc Add(a, b int) int {\n\treturn a + b\n}\n")...)
	log = append(log, edits("d2", "create", "/workspace/project/new.txt", "", "one\ntwo")...)
	log = append(log, edits("d3", "view", "/workspace/project/new.txt", "", "one\ntwo")...)
	return append(log,
		acts("finish", "c10", "", `{"kind":"FinishAction","message":"Fixed: Add adds now."}`),
		observes("finish", "c10", `{"kind":"FinishObservation","content":[],"is_error":false}`),
		status("finished"))
}

func TestGolden(t *testing.T) {
	for name, term := range map[string]cli.Terminal{"run.txt": {}, "run-color.txt": {Color: true, OutTTY: true, ErrTTY: true}} {
		t.Run(name, func(t *testing.T) {
			c := startChat(t, newServer(t, stored(longRun()...)...), cli.ChatOptions{Message: "fix"}, term)
			if exit := c.wait(); exit != cli.ExitOK || c.failure != nil {
				t.Errorf("exit %d, %v", exit, c.failure)
			}
			golden(t, name, c.out.String())
		})
	}
}

// Whatever a log holds, the only control sequences on the screen are ours.
func TestNoForeignControlSequences(t *testing.T) {
	c := startChat(t, newServer(t, stored(longRun()...)...), cli.ChatOptions{Message: "fix", Full: true}, cli.Terminal{})
	c.wait()
	for _, r := range c.out.String() {
		if r != '\n' && r != '\t' && (r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\u202e') {
			t.Errorf("control character %U on the screen", r)
		}
	}
}

func TestJSONPrintsEventsAndNothingElse(t *testing.T) {
	log := longRun()
	entries := append(stored(log[:5]...), delta("x"))
	entries = append(entries, stored(log[5:]...)...)
	// An event that is logged after the end of the run still belongs to it.
	stats := event("ConversationStateUpdateEvent", "environment", `"key":"stats","value":{"usage_to_metrics":{}}`)
	s := newServer(t, append(entries, entry{raw: stats})...)
	out := &screen{}
	c := startChat(t, s, cli.ChatOptions{Message: "fix", JSON: true}, cli.Terminal{Out: out, Interactive: true, OutTTY: true, ErrTTY: true, Color: true})
	if exit := c.wait(); exit != cli.ExitOK {
		t.Errorf("exit %d, %v", exit, c.failure)
	}
	want := strings.Join(append(log, stats), "\n") + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestExitCodes(t *testing.T) {
	classified := event("ConversationErrorEvent", "environment", `"code":"LLMAuthenticationError","detail":"the key is wrong","classification":{"kind":"auth","retryable":false,"user_action":"settings"}`)
	tests := map[string]struct {
		log  []string
		exit cli.Exit
		text string
	}{
		"finished":     {simpleRun("q", "the answer"), cli.ExitOK, "the answer"},
		"error":        {[]string{says("user", "q"), status("running"), classified, status("error")}, cli.ExitAgentError, "POST /api/settings"},
		"early error":  {[]string{says("user", "q"), classified, status("error")}, cli.ExitAgentError, "the key is wrong"},
		"stuck":        {[]string{says("user", "q"), status("running"), status("stuck")}, cli.ExitStuck, "stuck"},
		"paused":       {[]string{says("user", "q"), status("running"), event("PauseEvent", "user", ""), status("paused")}, cli.ExitInterrupted, "paused"},
		"confirmation": {[]string{says("user", "q"), status("running"), terminal("c1", "rm -rf x"), status("waiting_for_confirmation")}, cli.ExitConfirmation, "--conversation " + testConv},
		"idle first":   {append([]string{status("idle")}, simpleRun("q", "the answer")...), cli.ExitOK, "the answer"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := startChat(t, newServer(t, stored(test.log...)...), cli.ChatOptions{Message: "q"}, cli.Terminal{})
			if exit := c.wait(); exit != test.exit || c.failure != nil {
				t.Errorf("exit %d, want %d; %v", exit, test.exit, c.failure)
			}
			if !strings.Contains(c.out.String(), test.text) {
				t.Errorf("%q is not shown:\n%s", test.text, c.out)
			}
		})
	}
}

func TestReconnectsWithoutLosingOrDoublingEvents(t *testing.T) {
	s := newServer(t, stored(simpleRun("q", "the answer")...)...)
	s.cuts[2], s.cuts[3] = true, true
	out := &screen{}
	c := startChat(t, s, cli.ChatOptions{Message: "q", JSON: true}, cli.Terminal{Out: out})
	if exit := c.wait(); exit != cli.ExitOK {
		t.Fatalf("exit %d, %v\n%s", exit, c.failure, c.err)
	}
	if diff := cmp.Diff(strings.Join(s.log(), "\n")+"\n", out.String()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"", "1", "2"}, s.cursors); diff != "" {
		t.Errorf("cursors: %s", diff)
	}
	if !strings.Contains(c.err.String(), "reconnecting") || !strings.Contains(c.err.String(), "connected again") {
		t.Errorf("the user is not told:\n%s", c.err)
	}
}

func TestSilentStreamIsReplaced(t *testing.T) {
	s := newServer(t, stored(simpleRun("q", "the answer")...)...)
	s.mute = true
	patience := quick()
	patience.Silence = 50 * time.Millisecond
	c := startChat(t, s, cli.ChatOptions{Message: "q", Patience: patience}, cli.Terminal{})
	if exit := c.wait(); exit != cli.ExitOK || !strings.Contains(c.out.String(), "silent") {
		t.Errorf("exit %d, %v\n%s", exit, c.failure, c.out)
	}
}

func TestGivesUpOnAServerThatIsGone(t *testing.T) {
	s := newServer(t, stored(says("user", "q"), status("running"))...)
	c := startChat(t, s, cli.ChatOptions{Message: "q"}, cli.Terminal{})
	c.out.waitFor(t, "> q", 1)
	s.CloseClientConnections()
	s.Close()
	if exit := c.wait(); exit != cli.ExitServer || c.failure == nil || !strings.Contains(c.failure.Error(), "parley serve") {
		t.Errorf("exit %d, %v", exit, c.failure)
	}
}

func TestDeletedConversation(t *testing.T) {
	s := newServer(t, stored(says("user", "q"), status("running"))...)
	c := startChat(t, s, cli.ChatOptions{Message: "q"}, cli.Terminal{})
	c.out.waitFor(t, "> q", 1)
	s.mu.Lock()
	s.override["GET /api/v1/conversation/"+testConv+"/events/stream"] = http.NotFound
	s.mu.Unlock()
	s.CloseClientConnections()
	if exit := c.wait(); exit != cli.ExitFailure || c.failure == nil || !strings.Contains(c.failure.Error(), "deleted") {
		t.Errorf("exit %d, %v", exit, c.failure)
	}

	s = newServer(t, append(stored(says("user", "q"), status("running")), entry{raw: "{}\nevent: deleted", live: true})...)
	c = startChat(t, s, cli.ChatOptions{Message: "q"}, cli.Terminal{})
	if exit := c.wait(); exit != cli.ExitFailure || c.failure == nil || !strings.Contains(c.failure.Error(), "deleted") {
		t.Errorf("by a frame: exit %d, %v", exit, c.failure)
	}
}

func TestStreamedAnswerIsShownOnce(t *testing.T) {
	tests := map[string][]entry{
		"whole":         {delta("The answer "), delta("is 42.")},
		"beginning":     {delta("The ans")},
		"with a gap":    {delta("The "), delta("is 42.")},
		"cut sequences": {delta("The \x1b"), delta("[31manswer is"), delta(" 42.\n")},
		"none":          nil,
	}
	for name, deltas := range tests {
		t.Run(name, func(t *testing.T) {
			entries := append(stored(says("user", "q"), status("running")), deltas...)
			entries = append(entries, stored(says("agent", "The answer is 42."), status("finished"))...)
			c := startChat(t, newServer(t, entries...), cli.ChatOptions{Message: "q"}, cli.Terminal{OutTTY: true, ErrTTY: true})
			c.wait()
			if n := strings.Count(c.out.String(), "The answer is 42.\n"); n != 1 {
				t.Errorf("the answer is there %d times:\n%s", n, c.out)
			}
			if strings.Contains(c.out.String(), "\x1b") {
				t.Errorf("an escape sequence got through: %q", c.out)
			}
		})
	}
	entries := append(stored(says("user", "q"), status("running")), delta("The "))
	entries = append(entries, stored(says("agent", "The answer."), status("finished"))...)
	c := startChat(t, newServer(t, entries...), cli.ChatOptions{Message: "q"}, cli.Terminal{})
	c.wait()
	if want := "> q\nThe answer.\n"; !strings.Contains(c.out.String(), want) {
		t.Errorf("a file gets no pieces; want %q in:\n%s", want, c.out)
	}
}

func TestMessageFromStandardInput(t *testing.T) {
	s := newServer(t, stored(simpleRun("q", "a")...)...)
	c := startChat(t, s, cli.ChatOptions{}, cli.Terminal{In: strings.NewReader("from a pipe\n")})
	if exit := c.wait(); exit != cli.ExitOK {
		t.Errorf("exit %d, %v", exit, c.failure)
	}
	if !strings.Contains(s.called()[0], `"text":"from a pipe"`) {
		t.Errorf("sent %s", s.called()[0])
	}
	c = startChat(t, s, cli.ChatOptions{}, cli.Terminal{In: strings.NewReader(" \n")})
	if exit := c.wait(); exit != cli.ExitUsage {
		t.Errorf("without a message: exit %d", exit)
	}
}

func TestDetach(t *testing.T) {
	for json, want := range map[bool]string{false: testConv + "\n", true: `{"conversation_id":"` + testConv + "\"}\n"} {
		out := &screen{}
		c := startChat(t, newServer(t), cli.ChatOptions{Message: "q", Detach: true, JSON: json}, cli.Terminal{Out: out, Interactive: true})
		if exit := c.wait(); exit != cli.ExitOK || out.String() != want {
			t.Errorf("exit %d, %v, printed %q", exit, c.failure, out)
		}
	}
}

func TestDemoIsLabelled(t *testing.T) {
	s := newServer(t, stored(simpleRun("q", "a")...)...)
	s.model = "demo/scripted"
	c := startChat(t, s, cli.ChatOptions{Message: "q"}, cli.Terminal{})
	c.wait()
	for _, want := range []string{"demo: the built-in scripted model", "demo, no cost"} {
		if !strings.Contains(c.out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, c.out)
		}
	}
}

func TestStartFailures(t *testing.T) {
	answer := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); _, _ = io.WriteString(w, body) }
	}
	const start, tasks = "POST /api/v1/app-conversations", "GET /api/v1/app-conversations/start-tasks"
	tests := map[string]struct {
		route   string
		handler http.HandlerFunc
		exit    cli.Exit
		text    string
	}{
		"refused key":   {start, answer(401, `{"detail":"Unauthorized"}`), cli.ExitServer, "is from: the test"},
		"validation":    {start, answer(422, `{"detail":[{"loc":["body","llm_model"],"msg":"Input should be a string","type":"string_type"}]}`), cli.ExitFailure, "body llm_model: Input should be a string"},
		"server error":  {start, answer(500, `{"detail":"Internal Server Error","exception":"500: no space"}`), cli.ExitFailure, "no space"},
		"no json":       {start, answer(200, `<html>`), cli.ExitFailure, "does not answer as a Parley server"},
		"hostile text":  {start, answer(400, `{"detail":"a\u001b[31mb"}`), cli.ExitFailure, "400: ab"},
		"failed task":   {tasks, answer(200, `[{"id":"x","status":"ERROR","detail":"Sandbox failed to start: no namespaces","app_conversation_id":null}]`), cli.ExitFailure, "no namespaces"},
		"deleted start": {tasks, answer(200, `[null]`), cli.ExitFailure, "was deleted"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.override[test.route] = test.handler
			c := startChat(t, s, cli.ChatOptions{Message: "q"}, cli.Terminal{})
			if exit := c.wait(); exit != test.exit || c.failure == nil || !strings.Contains(c.failure.Error(), test.text) {
				t.Errorf("exit %d, %v", exit, c.failure)
			}
		})
	}
}

func TestUnreachableServer(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	client := cli.NewClient(s.URL, account.Secret{}, "nowhere", "test")
	exit, err := cli.Chat(t.Context(), client, cli.Terminal{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, cli.ChatOptions{Message: "q"})
	var away *cli.UnreachableError
	if exit != cli.ExitServer || !errors.As(err, &away) || !strings.Contains(err.Error(), "parley serve") {
		t.Errorf("exit %d, %v", exit, err)
	}
}

// A redirect must not carry the key to another host.
func TestRedirectIsNotFollowed(t *testing.T) {
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect was followed with key %q", r.Header.Get("X-Session-API-Key"))
	}))
	defer thief.Close()
	s := newServer(t)
	s.override["POST /api/v1/app-conversations"] = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
	}
	c := startChat(t, s, cli.ChatOptions{Message: "q"}, cli.Terminal{})
	if exit := c.wait(); exit != cli.ExitFailure || !strings.Contains(c.failure.Error(), thief.URL) {
		t.Errorf("exit %d, %v", exit, c.failure)
	}
}

func TestDirectoryProof(t *testing.T) {
	for name, code := range map[string]int{"accepted": 200, "refused": 403} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := newServer(t)
			s.onMessage = runs
			s.override["POST /api/v1/app-conversations"] = func(w http.ResponseWriter, r *http.Request) {
				checkProof(t, dir, r)
				w.WriteHeader(code)
				_, _ = fmt.Fprintf(w, `{"id":%q,"status":"WORKING","detail":"host directories are off"}`, testTask)
			}
			c := startChat(t, s, cli.ChatOptions{Message: "q", Dir: dir}, cli.Terminal{})
			if exit := c.wait(); (exit == cli.ExitOK) != (code == 200) {
				t.Errorf("exit %d, %v", exit, c.failure)
			}
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	for _, dir := range []string{"/nonexistent", "/dev/null", "/proc"} {
		s := newServer(t)
		c := startChat(t, s, cli.ChatOptions{Message: "q", Dir: dir}, cli.Terminal{})
		if exit := c.wait(); exit != cli.ExitFailure || len(s.called()) != 0 {
			t.Errorf("--dir %s: exit %d, %v, calls %v", dir, exit, c.failure, s.called())
		}
	}
}

func TestContextEndsTheSession(t *testing.T) {
	s := newServer(t, stored(says("user", "q"), status("running"))...)
	ctx, cancel := context.WithCancel(t.Context())
	client := testClient(s)
	defer client.Close()
	out := &screen{}
	exit := make(chan cli.Exit, 1)
	go func() {
		code, _ := cli.Chat(ctx, client, cli.Terminal{In: strings.NewReader(""), Out: out, Err: out},
			cli.ChatOptions{Message: "q", Patience: quick()})
		exit <- code
	}()
	out.waitFor(t, "> q", 1)
	cancel()
	if code := <-exit; code != cli.ExitInterrupted {
		t.Errorf("exit %d", code)
	}
}
