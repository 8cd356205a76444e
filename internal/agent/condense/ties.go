package condense

import (
	"parley/internal/content"
	"parley/internal/conversation"
)

// none is the index of nothing.
const none = -1

// Tie says what an event is to the tool calls around it, by indices into the list
// that it is part of; -1 is nothing.
type Tie struct {
	// Batch is the first call of the answer that this call, or the call of this
	// result, is a part of.
	Batch int
	// Peer is the result of this call, or the call of this result.
	Peer int
}

// Ties ties calls to the other calls of the same answer and to their results. A
// result belongs to the first open call with its action id, or with its tool call
// id where it names no action. A result that belongs to no call has no ties.
func Ties(events []conversation.Payload) []Tie {
	t := &tier{ties: make([]Tie, len(events)), batch: none,
		byAction: map[string][]int{}, byCall: map[string][]int{}}
	for i, p := range events {
		t.ties[i] = Tie{none, none}
		switch e := p.(type) {
		case *conversation.ActionEvent:
			t.call(i, e)
		case *conversation.MessageEvent:
			if e.LLMMessage.Role == content.RoleAssistant {
				t.batch = none
			}
		default:
			if r, ok := resultOf(p); ok {
				t.result(i, r)
			}
		}
	}
	return t.ties
}

// result is what all kinds of answers to a call have.
type result struct {
	actionID, callID string
	mid              bool // may stand between the calls of an answer
}

// resultOf reads an answer to a call; ok is false for anything else.
func resultOf(p conversation.Payload) (r result, ok bool) {
	switch e := p.(type) {
	case *conversation.ObservationEvent:
		return result{actionID: e.ActionID, callID: e.ToolCallID}, true
	case *conversation.UserRejectObservation:
		return result{actionID: e.ActionID, callID: e.ToolCallID}, true
	case *conversation.AgentErrorEvent: // answers a call that cannot be run at once
		return result{callID: e.ToolCallID, mid: true}, true
	}
	return result{}, false
}

type tier struct {
	ties             []Tie
	batch            int    // of the answer whose calls are being read
	response         string // its id
	byAction, byCall map[string][]int
}

// call ties a call to those of the same answer. Some endpoints give every answer
// the same id, so results and other answers end an answer too.
func (t *tier) call(i int, e *conversation.ActionEvent) {
	if t.batch == none || t.response != e.LLMResponseID {
		t.batch, t.response = i, e.LLMResponseID
	}
	t.ties[i].Batch = t.batch
	t.byAction[e.ID] = append(t.byAction[e.ID], i)
	t.byCall[e.ToolCallID] = append(t.byCall[e.ToolCallID], i)
}

func (t *tier) result(i int, r result) {
	queues, id := t.byCall, r.callID
	if r.actionID != "" {
		queues, id = t.byAction, r.actionID
	}
	call := t.take(queues, id)
	if call == none {
		return
	}
	t.ties[call].Peer = i
	t.ties[i] = Tie{Batch: t.ties[call].Batch, Peer: call}
	if !r.mid && t.ties[i].Batch == t.batch {
		t.batch = none
	}
}

// take returns the first open call of a queue. Calls that were answered by way of
// the other queue are dropped as they come up, so each is looked at once.
func (t *tier) take(queues map[string][]int, id string) int {
	queue := queues[id]
	for len(queue) > 0 && t.ties[queue[0]].Peer != none {
		queue = queue[1:]
	}
	queues[id] = queue
	if len(queue) == 0 {
		return none
	}
	return queue[0]
}
