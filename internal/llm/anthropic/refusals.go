package anthropic

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"parley/internal/lazyre"
	"parley/internal/llm"
	"parley/internal/llm/failure"
)

// refusals are the optional request fields that an endpoint refused.
type refusals uint32

const (
	refusedTTL refusals = 1 << iota
	refusedCache
	refusedBudget   // thinking by budget
	refusedAdaptive // adaptive thinking
	refusedDisabled // thinking that is switched off
	refusedDisplay
	refusedThinking // any word on thinking
	refusedEffort
	refusedSampling
	refusedBeta
)

func (r refusals) has(f refusals) bool { return r&f == f }

// complaint says which words mean which refusal, if the field was sent.
type complaint struct {
	field refusals
	sent  func(sent) bool
	words []string // any of them, in lower case
}

// complaints are asked in order; the first that fits is what the endpoint minds.
func complaints() []complaint {
	thinks := func(kind string) func(sent) bool {
		return func(s sent) bool { return s.plan.thinking != nil && (kind == "" || s.plan.thinking.Type == kind) }
	}
	return []complaint{
		{refusedTTL, func(s sent) bool { return s.ttl }, []string{".ttl", "`ttl`", `"ttl"`, "cache-ttl"}},
		{refusedCache, func(s sent) bool { return s.markers }, []string{"cache_control", "prompt caching"}},
		{refusedDisplay, func(s sent) bool { return s.plan.thinking != nil && s.plan.thinking.Display != "" }, []string{"display"}},
		{refusedDisabled, thinks("disabled"), []string{"thinking"}},
		{refusedBudget, thinks("enabled"), []string{"thinking.type", "thinking.enabled", "adaptive"}},
		{refusedAdaptive, thinks("adaptive"), []string{"adaptive", "thinking.type"}},
		{refusedThinking, thinks(""), []string{"thinking", "support `reasoning", "support reasoning"}},
		{refusedEffort, func(s sent) bool { return s.plan.effort != "" }, []string{"effort", "output_config"}},
		{refusedSampling, func(s sent) bool { return s.sampling }, []string{"temperature", "top_p", "top_k", "sampling"}},
		{refusedBeta, func(s sent) bool { return s.plan.beta != "" }, []string{"anthropic-beta", "anthropic_beta", "beta header", "beta flag"}},
	}
}

// attempt is how one call is made: what it leaves out.
type attempt struct {
	refused refusals
	bare    bool // the thinking of earlier answers
	quiet   bool // the request to think
}

// learn says how to make the call again after err; ok is false if there is no
// other way. What it learns of the endpoint holds for later calls too.
func (m *Model) learn(err error, a attempt, s sent) (next attempt, ok bool) {
	var e *llm.Error
	if !errors.As(err, &e) || e.Streamed || (e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity) {
		return a, false
	}
	text := strings.ToLower(e.Message)
	if n, found := longest(text); found && n < s.max {
		m.ceiling.Store(n)
		return a, true
	}
	if e.Class != llm.ClassBadRequest && e.Class != llm.ClassMalformed {
		return a, false // it minds something else, whatever words it uses
	}
	switch {
	case strings.Contains(text, "expected `thinking`") && s.plan.on() && !a.quiet:
		a.quiet = true // the turn in progress was made without
		return a, true
	case mindsHistory(text) && !a.bare && len(s.layouts) > 0:
		m.graves.add(s.layouts)
		a.bare = true
		return a, true
	}
	for _, c := range complaints() {
		if c.sent(s) && !a.refused.has(c.field) && failure.Says(text, c.words...) {
			m.refused.Or(uint32(c.field))
			a.refused |= c.field
			return a, true
		}
	}
	return a, false
}

// mindsHistory reports whether the endpoint minds thinking blocks of earlier
// answers rather than the request to think.
func mindsHistory(text string) bool {
	return failure.Says(text, "signature", "redacted_thinking", "thinking block", "cannot be `thinking`")
}

var maxTokensSaid = lazyre.MustCompile(`max_tokens: \d+ > (\d+)`)

// longest reads the model's longest answer out of a refusal of a longer one.
func longest(text string) (int64, bool) {
	g := maxTokensSaid.FindStringSubmatch(text)
	if g == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(g[1], 10, 64)
	return n, err == nil && n > 0
}
