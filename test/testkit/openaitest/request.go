package openaitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Request is a request as it came.
type Request struct {
	Header       http.Header
	Raw          []byte
	Body         map[string]any // Raw, decoded
	Model        string
	Stream       bool
	IncludeUsage bool
	Messages     []Message
	Tools        []OfferedTool
	Problem      string // why it was refused; "" if it was not
}

// Message is one message of a request.
type Message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  []MessageCall   `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`

	ReasoningDetails json.RawMessage `json:"reasoning_details"`
}

// MessageCall is a tool call of the history.
type MessageCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string  `json:"name"`
		Arguments *string `json:"arguments"`
	} `json:"function"`
}

// OfferedTool is a tool a request offers.
type OfferedTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// Text returns a message's text, parts joined by newlines.
func (m Message) Text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	if json.Unmarshal(m.Content, &parts) != nil {
		return ""
	}
	var texts []string
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// LastUser returns the text of the last user message.
func (r *Request) LastUser() string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == "user" {
			return r.Messages[i].Text()
		}
	}
	return ""
}

// ToolNames returns the names of the tools the request offers.
func (r *Request) ToolNames() []string {
	var names []string
	for _, t := range r.Tools {
		names = append(names, t.Function.Name)
	}
	return names
}

// decode reads Raw; it returns what is wrong with it, or "".
func (r *Request) decode() string {
	if err := json.Unmarshal(r.Raw, &r.Body); err != nil {
		return "We could not parse the JSON body of your request."
	}
	var w struct {
		Model         string        `json:"model"`
		Stream        bool          `json:"stream"`
		Messages      []Message     `json:"messages"`
		Tools         []OfferedTool `json:"tools"`
		StreamOptions *struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(r.Raw, &w); err != nil {
		return "Invalid type: " + err.Error()
	}
	r.Model, r.Stream, r.Messages, r.Tools = w.Model, w.Stream, w.Messages, w.Tools
	if w.StreamOptions != nil {
		if !w.Stream {
			return "The 'stream_options' parameter is only allowed when 'stream' is enabled."
		}
		r.IncludeUsage = w.StreamOptions.IncludeUsage
	}
	return ""
}

// forbidden returns the first of the names that the request or a message has.
func (r *Request) forbidden(names []string) string {
	for _, name := range names {
		if _, ok := r.Body[name]; ok {
			return "Unrecognized request argument supplied: " + name
		}
		list, _ := r.Body["messages"].([]any)
		for i, v := range list {
			if m, ok := v.(map[string]any); ok && m[name] != nil {
				return fmt.Sprintf("Additional properties are not allowed ('%s' was unexpected) - 'messages.%d'", name, i)
			}
		}
	}
	return ""
}

// validate checks what strict providers check; it returns the complaint or "".
func (r *Request) validate() string {
	if r.Model == "" {
		return "you must provide a model parameter"
	}
	if len(r.Messages) == 0 {
		return "[] is too short - 'messages'"
	}
	h := history{ids: map[string]bool{}}
	for i, m := range r.Messages {
		if problem := h.next(i, m); problem != "" {
			return problem
		}
	}
	if problem := h.unanswered(); problem != "" {
		return problem
	}
	if h.last == "assistant" || h.last == "system" {
		return "Expected last role User or Tool for serving but got " + h.last
	}
	return r.validateTools()
}

// history walks the messages.
type history struct {
	last    string
	begun   bool            // something other than a system message was there
	pending []string        // calls that wait for their answer
	ids     map[string]bool // all ids so far
}

func (h *history) unanswered() string {
	if len(h.pending) == 0 {
		return ""
	}
	return "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. " +
		"The following tool_call_ids did not have response messages: " + strings.Join(h.pending, ", ")
}

func (h *history) next(i int, m Message) string {
	at := fmt.Sprintf("messages[%d]", i)
	if m.Role != "tool" {
		if problem := h.unanswered(); problem != "" {
			return problem
		}
	}
	var problem string
	switch m.Role {
	case "system", "developer":
		if h.begun {
			problem = at + ": Unexpected role 'system' after the first user message"
		}
	case "user":
		problem = checkContent(at, m, false)
	case "assistant":
		problem = h.assistant(at, m)
	case "tool":
		problem = h.tool(at, m)
	default:
		problem = fmt.Sprintf("Invalid value: '%s' - '%s.role'", m.Role, at)
	}
	h.last = m.Role
	h.begun = h.begun || (m.Role != "system" && m.Role != "developer")
	return problem
}

func (h *history) assistant(at string, m Message) string {
	if h.last == "assistant" {
		return at + ": Unexpected role 'assistant' after role 'assistant'"
	}
	if problem := checkContent(at, m, len(m.ToolCalls) > 0); problem != "" {
		return problem
	}
	for _, c := range m.ToolCalls {
		if problem := checkCall(at, c); problem != "" {
			return problem
		}
		if h.ids[c.ID] {
			return fmt.Sprintf("%s: duplicate tool call id %q", at, c.ID)
		}
		h.ids[c.ID] = true
		h.pending = append(h.pending, c.ID)
	}
	return ""
}

func (h *history) tool(at string, m Message) string {
	if problem := checkContent(at, m, false); problem != "" {
		return problem
	}
	if bytes.Contains(m.Content, []byte(`"image_url"`)) {
		return at + ": image parts are not allowed in a tool message"
	}
	for i, id := range h.pending {
		if id == m.ToolCallID {
			h.pending = append(h.pending[:i:i], h.pending[i+1:]...)
			return ""
		}
	}
	return fmt.Sprintf("Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls' (%s, tool_call_id %q)", at, m.ToolCallID)
}

var legalName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func checkCall(at string, c MessageCall) string {
	switch {
	case c.ID == "":
		return "Missing required parameter: '" + at + ".tool_calls.id'"
	case len(c.ID) > 40:
		return "Invalid '" + at + ".tool_calls.id': string too long"
	case c.Type != "function":
		return "Invalid value for '" + at + ".tool_calls.type'"
	case !legalName.MatchString(c.Function.Name):
		return "Invalid '" + at + ".tool_calls.function.name': string does not match pattern"
	case c.Function.Arguments == nil:
		return "Missing required parameter: '" + at + ".tool_calls.function.arguments'"
	}
	var args map[string]any
	if err := json.Unmarshal([]byte(*c.Function.Arguments), &args); err != nil {
		return at + ": the arguments of a tool call are not a JSON object: " + err.Error()
	}
	return ""
}

func checkContent(at string, m Message, mayBeNull bool) string {
	trimmed := bytes.TrimSpace(m.Content)
	switch {
	case len(trimmed) == 0 || string(trimmed) == "null":
		if !mayBeNull {
			return "Invalid value for '" + at + ".content': expected a string, got null."
		}
		return ""
	case trimmed[0] == '"':
		return ""
	}
	var parts []struct {
		Type     string  `json:"type"`
		Text     *string `json:"text"`
		ImageURL *struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if json.Unmarshal(trimmed, &parts) != nil || len(parts) == 0 {
		return "Invalid type for '" + at + ".content'"
	}
	for _, p := range parts {
		isText := p.Type == "text" && p.Text != nil
		isImage := p.Type == "image_url" && p.ImageURL != nil && p.ImageURL.URL != ""
		if !isText && !isImage {
			return "Invalid part in '" + at + ".content'"
		}
	}
	return ""
}

func (r *Request) validateTools() string {
	seen := map[string]bool{}
	for i, t := range r.Tools {
		at := fmt.Sprintf("tools[%d].function", i)
		switch {
		case t.Type != "function":
			return "Invalid value: '" + t.Type + "' - 'tools'"
		case !legalName.MatchString(t.Function.Name):
			return "Invalid '" + at + ".name': string does not match pattern"
		case seen[t.Function.Name]:
			return "Tool names must be unique: " + t.Function.Name
		}
		seen[t.Function.Name] = true
		if problem := checkSchema(t.Function.Parameters); problem != "" {
			return "Invalid schema for function '" + t.Function.Name + "': " + problem
		}
	}
	if tools, ok := r.Body["tools"].([]any); ok && len(tools) == 0 {
		return "[] is too short - 'tools'"
	}
	return ""
}

// checkSchema wants the schema of an object that compiles under draft 2020-12.
func checkSchema(raw json.RawMessage) string {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err.Error()
	}
	object, ok := doc.(map[string]any)
	if !ok || object["type"] != "object" {
		return "schema must be a JSON Schema of 'type: \"object\"'"
	}
	if _, ok := object["properties"].(map[string]any); !ok {
		return "object schema missing properties"
	}
	for _, key := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if _, ok := object[key]; ok {
			return "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
		}
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///parameters", doc); err != nil {
		return err.Error()
	}
	if _, err := c.Compile("mem:///parameters"); err != nil {
		return err.Error()
	}
	return ""
}
