package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"parley/internal/agent"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/hook"
	"parley/internal/sandbox"
	"parley/internal/skill"
	"parley/internal/store"
	"parley/internal/subagent"
)

// CodeRunning is the code of a Conflict that says a run is under way.
const CodeRunning = "already_running"

// Send appends a user's message durably and starts a run if asked to. While
// actions wait for confirmation the message is kept and no run starts: a message
// is no consent.
func (e *Engine) Send(ctx context.Context, owner string, id conversation.ID, m Message) error {
	if len(m.Parts) == 0 {
		return fault.New(fault.Invalid, "empty_message", "The message has no content.")
	}
	return e.submit(ctx, owner, id, m)
}

// send appends a message. v is what hooks made of it, nil if there are none.
func (l *live) send(ctx context.Context, m Message, v *verdict) error {
	if err := l.writable(); err != nil {
		return err
	}
	if err := l.refresh(ctx); err != nil {
		return err
	}
	if !l.prepared() || v == nil && l.opens() {
		return l.sendEarly(ctx, m)
	}
	status, ok := l.state.Status.Next(conversation.TrigUserMessage)
	if !ok {
		return fault.New(fault.Conflict, "wrong_state", "The conversation is %s and takes no messages.", l.state.Status)
	}
	if m.Run && status != conversation.WaitingConfirmation {
		if next, ok := status.Next(conversation.TrigRun); ok {
			status = next
		}
	}
	said := userMessage(m)
	if v != nil && v.blocked {
		return l.heldBack(m, said, v)
	}
	l.enrich(said, v)
	conversation.AttachFiles(said, m.Files)
	events := slices.Concat(l.stopGoal(), l.opening(), v.events(), []conversation.Payload{said}, l.refinementsAnew())
	if status != l.state.Status {
		events = append(events, stateUpdate(conversation.KeyStatus, status))
	}
	started := status == conversation.Running && l.state.Status != conversation.Running
	if err := l.append(events...); err != nil {
		return err
	}
	l.stopJudge()
	l.titleFrom(m)
	switch {
	case started:
		l.runStarted()
	case m.Run && l.held: // who writes wants an answer: the sandbox resumes
		l.wakeSandbox()
	}
	return nil
}

// heldBack keeps a message that a hook blocked. No model reads it; a run that it asked
// for is over at once (agent protocol 4.9).
func (l *live) heldBack(m Message, said *conversation.MessageEvent, v *verdict) error {
	events := slices.Concat(l.opening(), v.events(), []conversation.Payload{said})
	if l.state.Status == conversation.Running || !m.Run || l.state.Status == conversation.WaitingConfirmation {
		return l.append(events...)
	}
	err := l.append(append(events, ranInVain()...)...)
	if err == nil {
		l.e.opt.Hub.Snapshot(l.id, l.state.Head)
	}
	return err
}

// refinementsAnew begins the count of refinements anew: the user spoke.
func (l *live) refinementsAnew() []conversation.Payload {
	notes := l.state.Notes
	if notes.Refinements == 0 {
		return nil
	}
	notes.Refinements = 0
	return []conversation.Payload{stateUpdate(conversation.KeyAgentState, notes)}
}

// sendEarly keeps a message for the start to run, once there is a place to work
// in. If the start failed or was lost, it is done again.
func (l *live) sendEarly(ctx context.Context, m Message) error {
	said := userMessage(m)
	conversation.AttachFiles(said, m.Files)
	if err := l.append(said); err != nil || !m.Run {
		return err
	}
	return l.e.startAgain(ctx, l.conv)
}

// prepared reports whether the start has come as far as the working directory.
func (l *live) prepared() bool { return l.conv.Options.WorkingDir != "" }

// writable refuses commands while earlier events wait to be stored, and in a
// conversation that is full.
func (l *live) writable() error {
	if err := l.storable(); err != nil {
		return err
	}
	return l.room()
}

// storable refuses commands while earlier events wait to be stored.
func (l *live) storable() error {
	if l.stalled != nil {
		return fault.New(fault.Unavailable, store.CodeStoreFull, "The server cannot store events at the moment.").
			WithHint("Free disk space on the server; the conversation goes on by itself then.")
	}
	return nil
}

// workingDir is where the agent works, or will if the start gets that far.
func (l *live) workingDir() string {
	if d := l.conv.Options.WorkingDir; d != "" {
		return d
	}
	return sandbox.WorkingDir
}

// opening is the system prompt, before the first message.
func (l *live) opening() []conversation.Payload {
	if l.state.HasPrompt {
		return nil
	}
	return []conversation.Payload{l.prompt()}
}

