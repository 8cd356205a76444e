package condense

import (
	"errors"
	"fmt"
	"strings"

	"parley/internal/conversation"
)

// Reason is why a view should become shorter; a set of the three below. 0 is none.
type Reason uint8

// The reasons (agent protocol 4.6).
const (
	Request Reason = 1 << iota // somebody asked for it
	Tokens                     // the prompt is longer than it may be
	Events                     // there are more events than there may be
)

// Hard reports whether the run cannot go on without a condensation.
func (r Reason) Hard() bool { return r&(Request|Tokens) != 0 }

// String returns the reasons' names, "none" if there is none.
func (r Reason) String() string {
	var names []string
	for i, name := range []string{"REQUEST", "TOKENS", "EVENTS"} {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, "+")
}

// ErrNoProgress says that too few events could be forgotten to be worth a summary.
var ErrNoProgress = errors.New("too few events can be forgotten")

// Input is what a plan depends on.
type Input struct {
	Path   []conversation.Payload // of the branch, from its root
	Tokens int64                  // estimate of the next prompt, tools included; 0 = only the events count, estimated here
	Window int64                  // tokens that a prompt may have, what the answer needs taken off; 0 = unknown
	// Refused is the estimate of the prompt that the provider has refused as too long
	// since the model last answered; 0 = none. It counts as a request. The estimate
	// was wrong then, so less than it is taken to be too much already.
	Refused int64
	// Thinks says which answers of the model have thinking that must go back to the
	// provider as it came; nil = only those whose events say so.
	Thinks func(responseID string) bool
	// SoftFailed is how many events the view had when a condensation for EVENTS alone
	// failed last; 0 = none did. The next attempt waits for some more events.
	SoftFailed int
}

// What a prompt that was refused in spite of its estimate says about the window: so
// much of the estimate counts as fitting.
const (
	refusedNum = 4
	refusedDen = 5
)

// Learned is what is known of a window after a prompt was refused that was
// estimated to have so many tokens. window 0 is unknown, and so is a result of 0.
func Learned(window, refused int64) int64 {
	return leastOf(window, refused*refusedNum/refusedDen)
}

