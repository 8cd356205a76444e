package openaitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"parley/internal/llm/llmtest"
)

// Call is a tool call of a reply.
type Call struct {
	ID        string // "" = one that is unique on this server
	Name      string
	Arguments string // JSON text, or what a model might write instead
	Extra     map[string]any
}

// Usage are the token counts of a reply.
type Usage struct {
	Prompt, Completion, Cached, Written, Reasoning int64
	Cost                                           *float64 // USD; nil = the endpoint does not say
}

// Reply says how to answer one request. The zero value is an empty answer.
type Reply struct {
	Text      string
	Reasoning string
	Calls     []Call
	Refusal   string
	Finish    string         // "" = "tool_calls" or "stop"
	Extra     map[string]any // more members of the message
	Usage     *Usage         // nil = an estimate
	ID        string         // "" = made from the number of the request

	Status int         // an HTTP error, with Body; 0 = 200
	Body   string      // the body as it is, under Header's content type or JSON
	Header http.Header // more headers
	SSE    string      // the event stream as it is

	Delay      time.Duration   // before the status line
	ChunkDelay time.Duration   // before each chunk of a stream
	Release    <-chan struct{} // before the status line: wait until it is closed
	HangAfter  int             // a stream: after that many chunks say nothing until the client goes
	CutAfter   int             // a stream: after that many chunks break the connection
	Hang       bool            // never answer
	Drop       bool            // break the connection instead of an answer

	fault    llmtest.Fault  // trouble in the middle of the answer
	rawUsage map[string]any // instead of Usage
}

// Text answers with text.
func Text(s string) Reply { return Reply{Text: s} }

// Calls answers with tool calls.
func Calls(calls ...Call) Reply { return Reply{Calls: calls} }

// Tool answers with one tool call; args are encoded as JSON.
func Tool(name string, args any) Reply {
	return Calls(ToolCall(name, args))
}

// ToolCall makes a call for Calls; args are encoded as JSON.
func ToolCall(name string, args any) Call {
	b, err := json.Marshal(args)
	if err != nil {
		panic(fmt.Sprintf("openaitest: arguments of %s: %v", name, err))
	}
	return Call{Name: name, Arguments: string(b)}
}

// Fail answers with a status and an OpenAI error body.
func Fail(status int, message string) Reply {
	b, _ := json.Marshal(map[string]any{"error": map[string]any{"message": message, "type": "error", "code": nil}})
	return Reply{Status: status, Body: string(b)}
}

// RateLimited answers 429 with a Retry-After header.
func RateLimited(after string) Reply {
	r := Fail(http.StatusTooManyRequests, "Rate limit reached")
	r.Header = http.Header{"Retry-After": {after}}
	return r
}

// Raw answers with a status and a body as it is.
func Raw(status int, contentType, body string) Reply {
	return Reply{Status: status, Body: body, Header: http.Header{"Content-Type": {contentType}}}
}

// Stream answers with the bytes of an event stream as they are.
func Stream(raw string) Reply { return Reply{SSE: raw} }

// finish returns the finish reason.
func (r *Reply) finish() string {
	switch {
	case r.Finish != "":
		return r.Finish
	case len(r.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

// usage renders the usage object.
func (r *Reply) usage(req *Request) map[string]any {
	if r.rawUsage != nil {
		return r.rawUsage
	}
	u := r.Usage
	if u == nil {
		u = &Usage{Prompt: int64(len(req.Raw))/4 + 1, Completion: int64(len(r.Text)+len(r.Reasoning))/4 + 1}
	}
	out := map[string]any{
		"prompt_tokens": u.Prompt, "completion_tokens": u.Completion, "total_tokens": u.Prompt + u.Completion,
		"prompt_tokens_details":     map[string]any{"cached_tokens": u.Cached, "cache_write_tokens": u.Written},
		"completion_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning},
	}
	if u.Cost != nil {
		out["cost"] = *u.Cost
	}
	return out
}
