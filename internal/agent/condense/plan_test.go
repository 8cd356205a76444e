package condense_test

import (
	"errors"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/agent/condense"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
)

// The numbers are those of agent protocol 4.6: tails of max_size/2-keep_first-1 and
// len/2-keep_first-1, cut at the next place that splits nothing.
func TestPlanGolden(t *testing.T) {
	tests := []struct {
		name         string
		path         *path
		settings     condense.Settings
		in           condense.Input
		reason       string
		offset, gone int // gone 0 = nothing can be forgotten
	}{
		{"few events", (&path{}).prompt("S").user("go").steps(4, false), settings(t, 10, 2), condense.Input{}, "none", 0, 0},
		{"EVENTS, the next place", (&path{}).prompt("S").user("go").steps(4, false).user("x"), settings(t, 10, 2), condense.Input{}, "EVENTS", 2, 8},
		{"EVENTS of the default", (&path{}).prompt("S").user("go").steps(39, false).user("x"), settings(t, 80, 4), condense.Input{}, "EVENTS", 4, 42},
		{"EVENTS of a bare condenser", (&path{}).prompt("S").user("go").steps(119, false).user("x"), settings(t, 0, 2), condense.Input{}, "EVENTS", 2, 122},
		{"REQUEST", (&path{}).prompt("S").user("go").steps(9, false).request(), settings(t, 80, 4), condense.Input{}, "REQUEST", 4, 12},
		{"where a tail is due, the last answer is not cut away", (&path{}).prompt("S").user("go").steps(3, false).request(), settings(t, 80, 2), condense.Input{}, "REQUEST", 2, 4},
		{"no tail is due", (&path{}).prompt("S").user("go").steps(3, false).request(), settings(t, 80, 3), condense.Input{}, "REQUEST", 4, 4},
		{"REQUEST with nothing behind the head", (&path{}).prompt("S").user("go").steps(1, false).request(), settings(t, 80, 4), condense.Input{}, "REQUEST", 0, 0},
		{"a refused prompt is a request", (&path{}).prompt("S").user("go").steps(9, false), settings(t, 80, 4),
			condense.Input{Refused: 1000, Tokens: 100}, "REQUEST", 4, 12},
		{"the smallest tail counts", (&path{}).prompt("S").user("go").steps(10, false).request(), settings(t, 20, 2), condense.Input{}, "REQUEST+EVENTS", 2, 14},
		{"a request without a condenser", (&path{}).prompt("S").user("go").steps(9, false).request(), nil, condense.Input{}, "REQUEST", 4, 12},
		{"no condenser", (&path{}).prompt("S").user("go").steps(200, false), nil, condense.Input{Tokens: 1000, Window: 10}, "none", 0, 0},
		{"no system prompt is forgotten", (&path{}).user("go").prompt("S").steps(5, false), settings(t, 10, 0), condense.Input{}, "EVENTS", 0, 7},
		{"a leading system prompt is no event of keep_first 0", (&path{}).prompt("S").user("go").steps(5, false), settings(t, 10, 0), condense.Input{}, "EVENTS", 1, 7},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Path = tt.path.events
			p := tt.settings.Plan(tt.in)
			if p.Reason.String() != tt.reason || p.Offset != tt.offset || len(p.Forget) != tt.gone {
				t.Errorf("%s, offset %d, %v", p, p.Offset, p.Err)
			}
			if p.Reason != 0 && (p.Err != nil) != (tt.gone == 0) || p.Err != nil && !errors.Is(p.Err, condense.ErrNoProgress) {
				t.Errorf("%v", p.Err)
			}
		})
	}
}

func TestPlanKeepsAnswersWhole(t *testing.T) {
	// s1 u2 | a3 a4 a5 o6 u7 o8 x9 | then steps: 18 events
	p := (&path{}).prompt("S").user("go")
	a, b := p.call("r", "c1", false), p.call("r", "c2", false)
	p.call("r", "c3", false)
	p.result(b, "x").user("meanwhile").result(a, "x").fail("c3").steps(4, false).user("y")
	got := settings(t, 16, 3).Plan(condense.Input{Path: p.events})
	// The head of 3 ends within the answer: it goes on to its end.
	if got.Offset != 9 || strings.Join(got.Forget, " ") != ids(p.events[9:15]) {
		t.Errorf("offset %d: %v, %v", got.Offset, got.Forget, got.Err)
	}
}

