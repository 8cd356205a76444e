package conversation_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/conversation"
	"parley/internal/fault"
)

func ptr[T any](v T) *T { return &v }

func TestConfirmationPolicyCheck(t *testing.T) {
	for _, c := range []struct {
		policy conversation.ConfirmationPolicy
		want   string // part of the refusal, "" = allowed
	}{
		{conversation.ConfirmationPolicy{Kind: "NeverConfirm"}, ""},
		{conversation.ConfirmationPolicy{Kind: "AlwaysConfirm"}, ""},
		{conversation.ConfirmationPolicy{Kind: "ConfirmRisky"}, ""},
		{conversation.ConfirmationPolicy{Kind: "ConfirmRisky", Threshold: "LOW", ConfirmUnknown: ptr(false)}, ""},
		{conversation.ConfirmationPolicy{Kind: "ConfirmRisky", Threshold: "MEDIUM"}, ""},
		{conversation.ConfirmationPolicy{Kind: "ConfirmRisky", Threshold: "UNKNOWN"}, "LOW, MEDIUM, HIGH"},
		{conversation.ConfirmationPolicy{Kind: "ConfirmRisky", Threshold: "high"}, "LOW, MEDIUM, HIGH"},
		{conversation.ConfirmationPolicy{}, "NeverConfirm, AlwaysConfirm, ConfirmRisky"},
		{conversation.ConfirmationPolicy{Kind: "neverconfirm"}, `"neverconfirm"`},
		{conversation.ConfirmationPolicy{Kind: strings.Repeat("x", 1000)}, `xxx..."`},
	} {
		check(t, c.policy.Check(), conversation.CodeBadPolicy, c.want)
	}
}

func TestAnalyzerCheck(t *testing.T) {
	llm := conversation.Analyzer{Kind: conversation.AnalyzerLLM}
	nest := func(depth int) conversation.Analyzer {
		a := llm
		for range depth - 1 {
			a = ensemble(a)
		}
		return a
	}
	many := make([]conversation.Analyzer, 15)
	for i := range many {
		many[i] = llm
	}
	for _, c := range []struct {
		analyzer conversation.Analyzer
		want     string
	}{
		{llm, ""},
		{conversation.Analyzer{Kind: conversation.AnalyzerPattern}, ""},
		{conversation.Analyzer{Kind: conversation.AnalyzerRails}, ""},
		{ensemble(llm, conversation.Analyzer{Kind: conversation.AnalyzerPattern}), ""},
		{nest(4), ""},
		{nest(5), "4 levels"},
		{ensemble(many...), ""},
		{ensemble(append(many, llm)...), "At most 16"},
		{ensemble(ensemble(many...), llm), "At most 16"},
		{ensemble(), "at least one member"},
		{conversation.Analyzer{Kind: conversation.AnalyzerLLM, Analyzers: []conversation.Analyzer{llm}}, "Only EnsembleSecurityAnalyzer"},
		{conversation.Analyzer{}, "LLMSecurityAnalyzer, PatternSecurityAnalyzer, PolicyRailSecurityAnalyzer, EnsembleSecurityAnalyzer"},
		{ensemble(llm, conversation.Analyzer{Kind: "GraySwanAnalyzer"}), `"GraySwanAnalyzer"`},
	} {
		check(t, c.analyzer.Check(), conversation.CodeBadAnalyzer, c.want)
	}
}

func ensemble(members ...conversation.Analyzer) conversation.Analyzer {
	return conversation.Analyzer{Kind: conversation.AnalyzerEnsemble, Analyzers: members}
}

func check(t *testing.T, err error, code, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	if !fault.Is(err, fault.Invalid) || fault.CodeOf(err) != code || !strings.Contains(fault.PublicText(err), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestOptionsPolicy(t *testing.T) {
	risky := conversation.ConfirmationPolicy{Kind: "ConfirmRisky", Threshold: "HIGH", ConfirmUnknown: ptr(true)}
	always := conversation.ConfirmationPolicy{Kind: "AlwaysConfirm"}
	never := conversation.ConfirmationPolicy{Kind: "NeverConfirm"}
	llm := &conversation.Analyzer{Kind: conversation.AnalyzerLLM}
	pattern := &conversation.Analyzer{Kind: conversation.AnalyzerPattern}
	for _, c := range []struct {
		name    string
		options conversation.Options
		policy  conversation.ConfirmationPolicy
		judge   *conversation.Analyzer
	}{
		{"nothing", conversation.Options{}, never, nil},
		{"llm without the mode", conversation.Options{SecurityAnalyzer: "llm"}, never, llm},
		{"mode", conversation.Options{ConfirmationMode: true}, always, nil},
		{"mode with llm", conversation.Options{ConfirmationMode: true, SecurityAnalyzer: "llm"}, risky, llm},
		{"mode with none", conversation.Options{ConfirmationMode: true, SecurityAnalyzer: "none"}, always, nil},
		{"mode with one that is not ours", conversation.Options{ConfirmationMode: true, SecurityAnalyzer: "invariant"}, always, nil},
		{"mode with an analyzer set later", conversation.Options{ConfirmationMode: true, Analyzer: pattern}, risky, pattern},
		{"analyzer taken away", conversation.Options{ConfirmationMode: true, SecurityAnalyzer: "llm", Analyzer: &conversation.Analyzer{}}, always, nil},
		{"policy over the mode", conversation.Options{ConfirmationMode: true, Confirmation: &never}, never, nil},
		{"policy over no mode", conversation.Options{Confirmation: &always, SecurityAnalyzer: "llm"}, always, llm},
		{"defaults written out", conversation.Options{Confirmation: &conversation.ConfirmationPolicy{Kind: "ConfirmRisky"}}, risky, nil},
		{"not readable", conversation.Options{Confirmation: &conversation.ConfirmationPolicy{Kind: "Later"}}, always, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.policy, c.options.Policy()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.judge, c.options.Judge()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCanonicalAsksNoLess(t *testing.T) {
	for _, c := range []struct {
		in, want conversation.ConfirmationPolicy
	}{
		{conversation.ConfirmationPolicy{Kind: "ConfirmRisky", Threshold: "EXTREME"},
			conversation.ConfirmationPolicy{Kind: "ConfirmRisky", Threshold: "LOW", ConfirmUnknown: ptr(true)}},
		{conversation.ConfirmationPolicy{Kind: "NeverConfirm", Threshold: "LOW", ConfirmUnknown: ptr(true)},
			conversation.ConfirmationPolicy{Kind: "NeverConfirm"}},
		{conversation.ConfirmationPolicy{}, conversation.ConfirmationPolicy{Kind: "AlwaysConfirm"}},
	} {
		got := c.in.Canonical()
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(got, got.Canonical()); diff != "" {
			t.Error(diff)
		}
	}
}
