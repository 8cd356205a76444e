package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"parley/internal/account"
	"parley/internal/agent"
	"parley/internal/agent/condense"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/llm"
	"parley/internal/spend"
	"parley/internal/store"
)

// errNoVision says that the model cannot see the images of the last message.
var errNoVision = errors.New("the model takes no images")

// step is one call of the agent's model.
type step struct {
	choice    account.LLM
	fallbacks []account.LLM
	tab       *spend.Tab
	clock     *clock
	history   []conversation.Payload
	fields    agent.ProviderFields
	masker    Masker
	tools     *toolbox
	rules     agent.Policy
	seen      string // the last user message that the model reads
	info      llm.Info
	request   *llm.Request
	prompt    spend.Prompt // how long the request is, about
	shorten   condense.Plan
}

// startModel calls the model with the history so far, or shortens that first. The
// settings are read anew: a key that was replaced, a ceiling that was raised and a
// profile that was edited count at once.
func (l *live) startModel() {
	l.steps++
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.e.ctx), 10*time.Second)
	defer cancel()
	if err := l.refresh(ctx); err != nil {
		l.fail(err)
		return
	}
	if l.noteFallbacks(); l.quit != nil {
		return
	}
	if l.noteExtras(); l.quit != nil {
		return
	}
	if l.followProfile(ctx); l.quit != nil {
		return
	}
	s, err := guarded(l.e, "request", l.newStep)
	switch {
	case errors.Is(err, errNoVision):
		l.refuseImages(nil, s)
	case err != nil:
		l.fail(err)
	case s.shorten.Reason != 0:
		l.startCondense(s.shorten)
	default:
		l.ask(s)
	}
}

// newStep prepares a call with what is known now, and says what to condense first.
func (l *live) newStep() (*step, error) {
	if l.choice.Model != l.anchoredAt.Model || l.choice.BaseURL != l.anchoredAt.BaseURL {
		l.anchor = nil // elsewhere a model of that name may count in other tokens
	}
	s := &step{tools: l.tools(), choice: l.choice, fallbacks: l.fallbacks, clock: &clock{}, history: l.history(),
		fields: l.state.ProviderFields, masker: l.masker, seen: l.state.LastUserMsgID}
	model, err := l.e.opt.Models(s.choice, ModelOptions{})
	if err != nil {
		return s, err
	}
	specs, err := s.tools.specsFor(s.masker)
	if err != nil {
		return s, err
	}
	messages := l.viewer.View(s.history, s.fields)
	if s.info = model.Info(); !s.info.Vision {
		switch {
		case s.tools.has(l.e.opt.VisionTool):
			messages = nameImages(messages, imagesOf(s.history), l.e.opt.VisionTool)
		case lastUserHasImage(s.history):
			s.shorten = l.plan(s)
			return s, errNoVision
		}
	}
	s.request = &llm.Request{Messages: messages, Tools: specs, SessionID: string(l.id)}
	s.prompt = spend.Estimate(s.info, s.request, l.anchor)
	s.shorten = l.plan(s)
	return s, nil
}

// ask sends the request beside the goroutine.
func (l *live) ask(s *step) {
	s.tab = l.e.opt.Spend.Open(l.scope(store.UseAgent, func(_ context.Context, w spend.Wait) {
		l.post(func(l *live) { l.noteWait(w) })
	}))
	critic := &review{l.e, *l.conv, l.conv.Options.Critic, l.choice, s.history}
	s.rules = l.policy()
	l.start(func(ctx context.Context) func(*live) {
		resp, err := guarded(l.e, "model", func() (*llm.Response, error) { return l.callModel(ctx, s) })
		turn, bad := agent.Turn{}, error(nil)
		if err == nil {
			turn, bad = s.interpret(ctx, l.e, resp, critic)
		}
		return func(l *live) { l.modelDone(context.Cause(ctx), s, resp, turn, cmp.Or(err, bad)) }
	})
}

// interpret makes events of an answer, with the risk of its calls and what the
// critic thinks of them.
func (s *step) interpret(ctx context.Context, e *Engine, resp *llm.Response, critic *review) (agent.Turn, error) {
	return guarded(e, "answer", func() (agent.Turn, error) {
		hide(resp, s.masker)
		resp.ID = freshResponseID(s, resp.ID)
		turn := agent.Interpret(resp, s.tools.set, s.rules)
		critic.judge(ctx, &turn)
		return turn, nil
	})
}

// followProfile records that the profile of the conversation names another model
// now, so that what is shown is what is called. That it cannot be recorded is no
// reason to stop the run.
func (l *live) followProfile(ctx context.Context) {
	if l.edited == nil {
		return
	}
	now := modelChoice{llm: *l.edited, profile: l.conv.Options.LLMProfile, ownKey: l.edited.APIKey.IsSet()}
	conv, err := l.e.opt.Store.Conversations().Update(ctx, l.id, time.Now().UTC(), func(stored *conversation.Conversation) error {
		now.put(&stored.Options, l.e.opt.DemoModel)
		return nil
	})
	if err == nil {
		l.adopt(conv)
		err = l.append(stateUpdate(conversation.KeyModel, now.llm.Model))
	}
	if err != nil {
		l.e.opt.Logger.Warn("model of an edited profile not noted", "conversation", l.id, "error", err)
	}
}

