package geminitest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

type toolsIn struct {
	Functions     []functionIn    `json:"functionDeclarations"`
	GoogleSearch  json.RawMessage `json:"googleSearch"`
	URLContext    json.RawMessage `json:"urlContext"`
	CodeExecution json.RawMessage `json:"codeExecution"`
}

type functionIn struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	JSONSchema  json.RawMessage `json:"parametersJsonSchema"`
}

func (q *checker) tools(r *request) error {
	var names []string
	for i, t := range r.Tools {
		for j, f := range t.Functions {
			at := fmt.Sprintf("* GenerateContentRequest.tools[%d].function_declarations[%d]", i, j)
			switch {
			case !functionName.MatchString(f.Name):
				return refuse("%s.name: Invalid function name. [%.80s]", at, f.Name)
			case slices.Contains(names, f.Name):
				return refuse("Duplicate function declaration found: %s", f.Name)
			case f.Description == "":
				return refuse("%s.description: must not be empty", at)
			case f.Parameters != nil && f.JSONSchema != nil:
				return refuse("%s: parameters and parameters_json_schema are mutually exclusive", at)
			}
			names = append(names, f.Name)
			if err := checkParameters(f); err != nil {
				return refuse("%s.%v", at, err)
			}
		}
	}
	return nil
}

func checkParameters(f functionIn) error {
	switch {
	case f.JSONSchema != nil:
		return CheckJSONSchema(f.JSONSchema)
	case f.Parameters != nil:
		return CheckSchema(f.Parameters)
	}
	return nil
}

// CheckSchema returns why the API refuses parameters in its own schema; nil if it
// does not.
func CheckSchema(raw []byte) error {
	var s protoSchema
	if err := strict(raw, &s); err != nil {
		return err
	}
	if !strings.EqualFold(s.Type, "OBJECT") {
		return refuse("parameters: must be of type OBJECT")
	}
	return s.check("parameters", 0)
}

// maxDepth is how deep a schema may be nested. Google does not say how deep, and
// the bound was seen to change.
const maxDepth = 32

// CheckJSONSchema returns why the API refuses a parametersJsonSchema; nil if it
// does not.
func CheckJSONSchema(raw []byte) error {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return refuse("parameters_json_schema: %v", err)
	}
	root, _ := v.(map[string]any)
	if root["type"] != "object" {
		return refuse("parameters_json_schema: schema at top-level must be an object")
	}
	if err := known(root, 0); err != nil {
		return refuse("parameters_json_schema: %v", err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("mem:///schema", v); err != nil {
		return refuse("parameters_json_schema: %v", err)
	}
	if _, err := c.Compile("mem:///schema"); err != nil {
		return refuse("parameters_json_schema: value at %v", err)
	}
	return nil
}

// known checks that a JSON Schema stays within what the API documents.
func known(v any, depth int) error {
	o, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	if depth > maxDepth {
		return refuse("A FunctionDeclaration in the request exceeds the maximum allowed nesting depth.")
	}
	keywords := []string{"type", "format", "title", "description", "enum", "items", "prefixItems", "minItems", "maxItems",
		"minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required", "propertyOrdering", "default"}
	for key, inner := range o {
		if !slices.Contains(keywords, key) {
			return refuse("unsupported keyword %q", key)
		}
		for _, child := range children(key, inner) {
			if err := known(child, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func children(key string, v any) []any {
	switch key {
	case "items", "additionalProperties":
		return []any{v}
	case "anyOf", "oneOf", "prefixItems":
		list, _ := v.([]any)
		return list
	case "properties":
		var out []any
		properties, _ := v.(map[string]any)
		for _, p := range properties {
			out = append(out, p)
		}
		return out
	}
	return nil
}

// protoSchema is Google's own schema.
type protoSchema struct {
	Type        string                 `json:"type"`
	Format      string                 `json:"format"`
	Title       string                 `json:"title"`
	Description string                 `json:"description"`
	Nullable    bool                   `json:"nullable"`
	Enum        []string               `json:"enum"`
	AnyOf       []protoSchema          `json:"anyOf"`
	Properties  map[string]protoSchema `json:"properties"`
	Ordering    []string               `json:"propertyOrdering"`
	Required    []string               `json:"required"`
	Items       *protoSchema           `json:"items"`
	MinItems    *int64                 `json:"minItems"`
	MaxItems    *int64                 `json:"maxItems"`
	Minimum     *float64               `json:"minimum"`
	Maximum     *float64               `json:"maximum"`
	Default     json.RawMessage        `json:"default"` // these mean nothing to the API, but are known
	Example     json.RawMessage        `json:"example"`
	Pattern     json.RawMessage        `json:"pattern"`
	MinLength   json.RawMessage        `json:"minLength"`
	MaxLength   json.RawMessage        `json:"maxLength"`
	MinMembers  json.RawMessage        `json:"minProperties"`
	MaxMembers  json.RawMessage        `json:"maxProperties"`
}

func (s *protoSchema) check(at string, depth int) error {
	s.Type = strings.ToUpper(s.Type) // enumerations are read in any case
	if depth > maxDepth {
		return refuse("A FunctionDeclaration in the request exceeds the maximum allowed nesting depth.")
	}
	if len(s.AnyOf) > 0 {
		return s.checkUnion(at, depth)
	}
	switch {
	case !slices.Contains([]string{"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"}, s.Type):
		return refuse("%s.type: must be specified", at)
	case s.Items != nil && s.Type != "ARRAY":
		return refuse("%s.items: field predicate failed: $type == Type.ARRAY", at)
	case s.Items == nil && s.Type == "ARRAY":
		return refuse("%s.items: missing field.", at)
	case (len(s.Properties) > 0 || len(s.Required) > 0) && s.Type != "OBJECT":
		return refuse("%s.properties: only allowed for OBJECT type", at)
	case len(s.Enum) > 0 && s.Type != "STRING":
		return refuse("%s.enum: only allowed for STRING type", at)
	case slices.Contains(s.Enum, ""):
		return refuse("%s.enum: cannot be empty", at)
	case s.Format != "" && !(s.Type == "STRING" && (s.Format == "enum" || s.Format == "date-time")):
		return refuse("%s.format: only 'enum' and 'date-time' are supported for STRING type", at)
	}
	return s.checkInner(at, depth)
}

func (s *protoSchema) checkInner(at string, depth int) error {
	for _, name := range s.Required {
		if _, ok := s.Properties[name]; !ok {
			return refuse("%s.required: property %q is not defined", at, name)
		}
	}
	if s.Items != nil {
		if err := s.Items.check(at+".items", depth+1); err != nil {
			return err
		}
	}
	for name, p := range s.Properties {
		if err := p.check(at+".properties["+name+"]", depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (s *protoSchema) checkUnion(at string, depth int) error {
	if s.Type != "" || s.Description != "" || s.Nullable || s.Items != nil || len(s.Properties) > 0 || len(s.Enum) > 0 {
		return refuse("%s: when using any_of, it must be the only field set", at)
	}
	for i := range s.AnyOf {
		if err := s.AnyOf[i].check(fmt.Sprintf("%s.any_of[%d]", at, i), depth+1); err != nil {
			return err
		}
	}
	return nil
}
