package policy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"parley/internal/agent/policy"
	"parley/internal/conversation"
	"parley/internal/tool"
)

func ptr[T any](v T) *T { return &v }

// policies are all that there are, but for the ways to write a default.
func policies() []conversation.ConfirmationPolicy {
	out := []conversation.ConfirmationPolicy{{Kind: "NeverConfirm"}, {Kind: "AlwaysConfirm"}}
	for _, threshold := range []string{low, medium, high} {
		for _, ask := range []bool{true, false} {
			out = append(out, conversation.ConfirmationPolicy{Kind: "ConfirmRisky", Threshold: threshold, ConfirmUnknown: ptr(ask)})
		}
	}
	return out
}

// labelled is a call that the model's label gives its risk; "" and UNKNOWN are none.
func labelled(label string) policy.Call {
	return policy.Call{Tool: "terminal", Action: json.RawMessage(`{"command":"x"}`), Label: label}
}

var risks = []string{unknown, low, medium, high}

// Every policy with every risk, judged, not judged and failed.
func TestEveryPolicyWithEveryRisk(t *testing.T) {
	broken := conversation.Analyzer{Kind: "NotThere"}
	for _, p := range policies() {
		for _, risk := range append(risks, "failed", "no analyzer") {
			t.Run(fmt.Sprint(p.Kind, p.Threshold, p.ConfirmUnknown != nil && *p.ConfirmUnknown, risk), func(t *testing.T) {
				rule := policy.Rule{Policy: p, Analyzer: kind(conversation.AnalyzerLLM)}
				want := policy.Verdict{Risk: risk}
				switch risk {
				case "failed":
					rule.Analyzer = &broken
					want = policy.Verdict{Risk: high, Failed: true}
				case "no analyzer":
					rule.Analyzer = nil
					want = policy.Verdict{Risk: unknown}
				}
				want.Confirm = expected(p, want)
				d := policy.Decide(rule, nil, []policy.Call{labelled(risk)})
				got := d.Verdicts[0]
				got.Reason = ""
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				if d.Confirm != want.Confirm {
					t.Error("the batch differs from its only call")
				}
			})
		}
	}
}

// expected is the protocol's rule (4.4), written once more.
func expected(p conversation.ConfirmationPolicy, v policy.Verdict) bool {
	switch p.Kind {
	case "NeverConfirm":
		return false
	case "AlwaysConfirm":
		return true
	}
	if v.Failed {
		return true
	}
	if v.Risk == unknown {
		return *p.ConfirmUnknown
	}
	return slices.Index(risks, v.Risk) >= slices.Index(risks, p.Threshold)
}

// Every analyzer with every risk that it can give.
func TestEveryAnalyzerWithEveryRisk(t *testing.T) {
	commands := map[string]string{low: "ls", medium: "git push --force", high: "rm -rf /", unknown: "$X y"}
	rails := map[string]string{low: low, medium: low, high: high, unknown: unknown}
	for risk, command := range commands {
		c := terminal(t, command)
		c.Label = risk
		for name, want := range map[string]string{conversation.AnalyzerLLM: risk, conversation.AnalyzerPattern: risk, conversation.AnalyzerRails: rails[risk]} {
			for _, a := range []*conversation.Analyzer{kind(name), {Kind: conversation.AnalyzerEnsemble, Analyzers: []conversation.Analyzer{*kind(name)}}} {
				if got := judge(a, c).Risk; got != want {
					t.Errorf("%s with %s: %s, want %s", a.Kind, command, got, want)
				}
			}
			for _, p := range policies() {
				v := policy.Decide(policy.Rule{Policy: p, Analyzer: kind(name)}, nil, []policy.Call{c}).Verdicts[0]
				if v.Confirm != expected(p, v) {
					t.Errorf("%s with %+v of %s: asks %v", name, p, command, v.Confirm)
				}
			}
		}
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		call policy.Call
		want string
	}{
		{labelled(low), low}, {labelled(medium), medium}, {labelled(high), high},
		{labelled(""), unknown}, {labelled(unknown), unknown}, {labelled("low"), unknown}, {labelled("SAFE"), unknown},
		{policy.Call{Label: low, BadLabel: true}, unknown},
	} {
		if got := judge(kind(conversation.AnalyzerLLM), c.call); got.Risk != c.want || got.Confirm != (c.want == high || c.want == unknown) {
			t.Errorf("%+v: %+v", c.call, got)
		}
	}
}

