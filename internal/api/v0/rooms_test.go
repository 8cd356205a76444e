package v0_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	v0 "parley/internal/api/v0"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/store"
)

// guest is a client's end of a connection: it takes what it is sent when it likes.
type guest struct {
	testing.TB
	query url.Values
	out   chan json.RawMessage
	in    chan said
	ended chan error
	leave context.CancelFunc

	mu       sync.Mutex
	accepted bool
}

type said struct {
	name string
	args []json.RawMessage
}

func (g *guest) Query() url.Values { return g.query }

func (g *guest) Accept(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.accepted = true
	return nil
}

func (g *guest) Emit(ctx context.Context, event string, arg json.RawMessage) error {
	if event != "oh_event" {
		g.Errorf("event %s", event)
	}
	select {
	case g.out <- arg:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *guest) Receive(ctx context.Context) (string, []json.RawMessage, error) {
	select {
	case s := <-g.in:
		return s.name, s.args, nil
	case <-ctx.Done():
		return "", nil, context.Cause(ctx)
	}
}

// connect opens a connection; query is added to the key's.
func (r *rig) connect(id conversation.ID, query string) *guest {
	r.Helper()
	q, err := url.ParseQuery(query)
	check(r.TB, err)
	for name, value := range map[string]string{"conversation_id": string(id), "session_api_key": key} {
		if !q.Has(name) {
			q.Set(name, value)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &guest{TB: r.TB, query: q, out: make(chan json.RawMessage), in: make(chan said), ended: make(chan error, 1), leave: cancel}
	rooms := r.rooms
	go func() { g.ended <- rooms.Serve(ctx, g) }()
	r.Cleanup(cancel)
	return g
}

// refusal is why the client was not let in.
func (g *guest) refusal() (string, map[string]string) {
	g.Helper()
	err := g.end()
	var refused *v0.Refusal
	if !errors.As(err, &refused) {
		g.Fatalf("no refusal: %v", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.accepted {
		g.Error("refused after it was let in")
	}
	return refused.Message, refused.Data
}

// end waits for the connection's end, taking nothing.
func (g *guest) end() error {
	g.Helper()
	select {
	case err := <-g.ended:
		return err
	case <-time.After(10 * time.Second):
		g.Fatal("still connected")
	}
	return nil
}

// next is the next thing that the client is sent.
func (g *guest) next() map[string]any {
	g.Helper()
	select {
	case raw := <-g.out:
		var v map[string]any
		check(g.TB, json.Unmarshal(raw, &v))
		return v
	case err := <-g.ended:
		g.Fatalf("the connection ended: %v", err)
	case <-time.After(10 * time.Second):
		g.Fatal("nothing comes")
	}
	return nil
}

// line shows what a client was sent: "id source kind", or the payload.
func line(v map[string]any) string {
	if _, isEvent := v["timestamp"]; !isEvent {
		raw, _ := json.Marshal(v)
		return string(raw)
	}
	kind := v["action"]
	if kind == nil {
		kind = "obs " + v["observation"].(string)
	}
	for _, in := range []string{"args", "extras"} {
		if m, ok := v[in].(map[string]any); ok && m["agent_state"] != nil {
			kind = fmt.Sprint(kind, " ", m["agent_state"])
		}
	}
	return fmt.Sprint(v["id"], " ", v["source"], " ", kind)
}

func (g *guest) wants(want ...string) {
	g.Helper()
	var got []string
	for range want {
		got = append(got, line(g.next()))
	}
	if d := cmp.Diff(want, got); d != "" {
		g.Error(d)
	}
}

// says sends an event to the server.
func (g *guest) says(name, raw string) {
	g.Helper()
	select {
	case g.in <- said{name, []json.RawMessage{json.RawMessage(raw)}}:
	case <-time.After(10 * time.Second):
		g.Fatal("nobody listens")
	}
}

func TestSocketRefusals(t *testing.T) {
	r := newRig(t)
	id := r.conversation("hi")
	for name, c := range map[string]struct{ query, message, msgID string }{
		"no conversation":        {"conversation_id=", "No conversation_id in query params", ""},
		"conversation undefined": {"conversation_id=undefined", "No conversation_id in query params", ""},
		"wrong key":              {"session_api_key=wrong", "invalid_session_api_key", ""},
		"no key":                 {"session_api_key=", "invalid_session_api_key", ""},
		"key null":               {"session_api_key=null", "invalid_session_api_key", ""},
		"key undefined":          {"session_api_key=undefined", "invalid_session_api_key", ""},
		"no settings":            {"session_api_key=" + otherKey, "Settings not found", "CONFIGURATION$SETTINGS_NOT_FOUND"},
		"unknown":                {"conversation_id=" + strings.Repeat("a", 32), "Failed to join conversation: there is no such conversation.", "CONVERSATION$NOT_FOUND"},
		"no id":                  {"conversation_id=../x", "Conversation ID contains invalid path characters", "CONVERSATION$NOT_FOUND"},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "no settings" {
				r.want("POST", "/api/settings", `{"llm_model":"a/m"}`, 200, `{"message":"Settings stored"}`)
			}
			message, data := r.connect(id, c.query).refusal()
			if message != c.message || data["msg_id"] != c.msgID {
				t.Errorf("%q %v", message, data)
			}
		})
	}
	code, _ := r.callAs(otherKey, "POST", "/api/settings", `{"llm_model":"a/m"}`)
	if message, _ := r.connect(id, "session_api_key="+otherKey).refusal(); code != 200 || !strings.Contains(message, "no such conversation") {
		t.Errorf("another user's: %q", message)
	}
}

// settled gives user-1 settings, which connections need.
func (r *rig) settled() *rig {
	r.Helper()
	r.want("POST", "/api/settings", `{"llm_model":"a/m"}`, 200, `{"message":"Settings stored"}`)
	return r
}

// TestTrap9Replay: null and recall actions are left out, hidden ones and
// change_agent_state are not, sources are raw, and only the last state comes, at the end.
func TestTrap9Replay(t *testing.T) {
	r := newRig(t).settled()
	id := r.conversation("hi")
	r.aRun(id)
	all := []string{"1 agent system", "2 user message", "3 environment change_agent_state running", "6 environment obs recall",
		"7 agent run", "8 agent obs run", "9 agent message", "11 user message", "15 agent finish", "16 environment obs agent_state_changed finished"}
	for latest, want := range map[string][]string{
		"": all, "undefined": all, "null": all, "-1": all, "x": all, "-7": all,
		"0": all, "8": all[6:], "15": all[9:], "13": all[8:],
	} {
		g := r.connect(id, "latest_event_id="+latest)
		g.wants(want...)
		g.leave()
		if err := g.end(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// TestTrap9Live: what comes from the environment is the agent's or not sent.
func TestTrap9Live(t *testing.T) {
	r := newRig(t).settled()
	id := r.conversation("hi")
	g := r.connect(id, "latest_event_id=undefined")
	g.wants("0 environment obs agent_state_changed loading")
	r.aRun(id)
	g.wants("1 agent system", "2 user message", "4 user recall", "5 agent obs agent_state_changed running", "6 agent obs recall",
		"7 agent run", "8 agent obs run", "9 agent message", "10 agent obs agent_state_changed awaiting_user_input",
		"11 user message", "12 user recall", "13 agent obs agent_state_changed running", // 14 is a null observation
		"15 agent finish", "16 agent obs agent_state_changed finished")
}

func TestConnectionsAreCounted(t *testing.T) {
	r := newRig(t).settled()
	id := r.conversation("hi")
	count := func() (n int) {
		var v struct {
			N int `json:"num_connections"`
		}
		r.decode("GET", "/api/conversations/"+string(id), "", &v)
		return v.N
	}
	a, b := r.connect(id, ""), r.connect(id, "")
	a.next()
	b.next()
	if n := count(); n != 2 {
		t.Errorf("%d", n)
	}
	a.leave()
	_ = a.end()
	if n := count(); n != 1 {
		t.Errorf("%d", n)
	}
}

// TestStopSendsClientsAway, and a client that comes then starts the conversation, whose
// ids go on.
func TestStopSendsClientsAway(t *testing.T) {
	r := newRig(t).settled()
	id := r.conversation("hi")
	r.aRun(id)
	g := r.connect(id, "latest_event_id=15")
	g.wants("16 environment obs agent_state_changed finished")
	r.want("POST", "/api/conversations/"+string(id)+"/stop", "", 200,
		fmt.Sprintf(`{"status":"ok","conversation_id":%q,"message":"Conversation stopped successfully","conversation_status":"RUNNING"}`, id))
	if err := g.end(); err != nil {
		t.Error(err)
	}
	r.engine.took()
	g = r.connect(id, "latest_event_id=16")
	g.wants("19 environment change_agent_state awaiting_user_input", "20 environment obs agent_state_changed awaiting_user_input")
	if calls := r.engine.took(); !slices.Contains(calls, "resume "+string(id)) {
		t.Error(calls)
	}
	var got []string
	for _, e := range r.events(id, "start_id=16", "").Events {
		got = append(got, fmt.Sprint(e.ID, " ", e.Source, " ", e.Action, e.Observation))
	}
	want := []string{"16 environment agent_state_changed", "17 environment agent_state_changed", "18 environment agent_state_changed",
		"19 environment change_agent_state", "20 environment agent_state_changed"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	r.want("DELETE", "/api/conversations/"+string(id), "", 200, "true")
	if err := g.end(); err != nil {
		t.Error(err)
	}
}

// TestStatusUpdates: how a start goes on, and a new title.
func TestStatusUpdates(t *testing.T) {
	r := newRig(t).settled()
	id := conversation.NewID()
	r.call("POST", "/api/conversations", fmt.Sprintf(`{"conversation_id":%q}`, id))
	g := r.connect(id, "")
	status := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"message":"","status_update":true,"type":"info"}`, id)
	}
	g.wants("0 environment obs agent_state_changed loading", status("STATUS$STARTING_RUNTIME"))
	r.phase(id, conversation.TaskSetupScript)
	g.wants(status("STATUS$SETTING_UP_WORKSPACE"))
	r.engine.ready(t, id, store.SandboxRunning)
	both := []string{line(g.next()), line(g.next())} // in any order: the event may be seen first
	slices.Sort(both)
	if want := []string{"2 agent obs agent_state_changed awaiting_user_input", status("STATUS$READY")}; !slices.Equal(both, want) {
		t.Errorf("%q", both)
	}
	r.want("PATCH", "/api/conversations/"+string(id), `{"title":"New"}`, 200, "true")
	g.wants(fmt.Sprintf(`{"conversation_title":"New","message":%q,"status_update":true,"type":"info"}`, id))
}

func (r *rig) phase(id conversation.ID, s conversation.TaskStatus) {
	r.Helper()
	task, err := r.store.StartTasks().Latest(r.Context(), id)
	check(r.TB, err)
	task.Status = s
	check(r.TB, r.store.StartTasks().Save(r.Context(), task))
}

func TestFailedStartIsTold(t *testing.T) {
	r := newRig(t).settled()
	id := conversation.NewID()
	r.call("POST", "/api/conversations", fmt.Sprintf(`{"conversation_id":%q}`, id))
	g := r.connect(id, "")
	g.next()
	g.next()
	task, err := r.store.StartTasks().Latest(t.Context(), id)
	check(t, err)
	task.Status, task.Detail = conversation.TaskError, "No such repository."
	check(t, r.store.StartTasks().Save(t.Context(), task))
	g.wants(`{"id":"STATUS$ERROR","message":"No such repository.","status_update":true,"type":"error"}`,
		`{"error":true,"message":"Failed to create agent session: RuntimeError"}`)
}

// TestEvictionIsTold: a conversation whose place others needed.
func TestEvictionIsTold(t *testing.T) {
	r := newRig(t).settled()
	id := r.conversation("hi")
	g := r.connect(id, "")
	g.next()
	r.engine.evict(id)
	v := g.next()
	if v["id"] != "AGENT_ERROR$TOO_MANY_CONVERSATIONS" || v["type"] != "error" || v["status_update"] != true {
		t.Error(v)
	}
	if err := g.end(); err != nil {
		t.Error(err)
	}
}

// TestEvictionByTheBoundIsTold: one that was stopped because its owner started another.
func TestEvictionByTheBoundIsTold(t *testing.T) {
	r := newRig(t).settled()
	r.change = func(c *v0.Config) { c.MaxLive = 1 }
	r.restart()
	id := r.conversation("hi")
	g := r.connect(id, "")
	g.next()
	other := conversation.NewID()
	r.engine.setBox(other, store.SandboxStarting)
	go r.call("POST", "/api/conversations", `{"conversation_id":"`+string(other)+`"}`)
	if v := g.next(); v["id"] != "AGENT_ERROR$TOO_MANY_CONVERSATIONS" {
		t.Error(v)
	}
	if err := g.end(); err != nil {
		t.Error(err)
	}
}

func (e *fakeEngine) evict(id conversation.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	box := *e.boxes["box-"+string(id)]
	box.Status, box.Detail = store.SandboxPaused, store.DetailMadeRoom
	e.boxes[box.ID] = &box
}

// TestSocketEvents: what clients say on a socket is carried out as over HTTP; what is
// wrong with it they are told.
func TestSocketEvents(t *testing.T) {
	r := newRig(t).settled()
	id := r.conversation("hi")
	g := r.connect(id, "")
	g.next()
	g.says("oh_user_action", `{"action":"message","args":{"content":"hello","image_urls":[],"file_urls":[],"timestamp":"2025"}}`)
	g.says("oh_action", `{"action":"change_agent_state","args":{"agent_state":"stopped"}}`)
	g.wants("1 agent obs agent_state_changed stopped")
	g.says("other", `{"action":"message","args":{"content":"no"}}`)
	g.says("oh_user_action", `{"action":"change_agent_state","args":{"agent_state":"sleeping"}}`)
	g.wants(`{"error":true,"message":"The event is not valid: agent_state: Input should be 'running', 'paused', 'stopped', 'user_confirmed' or 'user_rejected'"}`)
	g.says("oh_user_action", `7`)
	g.next()
	g.says("oh_user_action", `{"action":"null"}`)
	g.says("oh_user_action", `{"action":"run","args":{"command":"ls -l","hidden":true}}`)
	g.says("oh_user_action", `{"action":"loop_recovery","args":{"option":2}}`)
	g.says("oh_user_action", `{"action":"loop_recovery","args":{"option":3}}`)
	g.wants(`{"error":true,"message":"The conversation was not stopped for repeating itself."}`)
	r.engine.sight = engine.Blind
	g.says("oh_user_action", `{"action":"message","args":{"content":"look","image_urls":["data:image/png;base64,eA=="]}}`)
	g.wants(`{"error":true,"message":"Model does not support image upload, change to a different model or try without an image."}`)
	want := []string{fmt.Sprintf(`send %s "hello" run=true`, id), "interrupt", `run for user "ls -l" hidden=true`, "leave loop again=true"}
	if got := r.engine.took(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestErrorsComeWithAStatus: the update comes before the state.
func TestErrorsComeWithAStatus(t *testing.T) {
	r := newRig(t).settled()
	id := r.conversation("hi")
	w := r.writer(id)
	w.append(prompt(), says("user", "hi"), status(conversation.Running))
	g := r.connect(id, "latest_event_id=4")
	g.wants("6 environment obs recall", "5 environment obs agent_state_changed running")
	w.append(update(conversation.KeyAgentState, conversation.AgentNotes{LLMRetry: &conversation.LLMRetry{Attempt: 1, MaxAttempts: 5, Code: "LLMServiceUnavailableError"}}))
	w.append(&conversation.ConversationErrorEvent{Header: conversation.Header{Kind: conversation.KindConversationError, Source: "environment"},
		Code: "LLMAuthenticationError", Detail: "No."}, status(conversation.Error))
	wants := []string{`{"id":"STATUS$LLM_RETRY","message":"Retrying LLM request, 1 / 5","status_update":true,"type":"info"}`,
		`{"id":"STATUS$ERROR_LLM_AUTHENTICATION","message":"STATUS$ERROR_LLM_AUTHENTICATION","status_update":true,"type":"error"}`,
		"8 agent obs agent_state_changed error"}
	var got []string
	for slices.ContainsFunc(wants, func(want string) bool { return !slices.Contains(got, want) }) {
		got = append(got, line(g.next())) // the retry, which no event tells, may come behind the others
	}
	if slices.Index(got, wants[1]) > slices.Index(got, wants[2]) {
		t.Errorf("%q", got)
	}
}

// follower is a client that reconnects; it checks what every client may rely on.
type follower struct {
	r      *rig
	id     conversation.ID
	g      *guest
	latest int64
	seen   map[int64]bool
	last   int64 // of what came in order
}

func (f *follower) connect(latest int64) {
	f.latest, f.last = latest, latest
	f.seen = map[int64]bool{}
	f.g = f.r.connect(f.id, fmt.Sprintf("latest_event_id=%d", latest))
}

// take reads up to n things, fewer if nothing comes for a moment.
func (f *follower) take(t *rapid.T, n int, patience time.Duration) {
	for range n {
		select {
		case raw := <-f.g.out:
			if strings.Contains(string(raw), `"status_update":true`) {
				continue
			}
			var e event
			if err := json.Unmarshal(raw, &e); err != nil {
				t.Fatal(err)
			}
			f.got(t, e)
		case <-time.After(patience):
			return
		}
	}
}

func (f *follower) got(t *rapid.T, e event) {
	if e.ID <= f.latest {
		t.Fatalf("event %d came again: the client has all up to %d", e.ID, f.latest)
	}
	if f.seen[e.ID] {
		t.Fatalf("event %d came twice", e.ID)
	}
	f.seen[e.ID] = true
	if e.Source == "environment" && e.Observation == "agent_state_changed" {
		return // the last of a replay, which comes behind what is newer
	}
	if e.ID < f.last {
		t.Fatalf("event %d came after %d", e.ID, f.last)
	}
	f.last = e.ID
}

// TestEveryClientSeesEachEventOnce: whatever is appended while clients come, go, come
// again with any id and read slowly, each sees all that it should, once and in order.
func TestEveryClientSeesEachEventOnce(t *testing.T) {
	r := newRig(t).settled()
	rapid.Check(t, func(rt *rapid.T) {
		id := r.conversation("hi")
		w := r.writer(id)
		var open []*conversation.ActionEvent
		n := 0
		clients := make([]*follower, rapid.IntRange(1, 3).Draw(rt, "clients"))
		for i := range clients {
			clients[i] = &follower{r: r, id: id}
			clients[i].connect(-1)
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			c := clients[rapid.IntRange(0, len(clients)-1).Draw(rt, "client")]
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0: // leaves, and comes again with what it has, or with anything
				c.g.leave()
				_ = c.g.end()
				latest := c.last
				if rapid.Bool().Draw(rt, "any") {
					latest = int64(rapid.IntRange(-1, len(readAll(r, rt, id, 100, false))-1).Draw(rt, "latest"))
				}
				c.connect(latest)
			case 1:
				c.take(rt, rapid.IntRange(1, 10).Draw(rt, "takes"), time.Millisecond)
			default:
				w.append(drawTurn(rt, &open, &n)...)
			}
		}
		all := readAll(r, rt, id, 100, false)
		for _, c := range clients {
			deadline := time.Now().Add(20 * time.Second)
			for c.missing(rt, all) != "" && time.Now().Before(deadline) {
				c.take(rt, 1, 20*time.Millisecond)
			}
			if missing := c.missing(rt, all); missing != "" {
				rt.Fatal(missing)
			}
			c.take(rt, 1000, 10*time.Millisecond) // what comes twice comes now
			c.g.leave()
			_ = c.g.end()
		}
	})
}

// missing says what is missing of what every client gets, live or replayed.
func (f *follower) missing(t *rapid.T, all []string) string {
	state := int64(-1)
	for i, raw := range all {
		var e event
		if err := json.Unmarshal([]byte(raw), &e); err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Observation == "agent_state_changed":
			state = e.ID
			continue
		case int64(i) <= f.latest, e.Action == "null", e.Observation == "null", e.Action == "recall", e.Source == "environment" && e.Action != "":
			continue
		}
		if !f.seen[e.ID] {
			return fmt.Sprintf("event %d of %d is missing: %s", e.ID, len(all), raw)
		}
	}
	if state > f.latest && !f.seen[state] {
		return fmt.Sprintf("the last state, %d, is missing", state)
	}
	return ""
}
