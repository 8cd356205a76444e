package openai

import (
	"encoding/json"
	"net/http"
	"strings"

	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/wire"
)

// wireAnswer is a whole answer or one chunk of a stream: the same members, with
// message or delta.
type wireAnswer struct {
	ID      json.RawMessage `json:"id"`
	Choices []struct {
		Index        json.RawMessage            `json:"index"`
		Delta        map[string]json.RawMessage `json:"delta"`
		Message      map[string]json.RawMessage `json:"message"`
		FinishReason json.RawMessage            `json:"finish_reason"`
		Error        json.RawMessage            `json:"error"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
	Error json.RawMessage `json:"error"`
	Groq  json.RawMessage `json:"x_groq"`
}

// answer gathers what a model says.
type answer struct {
	wire.Speech

	id      string
	calls   assembler
	extra   extras
	finish  string
	usage   usage
	choices bool // there was at least one choice
}

// take adds a chunk or a whole answer. Errors are *llm.Error.
func (a *answer) take(raw []byte) error {
	var w wireAnswer
	if err := json.Unmarshal(raw, &w); err != nil {
		return wire.Broken("the endpoint sent something that is not a chat completion", raw, err)
	}
	groq := wire.Object(w.Groq)
	for _, e := range []json.RawMessage{w.Error, groq["error"]} {
		if wire.IsError(e) {
			return failure.Payload([]byte(`{"error":` + string(e) + `}`))
		}
	}
	if a.id == "" {
		a.id = wire.Text(w.ID)
	}
	for _, u := range []json.RawMessage{w.Usage, groq["usage"]} {
		if got := readUsage(u); got.known {
			a.usage = got
		}
	}
	return a.takeChoices(&w)
}

func (a *answer) takeChoices(w *wireAnswer) error {
	for _, c := range w.Choices {
		if n, ok := wire.Number(c.Index); ok && n != 0 {
			continue // we ask for one choice
		}
		if wire.IsError(c.Error) {
			return failure.Payload([]byte(`{"error":` + string(c.Error) + `}`))
		}
		a.choices = true
		if c.Delta != nil {
			if err := a.takeMessage(c.Delta, a.calls.add); err != nil {
				return err
			}
		} else if c.Message != nil && a.empty() {
			if err := a.takeMessage(c.Message, a.calls.addWhole); err != nil {
				return err
			}
		}
		if f := wire.Text(c.FinishReason); f != "" && f != "null" {
			a.finish = f
		}
	}
	return nil
}

func (a *answer) empty() bool {
	return len(a.Text) == 0 && len(a.Reasoning) == 0 && len(a.calls.calls) == 0
}

// takeMessage adds a message or a delta of one.
func (a *answer) takeMessage(msg map[string]json.RawMessage, addCall func(callDelta) error) error {
	said, thought := contentText(msg["content"])
	said += wire.Text(msg["refusal"]) // a refusal is what the model has to say
	if t := wire.Text(msg["reasoning_content"]); t != "" {
		thought += t
	} else {
		thought += wire.Text(msg["reasoning"])
	}
	a.Say(said, thought)
	var calls []callDelta
	if raw := msg["tool_calls"]; !wire.IsNull(raw) {
		if err := json.Unmarshal(raw, &calls); err != nil {
			return &llm.Error{Class: llm.ClassNetwork, Err: err, Message: "the endpoint sent tool calls that cannot be read"}
		}
	}
	for _, c := range calls {
		if err := addCall(c); err != nil {
			return &llm.Error{Class: llm.ClassNetwork, Err: err, Message: err.Error()}
		}
	}
	for key, raw := range msg {
		if !isKnown(key) {
			a.extra.add(key, raw)
		}
	}
	return nil
}

// whole reports an answer that ends in order but inside a call: without a finish
// reason nobody says that it is meant so. Errors are *llm.Error.
func (a *answer) whole() error {
	if n := len(a.calls.calls); a.finish == "" && n > 0 {
		if last := a.calls.calls[n-1]; len(last.args) > 0 && !wire.IsObject(last.args) {
			return wire.Broken("the endpoint ended its answer in the middle of a tool call", last.args, nil)
		}
	}
	return nil
}

// response finishes the answer. Errors are *llm.Error.
func (m *Model) response(a *answer, req *llm.Request, h http.Header) (*llm.Response, error) {
	if !a.choices {
		return nil, &llm.Error{Class: llm.ClassNoResponse, Message: "the endpoint answered without a choice"}
	}
	calls := a.calls.finish(wire.TakenIDs(req))
	finish := finishReason(a.finish, len(calls) > 0)
	if err := endedBadly(a, finish); err != nil {
		return nil, err
	}
	resp := &llm.Response{ID: wire.ResponseID(a.id), FinishReason: finish, Message: a.Message()}
	resp.Message.Extra = wire.Mark(withCalls(a.extra.raw(), calls), m.source())
	for _, c := range calls {
		resp.Message.ToolCalls = append(resp.Message.ToolCalls, c.content())
	}
	if a.usage.cost == nil {
		a.usage.cost = wire.HeaderCost(h)
	}
	resp.Usage, resp.Cost = m.cfg.Account(a.usage.Counts, resp.ID, a.usage.known, a.usage.cost)
	resp.Reported = a.usage.cost != nil
	return resp, nil
}

// endedBadly reports a finish reason that is an error. A filtered answer that
// has text or calls is still an answer.
func endedBadly(a *answer, finish string) error {
	switch finish {
	case "content_filter":
		if a.empty() {
			return &llm.Error{Class: llm.ClassContentPolicy, Message: "the provider's content filter stopped the answer"}
		}
	case "error", "network_error", "insufficient_system_resource":
		return &llm.Error{Class: llm.ClassOverloaded, Message: "the provider broke off the answer: " + finish}
	}
	return nil
}

// finishReason maps the dialects to the names of llm.Response.
func finishReason(reason string, hasCalls bool) string {
	switch strings.ToLower(reason) {
	case "", "stop", "eos", "end_turn", "function_call", "tool_calls", "tool_use":
		if hasCalls {
			return "tool_calls"
		}
		return "stop"
	case "length", "max_tokens", "model_length", "max_output_tokens":
		return "length"
	case "content_filter", "safety", "sensitive", "prohibited_content", "refusal":
		return "content_filter"
	}
	return reason
}
