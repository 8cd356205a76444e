package anthropic

import (
	"bytes"
	"encoding/json"
	"io"

	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/wire"
)

// event is one event of a stream. Events have different members; those of the
// wrong type are left empty.
type event struct {
	Type    string          `json:"type"`
	Index   int             `json:"index"`
	Message *wireAnswer     `json:"message"`
	Block   json.RawMessage `json:"content_block"`
	Delta   struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Thinking    string `json:"thinking"`
		Signature   string `json:"signature"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Usage json.RawMessage `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// wireAnswer is a whole answer, or what is known of it when a stream begins.
type wireAnswer struct {
	Type       string            `json:"type"`
	ID         string            `json:"id"`
	Content    []json.RawMessage `json:"content"`
	StopReason string            `json:"stop_reason"`
	Usage      json.RawMessage   `json:"usage"`
	Error      json.RawMessage   `json:"error"`
}

// answer gathers what a model says.
type answer struct {
	wire.Speech
	keepUnsigned bool // thinking without a signature goes back too

	id    string
	parts []*part
	stop  string
	usage usage
	begun bool // it is an answer of this API
}

// takeWhole reads a whole answer. Errors are *llm.Error.
func (a *answer) takeWhole(body []byte) error {
	var w wireAnswer
	if err := wire.Lenient(body, &w); err != nil {
		return wire.Broken("the endpoint sent something that is not a message", body, err)
	}
	if w.Type == "error" || !wire.IsNull(w.Error) {
		return failure.Payload(body)
	}
	a.begin(&w)
	a.stop = w.StopReason
	for i, raw := range w.Content {
		if err := a.start(i, raw); err != nil {
			return err
		}
	}
	return nil
}

func (a *answer) begin(w *wireAnswer) {
	a.begun = true
	if a.id == "" {
		a.id = w.ID
	}
	a.usage.take(w.Usage)
}

// takeEvent reads an event of a stream and reports whether it is the last one.
// Errors are *llm.Error or of the connection.
func (a *answer) takeEvent(name string, data []byte) (done bool, err error) {
	var e event
	if err := wire.Lenient(data, &e); err != nil {
		return false, wire.BrokenEvent(data)
	}
	if e.Type == "" {
		e.Type = name
	}
	if e.Type == "error" || !wire.IsNull(e.Error) {
		return false, failure.Payload(data)
	}
	switch e.Type {
	case "message_start":
		if e.Message != nil {
			a.begin(e.Message)
		}
	case "content_block_start":
		a.begun = true
		return false, a.start(e.Index, e.Block)
	case "content_block_delta":
		return false, a.takeDelta(&e)
	case "content_block_stop":
		if p := a.part(e.Index); p != nil {
			p.closed = true
		}
	case "message_delta":
		a.usage.take(e.Usage)
		if e.Delta.StopReason != "" {
			a.stop = e.Delta.StopReason
		}
	case "message_stop":
		return true, nil
	}
	return false, nil // pings, and kinds that are newer than this
}

// whole checks an answer whose stream ended in order: without a stop reason, a
// call that was never closed is half a call.
func (a *answer) whole() error {
	if a.stop != "" {
		return nil
	}
	for _, p := range a.parts {
		if p.kind == typeToolUse && !p.closed && !wire.IsObject(p.buf) {
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}

// response finishes the answer. Errors are *llm.Error.
func (m *Model) response(a *answer, req *llm.Request, ttl bool) (*llm.Response, error) {
	calls := a.calls(req)
	finish := finishReason(a.stop, len(calls) > 0)
	if err := a.endedBadly(finish, len(calls)); err != nil {
		return nil, err
	}
	resp := &llm.Response{ID: wire.ResponseID(a.id), FinishReason: finish, Message: a.Message()}
	resp.Message.ToolCalls, resp.Message.Extra = calls, wire.Mark(a.extra(), m.source)
	resp.Usage, resp.Cost = m.account(a.usage, resp.ID, ttl)
	resp.Reported = a.usage.cost != nil
	return resp, nil
}

// endedBadly reports an end that is an error. An answer that was stopped but has
// text or calls is still an answer.
func (a *answer) endedBadly(finish string, calls int) error {
	empty := calls == 0 && len(bytes.TrimSpace(a.Text)) == 0
	switch {
	case !a.begun:
		return &llm.Error{Class: llm.ClassNoResponse, Message: "the endpoint answered without a message"}
	case !empty:
		return nil
	case finish == "content_filter":
		return &llm.Error{Class: llm.ClassContentPolicy, Message: "the provider's safety system refused to answer"}
	case a.stop == "model_context_window_exceeded":
		return &llm.Error{Class: llm.ClassContext, Message: "the conversation fills the model's context window"}
	case finish != "length" && a.silent():
		return &llm.Error{Class: llm.ClassNoResponse, Message: "the model answered with nothing"}
	}
	return nil
}

// silent reports whether the answer has nothing but blank text.
func (a *answer) silent() bool {
	for _, p := range a.parts {
		if p.kind != typeText {
			return false
		}
	}
	return true
}

// finishReason maps the API's names to those of llm.Response.
func finishReason(reason string, hasCalls bool) string {
	switch reason {
	case "", "end_turn", "stop_sequence", "tool_use", "pause_turn":
		if hasCalls {
			return "tool_calls"
		}
		return "stop"
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "refusal":
		return "content_filter"
	}
	return reason
}
