package openaitest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/internal/llm/llmtest"
)

// scribe writes replies. Its zero value is ready.
type scribe struct {
	closing chan struct{} // closed when nobody is to be answered any more; nil = never

	mu      sync.Mutex
	answers int // replies so far, for their ids
	calls   int // tool calls answered so far: their ids are unique
}

// answer writes a reply.
func (s *scribe) answer(w http.ResponseWriter, r *http.Request, req *Request, reply Reply) {
	s.complete(&reply)
	if !s.hold(r, &reply) {
		return
	}
	if reply.Drop {
		panic(http.ErrAbortHandler)
	}
	for k, v := range reply.Header {
		w.Header()[k] = v
	}
	switch {
	case reply.SSE != "":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, reply.SSE)
	case reply.Body != "" || reply.Status != 0:
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(max(reply.Status, http.StatusOK))
		_, _ = io.WriteString(w, reply.Body)
	case req.Stream:
		s.stream(w, r, req, &reply)
	default:
		s.whole(w, r, req, &reply)
	}
}

// complete gives ids to what has none.
func (s *scribe) complete(reply *Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers++
	if reply.ID == "" {
		reply.ID = "chatcmpl-" + strconv.Itoa(s.answers)
	}
	for i := range reply.Calls {
		if reply.Calls[i].ID == "" {
			s.calls++
			reply.Calls[i].ID = "call_" + strconv.Itoa(s.calls)
		}
	}
}

// hold waits as the reply says; false means that there is nobody to answer.
func (s *scribe) hold(r *http.Request, reply *Reply) bool {
	release := reply.Release
	if reply.Hang {
		release = make(chan struct{})
	}
	if release != nil {
		select {
		case <-release:
		case <-r.Context().Done():
			return false
		case <-s.closing:
			return false
		}
	}
	return reply.Delay == 0 || s.pause(r, reply.Delay)
}

func (s *scribe) pause(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-s.closing:
	}
	return false
}

// whole writes a reply as one JSON document, and misbehaves where it says so.
func (s *scribe) whole(w http.ResponseWriter, r *http.Request, req *Request, reply *Reply) {
	body := encode(completion(req, reply))
	switch reply.fault {
	case llmtest.KeepAlives:
		body = strings.Repeat(" \n", 20) + body
	case llmtest.ErrorInStream:
		body = encode(map[string]any{"id": reply.ID, "choices": []any{}, "error": overloaded()})
	case llmtest.Garbage:
		body = "<html><title>Bad gateway</title></html>"
	case llmtest.HalfCall, llmtest.CutJSON:
		reply.CutAfter = 1
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	if reply.CutAfter > 0 || reply.HangAfter > 0 {
		body = body[:len(body)/2]
	}
	if !send(w, body, reply.fault == llmtest.SlowBytes) {
		return
	}
	if reply.CutAfter > 0 {
		panic(http.ErrAbortHandler)
	}
	if reply.HangAfter > 0 {
		s.silence(r)
	}
}

// created is when all answers were made.
const created = 1_700_000_000

// completion is a reply as the API's object.
func completion(req *Request, reply *Reply) map[string]any {
	msg := map[string]any{"role": "assistant", "content": nil}
	if reply.Text != "" || (len(reply.Calls) == 0 && reply.Refusal == "") {
		msg["content"] = reply.Text
	}
	if reply.Reasoning != "" {
		msg["reasoning_content"] = reply.Reasoning
	}
	if reply.Refusal != "" {
		msg["refusal"] = reply.Refusal
	}
	for k, v := range reply.Extra {
		msg[k] = v
	}
	var calls []map[string]any
	for _, c := range reply.Calls {
		calls = append(calls, callObject(c, nil, c.Arguments, true))
	}
	if calls != nil {
		msg["tool_calls"] = calls
	}
	return map[string]any{"id": reply.ID, "object": "chat.completion", "created": created, "model": req.Model,
		"choices": []any{map[string]any{"index": 0, "message": msg, "finish_reason": reply.finish()}},
		"usage":   reply.usage(req)}
}

// silence says nothing until the client goes.
func (s *scribe) silence(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.closing:
	}
}

// send writes and flushes text, byte by byte if slow; false means that the
// client is gone.
func send(w http.ResponseWriter, text string, slow bool) bool {
	flush := http.NewResponseController(w)
	size := max(len(text), 1)
	if slow {
		size = 1
	}
	for len(text) > 0 {
		n := min(size, len(text))
		if _, err := io.WriteString(w, text[:n]); err != nil || flush.Flush() != nil {
			return false
		}
		text = text[n:]
	}
	return true
}

