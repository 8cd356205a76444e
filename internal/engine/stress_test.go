package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/agent/condense"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/store"
	"parley/internal/tool"
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

// restless is a model that does at random whatever a model may do, and looks at
// what it is sent.
type restless struct {
	c         *chance
	malformed *atomic.Value // what a provider would have refused
}

func (m *restless) Info() llm.Info { return priced() }

func (m *restless) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if problem := wellFormed(req.Messages); problem != "" {
		m.malformed.CompareAndSwap(nil, problem)
	}
	if req.OnDelta != nil && m.c.n(3) > 0 {
		req.OnDelta(llm.Delta{Text: strings.Repeat("word ", m.c.n(50))})
	}
	next := m.step()
	if len(req.Tools) == 0 {
		next = m.aside()
	}
	resp, err := next(ctx, req)
	if resp != nil {
		resp.ID = fmt.Sprint("resp-", m.c.n(5)) // endpoints repeat ids
		resp.Usage = conversation.Usage{Model: "test/model", PromptTokens: int64(m.c.n(3000)), CompletionTokens: int64(m.c.n(900))}
		if resp.Cost = nil; m.c.n(3) == 0 { // the endpoint's own figure, in odd fractions
			resp.Cost = ptr(float64(m.c.n(1e6)) * 3e-9)
		}
	}
	return resp, err
}

// aside answers what is asked without tools: titles, summaries, judgements.
func (m *restless) aside() step {
	switch m.c.n(6) {
	case 0:
		return fails(llm.ClassBadRequest)
	case 1:
		return say(" ")
	case 2:
		return verdict(1, true, "")
	case 3:
		return verdict(0.2, false, "a lot")
	}
	return say("short words")
}

