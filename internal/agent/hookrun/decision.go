package hookrun

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"parley/internal/content"
)

// Bounds of a model's answer.
const (
	maxAnswer   = 64 << 10 // bytes
	maxAttempts = 200      // places where an object seems to begin and does not
)

var (
	errNoObject = errors.New("it begins like a JSON object and is none")
	errNoAnswer = errors.New("there is no JSON object with a decision in it")
)

// decision is what a hook said.
type decision struct {
	made    bool // it said whether
	block   bool
	reason  string
	context string
}

// readOutput reads what a command wrote (agent protocol 4.9). Text that does not
// begin like a JSON object is no decision and no error.
func readOutput(stdout []byte) (decision, error) {
	text := bytes.TrimSpace(bytes.TrimPrefix(stdout, []byte("\ufeff")))
	if len(text) == 0 || text[0] != '{' {
		return decision{}, nil
	}
	members, length, ok := object(text)
	if !ok || len(bytes.TrimSpace(text[length:])) > 0 {
		return decision{}, errNoObject
	}
	return members.decision()
}

// readAnswer reads what a model answered: an object with a decision, in a code
// fence or between words. Of several, one that blocks counts: nothing is guessed in
// favour of what is guarded.
func readAnswer(answer string) (decision, error) {
	var found decision
	if len(answer) > maxAnswer {
		return found, fmt.Errorf("it has %d bytes, more than the %d allowed", len(answer), maxAnswer)
	}
	rest := []byte(answer)
	for attempts := 0; ; {
		i := bytes.IndexByte(rest, '{')
		if i < 0 {
			break
		}
		rest = rest[i:]
		members, length, ok := object(rest)
		if !ok {
			if attempts++; attempts > maxAttempts {
				return decision{}, errNoAnswer
			}
			rest = rest[1:]
			continue
		}
		rest = rest[length:]
		d, err := members.decision()
		if err != nil {
			return decision{}, err
		}
		if d.made && !found.block {
			found = d
		}
	}
	if !found.made {
		return decision{}, errNoAnswer
	}
	return found, nil
}

type members map[string]any

// object reads the JSON object that a text begins with.
func object(text []byte) (m members, length int, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&m); err != nil {
		return nil, 0, false
	}
	return m, int(dec.InputOffset()), m != nil
}

// decision reads the members that the protocol has, and those that hooks which were
// written for other agents use for the same. What blocks wins.
func (m members) decision() (decision, error) {
	d := decision{reason: m.text("reason"), context: m.text("additionalContext")}
	if err := d.decide(m["decision"]); err != nil {
		return d, err
	}
	switch goesOn, ok := m["continue"].(bool); {
	case !ok && m["continue"] != nil:
		return d, errors.New("\"continue\" is neither true nor false")
	case ok && !goesOn:
		d.made, d.block = true, true
		d.reason = either(d.reason, m.text("stopReason"))
	}
	specific, ok := m["hookSpecificOutput"].(map[string]any)
	if !ok && m["hookSpecificOutput"] != nil {
		return d, errors.New("\"hookSpecificOutput\" is no object")
	}
	inner := members(specific)
	d.reason = either(d.reason, inner.text("permissionDecisionReason"))
	d.context = either(d.context, inner.text("additionalContext"))
	return d, d.decide(inner["permissionDecision"])
}

func (d *decision) decide(v any) error {
	word, ok := v.(string)
	switch {
	case v == nil:
		return nil
	case !ok:
		return errors.New("the decision is no text")
	}
	switch strings.ToLower(strings.TrimSpace(word)) {
	case "allow", "approve":
		d.made = true
	case "deny", "block":
		d.made, d.block = true, true
	default:
		return fmt.Errorf("there is no decision %q, only allow and deny", clip(word, maxLabel))
	}
	return nil
}

func either(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// text reads a text; what is something else is shown as JSON.
func (m members) text(name string) string {
	switch v := m[name].(type) {
	case nil:
		return ""
	case string:
		return strings.TrimSpace(v)
	default:
		raw, err := content.Marshal(v)
		if err != nil { // a decoded value always encodes
			return ""
		}
		return string(raw)
	}
}

// decodeValue reads a JSON value with exact numbers. What is none is a text.
func decodeValue(raw json.RawMessage) any {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	v, err := content.Decode(raw)
	if err != nil {
		return string(raw)
	}
	return v
}
