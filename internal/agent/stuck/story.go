package stuck

import (
	"parley/internal/conversation"
)

// enough is how many events count: more than usual for thresholds above the usual.
func enough(t conversation.StuckDetection) int {
	return max(window, 2*t.ActionObservation, 2*(t.ActionError+1), 2*t.Alternating, t.Monologue)
}

// recent returns the end of the path that counts, with so many events at least.
func recent(path []conversation.Payload, least int) []conversation.Payload {
	units, response := 0, ""
	for i := len(path) - 1; i >= 0; i-- {
		switch e := path[i].(type) {
		case *conversation.MessageEvent:
			if e.Source == conversation.SourceUser {
				return path[i+1:]
			}
			response = ""
			if e.Source == conversation.SourceAgent {
				units++
			}
		case *conversation.ConversationErrorEvent:
			if e.Code == CodeStuck {
				return path[i+1:]
			}
		case *conversation.ActionEvent:
			if e.LLMResponseID == "" || e.LLMResponseID != response {
				units += 2 // with its result
			}
			response = e.LLMResponseID
		}
		if units > least {
			return path[i+1:]
		}
	}
	return path
}

// story is what happened in the window, as far as it matters.
type story struct {
	turns         []*turn
	messages      int  // of the agent since it last did something
	condensations int  // since the agent last said or did something
	nudged        bool // a nudge is in the window
}

func read(path []conversation.Payload) *story {
	s := &story{}
	for _, p := range path {
		switch e := p.(type) {
		case *conversation.ActionEvent:
			s.messages, s.condensations = 0, 0
			s.call(e)
		case *conversation.MessageEvent:
			s.said(e)
		case *conversation.Condensation:
			s.condensations++
			s.close()
		case *conversation.ObservationEvent:
			s.answer(e.ActionID, e.ToolCallID, p)
			s.close()
		case *conversation.UserRejectObservation:
			s.answer(e.ActionID, e.ToolCallID, p)
			s.close()
		case *conversation.AgentErrorEvent: // may come between the calls of one answer
			s.answer("", e.ToolCallID, p)
		}
	}
	return s
}

func (s *story) said(e *conversation.MessageEvent) {
	s.close()
	switch {
	case e.Source == conversation.SourceAgent:
		s.messages++
		s.condensations = 0
	case isNudge(e):
		s.nudged = true
	}
}

// call adds a call to the last turn, if it is of the same answer of the model.
func (s *story) call(e *conversation.ActionEvent) {
	c := &call{action: e}
	if n := len(s.turns); n > 0 && s.turns[n-1].takes(e) {
		s.turns[n-1].calls = append(s.turns[n-1].calls, c)
		return
	}
	s.close()
	s.turns = append(s.turns, &turn{calls: []*call{c}})
}

// close ends the last turn: what comes next is of another answer.
func (s *story) close() {
	if n := len(s.turns); n > 0 {
		s.turns[n-1].closed = true
	}
}

// answer ties a result to its call: by the action's id where there is one, else to
// the first open call of that id. Results of calls before the window are dropped.
func (s *story) answer(actionID, callID string, result conversation.Payload) {
	for _, t := range s.turns {
		for _, c := range t.calls {
			if c.result == nil && (c.action.ID == actionID || actionID == "" && c.action.ToolCallID == callID) {
				c.result = result
				return
			}
		}
	}
}

// open reports whether the last turn still waits for results.
func (s *story) open() bool {
	return len(s.turns) > 0 && !s.turns[len(s.turns)-1].answered()
}

// waits reports whether the agent's last answer only waited.
func (s *story) waits() bool {
	n := len(s.turns)
	return n > 0 && s.turns[n-1].waits()
}

// last describes the last turn.
func (s *story) last() string { return s.turns[len(s.turns)-1].describe() }

// repeats counts the turns at the end that fit and equal each other.
func (s *story) repeats(fits func(*turn) bool, same func(a, b *turn) bool) int {
	n := len(s.turns)
	if n == 0 || !fits(s.turns[n-1]) {
		return 0
	}
	count := 1
	for count < n && fits(s.turns[n-1-count]) && same(s.turns[n-1], s.turns[n-1-count]) {
		count++
	}
	return count
}

// alternations counts the turns at the end of which each equals the one before the
// one before it, and differs from the one before it.
func (s *story) alternations() int {
	n := len(s.turns)
	if n < leastAlternating || sameTurn(s.turns[n-1], s.turns[n-2]) {
		return 0
	}
	count := 2
	for count < n && sameTurn(s.turns[n-1-count], s.turns[n+1-count]) {
		count++
	}
	return count
}
