package conversation

import (
	"encoding/json"
	"maps"
	"slices"
)

// RootParent is the parent of the first event that is no state update.
const RootParent = "__root__"

// State is the fold of a log. A copy may be folded on while the original is kept,
// as long as only one of them is from then on.
type State struct {
	Status        Status
	Head          int64  // seq the next event gets
	Branch        Branch // what the agent knows
	LastTimestamp string
	LastUserMsgID string           // on the branch
	HasPrompt     bool             // a SystemPromptEvent is on the branch
	Pending       []*ActionEvent   // tool calls of the branch without an answer, in order
	Stats         Stats            // by usage id; not to be written to
	Calls         map[string]Calls // derived from Stats; not to be written to
	Notes         AgentNotes
	Goal          *Goal // the last one; nil = there was none
	// ProviderFields are all that AgentNotes brought, by llm_response_id.
	ProviderFields map[string]map[string]json.RawMessage
	// Extensions is what skills and hooks did on the branch.
	Extensions Activity
	Moved      bool // the user went back to an event or on from another one

	last string // id of the last event that is no state update, on any branch
}

// NewState returns the state of an empty log.
func NewState() *State { return &State{Status: Idle} }

// Apply folds one event. p must be Decode(e).
func (s *State) Apply(e Event, p Payload) {
	s.Head = e.Seq + 1
	s.LastTimestamp = e.Timestamp
	if u, ok := p.(*StateUpdateEvent); ok {
		s.applyUpdate(u)
		return
	}
	from := s.Branch.Leaf()
	s.Branch.add(p)
	s.last = e.ID
	if parent := HeaderOf(p).ParentID; parent != "" && parent != from {
		s.reread()
		return
	}
	s.read(p)
}

// Parent returns what the next event has to name as its parent: "" if that goes
// without saying.
func (s *State) Parent() string {
	leaf := s.Branch.Leaf()
	switch leaf {
	case s.last:
		return ""
	case "":
		return RootParent
	}
	return leaf
}

// read takes in what an event of the branch says.
func (s *State) read(p Payload) {
	switch ev := p.(type) {
	case *SystemPromptEvent:
		s.HasPrompt = true
	case *MessageEvent:
		if _, blocked := s.Extensions.BlockedMessages[ev.ID]; ev.Source == SourceUser && !blocked {
			s.LastUserMsgID = ev.ID
		}
	}
	s.Extensions.read(p)
	s.Pending = settle(s.Pending, p)
}

// reread takes in the branch anew, after it changed.
func (s *State) reread() {
	s.HasPrompt, s.LastUserMsgID, s.Pending, s.Extensions = false, "", nil, Activity{}
	for _, p := range s.Branch.path {
		s.read(p)
	}
}

// Copy returns a state that can be folded on beside this one.
func (s *State) Copy() *State {
	next := *s
	next.Pending = slices.Clone(s.Pending)
	return &next
}

func (s *State) applyUpdate(ev *StateUpdateEvent) {
	switch ev.Key {
	case KeyStatus:
		var st Status
		if json.Unmarshal(ev.Value, &st) == nil && slices.Contains(Statuses, st) {
			s.Status = st
		}
	case KeyLeaf:
		var id *string
		if json.Unmarshal(ev.Value, &id) == nil {
			s.moveTo(id)
		}
	case KeyGoal:
		var g Goal
		if json.Unmarshal(ev.Value, &g) == nil {
			s.Goal = &g
		}
	case KeyStats:
		var v StatsUpdate
		if json.Unmarshal(ev.Value, &v) == nil {
			s.applyStats(v, ev.Timestamp)
		}
	case KeyAgentState:
		var n AgentNotes
		if json.Unmarshal(ev.Value, &n) == nil {
			s.keepProviderFields(n.ProviderFields)
			n.ProviderFields = nil
			s.Notes = n
		}
	}
}

func (s *State) keepProviderFields(fields map[string]map[string]json.RawMessage) {
	if len(fields) == 0 {
		return
	}
	all := maps.Clone(s.ProviderFields) // states are copied: never write to a shared map
	if all == nil {
		all = map[string]map[string]json.RawMessage{}
	}
	maps.Copy(all, fields)
	s.ProviderFields = all
}

func (s *State) moveTo(id *string) {
	s.Moved = true
	leaf := ""
	if id != nil {
		leaf = *id
	}
	s.Branch.move(leaf)
	s.reread()
}

// Summary returns what the conversation's record caches of the state.
func (s *State) Summary() Summary {
	return Summary{Status: s.Status, Head: s.Head, Metrics: s.Stats.Total(),
		Progress: Progress{Leaf: s.Branch.Leaf(), UserMessage: s.LastUserMsgID, Goal: s.Goal, Notes: s.Notes, Activity: s.Extensions}}
}
