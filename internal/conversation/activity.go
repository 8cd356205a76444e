package conversation

import (
	"encoding/json"
	"maps"
	"slices"
)

// ToolInvokeSkill is the name of the tool that opens a skill.
const ToolInvokeSkill = "invoke_skill"

// Bounds of what is kept of blocks: the record has it, and is written with every event.
// Blocked messages are all kept, because no model may read them.
const (
	maxReason         = 300 // characters
	maxBlockedActions = 200
)

// Activity is what skills and hooks did on a branch. Copies share their members,
// which are replaced and never written to.
type Activity struct {
	Skills          []string          `json:"activated_skills,omitempty"` // names, each once, in order
	Invoked         []string          `json:"invoked_skills,omitempty"`   // by the agent
	BlockedMessages map[string]string `json:"blocked_messages,omitempty"` // how reasons begin, by the message's id
	BlockedActions  map[string]string `json:"blocked_actions,omitempty"`  // likewise by the action's id, of the first ones
	Begun           bool              `json:"session_begun,omitempty"`    // SessionStart hooks ran
}

// sessionStart is the event type of hooks that run at the beginning.
const sessionStart = "SessionStart"

func (a *Activity) read(p Payload) {
	switch e := p.(type) {
	case *MessageEvent:
		for _, name := range e.ActivatedSkills {
			a.Skills = withName(a.Skills, name)
		}
	case *ObservationEvent:
		if e.ToolName == ToolInvokeSkill {
			a.invoked(e.Observation)
		}
	case *HookExecutionEvent:
		a.Begun = a.Begun || e.EventType == sessionStart
		if e.Blocked && e.MessageID != "" {
			a.BlockedMessages = withReason(a.BlockedMessages, e.MessageID, e.Reason)
		}
		if e.Blocked && e.ActionID != "" && len(a.BlockedActions) < maxBlockedActions {
			a.BlockedActions = withReason(a.BlockedActions, e.ActionID, e.Reason)
		}
	}
}

func (a *Activity) invoked(observation json.RawMessage) {
	var o struct {
		Name    string `json:"skill_name"`
		IsError bool   `json:"is_error"`
	}
	if json.Unmarshal(observation, &o) == nil && o.Name != "" && !o.IsError {
		a.Invoked = withName(a.Invoked, o.Name)
	}
}

func withName(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(slices.Clip(names), name)
}

func withReason(all map[string]string, id, reason string) map[string]string {
	next := maps.Clone(all)
	if next == nil {
		next = map[string]string{}
	}
	if r := []rune(reason); len(r) > maxReason {
		reason = string(r[:maxReason-3]) + "..."
	}
	next[id] = reason
	return next
}
