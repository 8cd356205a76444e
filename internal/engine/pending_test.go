package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/store"
)

// held starts a conversation whose sandbox is not made before until is closed.
func (w *world) held(until <-chan struct{}, first string) *conversation.StartTask {
	w.Helper()
	w.bench.HoldCreate(until)
	req := engine.StartRequest{Owner: owner, Origin: conversation.OriginV1}
	if first != "" {
		req.InitialMessage = []content.Part{content.Text(first)}
	}
	task, err := w.engine.Start(w.Context(), req)
	if err != nil {
		w.Fatal(err)
	}
	return task
}

func (w *world) queue(ref, text string) (engine.Queued, error) {
	return w.engine.Queue(w.Context(), owner, ref, []content.Part{content.Text(text)})
}

// said lists the texts of the user's messages in the order of the log.
func (w *world) said(id conversation.ID) []string {
	w.Helper()
	var out []string
	for _, e := range w.events(id) {
		if e.Kind != conversation.KindMessage || e.Source != conversation.SourceUser {
			continue
		}
		p := must(conversation.Decode(e))
		out = append(out, content.JoinText(p.(*conversation.MessageEvent).LLMMessage.Content))
	}
	return out
}

func (w *world) waitSaid(id conversation.ID, want ...string) {
	w.Helper()
	w.eventually(fmt.Sprint(want), func() bool { return fmt.Sprint(w.said(id)) == fmt.Sprint(want) })
	w.eventually("an empty queue", func() bool { return len(must(w.store.Pending().List(w.Context(), id))) == 0 })
}

func TestPendingMessagesFollowTheFirstInOrder(t *testing.T) {
	w := newWorld(t)
	until := make(chan struct{})
	task := w.held(until, "first")
	id := task.ConversationID
	for i, ref := range []string{string(id), task.ID, "task-" + task.ID, id.Dashed(), strings.ToUpper(task.ID)} {
		q, err := w.queue(ref, fmt.Sprint("pending ", i))
		if err != nil || q.Place != i+1 {
			t.Fatalf("%s: %+v, %v", ref, q, err)
		}
	}
	if len(w.said(id)) != 0 {
		t.Error("said before the start")
	}
	close(until)
	w.waitSaid(id, "first", "pending 0", "pending 1", "pending 2", "pending 3", "pending 4")
	w.eventually("the end of the run", func() bool { return w.status(id) == conversation.Finished })
	if last := w.model.lastRequest(); !strings.Contains(last, "pending 4") {
		t.Errorf("the model did not read the last message: %s", last)
	}
}

func TestPendingMessagesAloneStartTheRun(t *testing.T) {
	w := newWorld(t)
	until := make(chan struct{})
	task := w.held(until, "")
	q := must(w.queue(task.ID, "hello"))
	close(until)
	w.waitSaid(task.ConversationID, "hello")
	w.wait(task.ConversationID, conversation.Finished)
	if found := must(w.store.Events().ByID(w.Context(), task.ConversationID, []string{q.ID})); found[0] == nil {
		t.Error("the message has another id in the log")
	}
	q = must(w.queue(string(task.ConversationID), "again")) // it is READY: handed over at once
	if q.Place != 1 {
		t.Errorf("place %d", q.Place)
	}
	w.waitSaid(task.ConversationID, "hello", "again")
}

func TestPendingMessagesSurviveTheServer(t *testing.T) {
	w := newWorld(t)
	until := make(chan struct{})
	task := w.held(until, "first")
	id := task.ConversationID
	for i := range 3 {
		must(w.queue(task.ID, fmt.Sprint("pending ", i)))
	}
	if err := w.engine.Close(w.Context()); err != nil { // in the middle of the start
		t.Fatal(err)
	}
	close(until)
	w.stop()
	w.start()
	w.waitSaid(id, "first", "pending 0", "pending 1", "pending 2")

	// Killed after a message was said and before that was noted: it is not said again.
	w.eventually("the end of the run", func() bool { return w.status(id) == conversation.Finished })
	w.stop()
	var last string
	for _, e := range w.events(id) {
		if e.Kind == conversation.KindMessage && e.Source == conversation.SourceUser {
			last = e.ID
		}
	}
	for _, m := range []store.PendingMessage{{ID: last, Parts: []content.Part{content.Text("pending 2")}},
		{ID: conversation.NewEventID(), Parts: []content.Part{content.Text("pending 3")}}} {
		must(w.store.Pending().Add(w.Context(), id, m, 10))
	}
	w.start()
	w.waitSaid(id, "first", "pending 0", "pending 1", "pending 2", "pending 3")
}

