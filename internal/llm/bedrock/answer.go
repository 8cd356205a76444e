package bedrock

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/wire"
)

// maxBlocks bounds the blocks of one answer.
const maxBlocks = 4096

var errTooManyBlocks = errors.New("the answer has more blocks than any model makes")

// kind is what a block of an answer is.
type kind uint8

const (
	textKind kind = iota
	callKind
	thoughtKind
)

// part is one block of an answer being put together.
type part struct {
	kind      kind
	text      []byte // text, arguments or thinking
	id, name  string // of a call
	signature []byte // of thinking
	redacted  []byte // thinking that cannot be read, base64
	raw       json.RawMessage
}

// answer gathers what a model says.
type answer struct {
	wire.Listener

	parts    []*part
	at       map[int]*part // by the number of the block in a stream
	finish   string        // the stop reason; "" = not yet
	usage    json.RawMessage
	spoke    *part // the last that said something
	mused    *part // the last that thought something
	complete bool  // a message came, if only an empty one
	events   bool  // it came as a stream
}

// wireEvent is the payload of any event of a stream.
type wireEvent struct {
	Index      int             `json:"contentBlockIndex"`
	Start      wireBlock       `json:"start"`
	Delta      wireBlock       `json:"delta"`
	StopReason string          `json:"stopReason"`
	Usage      json.RawMessage `json:"usage"`
}