// callObject renders a call, or a piece of one; only the first has id and name.
func callObject(c Call, index *int, args string, first bool) map[string]any {
	f := map[string]any{"arguments": args}
	o := map[string]any{"function": f}
	if index != nil {
		o["index"] = *index
	}
	if first {
		o["id"], o["type"], f["name"] = c.ID, "function", c.Name
		for k, v := range c.Extra {
			o[k] = v
		}
	}
	return o
}

// stream writes the chunks of a reply, and misbehaves where it says so.
func (s *scribe) stream(w http.ResponseWriter, r *http.Request, req *Request, reply *Reply) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	for i, data := range chunks(req, reply) {
		if reply.CutAfter > 0 && i == reply.CutAfter {
			panic(http.ErrAbortHandler)
		}
		if reply.HangAfter > 0 && i == reply.HangAfter {
			s.silence(r)
			return
		}
		if reply.ChunkDelay > 0 && !s.pause(r, reply.ChunkDelay) {
			return
		}
		frame := "data: " + data + "\n\n"
		if reply.fault == llmtest.KeepAlives {
			frame = ": keep-alive\n\n\n" + frame + "data:\n\n: \n"
		}
		if data == cutMark {
			send(w, `data: {"id":"`+reply.ID+`","choices":[{"ind`, false)
			panic(http.ErrAbortHandler)
		}
		if !send(w, frame, reply.fault == llmtest.SlowBytes) {
			return
		}
	}
}

// cutMark stands for an event that the end of the connection cuts in two.
const cutMark = "cut"

// chunks renders a reply as the events of a stream.
func chunks(req *Request, reply *Reply) []string {
	var out []string
	add := func(delta map[string]any, finish any) {
		out = append(out, encode(map[string]any{"id": reply.ID, "object": "chat.completion.chunk", "created": created, "model": req.Model,
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}}))
	}
	first := map[string]any{"role": "assistant", "content": ""}
	for k, v := range reply.Extra {
		first[k] = v
	}
	add(first, nil)
	for _, s := range pieces(reply.Reasoning) {
		add(map[string]any{"reasoning_content": s}, nil)
	}
	for i, s := range pieces(reply.Text) {
		add(map[string]any{"content": s}, nil)
		if event := brokenBy(reply.fault); event != "" && i == 0 {
			return append(out, event)
		}
	}
	if reply.Refusal != "" {
		add(map[string]any{"refusal": reply.Refusal}, nil)
	}
	for i, c := range reply.Calls {
		for _, o := range callPieces(reply, c, i) {
			add(map[string]any{"tool_calls": []any{o}}, nil)
		}
	}
	if reply.fault == llmtest.HalfCall {
		return append(out, "[DONE]")
	}
	add(map[string]any{}, reply.finish())
	if req.IncludeUsage {
		out = append(out, encode(map[string]any{"id": reply.ID, "object": "chat.completion.chunk", "created": created, "model": req.Model,
			"choices": []any{}, "usage": reply.usage(req)}))
	}
	return append(out, "[DONE]")
}

// brokenBy is the last event of a stream that a fault ends after the first part
// of the text; "" if it does not.
func brokenBy(f llmtest.Fault) string {
	switch f {
	case llmtest.ErrorInStream:
		return encode(map[string]any{"error": overloaded()})
	case llmtest.Garbage:
		return "<html><title>Bad gateway</title></html>"
	case llmtest.CutJSON:
		return cutMark
	}
	return ""
}

func overloaded() map[string]any {
	return map[string]any{"message": "The model is overloaded. Please try again later.", "type": "server_error", "code": "overloaded"}
}

// callPieces renders a call as it streams.
func callPieces(reply *Reply, c Call, i int) []map[string]any {
	if reply.fault == llmtest.DuplicateIDs {
		return []map[string]any{callObject(c, nil, c.Arguments, true)}
	}
	out := []map[string]any{callObject(c, &i, "", true)}
	args := pieces(c.Arguments)
	if reply.fault == llmtest.HalfCall {
		args = args[:len(args)/2]
	}
	for _, s := range args {
		out = append(out, callObject(c, &i, s, false))
	}
	return out
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("openaitest: reply: %v", err))
	}
	return string(b)
}

// pieces cuts a text as tokens would.
func pieces(s string) []string {
	var out []string
	const size = 7
	runes := []rune(s)
	for len(runes) > 0 {
		n := min(size, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}
