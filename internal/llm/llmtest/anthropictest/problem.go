package anthropictest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"parley/internal/lazyre"
)

// request is a request as the API reads it. Unknown members are refused.
type request struct {
	Model         string          `json:"model"`
	MaxTokens     *int64          `json:"max_tokens"`
	System        json.RawMessage `json:"system"`
	Tools         []tool          `json:"tools"`
	ToolChoice    json.RawMessage `json:"tool_choice"`
	Messages      []msg           `json:"messages"`
	Thinking      *thinking       `json:"thinking"`
	OutputConfig  *outputConfig   `json:"output_config"`
	Temperature   *float64        `json:"temperature"`
	TopP          *float64        `json:"top_p"`
	TopK          *int64          `json:"top_k"`
	StopSequences []string        `json:"stop_sequences"`
	Stream        bool            `json:"stream"`
	Metadata      json.RawMessage `json:"metadata"`
	ServiceTier   string          `json:"service_tier"`
}

type tool struct {
	Type         string          `json:"type"`
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"input_schema"`
	CacheControl *cacheControl   `json:"cache_control"`
}

type msg struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type thinking struct {
	Type    string `json:"type"`
	Budget  *int64 `json:"budget_tokens"`
	Display string `json:"display"`
}

type outputConfig struct {
	Effort string `json:"effort"`
}

type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl"`
}

type block struct {
	Type         string          `json:"type"`
	Text         *string         `json:"text"`
	Thinking     *string         `json:"thinking"`
	Signature    *string         `json:"signature"`
	Data         *string         `json:"data"`
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Input        json.RawMessage `json:"input"`
	Source       *source         `json:"source"`
	ToolUseID    string          `json:"tool_use_id"`
	Content      json.RawMessage `json:"content"`
	IsError      bool            `json:"is_error"`
	CacheControl *cacheControl   `json:"cache_control"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
	URL       string `json:"url"`
}

// Problem returns what the real API would refuse a request for, in its words; ""
// = nothing.
func Problem(header http.Header, body []byte) string {
	if header.Get("Anthropic-Version") == "" {
		return "anthropic-version: header is required"
	}
	if !utf8.Valid(body) {
		return "The request body is not valid JSON: invalid UTF-8"
	}
	var r request
	if problem := decode(body, &r); problem != "" {
		return problem
	}
	if field := r.sampled(); field != "" && header.Get("Anthropic-Version") == newestVersion {
		return field + ": Extra inputs are not permitted"
	}
	c := &checker{r: &r, ids: map[string]bool{}, names: map[string]bool{}}
	for _, check := range []func() string{c.settings, c.thinking, c.sampling, c.tools, c.system, c.messages, c.markers} {
		if problem := check(); problem != "" {
			return problem
		}
	}
	return ""
}

// newestVersion is the version of the API that takes no sampling parameters.
const newestVersion = "2026-10-21"

// sampled returns the first sampling parameter of a request; "" = it has none.
func (r *request) sampled() string {
	switch {
	case r.Temperature != nil:
		return "temperature"
	case r.TopP != nil:
		return "top_p"
	case r.TopK != nil:
		return "top_k"
	}
	return ""
}

func decode(raw []byte, v any) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return strings.Trim(field, `"`) + ": Extra inputs are not permitted"
		}
		return "The request body is not valid JSON: " + err.Error()
	}
	return ""
}

// checker goes through a request.
type checker struct {
	r       *request
	ids     map[string]bool // of tool calls
	names   map[string]bool // of tools
	marked  []string        // the retention of each cache marker, in order
	loops   [][]block       // the messages' blocks
	calling bool            // a message has a tool call
}

func (c *checker) settings() string {
	switch {
	case c.r.Model == "":
		return "model: Field required"
	case c.r.MaxTokens == nil:
		return "max_tokens: Field required"
	case *c.r.MaxTokens < 1:
		return "max_tokens: Input should be greater than or equal to 1"
	case len(c.r.Messages) == 0:
		return "messages: at least one message is required"
	}
	return ""
}

// Which models take which thinking.
var (
	adaptiveOnly = lazyre.MustCompile(`claude-(opus|sonnet|haiku)-(4-[789]|[5-9])|claude-(fable|mythos)`)
	budgetOnly   = lazyre.MustCompile(`claude-3|claude-(opus|sonnet|haiku)-4(-[0-5])?(-\d{8})?$`)
	alwaysOn     = lazyre.MustCompile(`claude-(opus|sonnet|haiku)-5-[5-9]|claude-(fable|mythos)`)
)

