package projection

import (
	"fmt"
	"strings"

	"parley/internal/conversation"
)

// Texts that clients translate: byte-exact.
const (
	keyAuth        = "STATUS$ERROR_LLM_AUTHENTICATION"
	keyUnavailable = "STATUS$ERROR_LLM_SERVICE_UNAVAILABLE"
	keyInternal    = "STATUS$ERROR_LLM_INTERNAL_SERVER_ERROR"
	keyCredits     = "STATUS$ERROR_LLM_OUT_OF_CREDITS"
	keyPolicy      = "STATUS$ERROR_LLM_CONTENT_POLICY_VIOLATION"
	keyRateLimited = "CHAT_INTERFACE$AGENT_RATE_LIMITED_STOPPED_MESSAGE"
	stuckReason    = "AgentStuckInLoopError: Agent got stuck in a loop"
)

// reasonOf returns why the agent went to the error state. m is what the conversation has
// cost then, nil if that is not known.
func reasonOf(p conversation.Payload, m *Metrics) string {
	if status, ok := statusOf(p); ok && status == conversation.Stuck {
		return stuckReason
	}
	e, ok := p.(*conversation.ConversationErrorEvent)
	if !ok {
		return ""
	}
	if key := modelKey(e); key != "" {
		return key
	}
	switch e.Code {
	case "AgentStuck":
		return stuckReason
	case "MaxIterationsReached":
		return "RuntimeError: Agent reached maximum iteration. " + iterations(e.Detail)
	case "MaxBudgetReached":
		if m == nil || m.MaxBudget == nil {
			return "RuntimeError: Agent reached maximum budget for conversation. " + e.Detail
		}
		return fmt.Sprintf("RuntimeError: Agent reached maximum budget for conversation.Current budget: %.2f, max budget: %.2f",
			m.AccumulatedCost, *m.MaxBudget)
	case "InternalError", "defect":
		return "RuntimeError: There was an unexpected error while running the agent: " + e.Code +
			". You can refresh the page or ask the agent to try again."
	}
	return e.Code + ": " + e.Detail
}

// iterations are a run's steps, which its error's text begins with. The limit is what
// it made.
func iterations(detail string) string {
	var n int
	if _, err := fmt.Sscanf(detail, "The run made %d steps", &n); err != nil {
		return detail
	}
	return fmt.Sprintf("Current iteration: %d, max iteration: %d", n, n)
}

// errorID names a model's error; other errors have no id.
func errorID(e *conversation.ConversationErrorEvent) string { return modelKey(e) }

// modelKey returns the key of a failed model call, "" for other errors. The
// classification decides where there is one: providers' refusals for want of
// money share their code with those of a key.
func modelKey(e *conversation.ConversationErrorEvent) string {
	if !strings.HasPrefix(e.Code, "LLM") {
		return ""
	}
	if e.Classification != nil {
		switch e.Classification.Kind {
		case "auth":
			return keyAuth
		case "quota":
			return keyCredits
		case "rate_limit":
			return keyRateLimited
		case "transient":
			return keyUnavailable
		case "internal":
			return keyInternal
		}
	}
	return keyOfCode[e.Code]
}

var keyOfCode = map[string]string{
	"LLMAuthenticationError":         keyAuth,
	"LLMRateLimitError":              keyRateLimited,
	"LLMServiceUnavailableError":     keyUnavailable,
	"LLMTimeoutError":                keyUnavailable,
	"LLMContentPolicyViolationError": keyPolicy,
}
