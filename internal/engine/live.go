package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"parley/internal/account"
	"parley/internal/agent"
	"parley/internal/agent/hookrun"
	"parley/internal/agent/policy"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/spend"
	"parley/internal/store"
	"parley/internal/stream"
	"parley/internal/tool"
)

// command is something to do in a conversation's goroutine.
type command struct {
	run   func(*live) error
	reply chan error
}

// work is the one thing that is under way: a model call, a batch of tool calls, a
// summary, the judgement of a goal.
type work struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	judges bool // a goal
}

// live is a loaded conversation. One goroutine (run) owns it and is the only one
// that appends to its log; everything else talks to it through the mailbox.
type live struct {
	e       *Engine
	id      conversation.ID
	mailbox chan command
	posts   chan func(*live) // from the work's goroutine: outcomes, retries
	wake    chan struct{}    // something outside changed: look again
	closed  chan struct{}    // the goroutine has ended

	sandbox atomicString
	running atomic.Bool
	head    atomic.Int64                                    // for deltas, which are sent from the work's goroutine
	lease   atomic.Int64                                    // generation; 0 = not held
	calls   atomic.Pointer[foldedCalls]                     // nil while the log was never read
	offered atomic.Pointer[[]tool.Tool]                     // of MCP servers, for sub-agents
	known   atomic.Pointer[map[string]account.CustomSecret] // the secrets, for what runs beside the goroutine

	// owned by the goroutine
	conv        *conversation.Conversation
	state       *conversation.State
	bytes       int64 // of the log
	masker      Masker
	secrets     map[string]account.CustomSecret
	choice      account.LLM  // the model, with the key to use now
	edited      *account.LLM // the conversation's profile, if it names another model than the record
	fallbacks   []account.LLM
	missing     []string                  // fallbacks that the owner does not have
	titler      account.LLM               // the model that makes titles
	searchKey   account.Secret            // of the web search
	seer        string                    // the profile that looks at images for a model that cannot; "" = none
	settings    *account.Settings         // the owner's, as refresh found them
	extras      *extras                   // nil until they were read
	session     *session                  // the MCP servers; nil = none
	background  *hookrun.Background       // hooks that nobody waits for; nil = there were none
	beginning   bool                      // the hooks of the beginning run
	taskNotes   []conversation.TaskNote   // how tasks are, as this life of the conversation knows it
	box         *toolbox                  // as tools returned it last; nil = not made yet
	boxKey      string                    // which of Parley's box was made with
	boxServers  []tool.Tool               // which of the servers'
	budget      *float64                  // the owner's ceiling for a conversation, USD; nil = none
	ceilings    store.Ceilings            // of the next call
	anchor      *spend.Anchor             // of the last call of the agent's model
	anchoredAt  account.LLM               // what that model was made from
	owed        []*bill                   // what calls cost and no append has taken
	audited     map[string]store.Spending // what the ledger has by use, if it was asked since the last append
	held        bool                      // its sandbox is paused: no tool runs until that changes
	wakes       int                       // how often something outside changed
	memory      memory
	viewer      agent.Viewer // of its history
	work        *work
	replay      *replay            // what it repeats; nil = nothing, or nothing any more
	batch       *batch             // the work, where that is tool calls
	seen        string             // the last user message that the model read for its newest answer; "" = not known
	pause       bool               // pause at the next step boundary
	ending      bool               // the run is over once its hooks agree
	tasks       int                // the highest number of a task; 0 = not known yet
	spentBefore conversation.Money // what the conversation had cost when its run began
	interrupts  []chan struct{}    // wait for the end of the work
	steps       int                // model calls of this run
	stalled     func()             // appends what could not be stored; tried again
	quit        error              // the goroutine must end

	settingsMark store.SettingsMark // of settings
	masked       []string           // what masker hides
}

// foldedCalls are the model calls that the log shows up to its head.
type foldedCalls struct {
	head  int64
	calls map[string]conversation.Calls
}

type atomicString struct{ v atomic.Value }

func (s *atomicString) Load() string   { v, _ := s.v.Load().(string); return v }
func (s *atomicString) Store(v string) { s.v.Store(v) }