func (c *checker) thinking() string {
	t := c.r.Thinking
	if o := c.r.OutputConfig; o != nil {
		if budgetOnly.MatchString(c.r.Model) {
			return "This model does not support the effort parameter."
		}
		if !slices.Contains([]string{"", "low", "medium", "high", "xhigh", "max"}, o.Effort) {
			return "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"
		}
	}
	if t == nil {
		return ""
	}
	if t.Display != "" && t.Display != "summarized" && t.Display != "omitted" {
		return "thinking.display: Input should be 'summarized' or 'omitted'"
	}
	switch {
	case t.Type == "enabled" && adaptiveOnly.MatchString(c.r.Model), t.Type == "disabled" && alwaysOn.MatchString(c.r.Model):
		return `"thinking.type.` + t.Type + `" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`
	case t.Type == "adaptive" && budgetOnly.MatchString(c.r.Model):
		return "adaptive thinking is not supported on this model"
	case t.Type == "enabled" && (t.Budget == nil || *t.Budget < 1024):
		return "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
	case t.Type == "enabled" && *t.Budget >= *c.r.MaxTokens:
		return "`max_tokens` must be greater than `thinking.budget_tokens`."
	case t.Type != "enabled" && t.Budget != nil:
		return "thinking." + t.Type + ".budget_tokens: Extra inputs are not permitted"
	case t.Type != "enabled" && t.Type != "adaptive" && t.Type != "disabled":
		return "thinking: Input tag '" + t.Type + "' found using 'type' does not match any of the expected tags"
	}
	return ""
}

func (c *checker) sampling() string {
	on := c.r.Thinking != nil && c.r.Thinking.Type != "disabled"
	set := c.r.Temperature != nil || c.r.TopP != nil || c.r.TopK != nil
	switch t := c.r.Temperature; {
	case set && adaptiveOnly.MatchString(c.r.Model):
		return "`temperature`, `top_p` and `top_k` are not supported for this model."
	case t != nil && (*t < 0 || *t > 1):
		return "temperature: range: 0..1"
	case on && t != nil && *t != 1:
		return "`temperature` may only be set to 1 when thinking is enabled."
	case on && c.r.TopK != nil:
		return "`top_k` must be unset when thinking is enabled."
	case t != nil && c.r.TopP != nil:
		return "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
	}
	return ""
}

var legalName = lazyre.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func (c *checker) tools() string {
	for i, t := range c.r.Tools {
		at := fmt.Sprintf("tools.%d.custom", i)
		switch {
		case !legalName.MatchString(t.Name):
			return at + ".name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"
		case c.names[t.Name]:
			return "tools: Tool names must be unique."
		}
		c.names[t.Name] = true
		if problem := checkSchema(at+".input_schema", t.InputSchema); problem != "" {
			return problem
		}
		if problem := c.mark(at, t.CacheControl); problem != "" {
			return problem
		}
	}
	if len(c.r.ToolChoice) > 0 && len(c.r.Tools) == 0 {
		return "tool_choice: may only be specified while providing tools"
	}
	return ""
}

