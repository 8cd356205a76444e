// Package fallback decorates several models as one: when the first does not
// answer for a reason that another one may not have, the next is asked.
//
// A model that failed is left out for a while, so that the next calls do not
// wait again for all its retries; then one call tries it. That is shared by all
// conversations (Health). What it never does: ask another model after a part of
// an answer was shown, or because of what was asked. A refusal for its content
// is an answer: asking around until somebody agrees would go behind a provider's
// policy and the user's back. A budget that is spent is spent for all.
package fallback

import (
	"context"
	"errors"
	"slices"

	"parley/internal/content"
	"parley/internal/llm"
)

// Choice is one of the models.
type Choice struct {
	Key   Key       // names its configuration in Health
	Model llm.Model // with its retries
	Once  llm.Model // without them: to see whether it is back; nil = Model
}

// Model asks its choices in order.
type Model struct {
	choices []Choice
	health  *Health
	onRetry func(context.Context, llm.Retry)
}

var _ llm.Model = (*Model)(nil)

// New makes one model of at least one choice. onRetry, if not nil, hears when the
// next model is asked: Fallback names it, Err says why, Attempt is the number of
// models that failed, MaxAttempts how many there are. It is called on the
// goroutine of Do.
func New(choices []Choice, health *Health, onRetry func(context.Context, llm.Retry)) *Model {
	if onRetry == nil {
		onRetry = func(context.Context, llm.Retry) {}
	}
	return &Model{choices: slices.Clone(choices), health: health, onRetry: onRetry}
}

// Info implements llm.Model: it is the first choice's.
func (m *Model) Info() llm.Info { return m.choices[0].Model.Info() }

// Do implements llm.Model. If all fail, the error is the first model's, with what
// the others said.
func (m *Model) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	t := &try{Model: m, ctx: ctx, req: req}
	var later []Choice
	for _, c := range m.choices {
		if !t.suits(c) {
			continue
		}
		state := m.health.enter(c.Key)
		if state == down {
			later = append(later, c)
			continue
		}
		if t.ask(c, state) {
			return t.resp, t.err
		}
	}
	// Those that are said to be down may be the only ones there are.
	for _, c := range later {
		state := probing
		if len(t.failed) == 0 {
			state = up
		}
		if t.suits(c) && t.ask(c, state) {
			return t.resp, t.err
		}
	}
	return nil, t.failure()
}

// try is one call of Do.
type try struct {
	*Model
	ctx    context.Context
	req    *llm.Request
	asked  []Choice
	failed []*llm.Error // of asked
	resp   *llm.Response
	err    error
}

// ask asks one model and reports whether that was the end of it.
func (t *try) ask(c Choice, state health) (done bool) {
	if n := len(t.failed); n > 0 {
		t.onRetry(t.ctx, llm.Retry{Attempt: n, MaxAttempts: len(t.choices), Err: t.failed[n-1], Fallback: c.Model.Info().Model})
	}
	model := c.Model
	if state == probing && c.Once != nil {
		model = c.Once
	}
	told := false
	defer func() { // also after a panic: who may probe must report
		if !told {
			t.health.left(c.Key)
		}
	}()
	t.resp, t.err = model.Do(t.ctx, t.req)
	if t.err == nil {
		told = true
		t.health.answered(c.Key)
		if t.resp != nil && t.resp.Model == "" {
			t.resp.Model = c.Model.Info().Model
		}
		return true
	}
	var e *llm.Error
	if t.ctx.Err() != nil || !errors.As(t.err, &e) {
		return true
	}
	if isOutage(e.Class) {
		told = true
		t.health.failed(c.Key, e.RetryAfter)
	}
	if e.Streamed || e.Class == llm.ClassContentPolicy || !mayHelp(e.Class) && t.isFirst(c) {
		return true
	}
	t.asked, t.failed = append(t.asked, c), append(t.failed, e)
	return false
}

// isOutage reports whether the next call would fail in the same way, whatever it
// asks.
func isOutage(c llm.Class) bool {
	switch c {
	case llm.ClassAuth, llm.ClassQuota, llm.ClassRateLimit, llm.ClassOverloaded, llm.ClassNetwork, llm.ClassTimeout:
		return true
	}
	return false
}

// mayHelp reports whether another model may answer what this one did not.
func mayHelp(c llm.Class) bool {
	return isOutage(c) || c == llm.ClassNoResponse || c == llm.ClassContext
}

func (t *try) isFirst(c Choice) bool { return c.Key == t.choices[0].Key }

// suits reports whether a model can take the request: images need one that sees
// them, and a history that was too long needs a larger window. The first choice
// may say itself what it cannot.
func (t *try) suits(c Choice) bool {
	if t.isFirst(c) && len(t.failed) == 0 {
		return true
	}
	info := c.Model.Info()
	for i, e := range t.failed {
		if e.Class == llm.ClassContext && info.ContextWindow <= t.asked[i].Model.Info().ContextWindow {
			return false
		}
	}
	return info.Vision || !hasImages(t.req)
}

func hasImages(req *llm.Request) bool {
	for _, m := range req.Messages {
		if slices.ContainsFunc(m.Parts, func(p content.Part) bool { return p.Type == content.TypeImage }) {
			return true
		}
	}
	return false
}

// failure is the first model's error, with what the others said.
func (t *try) failure() error {
	if len(t.failed) == 1 {
		return t.err
	}
	said := *t.failed[0]
	said.Err = t.failed[0]
	for i, e := range t.failed[1:] {
		said.Message += "; then " + t.asked[i+1].Model.Info().Model + ": " + e.Message
	}
	return &said
}
