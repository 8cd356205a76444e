// Package policy decides which calls of an answer wait for the user: it judges
// each call's risk with the analyzer that the conversation has, holds the risks
// against its confirmation policy and against the floor that the server sets, and
// says whether the batch waits.
//
// It promises to fail closed: an analyzer that cannot answer, a policy that it
// does not know and a command that it cannot see through lead to a question, never
// to a run. Judging is pure, needs no context and is bounded in time and memory,
// whatever the call contains.
//
// It does not promise to find every harmful command. It reads what a command says,
// not what the programs that it starts do: a script of the workspace, a build, a
// package that is installed. Isolation is the sandbox's work.
package policy

import (
	"encoding/json"

	"parley/internal/conversation"
	"parley/internal/tool"
)

// Call is one call of an answer that can be run.
type Call struct {
	Tool   string          // name of the tool
	Action json.RawMessage // as tool.Tool.Parse returned it
	// Label is the risk that the model gave: LOW, MEDIUM or HIGH; anything else is
	// no label.
	Label string
	// BadLabel says that the model gave a label that is none of the allowed ones.
	BadLabel bool

	ReadOnly    bool // changes nothing
	NoConfirm   bool // is never asked for (finish, think)
	Destructive bool
	OpenWorld   bool
}

// NewCall is the call of a tool.
func NewCall(spec *tool.Spec, action json.RawMessage, label string, badLabel bool) Call {
	return Call{Tool: spec.Name, Action: action, Label: label, BadLabel: badLabel,
		ReadOnly: spec.ReadOnly, NoConfirm: spec.NoConfirm, Destructive: spec.Destructive, OpenWorld: spec.OpenWorld}
}

// Rule is a policy with the analyzer that it goes by.
type Rule struct {
	Policy   conversation.ConfirmationPolicy
	Analyzer *conversation.Analyzer // nil = nobody judges
}

// Verdict is about one call.
type Verdict struct {
	// Risk is what ActionEvent.security_risk says. UNKNOWN without an analyzer, and
	// for tools that change nothing.
	Risk    string
	Confirm bool // this call is one that the user is asked for
	Failed  bool // an analyzer could not answer; Risk is HIGH
	// Reason names what decided the risk, for logs and for people: "fetch_to_exec",
	// or why it could not be judged. "" if there is nothing to say.
	Reason string
}

// Decision is about a batch.
type Decision struct {
	Verdicts []Verdict // one per call, in their order
	Confirm  bool      // none of the calls may run before the user agreed
}

// Decide judges a batch. The rule is the conversation's; the floor is the server's
// and counts besides it, so that no client can have less asked than the server
// wants; nil = the server sets none. A floor that asks by risk and names no
// analyzer goes by FloorAnalyzer, not by what the client chose.
func Decide(own Rule, floor *Rule, calls []Call) Decision {
	rules := []judge{newJudge(own)}
	if floor != nil {
		rules = append(rules, newJudge(floor.withAnalyzer()))
	}
	out := Decision{Verdicts: make([]Verdict, len(calls))}
	for i := range calls {
		v := decideCall(rules, &calls[i])
		out.Verdicts[i] = v
		out.Confirm = out.Confirm || v.Confirm
	}
	return out
}

// FloorAnalyzer is what a floor goes by that names no analyzer: the patterns and
// the rails, which no model and no client has a say in.
func FloorAnalyzer() *conversation.Analyzer {
	return &conversation.Analyzer{Kind: conversation.AnalyzerEnsemble, PropagateUnknown: true,
		Analyzers: []conversation.Analyzer{{Kind: conversation.AnalyzerPattern}, {Kind: conversation.AnalyzerRails}}}
}

func (r Rule) withAnalyzer() Rule {
	if r.Analyzer == nil && r.Policy.Canonical().Kind == conversation.ConfirmRisky {
		r.Analyzer = FloorAnalyzer()
	}
	return r
}

// judge is a rule made ready.
type judge struct {
	policy  conversation.ConfirmationPolicy // canonical
	analyze analyzer                        // nil = nobody judges
}

func newJudge(r Rule) judge {
	j := judge{policy: r.Policy.Canonical()}
	if r.Analyzer != nil {
		j.analyze = newAnalyzer(*r.Analyzer, 1)
	}
	return j
}

// decideCall takes the worst that one of the rules says.
func decideCall(rules []judge, c *Call) Verdict {
	var worst assessment
	confirm := false
	for _, r := range rules {
		a := r.assess(c)
		confirm = confirm || r.asks(c, a)
		worst = worse(worst, a)
	}
	return Verdict{Risk: worst.wire(), Confirm: confirm, Failed: worst.failed, Reason: worst.reason}
}

// assess judges what changes something; the rest has no risk to judge.
func (j judge) assess(c *Call) assessment {
	if j.analyze == nil || c.ReadOnly || c.NoConfirm {
		return assessment{}
	}
	return guarded(j.analyze, c)
}

// asks holds an assessment against the policy. By risk, calls that change nothing
// are not asked for, unless there is nobody to judge: then nothing is known of any
// call, and all are asked for.
func (j judge) asks(c *Call, a assessment) bool {
	switch {
	case c.NoConfirm || j.policy.Kind == conversation.NeverConfirm:
		return false
	case j.policy.Kind != conversation.ConfirmRisky:
		return true
	case c.ReadOnly && j.analyze != nil:
		return false
	case a.failed:
		return true
	}
	return rank(a.risk) >= rank(j.policy.Threshold) || a.unknown() && *j.policy.ConfirmUnknown
}
