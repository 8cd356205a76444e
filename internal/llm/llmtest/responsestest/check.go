package responsestest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"parley/internal/lazyre"
)

type object = map[string]json.RawMessage

// Check returns why the API would refuse the body of a request, nil if it would not.
func Check(body []byte) *Refusal {
	var o object
	if json.Unmarshal(body, &o) != nil {
		return invalid("", "We could not parse the JSON body of your request.")
	}
	for _, check := range []func(object) *Refusal{checkNames, checkTop, checkReasoning, checkCache, checkTools, checkInput} {
		if refusal := check(o); refusal != nil {
			return refusal
		}
	}
	return nil
}

func invalid(param, format string, args ...any) *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}

func unknown(param string) *Refusal {
	r := invalid(param, "Unknown parameter: '%s'.", param)
	r.Code = "unknown_parameter"
	return r
}

func missing(param string) *Refusal {
	r := invalid(param, "Missing required parameter: '%s'.", param)
	r.Code = "missing_required_parameter"
	return r
}

func wrongType(param, want string) *Refusal {
	r := invalid(param, "Invalid type for '%s': expected %s.", param, want)
	r.Code = "invalid_type"
	return r
}

func unsupported(param string) *Refusal {
	r := invalid(param, "Unsupported parameter: '%s' is not supported with this model.", param)
	r.Code = "unsupported_parameter"
	return r
}

// onlyKnown refuses members beyond names.
func onlyKnown(o object, where string, names ...string) *Refusal {
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(names, key) {
			return unknown(where + key)
		}
	}
	return nil
}