func checkSchema(at string, raw json.RawMessage) string {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	object, ok := doc.(map[string]any)
	switch {
	case err != nil || !ok:
		return at + ": Field required"
	case object["type"] != "object":
		return at + ".type: Input should be 'object'"
	case object["anyOf"] != nil || object["oneOf"] != nil || object["allOf"] != nil:
		return at + ": input_schema does not support oneOf, allOf, or anyOf at the top level"
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("mem:///schema", doc); err != nil {
		return at + ": JSON schema is invalid"
	}
	if _, err := compiler.Compile("mem:///schema"); err != nil {
		return at + ": JSON schema is invalid. It must match JSON Schema draft 2020-12"
	}
	return ""
}

// mark notes a cache marker.
func (c *checker) mark(at string, m *cacheControl) string {
	switch {
	case m == nil:
		return ""
	case m.Type != "ephemeral":
		return at + ".cache_control.type: Input should be 'ephemeral'"
	case m.TTL != "" && m.TTL != "5m" && m.TTL != "1h":
		return at + ".cache_control.ephemeral.ttl: Input should be '5m' or '1h'"
	}
	c.marked = append(c.marked, m.TTL)
	return ""
}

func (c *checker) markers() string {
	if n := len(c.marked); n > 4 {
		return fmt.Sprintf("A maximum of 4 blocks with cache_control may be provided. Found %d.", n)
	}
	short := false
	for _, ttl := range c.marked {
		if ttl == "1h" && short {
			return "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
		}
		short = short || ttl != "1h"
	}
	return ""
}

func (c *checker) system() string {
	blocks, problem := c.blocks("system", c.r.System)
	for i, b := range blocks {
		if b.Type != "text" && problem == "" {
			problem = fmt.Sprintf("system.%d.type: Input should be 'text'", i)
		}
	}
	return problem
}

// blocks reads content: a text or a list.
func (c *checker) blocks(at string, raw json.RawMessage) ([]block, string) {
	var s string
	if len(raw) == 0 {
		return nil, ""
	}
	if json.Unmarshal(raw, &s) == nil {
		return c.check(at, []block{{Type: "text", Text: &s}})
	}
	var list []block
	if problem := decode(raw, &list); problem != "" {
		return nil, at + "." + problem
	}
	return c.check(at, list)
}

func (c *checker) check(at string, list []block) ([]block, string) {
	for i, b := range list {
		here := fmt.Sprintf("%s.%d", at, i)
		problem := c.content(here, b)
		if problem == "" {
			problem = c.mark(here, b.CacheControl)
		}
		if problem != "" {
			return nil, problem
		}
	}
	return list, ""
}

var legalID = lazyre.MustCompile(`^[a-zA-Z0-9_-]+$`)

// content checks one block by itself.
func (c *checker) content(at string, b block) string {
	switch b.Type {
	case "text":
		switch {
		case b.Text == nil:
			return at + ".text.text: Field required"
		case *b.Text == "":
			return at + ": text content blocks must be non-empty"
		case strings.TrimSpace(*b.Text) == "":
			return at + ": text content blocks must contain non-whitespace text"
		}
	case "image":
		return checkImage(at+".image.source", b.Source)
	case "thinking", "redacted_thinking":
		return checkThought(at, b)
	case "tool_use":
		var input map[string]any
		switch {
		case !legalID.MatchString(b.ID):
			return at + ".tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
		case c.ids[b.ID]:
			return at + ": `tool_use` ids must be unique"
		case !legalName.MatchString(b.Name):
			return at + ".tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"
		case json.Unmarshal(b.Input, &input) != nil || input == nil:
			return at + ".tool_use.input: Input should be a valid dictionary"
		}
		c.ids[b.ID], c.calling = true, true
	case "tool_result":
		if b.ToolUseID == "" {
			return at + ".tool_result.tool_use_id: Field required"
		}
		inner, problem := c.blocks(at+".tool_result.content", b.Content)
		for _, i := range inner {
			if i.Type != "text" && i.Type != "image" && problem == "" {
				problem = at + ".tool_result.content: Input should be 'text' or 'image'"
			}
		}
		return problem
	default:
		return at + ": Input tag '" + b.Type + "' found using 'type' does not match any of the expected tags"
	}
	return ""
}

func checkImage(at string, s *source) string {
	if s == nil {
		return at + ": Field required"
	}
	switch s.Type {
	case "base64":
		if !slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, s.MediaType) {
			return at + ".base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
		}
		if raw, err := base64.StdEncoding.DecodeString(s.Data); err != nil || len(raw) == 0 {
			return at + ".base64.data: invalid base64 data"
		}
	case "url":
		if u, err := url.Parse(s.URL); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
			return at + ".url.url: Only HTTPS URLs are supported."
		}
	default:
		return at + ": Input tag '" + s.Type + "' found using 'type' does not match any of the expected tags: 'base64', 'url'"
	}
	return ""
}

// checkThought checks a thinking block: its signature must be there, and of its
// text if this package made it.
func checkThought(at string, b block) string {
	switch {
	case b.CacheControl != nil:
		return at + ".thinking.cache_control: Extra inputs are not permitted"
	case b.Type == "redacted_thinking" && (b.Data == nil || *b.Data == ""):
		return at + ".redacted_thinking.data: Field required"
	case b.Type == "redacted_thinking":
		return ""
	case b.Thinking == nil:
		return at + ".thinking.thinking: Field required"
	case b.Signature == nil || *b.Signature == "":
		return at + ".thinking.signature: Field required"
	}
	if _, sum, ours := strings.Cut(*b.Signature, "."); ours && sum != digest(*b.Thinking) {
		return at + ": Invalid `signature` in `thinking` block"
	}
	return ""
}
