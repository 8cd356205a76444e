package v0_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/store"
)

type event struct {
	ID          int64
	Action      string
	Observation string
	Cause       *int64
	Source      string
	Metrics     *struct {
		Cost float64 `json:"accumulated_cost"`
	} `json:"llm_metrics"`
}

type page struct {
	Events  []event
	HasMore bool `json:"has_more"`
}

func (r *rig) events(id conversation.ID, query, filter string) page {
	r.Helper()
	var p page
	r.decode("GET", "/api/conversations/"+string(id)+"/events?"+query, filter, &p)
	return p
}

func ids(events []event) []int64 {
	out := []int64{}
	for _, e := range events {
		out = append(out, e.ID)
	}
	return out
}

// aRun appends the first golden trace: 17 events, numbers 0 to 16.
func (r *rig) aRun(id conversation.ID) {
	w := r.writer(id)
	a := runs("a1", "ls <x>")
	w.append(prompt(), says("user", "hi"), status(conversation.Running))
	w.append(a, stats(0.1))
	w.append(ran(a, "some OUTPUT"))
	w.append(says("agent", "and now?"), stats(0.2), status(conversation.Finished))
	w.append(says("user", "bye"), status(conversation.Running))
	f := runs("f1", "")
	f.ToolName, f.Action = "finish", json.RawMessage(`{"kind":"FinishAction","message":"done"}`)
	w.append(f, stats(0.3))
	w.append(&conversation.ObservationEvent{Header: conversation.Header{Kind: conversation.KindObservation, Source: "environment"},
		ToolName: "finish", ToolCallID: f.ToolCallID, ActionID: f.ID, Observation: json.RawMessage(`{"kind":"FinishObservation","content":[]}`)},
		status(conversation.Finished))
}

