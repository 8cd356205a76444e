package projection

import (
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

// reasonOf returns why the agent went to the error state.
func reasonOf(p conversation.Payload) string {
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
	case "MaxIterationsReached":
		return "RuntimeError: Agent reached maximum iteration. " + e.Detail
	case "MaxBudgetReached":
		return "RuntimeError: Agent reached maximum budget for conversation. " + e.Detail
	}
	return e.Code + ": " + e.Detail
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