func TestPlanOfThinkingLoops(t *testing.T) {
	plan := func(p *path, thinks func(string) bool) condense.Plan {
		return settings(t, 20, 2).Plan(condense.Input{Path: p.events, Thinks: thinks})
	}
	// A loop that another message ends is kept or forgotten as one.
	p := (&path{}).prompt("S").user("go").steps(3, true).user("x").steps(4, true).user("y").steps(2, false).user("z")
	got := plan(p, nil)
	if end := 2 + len(got.Forget); got.Err != nil || got.Offset != 2 || end != 17 {
		t.Errorf("offset %d, end %d of %d: %v", got.Offset, end, len(p.events), got.Err)
	}
	// One loop without an end is cut before an answer that thinks itself.
	p = (&path{}).prompt("S").user("go").steps(15, true)
	if got = plan(p, nil); got.Err != nil || got.Offset != 2 || len(got.Forget) != 24 {
		t.Errorf("%s: offset %d, %v", got, got.Offset, got.Err)
	}
	// The same where only the provider knows about the thinking.
	p = (&path{}).prompt("S").user("go").steps(15, false)
	if got = plan(p, func(string) bool { return true }); got.Err != nil || len(got.Forget) != 24 {
		t.Errorf("%s: %v", got, got.Err)
	}
	// Where only its first answer thinks, what is behind cannot stand alone.
	p = (&path{}).prompt("S").user("go").steps(1, true).steps(14, false)
	if got = plan(p, nil); !errors.Is(got.Err, condense.ErrNoProgress) || got.Reason.Hard() {
		t.Errorf("%s: %v", got, got.Err)
	}
	p.request()
	if got = plan(p, nil); got.Err != nil || len(got.Forget) != 30 {
		t.Errorf("%s: %v", got, got.Err)
	}
}

func TestPlanKeepsOpenCalls(t *testing.T) {
	p := (&path{}).prompt("S").user("go").steps(2, false)
	a, open := p.call("r", "c1", false), p.call("r", "c2", false)
	p.result(a, "x").request()
	got := settings(t, 80, 0).Plan(condense.Input{Path: p.events})
	if got.Err != nil || strings.Contains(strings.Join(got.Forget, " "), open.ID) || len(got.Forget) != 5 {
		t.Errorf("%v %v", got.Forget, got.Err)
	}
	// Also where no tail is due.
	got = settings(t, 80, 4).Plan(condense.Input{Path: p.events})
	if got.Err != nil || strings.Contains(strings.Join(got.Forget, " "), open.ID) || len(got.Forget) != 2 {
		t.Errorf("%v %v", got.Forget, got.Err)
	}
}

// A summary within the events that stay is merged into the next one.
func TestPlanMergesSummaries(t *testing.T) {
	p := (&path{}).prompt("S").user("go").steps(2, false)
	p.forget(ptr(1), "before", "u2", "a5", "o6").steps(6, false).request()
	view := condense.View(p.events)
	got := settings(t, 80, 4).Plan(condense.Input{Path: p.events})
	if got.Offset != 1 || got.Forget[0] != conversation.HeaderOf(view[1]).ID {
		t.Errorf("offset %d of %s: %v", got.Offset, ids(view), got.Forget)
	}
}

