package tool

import (
	"encoding/json"
	"fmt"
	"strings"

	"parley/internal/content"
)

// Observation is what a run gave, before it is encoded.
type Observation struct {
	Kind    string
	Content []content.Part
	IsError bool
	// Members is a struct with the tool's own members, or nil.
	Members any
}

// TextObservation is an observation of one text.
func TextObservation(kind, text string) Observation {
	return Observation{Kind: kind, Content: []content.Part{content.Text(text)}}
}

// Result encodes the observation; the model reads its content.
func (o Observation) Result() (Result, error) {
	parts := o.Content
	if parts == nil {
		parts = []content.Part{}
	}
	own, err := encodeJSON(o.Members)
	if err != nil {
		return Result{}, fmt.Errorf("encode %s: %w", o.Kind, err)
	}
	head, err := encodeJSON(object{{"content", parts}, {"is_error", o.IsError}})
	if err != nil {
		return Result{}, fmt.Errorf("encode %s: %w", o.Kind, err)
	}
	raw := head[:len(head)-1]
	if len(own) > 2 && own[0] == '{' {
		raw = append(raw, ',')
		raw = append(raw, own[1:len(own)-1]...)
	}
	raw = append(raw, `,"kind":`...)
	kind, err := encodeJSON(o.Kind)
	if err != nil {
		return Result{}, fmt.Errorf("encode %s: %w", o.Kind, err)
	}
	raw = append(append(raw, kind...), '}')
	return Result{Observation: raw, Parts: ModelParts(raw), IsError: o.IsError}, nil
}

// framed are the members that say what a model reads of an observation. The
// metadata are texts around the content which clients show apart or not at all.
type framed struct {
	Content  []content.Part `json:"content"`
	Metadata *struct {
		Prefix     string `json:"prefix"`
		Suffix     string `json:"suffix"`
		WorkingDir string `json:"working_dir"`
	} `json:"metadata"`
}

// ModelParts returns what a model reads of an observation: its content, framed by
// its metadata's prefix, suffix and working directory if it has them (terminal).
// Result.Parts is the same; this is for whoever builds a model's history from the
// log. Of an unreadable observation it returns the JSON as text.
func ModelParts(observation json.RawMessage) []content.Part {
	var o framed
	if err := json.Unmarshal(observation, &o); err != nil {
		return []content.Part{content.Text(string(observation))}
	}
	if o.Metadata == nil {
		return o.Content
	}
	text := o.Metadata.Prefix + content.JoinText(o.Content) + o.Metadata.Suffix
	if o.Metadata.WorkingDir != "" {
		text += "\n[Current working directory: " + o.Metadata.WorkingDir + "]"
	}
	parts := []content.Part{content.Text(strings.TrimPrefix(text, "\n"))}
	for _, p := range o.Content {
		if p.Type != content.TypeText {
			parts = append(parts, p)
		}
	}
	return parts
}
