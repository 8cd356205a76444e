// Package e2e_test drives the real binary from outside: over HTTP, WebSocket and
// the command line, in both generations of the API, with real sandboxes.
package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
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

// demo starts a server with the scripted model.
func demo(t *testing.T) *parleytest.Server {
	t.Helper()
	return parleytest.Start(t, parleytest.Options{Demo: true})
}

// withModel starts a server whose user has settings for a model server that
// speaks the real wire format.
func withModel(t *testing.T, more map[string]any) (*parleytest.Server, *openaitest.Server) {
	t.Helper()
	model := openaitest.New(t)
	s := parleytest.Start(t, parleytest.Options{})
	s.UseModel(model.URL()+"/v1", more)
	return s, model
}

// toolResults counts the tool results in a request.
func toolResults(req *openaitest.Request) int {
	n := 0
	for _, m := range req.Messages {
		if m.Role == "tool" {
			n++
		}
	}
	return n
}

func kind(k string) func(parleytest.Event) bool {
	return func(e parleytest.Event) bool { return e.Kind() == k }
}

func texts(events []parleytest.Event) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(e.Text() + "\n")
	}
	return b.String()
}

func TestDemoDrivesRealToolsInARealSandbox(t *testing.T) {
	s := demo(t)
	id := s.Conversation("write hello.txt: hi there\nrun: cat hello.txt; id -u; pwd; hostname")
	s.WaitStatus(id, "finished")
	events := s.Events(id)
	parleytest.CheckLog(t, events)
	log := texts(events)
	for _, want := range []string{"hi there", "/workspace/project", "TerminalObservation", "FileEditorObservation"} {
		if !strings.Contains(log, want) {
			t.Errorf("%q is missing in %s", want, log)
		}
	}
	if !strings.Contains(strings.ToLower(log), "demo") {
		t.Error("the demo model is not labelled as one")
	}
}

func TestConversationWithAModelOverTheRealWire(t *testing.T) {
	s, model := withModel(t, nil)
	model.Handle(func(req *openaitest.Request) openaitest.Reply {
		switch toolResults(req) {
		case 0:
			return openaitest.Calls(openaitest.ToolCall("terminal", map[string]any{"command": "echo 41 > n; cat n", "security_risk": "LOW", "summary": "count"}),
				openaitest.ToolCall("terminal", map[string]any{"command": "echo $((`cat n` + 1))"}))
		case 2:
			return openaitest.Calls(openaitest.ToolCall("file_editor", map[string]any{"command": "create", "path": "/workspace/project/a.txt", "file_text": "made\n"}))
		case 3:
			return openaitest.Calls(openaitest.ToolCall("finish", map[string]any{"message": "all done"}))
		}
		return openaitest.Text("unexpected")
	})
	id := s.Conversation("count")
	s.WaitStatus(id, "finished")
	events := s.Events(id)
	parleytest.CheckLog(t, events)
	log := texts(events)
	for _, want := range []string{"41", "42", "all done", `"prev_exist":false`} {
		if !strings.Contains(log, want) {
			t.Errorf("%q is missing in %s", want, log)
		}
	}
	if strings.Contains(log, "sk-secret-of-the-user") || strings.Contains(s.Log(), "sk-secret-of-the-user") {
		t.Error("the API key leaked into the log")
	}
	metrics, _ := s.Info(id)["metrics"].(map[string]any)
	usage, _ := metrics["accumulated_token_usage"].(map[string]any)
	if n, _ := usage["prompt_tokens"].(float64); n <= 0 {
		t.Errorf("no usage in %v", metrics)
	}
}

