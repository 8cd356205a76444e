package openaitest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/internal/llm"
	"parley/internal/llm/llmtest"
)

// Handler is an endpoint of the chat completions API that gives the replies of
// next, one per accepted request. It answers every path that ends in
// /chat/completions, refuses what a strict provider refuses, unknown members
// included, and may be used by many requests at a time.
func Handler(next func(r *http.Request, body []byte) llmtest.Reply) http.Handler {
	return &handler{next: next, signed: map[[sha256.Size]byte]string{}}
}

// maxSigned bounds the signatures that are remembered; beyond it all are forgotten.
const maxSigned = 100_000

type handler struct {
	next   func(r *http.Request, body []byte) llmtest.Reply
	scribe scribe

	mu     sync.Mutex
	signed map[[sha256.Size]byte]string // signatures of answers by conversation and call
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		writeError(w, http.StatusNotFound, "Unknown request URL: "+r.Method+" "+r.URL.Path)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return
	}
	req := &Request{Header: r.Header.Clone(), Raw: body}
	problem := req.decode()
	for _, check := range []func() string{req.validate, req.unknown, req.contradiction, func() string { return h.unsigned(req) }} {
		if problem == "" {
			problem = check()
		}
	}
	if problem != "" {
		writeError(w, http.StatusBadRequest, problem)
		return
	}
	h.scribe.answer(w, r, req, h.translate(req, h.next(r, body)))
}

// translate says a reply in this API's words.
func (h *handler) translate(req *Request, r llmtest.Reply) Reply {
	if r.Fail != "" {
		return failed(r)
	}
	out := Reply{Text: r.Text, Reasoning: r.Reasoning, Finish: r.Finish, Hang: r.Hang, fault: r.Fault}
	for _, c := range r.Calls {
		out.Calls = append(out.Calls, Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	if u := r.Usage; u.PromptTokens > 0 {
		out.Usage = &Usage{Prompt: u.PromptTokens, Completion: u.CompletionTokens, Cached: u.CacheReadTokens, Written: u.CacheWriteTokens, Reasoning: u.ReasoningTokens}
	}
	shown := 2 + len(pieces(r.Reasoning)) // the role, the reasoning and a piece of text
	if r.HangAfterText {
		out.HangAfter = shown
	}
	if r.CutAfterText {
		out.CutAfter = shown
	}
	h.sign(req, r, &out)
	switch r.Fault {
	case llmtest.OddFinish:
		out.Finish = "gave_up_politely"
	case llmtest.WrongUsage:
		out.rawUsage = map[string]any{"prompt_tokens": -7, "completion_tokens": 1e30, "total_tokens": "many", "cost": -3,
			"prompt_tokens_details": "none", "completion_tokens_details": map[string]any{"reasoning_tokens": nil}}
	}
	return out
}

// sign adds the signature of the reasoning, and remembers which calls need it.
func (h *handler) sign(req *Request, r llmtest.Reply, out *Reply) {
	if r.Signature == "" {
		return
	}
	out.Extra = map[string]any{"reasoning_details": []any{map[string]any{
		"type": "reasoning.text", "index": 0, "text": r.Reasoning, "signature": r.Signature}}}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.signed) >= maxSigned {
		clear(h.signed)
	}
	for _, c := range r.Calls {
		h.signed[signKey(req, c.ID)] = r.Signature
	}
}

// signKey names a call of a conversation, which is known by how it begins: what
// comes up to the first message of the user.
func signKey(req *Request, call string) [sha256.Size]byte {
	var begin strings.Builder
	for _, m := range req.Messages {
		begin.WriteString(m.Text() + "\x00")
		if m.Role == "user" {
			break
		}
	}
	return sha256.Sum256([]byte(begin.String() + call))
}

// unsigned complains of a signed answer that came back without its signature.
func (h *handler) unsigned(req *Request) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, m := range req.Messages {
		for _, c := range m.ToolCalls {
			want, ok := h.signed[signKey(req, c.ID)]
			if ok && !strings.Contains(string(m.ReasoningDetails), strconv.Quote(want)) {
				return fmt.Sprintf("messages[%d]: the reasoning_details of the call %q lack their thought_signature", i, c.ID)
			}
		}
	}
	return ""
}

