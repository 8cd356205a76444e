package stuck

import (
	"slices"

	"parley/internal/conversation"
)

// Start returns the index on the path of the first event of the loop that the run was
// last stopped for, false if it was not or if nothing shows it any more. Before it the
// agent did other things.
func Start(path []conversation.Payload, t conversation.StuckDetection) (int, bool) {
	end := -1
	for i, p := range slices.Backward(path) {
		if e, ok := p.(*conversation.ConversationErrorEvent); ok && e.Code == CodeStuck {
			end = i
			break
		}
	}
	if end < 0 {
		return 0, false
	}
	t = effective(t)
	part := recent(path[:end], enough(t))
	if s := read(part); s.waits() {
		part = recent(path[:end], 2*patience*t.ActionObservation)
	}
	s := read(part)
	first := end - len(part)
	n := max(s.repeats(func(*turn) bool { return true }, sameCalls), s.alternations())
	if s.messages >= t.Monologue || s.condensations >= contextWindow {
		n = 0 // the loop has no calls
	}
	if n == 0 || n > len(s.turns) {
		return loopOfWords(path, first, end), true
	}
	call := s.turns[len(s.turns)-n].calls[0].action
	at := slices.IndexFunc(path[first:end], func(p conversation.Payload) bool { return p == conversation.Payload(call) })
	return first + at, at >= 0
}

// loopOfWords is where the messages and condensations at the end begin.
func loopOfWords(path []conversation.Payload, first, end int) int {
	at := end
	for at > first {
		switch e := path[at-1].(type) {
		case *conversation.Condensation, *conversation.CondensationRequest, *conversation.StateUpdateEvent:
		case *conversation.MessageEvent:
			if e.Source == conversation.SourceUser {
				return at
			}
		default:
			return at
		}
		at--
	}
	return at
}
