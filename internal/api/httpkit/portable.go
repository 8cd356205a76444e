package httpkit

import "slices"

// portable rewrites a document's schemas, in place, into forms that mean the same and
// that generators of clients understand: an array says what its items are, and a value
// of several types, null aside, is one of several schemas.
func portable(v any) {
	switch x := v.(type) {
	case map[string]any:
		for _, each := range x {
			portable(each)
		}
		portableTypes(x)
		_, items := x["items"]
		_, prefix := x["prefixItems"]
		if isArray(x["type"]) && !items && !prefix {
			x["items"] = map[string]any{}
		}
	case []any:
		for _, each := range x {
			portable(each)
		}
	}
}

// portableTypes makes anyOf of a list of types, unless it is a type and null.
func portableTypes(schema map[string]any) {
	types, ok := schema["type"].([]any)
	if !ok || schema["anyOf"] != nil || len(types)-count(types, "null") < 2 {
		return
	}
	var each []any
	for _, t := range types {
		one := map[string]any{"type": t}
		if t == "array" {
			if items, ok := schema["items"]; ok {
				one["items"] = items
			} else {
				one["items"] = map[string]any{}
			}
		}
		each = append(each, one)
	}
	delete(schema, "type")
	delete(schema, "items")
	schema["anyOf"] = each
}

func isArray(t any) bool {
	list, _ := t.([]any)
	return t == "array" || slices.Contains(list, any("array"))
}

func count(list []any, want any) int {
	n := 0
	for _, v := range list {
		if v == want {
			n++
		}
	}
	return n
}

// tellApart names what is no schema after what it is: generators make types of all of
// them, and a response is often called as the schema that it has. "Response" itself is
// what they call the answers of operations.
func tellApart(doc map[string]any) {
	for section, suffix := range map[string]string{"parameters": "Parameter", "responses": "Answer"} {
		own := child(doc, "components", section)
		for _, name := range sortedKeys(own) {
			base := "#/components/" + section + "/"
			own[name+suffix] = own[name]
			delete(own, name)
			renameRefs(doc, base+name, base+name+suffix)
		}
	}
}
