package projection

import (
	"encoding/json"
	"slices"
)

// ImportedPart is the stored part of a legacy event that another server made and that
// is kept as it was. state is the agent's state that it tells, "" if it tells none.
func ImportedPart(state string) int {
	arg := slices.Index(stateCodes[:], AgentState(state)) + 1
	return Derived{Imported, int64(arg)}.Part()
}

// importedState returns the state that an imported event told, false if none.
func (d Derived) importedState() (AgentState, bool) {
	if d.Recipe != Imported || d.Arg < 1 || int(d.Arg) > len(stateCodes) {
		return "", false
	}
	return stateCodes[d.Arg-1], true
}

// RenderImported makes the legacy event with an id from its JSON. What cannot be read is
// a null observation, so that ids have no gaps.
func RenderImported(id int64, raw []byte) *Event {
	e := &Event{}
	if json.Unmarshal(raw, e) != nil {
		e = observation(sourceEnvironment, kindNull, "", struct{}{})
		e.Message = "No observation"
	}
	if e.Observation == kindStateChanged { // in the form in which others look for the state
		var in struct {
			Extras stateExtras `json:"extras"`
		}
		if json.Unmarshal(raw, &in) == nil {
			e.Extras = in.Extras
		}
	}
	e.ID = id
	return e
}