// requestMembers are what a strict endpoint takes at the top.
func requestMembers() []string {
	return []string{"model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options", "temperature",
		"top_p", "seed", "stop", "n", "max_tokens", "max_completion_tokens", "reasoning_effort", "prompt_cache_key",
		"prompt_cache_retention", "response_format", "metadata", "store", "user", "service_tier", "verbosity",
		"presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "logit_bias", "safety_identifier"}
}

// messageMembers are what it takes in a message; reasoning_details is what it
// gives itself.
func messageMembers() []string {
	return []string{"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "reasoning_details"}
}

// unknown complains of members that the API does not have.
func (r *Request) unknown() string {
	allowed := requestMembers()
	for key := range r.Body {
		if !slices.Contains(allowed, key) {
			return "Unrecognized request argument supplied: " + key
		}
	}
	allowed = messageMembers()
	list, _ := r.Body["messages"].([]any)
	for i, v := range list {
		m, _ := v.(map[string]any)
		for key := range m {
			if !slices.Contains(allowed, key) {
				return fmt.Sprintf("Additional properties are not allowed ('%s' was unexpected) - 'messages.%d'", key, i)
			}
		}
	}
	return ""
}

// contradiction complains of values that are out of range or exclude each other.
func (r *Request) contradiction() string {
	number := func(key string, low, high float64) string {
		v, ok := r.Body[key]
		if n, isNumber := v.(float64); ok && (!isNumber || n < low || n > high) {
			return fmt.Sprintf("Invalid '%s': expected a number between %g and %g", key, low, high)
		}
		return ""
	}
	if r.Body["max_tokens"] != nil && r.Body["max_completion_tokens"] != nil {
		return "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
	}
	for _, problem := range []string{number("temperature", 0, 2), number("top_p", 0, 1), number("max_tokens", 1, 1e9), number("max_completion_tokens", 1, 1e9)} {
		if problem != "" {
			return problem
		}
	}
	return ""
}

// failed is a failure as this API reports it.
func failed(r llmtest.Reply) Reply {
	switch r.Fail {
	case llm.ClassAuth:
		return Fail(http.StatusUnauthorized, "Incorrect API key provided")
	case llm.ClassQuota:
		return failCode(http.StatusTooManyRequests, "You exceeded your current quota", "insufficient_quota")
	case llm.ClassRateLimit:
		return RateLimited(strconv.Itoa(int(r.RetryAfter / time.Second)))
	case llm.ClassOverloaded:
		return Raw(http.StatusBadGateway, "text/html", "<html><title>502 Bad Gateway</title></html>")
	case llm.ClassTimeout:
		return Raw(http.StatusGatewayTimeout, "text/plain", "")
	case llm.ClassContext:
		return failCode(http.StatusBadRequest, "This model's maximum context length is 8192 tokens.", "context_length_exceeded")
	case llm.ClassContentPolicy:
		return Reply{Finish: "content_filter"}
	case llm.ClassMalformed:
		return Fail(http.StatusBadRequest, "The following tool_call_ids did not have response messages: x")
	case llm.ClassBadRequest:
		return Fail(http.StatusNotFound, "The model does not exist")
	case llm.ClassNoResponse:
		return Raw(http.StatusOK, "application/json", `{"id":"x","choices":[]}`)
	}
	return Reply{Drop: true}
}

func failCode(status int, message, code string) Reply {
	b, _ := json.Marshal(map[string]any{"error": map[string]any{"message": message, "type": code, "code": code}})
	return Reply{Status: status, Body: string(b)}
}