func TestPlanByTokens(t *testing.T) {
	big := strings.Repeat("x", 4000) // 1000 tokens
	history := func() *path {
		p := (&path{}).prompt("S").user("go")
		for range 10 {
			p.result(p.call(p.id("r"), p.id("c"), false), big)
		}
		return p
	}
	// About 1060 tokens a step; half of 6000 takes two of them.
	p := history()
	got := settings(t, 80, 2).Plan(condense.Input{Path: p.events, Window: 6000})
	if got.Reason != condense.Tokens || !got.Reason.Hard() || got.Err != nil || len(got.Forget) != 16 {
		t.Errorf("%s %v", got, got.Err)
	}
	// What the caller counted is believed: here it is twice as much.
	got = settings(t, 80, 2).Plan(condense.Input{Path: p.events, Window: 12_000, Tokens: 21_000})
	if got.Reason != condense.Tokens || len(got.Forget) != 16 {
		t.Errorf("%s %v", got, got.Err)
	}
	got = settings(t, 80, 2).Plan(condense.Input{Path: p.events, Window: 12_000, Tokens: 11_999})
	if got.Reason != 0 {
		t.Errorf("%s", got)
	}
	// max_tokens counts where it is less than the window, and an unknown window does not.
	limited := settings(t, 80, 2, func(c *conversation.Condenser) { c.MaxTokens = 6000 })
	for _, window := range []int64{0, 1_000_000} {
		if got = limited.Plan(condense.Input{Path: p.events, Window: window}); got.Reason != condense.Tokens || len(got.Forget) != 16 {
			t.Errorf("window %d: %s %v", window, got, got.Err)
		}
	}
	// A prompt that was refused says that the window is smaller than it was thought.
	got = settings(t, 80, 2).Plan(condense.Input{Path: p.events, Window: 200_000, Tokens: 10_600, Refused: 10_600})
	if got.Reason != condense.Request|condense.Tokens || got.Err != nil {
		t.Errorf("%s %v", got, got.Err)
	}
	// Where system prompt and tools are what is too long, forgetting would not help.
	small := (&path{}).prompt("S").user("go").steps(3, false)
	if got = settings(t, 80, 2).Plan(condense.Input{Path: small.events, Window: 8000, Tokens: 9000}); got.Reason != 0 {
		t.Errorf("%s", got)
	}
	// Images count.
	seen := (&path{}).prompt("S").user("go").say(conversation.SourceUser, content.RoleUser, content.Image("data:image/png;base64,AAAA", "http://x/y.png"))
	seen.agent("nice").user("on")
	if got = settings(t, 80, 1).Plan(condense.Input{Path: seen.events, Window: 8000}); got.Reason != condense.Tokens {
		t.Errorf("%s", got)
	}
}

// An attempt for EVENTS that failed is not repeated at every step.
func TestPlanWaitsAfterASoftFailure(t *testing.T) {
	s := settings(t, 20, 2)
	for steps, want := range map[int]condense.Reason{9: 0, 10: 0, 11: condense.Events} {
		p := (&path{}).prompt("S").user("go").steps(steps, false)
		if got := s.Plan(condense.Input{Path: p.events, SoftFailed: 21}); got.Reason != want {
			t.Errorf("%d events: %s", len(p.events), got)
		}
	}
}

