package legacy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"parley/internal/content"
	"parley/internal/conversation"
)

// Bounds of a recording.
const (
	MaxReplay      = 8 << 20 // bytes of JSON
	MaxReplayItems = 10_000
)

// Replay is a recording that can happen again.
type Replay struct {
	First []content.Part // the user's first message
	Items []conversation.ReplayItem
}

// ParseReplay reads a recording (legacy API 16): a JSON list of events, or an object
// that has it as "trajectory", as exports do. The events are the legacy API's or those
// of the log. An error says in words for people what cannot be replayed and why.
func ParseReplay(raw []byte) (*Replay, error) {
	if len(raw) > MaxReplay {
		return nil, fmt.Errorf("it is longer than %d MiB", MaxReplay>>20)
	}
	events, err := listOf(raw)
	if err != nil {
		return nil, err
	}
	if len(events) > MaxReplayItems {
		return nil, fmt.Errorf("it has more than %d events", MaxReplayItems)
	}
	r := &Replay{Items: []conversation.ReplayItem{}}
	g := gate{rejected: rejectedCalls(events)}
	for i, raw := range events {
		item, kind, err := g.item(raw)
		if err == nil && item != nil {
			err = r.add(item, i)
		}
		if err != nil {
			return nil, fmt.Errorf("event %d%s, counted from 0: %w", i, inBrackets(kind), err)
		}
	}
	if r.First == nil {
		return nil, errors.New("it has no message of the user's to begin with")
	}
	return r, nil
}

func inBrackets(kind string) string {
	if kind == "" {
		return ""
	}
	return " (" + kind + ")"
}

func listOf(raw []byte) ([]json.RawMessage, error) {
	var events []json.RawMessage
	if trimmed := bytes.TrimSpace(raw); len(trimmed) > 0 && trimmed[0] == '{' {
		var wrapped struct {
			Trajectory *[]json.RawMessage `json:"trajectory"`
		}
		if json.Unmarshal(raw, &wrapped) == nil && wrapped.Trajectory != nil {
			return *wrapped.Trajectory, nil
		}
	} else if json.Unmarshal(raw, &events) == nil && events != nil {
		return events, nil
	}
	return nil, errors.New(`it is no JSON list of events, and no object with such a list as "trajectory"`)
}

// add takes an item in. The first is the user's message, which is kept apart.
func (r *Replay) add(item *conversation.ReplayItem, index int) error {
	switch {
	case r.First != nil:
		if item.Call != nil {
			item.Call.ID = fmt.Sprintf("replay_%d", index)
		}
		r.Items = append(r.Items, *item)
	case item.Source != conversation.SourceUser || item.Call != nil:
		return errors.New("the first event that happens again must be a message of the user's")
	default:
		r.First = item.Parts
	}
	return nil
}

// gate keeps out the calls that did not run: those that waited for the user, who has
// them shown again as confirmed or rejected, and the rejected ones (legacy API 10.2).
type gate struct {
	shut     bool
	rejected map[string]bool // calls of a log that the user rejected, by event id
}

// item reads one event; nil for one that does not happen again: results, states, and
// what the environment does.
func (g *gate) item(raw json.RawMessage) (item *conversation.ReplayItem, kind string, err error) {
	var head struct {
		Kind any `json:"kind"`
	}
	if json.Unmarshal(raw, &head) != nil {
		return nil, "", errors.New("it is no JSON object")
	}
	if kind, ok := head.Kind.(string); ok {
		item, err = g.ofLog(kind, raw)
		return item, kind, err
	}
	e, err := Parse(raw)
	if err != nil {
		return nil, "", err
	}
	g.follow(e)
	if e.Source == SourceEnvironment || e.Action == "" {
		return nil, e.Kind(), nil
	}
	item, err = g.ofLegacy(e)
	return item, e.Action, err
}

// follow learns from the agent's state whether calls run.
func (g *gate) follow(e *Event) {
	switch {
	case e.Observation == ObservationState:
		g.shut = text(e.Extras["agent_state"]) == stateAwaiting
	case e.Action == ActionState && text(e.Args["agent_state"]) == stateRejected:
		g.shut = true
	case e.Action == ActionState && text(e.Args["agent_state"]) == stateConfirmed:
		g.shut = false
	}
}

