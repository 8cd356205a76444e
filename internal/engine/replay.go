package engine

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"time"

	"parley/internal/agent"
	"parley/internal/agent/hookrun"
	"parley/internal/agent/policy"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/hook"
	"parley/internal/llm"
	"parley/internal/tool"
)

// replay is a recording that a conversation repeats (legacy API 16): item by item, in
// the place of what a model would answer. Calls run like any others: they can wait for
// the user, be interrupted and fail. No model is asked, and nothing is paid, until the
// items are used up; from then on the run goes on as any other.
//
// How far it is, the log says: an item's event has an id that follows from its index.
// Whoever goes back to an earlier event leaves the recording for good.
type replay struct {
	items []conversation.ReplayItem
	index map[string]int // of items by the id of their event
	over  bool
}

func (l *live) loadReplay(ctx context.Context) error {
	items, err := l.e.opt.Store.Conversations().Replay(ctx, l.id)
	if err != nil || len(items) == 0 {
		return err
	}
	l.replay = &replay{items: items, index: make(map[string]int, len(items))}
	for i := range items {
		l.replay.index[conversation.ReplayEventID(l.id, i)] = i
	}
	return nil
}

// recorded returns the index of the item that is next, false if there is none.
func (l *live) recorded() (int, bool) {
	if l.replay == nil || l.replay.over {
		return 0, false
	}
	_, next := l.replay.end(l.state.Branch.Path())
	l.replay.over = l.state.Moved || next >= len(l.replay.items)
	return next, !l.replay.over
}

// end returns where on a path the last event of the recording is and the index of the
// item after it; -1 and 0 if none is there.
func (r *replay) end(path []conversation.Payload) (at, next int) {
	for at, p := range slices.Backward(path) {
		if i, ok := r.index[conversation.HeaderOf(p).ID]; ok {
			return at, i + 1
		}
	}
	return -1, 0
}

// ownDoing is what of a path the agent did by itself: what it was made to repeat does
// not show that it is stuck.
func (l *live) ownDoing(path []conversation.Payload) []conversation.Payload {
	if l.replay == nil {
		return path
	}
	at, _ := l.replay.end(path)
	return path[at+1:]
}

// replays reports whether items are left. What is said or done until then does not
// end the run.
func (l *live) replays() bool {
	_, more := l.recorded()
	return more
}

// repeat lets the item with an index happen again.
func (l *live) repeat(i int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.e.ctx), 10*time.Second)
	defer cancel()
	if err := l.refresh(ctx); err != nil {
		l.fail(err)
		return
	}
	item := l.replay.items[i]
	users := item.Source == conversation.SourceUser
	if users && item.Call == nil {
		l.repeatMessage(Message{ID: conversation.ReplayEventID(l.id, i), Parts: item.Parts})
		return
	}
	if users && !l.mustAsk(item) {
		l.repeatCommand(conversation.ReplayEventID(l.id, i), item)
		return
	}
	l.steps++
	resp := &llm.Response{ID: conversation.ReplayEventID(l.id, i),
		Message: content.Message{Role: content.RoleAssistant, Parts: slices.Clone(item.Parts)}}
	if l.cutOff(item) {
		resp.ID, item.Call, resp.Message.Parts = conversation.NewEventID(), waitCall(), nil
	}
	if item.Call != nil {
		resp.Message.ToolCalls = []content.ToolCall{*item.Call}
	}
	a := again{resp: resp, rules: l.policy(), seen: l.state.LastUserMsgID, waits: item.Call == nil && item.Waits}
	tools, masker := l.tools(), l.masker
	l.start(func(ctx context.Context) func(*live) {
		turn, err := guarded(l.e, "replay", func() (agent.Turn, error) {
			hide(resp, masker)
			return agent.Interpret(resp, tools.set, a.rules), nil
		})
		return func(l *live) { l.repeated(context.Cause(ctx), a, turn, err) }
	})
}

// mustAsk reports whether a recorded command of a user's is repeated as a call of the
// agent's: nobody has typed it here, so that what guards calls guards it as well.
func (l *live) mustAsk(item conversation.ReplayItem) bool {
	if l.hooksAround(item.Call.Name) != nil {
		return true
	}
	rules := l.policy()
	return policy.Decide(rules.Own, rules.Floor, []policy.Call{{Tool: item.Call.Name, Action: json.RawMessage(item.Call.Arguments),
		Destructive: true, OpenWorld: true}}).Confirm
}

