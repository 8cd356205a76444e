package policy

import (
	"fmt"

	"parley/internal/conversation"
)

// assessment is what an analyzer thinks of a call.
type assessment struct {
	risk string // LOW, MEDIUM, HIGH; "" = no judgement
	// unclear says that a part of the call could not be judged. The risk is that of
	// the rest, and what is not judged may be worse.
	unclear bool
	failed  bool // the analyzer could not answer
	reason  string
}

// unknown reports whether the call, or a part of it, was not judged.
func (a assessment) unknown() bool { return a.unclear || rank(a.risk) == 0 }

// wire is the risk as an event says it. A call that is partly judged is UNKNOWN,
// unless the judged part is already as bad as it gets.
func (a assessment) wire() string {
	switch {
	case a.failed || a.risk == conversation.RiskHigh:
		return conversation.RiskHigh
	case a.unknown():
		return conversation.RiskUnknown
	}
	return a.risk
}

// worse joins what two rules think of a call. An empty assessment says nothing,
// so it takes nothing away from the other.
func worse(a, b assessment) assessment {
	out := a
	if rank(b.risk) > rank(a.risk) || b.failed && !a.failed || a.reason == "" {
		out.reason = b.reason
	}
	if rank(b.risk) > rank(a.risk) {
		out.risk = b.risk
	}
	out.unclear = a.unclear || b.unclear
	out.failed = a.failed || b.failed
	return out
}

// analyzer judges a call. An error means that it could not.
type analyzer func(c *Call) (assessment, error)

// newAnalyzer builds what the options describe. A kind that is not known becomes
// one that fails, which asks: options may come from a newer version.
func newAnalyzer(a conversation.Analyzer, depth int) analyzer {
	switch {
	case depth > maxNesting:
		return broken("the analyzer is nested too deeply")
	case a.Kind == conversation.AnalyzerLLM:
		return byLabel
	case a.Kind == conversation.AnalyzerPattern:
		return byPattern
	case a.Kind == conversation.AnalyzerRails:
		return byRails
	case a.Kind == conversation.AnalyzerEnsemble && len(a.Analyzers) > 0:
		members := make([]analyzer, len(a.Analyzers))
		for i, m := range a.Analyzers {
			members[i] = newAnalyzer(m, depth+1)
		}
		return ensemble(members, a.PropagateUnknown)
	}
	return broken("there is no such analyzer")
}

// maxNesting is far above what conversation.Analyzer.Check lets in.
const maxNesting = 16

func broken(why string) analyzer {
	return func(*Call) (assessment, error) { return assessment{}, fmt.Errorf("policy: %s", why) }
}

// guarded turns a failure of an analyzer, be it an error or a panic, into the
// assessment that makes every policy ask that asks at all.
func guarded(judge analyzer, c *Call) (a assessment) {
	defer func() {
		if r := recover(); r != nil {
			a = failure(fmt.Sprintf("panic: %v", r))
		}
	}()
	a, err := judge(c)
	if err != nil {
		return failure(err.Error())
	}
	return a
}

func failure(why string) assessment {
	return assessment{risk: conversation.RiskHigh, failed: true, reason: "analyzer failed: " + clip(why)}
}

// maxReason bounds a reason, in bytes.
const maxReason = 200

func clip(s string) string {
	if len(s) > maxReason {
		return s[:maxReason] + "..."
	}
	return s
}

// byLabel takes the model's own label.
func byLabel(c *Call) (assessment, error) {
	if c.BadLabel || rank(c.Label) == 0 {
		return assessment{reason: "no label of the model"}, nil
	}
	return assessment{risk: c.Label, reason: "label of the model"}, nil
}

// ensemble takes the worst that one of its members says, all of which are asked.
// Members that do not know are passed over where another one does, unless the
// ensemble propagates that. A member that fails makes the ensemble fail, with the
// highest risk.
func ensemble(members []analyzer, propagate bool) analyzer {
	return func(c *Call) (assessment, error) {
		var out assessment
		unclear := false
		for _, m := range members {
			a := guarded(m, c)
			unclear = unclear || a.unknown() && !a.failed
			a.unclear = false
			out = worse(out, a)
		}
		out.unclear = unclear && propagate
		return out, nil
	}
}
