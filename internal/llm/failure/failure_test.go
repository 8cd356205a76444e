package failure_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"parley/internal/llm"
	"parley/internal/llm/failure"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestResponse(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		class  llm.Class
		text   string // part of the message
	}{
		{"wrong key", 401, `{"error":{"message":"Incorrect API key provided: sk-a***b","type":"invalid_request_error","code":"invalid_api_key"}}`, llm.ClassAuth, "Incorrect API key"},
		{"wrong key as 400", 400, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`, llm.ClassAuth, "not valid"},
		{"forbidden", 403, `{"error":"no access"}`, llm.ClassAuth, "no access"},
		{"flagged as 403", 403, `{"error":{"code":403,"message":"Your input was flagged by moderation"}}`, llm.ClassContentPolicy, "flagged"},
		{"no credits", 402, `{"error":{"message":"Insufficient credits"}}`, llm.ClassQuota, "credits"},
		{"quota as 429", 429, `{"error":{"message":"You exceeded your current quota, please check your plan","type":"insufficient_quota","code":"insufficient_quota"}}`, llm.ClassQuota, "quota"},
		{"quota that comes back", 429, `{"error":{"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}`, llm.ClassRateLimit, "quota"},
		{"balance", 402, `{"error":{"message":"Insufficient Balance"}}`, llm.ClassQuota, "Balance"},
		{"rate", 429, `{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}`, llm.ClassRateLimit, "Rate limit"},
		{"throttled with many tokens", 429, `{"message":"Too many tokens, please wait before trying again."}`, llm.ClassRateLimit, "wait"},
		{"too large as 429", 429, `{"error":{"message":"Request too large for gpt-x on tokens per min (TPM): Limit 30000, Requested 40000."}}`, llm.ClassContext, "too large"},
		{"context by code", 400, `{"error":{"message":"too much","code":"context_length_exceeded"}}`, llm.ClassContext, "too much"},
		{"context by text", 400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000","type":"BadRequestError","code":400}`, llm.ClassContext, "4096"},
		{"context, anthropic words", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, llm.ClassContext, "too long"},
		{"context, gemini words", 400, `{"error":{"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}}`, llm.ClassContext, "1200000"},
		{"context, llama.cpp as 500", 500, `{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size","type":"server_error"}}`, llm.ClassContext, "context size"},
		{"context, anthropic, with the answer", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"input length and ` + "`max_tokens`" + ` exceed context limit: 190000 + 64000 > 200000"}}`, llm.ClassContext, "190000"},
		{"credits, anthropic words", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`, llm.ClassQuota, "balance"},
		{"usage limit, anthropic words", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-02-01."}}`, llm.ClassQuota, "limits"},
		{"filtered, anthropic words", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}`, llm.ClassContentPolicy, "blocked"},
		{"signature", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid ` + "`signature` in `thinking`" + ` block"}}`, llm.ClassMalformed, "signature"},
		{"ends with thinking", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages.7: The final block in an assistant message cannot be ` + "`thinking`" + `."}}`, llm.ClassMalformed, "final block"},
		{"empty block", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages: text content blocks must be non-empty"}}`, llm.ClassMalformed, "non-empty"},
		{"413", 413, ``, llm.ClassContext, "Too Large"},
		{"policy", 400, `{"error":{"message":"The response was filtered due to the prompt triggering content management policy","code":"content_filter"}}`, llm.ClassContentPolicy, "filtered"},
		{"tool call without answer", 400, `{"error":{"message":"An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: c1"}}`, llm.ClassMalformed, "c1"},
		{"roles", 400, `{"message":"Unexpected role 'user' after role 'tool'"}`, llm.ClassMalformed, "role"},
		{"call without output", 400, `{"error":{"message":"No tool output found for function call call_1.","type":"invalid_request_error","param":"input"}}`, llm.ClassMalformed, "call_1"},
		{"thought without its item", 400, `{"error":{"message":"Item 'rs_1' of type 'reasoning' was provided without its required following item."}}`, llm.ClassMalformed, "rs_1"},
		{"thought that is not stored", 404, `{"error":{"message":"Item with id 'rs_1' not found. Items are not persisted when store is set to false."}}`, llm.ClassMalformed, "rs_1"},
		{"thought of another key", 400, `{"error":{"message":"The encrypted content gAAA could not be verified.","code":"invalid_encrypted_content"}}`, llm.ClassMalformed, "verified"},
		{"google, per minute", 429, `{"error":{"code":429,"message":"You exceeded your current quota. Please retry in 20.5s.","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},{"retryDelay":"20s"}]}}`, llm.ClassRateLimit, "quota"},
		{"google, per day", 429, `[{"error":{"code":429,"message":"You exceeded your current quota. Please retry in 20.5s.","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"retryDelay":"20s"}]}}]`, llm.ClassQuota, "quota"},
		{"google, no free tier", 429, `{"error":{"code":429,"message":"Quota exceeded for metric: x, limit: 0, model: gemini-x\nPlease retry in 20s.","status":"RESOURCE_EXHAUSTED"}}`, llm.ClassQuota, "limit: 0"},
		{"google, prepaid", 429, `{"error":{"code":429,"message":"Your prepayment credits are depleted.","status":"RESOURCE_EXHAUSTED"}}`, llm.ClassQuota, "credits"},
		{"google, no billing", 403, `{"error":{"code":403,"message":"This API method requires billing to be enabled.","status":"PERMISSION_DENIED","details":[{"reason":"BILLING_DISABLED"}]}}`, llm.ClassQuota, "billing"},
		{"google, region", 400, `{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}`, llm.ClassBadRequest, "location"},
		{"google, key by detail", 400, `{"error":{"code":400,"message":"Bad credentials","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`, llm.ClassAuth, "Bad"},
		{"google, key expired", 400, `{"error":{"code":400,"message":"API key expired. Please renew the API key.","status":"INVALID_ARGUMENT"}}`, llm.ClassAuth, "expired"},
		{"google, payload", 400, `{"error":{"code":400,"message":"Request payload size exceeds the limit: 20971520 bytes.","status":"INVALID_ARGUMENT"}}`, llm.ClassContext, "payload"},
		{"google, last turn", 400, `{"error":{"code":400,"message":"Requests ending with a model turn are not supported.","status":"INVALID_ARGUMENT"}}`, llm.ClassMalformed, "model turn"},
		{"google, signature", 400, `{"error":{"code":400,"message":"Corrupted thought signature.","status":"INVALID_ARGUMENT"}}`, llm.ClassMalformed, "signature"},
		{"google, empty part", 400, `{"error":{"code":400,"message":"* GenerateContentRequest.contents[0].parts[0].data: required oneof field 'data' must have one initialized field","status":"INVALID_ARGUMENT"}}`, llm.ClassMalformed, "oneof"},
		{"bad parameter", 400, `{"error":{"message":"Unrecognized request argument supplied: foo"}}`, llm.ClassBadRequest, "foo"},
		{"validation list", 422, `{"detail":[{"type":"extra_forbidden","loc":["body","stream_options","include_usage"],"msg":"Extra inputs are not permitted","input":true}]}`, llm.ClassBadRequest, "body.stream_options.include_usage: Extra inputs"},
		{"detail text", 400, `{"detail":"nope"}`, llm.ClassBadRequest, "nope"},
		{"model unknown", 404, `{"error":{"message":"The model 'x' does not exist","code":"model_not_found"}}`, llm.ClassBadRequest, "does not exist"},
		{"timeout", 408, ``, llm.ClassTimeout, "Timeout"},
		{"gateway timeout", 504, `<html><head><title>504 Gateway Time-out</title></head><body><h1>x</h1></body></html>`, llm.ClassTimeout, "504 Gateway Time-out"},
		{"html without title", 502, `<!DOCTYPE html><style>b{}</style><p>Bad &amp; ugly</p>`, llm.ClassOverloaded, "Bad & ugly"},
		{"overloaded", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, llm.ClassOverloaded, "Overloaded"},
		{"empty", 500, ``, llm.ClassOverloaded, "Internal Server Error"},
		{"plain", 503, "try\nlater\x00", llm.ClassOverloaded, "try later"},
		{"router", 400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long\"}}","provider_name":"X"}}}`, llm.ClassContext, "Provider returned error: prompt is too long"},
		{"json in text", 400, `{"error":{"message":"{\"error\":{\"message\":\"inner\"}}"}}`, llm.ClassBadRequest, "inner"},
		{"odd json", 500, `17`, llm.ClassOverloaded, "Internal Server Error"},
		{"null", 500, `null`, llm.ClassOverloaded, "Internal Server Error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := failure.Response(tt.status, http.Header{}, []byte(tt.body), now)
			if e.Class != tt.class || e.Status != tt.status || !strings.Contains(e.Message, tt.text) {
				t.Errorf("got %s %d %q, want %s with %q", e.Class, e.Status, e.Message, tt.class, tt.text)
			}
		})
	}
}

func TestPayload(t *testing.T) {
	tests := []struct {
		body  string
		class llm.Class
		wait  time.Duration
	}{
		{`{"error":{"code":429,"message":"slow down"}}`, llm.ClassRateLimit, 0},
		{`{"error":{"code":"rate_limit_exceeded","message":"Please try again in 1.5s."}}`, llm.ClassRateLimit, 1500 * time.Millisecond},
		{`{"error":{"code":502,"message":"upstream"}}`, llm.ClassOverloaded, 0},
		{`{"error":{"message":"boom"}}`, llm.ClassOverloaded, 0},
		{`{"error":"request timed out"}`, llm.ClassTimeout, 0},
		{`{"error":{"type":"invalid_request_error","message":"x"}}`, llm.ClassBadRequest, 0},
		{`{"error":{"message":"maximum context length is 10"}}`, llm.ClassContext, 0},
		{`{"error":{"code":"image_parse_error","message":"cannot be read"}}`, llm.ClassBadRequest, 0},
		{`{"error":{"code":"image_content_policy_violation","message":"no"}}`, llm.ClassContentPolicy, 0},
		{`{"type":"error","code":"server_error","message":"sorry","param":null}`, llm.ClassOverloaded, 0},
		{`{"error":{"code":"invalid_prompt","message":"no"}}`, llm.ClassContentPolicy, 0},
		{`{"error":null}`, llm.ClassOverloaded, 0},
	}
	for _, tt := range tests {
		e := failure.Payload([]byte(tt.body))
		if e.Class != tt.class || e.RetryAfter != tt.wait || e.Message == "" {
			t.Errorf("%s: got %s, wait %v, %q", tt.body, e.Class, e.RetryAfter, e.Message)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	h := func(kv ...string) http.Header {
		header := http.Header{}
		for i := 0; i < len(kv); i += 2 {
			header.Set(kv[i], kv[i+1])
		}
		return header
	}
	tests := []struct {
		name   string
		status int
		header http.Header
		body   string
		want   time.Duration
	}{
		{"seconds", 503, h("Retry-After", "7"), "", 7 * time.Second},
		{"fraction", 429, h("Retry-After", "0.5"), "", 500 * time.Millisecond},
		{"date", 429, h("Retry-After", "Fri, 02 Jan 2026 03:04:35 GMT"), "", 30 * time.Second},
		{"past date", 429, h("Retry-After", "Fri, 02 Jan 2026 03:00:00 GMT"), "", 0},
		{"duration", 429, h("Retry-After", "1m30s"), "", 90 * time.Second},
		{"ms first", 429, h("Retry-After-Ms", "250", "Retry-After", "1"), "", 250 * time.Millisecond},
		{"negative", 429, h("Retry-After", "-3"), "", 0},
		{"not a number", 429, h("Retry-After", "NaN"), "", 0},
		{"absurd", 429, h("Retry-After", "1e300"), "", 30 * 24 * time.Hour},
		{"reset duration", 429, h("X-Ratelimit-Reset-Requests", "6m0s", "X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Tokens", "20m", "X-Ratelimit-Remaining-Tokens", "55"), "", 6 * time.Minute},
		{"reset ms epoch", 429, h("X-Ratelimit-Reset", "1767323055000"), "", 10 * time.Second},
		{"reset s epoch", 429, h("X-Ratelimit-Reset", "1767323055"), "", 10 * time.Second},
		{"reset seconds", 429, h("X-Ratelimit-Reset", "12"), "", 12 * time.Second},
		{"reset counts for 429 only", 503, h("X-Ratelimit-Reset", "12"), "", 0},
		{"reset point", 429, h("Anthropic-Ratelimit-Requests-Remaining", "0", "Anthropic-Ratelimit-Requests-Reset", "2026-01-02T03:04:25Z", "Anthropic-Ratelimit-Tokens-Remaining", "5", "Anthropic-Ratelimit-Tokens-Reset", "2026-01-02T04:04:25Z"), "", 20 * time.Second},
		{"anthropic", 429, h("Anthropic-Ratelimit-Input-Tokens-Remaining", "0", "Anthropic-Ratelimit-Input-Tokens-Reset", "2026-01-02T03:04:50Z",
			"Anthropic-Ratelimit-Requests-Remaining", "49", "Anthropic-Ratelimit-Requests-Reset", "2026-01-02T04:00:00Z"), "", 45 * time.Second},
		{"per minute", 429, h("X-Ratelimit-Remaining-Tokens-Minute", "0", "X-Ratelimit-Reset-Tokens-Minute", "11.5"), "", 11500 * time.Millisecond},
		{"ietf", 429, h("RateLimit-Remaining", "0", "RateLimit-Reset", "9"), "", 9 * time.Second},
		{"spoken in words", 429, h(), `{"error":{"message":"Please retry after 26 seconds."}}`, 26 * time.Second},
		{"spoken short", 429, h(), `{"error":{"message":"Please try again in 7.66s. Need more tokens?"}}`, 7660 * time.Millisecond},
		{"spoken minutes", 429, h(), `{"error":{"message":"Retry in 2 minutes"}}`, 2 * time.Minute},
		{"body delay", 429, h(), `{"error":{"details":[{"retryDelay":"34.5s"}]}}`, 34500 * time.Millisecond},
		{"spoken", 429, h(), `{"error":{"message":"Rate limit. Please try again in 1m2.5s. Visit"}}`, 62500 * time.Millisecond},
		{"spoken ms", 429, h(), `{"error":{"message":"try again in 320ms"}}`, 320 * time.Millisecond},
		{"not retryable", 401, h("Retry-After", "7"), "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := failure.Response(tt.status, tt.header, []byte(tt.body), now).RetryAfter; got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestTransport(t *testing.T) {
	tlsServer := httptest.NewUnstartedServer(http.NotFoundHandler())
	tlsServer.Config.ErrorLog = nil
	tlsServer.StartTLS()
	defer tlsServer.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	get := func(u string) error {
		c := &http.Client{Transport: &http.Transport{}}
		resp, err := c.Get(u)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	tests := []struct {
		name  string
		err   error
		class llm.Class
	}{
		{"refused", get("http://127.0.0.1:1/secret-path?key=hunter2"), llm.ClassNetwork},
		{"untrusted", get(tlsServer.URL), llm.ClassBadRequest},
		{"plain on https", get(strings.Replace(plain.URL, "http://", "https://", 1)), llm.ClassBadRequest},
		{"reset", &url.Error{Op: "Post", URL: "http://h/?key=hunter2", Err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}}, llm.ClassNetwork},
		{"eof", &url.Error{Op: "Post", URL: "http://h/?key=hunter2", Err: io.EOF}, llm.ClassNetwork},
		{"timeout", &net.OpError{Op: "read", Err: context.DeadlineExceeded}, llm.ClassTimeout},
		{"other", errors.New("x"), llm.ClassNetwork},
	}
	for _, tt := range tests {
		e := failure.Transport(tt.err, "host:1")
		if e.Class != tt.class || !strings.Contains(e.Message, "host:1") {
			t.Errorf("%s: got %s %q", tt.name, e.Class, e.Message)
		}
		if strings.Contains(e.Message, "hunter2") {
			t.Errorf("%s: the URL's query is in the message: %q", tt.name, e.Message)
		}
	}
}

func FuzzResponse(f *testing.F) {
	f.Add(400, []byte(`{"error":{"message":"a","code":429,"details":[{"retryDelay":"1s"}]}}`), "5")
	f.Add(500, []byte(`<html><title>x</title>`), "Fri, 02 Jan 2026 03:04:35 GMT")
	f.Add(429, []byte(`[{"errors":[{"msg":"{\"error\":\"x\"}"}]}]`), "NaN")
	f.Fuzz(func(t *testing.T, status int, body []byte, after string) {
		header := http.Header{"Retry-After": {after}, "X-Ratelimit-Reset": {after}}
		for _, e := range []*llm.Error{failure.Response(status, header, body, now), failure.Payload(body)} {
			if len(e.Message) > failure.MaxMessage || !utf8.ValidString(e.Message) || e.Message == "" {
				t.Fatalf("message of %d bytes: %q", len(e.Message), e.Message)
			}
			if e.RetryAfter < 0 || e.RetryAfter > 31*24*time.Hour {
				t.Fatalf("wait %v", e.RetryAfter)
			}
		}
	})
}