// wireBlock is a block of a whole answer, the begin of one, or a piece.
type wireBlock struct {
	Text    *string `json:"text"`
	ToolUse *struct {
		ID    string          `json:"toolUseId"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	} `json:"toolUse"`
	Reasoning json.RawMessage `json:"reasoningContent"`
	Citations *struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"citationsContent"`
}

// wireReasoning is a block of thinking, or a piece of one.
type wireReasoning struct {
	Text      string `json:"text"`
	Signature string `json:"signature"`
	Redacted  string `json:"redactedContent"`
	Whole     *struct {
		Text      string `json:"text"`
		Signature string `json:"signature"`
	} `json:"reasoningText"`
}

// event adds an event of a stream. Kinds that are not known say nothing. Errors
// are *llm.Error.
func (a *answer) event(f frame) error {
	a.events = true
	switch f.event {
	case "messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata":
	default:
		return nil
	}
	var w wireEvent
	if err := json.Unmarshal(f.payload, &w); err != nil {
		return wire.Broken("the endpoint sent an event that cannot be read", f.payload, err)
	}
	if len(a.parts) >= maxBlocks {
		return &llm.Error{Class: llm.ClassNetwork, Err: errTooManyBlocks, Message: errTooManyBlocks.Error()}
	}
	a.complete = true
	switch f.event {
	case "contentBlockStart":
		if w.Start.ToolUse != nil {
			delete(a.at, w.Index) // a number that is used again means another block
			a.piece(w.Index, &w.Start)
		}
	case "contentBlockDelta":
		a.piece(w.Index, &w.Delta)
	case "messageStop":
		if a.finish = w.StopReason; a.finish == "" {
			a.finish = "end_turn"
		}
	case "metadata":
		a.usage = w.Usage
	}
	return nil
}

// piece adds the begin or a piece of the block with that number.
func (a *answer) piece(index int, w *wireBlock) {
	switch {
	case w.ToolUse != nil:
		p := a.open(index, callKind)
		if p.id == "" && p.name == "" {
			p.id, p.name = w.ToolUse.ID, w.ToolUse.Name
		}
		p.text = append(p.text, wire.ArgumentText(w.ToolUse.Input)...)
	case len(w.Reasoning) > 0:
		var r wireReasoning
		if json.Unmarshal(w.Reasoning, &r) == nil {
			a.think(a.open(index, thoughtKind), r)
		}
	case w.Text != nil:
		a.say(a.open(index, textKind), *w.Text)
	}
}

// open returns the block with that number, a new one if that is of another kind.
func (a *answer) open(index int, k kind) *part {
	if p := a.at[index]; p != nil && p.kind == k {
		return p
	}
	p := &part{kind: k}
	if a.at == nil {
		a.at = map[int]*part{}
	}
	a.at[index] = p
	a.parts = append(a.parts, p)
	return p
}

// say adds text. Blocks are joined by a newline, as content.JoinText does it.
func (a *answer) say(p *part, text string) {
	if text == "" {
		return
	}
	p.text = append(p.text, text...)
	if a.spoke != nil && a.spoke != p {
		text = "\n" + text
	}
	a.spoke = p
	a.Tell(llm.Delta{Text: text})
}

// think adds a piece of thinking.
func (a *answer) think(p *part, r wireReasoning) {
	if r.Whole != nil {
		r.Text, r.Signature = r.Text+r.Whole.Text, r.Signature+r.Whole.Signature
	}
	p.signature = append(p.signature, r.Signature...)
	p.redacted = append(p.redacted, r.Redacted...)
	if r.Text == "" {
		return
	}
	p.text = append(p.text, r.Text...)
	text := r.Text
	if a.mused != nil && a.mused != p {
		text = "\n" + text
	}
	a.mused = p
	a.Tell(llm.Delta{Reasoning: text})
}

// readWhole reads an answer that is one JSON document.
func readWhole(in io.Reader, a *answer) error {
	body, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	var w struct {
		Output struct {
			Message *struct {
				Content []json.RawMessage `json:"content"`
			} `json:"message"`
		} `json:"output"`
		StopReason string          `json:"stopReason"`
		Usage      json.RawMessage `json:"usage"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return wire.Broken("the endpoint sent something that is not an answer of Converse", body, err)
	}
	if w.Output.Message == nil {
		if o := wire.Object(body); o["message"] != nil || o["Message"] != nil || o["error"] != nil {
			return failure.Payload(body)
		}
		return &llm.Error{Class: llm.ClassNoResponse, Message: "the endpoint answered without a message"}
	}
	a.complete, a.finish, a.usage = true, w.StopReason, w.Usage
	for i, raw := range w.Output.Message.Content {
		if i >= maxBlocks {
			return &llm.Error{Class: llm.ClassNetwork, Err: errTooManyBlocks, Message: errTooManyBlocks.Error()}
		}
		if err := a.block(i, raw); err != nil {
			return err
		}
	}
	return nil
}

// block adds a block of a whole answer.
func (a *answer) block(index int, raw json.RawMessage) error {
	var w wireBlock
	if err := json.Unmarshal(raw, &w); err != nil {
		return wire.Broken("the endpoint sent a block that cannot be read", raw, err)
	}
	if w.Citations != nil {
		for _, c := range w.Citations.Content {
			a.say(a.open(index, textKind), c.Text)
		}
	}
	a.piece(index, &w)
	if len(w.Reasoning) > 0 && len(a.parts) > 0 {
		a.parts[len(a.parts)-1].raw = w.Reasoning
	}
	return nil
}

// response finishes the answer. Errors are *llm.Error.
func (m *Model) response(a *answer, req *llm.Request, names *legal, h http.Header) (*llm.Response, error) {
	resp := &llm.Response{ID: wire.ResponseID(h.Get("X-Amzn-Requestid"))}
	resp.Message = m.message(a, wire.TakenIDs(req), names)
	empty := len(resp.Message.Parts) == 0 && len(resp.Message.ToolCalls) == 0
	if err := endedBadly(a, empty); err != nil {
		return nil, err
	}
	resp.FinishReason = finishReason(a.finish, len(resp.Message.ToolCalls) > 0)
	counts, known := m.counts(a)
	resp.Usage, resp.Cost = m.cfg.Account(counts, resp.ID, known, nil)
	return resp, nil
}

// message puts the blocks into a message.
func (m *Model) message(a *answer, taken map[string]bool, names *legal) content.Message {
	msg := content.Message{Role: content.RoleAssistant}
	var layout []placed
	var thoughts []string
	texts, signed := 0, false
	for _, p := range a.parts {
		switch p.kind {
		case textKind:
			if len(p.text) == 0 {
				continue
			}
			msg.Parts = append(msg.Parts, content.Text(string(p.text)))
			if len(bytes.TrimSpace(p.text)) > 0 { // a blank text will not be sent back
				n := texts
				layout = append(layout, placed{Part: &n})
				texts++
			}
		case callKind:
			c := p.call(taken, names)
			msg.ToolCalls = append(msg.ToolCalls, c)
			layout = append(layout, placed{Call: c.ID})
		case thoughtKind:
			if len(p.text) > 0 {
				thoughts = append(thoughts, string(p.text))
			}
			if raw := p.replay(); raw != nil {
				signed = true
				layout = append(layout, placed{Reasoning: raw})
			}
		}
	}
	msg.Reasoning = strings.Join(thoughts, "\n")
	if signed {
		if raw, err := content.Marshal(layout); err == nil {
			msg.Extra = wire.Mark(map[string]json.RawMessage{extraKey: raw}, m.source)
		}
	}
	return msg
}

func (p *part) call(taken map[string]bool, names *legal) content.ToolCall {
	args := string(p.text)
	if strings.TrimSpace(args) == "" {
		args = "{}"
	}
	return content.ToolCall{ID: wire.FreshID(p.id, taken), Name: names.original(p.name), Arguments: args, Origin: wire.OriginCompletion}
}

// replay is the block as it is sent back: as it came, where it came whole. nil =
// it is not signed, and models refuse what they did not sign.
func (p *part) replay() json.RawMessage {
	switch {
	case len(p.signature) == 0 && len(p.redacted) == 0:
		return nil
	case p.raw != nil:
		return p.raw
	}
	var v any = map[string]any{"redactedContent": string(p.redacted)}
	if len(p.signature) > 0 {
		v = map[string]any{"reasoningText": struct {
			Text      string `json:"text"`
			Signature string `json:"signature"`
		}{string(p.text), string(p.signature)}}
	}
	raw, err := content.Marshal(v)
	if err != nil {
		return nil
	}
	return raw
}

// endedBadly reports a stop reason that is an error. A filtered answer that has
// text or calls is still an answer.
func endedBadly(a *answer, empty bool) error {
	switch {
	case a.finish == "malformed_model_output" || a.finish == "malformed_tool_use":
		return &llm.Error{Class: llm.ClassNoResponse, Message: "the model wrote something that Bedrock cannot read: " + a.finish}
	case !empty:
		return nil
	case a.finish == "content_filtered" || a.finish == "guardrail_intervened":
		return &llm.Error{Class: llm.ClassContentPolicy, Message: "the provider's content filter stopped the answer"}
	case a.finish == "model_context_window_exceeded":
		return &llm.Error{Class: llm.ClassContext, Message: "the conversation fills the model's context window"}
	case len(a.parts) == 0 && a.finish != "max_tokens":
		return &llm.Error{Class: llm.ClassNoResponse, Message: "the model answered without content"}
	}
	return nil
}

// finishReason maps the API's words to the names of llm.Response.
func finishReason(reason string, hasCalls bool) string {
	switch reason {
	case "", "end_turn", "stop_sequence", "tool_use":
		if hasCalls {
			return "tool_calls"
		}
		return "stop"
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "content_filtered", "guardrail_intervened":
		return "content_filter"
	}
	return reason
}

// counts reads the usage. The API counts cached tokens apart from the others,
// except in streams of OpenAI's models, where they are part of them.
func (m *Model) counts(a *answer) (wire.Counts, bool) {
	o := wire.Object(a.usage)
	if len(o) == 0 {
		return wire.Counts{}, false
	}
	c := wire.Counts{Completion: wire.Count(o["outputTokens"]),
		Read:  wire.Count(o["cacheReadInputTokens"], o["cacheReadInputTokenCount"]),
		Write: wire.Count(o["cacheWriteInputTokens"], o["cacheWriteInputTokenCount"])}
	c.Prompt = wire.Count(o["inputTokens"])
	if included := a.events && m.family.vendor == openai && c.Prompt >= c.Read+c.Write; !included {
		c.Prompt += c.Read + c.Write
	}
	return c, true
}
