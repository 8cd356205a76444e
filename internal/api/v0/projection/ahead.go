package projection

import "parley/internal/conversation"

// Outlook is what is known of what comes after an event, as far as it matters to what
// the event becomes.
type Outlook uint8

// The outlooks.
const (
	Nothing Outlook = iota
	Waits           // a tool call waits for the user's decision, a system prompt for the first message
	Ends            // the run ends with the next event
)

// codeRateLimit is the code of a model's error.
const codeRateLimit = "LLMRateLimitError"

// LookAhead tells what comes after the first of the events. greets says that a system
// prompt waits for the first message. known is false if that depends on events after
// these.
func LookAhead(events []conversation.Payload, greets bool) (next Outlook, known bool) {
	switch p := events[0].(type) {
	case *conversation.SystemPromptEvent:
		if greets {
			return Waits, true
		}
	case *conversation.ActionEvent:
		waits, known := awaits(events)
		if waits {
			return Waits, known
		}
		return Nothing, known
	case *conversation.StateUpdateEvent:
		if p.Key != conversation.KeyAgentState {
			break
		}
		if len(events) == 1 {
			return Nothing, false
		}
		switch events[1].(type) {
		case *conversation.ConversationErrorEvent, *conversation.InterruptEvent, *conversation.PauseEvent:
			return Ends, true
		}
	}
	return Nothing, true
}

// awaits reports whether the tool call at the beginning of events waits for the
// user's decision. known is false if that depends on events after these.
func awaits(events []conversation.Payload) (awaits, known bool) {
	counted := false // the metrics of the model call have passed: its calls are over
	for _, p := range events {
		switch p.(type) {
		case *conversation.ActionEvent, *conversation.AgentErrorEvent:
			if counted {
				return false, true
			}
		case *conversation.StateUpdateEvent:
			if status, ok := statusOf(p); ok {
				return status == conversation.WaitingConfirmation, true
			}
			counted = counted || MetricsOf(p) != nil
		default:
			return false, true
		}
	}
	return false, false
}
