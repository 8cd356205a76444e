// Package eventwire renders events and reads event filters for the APIs that
// hand out the log's own JSON (V1 and the agent-server protocol). It promises
// that stored events stay as they are, byte for byte, unless nulls are to be
// removed; it knows no routes.
package eventwire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/stream"
)

// Delta renders a piece of a streamed answer. The event has a fresh id and is
// never stored.
func Delta(d *stream.Delta, now time.Time) ([]byte, error) {
	return json.Marshal(struct {
		conversation.Header
		Content   string `json:"content,omitempty"`
		Reasoning string `json:"reasoning_content,omitempty"`
	}{conversation.Head(conversation.KindStreamingDelta, conversation.SourceAgent, now), d.Text, d.Reasoning})
}

// FullState renders the live-only event that carries the whole state.
func FullState(info any, now time.Time) ([]byte, error) {
	value, err := json.Marshal(info)
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	return json.Marshal(&conversation.StateUpdateEvent{
		Header: conversation.Head(conversation.KindStateUpdate, conversation.SourceEnvironment, now),
		Key:    conversation.KeyFullState, Value: value})
}

// ServerError renders the live-only event that tells of trouble on a stream.
func ServerError(code, detail string, now time.Time) ([]byte, error) {
	return json.Marshal(struct {
		conversation.Header
		Code   string `json:"code"`
		Detail string `json:"detail"`
	}{conversation.Head(conversation.KindServerError, conversation.SourceEnvironment, now), code, detail})
}

// Filter is what event searches filter by, as sent.
type Filter struct {
	Kind   string
	From   string // timestamp, inclusive
	To     string // timestamp, exclusive
	Source string
	Body   string
}

// Timestamp converts a filter's time to the spelling of event timestamps, so
// that both compare as strings. A time without an offset is on the events' own
// clock. Texts that are no time stay as they are.
func Timestamp(text string) string {
	t, _, err := httpkit.ParseTime(text)
	if err != nil {
		return text
	}
	return conversation.FormatTime(t)
}

// ShortKind returns the class name of a kind that may be spelled with its
// module, as some servers want it.
func ShortKind(kind string) string {
	return kind[strings.LastIndexByte(kind, '.')+1:]
}

// opaque members hold values of others, in which null has a meaning.
var opaque = map[string]bool{"data": true, "raw_input": true, "raw_output": true, "hook_input": true,
	"input_schema": true, "inputSchema": true, "parameters": true}

// WithoutNulls returns an event's JSON without members that are null. Members
// keep their order; an event without nulls is returned as it is.
func WithoutNulls(raw json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(raw, []byte("null")) {
		return raw, nil
	}
	return strip(nil, raw)
}

func strip(out []byte, raw json.RawMessage) ([]byte, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' && raw[0] != '[' {
		return append(out, raw...), nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if raw[0] == '[' {
		return stripList(out, dec)
	}
	return stripObject(out, dec)
}

func stripList(out []byte, dec *json.Decoder) ([]byte, error) {
	out = append(out, '[')
	for i := 0; dec.More(); i++ {
		var item json.RawMessage
		if err := dec.Decode(&item); err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = strip(out, item); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

func stripObject(out []byte, dec *json.Decoder) ([]byte, error) {
	out = append(out, '{')
	first := true
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		if string(value) == "null" {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		if out, err = stripMember(out, fmt.Sprint(key), value); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

func stripMember(out []byte, key string, value json.RawMessage) ([]byte, error) {
	name, err := json.Marshal(key)
	if err != nil {
		return nil, err
	}
	out = append(append(out, name...), ':')
	if opaque[key] {
		return append(out, value...), nil
	}
	return strip(out, value)
}
