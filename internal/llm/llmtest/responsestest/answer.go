package responsestest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"parley/internal/conversation"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
)

// issued is an item as it goes out.
type issued struct {
	Item
	id     string
	sealed string // of a thought, where the request asked for it
	shown  string // of a thought: the summary, where the request asked for one
}

// answer is an answer as it goes out.
type answer struct {
	tag    string
	model  string
	stream bool
	items  []issued
	reply  llmtest.Reply
	usage  any
	echo   *request // whose settings the answer repeats
}

func newAnswer(items []Item, reply llmtest.Reply, req *request, asked int) *answer {
	a := &answer{tag: newTag(), model: req.Model, stream: req.Stream, reply: reply, echo: req}
	thought := "x"
	for i, it := range faulty(items, reply.Fault) {
		out := issued{Item: it}
		switch it.Kind {
		case Thought:
			thought = strconv.Itoa(i)
			out.id = fmt.Sprintf("rs_%s_%d", a.tag, i)
			if req.encrypted() {
				out.sealed = seal(out.id, it.Signature)
			}
			if req.Reasoning.Summary != "" {
				out.shown = it.Text
			}
		case Message:
			out.id = fmt.Sprintf("msg_%s_%d_%s", a.tag, i, thought)
		default:
			out.id = fmt.Sprintf("fc_%s_%d_%s", a.tag, i, thought)
		}
		a.items = append(a.items, out)
	}
	if reply.Fault == llmtest.DuplicateIDs {
		a.duplicate()
	}
	a.usage = usageOf(reply, a.items, asked)
	return a
}

// longName is the length of the name of a tool that no tool has.
const longName = 30_000

// faulty returns the items with a fault that is in them.
func faulty(items []Item, fault llmtest.Fault) []Item {
	out := append([]Item(nil), items...)
	for i := range out {
		if out[i].Kind == Call && fault == llmtest.LongName && len(out[i].Name) < longName {
			out[i].Name = strings.Repeat(out[i].Name+"_", longName/(len(out[i].Name)+1)+1)
		}
	}
	return out
}

// duplicate gives all calls the ids of the first.
func (a *answer) duplicate() {
	var first *issued
	for i := range a.items {
		switch it := &a.items[i]; {
		case it.Kind != Call:
		case first == nil:
			first = it
		default:
			it.id, it.CallID = first.id, first.CallID
		}
	}
}

// usageOf renders the usage; an estimate where the reply has none.
func usageOf(reply llmtest.Reply, items []issued, asked int) any {
	if reply.Fault == llmtest.WrongUsage {
		return map[string]any{"input_tokens": -100, "output_tokens": "lots", "total_tokens": 1e300,
			"input_tokens_details": map[string]any{"cached_tokens": 1e300}, "output_tokens_details": []int{-1}}
	}
	u := reply.Usage
	if u == (conversation.Usage{}) {
		u.PromptTokens = int64(asked)/4 + 1
		for _, it := range items {
			u.CompletionTokens += int64(len(it.Text)+len(it.Arguments))/4 + 1
		}
	}
	return map[string]any{"input_tokens": u.PromptTokens, "output_tokens": u.CompletionTokens, "total_tokens": u.PromptTokens + u.CompletionTokens,
		"input_tokens_details":  map[string]any{"cached_tokens": u.CacheReadTokens, "cache_write_tokens": u.CacheWriteTokens},
		"output_tokens_details": map[string]any{"reasoning_tokens": u.ReasoningTokens}}
}

// object renders a finished item; begun is how it is announced.
func (it *issued) object() map[string]any {
	o := map[string]any{"type": it.Kind, "id": it.id}
	switch it.Kind {
	case Thought:
		summary := []any{}
		if it.shown != "" {
			summary = append(summary, map[string]any{"type": "summary_text", "text": it.shown})
		}
		o["summary"] = summary
		if it.sealed != "" {
			o["encrypted_content"] = it.sealed
		}
	case Message:
		o["role"], o["status"] = "assistant", "completed"
		o["content"] = []any{map[string]any{"type": "output_text", "text": it.Text, "annotations": []any{}, "logprobs": []any{}}}
		if it.Phase != "" {
			o["phase"] = it.Phase
		}
	default:
		o["call_id"], o["name"], o["arguments"], o["status"] = it.CallID, it.Name, it.Arguments, "completed"
	}
	return o
}

func (it *issued) begun() map[string]any {
	o := it.object()
	switch it.Kind {
	case Thought:
		o["summary"] = []any{}
		delete(o, "encrypted_content")
	case Message:
		o["content"], o["status"] = []any{}, "in_progress"
	default:
		o["arguments"], o["status"] = "", "in_progress"
	}
	return o
}

// response renders the response object.
func (a *answer) response(status string) map[string]any {
	tools := a.echo.Tools
	if tools == nil {
		tools = []any{}
	}
	o := map[string]any{"tools": tools, "tool_choice": "auto", "parallel_tool_calls": a.echo.Parallel == nil || *a.echo.Parallel, "id": "resp_" + a.tag, "object": "response", "created_at": 1700000000, "model": a.model, "status": status,
		"error": nil, "incomplete_details": nil, "output": []any{}, "usage": nil, "store": false}
	if status == "in_progress" {
		return o
	}
	output := []any{}
	for i := range a.items {
		output = append(output, a.items[i].object())
	}
	o["output"], o["usage"] = output, a.usage
	return o
}

