package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/spend"
	"parley/internal/store"
)

// ceilingsOf are what an owner's calls may cost. They are read anew for each
// call, so that whoever raises a ceiling goes on at once. Tokens are counted
// where a price is unknown, and only where there is a ceiling in dollars.
func (e *Engine) ceilingsOf(s *account.Settings) store.Ceilings {
	var c store.Ceilings
	if budget := budgetOf(s); budget != nil {
		tree := conversation.MoneyOf(*budget)
		c.Tree, c.TreeTokens = &tree, positive(e.opt.TaskTokens)
	}
	if e.opt.DailyBudget != nil {
		c.Day, c.DayTokens = e.opt.DailyBudget, positive(e.opt.DailyTokens)
	}
	return c
}

// budgetOf is what a conversation with all below it may cost, in USD; nil = no ceiling.
func budgetOf(s *account.Settings) *float64 {
	if s == nil || s.MaxBudgetPerTask == nil || *s.MaxBudgetPerTask <= 0 {
		return nil
	}
	return s.MaxBudgetPerTask
}

func positive(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}

// clock sits inside the guard of a tab and sees every attempt at a call.
type clock struct {
	mu      sync.Mutex
	guarded bool          // the guard was put around a model
	took    time.Duration // of the last attempt
	failed  bool          // an attempt failed: it may have cost something all the same
}

// paidModel makes a model whose calls are paid for with the tab. Models that are
// made without the guard are not used: nothing would hold them to a ceiling.
func (e *Engine) paidModel(l account.LLM, opt ModelOptions, tab *spend.Tab, c *clock) (llm.Model, error) {
	opt.Guard = c.around(tab)
	m, err := e.opt.Models(l, opt)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.guarded {
		return nil, fault.New(fault.Internal, "unguarded_model", "The model %s was made without its budget guard.", l.Model)
	}
	return m, nil
}

func (c *clock) read() (took time.Duration, failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.took, c.failed
}

// around returns a guard that pays with the tab and times what it pays for.
func (c *clock) around(tab *spend.Tab) func(llm.Model) llm.Model {
	return func(m llm.Model) llm.Model {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.guarded = true
		return tab.Guard(&timed{Model: m, clock: c})
	}
}

type timed struct {
	llm.Model
	clock *clock
}

// Do implements llm.Model.
func (t *timed) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	began, done := time.Now(), false
	defer func() { // also after a panic
		t.clock.mu.Lock()
		defer t.clock.mu.Unlock()
		t.clock.took, t.clock.failed = time.Since(began), t.clock.failed || !done
	}()
	resp, err := t.Model.Do(ctx, req)
	done = err == nil
	return resp, err
}

// bill is what a call cost and the log does not have yet.
type bill struct {
	tab     *spend.Tab
	use     string
	settled []store.Settlement
	took    time.Duration
	resp    *llm.Response // nil = there was no answer
}

// owe keeps what a call cost for the next append. A call with failed attempts may
// have left costs that only the ledger knows.
func (l *live) owe(tab *spend.Tab, use string, c *clock, resp *llm.Response) {
	took, failed := c.read()
	if failed {
		l.audit()
	}
	if settled := tab.Take(); len(settled) > 0 {
		l.owed = append(l.owed, &bill{tab: tab, use: use, settled: settled, took: took, resp: resp})
	}
}

// audit reads what the ledger has. A ledger that cannot answer is asked again
// when the conversation is loaded the next time.
func (l *live) audit() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.e.ctx), 10*time.Second)
	defer cancel()
	own, _, err := l.e.opt.Store.Ledger().Conversation(ctx, l.id)
	if err != nil {
		l.e.opt.Logger.Warn("spending not read", "conversation", l.id, "error", err)
		return
	}
	l.audited = own
}

// statsNow is where the statistics of all that is owed belong among the events
// of an append; see withStats.
func statsNow() conversation.Payload {
	ev := stateUpdate(conversation.KeyStats, nil)
	ev.Value = nil
	return ev
}

func isStatsNow(p conversation.Payload) bool {
	u, ok := p.(*conversation.StateUpdateEvent)
	return ok && u.Key == conversation.KeyStats && u.Value == nil
}