// What an analyzer cannot read makes it fail, and that asks.
func TestFailing(t *testing.T) {
	bad := []policy.Call{{Tool: "terminal"}, {Tool: "terminal", Action: json.RawMessage(`{"command":`)}, {Tool: "terminal", Action: json.RawMessage(`[1]`)},
		{Tool: "terminal", Action: json.RawMessage(`null`)}}
	for _, c := range bad {
		c.Label = low
		for _, a := range []*conversation.Analyzer{kind(conversation.AnalyzerPattern), kind(conversation.AnalyzerRails), kind("Later"), kind(""),
			kind(conversation.AnalyzerEnsemble), {Kind: conversation.AnalyzerEnsemble, Analyzers: []conversation.Analyzer{*kind(conversation.AnalyzerLLM), *kind(conversation.AnalyzerRails)}}} {
			for _, p := range policies() {
				v := policy.Decide(policy.Rule{Policy: p, Analyzer: a}, nil, []policy.Call{c}).Verdicts[0]
				if v.Risk != high || !v.Failed || v.Confirm != (p.Kind != "NeverConfirm") || v.Reason == "" {
					t.Errorf("%s of %s with %s: %+v", a.Kind, c.Action, p.Kind, v)
				}
			}
		}
	}
}

// What the settings meant before: NoConfirm is never asked for, what changes
// nothing only where everything is.
func TestBatches(t *testing.T) {
	llm := kind(conversation.AnalyzerLLM)
	finish := policy.Call{Tool: "finish", Action: json.RawMessage(`{"message":"rm -rf /"}`), ReadOnly: true, NoConfirm: true, Label: high}
	grep := policy.Call{Tool: "grep", Action: json.RawMessage(`{"pattern":"rm -rf /"}`), ReadOnly: true, Label: high}
	always, risky := conversation.ConfirmationPolicy{Kind: "AlwaysConfirm"}, conversation.ConfirmationPolicy{Kind: "ConfirmRisky"}
	quiet := conversation.ConfirmationPolicy{Kind: "ConfirmRisky", ConfirmUnknown: ptr(false)}
	for _, c := range []struct {
		name  string
		rule  policy.Rule
		calls []policy.Call
		want  []bool
	}{
		{"nothing", policy.Rule{Policy: always}, nil, nil},
		{"finish alone", policy.Rule{Policy: always}, []policy.Call{finish}, []bool{false}},
		{"finish with another", policy.Rule{Policy: always}, []policy.Call{labelled(low), finish}, []bool{true, false}},
		{"finish with a risky one", policy.Rule{Policy: risky, Analyzer: llm}, []policy.Call{labelled(low), labelled(high), finish}, []bool{false, true, false}},
		{"reading, always", policy.Rule{Policy: always, Analyzer: llm}, []policy.Call{grep}, []bool{true}},
		{"reading, by risk", policy.Rule{Policy: risky, Analyzer: llm}, []policy.Call{grep}, []bool{false}},
		{"reading, by risk at any threshold", policy.Rule{Policy: conversation.ConfirmationPolicy{Kind: "ConfirmRisky", Threshold: low}, Analyzer: llm}, []policy.Call{grep}, []bool{false}},
		{"reading, by risk that nobody judges", policy.Rule{Policy: risky}, []policy.Call{grep}, []bool{true}},
		{"nobody judges", policy.Rule{Policy: risky}, []policy.Call{labelled(low), finish}, []bool{true, false}},
		{"nobody judges, and that is accepted", policy.Rule{Policy: quiet}, []policy.Call{labelled(high)}, []bool{false}},
		{"never", policy.Rule{Policy: conversation.ConfirmationPolicy{Kind: "NeverConfirm"}, Analyzer: llm}, []policy.Call{labelled(high)}, []bool{false}},
		{"a policy that is not known", policy.Rule{Policy: conversation.ConfirmationPolicy{Kind: "Later"}, Analyzer: llm}, []policy.Call{labelled(low), finish}, []bool{true, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := policy.Decide(c.rule, nil, c.calls)
			var got []bool
			for i, v := range d.Verdicts {
				got = append(got, v.Confirm)
				if c.calls[i].ReadOnly && v.Risk != unknown {
					t.Errorf("a call that changes nothing has the risk %s", v.Risk)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" || d.Confirm != slices.Contains(c.want, true) {
				t.Error(diff, d.Confirm)
			}
		})
	}
}

func TestNewCall(t *testing.T) {
	spec := &tool.Spec{Name: "n", ReadOnly: true, NoConfirm: true, Destructive: true, OpenWorld: true}
	want := policy.Call{Tool: "n", Action: json.RawMessage(`{}`), Label: low, BadLabel: true, ReadOnly: true, NoConfirm: true, Destructive: true, OpenWorld: true}
	if diff := cmp.Diff(want, policy.NewCall(spec, json.RawMessage(`{}`), low, true)); diff != "" {
		t.Error(diff)
	}
}

// A floor asks for what it asks for, whatever a client chose.
func TestFloor(t *testing.T) {
	never := conversation.ConfirmationPolicy{Kind: "NeverConfirm"}
	lenient := policy.Rule{Policy: never, Analyzer: kind(conversation.AnalyzerLLM)}
	floor := &policy.Rule{Policy: conversation.ConfirmationPolicy{Kind: "ConfirmRisky"}}
	for _, c := range []struct {
		command string
		ask     bool
		risk    string
	}{{"ls", false, low}, {"rm -rf /", true, high}, {"$X", true, unknown}} {
		call := terminal(t, c.command)
		call.Label = low
		d := policy.Decide(lenient, floor, []policy.Call{call})
		if d.Confirm != c.ask || d.Verdicts[0].Risk != c.risk {
			t.Errorf("%s: %+v", c.command, d)
		}
		if policy.Decide(lenient, nil, []policy.Call{call}).Confirm {
			t.Errorf("%s is asked for without a floor", c.command)
		}
	}
	ask := &policy.Rule{Policy: conversation.ConfirmationPolicy{Kind: "AlwaysConfirm"}}
	if d := policy.Decide(lenient, ask, []policy.Call{labelled(low)}); !d.Confirm || d.Verdicts[0].Risk != low {
		t.Errorf("%+v", d)
	}
	if d := policy.Decide(policy.Rule{Policy: conversation.ConfirmationPolicy{Kind: "AlwaysConfirm"}}, &policy.Rule{Policy: never}, []policy.Call{labelled(low)}); !d.Confirm {
		t.Error("a floor below makes it ask less")
	}
}

func anyPolicy(t *rapid.T, name string) conversation.ConfirmationPolicy {
	p := conversation.ConfirmationPolicy{
		Kind:      rapid.SampledFrom([]string{"NeverConfirm", "AlwaysConfirm", "ConfirmRisky", "ConfirmRisky", "ConfirmRisky", "", "Other"}).Draw(t, name+" kind"),
		Threshold: rapid.SampledFrom([]string{"", low, medium, high, "odd"}).Draw(t, name+" threshold"),
	}
	if rapid.Bool().Draw(t, name+" set") {
		p.ConfirmUnknown = ptr(rapid.Bool().Draw(t, name+" unknown"))
	}
	return p
}

func anyCall(t *rapid.T) policy.Call {
	c := labelled(rapid.SampledFrom(append(risks, "", "odd")).Draw(t, "label"))
	c.Action = json.RawMessage(rapid.SampledFrom([]string{`{"command":"ls"}`, `{"command":"git push -f"}`, `{"command":"rm -rf /"}`, `{"command":"$X"}`, `{"command":"rm -rf / $X; $Y"}`,
		`{"command":"git push -f; $X"}`, `[]`}).Draw(t, "action"))
	c.BadLabel, c.ReadOnly, c.NoConfirm = rapid.Bool().Draw(t, "bad"), rapid.Bool().Draw(t, "read only"), rapid.Bool().Draw(t, "no confirm")
	return c
}

func anyAnalyzer(t *rapid.T, depth int) conversation.Analyzer {
	kinds := []string{conversation.AnalyzerLLM, conversation.AnalyzerPattern, conversation.AnalyzerRails, "Other"}
	if depth > 0 {
		kinds = append(kinds, conversation.AnalyzerEnsemble, conversation.AnalyzerEnsemble)
	}
	a := conversation.Analyzer{Kind: rapid.SampledFrom(kinds).Draw(t, "analyzer")}
	if a.Kind == conversation.AnalyzerEnsemble {
		a.PropagateUnknown = rapid.Bool().Draw(t, "propagate")
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			a.Analyzers = append(a.Analyzers, anyAnalyzer(t, depth-1))
		}
	}
	return a
}

