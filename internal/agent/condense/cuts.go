package condense

import (
	"parley/internal/content"
	"parley/internal/conversation"
)

// cuts are the places of a view at which what is before may be separated from what
// is behind. Place i is before event i; place len(view) is the end.
//
// Between the calls and results of one answer there is none. Within a loop of
// answers that began with thinking there is one only where no other will do
// (loose), and then only before an answer with thinking of its own: providers
// refuse the rest of a loop that does not begin with it. What is before a place may
// end anywhere between two answers (free).
type cuts struct {
	strict, loose, free []bool
	limit               int // the last place: calls of the newest answer may be open
}

// cutsOf finds the places. thinks says which answers have thinking that only their
// provider can read; it may be nil.
func cutsOf(view []conversation.Payload, thinks func(responseID string) bool) *cuts {
	ties := Ties(view)
	n := len(view)
	c := &cuts{strict: make([]bool, n+1), loose: make([]bool, n+1), free: make([]bool, n+1), limit: openAt(view, ties)}
	ends := batchEnds(ties)
	reach, loop := none, false
	for i, p := range view {
		inBatch := ties[i].Batch != none
		begins := ties[i].Batch == i
		thinking := begins && hasThinking(p, thinks)
		c.free[i] = i > reach
		c.strict[i] = c.free[i] && (!loop || !inBatch)
		c.loose[i] = c.free[i] && (!loop || !inBatch || thinking)
		if begins {
			reach = max(reach, ends[i])
		}
		loop = inBatch && (loop || thinking)
	}
	c.strict[n], c.loose[n], c.free[n] = true, true, true
	return c
}

// batchEnds returns the last event of each batch by its first.
func batchEnds(ties []Tie) map[int]int {
	ends := map[int]int{}
	for i, t := range ties {
		if t.Batch != none {
			ends[t.Batch] = i
		}
	}
	return ends
}

func hasThinking(p conversation.Payload, thinks func(string) bool) bool {
	e, ok := p.(*conversation.ActionEvent)
	return ok && (len(e.ThinkingBlocks) > 0 || thinks != nil && thinks(e.LLMResponseID))
}

// openAt is where the newest answer begins if a call of it is open, else the end.
func openAt(view []conversation.Payload, ties []Tie) int {
	for i := len(view) - 1; i >= 0; i-- {
		switch e := view[i].(type) {
		case *conversation.MessageEvent:
			if e.LLMMessage.Role == content.RoleAssistant {
				return len(view)
			}
		case *conversation.ActionEvent:
			for j := ties[i].Batch; j <= i; j++ {
				if ties[j].Batch == ties[i].Batch && ties[j].Peer == none {
					return ties[i].Batch
				}
			}
			return len(view)
		}
	}
	return len(view)
}

// next is the first place from i on, none if there is none up to the limit.
func (c *cuts) next(places []bool, i int) int {
	for ; i <= c.limit; i++ {
		if i >= 0 && places[i] {
			return i
		}
	}
	return none
}

// last is the last place up to i and the limit.
func (c *cuts) last(places []bool, i int) int {
	for i = min(i, c.limit); i > 0 && !places[i]; i-- {
	}
	return i
}
