package condense

import (
	"slices"
	"strings"
	"time"

	"parley/internal/conversation"
)

// notice opens what a fallback says.
const notice = "Older events were left out because they did not fit into what you can read, and no summary could be made of them. " +
	"Below is what could be kept of them, shortened. Files and programs are as you left them: before you go on, look up what you need " +
	"(the task list, changed files, version control, output files) instead of guessing."

// shortNotice is the notice of a digest that has no room for it.
const shortNotice = "Older events were left out because they did not fit. Look up in files what you need."

// leastDigest is the smallest budget of a digest that is worth having, in bytes.
const leastDigest = 256

// Bounds of the parts of a digest.
const (
	recentEvents = 24  // at most
	recentText   = 600 // bytes of one of them
	userPieceMax = 200 // messages
	openText     = 200 // bytes of one open call
	leastPiece   = 40  // bytes; shorter ones say nothing
)

// Fallback forgets everything but the system prompt, without a model. In its place
// comes a digest of at most so many bytes, and at least one sentence: the user's
// words, the last summary, the last actions and results, and the calls that are
// open. The id of the Condensation is new, its time is not set.
func Fallback(view []conversation.Payload, budget int) *conversation.Condensation {
	return condensation(idsOf(view), 0, digest(view, max(budget, leastDigest)), "")
}

func condensation(ids []string, offset int, summary, responseID string) *conversation.Condensation {
	return &conversation.Condensation{
		Header:       conversation.Head(conversation.KindCondensation, conversation.SourceEnvironment, time.Time{}),
		ForgottenIDs: ids, Summary: summary, SummaryOffset: &offset, LLMResponseID: responseID}
}

// emptyCondensation forgets nothing: it answers a request.
func emptyCondensation() *conversation.Condensation {
	c := condensation(nil, 0, "", "")
	c.SummaryOffset = nil
	return c
}

// section is a part of a digest: pieces in the order of their importance.
type section struct {
	title    string
	weight   int
	pieces   []string
	reversed bool // the pieces are written the other way round
}

// digest says in so many bytes what can be said of a view.
func digest(view []conversation.Payload, budget int) string {
	sections := slices.DeleteFunc([]section{
		{title: "What the user said, the newest first:", weight: 9, pieces: userPieces(view, budget)},
		{title: "Summary of what was before:", weight: 5, pieces: summaryPieces(view, budget)},
		{title: "What was done last:", weight: 5, pieces: recentPieces(view), reversed: true},
		{title: "Calls without a result; it is not known what they did:", weight: 1, pieces: openPieces(view)},
	}, func(s section) bool { return len(s.pieces) == 0 })
	out := notice
	if budget < 4*len(notice) {
		out = shortNotice
	}
	sizes, weights := make([]int, len(sections)), make([]int, len(sections))
	for i, s := range sections {
		sizes[i], weights[i] = s.size(), s.weight
	}
	for i, room := range share(sizes, weights, budget-len(out)) {
		out += sections[i].write(room)
	}
	return out
}

// size is how long the section would be in full.
func (s section) size() int {
	n := len(s.heading())
	for _, p := range s.pieces {
		n += len(p) + 1
	}
	return n
}

// heading is the title with the lines around it.
func (s section) heading() string { return "\n\n" + s.title + "\n" }

// write renders the section in at most so many bytes, "" if that is too few. Each
// piece but the last may take a half of what is left, so that the next ones have
// something too.
func (s section) write(room int) string {
	heading := s.heading()
	room -= len(heading)
	wanted := s.size() - len(heading)
	var out []string
	for i, p := range s.pieces {
		most := room - 1
		if wanted > room && i < len(s.pieces)-1 {
			most /= 2
		}
		if most < min(leastPiece, len(p)) {
			break
		}
		wanted -= len(p) + 1
		p = clipInline(p, most)
		room -= len(p) + 1
		out = append(out, p)
	}
	if len(out) == 0 {
		return ""
	}
	if s.reversed {
		slices.Reverse(out)
	}
	return heading + strings.Join(out, "\n")
}

// userPieces are the user's words: the newest message, the first one, which has the
// task, and then the others from the newest on.
func userPieces(view []conversation.Payload, most int) []string {
	var said []*conversation.MessageEvent
	for _, p := range slices.Backward(view) {
		if m, ok := p.(*conversation.MessageEvent); ok && m.Source == conversation.SourceUser {
			said = append(said, m)
		}
	}
	marks := make([]string, len(said))
	if n := len(said); n > 2 {
		said = slices.Insert(said[:n-1], 1, said[n-1])
		marks[1] = "(the first message) "
	}
	var out []string
	for i, m := range said[:min(len(said), userPieceMax)] {
		out = append(out, piece("- "+marks[i], partsText(m.LLMMessage.Content), most))
	}
	return out
}

// piece makes a text one that can stand in a digest: of so many bytes at most, its
// further lines indented, so that none looks like a heading.
func piece(head, text string, most int) string {
	text = strings.TrimSpace(quote(clipInline(text, most)))
	return clipInline(head+strings.ReplaceAll(text, "\n", "\n  "), most)
}

// summaryPieces are the earlier summaries, the newest first. A digest among them is
// taken without its notice.
func summaryPieces(view []conversation.Payload, most int) []string {
	var out []string
	for _, p := range slices.Backward(view) {
		if s, ok := p.(*conversation.CondensationSummaryEvent); ok {
			text := strings.TrimPrefix(strings.TrimPrefix(s.Summary, notice), shortNotice)
			if strings.TrimSpace(text) != "" {
				out = append(out, piece("- ", text, most))
			}
		}
	}
	return out
}

// recentPieces are the newest events, but for the user's messages and summaries,
// the newest first.
func recentPieces(view []conversation.Payload) []string {
	var out []string
	for _, p := range slices.Backward(view) {
		if len(out) == recentEvents {
			break
		}
		e := entryOf(p)
		if !isPrompt(p) && e.weight() == weightOther && strings.TrimSpace(e.text) != "" {
			out = append(out, piece("- "+e.title+": ", e.text, recentText))
		}
	}
	return out
}

// openPieces are the newest calls without a result, the newest first.
func openPieces(view []conversation.Payload) []string {
	var out []string
	ties := Ties(view)
	for i, p := range slices.Backward(view) {
		if e, ok := p.(*conversation.ActionEvent); ok && ties[i].Peer == none && len(out) < recentEvents {
			out = append(out, piece("- "+oneLine(e.ToolName)+": ", callText(e), openText))
		}
	}
	return out
}

// textSize is how many bytes a view has besides system prompts, an image counted
// as if it were text.
func textSize(view []conversation.Payload) int {
	var n int64
	for _, p := range view {
		if !isPrompt(p) {
			n += weigh(p) - perEvent*bytesPerToken
		}
	}
	return int(n)
}
