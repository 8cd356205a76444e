package failure

import (
	"net/http"
	"slices"
	"strings"

	"parley/internal/llm"
)

// rule says which words, in which answers, mean a class. Rules are tried in
// order: the status alone is often wrong (a full context as 429, a wrong key
// as 400), so that words come first where they are unmistakable.
type rule struct {
	class    llm.Class
	statuses string // "" = any; else the list, " 400 422 "; 0 = no status at all
	words    []string
}

func rules() []rule {
	return []rule{
		// AWS names its errors; inside a stream the name is all there is.
		{llm.ClassRateLimit, " 0 400 429 ", []string{"throttlingexception", "toomanyrequestsexception", "modelnotreadyexception"}},
		{llm.ClassTimeout, " 0 400 424 ", []string{"modeltimeoutexception"}},
		{llm.ClassQuota, " 0 400 402 429 ", []string{"servicequotaexceededexception"}},
		{llm.ClassAuth, " 0 400 ", []string{
			"accessdeniedexception", "expiredtokenexception", "unrecognizedclientexception", "invalidsignatureexception",
			"missingauthenticationtoken", "incompletesignature"}},
		{llm.ClassContext, " 0 400 413 422 429 500 502 503 ", []string{
			"context_length_exceeded", "context length", "maximum context", "context window", "contextwindow",
			"context size", "exceed_context_size", "prompt is too long", "prompt too long", "input is too long",
			"request too large for", "input token count", "maximum prompt length", "token limit exceeded",
			"reduce the length of the messages", "max_prompt_tokens_exceeded", "maximum number of tokens",
			"exceeded model token limit", "input tokens exceed", "string_above_max_length", "exceed context limit"}},
		{llm.ClassContext, " 0 400 413 422 ", []string{"too many tokens", "too many input tokens"}},
		{llm.ClassContentPolicy, " 0 400 403 422 451 ", []string{
			"content_policy", "content policy", "content_filter", "content management policy", "moderation",
			"usage polic", "prohibited_content", "data_inspection_failed", "content risk", "invalid_prompt",
			"safety system", "content filtering"}},
		{llm.ClassQuota, " 0 400 401 402 403 429 ", []string{
			"insufficient_quota", "insufficient balance", "insufficient credit", "insufficient funds",
			"credit balance", "billing_hard_limit", "billing hard limit", "never purchased credits",
			"out of credits", "more credits", "have any credits", "spending limit", "budget has been exceeded",
			"exceededbudget", "api usage limits"}},
		{llm.ClassAuth, " 0 400 ", []string{
			"api key not valid", "api_key_invalid", "invalid api key", "incorrect api key", "invalid_api_key",
			"authentication_error", "invalid authentication", "permission_denied"}},
		{llm.ClassMalformed, " 0 400 422 ", []string{
			"tool_call_id", "'tool_calls'", "tool_call_ids", "tool_use", "tool_result", "tool message", "tool role",
			"preceding message", "unexpected role", "conversation roles", "roles must alternate", "message_order",
			"function response", "function call turn", "thought_signature", "last role", "missing tool",
			"in `thinking` block", "redacted_thinking", "content blocks must", "non-empty content",
			"final block in an assistant", "message prefill", "first message must"}},
		{llm.ClassContext, " 0 400 ", []string{"request payload size exceeds"}},
		// A quota of the day, or one that is 0, does not come back while a call waits.
		{llm.ClassQuota, " 0 400 403 429 ", []string{
			"perday", "limit: 0,", "limit: 0 ", "credits are depleted", "spending cap", "billing_disabled",
			"billing to be enabled", "enable billing"}},
		{llm.ClassAuth, " 0 400 ", []string{"api key expired"}},
		{llm.ClassMalformed, " 0 400 422 ", []string{
			"thought signature", "ending with a model turn", "contents is not specified", "oneof field 'data'"}},
		{llm.ClassMalformed, " 0 400 404 422 ", []string{
			"no tool output found", "no tool call found", "required following item", "required 'reasoning' item",
			"encrypted content", "encrypted_content", "duplicate item found", "items are not persisted"}},
		{llm.ClassBadRequest, " 0 ", []string{ // an image that stays as it is
			"invalid_image", "invalid_base64_image", "image_parse_error", "image_too_large", "image_too_small",
			"image_file_", "unsupported_image", "empty_image_file", "failed_to_download_image"}},
		{llm.ClassContentPolicy, " 0 400 ", []string{"content filtering policy"}},
		{llm.ClassMalformed, " 0 400 ", []string{ // of Bedrock's Converse
			"toolresult", "tooluse block", "tool result block", "tool use block", "conversation must start with",
			"conversation must end with", "alternate between", "contentblock object at messages", "message object at messages",
			"text content blocks must"}},
	}
}

// classify decides by words, then by status, then by the codes of an error
// that came without a status.
func classify(status int, r report) llm.Class {
	text := r.text()
	key := " " + statusText(status) + " "
	for _, rule := range rules() {
		if strings.Contains(rule.statuses, key) && Says(text, rule.words...) {
			return rule.class
		}
	}
	if status == 0 {
		return classOfCodes(text)
	}
	if isHardQuota(status, text, r) {
		return llm.ClassQuota
	}
	return classOfStatus(status)
}

// isHardQuota tells an empty account from a rate limit where both are called
// "quota": a limit that ends comes with a delay or as RESOURCE_EXHAUSTED.
func isHardQuota(status int, text string, r report) bool {
	return status == http.StatusTooManyRequests && strings.Contains(text, "exceeded your current quota") &&
		r.retry == 0 && !strings.Contains(text, "resource_exhausted")
}

func classOfStatus(status int) llm.Class {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return llm.ClassAuth
	case http.StatusPaymentRequired:
		return llm.ClassQuota
	case http.StatusTooManyRequests:
		return llm.ClassRateLimit
	case http.StatusRequestEntityTooLarge:
		return llm.ClassContext
	case http.StatusRequestTimeout, http.StatusGatewayTimeout, 524:
		return llm.ClassTimeout
	case http.StatusTooEarly, http.StatusFailedDependency, 498, 499: // 424: the model behind AWS failed; 498, 499: capacity, closed by a proxy
		return llm.ClassOverloaded
	}
	if status >= 500 {
		return llm.ClassOverloaded
	}
	return llm.ClassBadRequest
}

// classOfCodes classifies an error inside a stream. What is not known there is
// the endpoint's trouble: it had accepted the request.
func classOfCodes(text string) llm.Class {
	switch {
	case Says(text, "rate_limit", "rate limit", "too many requests", "resource_exhausted", "throttl"):
		return llm.ClassRateLimit
	case Says(text, "timeout", "timed out", "deadline_exceeded"):
		return llm.ClassTimeout
	case Says(text, "invalid_request", "invalid_argument", "model_not_found", "badrequest", "validationexception", "resourcenotfoundexception"):
		return llm.ClassBadRequest
	}
	return llm.ClassOverloaded
}

// Says reports whether a text holds one of the words, which are as they stand:
// where case shall not matter, both are lower case.
func Says(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}
