package responsestest

import (
	"fmt"
	"net/http"

	"parley/internal/llm"
	"parley/internal/llm/llmtest"
)

// output writes and flushes, byte by byte if it is slow.
type output struct {
	w    http.ResponseWriter
	r    *http.Request
	slow bool
	gone bool
}

func (o *output) write(b []byte) {
	size := len(b)
	if o.slow {
		size = 1
	}
	for len(b) > 0 && !o.gone && o.r.Context().Err() == nil {
		n := min(size, len(b))
		_, err := o.w.Write(b[:n])
		if err == nil {
			err = http.NewResponseController(o.w).Flush()
		}
		o.gone = err != nil
		b = b[n:]
	}
}

// event is one event of a stream.
type event struct {
	name string
	data []byte
}

func (e event) bytes() []byte { return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", e.name, e.data) }

// script is the events of an answer, and where the faults strike.
type script struct {
	events   []event
	anon     bool // without output_index
	text     int  // behind the first piece of the text
	halfCall int  // in the middle of the first call's arguments
}

// add appends an event of an item, or of the response if at is negative.
func (s *script) add(name string, at int, fields map[string]any) {
	fields["type"], fields["sequence_number"] = name, len(s.events)
	if at >= 0 && !s.anon {
		fields["output_index"] = at
	}
	s.events = append(s.events, event{name: name, data: encode(fields)})
}

// pieces cuts a text as tokens would.
func pieces(s string) []string {
	const size = 7
	var out []string
	for runes := []rune(s); len(runes) > 0; {
		n := min(size, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

func (a *answer) script() *script {
	s := &script{anon: a.reply.Fault == llmtest.DuplicateIDs}
	s.add("response.created", -1, map[string]any{"response": a.response("in_progress")})
	s.add("response.in_progress", -1, map[string]any{"response": a.response("in_progress")})
	for i := range a.items {
		it := &a.items[i]
		s.add("response.output_item.added", i, map[string]any{"item": it.begun()})
		switch it.Kind {
		case Thought:
			s.thought(i, it)
		case Message:
			s.message(i, it)
		default:
			s.call(i, it)
		}
		s.add("response.output_item.done", i, map[string]any{"item": it.object()})
	}
	status, o := a.final()
	s.add("response."+status, -1, map[string]any{"response": o})
	if s.text == 0 {
		s.text = 2
	}
	if s.halfCall == 0 {
		s.halfCall = s.text
	}
	return s
}

func (s *script) thought(at int, it *issued) {
	if it.shown == "" {
		return
	}
	with := func(fields map[string]any) map[string]any {
		fields["item_id"], fields["summary_index"] = it.id, 0
		return fields
	}
	s.add("response.reasoning_summary_part.added", at, with(map[string]any{"part": map[string]any{"type": "summary_text", "text": ""}}))
	for _, p := range pieces(it.shown) {
		s.add("response.reasoning_summary_text.delta", at, with(map[string]any{"delta": p}))
	}
	s.add("response.reasoning_summary_text.done", at, with(map[string]any{"text": it.shown}))
	s.add("response.reasoning_summary_part.done", at, with(map[string]any{"part": map[string]any{"type": "summary_text", "text": it.shown}}))
}

func (s *script) message(at int, it *issued) {
	with := func(fields map[string]any) map[string]any {
		fields["item_id"], fields["content_index"] = it.id, 0
		return fields
	}
	part := map[string]any{"type": "output_text", "text": "", "annotations": []any{}}
	s.add("response.content_part.added", at, with(map[string]any{"part": part}))
	for _, p := range pieces(it.Text) {
		s.add("response.output_text.delta", at, with(map[string]any{"delta": p, "logprobs": []any{}, "obfuscation": "x7"}))
		if s.text == 0 {
			s.text = len(s.events)
		}
	}
	s.add("response.output_text.done", at, with(map[string]any{"text": it.Text, "logprobs": []any{}}))
	s.add("response.content_part.done", at, with(map[string]any{"part": map[string]any{"type": "output_text", "text": it.Text, "annotations": []any{}}}))
}

func (s *script) call(at int, it *issued) {
	for _, p := range pieces(it.Arguments) {
		s.add("response.function_call_arguments.delta", at, map[string]any{"item_id": it.id, "delta": p})
		if s.halfCall == 0 {
			s.halfCall = len(s.events)
		}
	}
	s.add("response.function_call_arguments.done", at, map[string]any{"item_id": it.id, "name": it.Name, "arguments": it.Arguments})
}

// writeStream writes the answer as events, and misbehaves where the reply says so.
func (a *answer) writeStream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	out := &output{w: w, r: r, slow: a.reply.Fault == llmtest.SlowBytes}
	s := a.script()
	switch {
	case a.reply.Fail != "":
		a.writeFailure(out, s)
	case a.reply.HangAfterText:
		out.events(s.events[:s.text])
		<-r.Context().Done()
	case a.reply.CutAfterText:
		out.events(s.events[:s.text])
		panic(http.ErrAbortHandler)
	case a.reply.Fault == llmtest.KeepAlives:
		for _, e := range s.events {
			out.write([]byte(": keep-alive\n\n"))
			out.events([]event{e})
			out.write([]byte("\n\nevent: keepalive\ndata: {\"type\":\"keepalive\"}\n\n"))
		}
	default:
		out.events(s.events[:a.reach(s)])
		out.write(a.tail(s))
	}
}

func (o *output) events(events []event) {
	for _, e := range events {
		o.write(e.bytes())
	}
}

// reach is how many events come before a fault.
func (a *answer) reach(s *script) int {
	switch a.reply.Fault {
	case llmtest.HalfCall:
		return s.halfCall
	case llmtest.ErrorInStream, llmtest.CutJSON, llmtest.Garbage:
		return s.text
	}
	return len(s.events)
}

// tail is what a fault puts behind them.
func (a *answer) tail(s *script) []byte {
	switch a.reply.Fault {
	case llmtest.ErrorInStream:
		return event{"error", encode(map[string]any{"type": "error", "code": "server_error", "param": nil, "sequence_number": s.text,
			"message": "The model is currently overloaded with other requests."})}.bytes()
	case llmtest.CutJSON:
		whole := s.events[s.text].bytes()
		return whole[:len(whole)*2/3]
	case llmtest.Garbage:
		return []byte("data: <html><title>A page</title></html>\n\n")
	}
	return nil
}

// writeFailure says a failure in the stream.
func (a *answer) writeFailure(out *output, s *script) {
	out.events(s.events[:2])
	end := &script{}
	switch a.reply.Fail {
	case llm.ClassNoResponse:
		end.add("response.completed", -1, map[string]any{"response": a.empty()})
	case llm.ClassContentPolicy:
		a.items = nil
		status, o := a.final()
		end.add("response."+status, -1, map[string]any{"response": o})
	case llm.ClassContext:
		end.add("error", -1, map[string]any{"error": refusalOf(a.reply).object()})
	default:
		end.add("response.failed", -1, map[string]any{"response": a.failed()})
	}
	out.events(end.events)
}
