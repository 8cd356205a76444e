package agentserver_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/api/agentserver"
	"parley/internal/conversation"
	"parley/internal/engine"
)

func statsOf(t *testing.T, v *engine.View) string {
	t.Helper()
	raw, err := json.Marshal(agentserver.Info(v).Stats)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// The shape is what Python clients validate (agent protocol 2.2).
func TestStatsAreFullMetricsByUse(t *testing.T) {
	usage := conversation.Usage{Model: "p/m", PromptTokens: 3, CompletionTokens: 2, PerTurnToken: 5, ResponseID: "r"}
	m := conversation.Metrics{}
	m.Add(usage, conversation.USD)
	v := &engine.View{Conversation: &conversation.Conversation{ID: "c", Summary: conversation.Summary{Metrics: conversation.Stats{"agent": m}.Total()}},
		Calls: func() (map[string]conversation.Calls, error) {
			return map[string]conversation.Calls{"agent": {Earlier: 2, EarlierCost: conversation.USD / 4, Recent: []conversation.Call{
				{Model: "p/m", Cost: conversation.USD * 3 / 4, Timestamp: "1970-01-01T00:00:01.500000", Latency: 2.5, Usage: usage}}}}, nil
		}}
	const use = `"model":"p/m","prompt_tokens":3,"completion_tokens":2,"cache_read_tokens":0,"cache_write_tokens":0,` +
		`"reasoning_tokens":0,"context_window":0,"per_turn_token":5,"response_id":"r"`
	want := `{"usage_to_metrics":{"agent":{"model_name":"p/m","accumulated_cost":1,"max_budget_per_task":null,` +
		`"accumulated_token_usage":{` + use + `},"costs":[{"model":"p/m","cost":0.25,"timestamp":1.5},{"model":"p/m","cost":0.75,"timestamp":1.5}],` +
		`"response_latencies":[{"model":"p/m","latency":2.5,"response_id":"r"}],"token_usages":[{` + use + `}]}}}`
	if diff := cmp.Diff(want, statsOf(t, v)); diff != "" {
		t.Error(diff)
	}
}

func TestStatsWithoutCalls(t *testing.T) {
	v := &engine.View{Conversation: &conversation.Conversation{ID: "c"}}
	if got := statsOf(t, v); got != `{"usage_to_metrics":{}}` {
		t.Errorf("nothing was called: %s", got)
	}
	v.Calls = func() (map[string]conversation.Calls, error) { return nil, errors.New("the disk is gone") }
	v.Summary.Metrics = conversation.Metrics{ModelName: "p/m", AccumulatedCost: 1} // before costs were split
	want := `{"usage_to_metrics":{"agent":{"model_name":"p/m","accumulated_cost":1,"max_budget_per_task":null,"accumulated_token_usage":` +
		`{"model":"","prompt_tokens":0,"completion_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"reasoning_tokens":0,"context_window":0,` +
		`"per_turn_token":0,"response_id":""},"costs":[],"response_latencies":[],"token_usages":[]}}}`
	if diff := cmp.Diff(want, statsOf(t, v)); diff != "" {
		t.Error(diff)
	}
}
