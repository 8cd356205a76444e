// Package anthropictest is a strict Anthropic Messages API: a handler that
// answers from scripted replies in the provider's wire format, streamed and
// whole, with every trouble of llmtest, and refuses with 400 what the real API
// refuses. It keeps no state between requests, so that it may be restarted and
// serve many conversations at once.
//
// It counts no tokens, knows no list of models and checks no key, only that
// there is one.
package anthropictest

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"parley/internal/llm"
	"parley/internal/llm/llmtest"
)

// maxBody bounds a request, as the real API does, in bytes.
const maxBody = 32 << 20

// Handler serves POST .../v1/messages. next gives the reply to each request that
// is not refused; it is called from many goroutines.
func Handler(next func(r *http.Request, body []byte) llmtest.Reply) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/v1/messages") {
			refuse(w, http.StatusNotFound, "not_found_error", "Not Found: "+r.Method+" "+r.URL.Path)
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		if err != nil {
			return
		}
		switch problem := Problem(r.Header, body); {
		case len(body) > maxBody:
			refuse(w, http.StatusRequestEntityTooLarge, "request_too_large", "Request exceeds the maximum size")
		case r.Header.Get("X-Api-Key") == "" && r.Header.Get("Authorization") == "":
			refuse(w, http.StatusUnauthorized, "authentication_error", "x-api-key header is required")
		case problem != "":
			refuse(w, http.StatusBadRequest, "invalid_request_error", problem)
		default:
			answer(w, r, body, next(r, body))
		}
	})
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", "req_test")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, errorBody(kind, message))
}

func errorBody(kind, message string) string {
	return encode(map[string]any{"type": "error", "request_id": "req_test", "error": map[string]any{"type": kind, "message": message}})
}

// encode renders what this package made, which is always possible.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// answer gives a reply.
func answer(w http.ResponseWriter, r *http.Request, body []byte, reply llmtest.Reply) {
	switch {
	case reply.Hang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case reply.Fail != "" && fail(w, reply):
		return
	}
	var req struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return
	}
	m := messageOf(reply, req.Model, body)
	if req.Stream {
		m.stream(w, r)
	} else {
		m.whole(w, r)
	}
}

// fail reports a failure as the API does; false if it is one that looks like an
// answer.
func fail(w http.ResponseWriter, reply llmtest.Reply) bool {
	switch reply.Fail {
	case llm.ClassAuth:
		refuse(w, http.StatusUnauthorized, "authentication_error", "invalid x-api-key")
	case llm.ClassQuota:
		refuse(w, http.StatusBadRequest, "invalid_request_error",
			"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.")
	case llm.ClassRateLimit:
		if reply.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(reply.RetryAfter/time.Second)))
		}
		refuse(w, http.StatusTooManyRequests, "rate_limit_error", "This request would exceed your organization's rate limit of 50 requests per minute.")
	case llm.ClassOverloaded:
		refuse(w, 529, "overloaded_error", "Overloaded")
	case llm.ClassTimeout:
		refuse(w, http.StatusGatewayTimeout, "timeout_error", "Request timed out")
	case llm.ClassContext:
		refuse(w, http.StatusBadRequest, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
	case llm.ClassMalformed:
		refuse(w, http.StatusBadRequest, "invalid_request_error",
			"messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_x. Each `tool_use` block must have a corresponding `tool_result` block in the next message.")
	case llm.ClassBadRequest:
		refuse(w, http.StatusNotFound, "not_found_error", "model: claude-unknown")
	case llm.ClassNetwork:
		panic(http.ErrAbortHandler)
	default: // content policy, no response: answers without content
		return false
	}
	return true
}