// cutOff reports whether a command that a restart of the server cut off from may still
// run in the shell that an item is for: the shell takes no other then.
func (l *live) cutOff(item conversation.ReplayItem) bool {
	if item.Call == nil || item.Call.Name != tool.NameTerminal {
		return false
	}
	failed := map[string]bool{} // ids of calls
	for _, p := range slices.Backward(l.state.Branch.Path()) {
		switch e := p.(type) {
		case *conversation.AgentErrorEvent:
			failed[e.ToolCallID] = e.Error == cutOffText
		case *conversation.ActionEvent:
			if e.ToolName == tool.NameTerminal {
				return failed[e.ToolCallID]
			}
		}
	}
	return false
}

// waitCall waits for the command that runs in the shell, at most as long as commands of
// the legacy API had.
func waitCall() *content.ToolCall {
	return &content.ToolCall{ID: "wait_" + conversation.NewEventID(), Name: tool.NameTerminal, Arguments: `{"command":"","timeout":120}`}
}

// again is something that the agent said or did and now does again.
type again struct {
	resp  *llm.Response
	rules agent.Policy
	seen  string // the user's last message
	waits bool   // for the user, if nothing is left
}

// repeated records it, like an answer of the model (modelDone).
func (l *live) repeated(cause error, a again, turn agent.Turn, err error) {
	switch {
	case isLeaving(cause):
		return // the next life of the server does it
	case err != nil:
		l.fail(err)
		return
	}
	if now := l.policy(); !reflect.DeepEqual(now, a.rules) {
		turn.Decide(now)
	}
	l.seen = a.seen
	conversation.HeaderOf(turn.Events[0]).ID = a.resp.ID
	events := turn.Events
	if notes, news := l.notesAfter(a.resp); news {
		events = append(events, stateUpdate(conversation.KeyAgentState, notes))
	}
	var trigger conversation.Trigger
	switch {
	case turn.Confirm:
		trigger = conversation.TrigConfirm
	case !turn.Finish || !a.waits || !l.endsWith(a.resp.ID):
	case l.state.LastUserMsgID != a.seen:
		events = append(events, nudge(goOnText))
	case !l.ends():
		trigger = conversation.TrigFinish
	}
	l.must(func() { l.stepDone(cause) }, trigger, events...)
}

// endsWith reports whether the item with an event id is the last one.
func (l *live) endsWith(id string) bool {
	return l.replay != nil && l.replay.index[id] == len(l.replay.items)-1
}

// repeatMessage lets the user say something again. It passes the hooks that guard
// messages.
func (l *live) repeatMessage(m Message) {
	guard := l.hooksFor(hook.UserPromptSubmit)
	l.start(func(ctx context.Context) func(*live) {
		v, err := l.e.judged(ctx, guard, m)
		return func(l *live) { l.saidAgain(context.Cause(ctx), m, v, err) }
	})
}

// repeatCommand lets the user run a command again.
func (l *live) repeatCommand(id string, item conversation.ReplayItem) {
	var args struct {
		Command string `json:"command"`
	}
	_ = json.Unmarshal([]byte(item.Call.Arguments), &args) // no command: an empty one
	said := conversation.UserCommand{Command: args.Command, Hidden: item.Hidden}.Message()
	said.ID = id
	conv, req := *l.conv, l.forUser(args.Command)
	l.must(func() {
		l.start(func(ctx context.Context) func(*live) {
			result := conversation.UserCommand{Answers: id, Hidden: item.Hidden}
			result.Output, result.ExitCode = l.e.execForUser(ctx, &conv, req)
			return func(l *live) {
				cause := context.Cause(ctx)
				if isLeaving(cause) {
					return // the next life of the server answers it
				}
				l.must(func() { l.stepDone(cause) }, "", result.Message())
			}
		})
	}, "", said)
}

// judged is what hooks make of a message, nil if there are none.
func (e *Engine) judged(ctx context.Context, guard *hookrun.Runner, m Message) (*verdict, error) {
	if guard == nil {
		return nil, nil
	}
	return e.judgeMessage(ctx, guard, m)
}

func (l *live) saidAgain(cause error, m Message, v *verdict, err error) {
	switch {
	case isLeaving(cause):
		return
	case errors.Is(cause, ErrInterrupted):
		l.stepDone(cause)
		return
	case err != nil:
		l.fail(err)
		return
	}
	said := userMessage(m)
	l.enrich(said, v)
	events := slices.Concat(v.events(), []conversation.Payload{said}, l.refinementsAnew())
	l.must(func() { l.stepDone(cause) }, "", events...)
}