func newLive(e *Engine, id conversation.ID) *live {
	return &live{e: e, id: id, mailbox: make(chan command), posts: make(chan func(*live)),
		wake: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (l *live) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run is the conversation's goroutine: load, serve, release.
func (l *live) run() {
	defer l.unload()
	ctx := l.e.ctx
	defer l.memory.condensed(errStopping())
	defer l.release()
	defer l.leaveSession()
	defer l.leaveHooks()
	defer l.payUp()
	if err := l.load(ctx); err != nil {
		l.refuse(err)
		return
	}
	idle := time.NewTimer(l.e.opt.IdleAfter)
	defer idle.Stop()
	retry := time.NewTicker(stallRetry)
	defer retry.Stop()
	for l.quit == nil {
		l.advance()
		select {
		case cmd := <-l.mailbox:
			cmd.reply <- cmd.run(l)
		case post := <-l.posts:
			post(l)
		case <-l.wake:
			l.wakes++
			l.held = false
			l.lookAround()
		case <-retry.C:
			l.retryStalled()
			continue // no sign of life: the idle timer goes on
		case <-idle.C:
			if l.idle() {
				return
			}
		case <-ctx.Done():
			l.park(context.Cause(ctx))
			return
		}
		idle.Reset(l.e.opt.IdleAfter)
	}
	l.park(l.quit)
}

// unload forgets the conversation. One whose log moved under this goroutine is
// loaded again at once: its run must not stay without anybody who drives it.
func (l *live) unload() {
	l.e.unload(l)
	if errors.Is(l.quit, errMoved) {
		l.e.takeUp(l.id)
	}
}

const stallRetry = 2 * time.Second

func (l *live) idle() bool {
	return l.work == nil && l.stalled == nil && l.state.Status != conversation.Running
}

// refuse answers whoever waits that the conversation cannot be loaded.
func (l *live) refuse(err error) {
	for {
		select {
		case cmd := <-l.mailbox:
			cmd.reply <- err
		case <-time.After(50 * time.Millisecond):
			return // later callers load it again
		}
	}
}

// load takes the lease and folds the log.
func (l *live) load(ctx context.Context) error {
	s := l.e.opt.Store
	gen, err := s.Leases().Acquire(ctx, l.id, l.e.opt.Holder, time.Now(), l.e.opt.LeaseTTL)
	if err != nil {
		return err
	}
	l.lease.Store(gen)
	if l.conv, err = s.Conversations().Get(ctx, "", l.id); err != nil {
		return err
	}
	l.sandbox.Store(l.conv.SandboxID)
	if err := l.refresh(ctx); err != nil {
		return err
	}
	l.state, l.bytes = conversation.NewState(), 0
	for after := int64(-1); ; {
		events, err := s.Events().Read(ctx, l.id, after, 1000)
		if err != nil {
			return err
		}
		for _, ev := range events {
			if err := l.apply(ev); err != nil {
				return err
			}
			after = ev.Seq
		}
		if len(events) < 1000 {
			break
		}
	}
	if err := l.loadReplay(ctx); err != nil {
		return err
	}
	if err := l.extend(ctx); err != nil {
		return err
	}
	if err := l.correct(); err != nil {
		return err
	}
	return l.recover(ctx)
}

func (l *live) apply(ev conversation.Event) error {
	p, err := conversation.Decode(ev)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "bad_event", "An event of this conversation cannot be read.")
	}
	l.state.Apply(ev, p)
	l.bytes += int64(len(ev.Raw))
	l.head.Store(l.state.Head)
	l.running.Store(l.state.Status == conversation.Running)
	l.calls.Store(&foldedCalls{l.state.Head, l.state.Calls})
	return nil
}

// history is what the agent knows: the branch that it works on, without the messages
// that a hook held back.
func (l *live) history() []conversation.Payload {
	path, blocked := l.state.Branch.Path(), l.state.Extensions.BlockedMessages
	if len(blocked) == 0 {
		return path
	}
	return slices.DeleteFunc(slices.Clone(path), func(p conversation.Payload) bool {
		m, ok := p.(*conversation.MessageEvent)
		_, held := blocked[conversation.HeaderOf(p).ID]
		return ok && held && m.Source == conversation.SourceUser
	})
}

