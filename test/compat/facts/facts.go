// Package facts reduces OpenAPI documents to what clients depend on: operations,
// parameters, members of bodies with their types and values, statuses. Documents of
// other servers are kept in this form only, and compared in it.
package facts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Document are the operations of a document by "METHOD /path".
type Document map[string]*Operation

// Operation is what is known of one. Params are by "in name", members by their path
// ("items[].id", "map{}.name"); the whole body is "". A fact is a Fact's text.
type Operation struct {
	Params    map[string]Fact            `json:"params,omitempty"`
	Body      map[string]Fact            `json:"body,omitempty"`
	Responses map[string]map[string]Fact `json:"responses,omitempty"` // by status
}

// Fact says what a value is: its types, sorted, with "|" between them, its values in
// parentheses if it has only some, and "!" if it must be there: "null|string(A,B)!".
// A value of any type is "any".
type Fact string

const required = "!"

// maxDepth bounds how far members of members are followed.
const maxDepth = 5

// Read reduces a document. keep says of which operations parameters and bodies are
// wanted; nil = of all.
func Read(raw map[string]any, keep func(path string) bool) (Document, error) {
	r := &reader{root: raw}
	out := Document{}
	paths, _ := raw["paths"].(map[string]any)
	for path, item := range paths {
		members, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s is no object", path)
		}
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			op, ok := members[method].(map[string]any)
			if !ok {
				continue
			}
			o := &Operation{}
			if keep == nil || keep(path) {
				o = r.operation(op, members)
			}
			out[strings.ToUpper(method)+" "+path] = o
		}
	}
	return out, nil
}

type reader struct{ root map[string]any }

func (r *reader) operation(op, item map[string]any) *Operation {
	o := &Operation{Params: map[string]Fact{}, Responses: map[string]map[string]Fact{}}
	for _, list := range []any{item["parameters"], op["parameters"]} {
		params, _ := list.([]any)
		for _, p := range params {
			r.param(o, r.resolve(p))
		}
	}
	body := r.resolve(op["requestBody"])
	if schema := r.media(body); schema != nil {
		o.Body = map[string]Fact{}
		r.walk(o.Body, "", schema, body["required"] == true, 0)
	}
	responses, _ := op["responses"].(map[string]any)
	for status, v := range responses {
		if !strings.HasPrefix(status, "2") {
			continue // errors are compared as a whole, not route by route
		}
		members := map[string]Fact{}
		if schema := r.media(r.resolve(v)); schema != nil {
			r.walk(members, "", schema, true, 0)
		}
		o.Responses[status] = members
	}
	return o
}

// param notes a parameter. Those of paths are known by their place, and headers that
// only carry the caller's key say nothing of the operation.
func (r *reader) param(o *Operation, p map[string]any) {
	in, _ := p["in"].(string)
	name, _ := p["name"].(string)
	if in != "query" {
		return
	}
	o.Params[in+" "+name] = r.fact(r.resolve(p["schema"]), p["required"] == true)
}

// media is the schema of a JSON body, nil if there is none.
func (r *reader) media(body map[string]any) map[string]any {
	content, _ := body["content"].(map[string]any)
	media, _ := content["application/json"].(map[string]any)
	if media == nil {
		return nil
	}
	return r.resolve(media["schema"])
}

// resolve follows references, a bounded number of times. What is no object is {}.
func (r *reader) resolve(v any) map[string]any {
	m, _ := v.(map[string]any)
	for range 10 {
		ref, ok := m["$ref"].(string)
		if !ok {
			return m
		}
		var at any = r.root
		for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			next, _ := at.(map[string]any)
			at = next[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
		}
		m, _ = at.(map[string]any)
	}
	return m
}

// walk notes a value and the members below it.
func (r *reader) walk(out map[string]Fact, at string, schema map[string]any, must bool, depth int) {
	out[at] = r.fact(schema, must)
	objects := r.objects(schema)
	if depth == maxDepth {
		return
	}
	if len(objects) != 1 { // none, or one of several: known by its values only
		r.kinds(out, at, objects)
		return
	}
	object := objects[0]
	if items := r.resolve(object["items"]); len(items) > 0 {
		r.walk(out, at+"[]", items, true, depth+1)
	}
	if each, ok := object["additionalProperties"].(map[string]any); ok && len(each) > 0 {
		r.walk(out, at+"{}", r.resolve(each), true, depth+1)
	}
	properties, _ := object["properties"].(map[string]any)
	needed, _ := object["required"].([]any)
	for name, v := range properties {
		r.walk(out, strings.TrimPrefix(at+"."+name, "."), r.resolve(v), slices.Contains(needed, any(name)), depth+1)
	}
}

