package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/spend"
	"parley/internal/store"
)

// ProbeResult is how a test of a model went.
type ProbeResult struct {
	OK             bool
	Model          string  // that answered, or was asked
	LatencySeconds float64 // 0 if no call was made
	Text           string  // the answer, shortened
	// Cost is what the test cost; nil where that is not known.
	Cost  *conversation.Money
	Usage conversation.Usage
	Error *ProbeError // why it failed; nil if it went well
}

// ProbeError explains why a test failed.
type ProbeError struct {
	Code   string // as in a ConversationErrorEvent, or of a fault
	Text   string // what happened
	Advice string // what to do about it; "" if Text says it
}

// Bounds of a probe.
const (
	probeTime   = time.Minute
	probeOutput = 1024 // tokens: models that think need room before the word
	probeText   = 200  // characters that are shown
)

// Probe tests a model with one short call, without retries and fallbacks. The
// call is real: it costs, and counts for the owner's day. A configuration without
// a key takes that of the settings, if its calls go where that one was stored for.
func (e *Engine) Probe(ctx context.Context, owner string, l account.LLM) ProbeResult {
	out := ProbeResult{Model: l.Model}
	s, err := e.opt.Store.Accounts().Settings(ctx, owner)
	if fault.Is(err, fault.NotFound) {
		s, err = &account.Settings{}, nil
	}
	if err == nil {
		l = s.WithKeys(l)
		err = e.checkLLM(l)
	}
	if err == nil {
		err = e.probe(ctx, owner, l, &out)
	}
	if err != nil {
		out.Error = explain(err)
	}
	out.mask(e.opt.NewMasker(keysOf(s, l)))
	out.OK = out.Error == nil
	return out
}

// keysOf lists what a probe's texts must not show.
func keysOf(s *account.Settings, l account.LLM) []string {
	var values []string
	add := func(path string, v *account.Secret) { values = append(values, hidden(path, v.Reveal())...) }
	l.EachSecret(add)
	values = append(values, account.AddressSecrets(l.BaseURL)...)
	if s != nil {
		s.EachSecret(add)
		values = append(values, addressSecrets(s)...)
	}
	return values
}

// mask hides secrets, and then shortens: a part of one would not be recognized.
func (r *ProbeResult) mask(m Masker) {
	r.Text = m.Mask(r.Text)
	if text := []rune(r.Text); len(text) > probeText {
		r.Text = string(text[:probeText]) + "..."
	}
	if r.Error != nil {
		r.Error.Text, r.Error.Advice = m.Mask(r.Error.Text), m.Mask(r.Error.Advice)
	}
}

func (e *Engine) probe(ctx context.Context, owner string, l account.LLM, out *ProbeResult) error {
	once := 1
	l.Attempts, l.Fallbacks = &once, nil
	ceilings := e.ceilingsOf(nil)
	tab, clock := e.opt.Spend.Open(spend.Scope{Owner: owner, Use: store.UseProbe, Ceilings: ceilings}), &clock{}
	defer tab.Abandon(ctx)
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	resp, err := guarded(e, "probe", func() (*llm.Response, error) {
		model, err := e.paidModel(l, ModelOptions{}, tab, clock)
		if err != nil {
			return nil, err
		}
		return model.Do(ctx, &llm.Request{SessionID: "probe", MaxOutput: probeOutput, Messages: []content.Message{
			{Role: content.RoleSystem, Parts: []content.Part{content.Text("This is a test of the connection.")}},
			{Role: content.RoleUser, Parts: []content.Part{content.Text("Answer with the one word: ready")}}}})
	})
	took, _ := clock.read()
	out.LatencySeconds = took.Seconds()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &llm.Error{Class: llm.ClassTimeout, Message: "no answer within " + probeTime.String()}
	case err == nil && resp == nil:
		return &llm.Error{Class: llm.ClassNoResponse}
	case err != nil:
		return err
	}
	out.answered(resp)
	return nil
}

func (r *ProbeResult) answered(resp *llm.Response) {
	r.Usage, r.Text = resp.Usage, strings.TrimSpace(resp.Message.Text())
	if resp.Model != "" {
		r.Model = resp.Model
	}
	if resp.Cost != nil {
		cost := conversation.MoneyOf(*resp.Cost)
		r.Cost = &cost
	}
}

// explain says what went wrong in the words that a run uses.
func explain(err error) *ProbeError {
	if le := asLLMError(err); le != nil {
		a := adviceOn(le.Class)
		text := le.Message
		if text == "" {
			return &ProbeError{Code: le.Class.Code(), Text: a[2]}
		}
		return &ProbeError{Code: le.Class.Code(), Text: text, Advice: a[2]}
	}
	ev := errorEvent(err)
	var f *fault.Error
	if errors.As(err, &f) && f.Public != "" {
		return &ProbeError{Code: ev.Code, Text: f.Public, Advice: f.Hint}
	}
	return &ProbeError{Code: ev.Code, Text: ev.Detail}
}
