package policy_test

import (
	"encoding/json"
	"testing"

	"parley/internal/agent/policy"
	"parley/internal/conversation"
)

const (
	low     = conversation.RiskLow
	medium  = conversation.RiskMedium
	high    = conversation.RiskHigh
	unknown = conversation.RiskUnknown
)

func kind(name string) *conversation.Analyzer { return &conversation.Analyzer{Kind: name} }

// terminal is a call of the terminal.
func terminal(t testing.TB, command string) policy.Call {
	t.Helper()
	return call(t, "terminal", map[string]any{"command": command, "is_input": false, "kind": "TerminalAction"})
}

func call(t testing.TB, tool string, action map[string]any) policy.Call {
	t.Helper()
	raw, err := json.Marshal(action)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Call{Tool: tool, Action: raw}
}

// judge is what an analyzer says of one call.
func judge(a *conversation.Analyzer, c policy.Call) policy.Verdict {
	risky := conversation.ConfirmationPolicy{Kind: conversation.ConfirmRisky}
	return policy.Decide(policy.Rule{Policy: risky, Analyzer: a}, nil, []policy.Call{c}).Verdicts[0]
}