func (l *live) prompt() conversation.Payload {
	tools := l.tools()
	in := agent.PromptInput{Plan: l.conv.AgentType == AgentPlan, WorkingDir: l.workingDir(),
		Suffix: joinTexts(l.conv.Options.SystemSuffix, worktreeNote(l.conv)), Secrets: descriptions(l.secrets)}
	if l.extras != nil {
		in.Skills = skill.Prompt(l.extras.skills, l.choice.Model)
		if tools.has(l.e.opt.TaskTool) {
			in.Agents = subagent.Listing(l.extras.agents)
		}
	}
	if t := l.conv.Options.Task; t != nil {
		in.Role, in.RoleUntrusted = t.Prompt, t.Untrusted
	}
	return agent.PromptEvent(in, tools.set)
}

func userMessage(m Message) *conversation.MessageEvent {
	head := conversation.Head(conversation.KindMessage, conversation.SourceUser, time.Time{})
	if m.ID != "" {
		head.ID = m.ID
	}
	return &conversation.MessageEvent{Header: head,
		LLMMessage: conversation.LLMMessage{Role: content.RoleUser, Content: m.Parts}, Sender: m.Sender}
}

// runStarted begins a run's count and wakes the sandbox.
func (l *live) runStarted() {
	l.steps, l.pause, l.held = 0, false, false
	l.ending = answered(l.history()) && l.hasHooks(hook.Stop, "") && !l.replays() // they were asked and not heard out
	l.spentBefore = l.spent()
	l.memory.learnt, l.memory.refused, l.memory.vain = 0, 0, 0
	l.wakeSandbox()
}

// wakeSandbox resumes the sandbox if it is paused, so that the next tool call
// finds it ready.
func (l *live) wakeSandbox() {
	if l.conv.SandboxID == "" {
		return
	}
	owner, id := l.conv.Owner, l.conv.SandboxID
	l.e.job(func() {
		err := l.e.persist(func() error { _, err := l.e.opt.Fleet.Ensure(l.e.ctx, owner, id, true); return err })
		if err != nil {
			l.e.opt.Logger.Warn("sandbox not ready for a run", "conversation", l.id, "sandbox", id, "error", err)
		}
	})
}

// Run starts a run. One that finished without a new message succeeds at once;
// followers get the state, which is what clients wait for.
func (e *Engine) Run(ctx context.Context, owner string, id conversation.ID) error {
	return e.do(ctx, owner, id, func(l *live) error {
		if err := l.writable(); err != nil {
			return err
		}
		if l.state.Status == conversation.Running {
			return fault.New(fault.Conflict, CodeRunning, "The conversation is running already.")
		}
		if !l.prepared() && (l.state.LastUserMsgID != "" || l.hasInitial()) || l.opens() {
			return e.startAgain(ctx, l.conv)
		}
		if l.state.Status == conversation.Finished || l.state.LastUserMsgID == "" {
			e.opt.Hub.Snapshot(id, l.state.Head)
			return nil
		}
		if err := l.refresh(ctx); err != nil {
			return err
		}
		if err := l.transition(conversation.TrigRun); err != nil {
			return err
		}
		l.runStarted()
		return nil
	})
}

// remindAfter is when Remind tells the state: later than any client needs to read an
// answer, and before a user wonders.
const remindAfter = 750 * time.Millisecond

// Remind tells followers the state again in a moment if nothing runs then. Some clients
// listen for a run's end only after they have read the answer to the request that began
// it, and wait for ever if the run was over before (Python SDK 1.43).
func (e *Engine) Remind(owner string, id conversation.ID) {
	e.job(func() {
		select {
		case <-time.After(remindAfter):
		case <-e.ctx.Done():
			return
		}
		_ = e.do(e.ctx, owner, id, func(l *live) error { // a conversation that is gone has no followers
			if l.state.Status != conversation.Running {
				e.opt.Hub.Snapshot(id, l.state.Head)
			}
			return nil
		})
	})
}

