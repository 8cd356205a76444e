package account

import "encoding/json"

// Grouping says which sandbox a new conversation works in (V1 section 3.6).
type Grouping string

// The strategies. Sandboxes that are not running are never chosen.
const (
	NoGrouping          Grouping = "NO_GROUPING" // each conversation gets its own
	GroupByNewest       Grouping = "GROUP_BY_NEWEST"
	LeastRecentlyUsed   Grouping = "LEAST_RECENTLY_USED"
	FewestConversations Grouping = "FEWEST_CONVERSATIONS"
	AddToAny            Grouping = "ADD_TO_ANY"
)

// Grouping is the strategy that the user chose, NoGrouping unless it is one of these.
func (s *Settings) Grouping() Grouping {
	var kept struct {
		Strategy Grouping `json:"sandbox_grouping_strategy"`
	}
	if json.Unmarshal(s.Kept, &kept) != nil { // nothing is kept
		return NoGrouping
	}
	switch kept.Strategy {
	case GroupByNewest, LeastRecentlyUsed, FewestConversations, AddToAny:
		return kept.Strategy
	}
	return NoGrouping
}