func TestStricter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := anyPolicy(t, "a"), anyPolicy(t, "b"), anyPolicy(t, "c")
		ab := policy.Stricter(a, b)
		same(t, "commutative", ab, policy.Stricter(b, a))
		same(t, "idempotent", a.Canonical(), policy.Stricter(a, a))
		same(t, "stable", ab, policy.Stricter(ab, a))
		same(t, "associative", policy.Stricter(ab, c), policy.Stricter(a, policy.Stricter(b, c)))
		analyzer := anyAnalyzer(t, 2)
		call := anyCall(t)
		asks := func(p conversation.ConfirmationPolicy) bool {
			return policy.Decide(policy.Rule{Policy: p, Analyzer: &analyzer}, nil, []policy.Call{call}).Confirm
		}
		if asks(ab) != (asks(a) || asks(b)) {
			t.Fatalf("%+v asks %v, %+v asks %v, together %v", a, asks(a), b, asks(b), asks(ab))
		}
	})
}

func same(t *rapid.T, what string, a, b conversation.ConfirmationPolicy) {
	if diff := cmp.Diff(a, b); diff != "" {
		t.Fatalf("not %s: %s", what, diff)
	}
}

// With a floor, what either rule asks for is asked for, and the risk is the worse.
func TestFloorNeverTakesAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, y := anyAnalyzer(t, 1), anyAnalyzer(t, 1)
		own, floor := policy.Rule{Policy: anyPolicy(t, "own"), Analyzer: &x}, policy.Rule{Policy: anyPolicy(t, "floor"), Analyzer: &y}
		calls := []policy.Call{anyCall(t), anyCall(t)}
		a, b, both := policy.Decide(own, nil, calls), policy.Decide(floor, nil, calls), policy.Decide(own, &floor, calls)
		if both.Confirm != (a.Confirm || b.Confirm) {
			t.Fatal("the floor changed what is asked for")
		}
		for i := range calls {
			u, v, w := a.Verdicts[i], b.Verdicts[i], both.Verdicts[i]
			if w.Confirm != (u.Confirm || v.Confirm) || w.Failed != (u.Failed || v.Failed) || (w.Risk == high) != (u.Risk == high || v.Risk == high) {
				t.Fatalf("%+v and %+v became %+v", u, v, w)
			}
		}
	})
}

