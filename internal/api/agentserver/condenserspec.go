package agentserver

import (
	"encoding/json"
	"slices"

	"parley/internal/agent/condense"
	"parley/internal/conversation"
)

// condenserSpec is a condenser of a request; nil is that of the settings.
type condenserSpec struct {
	conversation.Condenser
	LLM        json.RawMessage `json:"llm"`
	Condensers []condenserSpec `json:"condensers"`
}

// read returns the condenser, or says what is wrong with it. loc is where it stands.
func (c *condenserSpec) read(loc ...any) (*conversation.Condenser, error) {
	if c == nil {
		return nil, nil
	}
	out, err := c.convert(loc)
	if err == nil {
		err = checkCondenser(out, loc...)
	}
	return out, err
}

func (c *condenserSpec) convert(loc []any) (*conversation.Condenser, error) {
	out := c.Condenser
	if len(c.LLM) > 0 && string(c.LLM) != "null" {
		var err error
		if out.LLM, err = llmOf(c.LLM, append(slices.Clone(loc), "llm")...); err != nil {
			return nil, err
		}
	}
	for i := range c.Condensers {
		part, err := c.Condensers[i].convert(append(slices.Clone(loc), "condensers", i))
		if err != nil {
			return nil, err
		}
		out.Condensers = append(out.Condensers, *part)
	}
	return &out, nil
}

// checkCondenser refuses numbers that leave nothing to condense.
func checkCondenser(c *conversation.Condenser, loc ...any) error {
	_, err := condense.FromOptions(c, condense.Defaults{}, loc...)
	return err
}
