package spend

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/google/uuid"

	"parley/internal/conversation"
	"parley/internal/llm"
	"parley/internal/store"
)

const (
	// defaultOutput bounds an answer where neither the request nor the model says
	// how long it may be, in tokens.
	defaultOutput = 32768
	// leastOutput is the shortest bound that is worth a call: enough for a tool
	// call or a short text.
	leastOutput = 512
	// easyOutput is the shortest bound that is taken while other calls hold room:
	// rather than cut an answer short, a call waits until they end.
	easyOutput = 4096
	// The least output that is asked for although the prompt seems to fill the
	// context window: with an anchor the prompt is known well, without one its
	// bound is several times too high.
	windowOutput             = 1024
	windowOutputUnsure       = 4096
	pollEvery                = time.Second // for room that other processes free
	settleTimeout            = 5 * time.Second
	longestMoney       int64 = 1 << 53 // what a ledger takes as one amount
)

// reserve sets the worst case of a call aside, with the longest answer that the
// ceilings allow. It waits while only other calls are in the way.
func (t *Tab) reserve(ctx context.Context, info llm.Info, req *llm.Request) (*call, error) {
	c := t.newCall(info, req)
	if c.info.Price == nil && !t.scope.tokensKeepIt() {
		return nil, noPrice(info.Model)
	}
	t.keeper.payDebts(ctx)
	for waited := false; ; waited = true {
		freed := t.keeper.signal()
		full, err := c.try(ctx)
		if err != nil {
			return nil, err
		}
		if full == nil {
			return c, nil
		}
		if !c.fitsLater(full) {
			full.Want = c.need(c.least(), full)
			return nil, exceeded(info.Model, full)
		}
		if t.scope.OnWait != nil && !waited {
			t.scope.OnWait(ctx, Wait{Model: info.Model, Budget: full})
		}
		if err := pause(ctx, freed); err != nil {
			return nil, err
		}
	}
}

func (t *Tab) newCall(info llm.Info, req *llm.Request) *call {
	info.Price = credible(info.Price)
	c := &call{tab: t, info: info, prompt: measure(info, req, t.Anchor())}
	var inWindow bool
	c.want, inWindow = outputBound(info, req, c.prompt.Prompt)
	known := req.MaxOutput > 0 || info.MaxOutput > 0
	c.bounded = t.scope.limited() || inWindow && known
	return c
}

// credible returns the price, nil for one with a member that cannot be a price:
// it would make calls look free.
func credible(p *llm.Price) *llm.Price {
	for q := p; q != nil; q = q.Long {
		for _, usd := range []float64{q.Input, q.CacheRead, q.CacheWrite, q.Output} {
			if !(usd >= 0) || math.IsInf(usd, 1) {
				return nil
			}
		}
	}
	return p
}

// outputBound returns how long the answer may be, in tokens, and whether the
// context window made it shorter.
func outputBound(info llm.Info, req *llm.Request, p Prompt) (int64, bool) {
	out := int64(defaultOutput)
	if info.MaxOutput > 0 {
		out = info.MaxOutput
	}
	if req.MaxOutput > 0 && (info.MaxOutput <= 0 || req.MaxOutput < out) {
		out = req.MaxOutput
	}
	if info.ContextWindow <= 0 {
		return out, false
	}
	floor := int64(windowOutputUnsure)
	if p.Anchored {
		floor = windowOutput
	}
	room := max(info.ContextWindow-p.Bound, floor)
	return min(out, room), room < out
}

// limited reports whether a ceiling may apply. A sub-conversation's ancestors may
// have some that only the ledger knows.
func (s *Scope) limited() bool {
	return s.Ceilings != (store.Ceilings{}) || s.Parent != ""
}

// tokensKeepIt reports whether every ceiling in USD has one in tokens beside it.
func (s *Scope) tokensKeepIt() bool {
	c := &s.Ceilings
	tree := c.Tree == nil && c.Own == nil || c.TreeTokens != nil || s.Conversation == ""
	return tree && (c.Day == nil || c.DayTokens != nil)
}

// try reserves with ever shorter answers. It returns the refusal if even the
// shortest sensible one does not fit now.
func (c *call) try(ctx context.Context) (*store.BudgetError, error) {
	for c.output = c.want; ; {
		c.held = c.reservation()
		err := c.tab.keeper.ledger.Reserve(ctx, c.held)
		var full *store.BudgetError
		if !errors.As(err, &full) {
			return nil, err
		}
		if !c.shrink(full) {
			return full, nil
		}
	}
}

func (c *call) reservation() store.Reservation {
	s := &c.tab.scope
	r := store.Reservation{ID: uuid.NewString(), Conversation: s.Conversation, Owner: s.Owner, Use: s.Use,
		Model: c.info.Model, Ceilings: s.Ceilings, Holder: c.tab.keeper.holder, Now: c.tab.keeper.now()}
	if c.info.Price == nil {
		r.Tokens = c.need(c.output, &store.BudgetError{Tokens: true})
	} else {
		r.Amount = conversation.Money(c.need(c.output, &store.BudgetError{}))
	}
	return r
}

// need returns what an answer of so many tokens takes of a ceiling at worst, in
// the ceiling's unit.
func (c *call) need(output int64, of *store.BudgetError) int64 {
	switch {
	case of.Tokens:
		return c.prompt.Bound + output
	case c.info.Price == nil:
		return 1 // it must not start where nothing is left
	}
	return min(int64(conversation.MoneyCeil(c.info.Price.Worst(c.prompt.Bound, output))), longestMoney)
}

// least is the shortest answer worth a call.
func (c *call) least() int64 { return min(c.want, leastOutput) }

// shrink lowers the output to what is left under a ceiling, false if that is too little.
func (c *call) shrink(full *store.BudgetError) bool {
	floor := c.least()
	if full.Held > 0 {
		floor = min(c.want, easyOutput)
	}
	output := c.affordable(full, floor)
	if output < floor || output >= c.output {
		return false
	}
	c.output = output
	return true
}

// affordable returns the longest answer that what is left allows, -1 if it does
// not even allow floor.
func (c *call) affordable(full *store.BudgetError, floor int64) int64 {
	left := full.Left()
	if c.need(floor, full) > left {
		return -1
	}
	output := left - c.prompt.Bound
	if !full.Tokens {
		if c.info.Price == nil {
			return -1
		}
		// One unit less, as Affordable and the ceiling of Worst round differently.
		output = c.info.Price.Affordable(c.prompt.Bound, conversation.Money(left-1).USD())
	}
	if output <= floor || c.need(output, full) > left {
		return floor
	}
	return output
}

// fitsLater reports whether the shortest answer fits once other calls have ended
// without any cost.
func (c *call) fitsLater(full *store.BudgetError) bool {
	return full.Held > 0 && c.need(c.least(), full) <= full.Left()+full.Held
}

// pause waits until room may have been freed.
func pause(ctx context.Context, freed <-chan struct{}) error {
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	select {
	case <-freed:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
