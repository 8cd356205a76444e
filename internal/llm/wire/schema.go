package wire

import (
	"encoding/json"
	"slices"

	"parley/internal/content"
)

// anyObject is the schema of a tool that says nothing about its arguments.
const anyObject = `{"type":"object","properties":{}}`

// ObjectSchema makes a tool's schema one that the strictest endpoints take: of
// an object, with properties, without alternatives at its top, for which one
// tool of an MCP server would spoil every request. What alternatives say of
// properties is kept as far as one object can say it: a property of any of them
// is allowed, one that all of them demand is demanded. A schema that needs none
// of this is returned as it came. The result must not be changed.
func ObjectSchema(raw json.RawMessage) json.RawMessage { return schemas.get(raw, objectSchema) }

var schemas memo

func objectSchema(raw json.RawMessage) json.RawMessage {
	members := Object(raw)
	if len(members) == 0 {
		return json.RawMessage(anyObject)
	}
	changed := false
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if list, there := members[key]; there {
			fold(members, list, key == "allOf")
			delete(members, key)
			changed = true
		}
	}
	for _, key := range []string{"enum", "not"} {
		_, there := members[key]
		changed = changed || there
		delete(members, key)
	}
	if Text(members["type"]) != "object" {
		members["type"], changed = json.RawMessage(`"object"`), true
	}
	if Object(members["properties"]) == nil {
		members["properties"], changed = json.RawMessage(`{}`), true
	}
	return again(raw, members, changed)
}

// again encodes the members if they were changed.
func again(raw json.RawMessage, members map[string]json.RawMessage, changed bool) json.RawMessage {
	if !changed {
		return raw
	}
	out, err := content.Marshal(members)
	if err != nil { // members that were decoded are always encoded
		return json.RawMessage(anyObject)
	}
	return out
}

// fold puts the properties of a list of schemas into members, and what all of
// them demand, or with every any of them.
func fold(members map[string]json.RawMessage, list json.RawMessage, every bool) {
	var parts []json.RawMessage
	if json.Unmarshal(list, &parts) != nil {
		return
	}
	properties := Object(members["properties"])
	if properties == nil {
		properties = map[string]json.RawMessage{}
	}
	demanded := texts(members["required"])
	var common []string
	for i, raw := range parts {
		part := Object(raw)
		for name, schema := range Object(part["properties"]) {
			if _, there := properties[name]; !there {
				properties[name] = schema
			}
		}
		switch wanted := texts(part["required"]); {
		case every:
			demanded = append(demanded, wanted...)
		case i == 0:
			common = wanted
		default:
			common = slices.DeleteFunc(common, func(name string) bool { return !slices.Contains(wanted, name) })
		}
	}
	set(members, "properties", properties)
	if demanded = known(append(demanded, common...), properties); len(demanded) > 0 {
		set(members, "required", demanded)
	} else {
		delete(members, "required")
	}
}

// known are the names that are properties, each once.
func known(names []string, properties map[string]json.RawMessage) []string {
	var out []string
	for _, name := range names {
		if _, there := properties[name]; there && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func texts(raw json.RawMessage) []string {
	var out []string
	if json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}

func set(members map[string]json.RawMessage, name string, v any) {
	if raw, err := content.Marshal(v); err == nil {
		members[name] = raw
	}
}