// V0 8.5: byte-exact, wherever it stands; in the log it is the agent protocol's.
func TestMaskedSecretsAreSpelledAsLegacyClientsKnowThem(t *testing.T) {
	r := newRig(t)
	id := r.conversation("use <secret-hidden>")
	w := r.writer(id)
	a := runs("a1", "curl -H <secret-hidden>")
	a.Thought = []content.Part{content.Text("with <secret-hidden>")}
	m := runs("m1", "")
	m.ToolName, m.Action = "fetch", json.RawMessage(`{"kind":"MCPToolAction","data":{"key":"\u003csecret-hidden\u003e"}}`)
	w.append(prompt(), says("user", "use <secret-hidden>"), status(conversation.Running), a, ran(a, "it is <secret-hidden>"), m)
	for _, path := range []string{"/events?limit=100", "/trajectory"} {
		_, got := r.call("GET", "/api/conversations/"+string(id)+path, "")
		if strings.Contains(got, "secret-hidden") || strings.Count(got, "<secret_hidden>") < 8 {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// V0 1.4: the place of a mistake is the one in the body that was sent.
func TestEmptyMessageNamesItsMember(t *testing.T) {
	r := newRig(t)
	path := "/api/conversations/" + string(r.conversation("hi"))
	const answer = `{"detail":[{"type":"value_error","loc":["body",%s],"msg":"Value error, The message is empty","input":" ","ctx":{"error":{}}}]}`
	r.want("POST", path+"/message", `{"message":" "}`, 422, fmt.Sprintf(answer, `"message"`))
	r.want("POST", path+"/events", `{"action":"message","args":{"content":" "}}`, 422, fmt.Sprintf(answer, `"args","content"`))
}

func TestEventsPaging(t *testing.T) {
	r := newRig(t)
	id := r.conversation("hi")
	r.aRun(id)
	upTo := func(from, to int64) []int64 {
		out := []int64{}
		for i := from; i <= to; i++ {
			out = append(out, i)
		}
		return out
	}
	down := func(to, from int64) []int64 { out := upTo(from, to); slices.Reverse(out); return out }
	for _, c := range []struct {
		query string
		ids   []int64
		more  bool
	}{
		{"", upTo(0, 16), false},
		{"limit=5", upTo(0, 4), true},
		{"limit=17", upTo(0, 16), false},
		{"limit=0", upTo(0, -1), true},
		{"limit=0&start_id=17", upTo(0, -1), false},
		{"start_id=10&limit=100", upTo(10, 16), false},
		{"start_id=-9&limit=2", upTo(0, 1), true},
		{"start_id=3&end_id=5", upTo(3, 5), false}, // trap 8: end_id is inclusive
		{"start_id=3&end_id=5&limit=2", upTo(3, 4), true},
		{"end_id=1000&start_id=15", upTo(15, 16), false},
		{"start_id=5&end_id=3", upTo(0, -1), false},
		{"reverse=true&limit=3", down(16, 14), true},
		{"reverse=true&limit=100", down(16, 0), false},
		{"reverse=true&start_id=3&end_id=5&limit=2", down(5, 4), true}, // trap 8: has_more looks in the direction
		{"reverse=true&start_id=3&end_id=5", down(5, 3), false},
		{"reverse=yes&start_id=16", []int64{16}, false},
	} {
		got := r.events(id, c.query, "")
		if !slices.Equal(ids(got.Events), c.ids) || got.HasMore != c.more {
			t.Errorf("%s: %v more=%v", c.query, ids(got.Events), got.HasMore)
		}
	}
	path := "/api/conversations/" + string(id) + "/events"
	for _, limit := range []string{"-1", "101"} {
		r.want("GET", path+"?limit="+limit, "", 400, `{"detail":"Invalid limit"}`)
	}
	if got := r.wrongs("GET", path+"?start_id=x", ""); len(got) != 1 || !strings.HasPrefix(got[0], `["query","start_id"] int_parsing`) {
		t.Error(got)
	}
}

// TestTrap9RESTHidesNothing, and causes and metrics are those of the trace.
func TestTrap9RESTHidesNothing(t *testing.T) {
	r := newRig(t)
	id := r.conversation("hi")
	r.aRun(id)
	var got []string
	for _, e := range r.events(id, "limit=100", "").Events {
		line := fmt.Sprintf("%d %s %s%s", e.ID, e.Source, e.Action, e.Observation)
		if e.Cause != nil {
			line += fmt.Sprintf(" cause %d", *e.Cause)
		}
		if e.Metrics != nil {
			line += fmt.Sprintf(" cost %g", e.Metrics.Cost)
		}
		got = append(got, line)
	}
	want := []string{"0 environment agent_state_changed", "1 agent system", "2 user message", "3 environment change_agent_state",
		"4 user recall", "5 environment agent_state_changed", "6 environment recall cause 4", "7 agent run cost 0.1", "8 agent run cause 7",
		"9 agent message cost 0.2", "10 environment agent_state_changed", "11 user message", "12 user recall",
		"13 environment agent_state_changed", "14 environment null cause 12", "15 agent finish cost 0.3", "16 environment agent_state_changed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// The same events, page by page: look-ups across pages change nothing.
	for start := range 17 {
		one := r.events(id, fmt.Sprintf("start_id=%d&limit=1", start), "").Events[0]
		all := r.events(id, "limit=100", "").Events[start]
		if diff := cmp.Diff(all, one); diff != "" {
			t.Errorf("event %d alone: %s", start, diff)
		}
	}
}

// TestTrap15FilterBody: a GET with a JSON body is a filter.
func TestTrap15FilterBody(t *testing.T) {
	r := newRig(t)
	id := r.conversation("hi")
	r.aRun(id)
	for filter, want := range map[string][]int64{
		`null`:                                 {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
		`{"exclude_hidden":true}`:              {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
		`{"query":"some output"}`:              {8},
		`{"query":"LS <X>"}`:                   {7, 8},
		`{"source":"user"}`:                    {2, 4, 11, 12},
		`{"source":"user","query":"bye"}`:      {11, 12},
		`{"start_date":"2025-11-20T10:00:10"}`: {14, 15, 16},
		`{"end_date":"2025-11-20T10:00:00.000000","source":"agent"}`:              {1},
		`{"query":"nowhere","unknown":1,"include_types":null,"exclude_types":[]}`: {},
	} {
		got := r.events(id, "limit=100", filter)
		if strings.HasPrefix(filter, `{"start_date"`) { // dates move with the log's layout: only the rest matters
			if len(got.Events) == 0 || got.Events[len(got.Events)-1].ID != 16 {
				t.Errorf("%s: %v", filter, ids(got.Events))
			}
			continue
		}
		if !slices.Equal(ids(got.Events), want) || got.HasMore {
			t.Errorf("%s: %v more=%v", filter, ids(got.Events), got.HasMore)
		}
	}
	if got := r.events(id, "limit=1", `{"source":"user"}`); !slices.Equal(ids(got.Events), []int64{2}) || !got.HasMore {
		t.Error(got)
	}
	if got := r.events(id, "limit=1&reverse=true", `{"source":"user"}`); !slices.Equal(ids(got.Events), []int64{12}) || !got.HasMore {
		t.Error(got)
	}
	if got := r.events(id, "limit=2&start_id=4", `{"source":"user"}`); !slices.Equal(ids(got.Events), []int64{4, 11}) || !got.HasMore {
		t.Error(got)
	}
	path := "/api/conversations/" + string(id) + "/events"
	if got := r.wrongs("GET", path, `{"query":5}`); len(got) != 1 {
		t.Error(got)
	}
	if got := r.wrongs("GET", path, `{"include_types":["x"]}`); len(got) != 1 {
		t.Error(got)
	}
}

// TestTrap15EventsOfStopped: events can be read when nothing runs; what needs a
// running conversation is 404.
func TestTrap15EventsOfStopped(t *testing.T) {
	r := newRig(t)
	id := r.conversation("hi")
	r.aRun(id)
	r.engine.setBox(id, store.SandboxPaused)
	if got := r.events(id, "limit=100", ""); len(got.Events) != 17 {
		t.Error(got)
	}
	path, gone := "/api/conversations/"+string(id), `{"detail":"Conversation `+string(id)+` not found"}`
	r.want("POST", path+"/events", `{"action":"message","args":{"content":"x"}}`, 404, gone)
	r.want("POST", path+"/message", `{"message":"x"}`, 404, gone)
	r.want("GET", path+"/trajectory", "", 404, gone)
	if calls := r.engine.took(); len(calls) > 0 {
		t.Error(calls)
	}
}

func TestConversationWithoutFirstMessage(t *testing.T) {
	r := newRig(t)
	r.call("POST", "/api/conversations", `{"conversation_id":"`+anID+`"}`)
	if got := r.events(anID, "", ""); len(got.Events) != 1 || got.Events[0].Observation != "agent_state_changed" {
		t.Errorf("while starting: %v", got)
	}
	r.engine.ready(t, anID, store.SandboxRunning)
	for range 2 {
		if got := r.events(anID, "", ""); !slices.Equal(ids(got.Events), []int64{0, 1, 2}) {
			t.Errorf("when ready: %v", got)
		}
	}
	w := r.writer(anID)
	w.append(prompt(), says("user", "hi"), status(conversation.Running))
	got := r.events(anID, "start_id=3", "")
	var kinds []string
	for _, e := range got.Events {
		kinds = append(kinds, e.Action+e.Observation)
	}
	if want := []string{"system", "message", "recall", "agent_state_changed", "recall"}; !slices.Equal(kinds, want) {
		t.Error(kinds)
	}
}

func TestTrajectory(t *testing.T) {
	r := newRig(t)
	id := r.conversation("hi")
	w := r.writer(id)
	w.append(prompt(), says("user", "hi"), status(conversation.Running))
	for i := range 120 {
		a := runs(fmt.Sprint("a", i), "ls")
		w.append(a, stats(1))
		w.append(ran(a, "x"))
	}
	var got struct{ Trajectory []json.RawMessage }
	r.decode("GET", "/api/conversations/"+string(id)+"/trajectory", "", &got)
	var all struct{ Events []json.RawMessage }
	r.decode("GET", "/api/conversations/"+string(id)+"/events?limit=100", "", &all)
	if len(got.Trajectory) != 247 {
		t.Errorf("%d events", len(got.Trajectory))
	}
	for i := range all.Events {
		if string(got.Trajectory[i]) != string(all.Events[i]) {
			t.Errorf("event %d differs", i)
		}
	}
}

func TestClientEvents(t *testing.T) {
	r := newRig(t)
	id := r.conversation("hi")
	path := "/api/conversations/" + string(id) + "/events"
	for body, want := range map[string]string{
		`{"action":"message","args":{"content":"hi","image_urls":[],"file_urls":[],"timestamp":"2025-11-20T10:00:00"}}`: "send " + string(id) + ` "hi" run=true`,
		`{"action":"message","source":"agent","args":{"content":"","image_urls":["data:x"]}}`:                           "send " + string(id) + ` "" run=true`,
		`{"action":"change_agent_state","args":{"agent_state":"stopped"}}`:                                              "interrupt",
		`{"action":"change_agent_state","args":{"agent_state":"paused"}}`:                                               "pause " + string(id),
		`{"action":"change_agent_state","args":{"agent_state":"running"}}`:                                              "run",
		`{"action":"change_agent_state","args":{"agent_state":"user_confirmed"}}`:                                       "confirm true",
		`{"action":"change_agent_state","args":{"agent_state":"user_rejected"}}`:                                        "confirm false",
	} {
		r.want("POST", path, body, 200, `{"success":true}`)
		if calls := r.engine.took(); !slices.Equal(calls, []string{want}) {
			t.Errorf("%s: %q", body, calls)
		}
	}
	r.engine.fail = fault.New(fault.Conflict, engine.CodeRunning, "It runs.")
	r.want("POST", path, `{"action":"change_agent_state","args":{"agent_state":"running"}}`, 200, `{"success":true}`)
	r.engine.fail = fault.New(fault.Conflict, "nothing_to_confirm", "No action waits for confirmation.")
	r.want("POST", path, `{"action":"change_agent_state","args":{"agent_state":"user_confirmed"}}`, 409, `{"detail":"No action waits for confirmation."}`)
	r.want("POST", strings.TrimSuffix(path, "events")+"message", `{"message":"hi"}`, 200, `{"success":true}`)
	r.engine.fail = fmt.Errorf("boom")
	code, body := r.call("POST", strings.TrimSuffix(path, "events")+"message", `{"message":"hi"}`)
	if code != 500 || !strings.HasPrefix(body, `{"error":"`) || !strings.Contains(body, `"success":false`) {
		t.Errorf("%d %s", code, body)
	}
}

// TestBadClientEvents is choice 9 of the contract's section 20: never a 500.
func TestBadClientEvents(t *testing.T) {
	r := newRig(t)
	id := r.conversation("hi")
	for _, body := range []string{``, `null`, `[]`, `{}`, `{"action":7}`, `{"action":"nonsense"}`, `{"action":"run"}`, `{"action":"write","args":{"path":"x"}}`, `{"observation":"run"}`, `{"action":"message","id":3,"args":{"content":"x"}}`, `{"action":"message","args":{"content":"x","colour":1}}`, `{"action":"loop_recovery","args":{"option":4}}`,
		`{"action":"message"}`, `{"action":"message","args":null}`, `{"action":"message","args":{"content":5}}`, `{"action":"message","args":{"content":" "}}`,
		`{"action":"message","args":{"content":"x","image_urls":"y"}}`, `{"action":"message","args":[]}`,
		`{"action":"change_agent_state"}`, `{"action":"change_agent_state","args":{"agent_state":"loading"}}`,
		`{"action":"change_agent_state","args":{"agent_state":5}}`, `{"action":"message","source":"x","args":{"content":"x"}}`} {
		if got := r.wrongs("POST", "/api/conversations/"+string(id)+"/events", body); len(got) == 0 {
			t.Errorf("%s was accepted", body)
		}
	}
	if calls := r.engine.took(); len(calls) > 0 {
		t.Error(calls)
	}
}

// TestPagesOfLargeEventsEndEarly: with has_more, and going on behind the last id finds
// each event once.
func TestPagesOfLargeEventsEndEarly(t *testing.T) {
	r := newRig(t)
	id := r.conversation("hi")
	w := r.writer(id)
	w.append(prompt(), says("user", "hi"), status(conversation.Running))
	const large = 6
	for range large {
		w.append(says("agent", strings.Repeat("x", 5<<20)))
	}
	var seen []int64
	for more, from, pages := true, int64(0), 0; more; pages++ {
		var page struct {
			Events []struct {
				ID int64 `json:"id"`
			} `json:"events"`
			More bool `json:"has_more"`
		}
		_, body := r.call("GET", fmt.Sprintf("/api/conversations/%s/events?limit=100&start_id=%d", id, from), "")
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatal(err)
		}
		if len(body) > 33<<20 || len(page.Events) == 0 || pages == 0 && !page.More {
			t.Fatalf("page %d has %d bytes, %d events, more %v", pages, len(body), len(page.Events), page.More)
		}
		for _, e := range page.Events {
			seen = append(seen, e.ID)
		}
		from, more = seen[len(seen)-1]+1, page.More
	}
	for i, id := range seen {
		if id != int64(i) {
			t.Fatalf("ids %v", seen)
		}
	}
	if len(seen) < large+5 {
		t.Errorf("%d events", len(seen))
	}
}