// lookAround takes in what changed outside while nothing was to be stored.
func (l *live) lookAround() {
	if l.stalled == nil && l.quit == nil && l.prepared() {
		l.noteExtras()
	}
}

// parkGrace is how long work may still end by itself when the server leaves.
const parkGrace = 2 * time.Second

// park ends the goroutine's work. What ends by itself in time is recorded; the
// rest is cut off and leaves no trace.
func (l *live) park(cause error) {
	l.quit = cause
	if !l.busy() {
		return
	}
	grace := time.NewTimer(parkGrace)
	defer grace.Stop()
	if !errors.Is(cause, ErrLeaving) {
		l.work.cancel(cause)
	}
	for l.busy() {
		select {
		case post := <-l.posts:
			post(l)
		case <-grace.C:
			l.work.cancel(cause)
		}
	}
}

// busy reports whether something runs beside the goroutine. A batch that only
// waits to be stored does not.
func (l *live) busy() bool { return l.work != nil && (l.batch == nil || l.batch.running > 0) }

func (l *live) release() {
	if l.lease.Load() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.e.ctx), 5*time.Second)
	defer cancel()
	if err := l.e.opt.Store.Leases().Release(ctx, l.id, l.e.opt.Holder, l.lease.Load()); err != nil {
		l.e.opt.Logger.Warn("lease not released", "conversation", l.id, "error", err)
	}
}

// append stores events with the summary they lead to, then shows them. Nothing
// of the goroutine's state changes unless the store has them. What calls cost
// since the last append is settled with them.
func (l *live) append(payloads ...conversation.Payload) error {
	payloads = l.withStats(payloads)
	if len(payloads) == 0 {
		return nil
	}
	events, state, err := l.encode(payloads)
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.e.ctx), 30*time.Second)
	defer cancel()
	err = l.e.opt.Store.Events().Append(ctx, store.Append{Conversation: l.id, ExpectHead: l.state.Head,
		Generation: l.lease.Load(), Events: events, Summary: state.Summary(), Now: now, Settle: l.settlements()})
	if err != nil {
		l.quit = cmp.Or(quitFor(err), l.quit)
		return err
	}
	l.paid()
	for _, ev := range events {
		if err := l.apply(ev); err != nil {
			return err
		}
	}
	l.e.opt.Hub.Wake(l.id, l.state.Head, events...)
	return nil
}

// quitFor returns why the goroutine must end after a refused append, nil if it
// may try again.
func quitFor(err error) error {
	switch {
	case fault.CodeOf(err) == store.CodeHeadMoved:
		return errMoved
	case fault.CodeOf(err) == store.CodeLeaseLost:
		return ErrLeaseLost
	case fault.Is(err, fault.NotFound):
		return ErrDeleted
	}
	return nil
}

// encode stamps, masks and encodes payloads, and folds them into a copy of the state.
func (l *live) encode(payloads []conversation.Payload) ([]conversation.Event, *conversation.State, error) {
	next := l.state.Copy()
	events := make([]conversation.Event, 0, len(payloads))
	for _, p := range payloads {
		h := conversation.HeaderOf(p)
		h.Timestamp = stamp(next.LastTimestamp)
		if h.Kind != conversation.KindStateUpdate {
			h.ParentID = next.Parent()
		}
		maskPayload(p, l.masker)
		ev, err := conversation.Encode(p)
		if err != nil {
			return nil, nil, fault.Wrap(err, fault.Internal, codeEncode, "An event could not be encoded.")
		}
		ev.Seq = next.Head
		next.Apply(ev, p)
		events = append(events, ev)
	}
	return events, next, nil
}

// stamp returns the time now, later than the last event's: order by timestamp is
// the order of the log.
func stamp(last string) string {
	now := time.Now().UTC()
	if s := conversation.FormatTime(now); s > last {
		return s
	}
	t, err := time.Parse(conversation.TimeLayout, last)
	if err != nil {
		return conversation.FormatTime(now)
	}
	return conversation.FormatTime(t.Add(time.Microsecond))
}

// statusEvent moves the state machine. ok is false if the table forbids it; the
// event is nil if the state stays.
func (l *live) statusEvent(t conversation.Trigger) (ev conversation.Payload, next conversation.Status, ok bool) {
	next, ok = l.state.Status.Next(t)
	if !ok || next == l.state.Status {
		return nil, next, ok
	}
	return stateUpdate(conversation.KeyStatus, next), next, true
}

