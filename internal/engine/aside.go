package engine

import (
	"context"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/llm"
	"parley/internal/spend"
)

// aside calls a model beside a conversation's run: without its history, without
// deltas, paid for by the conversation. What it costs is recorded in any case. It
// must not be called in the conversation's goroutine.
func (e *Engine) aside(ctx context.Context, owner string, id conversation.ID, use string, choice account.LLM, req *llm.Request, opt ModelOptions) (*llm.Response, error) {
	var tab *spend.Tab
	var masker Masker
	err := e.do(ctx, owner, id, func(l *live) error {
		tab, masker = e.opt.Spend.Open(l.scope(use, nil)), l.masker
		return nil
	})
	if err != nil {
		return nil, err
	}
	clock := &clock{}
	resp, err := guarded(e, use, func() (*llm.Response, error) {
		model, err := e.paidModel(choice, opt, tab, clock)
		if err != nil {
			return nil, err
		}
		req.SessionID = string(id) + "-" + use
		resp, err := model.Do(ctx, req)
		switch {
		case err != nil:
			return nil, err
		case resp == nil:
			return nil, &llm.Error{Class: llm.ClassNoResponse}
		}
		hide(resp, masker)
		return resp, nil
	})
	settle := func(l *live) { l.settleAside(tab, use, clock, resp) }
	if !e.tell(id, settle) && e.do(e.ctx, owner, id, func(l *live) error { settle(l); return nil }) != nil {
		tab.Abandon(e.ctx) // the conversation is gone, or the server leaves
	}
	return resp, err
}

// tell runs f in the goroutine of a conversation that is loaded, and waits for it.
// Unlike a command, f also runs while the goroutine ends and waits for its work: it
// may be that work which tells. False if f did not run.
func (e *Engine) tell(id conversation.ID, f func(*live)) bool {
	e.mu.Lock()
	l := e.live[id]
	e.mu.Unlock()
	done := make(chan struct{})
	if l == nil || !l.post(func(l *live) { f(l); close(done) }) {
		return false
	}
	<-done
	return true
}

// tellRetries shows what a call beside the run waits for.
func (l *live) tellRetries() ModelOptions {
	return ModelOptions{OnRetry: func(_ context.Context, r llm.Retry) { l.post(func(l *live) { l.noteRetry(r) }) }}
}

// settleAside records what a call beside the run cost.
func (l *live) settleAside(tab *spend.Tab, use string, c *clock, resp *llm.Response) {
	l.owe(tab, use, c, resp)
	if l.stalled != nil {
		return // goes with what waits to be stored
	}
	if err := l.append(); err != nil {
		l.e.opt.Logger.Warn("cost of a call not stored", "conversation", l.id, "use", use, "error", err)
	}
}

// quickly is a model for a small question beside the run: with little thought, little
// patience and no fallbacks.
func quickly(l account.LLM) account.LLM {
	attempts := 2
	l.Attempts, l.ReasoningBudget, l.Fallbacks = &attempts, 0, nil
	switch l.ReasoningEffort {
	case "medium", "high", "xhigh":
		l.ReasoningEffort = "low"
	}
	return l
}
