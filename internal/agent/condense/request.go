package condense

import (
	_ "embed"
	"fmt"
	"strings"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/llm"
)

//go:embed prompt.md
var promptText string

// Bounds of a request for a summary.
const (
	maxEntry   = 10_000  // bytes of one event in the first attempt
	leastEntry = 200     // bytes; below, events are left out instead of shortened further
	maxText    = 400_000 // bytes of all events
	leastText  = 2_000
	keptText   = 6_000  // bytes of the events that stay
	maxAnswer  = 16_384 // tokens, thought included
	leastWords = 100
	maxWords   = 2_000 // that are asked for
	framing    = 64    // bytes around an entry, about; titles are bounded too
	// densest is how many bytes a token is taken to have in a prompt whose size the
	// provider has not refused yet.
	densest = 3
)

// Weights of the events in the room that there is.
const (
	weightUser    = 4
	weightSummary = 8
	weightOther   = 1
)

// bounds say how large a request may be.
type bounds struct {
	entry  int   // bytes of one event
	text   int   // bytes of all
	answer int64 // tokens
}

// boundsOf are the bounds for a model that takes so many tokens; 0 = unknown.
func boundsOf(window int64) bounds {
	b := bounds{entry: maxEntry, text: maxText, answer: maxAnswer}
	if window > 0 {
		b.answer = max(min(maxAnswer, window/4), 256)
		room := (window-b.answer)*densest - int64(len(promptText)) - keptText
		b.text = int(min(max(room, leastText), maxText))
	}
	return b
}

// words is how long the summary should be.
func (b bounds) words() int64 { return min(max(b.answer/4, leastWords), maxWords) }

// request asks for a summary of events; kept are those that stay before it.
func request(kept, events []conversation.Payload, b bounds) *llm.Request {
	var text strings.Builder
	if entries := entriesOf(kept); len(entries) > 0 {
		writeEntries(&text, "stays: ", entries, min(keptText, b.text), b.entry)
	}
	writeEntries(&text, "", entriesOf(events), b.text, b.entry)
	fmt.Fprintf(&text, "\nThis is the end of the list. Write the summary now, in at most %d words.", b.words())
	return &llm.Request{MaxOutput: b.answer, Messages: []content.Message{
		{Role: content.RoleSystem, Parts: []content.Part{content.Text(strings.TrimSpace(promptText))}},
		{Role: content.RoleUser, Parts: []content.Part{content.Text(text.String())}}}}
}

func entriesOf(events []conversation.Payload) []entry {
	out := make([]entry, 0, len(events))
	for _, p := range events {
		if !isPrompt(p) {
			out = append(out, entryOf(p))
		}
	}
	return out
}

// writeEntries writes entries in about so many bytes. Where there are too many of
// them, the oldest are left out; the user's own and the summaries last.
func writeEntries(b *strings.Builder, kind string, entries []entry, budget, most int) {
	shown := pick(entries, budget/(leastEntry+framing))
	sizes, weights := make([]int, len(shown)), make([]int, len(shown))
	for i, at := range shown {
		sizes[i] = min(len(entries[at].text), times(entries[at].weight(), most))
		weights[i] = entries[at].weight()
	}
	room := share(sizes, weights, max(budget-framing*len(shown), 0))
	before := none
	for i, at := range shown {
		if n := at - before - 1; n > 0 {
			fmt.Fprintf(b, "[%d entries are left out here]\n\n", n)
		}
		e := entries[at]
		fmt.Fprintf(b, "[%d %s%s]\n%s\n%s\n%s\n\n", at+1, kind, e.title, fence, bounded(e.text, room[i]), fence)
		before = at
	}
}

// bounded makes a text safe between fences and so short. It is cut first, because
// making it safe looks at every byte, and again, because that may lengthen it.
func bounded(text string, most int) string { return Clip(quote(Clip(text, most)), most) }

func (e entry) weight() int {
	switch {
	case e.title == summaryTitle:
		return weightSummary
	case e.user:
		return weightUser
	}
	return weightOther
}

// pick chooses at most n entries, in order: the newest, but up to a half of them
// are the newest of the user's words and the summaries, wherever they are.
func pick(entries []entry, n int) []int {
	if len(entries) <= n {
		return countTo(len(entries))
	}
	chosen := make([]bool, len(entries))
	left := n
	for i := len(entries) - 1; i >= 0 && left > n/2; i-- {
		if entries[i].weight() > weightOther {
			chosen[i] = true
			left--
		}
	}
	for i := len(entries) - 1; i >= 0 && left > 0; i-- {
		if !chosen[i] {
			chosen[i] = true
			left--
		}
	}
	var out []int
	for i, c := range chosen {
		if c {
			out = append(out, i)
		}
	}
	return out
}

func countTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
