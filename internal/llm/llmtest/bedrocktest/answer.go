package bedrocktest

import (
	"encoding/json"
	"net/http"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/llm/llmtest"
)

// object is a JSON object of the wire.
type object = map[string]any

func (s *server) answer(w http.ResponseWriter, r *http.Request, stream bool, reply llmtest.Reply) {
	switch {
	case reply.Hang:
		<-r.Context().Done()
		return
	case reply.Fail != "":
		fail(w, reply, stream)
		return
	}
	if reply.Fault == llmtest.DuplicateIDs {
		for i := range reply.Calls {
			reply.Calls[i].ID = reply.Calls[0].ID
		}
	}
	s.remember(reply)
	finish := "end_turn"
	switch {
	case reply.Fault == llmtest.OddFinish:
		finish = "pondered_enough"
	case reply.Finish == "length":
		finish = "max_tokens"
	case len(reply.Calls) > 0:
		finish = "tool_use"
	}
	if !stream || !trouble(reply) {
		send(w, stream, reply, finish)
		return
	}
	st := newStream(w, reply.Fault == llmtest.SlowBytes)
	st.event("messageStart", object{"role": "assistant"})
	st.text(0, half(reply.Text))
	broken(st, r, reply)
}

// trouble reports whether the stream does not end as it should.
func trouble(reply llmtest.Reply) bool {
	switch reply.Fault {
	case llmtest.HalfCall, llmtest.ErrorInStream, llmtest.CutJSON, llmtest.Garbage:
		return true
	}
	return reply.HangAfterText || reply.CutAfterText
}

// broken ends a stream behind the first part of its text.
func broken(st *stream, r *http.Request, reply llmtest.Reply) {
	switch {
	case reply.HangAfterText:
		<-r.Context().Done()
	case reply.CutAfterText:
		panic(http.ErrAbortHandler)
	case reply.Fault == llmtest.HalfCall:
		st.event("contentBlockStop", object{"contentBlockIndex": 0})
		if len(reply.Calls) > 0 {
			c := reply.Calls[0]
			st.event("contentBlockStart", object{"contentBlockIndex": 1, "start": object{"toolUse": object{"toolUseId": c.ID, "name": c.Name}}})
			st.event("contentBlockDelta", object{"contentBlockIndex": 1, "delta": object{"toolUse": object{"input": half(c.Arguments)}}})
		}
	case reply.Fault == llmtest.ErrorInStream:
		st.exception("serviceUnavailableException", "Bedrock is overloaded and unable to process your request.")
	case reply.Fault == llmtest.CutJSON:
		raw := st.frame("event", ":event-type", "contentBlockDelta", []byte(`{"contentBlockIndex":0,"delta":{"text":"and more"}}`))
		st.write(raw[:len(raw)/2])
		panic(http.ErrAbortHandler)
	case reply.Fault == llmtest.Garbage:
		st.write(st.frame("event", ":event-type", "contentBlockDelta", []byte(`<html>What?`)))
	}
}

