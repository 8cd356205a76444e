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
	err := e.do(ctx, owner, id, func(l *live) error {
		tab = e.opt.Spend.Open(l.scope(use, nil))
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
		if err == nil && resp == nil {
			err = &llm.Error{Class: llm.ClassNoResponse}
		}
		return resp, err
	})
	if err != nil {
		resp = nil
	}
	told := e.do(e.ctx, owner, id, func(l *live) error { l.settleAside(tab, use, clock, resp); return nil })
	if told != nil { // the conversation is gone, or the server leaves
		tab.Abandon(e.ctx)
	}
	return resp, err
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