func stateUpdate(key string, value any) *conversation.StateUpdateEvent {
	raw, err := json.Marshal(value)
	if err != nil { // only our own types come here
		panic(fmt.Sprintf("state update %s: %v", key, err))
	}
	return &conversation.StateUpdateEvent{
		Header: conversation.Head(conversation.KindStateUpdate, conversation.SourceEnvironment, time.Time{}),
		Key:    key, Value: raw}
}

// transition appends events with the state change of a trigger after them, and
// tells followers if that ended a run.
func (l *live) transition(t conversation.Trigger, before ...conversation.Payload) error {
	was := l.state.Status
	if endsGoal[t] || t == conversation.TrigFinish && l.stopAsked() {
		before = append(before, l.stopGoal()...)
	}
	ev, next, ok := l.statusEvent(t)
	if !ok {
		return fault.New(fault.Conflict, codeWrongState, "The conversation is %s: %s is not possible.", was, t)
	}
	if ev != nil {
		before = append(before, ev)
	}
	if err := l.append(before...); err != nil {
		return err
	}
	if was == conversation.Running && next != conversation.Running {
		l.runEnded()
	}
	return nil
}

// runEnded resets what belongs to a run.
func (l *live) runEnded() {
	l.steps, l.pause, l.ending = 0, false, false
	l.e.opt.Hub.Snapshot(l.id, l.state.Head)
}

// must appends the outcome of work. If the store refuses, the outcome is kept and
// tried again until it is in: nothing that happened is lost, and nothing goes on
// before it is stored. What can never be stored ends the run.
func (l *live) must(then func(), t conversation.Trigger, payloads ...conversation.Payload) {
	err := l.settle(t, payloads)
	switch {
	case err == nil:
		then()
	case l.quit != nil:
	case hopeless(err):
		l.giveUp(err)
	default:
		l.stall(err, func() { l.must(then, t, payloads...) })
	}
}

// Codes of appends that fail again however often they are tried.
const (
	codeWrongState = "wrong_state"
	codeEncode     = "encode_event"
)

func hopeless(err error) bool {
	c := fault.CodeOf(err)
	return c == codeWrongState || c == codeEncode || c == store.CodeExists
}

// giveUp ends a run whose outcome cannot be an event: a defect, which must
// neither leave a call unanswered nor hold the conversation for ever.
func (l *live) giveUp(cause error) {
	l.e.opt.Logger.Error("outcome dropped", "conversation", l.id, "error", l.masker.Mask(cause.Error()))
	if l.state.Status != conversation.Running {
		l.boundary() // the run ended while the work was under way
		return
	}
	events := l.answers(conversation.CallLost + "could not record the result of this call.")
	l.must(l.boundary, conversation.TrigFail, append(events, errorEvent(cause))...)
}

// stall keeps what could not be stored.
func (l *live) stall(err error, again func()) {
	l.e.opt.Logger.Error("events not stored; trying again", "conversation", l.id, "error", err)
	l.e.opt.Hub.Notice(l.id, stream.Notice{Code: fault.CodeOf(err), Detail: fault.PublicText(err) +
		" The conversation waits and goes on by itself once its events can be stored."})
	l.stalled = again
}

func (l *live) settle(t conversation.Trigger, payloads []conversation.Payload) error {
	if t == "" {
		return l.append(payloads...)
	}
	return l.transition(t, payloads...)
}

func (l *live) retryStalled() {
	again := l.stalled
	if again == nil {
		return
	}
	l.stalled = nil
	again()
	l.lookAround()
}

// policy is what the conversation's owner and the server decided about
// confirmation.
func (l *live) policy() agent.Policy {
	o := &l.conv.Options
	return agent.Policy{Own: policy.Rule{Policy: o.Policy(), Analyzer: o.Judge()}, Floor: l.e.opt.Floor}
}

func isLeaving(cause error) bool {
	return errors.Is(cause, ErrLeaving) || errors.Is(cause, ErrLeaseLost) || errors.Is(cause, ErrDeleted) ||
		errors.Is(cause, errMoved)
}
