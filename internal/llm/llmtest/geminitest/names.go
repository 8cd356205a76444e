package geminitest

import (
	"encoding/json"
	"slices"
	"strings"
)

// canonical writes the names of members as the documentation has them: the API
// takes inline_data for inlineData too. What is not of the API, such as the
// arguments of a call, stays as it is, and so does what is no JSON.
func canonical(raw json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && list != nil {
		for i := range list {
			list[i] = canonical(list[i])
		}
		return encode(list, false)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return raw
	}
	out := make(map[string]json.RawMessage, len(members))
	for name, v := range members {
		name = camel(name)
		switch {
		case name == "properties": // the names of arguments
			v = inside(v)
		case !slices.Contains(foreign(), name):
			v = canonical(v)
		}
		out[name] = v
	}
	return encode(out, false)
}

// foreign are the members that hold what is not of the API.
func foreign() []string {
	return []string{"args", "response", "parametersJsonSchema", "responseJsonSchema", "labels", "enum", "default", "example"}
}

// inside is canonical for the values of an object with names of the caller's.
func inside(raw json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return raw
	}
	for name, v := range members {
		members[name] = canonical(v)
	}
	return encode(members, false)
}

func camel(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		if w != "" {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}
