package projection

import (
	"fmt"
	"strings"

	"parley/internal/conversation"
)

// span is a range of legacy ids, both inclusive.
type span struct{ first, last int64 }

// backBits is how many bits of an argument each end of a span takes, as a distance
// in ids.
const backBits = 27

// arg packs a span as seen from the event with an id; 0 if there is none.
func (s span) arg(id int64) int64 {
	first, last := id-s.first, id-s.last
	if last <= 0 || first >= 1<<backBits {
		return 0
	}
	return first<<backBits | last
}

// spanOf reads what arg made; false if it is of no event.
func spanOf(arg, id int64) (span, bool) {
	return span{id - arg>>backBits, id - arg&(1<<backBits-1)}, arg != 0
}

// remember records which legacy events show an event, until the agent forgets it.
func (s *State) remember(p conversation.Payload, ids span) {
	switch e := p.(type) {
	case nil, *conversation.StateUpdateEvent:
		return
	case *conversation.Condensation:
		for _, id := range e.ForgottenIDs {
			delete(s.shown, id)
		}
	}
	if ids.last < ids.first {
		return
	}
	if s.shown == nil {
		s.shown = map[string]span{}
	}
	s.shown[conversation.HeaderOf(p).ID] = ids
}

// forgotten spans the legacy events of what a condensation lets the agent forget.
// They are told as a range: what lies between was forgotten earlier, or is nothing
// that the agent reads.
func (s *State) forgotten(e *conversation.Condensation) span {
	all := span{s.NextID, s.NextID}
	for _, id := range e.ForgottenIDs {
		ids, ok := s.shown[id]
		switch {
		case !ok:
		case all.last == s.NextID:
			all = ids
		default:
			all = span{min(all.first, ids.first), max(all.last, ids.last)}
		}
	}
	return all
}

type condensationArgs struct {
	IDs           []int64 `json:"forgotten_event_ids"`
	Start         *int64  `json:"forgotten_events_start_id"`
	End           *int64  `json:"forgotten_events_end_id"`
	Summary       *string `json:"summary"`
	SummaryOffset *int    `json:"summary_offset"`
}

// condensed shows a condensation: the range of what was forgotten or, where none
// of it was shown, an empty list.
func condensed(in Input) *Event {
	e, ok := in.Payload.(*conversation.Condensation)
	if !ok {
		return nil
	}
	args := condensationArgs{IDs: []int64{}}
	ids, ok := spanOf(in.Derived.Arg, in.ID)
	if ok {
		args = condensationArgs{Start: &ids.first, End: &ids.last}
	}
	if e.Summary == "" {
		return action(sourceAgent, "condensation", "Condenser is dropping the events: ["+listed(ids, ok)+"].", args)
	}
	offset := 0
	if e.SummaryOffset != nil {
		offset = *e.SummaryOffset
	}
	args.Summary, args.SummaryOffset = &e.Summary, &offset
	return action(sourceAgent, "condensation", "Summary: "+e.Summary, args)
}

// maxListed bounds how many ids a message lists.
const maxListed = 1000

func listed(ids span, ok bool) string {
	if !ok {
		return ""
	}
	var all []string
	for id := ids.first; id <= ids.last && len(all) < maxListed; id++ {
		all = append(all, fmt.Sprint(id))
	}
	return strings.Join(all, ", ")
}
