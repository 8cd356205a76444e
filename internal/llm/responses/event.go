package responses

import (
	"encoding/json"
	"strings"

	"parley/internal/llm/failure"
	"parley/internal/llm/wire"
)

// event is one event of a stream. A member of another type than the API's reads
// as missing.
type event struct {
	Type         string          `json:"type"`
	OutputIndex  *int            `json:"output_index"`
	ItemID       string          `json:"item_id"`
	ContentIndex int             `json:"content_index"`
	SummaryIndex int             `json:"summary_index"`
	Delta        string          `json:"delta"`
	Text         string          `json:"text"`
	Refusal      string          `json:"refusal"`
	Arguments    string          `json:"arguments"`
	Item         json.RawMessage `json:"item"`
	Response     json.RawMessage `json:"response"`
	Error        json.RawMessage `json:"error"`
}

// result is a response object: what a whole answer is, and what the event holds
// that ends a stream.
type result struct {
	ID         string            `json:"id"`
	Object     string            `json:"object"`
	Status     string            `json:"status"`
	Output     []json.RawMessage `json:"output"`
	Usage      json.RawMessage   `json:"usage"`
	Error      json.RawMessage   `json:"error"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

// takeEvent adds an event. done means that the answer is complete. Errors are
// *llm.Error, or io.ErrUnexpectedEOF for half an event.
func (a *answer) takeEvent(name string, data []byte) (done bool, err error) {
	var ev event
	if data[0] != '{' || wire.Lenient(data, &ev) != nil {
		return false, wire.BrokenEvent(data)
	}
	if ev.Type == "" {
		ev.Type = name
	}
	switch ev.Type {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return true, a.takeResult(strings.TrimPrefix(ev.Type, "response."), ev.Response)
	case "error":
		return false, failure.Payload(data)
	case "response.created", "response.in_progress", "response.queued":
		a.takeID(ev.Response)
		return false, nil
	}
	if wire.IsError(ev.Error) {
		return false, failure.Payload(data)
	}
	return false, a.takePiece(&ev)
}

// takePiece adds an event of an item; unknown ones say nothing.
func (a *answer) takePiece(ev *event) error {
	switch ev.Type {
	case "response.output_item.added":
		return a.begin(ev)
	case "response.output_item.done":
		return a.finishItem(ev)
	case "response.output_text.delta", "response.refusal.delta":
		return a.on(ev, typeMessage, func(it *item) { a.say(it, ev.ContentIndex, ev.Delta) })
	case "response.output_text.done":
		return a.on(ev, typeMessage, func(it *item) { a.sayAll(it, ev.ContentIndex, ev.Text) })
	case "response.refusal.done":
		return a.on(ev, typeMessage, func(it *item) { a.sayAll(it, ev.ContentIndex, ev.Refusal) })
	case "response.reasoning_summary_text.delta":
		return a.on(ev, typeReasoning, func(it *item) { a.think(it, summaryPart(ev.SummaryIndex), ev.Delta) })
	case "response.reasoning_summary_text.done":
		return a.on(ev, typeReasoning, func(it *item) { a.thinkAll(it, summaryPart(ev.SummaryIndex), ev.Text) })
	case "response.reasoning_text.delta":
		return a.on(ev, typeReasoning, func(it *item) { a.think(it, contentPart(ev.ContentIndex), ev.Delta) })
	case "response.reasoning_text.done":
		return a.on(ev, typeReasoning, func(it *item) { a.thinkAll(it, contentPart(ev.ContentIndex), ev.Text) })
	case "response.function_call_arguments.delta":
		return a.on(ev, typeCall, func(it *item) { it.args = append(it.args, ev.Delta...) })
	case "response.function_call_arguments.done":
		return a.on(ev, typeCall, func(it *item) { it.setArguments(ev.Arguments) })
	}
	return nil
}
