package bedrocktest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"parley/internal/lazyre"
)

type raw = map[string]json.RawMessage

// check refuses what the service refuses. nil = it would answer.
func (s *server) check(_ *http.Request, body []byte) *failure {
	o, f := objectOf("the request", body)
	if f != nil {
		return f
	}
	if f := members("the request", o, "system", "messages", "inferenceConfig", "toolConfig", "additionalModelRequestFields",
		"additionalModelResponseFieldPaths", "guardrailConfig", "outputConfig", "performanceConfig", "promptVariables",
		"requestMetadata", "serviceTier"); f != nil {
		return f
	}
	c := &checker{server: s}
	if f := c.system(o["system"]); f != nil {
		return f
	}
	if f := c.messages(o["messages"]); f != nil {
		return f
	}
	if f := c.tools(o["toolConfig"]); f != nil {
		return f
	}
	if c.points > 4 {
		return invalid("The request has %d cache points. The maximum is 4.", c.points)
	}
	inference, f := c.inference(o["inferenceConfig"])
	if f != nil {
		return f
	}
	return c.additional(o["additionalModelRequestFields"], inference)
}

// checker reads one request.
type checker struct {
	server *server
	points int
	calls  bool            // there are tool blocks
	waits  map[string]bool // calls of the last assistant turn
	bare   bool            // the last assistant turn has calls, and no thinking before them
	seen   map[string]bool // ids of all calls
}

