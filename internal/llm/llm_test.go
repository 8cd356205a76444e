package llm_test

import (
	"testing"

	"parley/internal/llm"
)

func TestAttempt(t *testing.T) {
	ctx := t.Context()
	if got := llm.Attempt(ctx); got != 1 {
		t.Errorf("a plain context is attempt %d", got)
	}
	if got := llm.Attempt(llm.WithAttempt(llm.WithAttempt(ctx, 2), 3)); got != 3 {
		t.Errorf("got %d", got)
	}
}

func TestClasses(t *testing.T) {
	tests := []struct {
		class     llm.Class
		code      string
		retryable bool
	}{
		{llm.ClassAuth, "LLMAuthenticationError", false},
		{llm.ClassQuota, "LLMAuthenticationError", false},
		{llm.ClassRateLimit, "LLMRateLimitError", true},
		{llm.ClassOverloaded, "LLMServiceUnavailableError", true},
		{llm.ClassNetwork, "LLMServiceUnavailableError", true},
		{llm.ClassTimeout, "LLMTimeoutError", true},
		{llm.ClassContext, "LLMContextWindowExceedError", false},
		{llm.ClassContentPolicy, "LLMContentPolicyViolationError", false},
		{llm.ClassMalformed, "LLMMalformedConversationHistoryError", false},
		{llm.ClassBadRequest, "LLMBadRequestError", false},
		{llm.ClassNoResponse, "LLMNoResponseError", true},
	}
	for _, tt := range tests {
		if tt.class.Code() != tt.code || tt.class.Retryable() != tt.retryable {
			t.Errorf("%s: %s, %v", tt.class, tt.class.Code(), tt.class.Retryable())
		}
	}
}
