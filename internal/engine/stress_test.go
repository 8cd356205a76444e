package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/store"
)

// chance is a random source that several goroutines may use.
type chance struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (c *chance) n(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.r.IntN(n)
}

// restless is a model that does at random whatever a model may do.
type restless struct{ c *chance }

func (m *restless) Info() llm.Info { return priced() }

func (m *restless) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if req.OnDelta != nil && m.c.n(3) > 0 {
		req.OnDelta(llm.Delta{Text: strings.Repeat("word ", m.c.n(50))})
	}
	resp, err := m.step()(ctx, req)
	if resp != nil {
		resp.ID = fmt.Sprint("resp-", m.c.n(5)) // endpoints repeat ids
		resp.Usage = conversation.Usage{Model: "test/model", PromptTokens: int64(m.c.n(3000)), CompletionTokens: int64(m.c.n(900))}
		if resp.Cost = nil; m.c.n(3) == 0 { // the endpoint's own figure, in odd fractions
			resp.Cost = ptr(float64(m.c.n(1e6)) * 3e-9)
		}
	}
	return resp, err
}

func (m *restless) step() step {
	sh := `{"command":"echo x; sleep 0.0` + fmt.Sprint(m.c.n(4)) + `"}`
	switch m.c.n(12) {
	case 0:
		return say("done")
	case 1:
		return call("finish", `{"message":"bye"}`)
	case 2:
		return fails(llm.ClassOverloaded)
	case 3:
		return call("nope", "{}", "sh", `{`, "sh", sh)
	case 4:
		return call("sh", sh, "finish", `{"message":"bye"}`, "sh", sh)
	case 5:
		return func(ctx context.Context, _ *llm.Request) (*llm.Response, error) { // slow
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(time.Duration(m.c.n(30)) * time.Millisecond):
				return say("at last")(ctx, nil)
			}
		}
	case 6:
		return func(context.Context, *llm.Request) (*llm.Response, error) { panic("a defect") }
	case 7:
		return say(" ") // empty: a nudge
	}
	return call("sh", sh, "sh", sh)
}

// TestInvariantsUnderRandomCommands commands several conversations at random,
// over several lives of the server and with a store that is full now and then,
// and then reads what the logs say about it.
func TestInvariantsUnderRandomCommands(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &chance{r: rand.New(rand.NewPCG(seed, 1))}
	w := newWorldWith(t, func(o *engine.Options) {
		o.IdleAfter, o.AutoTitle = 5*time.Millisecond, true
		o.Models = func(_ account.LLM, mo engine.ModelOptions) (llm.Model, error) { return guard(mo, &restless{c}), nil }
	})
	budget := 0.02 // USD; some of the runs reach it
	w.settings(func(s *account.Settings) { s.MaxBudgetPerTask = &budget })
	ids := make([]conversation.ID, 4)
	for i := range ids {
		confirm := i%2 == 1
		ids[i] = w.beginWith(engine.StartRequest{Owner: owner, ConfirmationMode: &confirm,
			InitialMessage: []content.Part{content.Text("begin")}})
	}
	said := map[conversation.ID]int{}
	for range 3 {
		for id, n := range w.shake(c, ids) {
			said[id] += n
		}
		w.store.setFull(false)
		w.stop()
		w.start()
	}
	for _, id := range ids {
		w.settleDown(id)
		w.checkLog(id, said[id]+1)
		w.checkBudget(id, conversation.MoneyOf(budget))
		if err := w.engine.Delete(t.Context(), owner, id); err != nil {
			t.Error(err)
		}
	}
	if boxes := must(w.bench.List(t.Context())); len(boxes) != 0 {
		t.Errorf("left behind: %v", boxes)
	}
}

// shake gives random commands for a while and returns how many messages were
// acknowledged.
func (w *world) shake(c *chance, ids []conversation.ID) map[conversation.ID]int {
	said := make([]int, len(ids))
	var hands sync.WaitGroup
	for i, id := range ids {
		hands.Go(func() {
			for n := range 12 {
				if w.command(c, id, n) {
					said[i]++
				}
				time.Sleep(time.Duration(c.n(8)) * time.Millisecond) // the user's pace, not a synchronisation
			}
		})
	}
	hands.Wait()
	total := map[conversation.ID]int{}
	for i, id := range ids {
		total[id] = said[i]
	}
	return total
}

// command does one thing at random and reports whether a message was acknowledged.
func (w *world) command(c *chance, id conversation.ID, n int) bool {
	ctx := w.Context()
	box := must(w.engine.View(ctx, owner, id)).SandboxID
	var err error
	switch c.n(11) {
	case 0, 1, 2:
		err = w.engine.Send(ctx, owner, id, engine.Message{Parts: []content.Part{content.Text(fmt.Sprintf("message %d", n))}, Run: c.n(4) > 0})
		w.expect("send", err)
		return err == nil
	case 3:
		err = w.engine.Run(ctx, owner, id)
	case 4:
		err = w.engine.Pause(ctx, owner, id)
	case 5:
		err = w.engine.Interrupt(ctx, owner, id)
	case 6:
		err = w.engine.Confirm(ctx, owner, id, c.n(2) == 0, "no")
	case 7:
		err = w.fleet.Pause(ctx, owner, box)
	case 8:
		err = w.fleet.Resume(ctx, owner, box)
	case 9:
		w.store.setFull(c.n(8) == 0)
	case 10:
		leaving, leave := context.WithCancel(ctx)
		leave()
		_ = w.engine.Interrupt(leaving, owner, id)
	}
	w.expect("command", err)
	return false
}

