package conversation

import (
	"encoding/json"
	"slices"
	"strings"

	"parley/internal/content"
)

// Bounds of an event's text for search, in bytes: of a long one its head and its tail
// count, because outputs end with what matters.
const (
	searchHead = 6 << 10
	searchTail = 2 << 10
)

// searchable are the members of events that people look for.
type searchable struct {
	Message struct {
		Content []searchPart `json:"content"`
	} `json:"llm_message"`
	Thought     []searchPart    `json:"thought"`
	Action      json.RawMessage `json:"action"`
	Observation struct {
		Content []searchPart `json:"content"`
	} `json:"observation"`
	Summary string `json:"summary"`
	Error   string `json:"error"`
	Detail  string `json:"detail"`
	Reason  string `json:"rejection_reason"`
}

type searchPart struct {
	Text string `json:"text"`
}

// SearchText is what an event is found by: the words of messages, the arguments of
// actions, outputs and errors, at most 8 KiB; "" for kinds that say nothing to people.
func SearchText(e Event) string {
	switch e.Kind {
	case KindMessage, KindAction, KindObservation, KindAgentError, KindConversationError, KindUserReject, KindCondensation:
	default:
		return ""
	}
	var s searchable
	_ = json.Unmarshal(e.Raw, &s) // what does not fit says nothing
	var texts []string
	for _, parts := range [][]searchPart{s.Message.Content, s.Thought} {
		for _, p := range parts {
			texts = append(texts, p.Text)
		}
	}
	texts = append(texts, s.Summary)
	if e.Kind == KindAction {
		var action any
		if json.Unmarshal(s.Action, &action) == nil {
			texts = appendTexts(texts, action)
		}
	}
	for _, p := range s.Observation.Content {
		texts = append(texts, p.Text)
	}
	texts = append(texts, s.Error, s.Detail, s.Reason)
	texts = slices.DeleteFunc(texts, func(t string) bool { return t == "" })
	return boundText(strings.Join(texts, "\n"))
}

// appendTexts adds the texts in a value, in the order of the members' names.
func appendTexts(texts []string, v any) []string {
	switch x := v.(type) {
	case string:
		return append(texts, x)
	case []any:
		for _, item := range x {
			texts = appendTexts(texts, item)
		}
	case map[string]any:
		names := make([]string, 0, len(x))
		for name := range x {
			if name != "kind" {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			texts = appendTexts(texts, x[name])
		}
	}
	return texts
}

func boundText(text string) string {
	if len(text) <= searchHead+searchTail {
		return text
	}
	return content.Head(text, searchHead) + "\n" + content.Tail(text, searchTail)
}
