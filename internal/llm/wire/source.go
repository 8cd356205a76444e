package wire

import (
	"encoding/json"
	"maps"
)

// sourceKey is the member of Message.Extra that says which adapter and endpoint
// the others come from. A conversation may change its model: what one provider
// wants back would make another one refuse the history.
const sourceKey = "_source"

// Mark adds the source to the fields of an answer that must be sent back; nil
// stays nil. source names the API and the endpoint, such as
// "chat api.openai.com".
func Mark(extra map[string]json.RawMessage, source string) map[string]json.RawMessage {
	if len(extra) == 0 {
		return nil
	}
	raw, err := json.Marshal(source)
	if err != nil { // a string is always encoded
		return nil
	}
	extra[sourceKey] = raw
	return extra
}

// Own returns the fields that source marked, without the mark; nil if another
// source did. marked is false for fields without a mark, which are returned:
// they are older than marks.
func Own(extra map[string]json.RawMessage, source string) (own map[string]json.RawMessage, marked bool) {
	raw, marked := extra[sourceKey]
	if marked && Text(raw) != source {
		return nil, true
	}
	own = maps.Clone(extra)
	delete(own, sourceKey)
	return own, marked
}
