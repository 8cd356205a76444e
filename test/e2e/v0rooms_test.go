package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"parley/test/testkit/openaitest"
	"parley/test/testkit/parleytest"
)

// room is a client of the legacy API's sockets: Socket.IO over a WebSocket, as its
// packets are.
type room struct {
	*testing.T
	conn *websocket.Conn
}

// join connects; refused is what the server says in place of a connection.
func join(t *testing.T, s *parleytest.Server, query url.Values) (r *room, refused string) {
	t.Helper()
	query.Set("EIO", "4")
	query.Set("transport", "websocket")
	if !query.Has("session_api_key") {
		query.Set("session_api_key", parleytest.Key)
	}
	conn, resp, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http")+"/socket.io/?"+query.Encode(), nil)
	if err != nil {
		t.Fatalf("%v (%v)", err, resp)
	}
	conn.SetReadLimit(64 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	r = &room{t, conn}
	if open := r.read(); !strings.HasPrefix(open, "0") {
		t.Fatalf("no handshake: %s", open)
	}
	r.write("40")
	answer := r.read()
	if strings.HasPrefix(answer, "44") {
		return r, strings.TrimPrefix(answer, "44")
	}
	if !strings.HasPrefix(answer, "40") {
		t.Fatalf("no connection: %s", answer)
	}
	return r, ""
}

func (r *room) write(packet string) {
	r.Helper()
	if err := r.conn.Write(r.Context(), websocket.MessageText, []byte(packet)); err != nil {
		r.Fatal(err)
	}
}

// read returns the next packet that is no ping, "" when the connection is over.
func (r *room) read() string {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	for {
		_, packet, err := r.conn.Read(ctx)
		switch {
		case ctx.Err() != nil:
			r.Fatal("nothing comes")
		case err != nil:
			return ""
		case string(packet) != "2":
			return string(packet)
		}
		r.write("3")
	}
}

func (r *room) does(action string, args map[string]any) {
	r.Helper()
	raw, err := json.Marshal([]any{"oh_user_action", map[string]any{"action": action, "args": args}})
	if err != nil {
		r.Fatal(err)
	}
	r.write("42" + string(raw))
}

// until reads events until one has the line, and returns all lines. Status updates are
// not among them.
func (r *room) until(last string) []string {
	r.Helper()
	var lines []string
	for {
		packet := r.read()
		var event []json.RawMessage
		var v map[string]any
		if !strings.HasPrefix(packet, "42") || json.Unmarshal([]byte(packet[2:]), &event) != nil || len(event) != 2 || json.Unmarshal(event[1], &v) != nil {
			r.Fatalf("%q comes in place of %s, after %q", packet, last, lines)
		}
		if v["status_update"] != nil {
			continue
		}
		lines = append(lines, legacyLine(v))
		if strings.HasSuffix(lines[len(lines)-1], last) {
			return lines
		}
	}
}

// told reads until something with a text comes that is no event.
func (r *room) told(text string) {
	r.Helper()
	for {
		switch packet := r.read(); {
		case packet == "":
			r.Fatalf("the connection is over before %q comes", text)
		case strings.Contains(packet, text):
			return
		}
	}
}

// legacyLine shows a legacy event: id, source, kind, what matters of it, cause.
func legacyLine(v map[string]any) string {
	kind, _ := v["action"].(string)
	if o, ok := v["observation"].(string); ok {
		kind = "obs " + o
	}
	out := fmt.Sprint(v["id"], " ", v["source"], " ", kind)
	for _, in := range []string{"args", "extras"} {
		m, _ := v[in].(map[string]any)
		for _, name := range []string{"agent_state", "recall_type", "command", "confirmation_state", "error_id"} {
			if s, _ := m[name].(string); s != "" && s != "confirmed" {
				out += " " + s
			}
		}
	}
	if cause, ok := v["cause"]; ok {
		out += fmt.Sprint(" (cause ", cause, ")")
	}
	return out
}

// legacyEvents are the lines of all events over REST, which hides nothing.
func legacyEvents(s *parleytest.Server, id string) (lines []string) {
	for start := 0; ; start += 100 {
		var page struct {
			Events  []map[string]any `json:"events"`
			HasMore bool             `json:"has_more"`
		}
		s.Call("GET", fmt.Sprintf("/api/conversations/%s/events?limit=100&start_id=%d", id, start), nil, &page)
		for _, e := range page.Events {
			lines = append(lines, legacyLine(e))
		}
		if !page.HasMore {
			return lines
		}
	}
}

// legacy starts a server, with settings beyond those of the model.
func legacy(t *testing.T, more map[string]any) (*parleytest.Server, *openaitest.Server) {
	t.Helper()
	model := openaitest.New(t)
	s := parleytest.Start(t, parleytest.Options{Env: []string{"PARLEY_AUTO_TITLES=false"}})
	s.UseModel(model.URL()+"/v1", more)
	return s, model
}

// begins creates a conversation over the legacy API and waits until it is RUNNING.
func begins(s *parleytest.Server, body map[string]any) string {
	var made struct {
		ID string `json:"conversation_id"`
	}
	s.Call("POST", "/api/conversations", body, &made)
	runs(s, made.ID)
	return made.ID
}

func runs(s *parleytest.Server, id string) {
	s.Eventually("the conversation to run", func() bool {
		var info struct{ Status string }
		return s.Call("GET", "/api/conversations/"+id, nil, &info) == http.StatusOK && info.Status == "RUNNING"
	})
}

// shows waits for the last line of a conversation's events and compares all.
func shows(t *testing.T, s *parleytest.Server, id string, want ...string) {
	t.Helper()
	var got []string
	s.Eventually("event "+want[len(want)-1], func() bool {
		got = legacyEvents(s, id)
		return len(got) >= len(want)
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func finishes(text string) openaitest.Reply {
	return openaitest.Tool("finish", map[string]any{"message": text})
}

// The trace of a conversation with a first message, over REST and on a socket, and that
// ids stay over a stop, a start and a crash (golden traces of the legacy contract).
func TestLegacyTraceWithAMessage(t *testing.T) {
	t.Parallel()
	s, model := legacy(t, nil)
	model.Reply(run("ls"), openaitest.Text("and now?"), finishes("bye"))
	id := begins(s, map[string]any{"initial_user_msg": "hi"})
	r, refused := join(t, s, url.Values{"conversation_id": {id}, "latest_event_id": {"undefined"}})
	if refused != "" {
		t.Fatal(refused)
	}
	r.until("agent_state_changed awaiting_user_input")
	r.does("message", map[string]any{"content": "finish", "image_urls": []string{}, "file_urls": []string{}, "timestamp": "2025-11-20T10:00:00"})
	live := r.until("agent_state_changed finished")
	if want := []string{"11 user message", "12 user recall knowledge", "13 agent obs agent_state_changed running", "15 agent finish",
		"16 agent obs agent_state_changed finished"}; !slices.Equal(live, want) {
		t.Errorf("%q", live)
	}
	golden := []string{"0 environment obs agent_state_changed loading", "1 agent system", "2 user message",
		"3 environment change_agent_state running", "4 user recall workspace_context", "5 environment obs agent_state_changed running",
		"6 environment obs recall workspace_context (cause 4)", "7 agent run ls", "8 agent obs run ls (cause 7)", "9 agent message",
		"10 environment obs agent_state_changed awaiting_user_input", "11 user message", "12 user recall knowledge",
		"13 environment obs agent_state_changed running", "14 environment obs null (cause 12)", "15 agent finish",
		"16 environment obs agent_state_changed finished"}
	shows(t, s, id, golden...)

	var answer map[string]any
	s.Call("POST", "/api/conversations/"+id+"/stop", nil, &answer)
	if answer["conversation_status"] != "RUNNING" {
		t.Errorf("%v", answer)
	}
	if over := r.read(); over != "41" {
		t.Errorf("the client is not sent away: %q", over)
	}
	s.Kill()
	s.Again()
	golden = append(golden, "17 environment obs agent_state_changed stopped")
	shows(t, s, id, golden...)
	r, _ = join(t, s, url.Values{"conversation_id": {id}, "latest_event_id": {"16"}}) // starts it
	if again := r.until("agent_state_changed awaiting_user_input")[0]; again != "19 environment change_agent_state awaiting_user_input" {
		t.Error(again)
	}
	runs(s, id)
	golden = append(golden, "18 environment obs agent_state_changed loading", "19 environment change_agent_state awaiting_user_input",
		"20 environment obs agent_state_changed awaiting_user_input")
	shows(t, s, id, golden...)
	model.Reply(openaitest.Text("hello again"))
	r.does("message", map[string]any{"content": "again"})
	if over := r.until("agent_state_changed awaiting_user_input"); over[len(over)-1] != "26 agent obs agent_state_changed awaiting_user_input" {
		t.Errorf("%q", over)
	}
}

// The trace of one without a first message; the user's own commands.
func TestLegacyTraceWithoutAMessage(t *testing.T) {
	t.Parallel()
	s, model := legacy(t, nil)
	id := begins(s, map[string]any{})
	golden := []string{"0 environment obs agent_state_changed loading", "1 agent system", "2 environment change_agent_state awaiting_user_input",
		"3 environment obs agent_state_changed awaiting_user_input"}
	shows(t, s, id, golden...)
	r, _ := join(t, s, url.Values{"conversation_id": {id}, "latest_event_id": {"1"}})
	if got := r.until("agent_state_changed awaiting_user_input"); len(got) != 2 {
		t.Errorf("%q", got)
	}
	r.does("run", map[string]any{"command": "echo to the agent; exit 3", "hidden": false})
	r.until("run echo to the agent; exit 3 (cause 4)")
	r.does("run", map[string]any{"command": "echo nobody reads", "hidden": true})
	r.until("run echo nobody reads (cause 6)")
	model.Reply(openaitest.Text("I see."))
	r.does("message", map[string]any{"content": "well?"})
	r.until("agent_state_changed awaiting_user_input")
	golden = append(golden, "4 user run echo to the agent; exit 3", "5 user obs run echo to the agent; exit 3 (cause 4)",
		"6 user run echo nobody reads", "7 user obs run echo nobody reads (cause 6)", "8 user message", "9 user recall workspace_context",
		"10 environment obs agent_state_changed running", "11 environment obs recall workspace_context (cause 9)", "12 agent message",
		"13 environment obs agent_state_changed awaiting_user_input")
	shows(t, s, id, golden...)
	read := lastRequest(model)
	if !strings.Contains(read, "echo to the agent") || !strings.Contains(read, "exit code 3") || strings.Contains(read, "nobody reads") {
		t.Errorf("the model reads %s", read)
	}
	r.does("message", map[string]any{"content": "look", "image_urls": []string{"data:image/png;base64,iVBORw0KGgo="}})
	r.until("user message") // nobody knows that this model takes no images
}

// Confirmation and rejection: the state comes before the action, which comes again.
func TestLegacyConfirmation(t *testing.T) {
	t.Parallel()
	s, model := legacy(t, map[string]any{"confirmation_mode": true})
	model.Reply(run("touch yes"), openaitest.Text("done"), run("touch no"))
	id := begins(s, map[string]any{"initial_user_msg": "go"})
	r, _ := join(t, s, url.Values{"conversation_id": {id}})
	r.until("run touch yes awaiting_confirmation")
	r.does("change_agent_state", map[string]any{"agent_state": "user_confirmed"})
	r.until("agent_state_changed awaiting_user_input")
	r.does("message", map[string]any{"content": "more"})
	r.until("run touch no awaiting_confirmation")
	r.does("change_agent_state", map[string]any{"agent_state": "user_rejected"})
	r.until("agent_state_changed awaiting_user_input")
	got := legacyEvents(s, id)
	want := []string{"7 environment obs agent_state_changed awaiting_user_confirmation", "8 agent run touch yes awaiting_confirmation",
		"9 user change_agent_state user_confirmed", "10 agent run touch yes", "11 environment obs agent_state_changed user_confirmed",
		"12 agent obs run touch yes (cause 10)", "13 environment obs agent_state_changed running", "14 agent message",
		"15 environment obs agent_state_changed awaiting_user_input", "16 user message", "17 user recall knowledge",
		"18 environment obs agent_state_changed running", "19 environment obs null (cause 17)",
		"20 environment obs agent_state_changed awaiting_user_confirmation", "21 agent run touch no awaiting_confirmation",
		"22 user change_agent_state user_rejected", "23 agent run touch no rejected", "24 environment obs agent_state_changed user_rejected",
		"25 agent obs user_rejected (cause 23)", "26 environment obs agent_state_changed awaiting_user_input"}
	if d := cmp.Diff(want, got[7:]); d != "" {
		t.Error(d)
	}
}

// Stop while a command runs, and an agent that repeats itself.
func TestLegacyStopAndLoop(t *testing.T) {
	t.Parallel()
	s, model := legacy(t, nil)
	model.Reply(run("sleep 60"))
	id := begins(s, map[string]any{"initial_user_msg": "wait"})
	r, _ := join(t, s, url.Values{"conversation_id": {id}})
	r.until("run sleep 60")
	r.does("loop_recovery", map[string]any{"option": 1})
	r.told("was not stopped for repeating itself")
	r.does("change_agent_state", map[string]any{"agent_state": "stopped"})
	got := r.until("agent_state_changed stopped")
	if want := []string{"8 agent obs error AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_STOPPED (cause 7)", "9 agent obs agent_state_changed stopped"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for range 4 {
		model.Reply(run("echo same"))
	}
	r.does("message", map[string]any{"content": "go on"}) // the conversation runs, and so does the agent again
	r.until("agent_state_changed error")
	if e := legacyEvents(s, id); strings.Count(strings.Join(e, "\n"), "obs run echo same") != 4 {
		t.Errorf("%q", e)
	}
	model.Reply(openaitest.Text("something else"))
	r.does("loop_recovery", map[string]any{"option": 2})
	r.until("agent_state_changed running")
	r.until("agent_state_changed awaiting_user_input")
	if read := lastRequest(model); strings.Contains(read, "echo same") || !strings.Contains(read, "go on") {
		t.Errorf("the model reads %s", read)
	}
}

func TestLegacyRefusals(t *testing.T) {
	t.Parallel()
	s := parleytest.Start(t, parleytest.Options{})
	unknown := strings.Repeat("a", 32)
	for _, c := range []struct {
		query url.Values
		want  string
	}{
		{url.Values{}, `{"message":"No conversation_id in query params"}`},
		{url.Values{"conversation_id": {unknown}, "session_api_key": {"null"}}, `{"message":"invalid_session_api_key"}`},
		{url.Values{"conversation_id": {unknown}}, `{"message":"Settings not found","data":{"msg_id":"CONFIGURATION$SETTINGS_NOT_FOUND"}}`},
	} {
		r, refused := join(t, s, c.query)
		if refused != c.want {
			t.Errorf("%s", refused)
		}
		if over := r.read(); over != "" && over != "41" && over != "1" {
			t.Errorf("the connection stays: %q", over)
		}
	}
}

// A client's connection ends with its key, and the client is told when it comes again.
func TestARoomIsLeftWithTheKey(t *testing.T) {
	s := parleytest.Start(t, parleytest.Options{Demo: true, Sandbox: "process"})
	var made struct {
		ID  int64  `json:"id"`
		Key string `json:"key"`
	}
	if code := s.Call("POST", "/api/keys", map[string]any{"name": "lent"}, &made); code != http.StatusOK {
		t.Fatal(code)
	}
	id, err := s.StartWith(map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	query := func() url.Values { return url.Values{"conversation_id": {id}, "session_api_key": {made.Key}} }
	r, refused := join(t, s, query())
	if refused != "" {
		t.Fatal(refused)
	}
	if code := s.Call("DELETE", fmt.Sprintf("/api/keys/%d", made.ID), nil, nil); code != http.StatusOK {
		t.Fatal(code)
	}
	for r.read() != "" {
	}
	if _, refused := join(t, s, query()); !strings.Contains(refused, "invalid_session_api_key") {
		t.Errorf("refused: %q", refused)
	}
}