// Pause stops the run at the next step boundary, and those of its sub-agents: all have
// been told when it returns. A goal that is being judged is stopped at once.
func (e *Engine) Pause(ctx context.Context, owner string, id conversation.ID) error {
	told := make(chan struct{})
	err := e.do(ctx, owner, id, func(l *live) error {
		if l.state.Status == conversation.Running {
			l.pause = true
			// Also if the caller leaves, and never in this goroutine.
			if !e.job(func() { defer close(told); e.pauseTasks(owner, id) }) {
				close(told)
			}
			return nil
		}
		close(told)
		if l.goal() != nil && l.state.Status == conversation.Finished {
			return l.haltGoal()
		}
		if l.state.Status != conversation.Idle {
			e.opt.Hub.Snapshot(id, l.state.Head)
			return nil // there is no run to pause
		}
		err := l.transition(conversation.TrigPause, pauseEvent())
		e.opt.Hub.Snapshot(id, l.state.Head)
		return err
	})
	if err != nil {
		return err
	}
	select {
	case <-told:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// interruptWait bounds how long Interrupt waits for the step to end.
const interruptWait = 5 * time.Second

// Interrupt stops the run in the middle of a step and returns when it has ended,
// at the latest after 5 s.
func (e *Engine) Interrupt(ctx context.Context, owner string, id conversation.ID) error {
	if _, err := e.opt.Store.Conversations().Get(ctx, owner, id); err != nil {
		return err
	}
	e.stopHooks(id, ErrInterrupted)
	done := make(chan struct{})
	err := e.do(ctx, owner, id, func(l *live) error { l.interrupt(done); return nil })
	if err != nil {
		return err
	}
	limit := time.NewTimer(interruptWait)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
	case <-ctx.Done():
	}
	return nil
}

func (l *live) interrupt(done chan struct{}) {
	l.interrupts = append(l.interrupts, done)
	if l.work != nil {
		l.work.cancel(ErrInterrupted)
		return
	}
	if l.stalled == nil {
		l.interrupted()
	}
	l.e.opt.Hub.Snapshot(l.id, l.state.Head)
}

// Delete removes a conversation with its log and its children, and the sandbox
// unless another conversation uses it or it is to be kept. A caller who leaves does not stop it half
// way.
func (e *Engine) Delete(ctx context.Context, owner string, id conversation.ID) error {
	return e.delete(ctx, owner, id, false)
}

// DeleteInside is Delete for who works in the sandbox and goes on there: it stays.
func (e *Engine) DeleteInside(ctx context.Context, owner string, id conversation.ID) error {
	return e.delete(ctx, owner, id, true)
}

func (e *Engine) delete(ctx context.Context, owner string, id conversation.ID, keepSandbox bool) error {
	done := make(chan error, 1)
	if !e.job(func() { done <- e.remove(e.ctx, owner, id, keepSandbox) }) {
		return errStopping()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (e *Engine) remove(ctx context.Context, owner string, id conversation.ID, keepSandbox bool) error {
	conv, err := e.opt.Store.Conversations().Get(ctx, owner, id)
	if err != nil {
		return err
	}
	e.stopHooks(id, ErrDeleted)
	if conv.Options.WorkingDir != "" && conv.Options.Task == nil {
		e.endSession(ctx, owner, id)
	}
	// First its own run: it must not give tasks to others while those go.
	if err := errors.Join(e.end(ctx, id), e.deleteChildren(ctx, owner, id, keepSandbox), e.end(ctx, id)); err != nil {
		return err
	}
	if err := e.opt.Store.Conversations().Delete(ctx, id); err != nil {
		return err
	}
	e.opt.Hub.Deleted(id)
	// A command may have loaded it again in between; what it does is void.
	err = e.end(ctx, id)
	e.closeSession(id)
	if keepSandbox {
		return err
	}
	return errors.Join(err, e.deleteSandbox(ctx, owner, conv.SandboxID))
}

func (e *Engine) deleteChildren(ctx context.Context, owner string, id conversation.ID, keepSandbox bool) error {
	for {
		page, err := e.opt.Store.Conversations().Search(ctx, store.ConversationQuery{Owner: owner, ParentID: id,
			WithSubs: true, Order: store.CreatedAsc, Limit: 100})
		if err != nil || len(page.Items) == 0 {
			return err
		}
		for _, child := range page.Items {
			if err := e.remove(ctx, owner, child.ID, keepSandbox); err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
	}
}

// end stops a live conversation's goroutine.
func (e *Engine) end(ctx context.Context, id conversation.ID) error {
	e.mu.Lock()
	l := e.live[id]
	e.mu.Unlock()
	if l == nil {
		return nil
	}
	select {
	case l.mailbox <- command{run: func(l *live) error { l.quit = ErrDeleted; return nil }, reply: make(chan error, 1)}:
	case <-l.closed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-l.closed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (e *Engine) deleteSandbox(ctx context.Context, owner, id string) error {
	if id == "" {
		return nil
	}
	n, err := e.opt.Store.Conversations().Count(ctx, store.ConversationQuery{Owner: owner, SandboxID: id, WithSubs: true})
	if err != nil || n > 0 {
		return err
	}
	if err := e.opt.Fleet.Delete(ctx, owner, id); !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}