// final renders the response at its end, and its status.
func (a *answer) final() (status string, o map[string]any) {
	reason := ""
	switch {
	case a.reply.Fault == llmtest.OddFinish:
		reason = "moon_phase"
	case a.reply.Finish == "length":
		reason = "max_output_tokens"
	case a.reply.Finish == "content_filter", a.reply.Fail == llm.ClassContentPolicy:
		reason = "content_filter"
	}
	if reason == "" {
		return "completed", a.response("completed")
	}
	o = a.response("incomplete")
	o["incomplete_details"] = map[string]any{"reason": reason}
	return "incomplete", o
}

// serve writes the answer, or what the reply says instead.
func (a *answer) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case a.reply.Hang:
		<-r.Context().Done()
	case a.reply.Fail == llm.ClassNetwork:
		panic(http.ErrAbortHandler)
	case a.reply.Fail != "" && !a.failsInside():
		refusalOf(a.reply).write(w)
	case a.stream:
		a.writeStream(w, r)
	default:
		a.writeWhole(w, r)
	}
}

// failsInside reports whether the API says the failure in an answer with status 200.
func (a *answer) failsInside() bool {
	switch a.reply.Fail {
	case llm.ClassNoResponse:
		return true
	case llm.ClassContext, llm.ClassOverloaded, llm.ClassContentPolicy:
		return a.stream
	}
	return false
}

// refusalOf is how the API reports a class.
func refusalOf(reply llmtest.Reply) *Refusal {
	switch reply.Fail {
	case llm.ClassAuth:
		return &Refusal{Status: http.StatusUnauthorized, Message: "Incorrect API key provided: sk-***.", Code: "invalid_api_key"}
	case llm.ClassQuota:
		return &Refusal{Status: http.StatusTooManyRequests, Type: "insufficient_quota", Code: "insufficient_quota",
			Message: "You exceeded your current quota, please check your plan and billing details."}
	case llm.ClassRateLimit:
		r := &Refusal{Status: http.StatusTooManyRequests, Type: "tokens", Code: "rate_limit_exceeded", Message: "Rate limit reached for this model.", Header: http.Header{}}
		if reply.RetryAfter > 0 {
			r.Header.Set("Retry-After", strconv.FormatFloat(reply.RetryAfter.Seconds(), 'f', -1, 64))
		}
		return r
	case llm.ClassOverloaded:
		return &Refusal{Status: http.StatusServiceUnavailable, Type: "server_error", Message: "The server is overloaded or not ready yet."}
	case llm.ClassTimeout:
		return &Refusal{Status: http.StatusGatewayTimeout, Type: "server_error", Message: "Gateway timeout"}
	case llm.ClassContext:
		return &Refusal{Status: http.StatusBadRequest, Param: "input", Code: "context_length_exceeded",
			Message: "Your input exceeds the context window of this model. Please adjust your input and try again."}
	case llm.ClassContentPolicy:
		return &Refusal{Status: http.StatusBadRequest, Code: "invalid_prompt",
			Message: "Invalid prompt: your prompt was flagged as potentially violating our usage policy."}
	case llm.ClassMalformed:
		return invalid("input", "No tool output found for function call call_x.")
	}
	return &Refusal{Status: http.StatusNotFound, Code: "model_not_found", Message: "The model does not exist or you do not have access to it."}
}

// failed renders the response of an answer that broke off.
func (a *answer) failed() map[string]any {
	o := a.response("failed")
	o["output"], o["usage"] = []any{}, nil
	o["error"] = map[string]any{"code": "server_error", "message": "The server had an error while processing your request. Sorry about that!"}
	return o
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("responsestest: answer: %v", err))
	}
	return b
}

// writeWhole writes the answer as one document.
func (a *answer) writeWhole(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, o := a.final()
	body := encode(o)
	out := &output{w: w, r: r, slow: a.reply.Fault == llmtest.SlowBytes}
	half := body[:len(body)/2]
	switch {
	case a.reply.Fail == llm.ClassNoResponse:
		out.write(encode(a.empty()))
	case a.reply.HangAfterText:
		out.write(half)
		<-r.Context().Done()
	case a.reply.CutAfterText:
		out.write(half)
		panic(http.ErrAbortHandler)
	case a.reply.Fault == llmtest.CutJSON, a.reply.Fault == llmtest.HalfCall:
		out.write(half)
	case a.reply.Fault == llmtest.Garbage:
		out.write([]byte("<html><title>A page</title></html>"))
	case a.reply.Fault == llmtest.ErrorInStream:
		out.write(encode(a.failed()))
	case a.reply.Fault == llmtest.KeepAlives:
		out.write(append([]byte("\n\n  \n"), body...))
	default:
		out.write(body)
	}
}

// empty is a response without an output.
func (a *answer) empty() map[string]any {
	a.items = nil
	return a.response("completed")
}