// scope says what a call of this conversation counts for.
func (l *live) scope(use string, onWait func(context.Context, spend.Wait)) spend.Scope {
	s := spend.Scope{Conversation: l.id, Parent: l.conv.ParentID, Owner: l.conv.Owner, Use: use,
		Ceilings: l.ceilings, OnWait: onWait}
	if use == store.UseAgent {
		s.Anchor = l.anchor
	}
	return s
}

func (l *live) callModel(ctx context.Context, s *step) (*llm.Response, error) {
	opt := l.tellRetries()
	opt.Fallbacks = s.fallbacks
	model, err := l.e.paidModel(s.choice, opt, s.tab, s.clock)
	if err != nil {
		return nil, err
	}
	shown := &veil{masker: s.masker, send: func(text, reasoning string) { l.e.opt.Hub.Delta(l.id, l.head.Load(), text, reasoning) }}
	s.request.OnDelta = shown.take
	resp, err := model.Do(ctx, s.request)
	shown.end()
	if err == nil && resp == nil {
		err = &llm.Error{Class: llm.ClassNoResponse}
	}
	return resp, err
}

// lastUserHasImage reports whether the newest message of the user has an image.
func lastUserHasImage(history []conversation.Payload) bool {
	for i := len(history) - 1; i >= 0; i-- {
		m, ok := history[i].(*conversation.MessageEvent)
		if !ok || m.Source != conversation.SourceUser {
			continue
		}
		for _, parts := range [][]content.Part{m.LLMMessage.Content, m.ExtendedContent} {
			for _, p := range parts {
				if p.Type == content.TypeImage && len(p.ImageURLs) > 0 {
					return true
				}
			}
		}
		return false
	}
	return false
}

// noteRetry tells the user what the run waits for. That it cannot be stored is no
// reason to stop the run.
func (l *live) noteRetry(r llm.Retry) {
	notes := l.state.Notes
	notes.LLMRetry = &conversation.LLMRetry{Attempt: r.Attempt, MaxAttempts: r.MaxAttempts,
		WaitSeconds: r.Wait.Seconds(), Fallback: r.Fallback}
	if r.Err != nil {
		notes.LLMRetry.Code, notes.LLMRetry.Reason = r.Err.Class.Code(), r.Err.Message
	}
	l.note(notes)
}

// retryOver takes the note about a retry back, where no answer does.
func (l *live) retryOver() []conversation.Payload {
	notes := l.state.Notes
	if notes.LLMRetry == nil {
		return nil
	}
	notes.LLMRetry = nil
	return []conversation.Payload{stateUpdate(conversation.KeyAgentState, notes)}
}

// noteWait shows a call that waits for room under a ceiling like one that waits
// for a retry.
func (l *live) noteWait(w spend.Wait) {
	notes := l.state.Notes
	notes.LLMRetry = &conversation.LLMRetry{Code: "BudgetWait", Reason: fmt.Sprintf(
		"The call of %s waits for other calls to end: what they may cost at most takes the rest of the budget.", w.Model)}
	l.note(notes)
}

// noteFallbacks tells which fallbacks of the model the owner does not have.
func (l *live) noteFallbacks() {
	notes := l.state.Notes
	if notes.MissingFallbacks = l.missing; !reflect.DeepEqual(notes, l.state.Notes) {
		l.note(notes)
	}
}

func (l *live) note(notes conversation.AgentNotes) {
	if err := l.append(stateUpdate(conversation.KeyAgentState, notes)); err != nil {
		l.e.opt.Logger.Warn("state of the run not noted", "conversation", l.id, "error", err)
	}
}

// modelDone records an answer, and what it cost in any case. cause is why the
// call was cancelled, if it was.
func (l *live) modelDone(cause error, s *step, resp *llm.Response, turn agent.Turn, err error) {
	l.owe(s.tab, store.UseAgent, s.clock, resp)
	l.anchor, l.anchoredAt = s.tab.Anchor(), s.choice
	if err != nil {
		l.modelFailed(cause, s, err)
		return
	}
	if now := l.policy(); !reflect.DeepEqual(now, s.rules) { // it changed while the model thought
		turn.Decide(now)
	}
	l.seen = s.seen
	if turn.Failed {
		l.e.opt.Logger.Warn("security analyzer failed; asking", "conversation", l.id)
	}
	events := append(turn.Events, statsNow())
	notes, news := l.notesAfter(resp)
	if news {
		events = append(events, stateUpdate(conversation.KeyAgentState, notes))
	}
	var trigger conversation.Trigger
	switch {
	case turn.Confirm:
		trigger = conversation.TrigConfirm
	case turn.Finish && l.state.LastUserMsgID != s.seen:
		events = append(events, nudge(goOnText))
	case turn.Finish:
		more := l.refine(criticism(turn.Events), notes)
		if events = append(events, more...); more == nil && !l.ends() {
			trigger = conversation.TrigFinish
		}
	}
	l.must(func() { l.stepDone(cause) }, trigger, events...)
}

