// Package llm is the seam to language models. Adapters are below it; errors are
// classified at the adapter's edge, once.
package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"parley/internal/content"
	"parley/internal/conversation"
)

// Tool is what a model is told about a tool.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema of an object
}

// Delta is a piece of a streamed answer.
type Delta struct {
	Text      string
	Reasoning string
}

// Request is one call.
type Request struct {
	Messages  []content.Message
	Tools     []Tool
	SessionID string // stable per conversation: cache keys, tracing
	// MaxOutput bounds the answer, in tokens, reasoning included; 0 = the model's
	// own configuration. An adapter sends the smaller of both.
	MaxOutput int64
	// OnDelta receives the answer while it arrives; nil asks for no streaming. It
	// is called from one goroutine and must not block.
	OnDelta func(Delta)
}

// Response is a complete answer.
type Response struct {
	ID      string // the provider's, or one of ours if it gave none
	Message content.Message
	Usage   conversation.Usage
	// Cost in USD: the endpoint's own figure if it gave one, else from the price
	// table; nil if neither is known.
	Cost         *float64
	Reported     bool   // Cost is the endpoint's own figure
	FinishReason string // "stop", "tool_calls", "length", "content_filter", or the provider's
	// Model is Info().Model of the model that answered, where several were asked;
	// "" = the only one.
	Model string
}

// Info describes a model.
type Info struct {
	Model         string // as configured, "provider/model"
	Endpoint      string // the base URL of its calls; "" = the provider's own, or none
	ContextWindow int64  // tokens; 0 = unknown
	MaxOutput     int64  // tokens of one answer that the model allows or is set to; 0 = unknown
	Vision        bool
	NativeTools   bool   // false: tools go through a text protocol
	Price         *Price // nil = unknown
	Demo          bool   // the scripted model
}

// Model answers requests.
type Model interface {
	Info() Info
	// Do makes one call. Errors are *Error, or the context's cause when the
	// context ended.
	Do(ctx context.Context, req *Request) (*Response, error)
}

// Class says what a failed call means.
type Class string

// Error classes.
const (
	ClassAuth          Class = "auth"       // key missing, wrong or not allowed
	ClassQuota         Class = "quota"      // out of credits
	ClassRateLimit     Class = "rate_limit" // retry later
	ClassOverloaded    Class = "overloaded" // 5xx, 529: retry later
	ClassNetwork       Class = "network"    // unreachable, broken stream
	ClassTimeout       Class = "timeout"    // no answer in time
	ClassContext       Class = "context_too_long"
	ClassContentPolicy Class = "content_policy"
	ClassMalformed     Class = "malformed"   // the provider rejects the history
	ClassBadRequest    Class = "bad_request" // model unknown, parameter refused
	ClassNoResponse    Class = "no_response" // an answer without content
)

// Retryable reports whether the same request may succeed later.
func (c Class) Retryable() bool {
	switch c {
	case ClassRateLimit, ClassOverloaded, ClassNetwork, ClassTimeout, ClassNoResponse:
		return true
	}
	return false
}

// Code returns the error code that clients of the agent protocol know (§4.12).
func (c Class) Code() string {
	switch c {
	case ClassAuth, ClassQuota:
		return "LLMAuthenticationError"
	case ClassRateLimit:
		return "LLMRateLimitError"
	case ClassTimeout:
		return "LLMTimeoutError"
	case ClassContext:
		return "LLMContextWindowExceedError"
	case ClassContentPolicy:
		return "LLMContentPolicyViolationError"
	case ClassMalformed:
		return "LLMMalformedConversationHistoryError"
	case ClassBadRequest:
		return "LLMBadRequestError"
	case ClassNoResponse:
		return "LLMNoResponseError"
	}
	return "LLMServiceUnavailableError"
}

// Error is a failed call.
type Error struct {
	Class      Class
	Status     int           // HTTP status, 0 if there was none
	Message    string        // what the provider said, bounded, without secrets
	RetryAfter time.Duration // the provider's wish; 0 = none
	Streamed   bool          // part of the answer was already handed to OnDelta
	NotSent    bool          // the request did not reach the provider
	Answered   bool          // the endpoint had accepted the request: the failure is in its answer
	Err        error
}

// Free reports whether the provider certainly charges nothing: it never got the
// request, or refused it with an HTTP status before any answer. A status that an
// answer names inside is no such refusal.
func (e *Error) Free() bool { return e.NotSent || (e.Status >= 400 && !e.Streamed && !e.Answered) }

// Error returns the text.
func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s (HTTP %d): %s", e.Class, e.Status, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Class, e.Message)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retry describes what a call is waiting for before it goes on.
type Retry struct {
	Attempt     int           // the attempt that failed, from 1; 0 = none failed yet, the call waits its turn
	MaxAttempts int           // in all
	Wait        time.Duration // until the next one; an estimate where Attempt is 0
	Err         *Error        // why
	Fallback    string        // the model that is asked next instead; "" = the same
}