func TestParallelCallsAreAnsweredInOrder(t *testing.T) {
	s, model := withModel(t, nil)
	model.Handle(func(req *openaitest.Request) openaitest.Reply {
		if toolResults(req) > 0 {
			return openaitest.Text("ok")
		}
		var calls []openaitest.Call
		for i := range 5 {
			calls = append(calls, openaitest.ToolCall("terminal", map[string]any{"command": fmt.Sprintf("echo out-%d", i)}))
		}
		return openaitest.Calls(calls...)
	})
	id := s.Conversation("go")
	s.WaitStatus(id, "finished")
	parleytest.CheckLog(t, s.Events(id))
	n := 0
	for _, e := range s.Events(id) {
		if e.Kind() == "ObservationEvent" {
			if !strings.Contains(e.Text(), fmt.Sprintf("out-%d", n)) {
				t.Errorf("answer %d is %s", n, e.Text())
			}
			n++
		}
	}
	if n != 5 {
		t.Errorf("%d answers", n)
	}
}

func TestModelTroubleIsVisibleAndCanBeContinued(t *testing.T) {
	s, model := withModel(t, nil)
	model.Reply(openaitest.RateLimited("0"), openaitest.Reply{Drop: true},
		openaitest.Text("made it"), openaitest.Fail(401, "bad key"))
	id := s.Conversation("hello")
	s.WaitStatus(id, "finished")
	if log := texts(s.Events(id)); !strings.Contains(log, "llm_retry") || !strings.Contains(log, "made it") {
		t.Errorf("the retries are not visible: %s", log)
	}
	s.Send(id, "again")
	s.WaitStatus(id, "error")
	if log := texts(s.Events(id)); !strings.Contains(log, "LLMAuthenticationError") {
		t.Errorf("log %s", log)
	}
	model.Reply(openaitest.Text("fine now"))
	s.Send(id, "and again")
	s.WaitEvent(id, "an answer", func(e parleytest.Event) bool { return strings.Contains(e.Text(), "fine now") })
}

func TestModelUnreachable(t *testing.T) {
	s := parleytest.Start(t, parleytest.Options{Env: []string{"PARLEY_LLM_MAX_ATTEMPTS=2"}})
	s.UseModel("http://127.0.0.1:9/v1", nil)
	id := s.Conversation("hello")
	s.WaitStatus(id, "error")
	e := s.WaitEvent(id, "the error", kind("ConversationErrorEvent"))
	if !strings.Contains(e.Text(), "llm_base_url") {
		t.Errorf("the error does not say what to do: %s", e.Text())
	}
}

// What was acknowledged is there after kill -9; nothing runs twice; the sandbox
// and its processes survive.
func TestKillNineLosesNothing(t *testing.T) {
	s := demo(t)
	id := s.Conversation("run: sleep 300 & echo $! > pid; echo once >> count; echo started; sleep 2")
	sandboxID, _ := s.Info(id)["sandbox_id"].(string)
	s.WaitEvent(id, "the action", kind("ActionEvent"))
	count := s.FileOf(sandboxID, "count")
	s.Eventually("the command to start", func() bool { _, err := os.Stat(count); return err == nil })
	other := s.Conversation("")
	var acked []string
	for i := range 20 {
		text := fmt.Sprintf("say: acknowledged-%d", i)
		if s.Send(other, text) == http.StatusOK {
			acked = append(acked, text)
		}
	}
	s.Kill()
	s.Again()
	s.WaitStatus(id, "finished")
	events := s.Events(id)
	parleytest.CheckLog(t, events)
	if !strings.Contains(texts(events), "outcome is unknown") {
		t.Errorf("the interrupted call is not explained: %s", texts(events))
	}
	if got, _ := os.ReadFile(count); string(got) != "once\n" {
		t.Errorf("the command ran %q", got)
	}
	log := texts(s.Events(other))
	for _, text := range acked {
		if strings.Count(log, `"text":"`+text+`"`) != 1 {
			t.Errorf("%q is there %d times", text, strings.Count(log, text))
		}
	}
	parleytest.CheckLog(t, s.Events(other))
	s.Send(id, "run: kill -0 `cat pid` && echo still-alive")
	s.WaitEvent(id, "the background process", func(e parleytest.Event) bool {
		return e.Kind() == "ObservationEvent" && strings.Contains(e.Text(), "still-alive") && !strings.Contains(e.Text(), "No such process")
	})
}

