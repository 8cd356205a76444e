package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxOverride bounds an override file, in bytes.
const maxOverride = 1 << 20

// Load returns the shipped table with an override file laid over it. Errors name
// the file, and the line where one is at fault.
func Load(path string) (*Catalog, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("model catalogue: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxOverride+1))
	if err != nil {
		return nil, fmt.Errorf("model catalogue: %w", err)
	}
	if len(data) > maxOverride {
		return nil, fmt.Errorf("model catalogue: %s is larger than 1 MiB", path)
	}
	c, err := Default().Override(data)
	if err != nil {
		return nil, fmt.Errorf("model catalogue: %s: %w", path, err)
	}
	return c, nil
}

// Override returns c with a file laid over it: YAML, or JSON, which is YAML too.
//
//	models:
//	  openai/gpt-4o:        # any model id, known or not
//	    context_window: 128000
//	    max_output: 16384
//	    vision: true        # likewise tools, reasoning, prompt_cache
//	    responses_only: false
//	    deprecated: 2027-01-31
//	    price:              # USD per million tokens; null = unknown
//	      input: 2.5
//	      output: 10
//	      cache_read: 1.25
//	      cache_write: 2.5
//	      cache_write_1h: 4
//	      above:            # for prompts that are longer
//	        - {tokens: 200000, input: 5, output: 15}
//
// What a model's entry does not name stays as it is; null makes it unknown. A
// price replaces the whole price. A key that nobody knows is an error.
func (c *Catalog) Override(data []byte) (*Catalog, error) {
	root, err := document(data)
	if err != nil || root == nil {
		return c, err
	}
	rows := slices.Clone(c.rows)
	err = object(root, "the file", members{"models": func(models *yaml.Node) error {
		return each(models, "models", func(key, value *yaml.Node) error {
			r, err := c.overridden(key, value)
			rows = append(rows, r)
			return err
		})
	}})
	if err != nil {
		return nil, err
	}
	return build(rows), nil
}

// document parses one YAML document; nil = it is empty.
func document(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it holds more than one document")
	}
	if len(doc.Content) != 1 || isNull(doc.Content[0]) {
		return nil, nil
	}
	return doc.Content[0], nil
}

// overridden lays one entry over the table's own.
func (c *Catalog) overridden(key, value *yaml.Node) (row, error) {
	if err := checkID(key.Value); err != nil {
		return row{}, at(key, err)
	}
	r := row{key: strings.ToLower(key.Value), own: true, entry: Entry{Model: key.Value}}
	if old, ok := c.exact(r.key); ok {
		r.entry = old.entry
	}
	e := &r.entry
	return r, object(value, key.Value, members{
		"context_window": tokensInto(&e.ContextWindow),
		"max_output":     tokensInto(&e.MaxOutput),
		"vision":         factInto(&e.Vision),
		"tools":          factInto(&e.Tools),
		"reasoning":      factInto(&e.Reasoning),
		"prompt_cache":   factInto(&e.CachePrompt),
		"responses_only": func(n *yaml.Node) error {
			var f Fact
			err := factInto(&f)(n)
			e.Responses = f == Yes
			return err
		},
		"deprecated": func(n *yaml.Node) error {
			text, err := scalar(n)
			e.Deprecated = text
			return orAt(n, err, checkDay(text))
		},
		"price": e.readPrice,
	})
}

func (e *Entry) readPrice(n *yaml.Node) error {
	e.Price, e.HourPrice = nil, nil
	if isNull(n) {
		return nil
	}
	var above *yaml.Node
	base := newRates()
	known := base.members()
	known["above"] = func(n *yaml.Node) error { above = n; return nil }
	if err := object(n, "price", known); err != nil {
		return err
	}
	steps := []rates{base.rates}
	if above != nil && above.Kind != yaml.SequenceNode {
		return at(above, errors.New("above must be a list"))
	}
	if above != nil {
		for _, item := range above.Content {
			step := newRates()
			known := step.members()
			known["tokens"] = tokensInto(&step.from)
			if err := object(item, "above", known); err != nil {
				return err
			}
			steps = append(steps, step.rates)
		}
	}
	for _, s := range steps {
		if s.input == unset || s.output == unset {
			return at(n, errors.New("a price needs input and output"))
		}
	}
	e.Price, e.HourPrice = prices(steps)
	return orAt(n, ascending(steps))
}

// readRates are rates that are being read.
type readRates struct{ rates }

func newRates() *readRates {
	return &readRates{rates{input: unset, output: unset, read: unset, write: unset, hour: unset}}
}

func (r *readRates) members() members {
	return members{"input": priceInto(&r.input), "output": priceInto(&r.output), "cache_read": priceInto(&r.read),
		"cache_write": priceInto(&r.write), "cache_write_1h": priceInto(&r.hour)}
}

// members are what an object may hold.
type members map[string]func(*yaml.Node) error

// object reads a mapping whose keys are all known.
func object(n *yaml.Node, what string, known members) error {
	return each(n, what, func(key, value *yaml.Node) error {
		read, ok := known[key.Value]
		if !ok {
			names := make([]string, 0, len(known))
			for name := range known {
				names = append(names, name)
			}
			slices.Sort(names)
			return at(key, fmt.Errorf("%s has no key %.60q; it has %s", what, key.Value, strings.Join(names, ", ")))
		}
		return read(value)
	})
}

// each walks a mapping whose keys are different words.
func each(n *yaml.Node, what string, f func(key, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return at(n, fmt.Errorf("%s must be a mapping of keys to values", what))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			return at(key, fmt.Errorf("a key of %s must be a word", what))
		}
		if seen[key.Value] {
			return at(key, fmt.Errorf("%s has the key %.60q twice", what, key.Value))
		}
		seen[key.Value] = true
		if err := f(key, value); err != nil {
			return err
		}
	}
	return nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// scalar returns a plain value's text; "" for null.
func scalar(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode {
		return "", errors.New("a plain value is expected here")
	}
	if isNull(n) {
		return "", nil
	}
	return n.Value, nil
}

func tokensInto(p *int64) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		text, err := scalar(n)
		if err != nil {
			return at(n, err)
		}
		*p, err = parseTokens(text)
		return orAt(n, err)
	}
}

func factInto(p *Fact) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		text, err := scalar(n)
		switch {
		case err != nil:
		case text == "":
			*p = Unknown
		case text == "true":
			*p = Yes
		case text == "false":
			*p = No
		default:
			err = fmt.Errorf("%.40q is neither true nor false nor null", text)
		}
		return orAt(n, err)
	}
}

func priceInto(p *float64) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		text, err := scalar(n)
		if err != nil {
			return at(n, err)
		}
		if text == "" {
			*p = unset
			return nil
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !plausible(v) {
			return at(n, fmt.Errorf("%.40q is no price in USD per million tokens", text))
		}
		*p = v
		return nil
	}
}

// at adds the line of a node to an error.
func at(n *yaml.Node, err error) error { return fmt.Errorf("line %d: %w", n.Line, err) }

// orAt is the first of some errors with a node's line.
func orAt(n *yaml.Node, errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return at(n, err)
		}
	}
	return nil
}
