package v0_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/conversation"
	"parley/internal/store"
)

// turn is what the engine appends at once.
type turn []conversation.Payload

// turns draws what the engine may append next, legal or not: the projection must
// number any log.
func drawTurn(t *rapid.T, open *[]*conversation.ActionEvent, n *int) turn {
	*n++
	call := func() *conversation.ActionEvent {
		a := runs(fmt.Sprintf("call-%d", *n), "ls")
		if rapid.IntRange(0, 5).Draw(t, "finish") == 0 {
			a.ToolName, a.Action = "finish", json.RawMessage(`{"kind":"FinishAction","message":"x"}`)
		}
		*n++
		*open = append(*open, a)
		return a
	}
	answered := func() *conversation.ActionEvent {
		if len(*open) == 0 {
			return runs("nobody", "ls")
		}
		i := rapid.IntRange(0, len(*open)-1).Draw(t, "answered")
		a := (*open)[i]
		*open = slices.Delete(*open, i, i+1)
		return a
	}
	head := func(kind, source string) conversation.Header { return conversation.Header{Kind: kind, Source: source} }
	switch rapid.IntRange(0, 10).Draw(t, "turn") {
	case 0:
		return turn{says("user", "hi")}
	case 1:
		return turn{says("user", "hi"), status(conversation.Running)}
	case 2:
		return turn{says("agent", "well"), stats(1), status(conversation.Finished)}
	case 3:
		return turn{call(), call(), stats(1)}
	case 4:
		return turn{call(), call(), stats(1), status(conversation.WaitingConfirmation)}
	case 5:
		return turn{ran(answered(), "out")}
	case 6:
		a := answered()
		return turn{&conversation.UserRejectObservation{Header: head(conversation.KindUserReject, "environment"), ToolName: a.ToolName,
			ToolCallID: a.ToolCallID, ActionID: a.ID, RejectionSource: "user"}, status(conversation.Idle)}
	case 7:
		a := answered()
		return turn{&conversation.AgentErrorEvent{Header: head(conversation.KindAgentError, "agent"), ToolName: a.ToolName,
			ToolCallID: a.ToolCallID, Error: "failed"}}
	case 8:
		return turn{&conversation.InterruptEvent{Header: head(conversation.KindInterrupt, "user")}, status(conversation.Paused)}
	case 9:
		return turn{&conversation.ConversationErrorEvent{Header: head(conversation.KindConversationError, "environment"), Code: "X", Detail: "d"},
			status(conversation.Error)}
	}
	return turn{prompt(), status(rapid.SampledFrom(conversation.Statuses).Draw(t, "status"))}
}

// TestNumbersAreStable: for any log and any interleaving of appends, reads,
// restarts and two servers, ids have no gaps, what was read once is read the same
// for ever, and both directions give the same events.
func TestNumbersAreStable(t *testing.T) {
	r := newRig(t)
	rapid.Check(t, func(rt *rapid.T) {
		id := r.conversation("hi")
		w := r.writer(id)
		servers := []http.Handler{r.newServer(), r.newServer()}
		var open []*conversation.ActionEvent
		var seen []string
		n := 0
		read := func() {
			r.server = servers[rapid.IntRange(0, 1).Draw(rt, "server")]
			limit := rapid.IntRange(1, 100).Draw(rt, "limit")
			all := readAll(r, rt, id, limit, false)
			for i, e := range all {
				if i < len(seen) && seen[i] != e {
					rt.Fatalf("event %d changed:\n%s\n%s", i, seen[i], e)
				}
			}
			if len(all) < len(seen) {
				rt.Fatalf("%d events, there were %d", len(all), len(seen))
			}
			back := readAll(r, rt, id, limit, true)
			slices.Reverse(back)
			if !slices.Equal(all, back) {
				rt.Fatalf("backwards differs: %d and %d events", len(all), len(back))
			}
			seen = all
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				servers[rapid.IntRange(0, 1).Draw(rt, "restarted")] = r.newServer()
			case 1:
				read()
			default:
				w.append(drawTurn(rt, &open, &n)...)
			}
		}
		read()
		checkNumbers(rt, seen)
	})
}

// readAll pages through all events with the arithmetic of real clients: the
// greatest id + 1, or the smallest - 1.
func readAll(r *rig, t *rapid.T, id conversation.ID, limit int, reverse bool) []string {
	out, query := []string{}, ""
	for {
		var p struct {
			Events  []json.RawMessage
			HasMore bool `json:"has_more"`
		}
		r.decode("GET", fmt.Sprintf("/api/conversations/%s/events?limit=%d&reverse=%v%s", id, limit, reverse, query), "", &p)
		for _, e := range p.Events {
			out = append(out, string(e))
		}
		if !p.HasMore {
			return out
		}
		if len(p.Events) != limit {
			t.Fatalf("a page of %d with more to come", len(p.Events))
		}
		var last struct{ ID int64 }
		if err := json.Unmarshal(p.Events[len(p.Events)-1], &last); err != nil {
			t.Fatal(err)
		}
		if query = fmt.Sprintf("&start_id=%d", last.ID+1); reverse {
			query = fmt.Sprintf("&end_id=%d", last.ID-1)
		}
	}
}

// checkNumbers: gap-free ids from 0; a cause is an earlier action.
func checkNumbers(t *rapid.T, events []string) {
	var actions []bool
	for i, raw := range events {
		var e event
		if err := json.Unmarshal([]byte(raw), &e); err != nil {
			t.Fatal(err)
		}
		if e.ID != int64(i) {
			t.Fatalf("event %d has id %d", i, e.ID)
		}
		if e.Cause != nil && (*e.Cause >= e.ID || !actions[*e.Cause]) {
			t.Fatalf("cause of %d is %d", e.ID, *e.Cause)
		}
		actions = append(actions, e.Action != "")
	}
}

