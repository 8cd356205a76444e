// Package content holds the message parts that the event log, models and tools
// share. Its JSON is the agent-server protocol's (LLM message) JSON. It also has what
// every layer does with texts: cutting them between characters, and reading and
// writing JSON.
package content

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// Part types.
const (
	TypeText  = "text"
	TypeImage = "image"
)

// Part is a text or an image block. Exactly the fields of its type are used.
type Part struct {
	Type        string
	Text        string   // TypeText
	ImageURLs   []string // TypeImage: http(s) or data URLs
	CachePrompt bool
}

// Text returns a text part.
func Text(s string) Part { return Part{Type: TypeText, Text: s} }

// Image returns an image part.
func Image(urls ...string) Part { return Part{Type: TypeImage, ImageURLs: urls} }

type wireText struct {
	CachePrompt bool   `json:"cache_prompt"`
	Type        string `json:"type"`
	Text        string `json:"text"`
}

type wireImage struct {
	CachePrompt bool     `json:"cache_prompt"`
	Type        string   `json:"type"`
	ImageURLs   []string `json:"image_urls"`
}

// MarshalJSON writes the fields of the part's type only: Python clients forbid others.
func (p Part) MarshalJSON() ([]byte, error) {
	if p.Type == TypeImage {
		urls := p.ImageURLs
		if urls == nil {
			urls = []string{}
		}
		return Marshal(wireImage{p.CachePrompt, TypeImage, urls})
	}
	return Marshal(wireText{p.CachePrompt, TypeText, p.Text})
}

// Marshal is json.Marshal without the escaping of <, > and &, which belongs into
// HTML pages only and makes a log of shell commands hard to read.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Decode reads exactly one JSON value, numbers as json.Number. Its errors are for
// those who wrote the text.
func Decode(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return nil, errors.New("the text ends too early")
		}
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the value")
	}
	return v, nil
}

// UnmarshalJSON accepts a missing type and discriminates by keys then, as
// shipped clients rely on it.
func (p *Part) UnmarshalJSON(b []byte) error {
	var w struct {
		CachePrompt bool     `json:"cache_prompt"`
		Type        string   `json:"type"`
		Text        string   `json:"text"`
		ImageURLs   []string `json:"image_urls"`
	}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	if w.Type == "" {
		w.Type = TypeText
		if w.ImageURLs != nil {
			w.Type = TypeImage
		}
	}
	*p = Part{Type: w.Type, Text: w.Text, ImageURLs: w.ImageURLs, CachePrompt: w.CachePrompt}
	return nil
}

// JoinText concatenates the text parts, separated by newlines.
func JoinText(parts []Part) string {
	var texts []string
	for _, p := range parts {
		if p.Type == TypeText && p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// ToolCall is a model's request to run a tool.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON text as the model wrote it
	Origin    string `json:"origin"`    // "completion" or "responses"
}

// Roles of a message.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// Message is one entry of the list a model reads, or its answer.
type Message struct {
	Role       string
	Parts      []Part
	ToolCalls  []ToolCall // assistant
	ToolCallID string     // tool
	ToolName   string     // tool
	Reasoning  string     // assistant: reasoning text, where the provider shows it
	// Extra holds provider fields of an assistant message that must be sent back
	// as they came (signatures, reasoning details). Keys are the provider's.
	Extra map[string]json.RawMessage
}

// Text returns the message's text parts joined by newlines.
func (m Message) Text() string { return JoinText(m.Parts) }
