package imports

import (
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"

	"parley/internal/conversation"
)

// FuzzLegacyStore: whatever is in the files, what is made of them is a log that can be
// read back, with gap-free numbers of events that are JSON.
func FuzzLegacyStore(f *testing.F) {
	const said = `{"id":0,"timestamp":"2025-11-20T10:00:00","source":"user","action":"message","args":{"content":"a"}}`
	f.Add([]byte(`{"created_at":"2025-11-20T09:00:00Z"}`), []byte(said), []byte(`{"source":"agent","action":"run","args":{"command":"x"}}`), []byte(`{}`))
	f.Add([]byte(`{"created_at":"2025-11-20T09:00:00Z","title":{},"accumulated_cost":1e308}`), []byte(`{"action":"finish"}`),
		[]byte(`{"observation":"run","cause":0,"content":"x","extras":{"metadata":[]}}`), []byte(said))
	f.Add([]byte(`{"created_at":"2025-11-20T09:00:00Z"}`), []byte(`{"action":"task_tracking","args":{"command":"plan","task_list":[7]}}`),
		[]byte(`{"observation":"agent_state_changed","extras":{"agent_state":"error","reason":"\ud800"}}`), []byte(`{`))
	f.Fuzz(func(t *testing.T, meta, first, second, fourth []byte) {
		r := reader{part: func(string) int { return 1 }, sum: sha256.New()}
		r.mask = func(b []byte) []byte { return masked(b, strings.NewReplacer("hush", "<hidden>").Replace) }
		l, m, err := r.startLegacy("0123456789abcdef0123456789abcdef", meta)
		if err != nil {
			return
		}
		if err := r.legacyLog(l, m, map[int64][]byte{0: first, 1: second, 4: fourth}); err != nil {
			t.Fatal(err)
		}
		checkLoaded(t, l)
	})
}

// FuzzAgentEvents: the same for events of an agent-server.
func FuzzAgentEvents(f *testing.F) {
	f.Add([]byte(`{"kind":"MessageEvent","id":"a","timestamp":"2026-01-02T03:04:05","source":"user"}`), []byte(`{"kind":"ConversationStateUpdateEvent","id":"b","timestamp":"9","key":"leaf_event_id","value":"a"}`))
	f.Add([]byte(`{"kind":"ActionEvent","id":"a","timestamp":"x","parent_id":"a"}`), []byte(`{"kind":"Condensation","id":"c","timestamp":"","forgotten_event_ids":["a"]}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		l := &loaded{conv: &conversation.Conversation{ID: "0123456789abcdef0123456789abcdef"}}
		log := &agentLog{loaded: l, state: conversation.NewState(), seen: map[string]bool{}}
		for _, raw := range [][]byte{first, second} {
			if err := log.take(raw); err != nil && err.Error() == "" {
				t.Error("no reason")
			}
		}
		if err := log.end(); err != nil {
			t.Fatal(err)
		}
		checkLoaded(t, l)
	})
}

func checkLoaded(t *testing.T, l *loaded) {
	t.Helper()
	state := conversation.NewState()
	for i, ev := range l.events {
		p, err := conversation.Decode(ev)
		if err != nil || !json.Valid(ev.Raw) || ev.ID == "" {
			t.Fatalf("event %d: %v %s", i, err, ev.Raw)
		}
		ev.Seq = int64(i)
		state.Apply(ev, p)
	}
	if len(state.Pending) > 0 || state.Status != conversation.Idle {
		t.Errorf("%d open calls, %s", len(state.Pending), state.Status)
	}
	last := int64(-1)
	for i, n := range l.numbers {
		if n.ID != int64(i) || n.Seq < last || n.Seq >= int64(len(l.events)) || !json.Valid(l.raw[i]) {
			t.Errorf("number %d: %+v %s", i, n, l.raw[i])
		}
		last = n.Seq
	}
}
