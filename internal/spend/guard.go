package spend

import (
	"context"
	"errors"
	"sync/atomic"

	"parley/internal/conversation"
	"parley/internal/llm"
	"parley/internal/store"
)

// guard is a model whose calls are paid for.
type guard struct {
	tab  *Tab
	next llm.Model
}

var _ llm.Model = (*guard)(nil)

// Info implements llm.Model.
func (g *guard) Info() llm.Info { return g.next.Info() }

// Do implements llm.Model.
func (g *guard) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	c, err := g.tab.reserve(ctx, g.next.Info(), req)
	if err != nil {
		return nil, err
	}
	defer c.close(ctx)
	if err := context.Cause(ctx); err != nil {
		c.free(ctx)
		return nil, err
	}
	resp, err := g.next.Do(ctx, c.request(req))
	switch {
	case err == nil && resp != nil:
		c.answered(ctx, resp)
	default:
		c.failed(ctx, err)
	}
	return resp, err
}

// call is one call, from its reservation to its settlement.
type call struct {
	tab     *Tab
	info    llm.Info
	prompt  measured
	want    int64 // output that would be best, in tokens
	output  int64 // output that is reserved
	bounded bool  // the output bound is sent to the model
	held    store.Reservation
	shown   atomic.Int64 // bytes of the answer that arrived
	settled bool
}

// request returns req with the output bound and with deltas counted.
func (c *call) request(req *llm.Request) *llm.Request {
	r := *req
	if c.bounded {
		r.MaxOutput = c.output
	}
	if req.OnDelta != nil {
		r.OnDelta = func(d llm.Delta) {
			c.shown.Add(int64(len(d.Text) + len(d.Reasoning)))
			req.OnDelta(d)
		}
	}
	return &r
}

// answered keeps what a complete answer cost for the engine to store. The
// endpoint's own figure is what it bills, whatever was reserved.
func (c *call) answered(ctx context.Context, resp *llm.Response) {
	s := c.settlement(resp.Usage)
	tokens := max(resp.Usage.PromptTokens, 0) + max(resp.Usage.CompletionTokens, 0)
	said := messageSize(&digester{}, c.info, resp.Message).text
	switch {
	case resp.Cost != nil && resp.Reported:
		s.Cost = conversation.MoneyOf(*resp.Cost)
	case !c.credible(resp.Usage, said):
		s = c.guess(c.likelyUsage(true, said))
		tokens = 0
	case resp.Cost != nil:
		s.Cost = conversation.MoneyOf(*resp.Cost)
	case c.info.Price != nil:
		s.Cost = conversation.MoneyOf(c.info.Price.Cost(resp.Usage))
	}
	if c.info.Price == nil {
		s.Tokens = tokens
		if tokens == 0 {
			s.Tokens = c.held.Tokens
		}
	}
	c.settled = true
	if c.bounded && c.info.Price != nil && s.Cost > c.held.Amount {
		c.tab.keeper.log.Warn("a model call cost more than its worst case", "conversation", c.held.Conversation,
			"model", c.info.Model, "reserved", c.held.Amount.String(), "cost", s.Cost.String(),
			"prompt_bound", c.prompt.Bound, "prompt_tokens", resp.Usage.PromptTokens,
			"output_bound", c.output, "completion_tokens", resp.Usage.CompletionTokens)
	}
	c.tab.keep(ctx, s, c.prompt.anchor(counter(c.info), resp.Usage))
}

// failed settles a call without an answer.
func (c *call) failed(ctx context.Context, err error) {
	var failed *llm.Error
	known := errors.As(err, &failed)
	if known && failed.Free() {
		c.free(ctx)
		return
	}
	c.broken(ctx, known && failed.Streamed)
}

// free settles a call that costs nothing.
func (c *call) free(ctx context.Context) {
	c.settle(ctx, store.Settlement{Reservation: c.held.ID})
}

// broken settles a call that ended without an answer: what was seen of it is
// its cost, the rest of the reservation may have been charged or not.
func (c *call) broken(ctx context.Context, begun bool) {
	shown := c.shown.Load()
	c.settle(ctx, c.guess(c.likelyUsage(begun || shown > 0, shown)))
}

// close settles what a panic of the model left open.
func (c *call) close(ctx context.Context) {
	if !c.settled {
		c.broken(ctx, false)
	}
}

func (c *call) settlement(u conversation.Usage) store.Settlement {
	if u.Model == "" {
		u.Model = c.info.Model
	}
	return store.Settlement{Reservation: c.held.ID, Usage: u}
}

// leastCompletion is the smallest number of reported tokens per byte of an
// answer that is believed, as its inverse.
const leastCompletion = 64

// credible reports whether an endpoint's token counts can be true: neither far
// above what the request made possible, nor so few that a part must be missing.
// What is not is an error of the endpoint's books, not a bill.
func (c *call) credible(u conversation.Usage, said int64) bool {
	switch {
	case u.PromptTokens <= 0 || u.PromptTokens < c.prompt.text/leastDensity || u.CompletionTokens < said/leastCompletion:
		return false
	case u.PromptTokens > 2*c.prompt.Bound:
		return false
	}
	return !c.bounded || u.CompletionTokens <= 2*c.output+leastOutput
}

// likelyUsage estimates the tokens of a call by the bytes of the answer that were
// seen; none if not even its beginning was.
func (c *call) likelyUsage(begun bool, seen int64) conversation.Usage {
	if !begun {
		return conversation.Usage{}
	}
	return conversation.Usage{PromptTokens: c.prompt.Likely, CompletionTokens: min(seen/bytesPerToken, c.output)}
}

// guess settles by an estimated usage; cost and uncertain together are the reservation.
func (c *call) guess(u conversation.Usage) store.Settlement {
	s := c.settlement(u)
	s.Tokens = c.held.Tokens
	if c.info.Price != nil {
		s.Cost = min(conversation.MoneyOf(c.info.Price.Cost(u)), c.held.Amount)
		s.Uncertain = c.held.Amount - s.Cost
	}
	return s
}

// settle stores at once. What the ledger refuses stays on the tab, and the
// reservation stays in force meanwhile.
func (c *call) settle(ctx context.Context, s store.Settlement) {
	c.settled = true
	if err := c.tab.keeper.settle(ctx, s); err != nil {
		c.tab.keep(ctx, s, nil)
	}
}
