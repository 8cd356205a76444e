package anthropictest

import (
	"net/http"

	"parley/internal/llm/llmtest"
)

// stream is an answer on its way.
type stream struct {
	m *message
	w http.ResponseWriter
	r *http.Request
}

// stream answers with events.
func (m *message) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	s := &stream{m: m, w: w, r: r}
	s.send("message_start", map[string]any{"message": m.head()})
	s.send("ping", map[string]any{})
	for i, b := range m.blocks {
		if !s.block(i, b) {
			return
		}
	}
	s.send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": m.stop, "stop_sequence": nil}, "usage": m.usage})
	s.send("message_stop", map[string]any{})
}

func (s *stream) send(name string, members map[string]any) {
	members["type"] = name
	if s.m.reply.Fault == llmtest.DuplicateIDs {
		delete(members, "index")
	}
	raw := "event: " + name + "\ndata: " + encode(members) + "\n\n"
	switch s.m.reply.Fault {
	case llmtest.KeepAlives:
		write(s.w, ": keep-alive\n\n\r\n"+raw+"event: ping\ndata: {\"type\": \"ping\"}\n\n:\n\n")
	case llmtest.SlowBytes:
		slowly(s.w, raw)
	default:
		write(s.w, raw)
	}
}

func (s *stream) delta(i int, kind, key, text string) {
	s.send("content_block_delta", map[string]any{"index": i, "delta": map[string]any{"type": kind, key: text}})
}

// block sends one block and reports whether the stream goes on.
func (s *stream) block(i int, b map[string]any) bool {
	goesOn := true
	switch b["type"] {
	case "thinking":
		s.begin(i, map[string]any{"type": "thinking", "thinking": "", "signature": ""})
		for _, p := range pieces(text(b["thinking"])) {
			s.delta(i, "thinking_delta", "thinking", p)
		}
		if b["signature"] != "" {
			s.delta(i, "signature_delta", "signature", text(b["signature"]))
		}
	case "text":
		s.begin(i, map[string]any{"type": "text", "text": ""})
		goesOn = s.text(i, text(b["text"]))
	default:
		goesOn = s.call(i, b)
	}
	if goesOn {
		s.send("content_block_stop", map[string]any{"index": i})
	}
	return goesOn
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func (s *stream) begin(i int, b map[string]any) {
	s.send("content_block_start", map[string]any{"index": i, "content_block": b})
}

// text sends a text; the faults come after its first piece.
func (s *stream) text(i int, all string) bool {
	for n, p := range pieces(all) {
		s.delta(i, "text_delta", "text", p)
		if n == 0 && !s.trouble() {
			return false
		}
	}
	return true
}

// trouble makes the fault of the reply, if it has one of the fatal ones.
func (s *stream) trouble() bool {
	switch reply := s.m.reply; {
	case reply.HangAfterText:
		<-s.r.Context().Done()
		panic(http.ErrAbortHandler)
	case reply.CutAfterText:
		panic(http.ErrAbortHandler)
	case reply.Fault == llmtest.ErrorInStream:
		write(s.w, "event: error\ndata: "+errorBody("overloaded_error", "Overloaded")+"\n\n")
		return false
	case reply.Fault == llmtest.CutJSON:
		write(s.w, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_de")
		panic(http.ErrAbortHandler)
	case reply.Fault == llmtest.Garbage:
		write(s.w, "event: content_block_delta\ndata: <html><title>502 Bad Gateway</title></html>\n\n")
	}
	return true
}

// call sends a tool call, its arguments in pieces.
func (s *stream) call(i int, b map[string]any) bool {
	s.begin(i, map[string]any{"type": "tool_use", "id": b["id"], "name": b["name"], "input": map[string]any{}})
	s.delta(i, "input_json_delta", "partial_json", "")
	args := pieces(text(b["input"]))
	for n, p := range args {
		if s.m.reply.Fault == llmtest.HalfCall && n >= len(args)/2 {
			return false // the stream ends here, in order
		}
		s.delta(i, "input_json_delta", "partial_json", p)
	}
	return true
}
