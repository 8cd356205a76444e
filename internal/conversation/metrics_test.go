package conversation_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"parley/internal/conversation"
)

func used(id string, prompt, completion int64) conversation.Usage {
	return conversation.Usage{Model: "p/m", PromptTokens: prompt, CompletionTokens: completion,
		PerTurnToken: prompt + completion, ResponseID: id, ContextWindow: 100}
}

func (b *builder) stats(stats conversation.Stats, latency map[string]float64) {
	b.t.Helper()
	raw, err := json.Marshal(conversation.StatsUpdate{Usage: stats, Latency: latency})
	if err != nil {
		b.t.Fatal(err)
	}
	b.add(&conversation.StateUpdateEvent{Header: head(conversation.KindStateUpdate, "environment"),
		Key: conversation.KeyStats, Value: raw})
}

// A floating sum of 0.1 drifts; costs must not.
func TestCostsAddUpExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m conversation.Metrics
		var want conversation.Money
		for _, units := range rapid.SliceOfN(rapid.Int64Range(0, 3_000_000_000), 1, 40).Draw(t, "costs") {
			m.Add(conversation.Usage{}, conversation.Money(units))
			want += conversation.Money(units)
			raw, err := json.Marshal(m) // as the log keeps it between two calls
			if err != nil {
				t.Fatal(err)
			}
			m = conversation.Metrics{}
			if err := json.Unmarshal(raw, &m); err != nil {
				t.Fatal(err)
			}
		}
		if m.Cost() != want {
			t.Fatalf("%d, want %d", m.Cost(), want)
		}
	})
}

func TestAbsurdCostsDoNotWrap(t *testing.T) {
	var m conversation.Metrics
	for range 3 {
		m.Add(conversation.Usage{}, conversation.MoneyOf(1e300))
	}
	m.Add(conversation.Usage{}, -5)
	if m.Cost() < conversation.MoneyOf(9e9) {
		t.Errorf("cost %s", m.Cost())
	}
}

func TestCallsAreDerivedFromTheLog(t *testing.T) {
	b := newBuilder(t)
	agent, title := conversation.Metrics{}, conversation.Metrics{}
	agent.Add(used("r1", 10, 5), conversation.USD/4)
	b.stats(conversation.Stats{"agent": agent}, map[string]float64{"agent": 1.5})
	title.Add(used("t1", 3, 1), conversation.USD/100)
	b.stats(conversation.Stats{"agent": agent, "title": title}, nil)
	budget := 3.0
	agent.MaxBudget = &budget // a new ceiling is no call
	b.stats(conversation.Stats{"agent": agent, "title": title}, nil)
	agent.Add(used("r2", 20, 6), 0) // a call that costs nothing is one
	b.stats(conversation.Stats{"agent": agent, "title": title}, map[string]float64{"agent": 2})
	want := map[string]conversation.Calls{
		"agent": {Recent: []conversation.Call{
			{Model: "p/m", Cost: conversation.USD / 4, Timestamp: "1970-01-01T00:00:01.000000", Latency: 1.5, Usage: used("r1", 10, 5)},
			{Model: "p/m", Timestamp: "1970-01-01T00:00:01.000000", Latency: 2, Usage: used("r2", 20, 6)}}},
		"title": {Recent: []conversation.Call{
			{Model: "p/m", Cost: conversation.USD / 100, Timestamp: "1970-01-01T00:00:01.000000", Usage: used("t1", 3, 1)}}},
	}
	if diff := cmp.Diff(want, b.state.Calls); diff != "" {
		t.Error(diff)
	}
	total := b.state.Summary().Metrics
	if total.Cost() != conversation.USD*26/100 || total.Usage.PromptTokens != 33 || total.Usage.ResponseID != "r2" ||
		total.Usage.PerTurnToken != 26 || *total.MaxBudget != 3 || len(total.ByUse) != 2 {
		t.Errorf("total %+v", total)
	}
}

func TestCallsAreBounded(t *testing.T) {
	b := newBuilder(t)
	var m conversation.Metrics
	for i := range conversation.MaxCalls + 30 {
		m.Add(used(fmt.Sprint("r", i), 1, 1), 7)
		b.stats(conversation.Stats{"agent": m}, nil)
	}
	c := b.state.Calls["agent"]
	if len(c.Recent) != conversation.MaxCalls || c.Earlier != 30 || c.EarlierCost != 210 || c.Recent[0].Usage.ResponseID != "r30" {
		t.Errorf("%d kept, %d before that cost %d; the first is %s", len(c.Recent), c.Earlier, c.EarlierCost, c.Recent[0].Usage.ResponseID)
	}
	sum := c.EarlierCost
	for _, call := range c.Recent {
		sum += call.Cost
	}
	if total := b.state.Summary().Metrics; sum != total.Cost() {
		t.Errorf("the calls cost %s, all together %s", sum, total.Cost())
	}
}

// The engine folds events into a copy before they are stored, and drops the copy
// if they are refused.
func TestACopyOfTheStateDoesNotChangeIt(t *testing.T) {
	b := newBuilder(t)
	var m conversation.Metrics
	m.Add(used("r1", 1, 1), 5)
	b.stats(conversation.Stats{"agent": m}, nil)
	kept := *b.state
	before := fmt.Sprint(kept.Stats, kept.Calls)
	m.Add(used("r2", 1, 1), 6)
	b.stats(conversation.Stats{"agent": m, "title": m}, nil)
	if after := fmt.Sprint(kept.Stats, kept.Calls); after != before {
		t.Errorf("%s became %s", before, after)
	}
}

// Logs that were written before costs were split by use have one of them.
func TestOldStatsAreTheAgents(t *testing.T) {
	b := newBuilder(t)
	b.add(&conversation.StateUpdateEvent{Header: head(conversation.KindStateUpdate, "environment"), Key: conversation.KeyStats,
		Value: json.RawMessage(`{"usage_to_metrics":{"agent":{"model_name":"p/m","accumulated_cost":0.3,"max_budget_per_task":null,` +
			`"accumulated_token_usage":{"model":"p/m","prompt_tokens":5}}}}`)})
	if m := b.state.Summary().Metrics; m.AccumulatedCost != 0.3 || m.Usage.PromptTokens != 5 || m.ModelName != "p/m" {
		t.Errorf("%+v", m)
	}
}
