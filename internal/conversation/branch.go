package conversation

import (
	"maps"
	"slices"
)

// Branch is the path of events from the start of a conversation to its leaf,
// without state updates: what the agent knows. The events of a log are a tree
// (agent protocol 2.4): one that names no parent follows the event before it.
//
// A copy of a Branch may be added to while the original is kept, as long as only
// the newest copy is used from then on.
type Branch struct {
	path []Payload
	off  map[string]twig // what is not on the path, by id; replaced, never written to
}

// twig is an event that is not on the path.
type twig struct {
	payload Payload
	parent  string // "" = the start
}

// Path returns the events from the start to the leaf. It must not be changed.
func (b *Branch) Path() []Payload { return slices.Clip(b.path) }

// Leaf returns the id of the last event, "" at the start.
func (b *Branch) Leaf() string {
	if len(b.path) == 0 {
		return ""
	}
	return HeaderOf(b.path[len(b.path)-1]).ID
}

// add puts an event behind its parent, which becomes the leaf's place.
func (b *Branch) add(p Payload) {
	switch parent := HeaderOf(p).ParentID; parent {
	case "", b.Leaf():
	case RootParent:
		b.move("")
	default:
		b.move(parent)
	}
	b.path = append(b.path, p)
}

// move makes the event with an id the leaf; "" is the start. An unknown id changes
// nothing.
func (b *Branch) move(id string) {
	path, ok := b.pathTo(id)
	if !ok {
		return
	}
	kept := 0
	for kept < len(path) && kept < len(b.path) && path[kept] == b.path[kept] {
		kept++
	}
	off := make(map[string]twig, len(b.off)+len(b.path)-kept)
	maps.Copy(off, b.off)
	for _, p := range path[kept:] {
		delete(off, HeaderOf(p).ID)
	}
	for i := kept; i < len(b.path); i++ {
		t := twig{payload: b.path[i]}
		if i > 0 {
			t.parent = HeaderOf(b.path[i-1]).ID
		}
		off[HeaderOf(b.path[i]).ID] = t
	}
	b.path, b.off = path, off
}

// pathTo returns the path to an event, false if there is none of that id.
func (b *Branch) pathTo(id string) ([]Payload, bool) {
	var tail []Payload
	from := 0
	for id != "" {
		t, off := b.off[id]
		if !off {
			if from = b.index(id) + 1; from == 0 {
				return nil, false
			}
			break
		}
		if len(tail) > len(b.off) { // a circle would have no end
			return nil, false
		}
		tail, id = append(tail, t.payload), t.parent
	}
	slices.Reverse(tail)
	return slices.Concat(b.path[:from], tail), true
}

// index returns where on the path an event is, -1 if it is not.
func (b *Branch) index(id string) int {
	for i := len(b.path) - 1; i >= 0; i-- {
		if HeaderOf(b.path[i]).ID == id {
			return i
		}
	}
	return -1
}

// At returns the path to an event, whether or not it is on the branch; "" is the
// start. False if there is no such event.
func (b *Branch) At(id string) ([]Payload, bool) { return b.pathTo(id) }

// Unanswered returns the tool calls of a path that have no answer, in order.
func Unanswered(path []Payload) []*ActionEvent {
	var open []*ActionEvent
	for _, p := range path {
		open = settle(open, p)
	}
	return open
}

// settle adds a call to the open ones, or takes out the one that p answers: by
// action id where the event has one, else the first call of that id.
func settle(open []*ActionEvent, p Payload) []*ActionEvent {
	var callID, actionID string
	switch e := p.(type) {
	case *ActionEvent:
		return append(open, e)
	case *ObservationEvent:
		callID, actionID = e.ToolCallID, e.ActionID
	case *UserRejectObservation:
		callID, actionID = e.ToolCallID, e.ActionID
	case *AgentErrorEvent:
		callID = e.ToolCallID
	default:
		return open
	}
	for i, a := range open {
		if a.ID == actionID || actionID == "" && a.ToolCallID == callID {
			return slices.Delete(open, i, i+1)
		}
	}
	return open
}