func TestShutdownIsCleanAndNobodysDoing(t *testing.T) {
	s := demo(t)
	id := s.Conversation("wait 60")
	s.WaitStatus(id, "running")
	if took := s.Stop(); took > 10*time.Second {
		t.Errorf("SIGTERM took %s", took)
	}
	s.Again()
	for _, e := range s.Events(id) {
		if e.Kind() == "PauseEvent" || e.Kind() == "InterruptEvent" || e.Kind() == "ConversationErrorEvent" {
			t.Errorf("shutdown wrote %s", e.Text())
		}
	}
	s.WaitStatus(id, "running")
	url, key := s.AgentURL(id)
	if code := s.CallAs(key, "POST", url+"/interrupt", nil, nil); code != http.StatusOK {
		t.Fatalf("interrupt: %d", code)
	}
	s.WaitStatus(id, "paused")
}

func TestInterruptACommandWithinASecond(t *testing.T) {
	s := demo(t)
	id := s.Conversation("slow 60")
	s.WaitEvent(id, "the action", kind("ActionEvent"))
	url, key := s.AgentURL(id)
	if code := s.CallAs(key, "POST", url+"/interrupt", nil, nil); code != http.StatusOK {
		t.Fatalf("interrupt: %d", code)
	}
	s.WaitStatus(id, "paused")
	parleytest.CheckLog(t, s.Events(id))
	s.Send(id, "run: echo usable")
	s.WaitStatus(id, "finished")
	if !strings.Contains(texts(s.Events(id)), "usable") {
		t.Error("the shell is not usable after an interrupt")
	}
}

func TestSandboxPauseResumeDelete(t *testing.T) {
	s := demo(t)
	id := s.Conversation("run: (while :; do date +%s%N > tick; sleep 0.02; done) >/dev/null 2>&1 & echo ok")
	s.WaitStatus(id, "finished")
	sandboxID, _ := s.Info(id)["sandbox_id"].(string)
	dir := filepath.Join(s.Dir, "sandboxes", sandboxID)
	tick := func() string { b, _ := os.ReadFile(s.FileOf(sandboxID, "tick")); return string(b) }
	moving := func() bool {
		a := tick()
		deadline := time.Now().Add(500 * time.Millisecond)
		for time.Now().Before(deadline) {
			if tick() != a {
				return true
			}
			time.Sleep(5 * time.Millisecond)
		}
		return false
	}
	if !moving() {
		t.Fatal("the background process does not run")
	}
	if code := s.Call("POST", "/api/v1/sandboxes/"+sandboxID+"/pause", nil, nil); code != http.StatusOK {
		t.Fatalf("pause: %d", code)
	}
	if info := s.Info(id); moving() || info["sandbox_status"] != "PAUSED" || info["execution_status"] != nil || info["session_api_key"] != nil {
		t.Errorf("paused: %v", info)
	}
	if code := s.Send(id, "run: true"); code != http.StatusConflict {
		t.Errorf("send-message to a paused sandbox: %d", code)
	}
	if code := s.Call("POST", "/api/v1/sandboxes/"+sandboxID+"/resume", nil, nil); code != http.StatusOK {
		t.Fatalf("resume: %d", code)
	}
	s.Eventually("RUNNING", func() bool { return s.Info(id)["sandbox_status"] == "RUNNING" })
	if !moving() {
		t.Error("the process did not go on after resume")
	}
	if code := s.Call("DELETE", "/api/v1/app-conversations/"+id, nil, nil); code != http.StatusOK {
		t.Fatalf("delete: %d", code)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the sandbox left %s behind: %v", dir, err)
	}
}