// States of the agent that say what becomes of a call.
const (
	stateAwaiting  = "awaiting_user_confirmation"
	stateConfirmed = "user_confirmed"
	stateRejected  = "user_rejected"
)

func (g *gate) ofLegacy(e *Event) (*conversation.ReplayItem, error) {
	switch e.Action {
	case ActionSystem, ActionRecall, ActionNull, ActionState, ActionCondensation, ActionCondense, ActionLoopRecovery:
		return nil, nil
	case ActionMessage:
		return e.said()
	}
	if e.Source == SourceUser && e.Action == "run" {
		return commandItem(text(e.Args["command"]), e.Args["hidden"] == true)
	}
	if state := text(e.Args["confirmation_state"]); g.shut || state == "awaiting_confirmation" || state == "rejected" {
		return nil, nil
	}
	call, err := e.Call()
	if err != nil {
		return nil, err
	}
	item := &conversation.ReplayItem{Source: conversation.SourceAgent, Call: &content.ToolCall{Name: call.Tool}}
	if call.Thought != "" {
		item.Parts = []content.Part{content.Text(call.Thought)}
	}
	item.Call.Arguments, err = call.Arguments()
	return item, err
}

// commandItem is a command that the user ran.
func commandItem(command string, hidden bool) (*conversation.ReplayItem, error) {
	args, err := content.Marshal(map[string]any{"command": command})
	return &conversation.ReplayItem{Source: conversation.SourceUser, Hidden: hidden,
		Call: &content.ToolCall{Name: ToolTerminal, Arguments: string(args)}}, err
}

// said is a message; nil for one of the agent's without words, which says nothing.
func (e *Event) said() (*conversation.ReplayItem, error) {
	item := &conversation.ReplayItem{Source: conversation.SourceUser, Parts: e.Parts()}
	if e.Source == SourceAgent {
		item.Source, item.Waits = conversation.SourceAgent, e.Waits()
		if strings.TrimSpace(content.JoinText(item.Parts)) == "" {
			return nil, nil
		}
	}
	if len(item.Parts) == 0 {
		return nil, errors.New("the message is empty")
	}
	return item, nil
}

// ofLog reads an event of a log, as V1 exports it.
func (g *gate) ofLog(kind string, raw json.RawMessage) (*conversation.ReplayItem, error) {
	p, err := conversation.Decode(conversation.Event{Kind: kind, Raw: raw})
	if err != nil {
		return nil, errors.New("it is no event of this kind")
	}
	switch e := p.(type) {
	case *conversation.MessageEvent:
		return saidInLog(e)
	case *conversation.ActionEvent:
		if len(e.Action) == 0 || string(e.Action) == "null" || g.rejected[e.ID] {
			return nil, nil // it did not run
		}
		return &conversation.ReplayItem{Source: conversation.SourceAgent, Parts: e.Thought,
			Call: &content.ToolCall{Name: e.ToolName, Arguments: e.ToolCall.Arguments}}, nil
	}
	return nil, nil
}

func saidInLog(e *conversation.MessageEvent) (*conversation.ReplayItem, error) {
	if c, ok := conversation.UserCommandOf(e); ok && c.Answers == "" {
		return commandItem(c.Command, c.Hidden)
	}
	agents := e.Source == conversation.SourceAgent
	switch {
	case !agents && e.Source != conversation.SourceUser, agents && strings.TrimSpace(content.JoinText(e.LLMMessage.Content)) == "":
		return nil, nil
	case len(e.LLMMessage.Content) == 0:
		return nil, errors.New("the message is empty")
	}
	return &conversation.ReplayItem{Source: e.Source, Parts: e.LLMMessage.Content, Waits: agents}, nil
}

// rejectedCalls are the calls that users rejected, by the ids of their events.
func rejectedCalls(events []json.RawMessage) map[string]bool {
	rejected := map[string]bool{}
	for _, raw := range events {
		var e struct {
			Kind     any `json:"kind"`
			ActionID any `json:"action_id"`
		}
		if json.Unmarshal(raw, &e) == nil && e.Kind == conversation.KindUserReject {
			rejected[text(e.ActionID)] = true
		}
	}
	return rejected
}