func (m *restless) step() step {
	sh := `{"command":"echo x; sleep 0.0` + fmt.Sprint(m.c.n(4)) + `"}`
	switch m.c.n(15) {
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
	case 8:
		return fails(llm.ClassContext)
	case 9:
		return fails(llm.ClassMalformed)
	case 10:
		return call("echo", `{"command":"a"}`, "sh", sh, "echo", `{"command":"b"}`, "echo", `{"command":"c"}`)
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
	var malformed atomic.Value
	w := newWorldWith(t, func(o *engine.Options) {
		o.IdleAfter, o.AutoTitle = 5*time.Millisecond, true
		echo := tool.New(tool.Spec{Name: "echo", Description: "echoes", NoHands: true}, func(_ context.Context, _ *tool.Env, in runInput) (tool.Result, error) {
			return tool.TextObservation("EchoObservation", in.Command).Result()
		}, tool.WithClaims(func(runInput) []tool.Claim { return nil }))
		o.Tools = must(tool.NewSet(shTool(), echo, finishTool()))
		o.Models = func(_ account.LLM, mo engine.ModelOptions) (llm.Model, error) {
			return guard(mo, &restless{c, &malformed}), nil
		}
	})
	budget := 0.06 // USD; some of the runs reach it
	w.settings(func(s *account.Settings) { s.MaxBudgetPerTask, s.EnableDefaultCondenser = &budget, true })
	ids := make([]conversation.ID, 4)
	for i := range ids {
		confirm := i%2 == 1
		// Guards that now agree, now fail, now block, and are asked about every end.
		hooks := withHooks(`{"PreToolUse":[{"matcher":"sh","hooks":[{"type":"command","command":"exit $(($$ % 3))"}]}],`+
			`"Stop":[{"hooks":[{"type":"command","command":"exit $(($$ % 2 * 2))"}]}],"UserPromptSubmit":[{"hooks":[{"type":"command","command":"exit 0"}]}]}`, "").Brought
		if i < 2 {
			hooks = nil
		}
		ids[i] = w.beginWith(engine.StartRequest{Owner: owner, ConfirmationMode: &confirm, Brought: hooks,
			InitialMessage: []content.Part{content.Text("begin")}, Condenser: &conversation.Condenser{Kind: conversation.CondenserSummarizing, MaxSize: 16},
			Critic: &conversation.Critic{Kind: conversation.CriticFinished, Refinement: &conversation.Refinement{MaxIterations: 1}}})
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
	if problem := malformed.Load(); problem != nil {
		t.Errorf("a malformed history was sent: %s", problem)
	}
	for _, id := range w.forks(ids) {
		w.checkFork(id)
		if err := w.engine.Delete(t.Context(), owner, id); err != nil {
			t.Error(err)
		}
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
			for n := range 20 {
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
	switch c.n(18) {
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
	if err == nil {
		err = w.rarer(c, id)
	}
	w.expect("command", err)
	return false
}

// rarer does now and then what changes the course of a conversation.
func (w *world) rarer(c *chance, id conversation.ID) error {
	soon, cancel := context.WithTimeout(w.Context(), 200*time.Millisecond)
	defer cancel()
	var err error
	switch c.n(12) {
	case 0:
		err = w.engine.Navigate(soon, owner, id, w.anyEvent(c, id))
	case 1:
		err = w.engine.Condense(soon, owner, id)
	case 2:
		kinds := []string{conversation.NeverConfirm, conversation.AlwaysConfirm, conversation.ConfirmRisky}
		err = w.engine.SetPolicy(soon, owner, id, conversation.ConfirmationPolicy{Kind: kinds[c.n(3)]})
	case 3:
		_, _ = w.engine.Ask(soon, owner, id, "how is it going?") // whatever the model says
	case 4:
		err = w.engine.Goal(soon, owner, id, "a goal", 2)
	case 5:
		err = w.engine.StopGoal(soon, owner, id)
	case 6:
		if err = w.engine.ResumeGoal(soon, owner, id); fault.CodeOf(err) == "no_resumable_goal" {
			err = nil
		}
	case 7:
		_, err = w.engine.Fork(soon, owner, id, engine.ForkRequest{FromEvent: w.anyEvent(c, id)})
	}
	switch {
	case fault.CodeOf(err) == engine.CodeNoEvent, fault.CodeOf(err) == condense.CodeTooLong, errors.Is(err, context.DeadlineExceeded), asLLM(err):
		return nil
	case fault.CodeOf(err) == "interrupted", fault.Is(err, fault.Invalid) && strings.Contains(err.Error(), "summary"):
		return nil
	}
	return err
}

func asLLM(err error) bool {
	var le *llm.Error
	return errors.As(err, &le)
}

// anyEvent is the id of an event, of the kinds that are no event of a branch, too.
func (w *world) anyEvent(c *chance, id conversation.ID) string {
	events := w.events(id)
	if len(events) == 0 || c.n(8) == 0 {
		return ""
	}
	return events[c.n(len(events))].ID
}

// forks are all conversations but those with the ids, also those whose maker did
// not wait for them.
func (w *world) forks(ids []conversation.ID) []conversation.ID {
	w.Helper()
	var out []conversation.ID
	for _, v := range must(w.engine.Search(w.Context(), store.ConversationQuery{Owner: owner, WithSubs: true, Limit: 100})).Items {
		if !slices.Contains(ids, v.ID) {
			out = append(out, v.ID)
		}
	}
	return out
}

// checkFork holds the log of a fork against what a log promises, but for its
// states, which it does not have.
func (w *world) checkFork(id conversation.ID) {
	w.Helper()
	l := &logCheck{w: w, id: id, seen: map[string]bool{}, nodes: map[string]*node{}, status: conversation.Running}
	for _, ev := range w.events(id) {
		l.event(ev)
	}
	if open := l.open(); len(open) > 0 {
		w.Errorf("the fork %s has %d open calls", id, len(open))
	}
	if s := w.status(id); s != conversation.Idle {
		w.Errorf("the fork %s is %s", id, s)
	}
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
	l := &logCheck{w: w, id: id, seen: map[string]bool{}, nodes: map[string]*node{}, status: conversation.Idle}
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
	w      *world
	id     conversation.ID
	next   int64
	last   string
	status conversation.Status
	seen   map[string]bool // event ids
	nodes  map[string]*node
	leaf   string // id of the event that the conversation goes on from
	newest string // id of the newest event of any branch
	said   int
}

// node is an event in the tree.
type node struct {
	parent  string
	payload conversation.Payload
}

// chain are the events from the leaf back to the start.
func (l *logCheck) chain() []conversation.Payload {
	var out []conversation.Payload
	for id := l.leaf; id != ""; id = l.nodes[id].parent {
		out = append(out, l.nodes[id].payload)
	}
	return out
}

// grow puts an event into the tree.
func (l *logCheck) grow(ev conversation.Event, p conversation.Payload) {
	parent := conversation.HeaderOf(p).ParentID
	switch {
	case parent == conversation.RootParent:
		parent = ""
	case parent == "":
		parent = l.newest
	case l.nodes[parent] == nil:
		l.fail(ev, "its parent %s is unknown", parent)
		parent = ""
	}
	if parent != l.leaf {
		l.fail(ev, "it follows %q, but the leaf is %q", parent, l.leaf)
	}
	l.nodes[ev.ID] = &node{parent, p}
	l.leaf, l.newest = ev.ID, ev.ID
}

// open are the calls of the branch without an answer.
func (l *logCheck) open() []*conversation.ActionEvent {
	path := l.chain()
	slices.Reverse(path)
	return conversation.Unanswered(path)
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
	payload := must(conversation.Decode(ev))
	if ev.Kind != conversation.KindStateUpdate {
		defer l.grow(ev, payload)
	}
	switch p := payload.(type) {
	case *conversation.MessageEvent:
		text := p.LLMMessage.Content[0].Text
		if p.Source == conversation.SourceUser && (text == "begin" || strings.HasPrefix(text, "message ")) {
			l.said++
		}
		if p.Source == conversation.SourceAgent && l.status != conversation.Running {
			l.fail(ev, "the agent spoke while the conversation was %s", l.status)
		}
	case *conversation.ActionEvent:
		if l.status != conversation.Running {
			l.fail(ev, "the agent acted while the conversation was %s", l.status)
		}
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
		l.update(ev, p)
	}
}

func (l *logCheck) update(ev conversation.Event, p *conversation.StateUpdateEvent) {
	switch p.Key {
	case conversation.KeyStatus:
		l.moved(ev, conversation.Status(strings.Trim(string(p.Value), `"`)))
	case conversation.KeyLeaf:
		l.leaf = ""
		if id := strings.Trim(string(p.Value), `"`); id != "null" {
			if l.leaf = id; l.nodes[id] == nil {
				l.fail(ev, "there is no event %s", id)
				l.leaf = ""
			}
		}
	}
}

// answer demands that a call of the branch waits for it.
func (l *logCheck) answer(ev conversation.Event, actionID, callID string) {
	for _, a := range l.open() {
		if a.ID == actionID || actionID == "" && a.ToolCallID == callID {
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
	if open := l.open(); len(open) > 0 && l.status != conversation.Paused {
		l.w.Errorf("%s is %s with %d calls without an answer", l.id, l.status, len(open))
	}
	if l.said != messages {
		l.w.Errorf("%s: %d messages were acknowledged, %d are in the log", l.id, messages, l.said)
	}
	if got := l.w.status(l.id); got != l.status {
		l.w.Errorf("%s: the record says %s, the log %s", l.id, got, l.status)
	}
}
