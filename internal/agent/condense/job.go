package condense

import (
	"errors"
	"fmt"
	"strings"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/llm"
)

// CodeTooLong is the code of the fault of a conversation that does not fit, and of
// which nothing is left that could be left out.
const CodeTooLong = "context_too_long"

// ErrEmptySummary says that a model's answer had no summary.
var ErrEmptySummary = errors.New("the model's answer has no summary")

// Bounds of the way out.
const (
	maxFallback  = 32 << 10 // bytes of a digest
	maxRefusals  = 2        // condensations that did not help before the model is not asked any more
	maxSummary   = 48 << 10 // bytes
	leastSummary = 2 << 10
	worthReset   = 2 << 10 // bytes of a view that are worth a call
)

// cutOff stands at the end of a summary whose model ran out of tokens.
const cutOff = "\n[The summary ends here: it was cut off.]"

// Step is what to do next in a job: exactly one of the first three, or nothing:
// the run goes on with the view as it is.
type Step struct {
	// Request is to be sent to the model that summarises; what came of it goes to Take.
	Request *llm.Request
	// Condensation is to be appended, and the job is done. Its time is not set.
	Condensation *conversation.Condensation
	// Err ends the run: trying again makes sense later, or with another model.
	Err error

	// Own says that Request goes to the condenser's own model, Config.LLM, and not to
	// the agent's.
	Own bool
	// Failure is why the last attempt failed, for logs; nil if there was none.
	Failure error
}

// Job carries out a plan. Its owner makes the calls that it asks for, one at a
// time. It ends after at most Config.Resets + 2 calls.
type Job struct {
	plan    Plan
	window  int64 // tokens that Config.LLM takes
	own     bool
	partial bool // the plan's events are being summarised, not all of them
	reset   int  // attempts at a summary of everything so far
	entry   float64
	text    float64 // parts of the bounds that the next attempt uses
	failure error
}

// Job starts to carry out a plan, whose Reason must not be 0. window is how many
// tokens the condenser's own model takes, where it has one; 0 = unknown.
func (p Plan) Job(window int64) *Job {
	return &Job{plan: p, window: window, own: p.Config.LLM != nil, partial: p.Err == nil, entry: 1, text: 1}
}

// Start returns the first step.
func (j *Job) Start() Step {
	j.failure = j.plan.Err
	if j.plan.in.Refused > 0 && Tries(j.plan.in.Path) >= maxRefusals {
		return j.end(j.fallback())
	}
	return j.ask()
}

// ask returns the step that the state of the job calls for.
func (j *Job) ask() Step {
	p := &j.plan
	switch {
	case j.partial:
		return j.end(Step{Request: request(p.view[:p.from], p.view[p.from:p.to], j.bounds()), Own: j.own})
	case !p.Reason.Hard():
		return j.end(Step{})
	case j.reset < p.Config.Resets && j.resettable():
		return j.end(Step{Request: request(nil, p.view, j.bounds()), Own: j.own})
	}
	return j.end(j.fallback())
}

func (j *Job) end(s Step) Step {
	s.Failure = j.failure
	return s
}

// resettable reports whether a summary of everything may help: a lone summary is
// not made shorter by another one.
func (j *Job) resettable() bool {
	for _, p := range j.plan.view {
		if _, summary := p.(*conversation.CondensationSummaryEvent); !summary && !isPrompt(p) {
			return textSize(j.plan.view) >= worthReset
		}
	}
	return false
}

// bounds are those of the next attempt.
func (j *Job) bounds() bounds {
	window := Learned(j.plan.in.Window, j.plan.in.Refused)
	if j.own {
		window = j.window
	}
	b := boundsOf(window)
	b.entry = max(int(float64(b.entry)*j.entry), leastEntry)
	b.text = max(int(float64(b.text)*j.text), leastText/4)
	return b
}