func str(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || string(raw) == "null" || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

func list(raw json.RawMessage) ([]object, bool) {
	var l []object
	return l, len(raw) > 0 && string(raw) != "null" && json.Unmarshal(raw, &l) == nil
}

// has reports whether a member is there and not null.
func has(o object, key string) bool { return len(o[key]) > 0 && string(o[key]) != "null" }

func checkNames(o object) *Refusal {
	return onlyKnown(o, "", "background", "conversation", "include", "input", "instructions", "max_output_tokens",
		"max_tool_calls", "metadata", "model", "parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key",
		"prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "store", "stream",
		"stream_options", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user")
}

func checkTop(o object) *Refusal {
	if model, ok := str(o["model"]); !ok || model == "" {
		return missing("model")
	}
	for _, key := range []string{"store", "stream", "parallel_tool_calls"} {
		var b bool
		if has(o, key) && json.Unmarshal(o[key], &b) != nil {
			return wrongType(key, "a boolean")
		}
	}
	if _, ok := str(o["instructions"]); has(o, "instructions") && !ok {
		return wrongType("instructions", "a string")
	}
	if has(o, "max_output_tokens") {
		var n int64
		if json.Unmarshal(o["max_output_tokens"], &n) != nil {
			return wrongType("max_output_tokens", "an integer")
		}
		if n < 16 {
			r := invalid("max_output_tokens", "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got %d instead.", n)
			r.Code = "integer_below_min_value"
			return r
		}
	}
	return checkInclude(o)
}

func checkInclude(o object) *Refusal {
	if !has(o, "include") {
		return nil
	}
	var include []string
	if json.Unmarshal(o["include"], &include) != nil {
		return wrongType("include", "an array of strings")
	}
	for i, what := range include {
		if what != "reasoning.encrypted_content" && what != "message.output_text.logprobs" {
			return invalid("include", "Invalid value: '%s' for 'include[%d]'.", what, i)
		}
	}
	return nil
}

// Families of models by name: those that think and those that do not. Of others
// nothing is known, and they take everything.
var (
	thinks      = lazyre.MustCompile(`^(gpt-5|o[134]|codex)`)
	thinksNever = lazyre.MustCompile(`^gpt-(3|4)`)
	cachesNever = lazyre.MustCompile(`^gpt-(5\.[6-9]|5-mini|5-nano|4o|3)`)
)

func checkReasoning(o object) *Refusal {
	model, _ := str(o["model"])
	var r object
	if has(o, "reasoning") && json.Unmarshal(o["reasoning"], &r) != nil {
		return wrongType("reasoning", "an object")
	}
	if refusal := onlyKnown(r, "reasoning.", "effort", "summary", "generate_summary"); refusal != nil {
		return refusal
	}
	effort, _ := str(r["effort"])
	if has(r, "effort") && !slices.Contains([]string{"none", "minimal", "low", "medium", "high", "xhigh"}, effort) {
		return invalid("reasoning.effort", "Invalid value: '%s'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', and 'xhigh'.", effort)
	}
	summary, _ := str(r["summary"])
	if has(r, "summary") && !slices.Contains([]string{"auto", "concise", "detailed"}, summary) {
		return invalid("reasoning.summary", "Invalid value: '%s'. Supported values are: 'auto', 'concise', and 'detailed'.", summary)
	}
	if thinksNever.MatchString(model) {
		if len(r) > 0 {
			return unsupported("reasoning.effort")
		}
		if strings.Contains(string(o["include"]), "encrypted") {
			return invalid("include", "Encrypted content is not supported with this model.")
		}
	}
	for _, key := range []string{"temperature", "top_p"} {
		if thinks.MatchString(model) && effort != "none" && has(o, key) {
			return unsupported(key)
		}
	}
	return nil
}

func checkCache(o object) *Refusal {
	model, _ := str(o["model"])
	if key, ok := str(o["prompt_cache_key"]); has(o, "prompt_cache_key") && (!ok || len(key) > 64) {
		return invalid("prompt_cache_key", "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64.")
	}
	if !has(o, "prompt_cache_retention") {
		return nil
	}
	if kept, _ := str(o["prompt_cache_retention"]); kept != "24h" && kept != "in_memory" {
		return invalid("prompt_cache_retention", "Invalid value: '%s'. Supported values are: 'in_memory' and '24h'.", kept)
	}
	if cachesNever.MatchString(model) {
		return invalid("prompt_cache_retention", "prompt_cache_retention is not supported on this model")
	}
	return nil
}

var toolName = lazyre.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func checkTools(o object) *Refusal {
	if !has(o, "tools") {
		return nil
	}
	tools, ok := list(o["tools"])
	if !ok {
		return wrongType("tools", "an array of objects")
	}
	for i, t := range tools {
		where := fmt.Sprintf("tools[%d].", i)
		if kind, _ := str(t["type"]); kind != "function" {
			return invalid(where+"type", "Invalid value: '%s'.", kind)
		}
		name, ok := str(t["name"])
		if !ok {
			return missing(where + "name")
		}
		if !toolName.MatchString(name) {
			return invalid(where+"name", "Invalid '%sname': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", where)
		}
		if refusal := onlyKnown(t, where, "type", "name", "description", "parameters", "strict"); refusal != nil {
			return refusal
		}
		if refusal := checkSchema(t, where, name); refusal != nil {
			return refusal
		}
	}
	return nil
}

func checkSchema(t object, where, name string) *Refusal {
	if !has(t, "parameters") {
		return missing(where + "parameters")
	}
	var schema object
	_ = json.Unmarshal(t["parameters"], &schema) // what is no object has no type
	if kind, _ := str(schema["type"]); kind != "object" {
		return invalid(where+"parameters", "Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"%s\"'.", name, kind)
	}
	if !has(schema, "properties") {
		return invalid(where+"parameters", "Invalid schema for function '%s': In context=(), object schema missing properties.", name)
	}
	for _, key := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if has(schema, key) {
			return invalid(where+"parameters", "Invalid schema for function '%s': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.", name)
		}
	}
	if !has(t, "strict") || string(t["strict"]) != "false" {
		return invalid(where+"parameters", "Invalid schema for function '%s': 'additionalProperties' is required to be supplied and to be false.", name)
	}
	return nil
}

// imageAddress reports whether the API would fetch or read an image.
func imageAddress(u string) bool {
	if strings.HasPrefix(u, "https://") || strings.HasPrefix(u, "http://") {
		return len(u) > len("https://")
	}
	rest, ok := strings.CutPrefix(u, "data:image/")
	kind, data, found := strings.Cut(rest, ";base64,")
	if !ok || !found || !slices.Contains([]string{"png", "jpeg", "gif", "webp"}, kind) {
		return false
	}
	raw, err := base64.StdEncoding.DecodeString(data)
	return err == nil && len(raw) > 0
}