// send gives a complete answer.
func send(w http.ResponseWriter, streamed bool, reply llmtest.Reply, finish string) {
	if streamed {
		sendStream(w, reply, finish)
		return
	}
	blocks := []object{}
	if reply.Reasoning != "" {
		blocks = append(blocks, object{"reasoningContent": object{"reasoningText": reasoning(reply)}})
	}
	if reply.Text != "" {
		blocks = append(blocks, object{"text": reply.Text})
	}
	for _, c := range reply.Calls {
		input := json.RawMessage(c.Arguments)
		if !json.Valid(input) {
			input, _ = content.Marshal(c.Arguments) // a string is always encoded
		}
		blocks = append(blocks, object{"toolUse": object{"toolUseId": c.ID, "name": c.Name, "input": input}})
	}
	body, err := content.Marshal(object{"output": object{"message": object{"role": "assistant", "content": blocks}},
		"stopReason": finish, "usage": usage(reply), "metrics": object{"latencyMs": 7}})
	if err != nil {
		invalid("%s", err).write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-Requestid", "11111111-2222-3333-4444-555555555555")
	flush := http.NewResponseController(w)
	if reply.Fault != llmtest.SlowBytes {
		_, _ = w.Write(body)
		return
	}
	for _, b := range body {
		_, _ = w.Write([]byte{b})
		_ = flush.Flush()
	}
}

func reasoning(reply llmtest.Reply) object {
	out := object{"text": reply.Reasoning}
	if reply.Signature != "" {
		out["signature"] = reply.Signature
	}
	return out
}

// usage counts as the service does: cached tokens are not among the input's.
func usage(reply llmtest.Reply) object {
	if reply.Fault == llmtest.WrongUsage {
		return object{"inputTokens": -5, "outputTokens": "many", "totalTokens": 1e30, "cacheReadInputTokens": nil, "cacheWriteInputTokens": []int{1}}
	}
	u := reply.Usage
	if u == (conversation.Usage{}) {
		u = conversation.Usage{PromptTokens: 12, CompletionTokens: 3}
	}
	out := object{"inputTokens": u.PromptTokens - u.CacheReadTokens - u.CacheWriteTokens, "outputTokens": u.CompletionTokens,
		"totalTokens": u.PromptTokens + u.CompletionTokens}
	if u.CacheReadTokens > 0 || u.CacheWriteTokens > 0 {
		out["cacheReadInputTokens"], out["cacheWriteInputTokens"] = u.CacheReadTokens, u.CacheWriteTokens
	}
	return out
}

func sendStream(w http.ResponseWriter, reply llmtest.Reply, finish string) {
	st := newStream(w, reply.Fault == llmtest.SlowBytes)
	st.chatty = reply.Fault == llmtest.KeepAlives
	st.event("messageStart", object{"role": "assistant"})
	index := 0
	if reply.Reasoning != "" {
		for _, piece := range pieces(reply.Reasoning) {
			st.delta(index, object{"reasoningContent": object{"text": piece}})
		}
		if reply.Signature != "" {
			st.delta(index, object{"reasoningContent": object{"signature": reply.Signature}})
		}
		st.event("contentBlockStop", object{"contentBlockIndex": index})
		index++
	}
	if reply.Text != "" {
		for _, piece := range pieces(reply.Text) {
			st.text(index, piece)
		}
		st.event("contentBlockStop", object{"contentBlockIndex": index})
		index++
	}
	for _, c := range reply.Calls {
		st.event("contentBlockStart", object{"contentBlockIndex": index, "start": object{"toolUse": object{"toolUseId": c.ID, "name": c.Name}}})
		for _, piece := range pieces(c.Arguments) {
			st.delta(index, object{"toolUse": object{"input": piece}})
		}
		st.event("contentBlockStop", object{"contentBlockIndex": index})
		index++
	}
	st.event("messageStop", object{"stopReason": finish})
	st.event("metadata", object{"usage": usage(reply), "metrics": object{"latencyMs": 7}})
}

// stream writes an event stream.
type stream struct {
	w      http.ResponseWriter
	out    *http.ResponseController
	enc    *eventstream.Encoder
	slow   bool // every byte in a packet of its own
	chatty bool // events that mean nothing between the others
}

func newStream(w http.ResponseWriter, slow bool) *stream {
	w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	w.Header().Set("X-Amzn-Requestid", "11111111-2222-3333-4444-555555555555")
	return &stream{w: w, out: http.NewResponseController(w), enc: eventstream.NewEncoder(), slow: slow}
}

func (st *stream) text(index int, s string) { st.delta(index, object{"text": s}) }

func (st *stream) delta(index int, delta object) {
	st.event("contentBlockDelta", object{"contentBlockIndex": index, "delta": delta})
}

// event writes an event, padded as the service pads it against guessing lengths.
func (st *stream) event(kind string, payload object) {
	if st.chatty {
		st.write(st.frame("event", ":event-type", "initial-response", nil))
		st.write(st.frame("event", ":event-type", "keepAlive", []byte(`{"p":"abcdefghij"}`)))
	}
	payload["p"] = "abcdefghijklmnop"
	body, err := content.Marshal(payload)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	st.write(st.frame("event", ":event-type", kind, body))
}

func (st *stream) exception(kind, message string) {
	body, err := content.Marshal(object{"message": message})
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	st.write(st.frame("exception", ":exception-type", kind, body))
}

func (st *stream) frame(messageType, typeHeader, kind string, payload []byte) []byte {
	return Frame(st.enc, messageType, typeHeader, kind, payload)
}

func (st *stream) write(raw []byte) {
	if !st.slow {
		_, _ = st.w.Write(raw)
		_ = st.out.Flush()
		return
	}
	for _, b := range raw {
		_, _ = st.w.Write([]byte{b})
		_ = st.out.Flush()
	}
}

// pieces cuts a text for streaming, between characters.
func pieces(s string) []string {
	const size = 24
	var out []string
	for len(s) > size {
		n := size
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		if n == 0 {
			n = size
		}
		out, s = append(out, s[:n]), s[n:]
	}
	return append(out, s)
}

// half is the first half of a text.
func half(s string) string {
	n := len(s) / 2
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