func TestSandboxKilledFromOutsideIsToldAndContinued(t *testing.T) {
	s := demo(t)
	id := s.Conversation("write keep.txt: kept\nslow 60")
	s.WaitEvent(id, "the command", func(e parleytest.Event) bool {
		return e.Kind() == "ActionEvent" && strings.Contains(e.Text(), "sleep")
	})
	killSandbox(t, s)
	s.WaitEvent(id, "the explanation", func(e parleytest.Event) bool {
		return e.Kind() == "AgentErrorEvent" && strings.Contains(e.Text(), "sandbox stopped")
	})
	s.WaitStatus(id, "finished", "error", "idle")
	s.Send(id, "run: cat keep.txt")
	s.WaitEvent(id, "the kept file", func(e parleytest.Event) bool {
		return e.Kind() == "ObservationEvent" && e["tool_name"] == "terminal" && strings.Contains(e.Text(), "kept")
	})
}

// killSandbox kills the first processes of all sandboxes of a server.
func killSandbox(t *testing.T, s *parleytest.Server) {
	t.Helper()
	out, err := exec.Command("pgrep", "-P", fmt.Sprint(s.PID())).Output()
	if err != nil {
		t.Fatalf("no child of the server: %v", err)
	}
	for _, line := range strings.Fields(string(out)) {
		var pid int
		if _, err := fmt.Sscan(line, &pid); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func TestStreamResumesWithoutGapOrDouble(t *testing.T) {
	s := demo(t)
	id := s.Conversation("run: echo 1\nrun: echo 2\nrun: echo 3\nrun: echo 4")
	next := int64(0)
	for next == 0 || s.Info(id)["execution_status"] != "finished" || next < int64(len(s.Events(id))) {
		taken := 0
		err := s.Stream(s.Within(20*time.Second), id, next-1, func(f parleytest.Frame) bool {
			if f.Seq < 0 {
				return false
			}
			if f.Seq != next {
				t.Fatalf("got seq %d, want %d", f.Seq, next)
			}
			next++
			taken++
			return taken == 3 || next == int64(len(s.Events(id))) // break the connection every three events
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAuthenticationIsOnEverywhere(t *testing.T) {
	s := demo(t)
	for _, path := range []string{"/api/settings", "/api/conversations/x", "/api/conversations/x/events", "/api/v1/app-conversations",
		"/api/v1/app-conversations/search", "/api/v1/sandboxes/search", "/api/v1/sandbox-specs/search", "/api/v1/conversation/x/events/search"} {
		for _, key := range []string{"", "wrong", "**********"} {
			var body struct {
				Detail string `json:"detail"`
			}
			if code := s.CallAs(key, "GET", path, nil, &body); code != http.StatusUnauthorized || body.Detail != "Unauthorized" {
				t.Errorf("GET %s with key %q: %d %+v", path, key, code, body)
			}
		}
	}
	for _, path := range []string{"/alive", "/health", "/ready", "/server_info", "/openapi.json", "/docs"} {
		if code, _, err := s.Raw(t.Context(), "", "GET", path, nil); err != nil || code != http.StatusOK {
			t.Errorf("GET %s without a key: %d %v", path, code, err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/api/v1/app-conversations/search", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+parleytest.Key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("Bearer: %d", resp.StatusCode)
	}
}

func TestSessionKeyOpensOnlyItsSandbox(t *testing.T) {
	s := demo(t)
	id, other := s.Conversation(""), s.Conversation("")
	url, key := s.AgentURL(id)
	otherURL, _ := s.AgentURL(other)
	if code := s.CallAs(key, "GET", url, nil, nil); code != http.StatusOK {
		t.Errorf("own conversation: %d", code)
	}
	for _, path := range []string{otherURL, "/api/v1/app-conversations/search", "/api/v1/sandboxes/search"} {
		if code, _, err := s.Raw(t.Context(), key, "GET", path, nil); err != nil || code/100 != 4 {
			t.Errorf("%s with a sandbox key: %d %v", path, code, err)
		}
	}
}

func TestMissingSettingsAreExplained(t *testing.T) {
	s := parleytest.Start(t, parleytest.Options{})
	var v0 struct {
		Status  string `json:"status"`
		Message string `json:"message"`
		MsgID   string `json:"msg_id"`
	}
	if code := s.Call("POST", "/api/conversations", map[string]any{}, &v0); code != 400 || v0.MsgID != "CONFIGURATION$SETTINGS_NOT_FOUND" {
		t.Errorf("V0: %d %+v", code, v0)
	}
	code, body, err := s.Raw(t.Context(), parleytest.Key, "POST", "/api/v1/app-conversations", map[string]any{})
	if err != nil || code/100 != 4 || !strings.Contains(string(body), "/api/settings") {
		t.Errorf("V1: %d %s %v", code, body, err)
	}
}

func TestLegacyAPI(t *testing.T) {
	s, model := withModel(t, nil)
	model.Handle(func(req *openaitest.Request) openaitest.Reply {
		if toolResults(req) == 0 {
			return openaitest.Calls(openaitest.ToolCall("terminal", map[string]any{"command": "echo legacy"}))
		}
		return openaitest.Text("finished")
	})
	var got map[string]any
	if code := s.Call("GET", "/api/settings", nil, &got); code != 200 || got["llm_api_key"] != nil || got["llm_api_key_set"] != true {
		t.Errorf("GET settings: %d %v", code, got)
	}
	var made struct {
		Status string `json:"status"`
		ID     string `json:"conversation_id"`
		State  string `json:"conversation_status"`
	}
	if code := s.Call("POST", "/api/conversations", map[string]any{"initial_user_msg": "hello"}, &made); code != 200 || made.Status != "ok" {
		t.Fatalf("POST conversations: %d %+v", code, made)
	}
	s.Eventually("RUNNING", func() bool {
		var info map[string]any
		s.Call("GET", "/api/conversations/"+made.ID, nil, &info)
		return info["status"] == "RUNNING" && info["runtime_status"] == "STATUS$READY"
	})
	s.WaitStatus(made.ID, "finished")
	var page struct {
		Events []map[string]any `json:"events"`
		More   bool             `json:"has_more"`
	}
	if code := s.Call("GET", "/api/conversations/"+made.ID+"/events?limit=100", nil, &page); code != 200 {
		t.Fatalf("events: %d", code)
	}
	for i, e := range page.Events {
		if e["id"] != float64(i) {
			t.Errorf("event %d has id %v", i, e["id"])
		}
	}
	raw, _ := json.Marshal(page.Events)
	for _, want := range []string{`"action":"system"`, `"action":"run"`, `"observation":"run"`, `"content":"hello"`, "legacy"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%s is missing in %s", want, raw)
		}
	}
}

// Legacy clients choose ids; the tools must work under any of them.
func TestOddConversationIDRunsCommands(t *testing.T) {
	s := demo(t)
	id := `it's "odd" & ünïque`
	if code := s.Call("POST", "/api/conversations", map[string]any{"conversation_id": id,
		"initial_user_msg": "write a.txt: x\nrun: echo odd-$((40 + 2))"}, nil); code != http.StatusOK {
		t.Fatalf("POST conversations: %d", code)
	}
	var page struct {
		Events []map[string]any `json:"events"`
	}
	s.Eventually("the command's output", func() bool {
		s.Call("GET", "/api/conversations/"+url.PathEscape(id)+"/events?limit=100", nil, &page)
		raw, err := json.Marshal(page)
		return err == nil && strings.Contains(string(raw), "odd-42")
	})
}

func TestBadInput(t *testing.T) {
	s := demo(t)
	id := s.Conversation("")
	before := len(s.Events(id))
	tests := []struct {
		name, method, path string
		body               any
		status             int
		mentions           string
	}{
		{"wrong type", "POST", "/api/settings", `{"max_iterations":"many"}`, 422, "max_iterations"},
		{"not JSON", "POST", "/api/settings", `{`, 422, "json_invalid"},
		{"not an object", "POST", "/api/settings", `[]`, 422, "body"},
		{"not UTF-8", "POST", "/api/settings", "{\"language\":\"\xff\xfe\"}", 0, ""},
		{"deep nesting", "POST", "/api/settings", `{"mcp_config":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`, 0, ""},
		{"bad MCP URL", "POST", "/api/settings", `{"mcp_config":{"sse_servers":[{"url":"nope"}]}}`, 422, "url"},
		{"unknown member", "POST", "/api/conversations", `{"nope":1}`, 422, "nope"},
		{"bad enum", "POST", "/api/conversations", `{"git_provider":"sourceforge"}`, 422, "git_provider"},
		{"bad enum V1", "POST", "/api/v1/app-conversations", `{"git_provider":"sourceforge"}`, 422, "git_provider"},
		{"bad id", "POST", "/api/conversations", `{"conversation_id":"../x"}`, 400, ""},
		{"bad ids", "GET", "/api/v1/app-conversations?ids=nope", nil, 400, ""},
		{"limit too high", "GET", "/api/v1/app-conversations/search?limit=101", nil, 422, "limit"},
		{"limit zero", "GET", "/api/v1/conversation/" + id + "/events/search?limit=0", nil, 422, "limit"},
		{"bad kind", "GET", "/api/v1/conversation/" + id + "/events/search?kind__eq=Nope", nil, 422, "kind__eq"},
		{"huge body", "POST", "/api/v1/app-conversations", `{"title":"` + strings.Repeat("x", 64<<20) + `"}`, 413, ""},
		{"empty message", "POST", "/api/v1/app-conversations/" + id + "/send-message", `{"role":"user","content":[]}`, 422, "content"},
		{"unknown sandbox", "POST", "/api/v1/sandboxes/nope/pause", nil, 404, ""},
		{"unknown spec", "POST", "/api/v1/sandboxes?sandbox_spec_id=nope", nil, 404, ""},
		{"unknown conversation", "DELETE", "/api/v1/app-conversations/0123456789abcdef0123456789abcdef", nil, 404, ""},
		{"unknown path", "GET", "/api/v1/nope", nil, 404, "detail"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body, err := s.Raw(t.Context(), parleytest.Key, tt.method, tt.path, tt.body)
			if err != nil && tt.status != 413 { // the server may hang up on a body it refuses
				t.Fatal(err)
			}
			if err == nil && (tt.status != 0 && status != tt.status || status/100 != 4) {
				t.Errorf("status %d: %s", status, body)
			}
			if !strings.Contains(string(body), tt.mentions) {
				t.Errorf("%q is not mentioned: %s", tt.mentions, body)
			}
		})
	}
	if n := len(s.Events(id)); n != before {
		t.Errorf("%d events were stored", n-before)
	}
	var settings map[string]any
	if code := s.Call("GET", "/api/settings", nil, &settings); code != 404 {
		t.Errorf("refused settings were stored: %d %v", code, settings)
	}
}

func TestTwoServersOneDataDirectory(t *testing.T) {
	s := demo(t)
	out, err := exec.CommandContext(t.Context(), parleytest.Binary(t), "serve", "--listen", "127.0.0.1:0", "--data", s.Dir, "--sandbox", "process").CombinedOutput()
	if err == nil || !strings.Contains(string(out), fmt.Sprint(s.PID())) {
		t.Errorf("a second server: %v %s", err, out)
	}
}

func TestFirstStartMakesAKey(t *testing.T) {
	s := parleytest.Start(t, parleytest.Options{Env: []string{"SESSION_API_KEY="}})
	path := filepath.Join(s.Dir, "session-key")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	key := strings.TrimSpace(string(raw))
	if code := s.CallAs(key, "GET", "/api/v1/sandboxes/search", nil, nil); code != 200 {
		t.Errorf("the key does not open: %d", code)
	}
	if !strings.Contains(s.Log(), s.URL) {
		t.Errorf("the URL is not printed:\n%s", s.Log())
	}
	s.Stop()
	s.Again()
	if code := s.CallAs(key, "GET", "/api/v1/sandboxes/search", nil, nil); code != 200 {
		t.Errorf("the key does not survive a restart: %d", code)
	}
}

// within fails the test if f takes longer than d.
func within(t *testing.T, d time.Duration, what string, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := f(ctx); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