// One more member, or a member that says more, never makes an ensemble say less.
func TestEnsembleIsMonotone(t *testing.T) {
	order := map[bool][]string{false: {unknown, low, medium, high}, true: {low, medium, unknown, high}}
	rapid.Check(t, func(t *rapid.T) {
		members := []conversation.Analyzer{anyAnalyzer(t, 1), anyAnalyzer(t, 1)}
		for _, propagate := range []bool{false, true} {
			call := anyCall(t)
			call.ReadOnly, call.NoConfirm = false, false
			few := conversation.Analyzer{Kind: conversation.AnalyzerEnsemble, Analyzers: members[:1], PropagateUnknown: propagate}
			more := conversation.Analyzer{Kind: conversation.AnalyzerEnsemble, Analyzers: members, PropagateUnknown: propagate}
			u, v := judge(&few, call), judge(&more, call)
			if rank := order[propagate]; slices.Index(rank, v.Risk) < slices.Index(rank, u.Risk) || u.Failed && !v.Failed {
				t.Fatalf("%v: %+v became %+v with %s", propagate, u, v, members[1].Kind)
			}
			if !propagate {
				continue
			}
			for _, label := range []string{medium, high} {
				louder := call
				louder.Label, louder.BadLabel = label, false
				quieter := louder
				quieter.Label = low
				if a, b := judge(&more, quieter), judge(&more, louder); slices.Index(order[true], b.Risk) < slices.Index(order[true], a.Risk) {
					t.Fatalf("the label %s made %+v of %+v", label, b, a)
				}
			}
		}
	})
}