// Take takes what came of the request of the last step and returns the next one.
// A call that was cancelled must not be handed to it.
func (j *Job) Take(resp *llm.Response, err error) Step {
	if err == nil {
		var c *conversation.Condensation
		if c, err = j.read(resp); err == nil {
			j.failure = nil
			return Step{Condensation: c}
		}
	}
	j.failure = err
	if helpless(err) {
		return j.unreachable(err)
	}
	j.failed(err)
	return j.ask()
}

// read makes a condensation of an answer.
func (j *Job) read(resp *llm.Response) (*conversation.Condensation, error) {
	if resp == nil {
		return nil, ErrEmptySummary
	}
	text := strings.TrimSpace(strings.ToValidUTF8(resp.Message.Text(), "\uFFFD"))
	if text == "" {
		return nil, ErrEmptySummary
	}
	if resp.FinishReason == "length" {
		text += cutOff
	}
	ids, offset := j.plan.Forget, j.plan.Offset
	if !j.partial {
		ids, offset = idsOf(j.plan.view), 0
	}
	return condensation(ids, offset, Clip(text, j.longest()), resp.ID), nil
}

// longest bounds a summary, in bytes: what may stand for everything, and no more than
// what it takes the place of.
func (j *Job) longest() int {
	replaced := j.plan.view
	if j.partial {
		replaced = replaced[j.plan.from:j.plan.to]
	}
	return max(min(maxSummary, textSize(replaced), j.lasting(maxSummary)), leastSummary)
}

// lasting is how many bytes a text may have that stands for everything, at most
// most: so few that it is not too long itself (leastShare), and far less than fits.
func (j *Job) lasting(most int) int {
	limit := j.plan.Config.limit(j.plan.in)
	if limit == 0 {
		return most
	}
	return int(min(limit/(leastShare+2)*bytesPerToken, int64(most)))
}

// helpless reports whether an error says nothing about the request: no shorter one
// would fare better.
func helpless(err error) bool {
	var e *llm.Error
	if !errors.As(err, &e) {
		return fault.KindOf(err) != fault.Internal
	}
	switch e.Class {
	case llm.ClassAuth, llm.ClassQuota, llm.ClassRateLimit, llm.ClassOverloaded, llm.ClassNetwork:
		return true
	}
	return false
}

// unreachable goes on without the model that summarises: with the agent's, or
// without a summary. Where one is needed and the agent's model cannot be reached,
// the run could not go on anyway: nothing is forgotten, and it ends.
func (j *Job) unreachable(err error) Step {
	switch {
	case j.own:
		j.own = false
		return j.ask()
	case !j.plan.Reason.Hard():
		return j.end(Step{})
	}
	return j.end(Step{Err: err})
}

// failed makes the next attempt smaller. The attempt at a part of the view is the
// only one; then everything is summarised.
func (j *Job) failed(err error) {
	if !j.partial {
		j.reset++
		j.entry *= j.plan.Config.Scaling
	}
	j.partial = false
	var e *llm.Error
	if errors.As(err, &e) && (e.Class == llm.ClassContext || e.Class == llm.ClassTimeout) {
		j.text /= 2
		return
	}
	j.text *= j.plan.Config.Scaling
}

// fallback is the way out without a model. After a prompt was refused, what comes
// out of it is never more than half of what there was.
func (j *Job) fallback() Step {
	p := &j.plan
	size, budget := textSize(p.view), max(j.lasting(maxFallback), leastDigest)
	refused := p.in.Refused > 0
	if refused {
		budget = min(budget, size/2)
	}
	switch {
	case refused && budget < leastDigest:
		return Step{Err: fault.New(fault.Unsupported, CodeTooLong,
			"The model cannot even read the system prompt and the descriptions of the tools: its context window is too small.").
			WithHint("Choose a model with a larger context window, or offer fewer tools.")}
	case refused || size > budget:
		return Step{Condensation: Fallback(p.view, budget)}
	case p.Reason&Request != 0: // it is short enough as it is
		return Step{Condensation: emptyCondensation()}
	}
	return Step{}
}

// String tells the plan for logs.
func (p Plan) String() string {
	return fmt.Sprintf("%s: %d of %d events", p.Reason, len(p.Forget), p.Size)
}
