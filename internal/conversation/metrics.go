package conversation

import (
	"maps"
	"math"
	"slices"
)

// UseAgent is the usage id of the calls that drive a conversation. Other uses
// have ids of their own, and a conversation that changes its model keeps this one.
const UseAgent = "agent"

// Usage counts tokens (agent protocol 2.2).
type Usage struct {
	Model            string `json:"model"`
	PromptTokens     int64  `json:"prompt_tokens"`
	CompletionTokens int64  `json:"completion_tokens"`
	CacheReadTokens  int64  `json:"cache_read_tokens"`
	CacheWriteTokens int64  `json:"cache_write_tokens"`
	ReasoningTokens  int64  `json:"reasoning_tokens"`
	ContextWindow    int64  `json:"context_window"`
	PerTurnToken     int64  `json:"per_turn_token"`
	ResponseID       string `json:"response_id"`
}

// counts are the members that add up.
func (u *Usage) counts() [5]*int64 {
	return [5]*int64{&u.PromptTokens, &u.CompletionTokens, &u.CacheReadTokens, &u.CacheWriteTokens, &u.ReasoningTokens}
}

// Plus returns the sum of two usages; what does not add up is the later one's,
// or the earlier one's where the later says nothing.
func (u Usage) Plus(later Usage) Usage {
	sum := u
	from := later.counts()
	for i, c := range sum.counts() {
		*c += max(*from[i], 0)
	}
	sum.Model, sum.ResponseID = orText(later.Model, u.Model), orText(later.ResponseID, u.ResponseID)
	if later.ContextWindow > 0 {
		sum.ContextWindow = later.ContextWindow
	}
	if n := later.PromptTokens + later.CompletionTokens; n > 0 {
		sum.PerTurnToken = n
	}
	return sum
}

// minus returns what was used since an earlier sum.
func (u Usage) minus(earlier Usage) Usage {
	from := earlier.counts()
	for i, c := range u.counts() {
		*c = max(*c-*from[i], 0)
	}
	u.PerTurnToken = u.PromptTokens + u.CompletionTokens
	return u
}

func orText(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// Metrics are what the calls of one use, or of all uses, have cost so far.
type Metrics struct {
	ModelName       string   `json:"model_name"`       // that answered last
	AccumulatedCost float64  `json:"accumulated_cost"` // USD; see Cost
	MaxBudget       *float64 `json:"max_budget_per_task"`
	Usage           Usage    `json:"accumulated_token_usage"`
	// ByUse splits a sum over all uses; nil in the metrics of one use.
	ByUse Stats `json:"by_use,omitempty"`
}

// Cost returns the accumulated cost, exactly.
func (m Metrics) Cost() Money { return MoneyOf(m.AccumulatedCost) }

// Add accumulates one call. Costs are added as Money, so that a sum over many
// calls is exact.
func (m *Metrics) Add(u Usage, cost Money) {
	m.AccumulatedCost = plus(m.Cost(), cost).USD()
	m.ModelName = orText(u.Model, m.ModelName)
	m.Usage = m.Usage.Plus(u)
}

// plus adds amounts; a sum that does not fit is the largest amount.
func plus(a, b Money) Money {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + max(b, 0)
}

// Stats are metrics by usage id.
type Stats map[string]Metrics

// With returns a copy in which the metrics of one use are replaced.
func (s Stats) With(use string, m Metrics) Stats {
	next := make(Stats, len(s)+1)
	maps.Copy(next, s)
	next[use] = m
	return next
}

// Total returns the sum over all uses. What does not add up is the agent's.
func (s Stats) Total() Metrics {
	if len(s) == 0 {
		return Metrics{}
	}
	total := Metrics{ByUse: s}
	uses := slices.Sorted(maps.Keys(s))
	if i := slices.Index(uses, UseAgent); i >= 0 { // last: its words win
		uses = append(slices.Delete(uses, i, i+1), UseAgent)
	}
	for _, use := range uses {
		m := s[use]
		total.Add(m.Usage, m.Cost())
		total.ModelName = orText(m.ModelName, total.ModelName)
		total.Usage.PerTurnToken = m.Usage.PerTurnToken
		if m.MaxBudget != nil {
			total.MaxBudget = m.MaxBudget
		}
	}
	return total
}

// Call is a model call, or several that were recorded at once: what lies between
// two states of the metrics.
type Call struct {
	Model     string
	Cost      Money
	Timestamp string  // of the event that recorded it, TimeLayout
	Latency   float64 // seconds; 0 = not known
	Usage     Usage   // of the call alone
}

// MaxCalls bounds the calls of one use that are kept one by one.
const MaxCalls = 1000

// Calls are the calls of one use.
type Calls struct {
	Recent      []Call // oldest first, at most MaxCalls; not to be written to
	Earlier     int    // number of those before
	EarlierCost Money  // what they cost together
}

// with returns the calls and one more. States are copied and share the array; a
// slot beyond what a state shows is nobody else's.
func (c Calls) with(call Call) Calls {
	if len(c.Recent) >= MaxCalls {
		c.Earlier++
		c.EarlierCost = plus(c.EarlierCost, c.Recent[0].Cost)
		c.Recent = c.Recent[1:]
	}
	c.Recent = append(c.Recent, call)
	return c
}

// StatsUpdate is the value of a KeyStats update.
type StatsUpdate struct {
	Usage Stats `json:"usage_to_metrics"` // snapshots of all uses
	// Latency is how long the recorded call took, in seconds, by usage id. Clients
	// of the agent protocol ignore the member.
	Latency map[string]float64 `json:"latency,omitempty"`
}

// applyStats folds a KeyStats update; at is its event's timestamp.
func (s *State) applyStats(v StatsUpdate, at string) {
	for _, use := range slices.Sorted(maps.Keys(v.Usage)) {
		now, before := v.Usage[use], s.Stats[use]
		now.ByUse = nil
		s.Stats = s.Stats.With(use, now)
		used := now.Usage.minus(before.Usage)
		cost := max(now.Cost()-before.Cost(), 0)
		if cost == 0 && used.PerTurnToken == 0 && now.Usage.ResponseID == before.Usage.ResponseID {
			continue // no call: a ceiling changed, or another use has news
		}
		calls := maps.Clone(s.Calls)
		if calls == nil {
			calls = map[string]Calls{}
		}
		calls[use] = calls[use].with(Call{Model: now.ModelName, Cost: cost, Timestamp: at, Latency: v.Latency[use], Usage: used})
		s.Calls = calls
	}
}
