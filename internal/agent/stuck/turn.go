package stuck

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/tool"
)

// turn is one answer of the model: its calls with their results, in the order of
// the calls. Comparing whole answers means that the same work done several times
// at once is no repetition, and that a repeated batch is one.
type turn struct {
	calls  []*call
	closed bool
}

// call is one tool call.
type call struct {
	action *conversation.ActionEvent
	result conversation.Payload // nil = none yet
}

// takes reports whether a call belongs to the turn. Some endpoints give all their
// answers the same id; then the calls' own ids, or a result, tell them apart.
func (t *turn) takes(e *conversation.ActionEvent) bool {
	return !t.closed && e.LLMResponseID != "" && e.LLMResponseID == t.calls[0].action.LLMResponseID &&
		!slices.ContainsFunc(t.calls, func(c *call) bool { return c.action.ToolCallID == e.ToolCallID })
}

func (t *turn) answered() bool {
	return !slices.ContainsFunc(t.calls, func(c *call) bool { return c.result == nil })
}

// failed reports whether none of the calls could be run.
func (t *turn) failed() bool {
	return !slices.ContainsFunc(t.calls, func(c *call) bool {
		_, isError := c.result.(*conversation.AgentErrorEvent)
		return !isError
	})
}

// waits reports whether the turn only looked for more output of a command that goes
// on.
func (t *turn) waits() bool {
	return !slices.ContainsFunc(t.calls, func(c *call) bool {
		var action struct {
			Command *string `json:"command"`
			IsInput bool    `json:"is_input"`
		}
		var result struct {
			ExitCode *int `json:"exit_code"`
		}
		observation, ok := c.result.(*conversation.ObservationEvent)
		return !ok || c.action.ToolName != tool.NameTerminal ||
			json.Unmarshal(c.action.Action, &action) != nil || action.Command == nil || *action.Command != "" || action.IsInput ||
			json.Unmarshal(observation.Observation, &result) != nil || result.ExitCode == nil || *result.ExitCode != -1
	})
}

// sameTurn reports whether two turns thought, called and got the same.
func sameTurn(a, b *turn) bool {
	return sameCalls(a, b) && slices.EqualFunc(a.calls, b.calls, func(a, b *call) bool { return sameResults(a.result, b.result) })
}

// sameCalls reports whether two turns thought and called the same.
func sameCalls(a, b *turn) bool {
	return slices.EqualFunc(a.calls, b.calls, func(a, b *call) bool { return sameActions(a.action, b.action) })
}

func sameActions(a, b *conversation.ActionEvent) bool {
	return a.ToolName == b.ToolName && thought(a) == thought(b) && arguments(a) == arguments(b)
}

func thought(a *conversation.ActionEvent) string {
	return strings.TrimSpace(content.JoinText(a.Thought))
}

// arguments returns what a call is about, equal for equal meaning. A call that
// cannot be run has no action, only what the model wrote.
func arguments(a *conversation.ActionEvent) string {
	if len(a.Action) > 0 {
		return canonical(a.Action, dropLabels)
	}
	return written(a)
}

// written returns the arguments as the model wrote them.
func written(a *conversation.ActionEvent) string {
	return canonical([]byte(a.ToolCall.Arguments), dropLabels)
}

func sameResults(a, b conversation.Payload) bool {
	switch a := a.(type) {
	case *conversation.ObservationEvent:
		b, ok := b.(*conversation.ObservationEvent)
		return ok && canonical(a.Observation, dropVolatile) == canonical(b.Observation, dropVolatile) &&
			content.JoinText(a.ExtendedContent) == content.JoinText(b.ExtendedContent)
	case *conversation.AgentErrorEvent:
		b, ok := b.(*conversation.AgentErrorEvent)
		return ok && a.Error == b.Error
	case *conversation.UserRejectObservation:
		b, ok := b.(*conversation.UserRejectObservation)
		return ok && a.RejectionReason == b.RejectionReason
	}
	return a == nil && b == nil
}

// maxShown bounds what a description shows of a call's arguments, in bytes.
const maxShown = 200

// describe tells the user what the turn did.
func (t *turn) describe() string {
	first := t.calls[0].action
	name, args := first.ToolName, strings.Join(strings.Fields(written(first)), " ")
	if name == "" {
		name = first.ToolCall.Name
	}
	text := short(name)
	if args != "" {
		text += " " + short(args)
	}
	switch more := len(t.calls) - 1; more {
	case 0:
	case 1:
		text += " (and 1 more call)"
	default:
		text += fmt.Sprintf(" (and %d more calls)", more)
	}
	return text
}

// short keeps the beginning of a text, cut between characters.
func short(s string) string {
	if len(s) <= maxShown {
		return s
	}
	end := maxShown
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "..."
}
