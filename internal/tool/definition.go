package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
)

type annotations struct {
	Title       string `json:"title"`
	ReadOnly    bool   `json:"readOnlyHint"`
	Destructive bool   `json:"destructiveHint"`
	Idempotent  bool   `json:"idempotentHint"`
	OpenWorld   bool   `json:"openWorldHint"`
}

type definition struct {
	Description     string      `json:"description"`
	ActionType      string      `json:"action_type"`
	ObservationType string      `json:"observation_type"`
	Annotations     annotations `json:"annotations"`
	Kind            string      `json:"kind"`
	Title           string      `json:"title"`
}

// Definition returns the tool as the SystemPromptEvent lists it. It has no name:
// clients know a tool by its kind and title.
func (s *Spec) Definition() json.RawMessage {
	raw, err := encodeJSON(definition{
		Description:     s.Description,
		ActionType:      s.ActionKind,
		ObservationType: s.ObservationKind,
		Kind:            s.Kind,
		Title:           s.Title,
		Annotations:     annotations{s.Title, s.ReadOnly, s.Destructive, s.Idempotent, s.OpenWorld},
	})
	if err != nil {
		panic(fmt.Sprintf("tool: texts and booleans always encode: %v", err))
	}
	if more := bytes.TrimSpace(s.More); len(more) > 2 {
		raw = append(append(raw[:len(raw)-1], ','), more[1:]...)
	}
	return raw
}
