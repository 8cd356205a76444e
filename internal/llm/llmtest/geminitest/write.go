package geminitest

import (
	"net/http"

	"parley/internal/llm/llmtest"
)

// writer writes the answer to one call.
type writer struct {
	w    http.ResponseWriter
	r    *http.Request
	c    call
	slow bool // every byte in a packet of its own
	sent int  // elements of an array
}

// write sends bytes at once.
func (o *writer) write(b []byte) {
	flusher, _ := o.w.(http.Flusher)
	if !o.slow {
		_, _ = o.w.Write(b) // the client may be gone; there is nobody to tell
		if flusher != nil {
			flusher.Flush()
		}
		return
	}
	for i := range b {
		if _, err := o.w.Write(b[i : i+1]); err != nil {
			return
		}
		if flusher != nil {
			flusher.Flush()
		}
	}
}

func (o *writer) begin() {
	kind := "application/json; charset=UTF-8"
	if o.c.streamed && o.c.sse {
		kind = "text/event-stream"
	}
	o.w.Header().Set("Content-Type", kind)
	o.w.WriteHeader(http.StatusOK)
}

// element sends one chunk of a stream, of which raw may be no JSON.
func (o *writer) element(raw []byte) {
	if o.c.sse {
		o.write([]byte("data: " + string(raw) + "\r\n\r\n"))
		return
	}
	separator := ",\r\n"
	if o.sent == 0 {
		separator = "["
	}
	o.sent++
	o.write([]byte(separator + string(raw)))
}

func (o *writer) end() {
	if !o.c.sse {
		o.write([]byte("]"))
	}
}

// document sends an answer that is one object, in the shape that was asked for.
func (o *writer) document(v any) {
	o.begin()
	if !o.c.streamed {
		o.write(encode(v, true))
		return
	}
	o.element(encode(v, false))
	o.end()
}

// stream sends an answer chunk by chunk.
func (o *writer) stream(a answer, reply llmtest.Reply) {
	o.begin()
	for i, group := range a.groups {
		if reply.Fault == llmtest.HalfCall && isCall(group) {
			o.halfCall(a, reply)
			return
		}
		if reply.Fault == llmtest.KeepAlives && o.c.sse {
			o.write([]byte(": keep-alive\n\n\n\ndata:\n\n"))
		}
		o.element(encode(a.chunk(group, i == len(a.groups)-1), false))
		if i+1 == max(a.texts, 1) && o.broken(reply) {
			return
		}
	}
	if len(a.groups) == 0 {
		o.element(encode(a.chunk([]any{}, true), false))
	}
	o.end()
}

// halfCall begins a call, in pieces, and ends the stream in order.
func (o *writer) halfCall(a answer, reply llmtest.Reply) {
	tc := reply.Calls[0]
	o.element(encode(a.chunk([]any{object{"functionCall": object{"id": tc.ID, "name": tc.Name, "willContinue": true}}}, false), false))
	o.element(encode(a.chunk([]any{object{"functionCall": object{"willContinue": true,
		"partialArgs": []any{object{"jsonPath": "$.command", "stringValue": "rm -rf ", "willContinue": true}}}}}, false), false))
	o.end()
}

func isCall(group []any) bool {
	_, ok := group[0].(object)["functionCall"]
	return ok
}

// broken shows a fault in the middle of a stream and reports whether that ends it.
func (o *writer) broken(reply llmtest.Reply) bool {
	switch {
	case reply.HangAfterText:
		<-o.r.Context().Done()
	case reply.CutAfterText:
		panic(http.ErrAbortHandler)
	case reply.Fault == llmtest.CutJSON:
		o.write([]byte(`data: {"candidates":[{"content":{"pa`))
		panic(http.ErrAbortHandler)
	case reply.Fault == llmtest.ErrorInStream:
		o.element(encode(overloaded().object(), false))
		o.end()
	case reply.Fault == llmtest.Garbage:
		o.element([]byte(`{"candidates":"a teapot"}`))
		o.end()
	default:
		return false
	}
	return true
}

// whole sends an answer as one document.
func (o *writer) whole(a answer, reply llmtest.Reply) {
	raw := encode(a.chunk(a.joined(), true), true)
	switch {
	case reply.Fault == llmtest.ErrorInStream:
		writeError(o.w, o.c, overloaded())
		return
	case reply.Fault == llmtest.Garbage:
		raw = []byte(`{"candidates":"a teapot"}`)
	}
	half := reply.HangAfterText || reply.CutAfterText || reply.Fault == llmtest.CutJSON || reply.Fault == llmtest.HalfCall
	o.begin()
	if !half {
		o.write(raw)
		return
	}
	o.write(raw[:len(raw)/2])
	if reply.HangAfterText {
		<-o.r.Context().Done()
		return
	}
	panic(http.ErrAbortHandler)
}
