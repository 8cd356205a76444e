package openaitest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// answer writes a reply.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, req *Request, reply Reply) {
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
		writeWhole(w, req, &reply)
	}
}

// complete gives ids to what has none.
func (s *Server) complete(reply *Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reply.ID == "" {
		reply.ID = "chatcmpl-" + strconv.Itoa(len(s.requests))
	}
	for i := range reply.Calls {
		if reply.Calls[i].ID == "" {
			s.calls++
			reply.Calls[i].ID = "call_" + strconv.Itoa(s.calls)
		}
	}
}

// hold waits as the reply says; false means that there is nobody to answer.
func (s *Server) hold(r *http.Request, reply *Reply) bool {
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

func (s *Server) pause(r *http.Request, d time.Duration) bool {
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

func writeWhole(w http.ResponseWriter, req *Request, reply *Reply) {
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
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"id": reply.ID, "object": "chat.completion", "model": req.Model,
		"choices": []any{map[string]any{"index": 0, "message": msg, "finish_reason": reply.finish()}},
		"usage":   reply.usage(req)})
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
func (s *Server) stream(w http.ResponseWriter, r *http.Request, req *Request, reply *Reply) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	for i, data := range chunks(req, reply) {
		if reply.CutAfter > 0 && i == reply.CutAfter {
			panic(http.ErrAbortHandler)
		}
		if reply.HangAfter > 0 && i == reply.HangAfter {
			select {
			case <-r.Context().Done():
			case <-s.closing:
			}
			return
		}
		if reply.ChunkDelay > 0 && !s.pause(r, reply.ChunkDelay) {
			return
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
			return
		}
		if err := flush.Flush(); err != nil {
			return
		}
	}
}

// chunks renders a reply as the events of a stream.
func chunks(req *Request, reply *Reply) []string {
	var out []string
	add := func(delta map[string]any, finish any) {
		out = append(out, encode(map[string]any{"id": reply.ID, "object": "chat.completion.chunk", "model": req.Model,
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
	for _, s := range pieces(reply.Text) {
		add(map[string]any{"content": s}, nil)
	}
	if reply.Refusal != "" {
		add(map[string]any{"refusal": reply.Refusal}, nil)
	}
	for i, c := range reply.Calls {
		add(map[string]any{"tool_calls": []any{callObject(c, &i, "", true)}}, nil)
		for _, s := range pieces(c.Arguments) {
			add(map[string]any{"tool_calls": []any{callObject(c, &i, s, false)}}, nil)
		}
	}
	add(map[string]any{}, reply.finish())
	if req.IncludeUsage {
		out = append(out, encode(map[string]any{"id": reply.ID, "object": "chat.completion.chunk", "model": req.Model,
			"choices": []any{}, "usage": reply.usage(req)}))
	}
	return append(out, "[DONE]")
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