func TestPlanOfAPipeline(t *testing.T) {
	two := 2
	s, err := condense.FromOptions(&conversation.Condenser{Kind: conversation.CondenserPipeline, Condensers: []conversation.Condenser{
		{Kind: conversation.CondenserNone},
		{Kind: conversation.CondenserSummarizing, MaxSize: 100, KeepFirst: &two},
		{Kind: conversation.CondenserPipeline, Condensers: []conversation.Condenser{{Kind: conversation.CondenserSummarizing, MaxSize: 20, KeepFirst: &two}}},
	}}, condense.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	p := (&path{}).prompt("S").user("go").steps(10, false)
	if got := s.Plan(condense.Input{Path: p.events}); got.Reason != condense.Events || got.Config.MaxSize != 20 {
		t.Errorf("%s %+v", got, got.Config)
	}
	p.request()
	if got := s.Plan(condense.Input{Path: p.events}); got.Config.MaxSize != 100 {
		t.Errorf("%s %+v", got, got.Config)
	}
}

func TestFromOptionsDefaults(t *testing.T) {
	kinds := func(kind string) *conversation.Condenser { return &conversation.Condenser{Kind: kind} }
	tests := []struct {
		name               string
		own                *conversation.Condenser
		d                  condense.Defaults
		maxSize, keepFirst int // 0 = none
	}{
		{"default", nil, condense.Defaults{Enabled: true}, 80, 4},
		{"planning", nil, condense.Defaults{Enabled: true, Planning: true}, 100, 6},
		{"of the settings", nil, condense.Defaults{Enabled: true, MaxSize: ptr(account.MinCondenserSize)}, 20, 4},
		{"of the settings, planning", nil, condense.Defaults{Enabled: true, MaxSize: ptr(account.MinCondenserSize), Planning: true}, 20, 6},
		{"of settings that were never checked", nil, condense.Defaults{Enabled: true, MaxSize: ptr(-1)}, 20, 4},
		{"off", nil, condense.Defaults{}, 0, 0},
		{"bare", kinds(conversation.CondenserSummarizing), condense.Defaults{Enabled: true, MaxSize: ptr(50)}, 240, 2},
		{"its own although the default is off", kinds(conversation.CondenserSummarizing), condense.Defaults{}, 240, 2},
		{"none", kinds(conversation.CondenserNone), condense.Defaults{Enabled: true}, 0, 0},
		{"an empty pipeline", kinds(conversation.CondenserPipeline), condense.Defaults{Enabled: true}, 0, 0},
	}
	for _, tt := range tests {
		s, err := condense.FromOptions(tt.own, tt.d)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if s.Handles() != (tt.maxSize > 0) {
			t.Errorf("%s: handles %v", tt.name, s.Handles())
		}
		if !s.Handles() {
			continue
		}
		if c := s[0]; c.MaxSize != tt.maxSize || c.KeepFirst != tt.keepFirst || c.MinimumProgress != 0.1 || c.Resets != 5 || c.Scaling != 0.8 {
			t.Errorf("%s: %+v", tt.name, c)
		}
	}
}

func TestFromOptionsRefuses(t *testing.T) {
	summarizing := func(f func(*conversation.Condenser)) *conversation.Condenser {
		c := &conversation.Condenser{Kind: conversation.CondenserSummarizing}
		f(c)
		return c
	}
	deep := &conversation.Condenser{Kind: conversation.CondenserNone}
	for range 50 {
		deep = &conversation.Condenser{Kind: conversation.CondenserPipeline, Condensers: []conversation.Condenser{*deep}}
	}
	for want, c := range map[string]*conversation.Condenser{
		"kind":                               {Kind: "MagicCondenser"},
		"max_size":                           summarizing(func(c *conversation.Condenser) { c.MaxSize = -1 }),
		"max_tokens":                         summarizing(func(c *conversation.Condenser) { c.MaxTokens = -1 }),
		"keep_first":                         summarizing(func(c *conversation.Condenser) { c.MaxSize, c.KeepFirst = 10, ptr(4) }),
		"minimum_progress":                   summarizing(func(c *conversation.Condenser) { c.MinimumProgress = ptr(0.0) }),
		"hard_context_reset_max_retries":     summarizing(func(c *conversation.Condenser) { c.ResetRetries = ptr(0) }),
		"hard_context_reset_context_scaling": summarizing(func(c *conversation.Condenser) { c.ResetScaling = ptr(1.0) }),
		"condensers":                         deep,
	} {
		_, err := condense.FromOptions(c, condense.Defaults{}, "body", "condenser")
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.Invalid || len(f.Fields) != 1 {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if loc := f.Fields[0].Loc; loc[0] != "body" || want == "condensers" && loc[2] != want || want != "condensers" && loc[len(loc)-1] != want {
			t.Errorf("%s: at %v", want, loc)
		}
	}
	nested := &conversation.Condenser{Kind: conversation.CondenserPipeline, Condensers: []conversation.Condenser{{Kind: conversation.CondenserNone}, {Kind: "x"}}}
	_, err := condense.FromOptions(nested, condense.Defaults{}, "body")
	var f *fault.Error
	if !errors.As(err, &f) || len(f.Fields[0].Loc) != 4 || f.Fields[0].Loc[2] != 1 {
		t.Errorf("%v", err)
	}
}