func TestPropagation(t *testing.T) {
	members := []conversation.Analyzer{*kind(conversation.AnalyzerLLM), *kind(conversation.AnalyzerPattern)}
	for _, c := range []struct {
		label, command string
		max, propagate string
	}{
		{low, "ls", low, low}, {"", "ls", low, unknown}, {low, "$X", low, unknown}, {medium, "$X", medium, unknown},
		{high, "$X", high, high}, {"", "rm -rf /", high, high}, {"", "$X", unknown, unknown}, {low, "git push -f", medium, medium},
	} {
		call := terminal(t, c.command)
		call.Label = c.label
		for propagate, want := range map[bool]string{false: c.max, true: c.propagate} {
			a := conversation.Analyzer{Kind: conversation.AnalyzerEnsemble, Analyzers: members, PropagateUnknown: propagate}
			if got := judge(&a, call).Risk; got != want {
				t.Errorf("%q %q %v: %s, want %s", c.label, c.command, propagate, got, want)
			}
		}
	}
}

// longest is how long judging one call may take here: far more than it does, for
// slow machines and the race detector.
const longest = 20 * time.Second

// Beyond the bounds nothing is LOW, and nothing takes long.
func TestBounds(t *testing.T) {
	for name, command := range map[string]string{
		"long":         "echo " + strings.Repeat("a ", 60_000),
		"deep":         strings.Repeat("$(", 20_000),
		"deep, closed": strings.Repeat("(", 5000) + "ls" + strings.Repeat(")", 5000),
		"quoted":       strings.Repeat("$( ')' ", 9000),
		"minus":        "((" + strings.Repeat("-", 60_000),
		"backquotes":   strings.Repeat("`", 60_001),
		"if":           strings.Repeat("if ", 20_000),
		"pipes":        strings.Repeat("a|", 30_000) + "a",
		"ands":         strings.Repeat("a&&", 20_000) + "a",
		"braces":       "echo " + strings.Repeat("{a,b}", 200) + "; echo {1..999999999}",
		"eval":         strings.Repeat("eval ", 5000) + "ls",
		"values": func() string {
			return strings.Repeat("for i in "+strings.Repeat("a b ", 200)+"; do x=$i$x; $x $x $x; done\n", 40)
		}(),
		"doubling":     "x=aaaaaaaaaaaaaaaa;" + strings.Repeat("x=$x$x$x$x;", 200) + "$x",
		"long values":  "x='" + strings.Repeat("ab ", 10_000) + "'\n" + strings.Repeat("c $x\n", 5000),
		"long pipes":   "x='" + strings.Repeat("ab ", 10_000) + "'\n" + strings.Repeat("echo \"$x\" | tr a-zA-Z0-9 b-zA-Z0-9a | rev | base64 | base64 -d | sh\n", 500),
		"long files":   "x='" + strings.Repeat("ls;", 10_000) + "'\necho \"$x\" > a.sh\n" + strings.Repeat("cat a.sh a.sh a.sh | tee b.sh; sh a.sh\n", 700),
		"calculations": "f() { ((" + strings.Repeat("1+", 15_000) + "1)); }\n" + strings.Repeat("f\n", 10_000) + "$x",
		"recursion":    "f() { g; g; }; g() { f; f; h; }; h() { f; g; h; }; f",
		"functions":    functions(40),
		"self eval":    `x='eval "$x"; eval "$x"'; eval "$x"`,
		"unfinished":   strings.Repeat("if true; then\n", 4000),
		"sudo":         strings.Repeat("sudo ", 12_000) + "ls",
		"xargs":        "echo a | " + strings.Repeat("xargs ", 10_000) + "x",
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			v := judge(kind(conversation.AnalyzerPattern), terminal(t, command))
			if took := time.Since(start); took > longest {
				t.Errorf("took %s", took)
			}
			if v.Failed || (v.Risk == low) != (name == "recursion") {
				t.Errorf("%+v", v)
			}
		})
	}
	for name, action := range map[string]map[string]any{
		"phrases":   {"path": "a.txt", "file_text": strings.Repeat("ignore the new and previous but not ", 20_000), "command": "create"},
		"much text": {"path": "a.txt", "file_text": strings.Repeat("a ", 300_000), "command": "create"},
		"deep":      {"x": deep(100)},
	} {
		start := time.Now()
		v := judge(kind(conversation.AnalyzerPattern), call(t, "file_editor", action))
		if took := time.Since(start); took > longest {
			t.Errorf("%s took %s", name, took)
		}
		if v.Risk != unknown || v.Failed {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// functions call each other twice, each the next.
func functions(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "f%d() { f%d; f%d; }\n", i, i+1, i+1)
	}
	return b.String() + "f0"
}

func deep(n int) any {
	if n == 0 {
		return "rm -rf /"
	}
	return map[string]any{"x": []any{deep(n - 1)}}
}
