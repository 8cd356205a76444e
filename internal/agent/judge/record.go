package judge

import (
	"cmp"
	"fmt"
	"slices"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/tool"
)

// Bounds of what is shown of one event, in bytes.
const (
	maxText   = 4_000
	maxWords  = 8_000 // of messages and of what the agent says when it finishes
	maxEarly  = 1_000 // of a user's message among the events that are left out
	earlyPart = 4     // the part of the record, 1/4, that such messages may take
	textPart  = 16    // the parts that one text and one message may take: escaped, a text
	wordsPart = 6     // may be twice as long, and the newest event must fit
)

// renderer shortens what it shows of an event.
type renderer struct{ text, words int }

func newRenderer(limit int) renderer {
	return renderer{min(maxText, limit/textPart), min(maxWords, limit/wordsPart)}
}

func (r renderer) clip(s string) string { return clip(clean(s), r.text) }

// entry is one line of the record. JSON keeps its text apart from the lines around
// it, whatever the text is.
type entry struct {
	From  string `json:"from"` // user, agent, tool, server
	Tool  string `json:"tool,omitempty"`
	Says  string `json:"says,omitempty"`
	Calls string `json:"arguments,omitempty"`
	Got   string `json:"result,omitempty"`
	Error bool   `json:"error,omitempty"`
}

func (e entry) line() string {
	b, err := content.Marshal(e)
	if err != nil { // texts and a truth value always encode
		return "{}"
	}
	return string(b)
}

// render writes the newest events that fit into so many bytes, oldest first. Of
// those that do not fit, the newest summary and what the user said stay.
func render(path []conversation.Payload, limit int) []string {
	r := newRenderer(limit)
	early := limit / earlyPart
	left := limit - early
	var lines []string
	i := len(path) - 1
	for ; i >= 0; i-- {
		e, ok := r.entry(path[i])
		if !ok {
			continue
		}
		line := e.line()
		if len(line)+1 > left {
			break
		}
		left -= len(line) + 1
		lines = append(lines, line)
	}
	slices.Reverse(lines)
	if i < 0 {
		return lines
	}
	return append(r.beginning(path[:i+1], early), lines...)
}

// beginning writes what stays of the events that are left out.
func (r renderer) beginning(path []conversation.Payload, limit int) []string {
	var lines []string
	count, summed := 0, false
	add := func(e entry) {
		if line := e.line(); len(line)+1 <= limit {
			limit -= len(line) + 1
			lines = append(lines, line)
		}
	}
	for _, p := range slices.Backward(path) {
		switch e := p.(type) {
		case *conversation.Condensation:
			if !summed && e.Summary != "" {
				summed = true
				add(entry{From: "server", Says: "Summary of the events before this: " + r.clip(e.Summary)})
			}
		case *conversation.MessageEvent:
			if e.Source == conversation.SourceUser && said(e) != "" {
				add(entry{From: "user", Says: clip(said(e), min(maxEarly, r.text))})
			}
		}
		if isWork(p) {
			count++
		}
	}
	lines = append(lines, entry{From: "server", Says: fmt.Sprintf("%d earlier events are left out here, but for what the lines below show of them.", count)}.line())
	slices.Reverse(lines)
	return lines
}

// entry renders an event, false if it says nothing about the work.
func (r renderer) entry(p conversation.Payload) (entry, bool) {
	switch e := p.(type) {
	case *conversation.MessageEvent:
		return r.message(e)
	case *conversation.ActionEvent:
		return entry{From: "agent", Tool: short(e.ToolName), Says: r.clip(content.JoinText(e.Thought)),
			Calls: clip(clean(cmp.Or(e.ToolCall.Arguments, string(e.Action))), r.bound(e))}, true
	case *conversation.ObservationEvent:
		parts := append(tool.ModelParts(e.Observation), e.ExtendedContent...)
		return entry{From: "tool", Tool: short(e.ToolName), Got: r.clip(words(parts)), Error: isError(e.Observation)}, true
	case *conversation.UserRejectObservation:
		return entry{From: "user", Tool: short(e.ToolName), Says: "Rejected this call: " + r.clip(e.RejectionReason), Error: true}, true
	case *conversation.AgentErrorEvent:
		return entry{From: "tool", Tool: short(e.ToolName), Got: r.clip(e.Error), Error: true}, true
	case *conversation.ConversationErrorEvent:
		return entry{From: "server", Says: r.clip("The run was stopped: " + e.Detail), Error: true}, true
	}
	return entry{}, false
}

// isWork reports whether an event is one that entry renders, most likely.
func isWork(p conversation.Payload) bool {
	switch p.(type) {
	case *conversation.MessageEvent, *conversation.ActionEvent, *conversation.ObservationEvent,
		*conversation.UserRejectObservation, *conversation.AgentErrorEvent, *conversation.ConversationErrorEvent:
		return true
	}
	return false
}

func (r renderer) message(e *conversation.MessageEvent) (entry, bool) {
	from := "server"
	switch e.Source {
	case conversation.SourceUser:
		from = "user"
	case conversation.SourceAgent:
		from = "agent"
	}
	text := said(e)
	return entry{From: from, Says: clip(text, r.words)}, text != ""
}

func said(e *conversation.MessageEvent) string { return words(e.LLMMessage.Content) }

// bound bounds a call's arguments: what a finishing agent says is all in them.
func (r renderer) bound(e *conversation.ActionEvent) int {
	if e.ToolName == toolFinish {
		return r.words
	}
	return r.text
}

func short(name string) string { return clip(clean(name), 100) }

// words renders parts as text, an image as the word.
func words(parts []content.Part) string {
	shown := make([]content.Part, len(parts))
	for i, p := range parts {
		if p.Type == content.TypeImage {
			p = content.Text("[image]")
		}
		shown[i] = p
	}
	return clean(content.JoinText(shown))
}