// expect lets the refusals pass that a command may meet.
func (w *world) expect(what string, err error) {
	w.Helper()
	if err != nil && !fault.Is(err, fault.Conflict) && fault.CodeOf(err) != store.CodeStoreFull && !errors.Is(err, context.Canceled) {
		w.Errorf("%s: %v", what, err)
	}
}

// settleDown brings a conversation to rest: nothing may wedge it.
func (w *world) settleDown(id conversation.ID) {
	w.Helper()
	if err := w.fleet.Resume(w.Context(), owner, must(w.engine.View(w.Context(), owner, id)).SandboxID); err != nil {
		w.Error(err)
	}
	if w.status(id) == conversation.WaitingConfirmation {
		w.expect("confirm", w.engine.Confirm(w.Context(), owner, id, false, ""))
	}
	w.eventually("rest of "+string(id), func() bool { return w.status(id) != conversation.Running })
	if w.status(id) == conversation.WaitingConfirmation {
		w.expect("confirm", w.engine.Confirm(w.Context(), owner, id, false, ""))
	}
}

// checkBudget holds what was spent against the ledger and the ceiling.
func (w *world) checkBudget(id conversation.ID, limit conversation.Money) {
	w.Helper()
	if err := w.engine.Interrupt(w.Context(), owner, id); err != nil { // loads it: the log catches up
		w.Error(err)
	}
	w.checkMoney(id)
	w.noReservations(id)
	tree := must(w.engine.ConversationUsage(w.Context(), owner, id)).Tree
	if tree.Cost+tree.Uncertain > limit {
		w.Errorf("%s: %s and perhaps %s were spent of %s", id, tree.Cost, tree.Uncertain, limit)
	}
	w.Logf("%s: %d calls, %s, perhaps %s", id, tree.Calls, tree.Cost, tree.Uncertain)
}

// checkLog holds a log against everything that a log promises.
func (w *world) checkLog(id conversation.ID, messages int) {
	w.Helper()
	l := &logCheck{w: w, id: id, answered: map[string]int{}, seen: map[string]bool{}, status: conversation.Idle}
	for after := int64(-1); ; {
		events, err := w.engine.Log().Read(w.Context(), id, after, 1000)
		if err != nil {
			w.Fatal(err)
		}
		for _, ev := range events {
			l.event(ev)
			after = ev.Seq
		}
		if len(events) == 0 {
			break
		}
	}
	l.end(messages)
}

// logCheck reads a log with a fold of its own.
type logCheck struct {
	w        *world
	id       conversation.ID
	next     int64
	last     string
	status   conversation.Status
	seen     map[string]bool // event ids
	open     []*conversation.ActionEvent
	answered map[string]int // by action id
	said     int
}

func (l *logCheck) fail(ev conversation.Event, format string, args ...any) {
	l.w.Helper()
	l.w.Errorf("%s seq %d %s: %s", l.id, ev.Seq, ev.Kind, fmt.Sprintf(format, args...))
}

func (l *logCheck) event(ev conversation.Event) {
	if ev.Seq != l.next {
		l.fail(ev, "expected seq %d", l.next)
	}
	l.next = ev.Seq + 1
	if ev.Timestamp <= l.last {
		l.fail(ev, "time %s after %s", ev.Timestamp, l.last)
	}
	l.last = ev.Timestamp
	if l.seen[ev.ID] {
		l.fail(ev, "its id is there twice")
	}
	l.seen[ev.ID] = true
	switch p := must(conversation.Decode(ev)).(type) {
	case *conversation.MessageEvent:
		if p.Source == conversation.SourceUser {
			l.said++
		}
	case *conversation.ActionEvent:
		l.open = append(l.open, p)
	case *conversation.ObservationEvent:
		if l.status != conversation.Running {
			l.fail(ev, "a tool ran while the conversation was %s", l.status)
		}
		l.answer(ev, p.ActionID, p.ToolCallID)
	case *conversation.UserRejectObservation:
		l.answer(ev, p.ActionID, p.ToolCallID)
	case *conversation.AgentErrorEvent:
		l.answer(ev, "", p.ToolCallID)
	case *conversation.StateUpdateEvent:
		if p.Key == conversation.KeyStatus {
			l.moved(ev, conversation.Status(strings.Trim(string(p.Value), `"`)))
		}
	}
}

func (l *logCheck) answer(ev conversation.Event, actionID, callID string) {
	for i, a := range l.open {
		if a.ID == actionID || actionID == "" && a.ToolCallID == callID {
			l.answered[a.ID]++
			l.open = append(l.open[:i:i], l.open[i+1:]...)
			return
		}
	}
	l.fail(ev, "it answers no open call (action %s, call %s)", actionID, callID)
}

// moved demands that the table knows a way. A message and the run it starts are
// one append: a finished conversation goes to running by way of idle.
func (l *logCheck) moved(ev conversation.Event, to conversation.Status) {
	for _, t := range conversation.Triggers {
		if next, ok := l.status.Next(t); ok && next == to {
			l.status = to
			return
		}
		if via, ok := l.status.Next(conversation.TrigUserMessage); ok {
			if next, ok := via.Next(t); ok && next == to {
				l.status = to
				return
			}
		}
	}
	l.fail(ev, "there is no way from %s to %s", l.status, to)
	l.status = to
}

func (l *logCheck) end(messages int) {
	l.w.Helper()
	// A pause between the steps of one answer leaves its other calls open for the next run.
	if len(l.open) > 0 && l.status != conversation.Paused {
		l.w.Errorf("%s is %s with %d calls without an answer", l.id, l.status, len(l.open))
	}
	if l.said != messages {
		l.w.Errorf("%s: %d messages were acknowledged, %d are in the log", l.id, messages, l.said)
	}
	if got := l.w.status(l.id); got != l.status {
		l.w.Errorf("%s: the record says %s, the log %s", l.id, got, l.status)
	}
}