// TestRestartDerivesTheSame: a projection that is restored from what it stored
// goes on exactly like one that was never interrupted.
func TestRestartDerivesTheSame(t *testing.T) {
	r := newRig(t)
	rapid.Check(t, func(rt *rapid.T) {
		one, other := r.conversation("hi"), r.conversation("hi")
		w1, w2 := r.writer(one), r.writer(other)
		var open []*conversation.ActionEvent
		n := 0
		for range rapid.IntRange(1, 15).Draw(rt, "turns") {
			next := drawTurn(rt, &open, &n)
			w1.append(next...)
			w2.append(next...)
			r.restart()
			r.events(one, "limit=1", "")
		}
		mine, its := readAll(r, rt, one, 100, false), readAll(r, rt, other, 100, false)
		for i := range mine {
			if i == 0 || i >= len(its) { // the first carries the time of creation
				continue
			}
			if mine[i] != its[i] {
				rt.Fatalf("event %d differs:\n%s\n%s", i, mine[i], its[i])
			}
		}
		if len(mine) != len(its) {
			rt.Fatalf("%d and %d events", len(mine), len(its))
		}
	})
}

// TestManyReadersAtOnce: concurrent readers of several servers while the log grows.
func TestManyReadersAtOnce(t *testing.T) {
	r := newRig(t)
	id := r.conversation("hi")
	w := r.writer(id)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		mine := &rig{TB: t, store: r.store, engine: r.engine}
		mine.server = mine.newServer()
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if code, body := mine.call("GET", "/api/conversations/"+string(id)+"/events?reverse=true&limit=50", ""); code != 200 {
					t.Errorf("%d %s", code, body)
					return
				}
			}
		})
	}
	w.append(prompt(), says("user", "hi"), status(conversation.Running))
	for i := range 60 {
		a := runs(fmt.Sprint("a", i), "ls")
		w.append(a, stats(1))
		w.append(ran(a, "x"))
	}
	close(done)
	readers.Wait()
	var got []int64
	for start := 0; ; start += 100 {
		p := r.events(id, fmt.Sprintf("limit=100&start_id=%d", start), "")
		got = append(got, ids(p.Events)...)
		if !p.HasMore {
			break
		}
	}
	if len(got) != 127 {
		t.Errorf("%d events", len(got))
	}
	for i, n := range got {
		if n != int64(i) {
			t.Fatalf("event %d has id %d", i, n)
		}
	}
}

// TestLongLog crosses the pages of the log, with a batch of calls on the edge.
func TestLongLog(t *testing.T) {
	r := newRig(t)
	id := r.conversation("hi")
	w := r.writer(id)
	batch := turn{prompt(), says("user", "hi"), status(conversation.Running)}
	for i := range 495 {
		batch = append(batch, stats(float64(i)))
	}
	a, b := runs("a", "one"), runs("b", "two")
	w.append(append(batch, a, b, stats(7), stats(8), status(conversation.WaitingConfirmation))...) // the calls are 498 and 499
	var kinds []string
	for _, e := range r.events(id, "start_id=7", "").Events {
		kinds = append(kinds, e.Action+e.Observation)
	}
	if want := []string{"agent_state_changed", "run", "run"}; !slices.Equal(kinds, want) {
		t.Error(kinds)
	}
	w.append(status(conversation.Running), ran(a, "x"))
	r.restart()
	got := r.events(id, "start_id=10", "").Events
	if len(got) != 6 || got[0].Action != "change_agent_state" || got[4].Observation != "run" || *got[4].Cause != 11 {
		t.Errorf("%+v", got)
	}
}

// TestDeletedAndMadeAgain: the numbers of a new conversation of the same id start
// at 0.
func TestDeletedAndMadeAgain(t *testing.T) {
	r := newRig(t)
	body := `{"conversation_id":"` + anID + `","initial_user_msg":"hi"}`
	for range 2 {
		r.call("POST", "/api/conversations", body)
		r.engine.ready(t, anID, store.SandboxRunning)
		r.aRun(anID)
		if got := r.events(anID, "limit=100", ""); len(got.Events) != 17 {
			t.Errorf("%d events", len(got.Events))
		}
		r.want("DELETE", "/api/conversations/"+anID, "", 200, "true")
	}
}

// TestUnknownKindsAndBrokenEvents: what cannot be read becomes nothing.
func TestUnknownKindsAndBrokenEvents(t *testing.T) {
	r := newRig(t)
	id := r.conversation("hi")
	w := r.writer(id)
	w.append(prompt())
	raw := json.RawMessage(`{"kind":"ActionEvent","id":"x","timestamp":"2025-11-20T10:00:00.000000","source":"agent","thought":"no list"}`)
	check(t, r.store.Events().Append(t.Context(), store.Append{Conversation: id, ExpectHead: 1, Generation: w.gen,
		Events:  []conversation.Event{{ID: "x", Kind: "ActionEvent", Source: "agent", Timestamp: "2025-11-20T10:00:00.000000", Raw: raw}},
		Summary: conversation.Summary{Status: conversation.Idle, Head: 2}}))
	got := r.events(id, "", "")
	if !slices.Equal(ids(got.Events), []int64{0, 1}) {
		t.Errorf("%v", got)
	}
	_, body := r.call("GET", "/api/conversations/"+string(id)+"/events", "")
	if strings.Contains(body, "no list") {
		t.Error("a broken event is shown")
	}
}