// leastOf is the smallest of the numbers above 0, 0 if there is none.
func leastOf(numbers ...int64) int64 {
	var least int64
	for _, n := range numbers {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// Plan says what is to be done about a view.
type Plan struct {
	Config Config
	Reason Reason // 0 = nothing is to be done
	Size   int    // events of the view
	// Forget are the ids of the events that a summary takes the place of, and Offset
	// is its place among the others. Nothing, if Err is set.
	Forget []string
	Offset int
	// Err says why no part of the view can be forgotten; it is ErrNoProgress. With a
	// hard reason a Job summarises everything then; else the run goes on as it is.
	Err error

	in       Input
	view     []conversation.Payload
	from, to int
}

// Plan says whether the view of a branch should become shorter, why, and what is
// to be forgotten. Of several condensers the first one with something to do counts.
// A request is met even if there is no condenser.
func (s Settings) Plan(in Input) Plan {
	view, requested := View(in.Path), Requested(in.Path)
	if len(s) == 0 && requested {
		s = Settings{Defaults{}.config()}
	}
	var failed Plan
	for _, c := range s {
		p := c.plan(in, view, requested)
		if p.Reason != 0 && (p.Err == nil || p.Reason.Hard()) {
			return p
		}
		if failed.Reason == 0 {
			failed = p
		}
	}
	failed.Size = len(view)
	return failed
}

func (c Config) plan(in Input, view []conversation.Payload, requested bool) Plan {
	p := Plan{Config: c, Size: len(view), in: in, view: view}
	limit := c.limit(in)
	size := estimate(view, in.Tokens)
	p.Reason = c.reason(in, len(view), requested, size, limit)
	if p.Reason == 0 {
		return p
	}
	from, to, err := c.choose(&p, size, limit)
	if err != nil {
		p.Err = err
		return p
	}
	p.from, p.to, p.Offset = from, to, from
	p.Forget = idsOf(view[from:to])
	return p
}

// limit is how many tokens a prompt may have; 0 = unknown.
func (c Config) limit(in Input) int64 { return leastOf(c.MaxTokens, Learned(in.Window, in.Refused)) }

// leastShare is the part of the limit that the events must have before their number
// of tokens is a reason: where system prompt and tools alone are about too long,
// forgetting the events over and over helps nobody.
const leastShare = 8

func (c Config) reason(in Input, events int, requested bool, size scale, limit int64) Reason {
	var r Reason
	if requested || in.Refused > 0 {
		r |= Request
	}
	if limit > 0 && size.total > limit && size.own > limit/leastShare {
		r |= Tokens
	}
	wait := 0
	if in.SoftFailed > 0 {
		wait = in.SoftFailed + max(c.MaxSize/10, 1)
	}
	if events > c.MaxSize && events >= wait {
		r |= Events
	}
	return r
}

// choose finds what to forget. The first of several ways to cut that solves the
// problem counts, or else the first one that makes progress.
func (c Config) choose(p *Plan, size scale, limit int64) (from, to int, err error) {
	cuts := cutsOf(p.view, p.in.Thinks)
	head := c.head(p.view)
	tail := c.tail(p.Reason, p.view, head, size, limit)
	want := len(p.view) - tail
	best, bestFrom := none, 0
	for _, places := range [][2][]bool{{cuts.strict, cuts.strict}, {cuts.free, cuts.loose}} {
		from := cuts.next(places[0], head)
		for _, to := range []int{cuts.next(places[1], want), cuts.last(places[1], want-1)} {
			if from == none || to == none || to == len(p.view) && want < to || !c.progress(p.view, from, to) {
				continue
			}
			if c.solves(p, from, to, size, limit) {
				return from, to, nil
			}
			if best == none {
				bestFrom, best = from, to
			}
		}
	}
	return c.fallBack(p, cuts, head, bestFrom, best)
}

// fallBack takes what makes at least progress: everything behind the head if
// nothing else does and something must.
func (c Config) fallBack(p *Plan, cuts *cuts, head, from, to int) (int, int, error) {
	if to != none {
		return from, to, nil
	}
	from, to = cuts.next(cuts.free, head), cuts.last(cuts.loose, len(p.view))
	if p.Reason.Hard() && from != none && c.progress(p.view, from, to) {
		return from, to, nil
	}
	return 0, 0, fmt.Errorf("%w: less than %.0f%% of %d, or just one", ErrNoProgress, c.MinimumProgress*100, len(p.view))
}

// head is how many events at the start stay: the first ones and the system prompt,
// but no summary, which the next one takes in.
func (c Config) head(view []conversation.Payload) int {
	head := min(c.KeepFirst, len(view))
	if head == 0 && len(view) > 0 && isPrompt(view[0]) {
		head = 1
	}
	for i := range head {
		if _, ok := view[i].(*conversation.CondensationSummaryEvent); ok {
			return i
		}
	}
	return head
}

// tail is how many events at the end stay: the fewest that a reason asks for.
func (c Config) tail(r Reason, view []conversation.Payload, head int, size scale, limit int64) int {
	tail := len(view)
	if r&Events != 0 {
		tail = min(tail, c.MaxSize/2-c.KeepFirst-1)
	}
	if r&Request != 0 {
		tail = min(tail, len(view)/2-c.KeepFirst-1)
	}
	if r&Tokens != 0 {
		tail = min(tail, tailWithin(limit/2, view, head, size))
	}
	return max(tail, 0)
}

// tailWithin is the longest tail that has, with what else stays, so many tokens.
func tailWithin(tokens int64, view []conversation.Payload, head int, size scale) int {
	for i, p := range view {
		if i < head || isPrompt(p) {
			tokens -= size.event[i]
		}
	}
	n := 0
	for i := len(view) - 1; i >= head && tokens >= size.event[i]; i-- {
		if !isPrompt(view[i]) {
			tokens -= size.event[i]
		}
		n++
	}
	return n
}

// progress reports whether forgetting a range is worth it. One event less and a
// summary more would be none.
func (c Config) progress(view []conversation.Payload, from, to int) bool {
	n := len(idsOf(view[from:max(from, to)]))
	return n >= 2 && float64(n) >= c.MinimumProgress*float64(len(view))
}

// solves reports whether the reason is gone once a range is forgotten.
func (c Config) solves(p *Plan, from, to int, size scale, limit int64) bool {
	forgotten := idsOf(p.view[from:to])
	if p.Reason&Events != 0 && len(p.view)-len(forgotten)+1 > c.MaxSize {
		return false
	}
	if p.Reason&Tokens == 0 {
		return true
	}
	left := size.total
	for i := from; i < to; i++ {
		if !isPrompt(p.view[i]) {
			left -= size.event[i]
		}
	}
	return left <= limit
}

// idsOf are the ids of the events but for system prompts, which are never forgotten.
func idsOf(events []conversation.Payload) []string {
	ids := make([]string, 0, len(events))
	for _, p := range events {
		if !isPrompt(p) {
			ids = append(ids, conversation.HeaderOf(p).ID)
		}
	}
	return ids
}