func TestPendingMessagesHaveALimit(t *testing.T) {
	w := newWorld(t)
	until := make(chan struct{})
	task := w.held(until, "")
	var refused, places sync.Map
	var wg sync.WaitGroup
	for i := range 25 {
		wg.Go(func() {
			q, err := w.queue(task.ID, "m")
			if err != nil {
				refused.Store(i, err)
				return
			}
			if _, twice := places.LoadOrStore(q.Place, true); twice {
				t.Errorf("place %d was given twice", q.Place)
			}
		})
	}
	wg.Wait()
	n := 0
	refused.Range(func(_, err any) bool {
		n++
		if fault.CodeOf(err.(error)) != store.CodePendingFull {
			t.Errorf("refused with %v", err)
		}
		return true
	})
	if n != 15 {
		t.Errorf("%d were refused", n)
	}
	close(until)
	w.eventually("all said", func() bool { return len(w.said(task.ConversationID)) == 10 })
}

func TestPendingMessagesOfAFailedStart(t *testing.T) {
	w := newWorld(t)
	until := make(chan struct{})
	w.bench.FailWith(errors.New("no room"))
	task := w.held(until, "first")
	must(w.queue(task.ID, "in vain"))
	close(until)
	w.eventually("ERROR", func() bool {
		return must(w.engine.Task(w.Context(), owner, []string{task.ID}))[0].Status == conversation.TaskError
	})
	w.eventually("an empty queue", func() bool { return len(must(w.store.Pending().List(w.Context(), task.ConversationID))) == 0 })
	if _, err := w.queue(task.ID, "late"); fault.CodeOf(err) != engine.CodeStartFailed {
		t.Errorf("a late message: %v", err)
	}
	if said := w.said(task.ConversationID); len(said) != 1 || said[0] != "first" {
		t.Errorf("said: %v", said)
	}
}

func TestPendingMessagesOfNobody(t *testing.T) {
	w := newWorld(t)
	id := w.begin("")
	for _, ref := range []string{"", "task-", "task-" + string(conversation.NewID()), "../x", strings.Repeat("x", 500)} {
		if _, err := w.queue(ref, "m"); !fault.Is(err, fault.NotFound) {
			t.Errorf("%.20q: %v", ref, err)
		}
	}
	if _, err := w.engine.Queue(w.Context(), "another", string(id), []content.Part{content.Text("m")}); !fault.Is(err, fault.NotFound) {
		t.Errorf("another's: %v", err)
	}
}

func TestStartKeysSurviveTheServer(t *testing.T) {
	w := newWorld(t)
	req := engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, Keys: []store.StartKey{{Name: "key/k", Digest: []byte("d")}}}
	task := must(w.engine.Start(w.Context(), req))
	w.stop()
	w.start()
	for range 2 {
		again := must(w.engine.Start(w.Context(), req))
		if again.ID != task.ID {
			t.Fatalf("task %s, not %s", again.ID, task.ID)
		}
		w.eventually("READY", func() bool {
			return must(w.engine.Task(w.Context(), owner, []string{task.ID}))[0].Status == conversation.TaskReady
		})
	}
	req.Keys[0].Digest = []byte("other")
	if _, err := w.engine.Start(w.Context(), req); fault.CodeOf(err) != store.CodeKeyReused {
		t.Errorf("another request: %v", err)
	}
}
