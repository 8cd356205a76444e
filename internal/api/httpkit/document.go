package httpkit

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Document is a parsed OpenAPI 3.1 document.
type Document struct {
	raw        map[string]any
	operations []*Operation
	schemas    map[string]*Schema
}

// Operation is one method of one path.
type Operation struct {
	ID           string
	Method       string // upper case
	Path         string
	Public       bool // "security: []": needs no credential
	Params       []Param
	Body         *Schema // of application/json; nil = the operation reads no JSON
	BodyRequired bool
}

// Param is a parameter of the path, the query or a header.
type Param struct {
	Name     string
	In       string // path, query, header
	Required bool
	Schema   *Schema
}

// list reports whether the parameter takes repeated keys.
func (p Param) list() bool { return slices.Contains(p.Schema.types, "array") }

var methods = []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodPatch}

// ParseDocument reads a document in YAML or JSON and compiles its schemas. It
// fails on anything that would not be enforced.
func ParseDocument(src []byte) (*Document, error) {
	var raw any
	if err := yaml.Unmarshal(src, &raw); err != nil {
		return nil, fmt.Errorf("parse document: %w", err)
	}
	root, ok := plain(raw).(map[string]any)
	if !ok {
		return nil, fmt.Errorf("parse document: no object")
	}
	d := &Document{raw: root}
	c := &compiler{components: child(root, "components", "schemas"), done: map[string]*Schema{}}
	paths := child(root, "paths")
	for _, path := range sortedKeys(paths) {
		item, _ := paths[path].(map[string]any)
		if err := d.addPath(c, path, item); err != nil {
			return nil, err
		}
	}
	for name := range c.components {
		if _, err := c.ref("#/components/schemas/"+name, name); err != nil {
			return nil, err
		}
	}
	d.schemas = c.done
	return d, nil
}

// Schema returns a component by name, nil if there is none.
func (d *Document) Schema(name string) *Schema { return d.schemas[name] }

// Operations returns all operations, ordered by path.
func (d *Document) Operations() []*Operation { return d.operations }

// Raw returns the document as decoded JSON. It must not be changed.
func (d *Document) Raw() map[string]any { return d.raw }

func (d *Document) addPath(c *compiler, path string, item map[string]any) error {
	shared, _ := item["parameters"].([]any)
	for _, key := range sortedKeys(item) {
		method := strings.ToUpper(key)
		if key == "parameters" {
			continue
		}
		raw, ok := item[key].(map[string]any)
		if !ok || !slices.Contains(methods, method) {
			return fmt.Errorf("%s: unsupported member %q", path, key)
		}
		op, err := d.operation(c, raw, shared)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		op.Method, op.Path = method, path
		d.operations = append(d.operations, op)
	}
	return nil
}

func (d *Document) operation(c *compiler, raw map[string]any, shared []any) (*Operation, error) {
	op := &Operation{}
	if op.ID, _ = raw["operationId"].(string); op.ID == "" {
		return nil, fmt.Errorf("no operationId")
	}
	security, set := raw["security"].([]any)
	op.Public = set && len(security) == 0
	own, _ := raw["parameters"].([]any)
	for _, p := range slices.Concat(shared, own) {
		param, err := d.param(c, p)
		if err != nil {
			return nil, err
		}
		op.Params = append(op.Params, param)
	}
	media := child(raw, "requestBody", "content", "application/json")
	if media == nil {
		return op, nil
	}
	op.BodyRequired = child(raw, "requestBody")["required"] == true
	var err error
	op.Body, err = c.compile(media["schema"], "body")
	return op, err
}

func (d *Document) param(c *compiler, raw any) (Param, error) {
	m, _ := raw.(map[string]any)
	if ref, ok := m["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/components/parameters/")
		m = child(d.raw, "components", "parameters", name)
	}
	p := Param{}
	p.Name, _ = m["name"].(string)
	p.In, _ = m["in"].(string)
	p.Required = m["required"] == true
	if p.Name == "" || !slices.Contains([]string{"path", "query", "header"}, p.In) {
		return p, fmt.Errorf("bad parameter %v", raw)
	}
	s, err := c.compile(m["schema"], p.Name)
	p.Schema = s
	return p, err
}

