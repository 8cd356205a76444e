// Package httpkittest checks real answers against OpenAPI documents, for tests.
package httpkittest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"parley/internal/lazyre"
)

const resource = "file:///openapi.json"

// Checker knows a merged document.
type Checker struct {
	mu       sync.Mutex // the compiler is not for many at once
	doc      map[string]any
	compiler *jsonschema.Compiler
	paths    []pathPattern
}

type pathPattern struct {
	path string
	re   *lazyre.Regexp
}

var wildcard = lazyre.MustCompile(`\\\{[^/]*\\\}`)

// New reads a document (httpkit.Merge makes one).
func New(openapi []byte) (*Checker, error) {
	raw, err := jsonschema.UnmarshalJSON(bytes.NewReader(openapi))
	if err != nil {
		return nil, err
	}
	doc, ok := raw.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the document is no object")
	}
	c := &Checker{doc: doc, compiler: jsonschema.NewCompiler()}
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(resource, doc); err != nil {
		return nil, err
	}
	paths, _ := doc["paths"].(map[string]any)
	for path := range paths {
		re := lazyre.MustCompile("^" + wildcard.ReplaceAllString(regexp.QuoteMeta(path), "[^/]*") + "$")
		c.paths = append(c.paths, pathPattern{path, re})
	}
	// Static segments beat wildcards, as in the router.
	sort.Slice(c.paths, func(i, j int) bool {
		return strings.ReplaceAll(c.paths[i].path, "{", "\x7f") < strings.ReplaceAll(c.paths[j].path, "{", "\x7f")
	})
	return c, nil
}

// Check reports what of an answer the document does not allow. Statuses that any
// operation may answer (401, 413, 422, 5xx) need not be documented, but then
// still a JSON body.
func (c *Checker) Check(method, path string, status int, header http.Header, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	pattern := c.pattern(path)
	op := c.at("paths", pattern, strings.ToLower(method))
	if op == nil {
		return c.undocumented(method, path, status)
	}
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	at := []string{"paths", pattern, strings.ToLower(method), "responses", strconv.Itoa(status)}
	response := c.at(at...)
	if response == nil {
		if anywhere(status) && json.Valid(body) {
			return nil
		}
		return fmt.Errorf("%s %s: status %d is not documented: %s", method, pattern, status, body)
	}
	if ref, ok := response["$ref"].(string); ok {
		at = strings.Split(strings.TrimPrefix(ref, "#/"), "/")
		response = c.at(at...)
	}
	content, _ := response["content"].(map[string]any)
	if content == nil && len(body) == 0 {
		return nil
	}
	if content[media] == nil {
		return fmt.Errorf("%s %s: %d has the undocumented type %q", method, pattern, status, media)
	}
	if media != "application/json" {
		return nil
	}
	return c.schema(append(at, "content", media, "schema"), body)
}

// anywhere reports statuses that every operation may answer.
func anywhere(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusRequestEntityTooLarge ||
		status == http.StatusUnprocessableEntity || status >= http.StatusInternalServerError
}

func (c *Checker) undocumented(method, path string, status int) error {
	if status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented ||
		status == http.StatusUnauthorized {
		return nil
	}
	return fmt.Errorf("%s %s is not documented but answers %d", method, path, status)
}

func (c *Checker) pattern(path string) string {
	for _, p := range c.paths {
		if p.re.MatchString(path) {
			return p.path
		}
	}
	return ""
}

func (c *Checker) at(path ...string) map[string]any {
	m := c.doc
	for _, name := range path {
		m, _ = m[name].(map[string]any)
	}
	return m
}

func (c *Checker) schema(at []string, body []byte) error {
	var pointer strings.Builder
	for _, step := range at {
		pointer.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(step))
	}
	s, err := c.compiler.Compile(resource + "#" + pointer.String())
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: the body is no JSON: %w: %q", pointer.String(), err, body)
	}
	if err := s.Validate(value); err != nil {
		return fmt.Errorf("%w\nbody: %s", err, body)
	}
	return nil
}
