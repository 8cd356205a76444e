package conversation

import (
	"slices"
	"strings"

	"parley/internal/fault"
)

// Bounds of an Analyzer: an ensemble is written by a client, and judging costs
// time for each of its members.
const (
	maxAnalyzers     = 16 // in all, ensembles counted
	maxAnalyzerDepth = 4  // an ensemble in an ensemble is 2
)

// Codes of what Check refuses.
const (
	CodeBadPolicy   = "bad_confirmation_policy"
	CodeBadAnalyzer = "bad_security_analyzer"
)

// settingLLM is what the settings call AnalyzerLLM. Their other names ("none",
// "invariant", "grayswan", anything) mean that nobody judges.
const settingLLM = "llm"

// AnalyzerNone as Options.Analyzer means that nobody judges, whatever the settings
// said at the start. It is no kind that a client may send.
const AnalyzerNone = ""

func policyKinds() []string { return []string{NeverConfirm, AlwaysConfirm, ConfirmRisky} }

func thresholds() []string { return []string{RiskLow, RiskMedium, RiskHigh} }

func analyzerKinds() []string {
	return []string{AnalyzerLLM, AnalyzerPattern, AnalyzerRails, AnalyzerEnsemble}
}

// Check refuses what is no policy, with a text that lists what is allowed
// (fault.Invalid, CodeBadPolicy). An absent threshold is allowed.
func (p ConfirmationPolicy) Check() error {
	if !slices.Contains(policyKinds(), p.Kind) {
		return refuse(CodeBadPolicy, "confirmation policy", p.Kind, policyKinds())
	}
	if p.Threshold != "" && !slices.Contains(thresholds(), p.Threshold) {
		return refuse(CodeBadPolicy, "threshold of a confirmation policy", p.Threshold, thresholds())
	}
	return nil
}

// Canonical is the same policy with its defaults written out and the members that
// its kind does not use left out. A kind that is not known asks always, a
// threshold that is not known is the least: what cannot be read must not ask less.
func (p ConfirmationPolicy) Canonical() ConfirmationPolicy {
	switch p.Kind {
	case NeverConfirm:
		return ConfirmationPolicy{Kind: NeverConfirm}
	case ConfirmRisky:
		unknown := p.ConfirmUnknown == nil || *p.ConfirmUnknown
		out := ConfirmationPolicy{Kind: ConfirmRisky, Threshold: p.Threshold, ConfirmUnknown: &unknown}
		switch {
		case p.Threshold == "":
			out.Threshold = RiskHigh
		case !slices.Contains(thresholds(), p.Threshold):
			out.Threshold = RiskLow
		}
		return out
	}
	return ConfirmationPolicy{Kind: AlwaysConfirm}
}

// Check refuses what is no analyzer, an ensemble of none, and one that is too large
// or nested too deeply (fault.Invalid, CodeBadAnalyzer).
func (a Analyzer) Check() error {
	total := 0
	return a.check(1, &total)
}

func (a Analyzer) check(depth int, total *int) error {
	*total++
	switch {
	case depth > maxAnalyzerDepth:
		return fault.New(fault.Invalid, CodeBadAnalyzer, "The security analyzer is nested too deeply.").
			WithHint("Ensembles may be %d levels deep.", maxAnalyzerDepth)
	case *total > maxAnalyzers:
		return fault.New(fault.Invalid, CodeBadAnalyzer, "The security analyzer has too many members.").
			WithHint("At most %d analyzers may be used together, ensembles counted.", maxAnalyzers)
	case !slices.Contains(analyzerKinds(), a.Kind):
		return refuse(CodeBadAnalyzer, "security analyzer", a.Kind, analyzerKinds())
	case a.Kind == AnalyzerEnsemble && len(a.Analyzers) == 0:
		return fault.New(fault.Invalid, CodeBadAnalyzer, "%s needs at least one member in \"analyzers\".", AnalyzerEnsemble)
	case a.Kind != AnalyzerEnsemble && len(a.Analyzers) > 0:
		return fault.New(fault.Invalid, CodeBadAnalyzer, "Only %s has members in \"analyzers\".", AnalyzerEnsemble)
	}
	for _, member := range a.Analyzers {
		if err := member.check(depth+1, total); err != nil {
			return err
		}
	}
	return nil
}

// Policy is the confirmation policy that counts, in canonical form: the one that
// was set, else what the settings' confirmation mode means. With the mode and an
// analyzer only what is risky is asked for, with the mode alone everything.
func (o *Options) Policy() ConfirmationPolicy {
	switch {
	case o.Confirmation != nil:
		return o.Confirmation.Canonical()
	case !o.ConfirmationMode:
		return ConfirmationPolicy{Kind: NeverConfirm}.Canonical()
	case o.Judge() != nil:
		return ConfirmationPolicy{Kind: ConfirmRisky}.Canonical()
	}
	return ConfirmationPolicy{Kind: AlwaysConfirm}.Canonical()
}

// Judge is the analyzer that counts: the one that was set, else what the settings
// name; nil if nobody judges.
func (o *Options) Judge() *Analyzer {
	switch {
	case o.Analyzer != nil && o.Analyzer.Kind == AnalyzerNone:
		return nil
	case o.Analyzer != nil:
		return o.Analyzer
	case o.SecurityAnalyzer == settingLLM:
		return &Analyzer{Kind: AnalyzerLLM}
	}
	return nil
}

// maxShown bounds what of a wrong value is repeated in the refusal, in bytes.
const maxShown = 60

func refuse(code, what, got string, allowed []string) error {
	if len(got) > maxShown {
		got = strings.ToValidUTF8(got[:maxShown], "") + "..."
	}
	return fault.New(fault.Invalid, code, "There is no %s %q.", what, got).
		WithHint("Allowed are %s.", strings.Join(allowed, ", "))
}