// criticism is what the critic said about a text answer.
func criticism(events []conversation.Payload) *conversation.CriticResult {
	for _, p := range events {
		if m, ok := p.(*conversation.MessageEvent); ok && m.Source == conversation.SourceAgent {
			return m.CriticResult
		}
	}
	return nil
}

// notesAfter are the notes after an answer, and whether they tell anything new.
func (l *live) notesAfter(resp *llm.Response) (conversation.AgentNotes, bool) {
	notes := l.withExtras(l.state.Notes)
	notes.LLMRetry, notes.Recoveries, notes.MissingFallbacks = nil, 0, l.missing
	notes.Progress = nil
	news := !reflect.DeepEqual(notes, l.state.Notes)
	if len(resp.Message.Extra) > 0 && validMembers(resp.Message.Extra) {
		notes.ProviderFields = map[string]map[string]json.RawMessage{resp.ID: resp.Message.Extra}
		news = true
	}
	return notes, news
}

// validMembers reports whether all values are JSON: what is not could never be stored.
func validMembers(m map[string]json.RawMessage) bool {
	for _, raw := range m {
		if !json.Valid(raw) {
			return false
		}
	}
	return true
}

// freshResponseID returns id, or one of our own if an earlier answer had the same:
// some endpoints number every answer alike, and calls are grouped by it. What the
// provider wants back is kept by it for all branches.
func freshResponseID(s *step, id string) string {
	if len(s.fields[id]) > 0 {
		return conversation.NewEventID()
	}
	for _, p := range s.history {
		switch e := p.(type) {
		case *conversation.ActionEvent:
			if e.LLMResponseID == id {
				return conversation.NewEventID()
			}
		case *conversation.MessageEvent:
			if e.LLMResponseID == id {
				return conversation.NewEventID()
			}
		}
	}
	return id
}

func (l *live) modelFailed(cause error, s *step, err error) {
	switch {
	case errors.Is(cause, ErrInterrupted):
		l.stepDone(cause)
	case isLeaving(cause):
	default:
		if le := asLLMError(err); le != nil && (l.tooLong(s, le.Class) || l.refused(s, le.Class)) {
			return
		}
		l.fail(err)
	}
}

// rephrase is what the model reads when its provider refused the content (agent
// protocol 4.2).
const rephrase = "Your provider refused the last request for its content. Put what you were about to do in other words, " +
	"leave out what may have been refused, and go on with the task another way; if that is not possible, say so."

// refused lets the model try once more after its provider refused the content. False
// if it has been told already, or the error is another one.
func (l *live) refused(s *step, class llm.Class) bool {
	if class != llm.ClassContentPolicy {
		return false
	}
	if m, ok := lastOf(s.history).(*conversation.MessageEvent); ok && content.JoinText(m.LLMMessage.Content) == rephrase {
		return false
	}
	l.must(l.boundary, "", nudge(rephrase))
	return true
}

// lastOf is the last event of a branch, nil if it has none.
func lastOf(path []conversation.Payload) conversation.Payload {
	if len(path) == 0 {
		return nil
	}
	return path[len(path)-1]
}

// refuseImages answers a message with images in the place of a model that takes
// none (agent protocol 4.2): the user decides whether to take another one.
func (l *live) refuseImages(cause error, s *step) {
	text := fmt.Sprintf("The model %s takes no images, so I cannot look at what you sent. "+
		"Choose a model with vision (llm_model in the settings, or another LLM profile for this conversation) and send it again, "+
		"or describe in words what it shows.", s.choice.Model)
	if s.choice.DisableVision != nil && *s.choice.DisableVision {
		text = fmt.Sprintf("Images are turned off for the model %s (disable_vision), so I cannot look at what you sent. "+
			"Set disable_vision to false in its LLM profile and send it again, or describe in words what it shows.", s.choice.Model)
	}
	said := &conversation.MessageEvent{
		Header:     conversation.Head(conversation.KindMessage, conversation.SourceAgent, time.Time{}),
		LLMMessage: conversation.LLMMessage{Role: content.RoleAssistant, Content: []content.Part{content.Text(text)}}}
	trigger := conversation.TrigFinish
	if l.state.LastUserMsgID != s.seen { // the user has said more meanwhile
		trigger = ""
	}
	l.must(func() { l.stepDone(cause) }, trigger, said)
}
