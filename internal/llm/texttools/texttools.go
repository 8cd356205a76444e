// Package texttools decorates a model that has no native tool calling: the tools
// are described in its instructions, and it calls one by writing
//
//	<function=name>
//	<parameter=p>value</parameter>
//	</function>
//
// at the end of its message (agent protocol 4.12). Above it nothing of this is
// seen: requests have tools, answers have calls, and what is streamed is what the
// model says without the markup.
//
// A message has one call; what a model writes behind it is dropped, since it
// often is a result it made up. No stop word is needed, and a call that lacks
// its end is read. A text cannot hold the end mark of a parameter followed by
// another mark; everything else arrives as it was written.
package texttools

import (
	"context"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// Model is a model that calls tools in text. It is safe for concurrent use if
// the model below it is.
type Model struct{ next llm.Model }

var _ llm.Model = (*Model)(nil)

// New decorates a model.
func New(next llm.Model) *Model { return &Model{next: next} }

// Info implements llm.Model.
func (m *Model) Info() llm.Info {
	info := m.next.Info()
	info.NativeTools = false
	return info
}

// Do implements llm.Model. Without tools the history is told in text all the same.
func (m *Model) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	inner := *req
	inner.Tools, inner.Messages = nil, told(req.Messages)
	if len(req.Tools) == 0 {
		return m.next.Do(ctx, &inner)
	}
	inner.Messages = instructed(inner.Messages, describe(req.Tools))
	var shown *filter
	if req.OnDelta != nil {
		shown = &filter{onDelta: req.OnDelta}
		inner.OnDelta = shown.take
	}
	resp, err := m.next.Do(ctx, &inner)
	if err != nil {
		return nil, err
	}
	return understood(req, resp, shown), nil
}

// understood finds the call in an answer.
func understood(req *llm.Request, resp *llm.Response, shown *filter) *llm.Response {
	text := resp.Message.Text()
	said, c := parse(text, req.Tools, resp.FinishReason == "length")
	if len(resp.Message.ToolCalls) > 0 { // a native one, though none was offered
		said, c = text, nil
	}
	if shown != nil {
		shown.finish(said)
	}
	if c == nil {
		return resp
	}
	out := *resp
	out.FinishReason, out.Message.Parts = "tool_calls", nil
	if said != "" {
		out.Message.Parts = []content.Part{content.Text(said)}
	}
	out.Message.ToolCalls = []content.ToolCall{{ID: wire.FreshID("", wire.TakenIDs(req)), Name: c.name,
		Arguments: c.arguments, Origin: wire.OriginCompletion}}
	return &out
}
