package condense

import (
	"strings"

	"parley/internal/conversation"
)

// summarySuffix makes the id of a condensation's summary of that of the condensation.
const summarySuffix = "-summary"

// View returns the events of a branch that the model reads, in order: the
// condensations of the branch applied one after another, what is no model's
// business left out, and results that answer nothing too. Its elements are system
// prompts, messages, actions, their results, and CondensationSummaryEvents. The
// path is not changed, and the view of a view is that view.
//
// A condensation that names a part of an answer's calls and results means all of
// them, because providers refuse the rest. One that names a system prompt, unknown
// ids, or a place beyond the end is carried out as far as that makes sense.
func View(path []conversation.Payload) []conversation.Payload {
	var view []conversation.Payload
	for _, p := range path {
		if c, ok := p.(*conversation.Condensation); ok {
			view = apply(view, c)
		} else if readable(p) {
			view = append(view, p)
		}
	}
	view, _ = settle(view)
	return view
}

// readable reports whether a model reads events of this kind.
func readable(p conversation.Payload) bool {
	switch p.(type) {
	case *conversation.SystemPromptEvent, *conversation.MessageEvent, *conversation.ActionEvent,
		*conversation.CondensationSummaryEvent:
		return true
	}
	_, ok := resultOf(p)
	return ok
}

// settle leaves out the results that answer no call. The ties are those of what is left.
func settle(view []conversation.Payload) ([]conversation.Payload, []Tie) {
	ties := Ties(view)
	out := make([]conversation.Payload, 0, len(view))
	for i, p := range view {
		if _, ok := resultOf(p); !ok || ties[i].Peer != none {
			out = append(out, p)
		}
	}
	if len(out) != len(view) {
		ties = Ties(out)
	}
	return out, ties
}

// apply carries out one condensation. Its offset counts the events that it does
// not name, whatever else goes with those it names.
func apply(view []conversation.Payload, c *conversation.Condensation) []conversation.Payload {
	view, ties := settle(view)
	named, gone := forgotten(view, ties, c)
	summary, after := summaryOf(c, named)
	out := make([]conversation.Payload, 0, len(view)+1)
	for i, p := range view {
		if summary != nil && after <= 0 {
			out, summary = append(out, summary), nil
		}
		if !named[i] {
			after--
		}
		if !gone[i] {
			out = append(out, p)
		}
	}
	if summary != nil {
		out = append(out, summary)
	}
	return out
}

// forgotten returns which events a condensation names, and which go.
func forgotten(view []conversation.Payload, ties []Tie, c *conversation.Condensation) (named, gone []bool) {
	ids := make(map[string]bool, len(c.ForgottenIDs))
	for _, id := range c.ForgottenIDs {
		ids[id] = true
	}
	named, gone = make([]bool, len(view)), make([]bool, len(view))
	broken := map[int]bool{} // batches
	for i, p := range view {
		if named[i] = ids[conversation.HeaderOf(p).ID]; named[i] && ties[i].Batch != none {
			broken[ties[i].Batch] = true
		}
	}
	for i, p := range view {
		gone[i] = (named[i] || broken[ties[i].Batch]) && !isPrompt(p)
	}
	return named, gone
}

func isPrompt(p conversation.Payload) bool {
	_, ok := p.(*conversation.SystemPromptEvent)
	return ok
}

// summaryOf returns the event that stands for the summary, nil if there is none,
// and after how many of the events that are not named it stands. Without a word
// about that, it stands where the first forgotten event stood.
func summaryOf(c *conversation.Condensation, named []bool) (summary conversation.Payload, after int) {
	if strings.TrimSpace(c.Summary) == "" {
		return nil, 0
	}
	if c.SummaryOffset != nil {
		after = *c.SummaryOffset
	} else {
		for after < len(named) && !named[after] {
			after++
		}
	}
	return &conversation.CondensationSummaryEvent{Header: conversation.Header{Kind: conversation.KindCondenseSummary,
		ID: c.ID + summarySuffix, Timestamp: c.Timestamp, Source: conversation.SourceEnvironment}, Summary: c.Summary}, after
}

// Requested reports whether a branch ends with a request for a condensation that
// none has followed yet.
func Requested(path []conversation.Payload) bool {
	for i := len(path) - 1; i >= 0; i-- {
		switch path[i].(type) {
		case *conversation.CondensationRequest:
			return true
		case *conversation.Condensation:
			return false
		}
	}
	return false
}

// Tries is how many condensations a branch has behind the last answer of the model.
func Tries(path []conversation.Payload) int {
	n := 0
	for i := len(path) - 1; i >= 0; i-- {
		switch e := path[i].(type) {
		case *conversation.Condensation:
			n++
		case *conversation.ActionEvent:
			return n
		case *conversation.MessageEvent:
			if e.Source == conversation.SourceAgent {
				return n
			}
		}
	}
	return n
}
