// Package catalog knows the context windows and prices of a few well-known
// models, from the table beside it, where each entry names its source. What is
// not in the table is unknown, and stays so: there are no guesses by family.
package catalog

import (
	_ "embed" // the table
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"parley/internal/llm"
)

//go:embed models.json
var table []byte

// Entry is what is known of a model.
type Entry struct {
	Model         string // the table's name, "provider/model"
	ContextWindow int64  // tokens; 0 = unknown
	Vision        bool
	Price         *llm.Price // nil = unknown
}

type wireEntry struct {
	Source        string `json:"source"`
	ContextWindow int64  `json:"context_window"`
	Vision        bool   `json:"vision"`
	Price         *struct {
		Input      float64  `json:"input"`
		CacheRead  *float64 `json:"cache_read"`
		CacheWrite *float64 `json:"cache_write"`
		Output     float64  `json:"output"`
	} `json:"usd_per_million"`
}

// Catalog is a table of models.
type Catalog struct {
	entries map[string]Entry
	names   []string
}

// Parse reads a table. An entry without a source of the table is an error.
func Parse(data []byte) (*Catalog, error) {
	var w struct {
		Sources map[string]string    `json:"sources"`
		Models  map[string]wireEntry `json:"models"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, fmt.Errorf("model catalog: %w", err)
	}
	c := &Catalog{entries: map[string]Entry{}}
	for name, m := range w.Models {
		if w.Sources[m.Source] == "" {
			return nil, fmt.Errorf("model catalog: %s has no source", name)
		}
		c.entries[name] = m.entry(name)
		c.names = append(c.names, name)
	}
	slices.Sort(c.names)
	return c, nil
}

func (m wireEntry) entry(name string) Entry {
	e := Entry{Model: name, ContextWindow: m.ContextWindow, Vision: m.Vision}
	if m.Price == nil {
		return e
	}
	const million = 1e6
	p := &llm.Price{Input: m.Price.Input / million, Output: m.Price.Output / million}
	p.CacheRead, p.CacheWrite = p.Input, p.Input // no discount unless the table has one
	if m.Price.CacheRead != nil {
		p.CacheRead = *m.Price.CacheRead / million
	}
	if m.Price.CacheWrite != nil {
		p.CacheWrite = *m.Price.CacheWrite / million
	}
	e.Price = p
	return e
}

// embedded parses the shipped table once.
var embedded = sync.OnceValues(func() (*Catalog, error) { return Parse(table) })

// Default returns the table that ships in the binary.
func Default() *Catalog {
	c, err := embedded()
	if err != nil {
		panic(err) // a test reads the shipped table
	}
	return c
}

var snapshot = regexp.MustCompile(`-(\d{4}-\d{2}-\d{2}|\d{8})$`)

// gateways forward to other providers: what follows them is the model.
var gateways = []string{"litellm_proxy/", "openhands/", "openrouter/"}

// Lookup finds a model by the id a user configures. A gateway in front of it
// and the date of a snapshot behind it do not matter; a bare name is found if
// only one provider has it.
func (c *Catalog) Lookup(id string) (Entry, bool) {
	id = strings.ToLower(strings.TrimSpace(id))
	for _, g := range gateways {
		id = strings.TrimPrefix(id, g)
	}
	for _, name := range []string{id, snapshot.ReplaceAllString(id, "")} {
		if e, ok := c.entries[name]; ok {
			return e, true
		}
		if found := c.Suggest(name); len(found) == 1 && !strings.Contains(name, "/") {
			return c.entries[found[0]], true
		}
	}
	return Entry{}, false
}

// Suggest returns the full ids of the models with a bare name, sorted.
func (c *Catalog) Suggest(bare string) []string {
	var found []string
	for _, name := range c.names {
		if _, model, _ := strings.Cut(name, "/"); model == strings.ToLower(bare) {
			found = append(found, name)
		}
	}
	return found
}

// Names lists all models of the table, sorted.
func (c *Catalog) Names() []string { return slices.Clone(c.names) }
