package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"parley/internal/agent"
	"parley/internal/agent/hookrun"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/hook"
)

// stopFeedback begins what the agent reads when a hook sends it back to work (agent
// protocol 4.1).
const stopFeedback = "[Stop hook feedback] "

// ends reports whether a run that is over has to pass hooks first. Their work begins
// at the next step.
func (l *live) ends() bool {
	if l.conv.Options.Task != nil || !l.hasHooks(hook.Stop, "") {
		return false
	}
	l.ending = true
	return true
}

// answered reports whether the agent's last words on a branch end its run: nothing
// was said or done since.
func answered(history []conversation.Payload) bool {
	for _, p := range slices.Backward(history) {
		switch e := p.(type) {
		case *conversation.MessageEvent:
			return e.Source == conversation.SourceAgent && content.JoinText(e.LLMMessage.Content) != ""
		case *conversation.ObservationEvent:
			var o struct {
				IsError bool `json:"is_error"`
			}
			return e.ToolName == agent.ToolFinish && json.Unmarshal(e.Observation, &o) == nil && !o.IsError
		case *conversation.ActionEvent, *conversation.AgentErrorEvent, *conversation.UserRejectObservation:
			return false
		}
	}
	return false
}

// startStop asks the hooks whether the run may end.
func (l *live) startStop() {
	hooks, seen := l.hooksFor(hook.Stop), l.state.LastUserMsgID
	if hooks == nil { // not any more
		l.stopped(nil, hookrun.Outcome{}, seen)
		return
	}
	last := lastWords(l.history())
	l.start(func(ctx context.Context) func(*live) {
		o, _ := hooks.Run(ctx, hookrun.Input{Event: hook.Stop, Message: last}) // what stopped them is the context's cause
		return func(l *live) { l.stopped(context.Cause(ctx), o, seen) }
	})
}

// stopped ends the run, or sends the agent back to work.
func (l *live) stopped(cause error, o hookrun.Outcome, seen string) {
	if isLeaving(cause) {
		return
	}
	l.ending = false
	events := hookEvents(o)
	switch {
	case errors.Is(cause, ErrInterrupted) || len(l.interrupts) > 0:
		l.must(func() { l.stepDone(cause) }, "", events...)
	case o.Blocked:
		events = append(events, nudge(stopFeedback+o.Reason))
		l.must(l.boundary, "", events...)
	case l.state.LastUserMsgID != seen:
		l.must(l.boundary, "", append(events, nudge(goOnText))...)
	default:
		l.must(l.boundary, conversation.TrigFinish, events...)
	}
}

// goOnText is for an agent that finished without having read the last message.
const goOnText = "The user's last message arrived while you were answering. Take it into account and go on."

// lastWords is what the agent said last, in a text or with finish.
func lastWords(history []conversation.Payload) string {
	for _, p := range slices.Backward(history) {
		switch e := p.(type) {
		case *conversation.MessageEvent:
			if e.Source == conversation.SourceAgent {
				return content.JoinText(e.LLMMessage.Content)
			}
		case *conversation.ActionEvent:
			var finish struct {
				Message string `json:"message"`
			}
			if e.ToolName == agent.ToolFinish && json.Unmarshal(e.Action, &finish) == nil {
				return finish.Message
			}
		}
	}
	return ""
}