// withStats puts the statistics into the events of an append: in the place that
// statsNow marks, or else before them. They are computed here, and not before,
// because the store may have refused the events meanwhile and taken others.
// Without news there are none.
func (l *live) withStats(payloads []conversation.Payload) []conversation.Payload {
	var now []conversation.Payload
	if stats, news := l.stats(); news {
		now = []conversation.Payload{stats}
	}
	i := slices.IndexFunc(payloads, isStatsNow)
	if i < 0 {
		return append(now, payloads...)
	}
	return slices.Concat(payloads[:i], now, payloads[i+1:])
}

// stats returns the statistics with all that is owed, and whether they are news.
func (l *live) stats() (conversation.Payload, bool) {
	stats, news := raised(l.state.Stats, l.audited)
	latency := map[string]float64{}
	for _, b := range l.owed {
		m := stats[b.use]
		for _, s := range b.settled {
			m.Add(s.Usage, s.Cost)
		}
		if b.resp != nil {
			latency[b.use] = b.took.Seconds()
			m.Usage.ResponseID = b.resp.ID
			if b.resp.Model != "" { // a fallback answered
				m.ModelName, m.Usage.Model = b.resp.Model, b.resp.Model
			}
		}
		stats = stats.With(b.use, m)
		news = true
	}
	if !news {
		return nil, false
	}
	for use, m := range stats {
		m.MaxBudget = l.budget
		stats = stats.With(use, m)
	}
	return stateUpdate(conversation.KeyStats, conversation.StatsUpdate{Usage: stats, Latency: latency}), true
}

// raised returns the metrics, as high as the ledger's figures where those are
// higher. They are never lowered: a conversation may be older than the ledger.
func raised(stats conversation.Stats, own map[string]store.Spending) (conversation.Stats, bool) {
	news := false
	for use, s := range own {
		before := stats[use]
		m := before
		u := &m.Usage
		for _, c := range []struct {
			to   *int64
			from int64
		}{{&u.PromptTokens, s.PromptTokens}, {&u.CompletionTokens, s.CompletionTokens}, {&u.CacheReadTokens, s.CacheReadTokens},
			{&u.CacheWriteTokens, s.CacheWriteTokens}, {&u.ReasoningTokens, s.ReasoningTokens}} {
			*c.to = max(*c.to, c.from)
		}
		if s.Cost > m.Cost() {
			m.AccumulatedCost = s.Cost.USD()
		}
		if m.Usage != before.Usage || m.AccumulatedCost != before.AccumulatedCost {
			stats, news = stats.With(use, m), true
		}
	}
	return stats, news
}

// paid says that the store has what was owed, and what it settles.
func (l *live) paid() {
	for _, b := range l.owed {
		b.tab.Stored()
	}
	l.owed, l.audited = nil, nil
}

func (l *live) settlements() []store.Settlement {
	var all []store.Settlement
	for _, b := range l.owed {
		all = append(all, b.settled...)
	}
	return all
}

// payUp settles what no append has taken when the goroutine ends. The statistics
// lack it until the conversation is loaded again.
func (l *live) payUp() {
	for _, b := range l.owed {
		b.tab.Abandon(l.e.ctx)
	}
	l.owed = nil
}

// correct makes up for costs that an earlier life settled without the log.
func (l *live) correct() error {
	l.audit()
	err := l.append()
	if err != nil && l.quit == nil {
		l.e.opt.Logger.Warn("statistics not corrected", "conversation", l.id, "error", err)
		return nil
	}
	return err
}

// spent is what the conversation has cost with all below it, as the ledger knows it.
// Only a sub-agent with a budget of its own wants to know.
func (l *live) spent() conversation.Money {
	if t := l.conv.Options.Task; t == nil || t.MaxBudget <= 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.e.ctx), 10*time.Second)
	defer cancel()
	_, tree, err := l.e.opt.Store.Ledger().Conversation(ctx, l.id)
	if err != nil {
		l.e.opt.Logger.Warn("spending not read", "conversation", l.id, "error", err)
	}
	return tree.Cost + tree.Uncertain
}