// kinds notes which kinds of objects a union has.
func (r *reader) kinds(out map[string]Fact, at string, objects []map[string]any) {
	var values []any
	for _, object := range objects {
		properties, _ := object["properties"].(map[string]any)
		kind := r.resolve(properties["kind"])
		if len(kind) == 0 {
			return
		}
		values = append(values, constants(kind)...)
	}
	if len(values) > 0 {
		out[strings.TrimPrefix(at+".kind", ".")] = fact(map[string]bool{"string": true}, values, false)
	}
}

// objects are the variants of a schema that have members or items, flattened.
func (r *reader) objects(schema map[string]any) []map[string]any {
	if all, ok := schema["allOf"].([]any); ok {
		return []map[string]any{r.merged(schema, all)}
	}
	var out []map[string]any
	for _, v := range variants(schema) {
		out = append(out, r.objects(r.resolve(v))...)
	}
	if out != nil {
		return out
	}
	if schema["properties"] != nil || schema["items"] != nil || schema["additionalProperties"] != nil {
		return []map[string]any{schema}
	}
	return nil
}

// merged is one object of the parts of an allOf.
func (r *reader) merged(schema map[string]any, parts []any) map[string]any {
	properties, needed := map[string]any{}, []any{}
	for _, part := range append(slices.Clone(parts), any(without(schema, "allOf"))) {
		for _, object := range r.objects(r.resolve(part)) {
			own, _ := object["properties"].(map[string]any)
			maps.Copy(properties, own)
			list, _ := object["required"].([]any)
			needed = append(needed, list...)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": needed}
}

func without(m map[string]any, key string) map[string]any {
	out := maps.Clone(m)
	delete(out, key)
	return out
}

func variants(schema map[string]any) []any {
	one, _ := schema["oneOf"].([]any)
	some, _ := schema["anyOf"].([]any)
	return append(slices.Clone(one), some...)
}

// fact says what a schema allows.
func (r *reader) fact(schema map[string]any, must bool) Fact {
	types, values := map[string]bool{}, []any{}
	open := r.collect(schema, types, &values)
	if open { // one of the variants is any value of its type
		values = nil
	}
	return fact(types, values, must)
}

// collect adds the types and values of a schema, and tells whether a variant has
// other values than those.
func (r *reader) collect(schema map[string]any, types map[string]bool, values *[]any) (open bool) {
	list := variants(schema)
	if all, ok := schema["allOf"].([]any); ok && len(list) == 0 {
		list = all
	}
	for _, v := range list {
		open = r.collect(r.resolve(v), types, values) || open
	}
	if len(list) > 0 {
		return open
	}
	known := constants(schema)
	switch t := schema["type"].(type) {
	case string:
		types[t] = true
	case []any:
		for _, one := range t {
			types[fmt.Sprint(one)] = true
		}
	default:
		if schema["properties"] != nil {
			types["object"] = true
		} else if len(known) == 0 {
			types["any"] = true
		}
	}
	for _, v := range known {
		if v == nil {
			types["null"] = true
			continue
		}
		*values = append(*values, v)
		if _, ok := v.(string); ok && len(types) == 0 {
			types["string"] = true
		}
	}
	return len(known) == 0 && schema["type"] != "null"
}

// constants are the values that a schema allows, nil if it names none.
func constants(schema map[string]any) []any {
	if v, ok := schema["const"]; ok {
		return []any{v}
	}
	list, _ := schema["enum"].([]any)
	return list
}

func fact(types map[string]bool, values []any, must bool) Fact {
	text := "any"
	if !types["any"] && len(types) > 0 {
		text = strings.Join(slices.Sorted(maps.Keys(types)), "|")
	}
	if len(values) > 0 {
		var words []string
		for _, v := range values {
			words = append(words, fmt.Sprint(v))
		}
		slices.Sort(words)
		text += "(" + strings.Join(slices.Compact(words), ",") + ")"
	}
	if must {
		text += required
	}
	return Fact(text)
}