var (
	idPattern   = lazyre.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	namePattern = lazyre.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

func objectOf(what string, b []byte) (raw, *failure) {
	var o raw
	if len(b) == 0 || json.Unmarshal(b, &o) != nil || o == nil {
		return nil, invalid("Malformed input request: %s is not a JSON object, please reformat your input and try again.", what)
	}
	return o, nil
}

func members(where string, o raw, known ...string) *failure {
	for key := range o {
		if !contains(known, key) {
			return invalid("Malformed input request: extraneous key [%s] is not permitted in %s, please reformat your input and try again.", key, where)
		}
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func list(what string, b json.RawMessage) ([]json.RawMessage, *failure) {
	var l []json.RawMessage
	if json.Unmarshal(b, &l) != nil || len(l) == 0 {
		return nil, invalid("The %s must be a list with at least one element.", what)
	}
	return l, nil
}

func text(b json.RawMessage) (string, bool) {
	var s string
	return s, len(b) > 0 && json.Unmarshal(b, &s) == nil
}

// one is the only member of a union.
func one(where string, b json.RawMessage) (string, json.RawMessage, *failure) {
	o, f := objectOf(where, b)
	if f != nil {
		return "", nil, f
	}
	if len(o) != 1 {
		return "", nil, invalid("Exactly one member must be set in %s.", where)
	}
	for k, v := range o {
		return k, v, nil
	}
	return "", nil, nil
}

func (c *checker) system(b json.RawMessage) *failure {
	if len(b) == 0 {
		return nil
	}
	blocks, f := list("system prompts", b)
	if f != nil {
		return f
	}
	for i, raw := range blocks {
		kind, v, f := one("system", raw)
		switch {
		case f != nil:
			return f
		case kind == "cachePoint" && i > 0:
			f = c.point(v)
		case kind == "text":
			if s, ok := text(v); !ok || strings.TrimSpace(s) == "" {
				f = invalid("The text field in the SystemContentBlock object at system.%d is blank. Add text to the text field, and try again.", i)
			}
		default:
			f = invalid("Malformed input request: %s at system.%d is not permitted.", kind, i)
		}
		if f != nil {
			return f
		}
	}
	return nil
}

func (c *checker) point(b json.RawMessage) *failure {
	o, f := objectOf("cachePoint", b)
	if f != nil {
		return f
	}
	if f := members("cachePoint", o, "type", "ttl"); f != nil {
		return f
	}
	if s, _ := text(o["type"]); s != "default" {
		return invalid("Value at cachePoint.type must be default.")
	}
	if ttl, given := o["ttl"]; given {
		if s, _ := text(ttl); s != "5m" && s != "1h" {
			return invalid("Value at cachePoint.ttl must be 5m or 1h.")
		}
	}
	c.points++
	return nil
}

func (c *checker) tools(b json.RawMessage) *failure {
	if len(b) == 0 {
		if c.calls {
			return invalid("The toolConfig field must be defined when using toolUse and toolResult content blocks.")
		}
		return nil
	}
	o, f := objectOf("toolConfig", b)
	if f != nil {
		return f
	}
	if f := members("toolConfig", o, "tools", "toolChoice"); f != nil {
		return f
	}
	tools, f := list("tools", o["tools"])
	if f != nil {
		return f
	}
	names := map[string]bool{}
	for i, raw := range tools {
		kind, v, f := one("toolConfig.tools", raw)
		switch {
		case f != nil:
			return f
		case kind == "cachePoint" && i > 0:
			f = c.point(v)
		case kind == "toolSpec":
			f = toolSpec(v, names)
		default:
			f = invalid("Malformed input request: %s at toolConfig.tools.%d is not permitted.", kind, i)
		}
		if f != nil {
			return f
		}
	}
	return nil
}

func toolSpec(b json.RawMessage, names map[string]bool) *failure {
	o, f := objectOf("toolSpec", b)
	if f != nil {
		return f
	}
	if f := members("toolSpec", o, "name", "description", "inputSchema", "strict"); f != nil {
		return f
	}
	name, _ := text(o["name"])
	switch {
	case !namePattern.MatchString(name):
		return invalid("Value '%.80s' at 'toolConfig.tools.toolSpec.name' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+", name)
	case names[name]:
		return invalid("The tool %s is already defined at toolConfig.tools. Provide a unique tool name.", name)
	}
	names[name] = true
	if d, given := o["description"]; given {
		if s, ok := text(d); !ok || strings.TrimSpace(s) == "" {
			return invalid("Invalid length for parameter toolConfig.tools.toolSpec.description, value: 0, valid min length: 1")
		}
	}
	schema, f := objectOf("inputSchema", o["inputSchema"])
	if f != nil {
		return f
	}
	inner, f := objectOf("inputSchema.json", schema["json"])
	if f != nil {
		return f
	}
	if s, _ := text(inner["type"]); s != "object" {
		return invalid("The value at toolConfig.tools.0.toolSpec.inputSchema.json.type must be one of the following: object.")
	}
	return nil
}

// inference returns the members, as numbers.
func (c *checker) inference(b json.RawMessage) (map[string]float64, *failure) {
	if len(b) == 0 {
		return nil, nil
	}
	var o map[string]float64
	d := json.NewDecoder(bytes.NewReader(b))
	if d.Decode(&o) != nil {
		return nil, invalid("Malformed input request: inferenceConfig has a member that is not a number.")
	}
	for key, v := range o {
		switch {
		case key == "maxTokens" && v >= 1 && v == float64(int64(v)):
		case (key == "temperature" || key == "topP") && v >= 0 && v <= 1:
		default:
			return nil, invalid("Value %v at inferenceConfig.%s failed to satisfy constraint.", v, key)
		}
	}
	return o, nil
}

// additional checks what Claude makes of its own fields.
func (c *checker) additional(b json.RawMessage, inference map[string]float64) *failure {
	if len(b) == 0 {
		return nil
	}
	o, f := objectOf("additionalModelRequestFields", b)
	if f != nil || o["thinking"] == nil {
		return f
	}
	var thinking struct {
		Type   string  `json:"type"`
		Budget float64 `json:"budget_tokens"`
	}
	if json.Unmarshal(o["thinking"], &thinking) != nil {
		return invalid("The model returned the following errors: thinking: Input should be an object")
	}
	if thinking.Type != "enabled" && thinking.Type != "adaptive" && thinking.Type != "disabled" {
		return invalid("The model returned the following errors: thinking: Input tag '%s' does not match any of the expected tags", thinking.Type)
	}
	if thinking.Type != "enabled" {
		return nil
	}
	_, hot := inference["temperature"]
	most, bounded := inference["maxTokens"]
	switch {
	case thinking.Budget < 1024:
		return invalid("The model returned the following errors: thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
	case bounded && thinking.Budget >= most:
		return invalid("The model returned the following errors: `max_tokens` must be greater than `thinking.budget_tokens`.")
	case hot:
		return invalid("The model returned the following errors: `temperature` may only be set to 1 when thinking is enabled.")
	case c.bare:
		return missingThought()
	}
	return nil
}

func missingThought() *failure {
	return invalid("The model returned the following errors: messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.")
}
