package agentserver

import (
	"time"

	"parley/internal/conversation"
	"parley/internal/engine"
)

type statsInfo struct {
	UsageToMetrics map[string]fullMetrics `json:"usage_to_metrics"`
}

// fullMetrics are metrics with the lists that snapshots leave out.
type fullMetrics struct {
	conversation.Metrics
	Costs       []costInfo           `json:"costs"`
	Latencies   []latencyInfo        `json:"response_latencies"`
	TokenUsages []conversation.Usage `json:"token_usages"`
}

type costInfo struct {
	Model     string  `json:"model"`
	Cost      float64 `json:"cost"`      // USD
	Timestamp float64 `json:"timestamp"` // seconds since 1970
}

type latencyInfo struct {
	Model      string  `json:"model"`
	Latency    float64 `json:"latency"` // seconds
	ResponseID string  `json:"response_id"`
}

// stats renders the metrics by use. Lists of conversations show them without
// their single calls, and so does a log that cannot be read now: they explain the
// sums, and are no reason to refuse them.
func stats(v *engine.View) statsInfo {
	var calls map[string]conversation.Calls
	if v.Calls != nil {
		if known, err := v.Calls(); err == nil {
			calls = known
		}
	}
	s := statsInfo{map[string]fullMetrics{}}
	for use, m := range byUse(v.Summary.Metrics) {
		full := fullMetrics{Metrics: m, Costs: []costInfo{}, Latencies: []latencyInfo{}, TokenUsages: []conversation.Usage{}}
		full.add(calls[use])
		s.UsageToMetrics[use] = full
	}
	return s
}

// byUse splits a sum. Records from before costs were split are the agent's.
func byUse(m conversation.Metrics) conversation.Stats {
	if m.ByUse == nil && m.ModelName != "" {
		return conversation.Stats{conversation.UseAgent: m}
	}
	return m.ByUse
}

// add lists calls. What is not kept one by one is the first cost, so that the
// costs add up.
func (f *fullMetrics) add(c conversation.Calls) {
	if c.Earlier > 0 {
		f.Costs = append(f.Costs, costInfo{f.ModelName, c.EarlierCost.USD(), seconds(c.Recent[0].Timestamp)})
	}
	for _, call := range c.Recent {
		f.Costs = append(f.Costs, costInfo{call.Model, call.Cost.USD(), seconds(call.Timestamp)})
		f.TokenUsages = append(f.TokenUsages, call.Usage)
		if call.Latency > 0 {
			f.Latencies = append(f.Latencies, latencyInfo{call.Model, call.Latency, call.Usage.ResponseID})
		}
	}
}

func seconds(timestamp string) float64 {
	t, err := time.Parse(conversation.TimeLayout, timestamp)
	if err != nil {
		return 0
	}
	return float64(t.UnixMicro()) / 1e6
}
