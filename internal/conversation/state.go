package conversation

import (
	"encoding/json"
	"maps"
	"slices"
)

// RootParent is the parent of the first event that is no state update.
const RootParent = "__root__"

// State is the fold of a log.
type State struct {
	Status        Status
	Head          int64  // seq the next event gets
	Leaf          string // id of the last event that is no state update
	LastTimestamp string
	LastUserMsgID string
	HasPrompt     bool             // a SystemPromptEvent is in the log
	Pending       []*ActionEvent   // tool calls without an answer, in order
	Stats         Stats            // by usage id; not to be written to
	Calls         map[string]Calls // derived from Stats; not to be written to
	Notes         AgentNotes
	// ProviderFields are all that AgentNotes brought, by llm_response_id.
	ProviderFields map[string]map[string]json.RawMessage
}

// NewState returns the state of an empty log.
func NewState() *State { return &State{Status: Idle} }

// Apply folds one event. p must be Decode(e).
func (s *State) Apply(e Event, p Payload) {
	s.Head = e.Seq + 1
	s.LastTimestamp = e.Timestamp
	if e.Kind != KindStateUpdate {
		s.Leaf = e.ID
	}
	switch ev := p.(type) {
	case *StateUpdateEvent:
		s.applyUpdate(ev)
	case *SystemPromptEvent:
		s.HasPrompt = true
	case *MessageEvent:
		if ev.Source == SourceUser {
			s.LastUserMsgID = ev.ID
		}
	case *ActionEvent:
		s.Pending = append(s.Pending, ev)
	case *ObservationEvent:
		s.answer(ev.ToolCallID, ev.ActionID)
	case *UserRejectObservation:
		s.answer(ev.ToolCallID, ev.ActionID)
	case *AgentErrorEvent:
		s.answer(ev.ToolCallID, "")
	}
}

func (s *State) applyUpdate(ev *StateUpdateEvent) {
	switch ev.Key {
	case KeyStatus:
		var st Status
		if json.Unmarshal(ev.Value, &st) == nil && slices.Contains(Statuses, st) {
			s.Status = st
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

// answer removes the action that a result belongs to: by action id where the
// event has one, else the first pending call of that id.
func (s *State) answer(callID, actionID string) {
	for i, a := range s.Pending {
		if a.ID == actionID || (actionID == "" && a.ToolCallID == callID) {
			s.Pending = slices.Delete(s.Pending, i, i+1)
			return
		}
	}
}

// Summary returns what the conversation's record caches of the state.
func (s *State) Summary() Summary {
	return Summary{Status: s.Status, Head: s.Head, Metrics: s.Stats.Total()}
}
