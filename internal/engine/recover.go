package engine

import (
	"context"
	"slices"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

// maxRecoveries bounds how often a run is taken up again without the model having
// answered in between: a run that brings the server down must not do so for ever.
const maxRecoveries = 3

// Recover takes up what an earlier life of this server left: money set aside for
// calls whose outcome nobody knows, runs in the middle and starts that were not
// finished. It comes before any call of a model.
func (e *Engine) Recover(ctx context.Context) error {
	if _, err := e.opt.Spend.Recover(ctx, []string{e.opt.Holder}); err != nil {
		return err
	}
	ids, err := e.opt.Store.Leases().Interrupted(ctx, time.Now(), []string{e.opt.Holder})
	if err != nil {
		return err
	}
	for _, id := range ids {
		e.takeUp(id)
	}
	tasks, err := e.opt.Store.StartTasks().Unfinished(ctx)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		e.carryOut(t)
	}
	e.job(e.index)
	return e.recoverPending(ctx)
}

// takeUp loads a conversation with a run that nobody drives. While the store
// refuses writes it tries again: the run must not wait for a user to notice.
func (e *Engine) takeUp(id conversation.ID) {
	e.job(func() {
		err := e.persist(func() error { return e.do(e.ctx, "", id, func(*live) error { return nil }) })
		if err != nil && e.ctx.Err() == nil {
			e.opt.Logger.Error("run not taken up", "conversation", id, "error", err)
		}
	})
}

// persist does something again while the store refuses writes, until the engine
// leaves. It returns what the last try did.
func (e *Engine) persist(do func() error) error {
	for {
		err := do()
		if c := fault.CodeOf(err); c != store.CodeStoreFull && c != store.CodeStoreReadOnly {
			return err
		}
		select {
		case <-time.After(stallRetry):
		case <-e.ctx.Done():
			return err
		}
	}
}

// cutOffText answers calls that ran when the server ended.
const cutOffText = conversation.CallLost + "was restarted while this ran, so its outcome is unknown. " +
	"Check what it has done before you run it again."

// recover answers the calls of a run that nobody owned any more. Their outcome is
// unknown, so they are never repeated; the model decides. Runs without the user's
// doing go on.
func (l *live) recover(_ context.Context) error {
	if err := l.append(l.lostCommands()...); err != nil {
		return err
	}
	if l.state.Status != conversation.Running {
		return nil
	}
	events := l.answers(cutOffText)
	if l.conv.Options.Task != nil && !l.e.tends(l.id) { // whoever gave it the task can go on with it
		return l.transition(conversation.TrigPause, slices.Concat(events, l.retryOver(), []conversation.Payload{pauseEvent()})...)
	}
	l.ending = len(l.state.Pending) == 0 && answered(l.history()) && !l.replays()
	notes := l.state.Notes
	notes.LLMRetry = nil
	notes.Recoveries++
	notes.Tasks = endedTasks(notes.Tasks)
	events = append(events, stateUpdate(conversation.KeyAgentState, notes))
	if notes.Recoveries <= maxRecoveries {
		return l.append(events...)
	}
	return l.transition(conversation.TrigFail, append(events, conversationError("RunKeptFailing",
		"The server was restarted several times in the middle of this run. Send a message to go on.", "internal", "retry"))...)
}

// renewLeases keeps the leases of live conversations. A conversation whose lease
// is lost ends without writing.
func (e *Engine) renewLeases() {
	tick := time.NewTicker(e.opt.LeaseTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-tick.C:
		}
		e.renewOnce()
	}
}

func (e *Engine) renewOnce() {
	held := map[conversation.ID]int64{}
	lives := map[conversation.ID]*live{}
	e.mu.Lock()
	for id, l := range e.live {
		if gen := l.lease.Load(); gen != 0 {
			held[id], lives[id] = gen, l
		}
	}
	e.mu.Unlock()
	if len(held) == 0 {
		return
	}
	lost, err := e.opt.Store.Leases().Renew(e.ctx, e.opt.Holder, held, time.Now(), e.opt.LeaseTTL)
	if err != nil {
		e.opt.Logger.Warn("leases not renewed", "error", err)
		return
	}
	for _, id := range lost {
		l := lives[id]
		e.job(func() { l.post(func(l *live) { l.quit = ErrLeaseLost }) })
	}
}