// child walks into nested objects; nil if there is none.
func child(m map[string]any, path ...string) map[string]any {
	for _, name := range path {
		m, _ = m[name].(map[string]any)
	}
	return m
}

// plain turns YAML's maps with other than string keys (response codes) into
// JSON objects.
func plain(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			x[k] = plain(e)
		}
	case map[any]any:
		out := map[string]any{}
		for k, e := range x {
			out[fmt.Sprint(k)] = plain(e)
		}
		return out
	case []any:
		for i, e := range x {
			x[i] = plain(e)
		}
	}
	return v
}

// Part is one document of a merged one. Prefix goes before every path.
type Part struct {
	Name     string // distinguishes components and operations of the same name
	Prefix   string
	Params   []any // additional parameters of every path, for wildcards in Prefix
	Document *Document
}

// sections are the kinds of components that are merged.
var sections = []string{"schemas", "parameters", "responses"}

// Merge makes one OpenAPI document of several. Components of the same name but
// other content are renamed with the part's name; so are clashing operationIds.
func Merge(title, version string, parts ...Part) ([]byte, error) {
	paths, components, ids := map[string]any{}, map[string]map[string]any{}, map[string]bool{}
	for _, section := range sections {
		components[section] = map[string]any{}
	}
	for _, p := range parts {
		doc, err := copyOf(p.Document.raw)
		if err != nil {
			return nil, err
		}
		portable(doc)
		tellApart(doc)
		renameClashes(doc, p.Name, components)
		for _, section := range sections {
			maps.Copy(components[section], child(doc, "components", section))
		}
		addPaths(paths, child(doc, "paths"), p, ids)
	}
	return json.Marshal(map[string]any{
		"openapi": "3.1.0",
		"info":    map[string]any{"title": title, "version": version},
		"paths":   paths,
		"components": map[string]any{
			"schemas": components["schemas"], "parameters": components["parameters"], "responses": components["responses"],
			"securitySchemes": map[string]any{
				"SessionAPIKey": map[string]any{"type": "apiKey", "in": "header", "name": headerSessionKey},
				"Bearer":        map[string]any{"type": "http", "scheme": "bearer"},
			}},
		"security": []any{map[string]any{"SessionAPIKey": []any{}}, map[string]any{"Bearer": []any{}}},
	})
}

func copyOf(m map[string]any) (map[string]any, error) {
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("merge documents: %w", err)
	}
	var out map[string]any
	return out, json.Unmarshal(raw, &out)
}

func renameClashes(doc map[string]any, prefix string, taken map[string]map[string]any) {
	for _, section := range sections {
		own := child(doc, "components", section)
		for _, name := range sortedKeys(own) {
			if other, ok := taken[section][name]; ok && !reflect.DeepEqual(other, own[name]) {
				base := "#/components/" + section + "/"
				own[name+"."+prefix] = own[name]
				delete(own, name)
				renameRefs(doc, base+name, base+name+"."+prefix)
			}
		}
	}
}

func renameRefs(v any, from, to string) {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			if text, ok := e.(string); ok && text == from {
				x[k] = to
			}
			renameRefs(e, from, to)
		}
	case []any:
		for _, e := range x {
			renameRefs(e, from, to)
		}
	}
}

func addPaths(to, from map[string]any, p Part, ids map[string]bool) {
	for path, raw := range from {
		item, _ := raw.(map[string]any)
		for key, rawOp := range item {
			op, ok := rawOp.(map[string]any)
			if !ok || key == "parameters" {
				continue
			}
			id := fmt.Sprint(op["operationId"])
			if ids[id] {
				id = p.Name + "_" + id
				op["operationId"] = id
			}
			ids[id] = true
			op["tags"] = []any{p.Name}
		}
		if len(p.Params) > 0 {
			shared, _ := item["parameters"].([]any)
			item["parameters"] = slices.Concat(p.Params, shared)
		}
		to[p.Prefix+path] = item
	}
}
