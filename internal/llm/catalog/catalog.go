// Package catalog knows what models can do and what they cost: context windows,
// output limits, images, tools, reasoning, prompt caches, prices, and when they
// go away. The table ships in the binary (models.tsv, cut from a public one by
// gen) and can be corrected and extended by a file.
//
// It admits what it does not know: what is not in the table is unknown and stays
// so, and there are no guesses by family. It calls nobody.
package catalog

import (
	_ "embed" // the table
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"parley/internal/llm"
)

//go:embed models.tsv
var table string

// Catalog is a table of models. It does not change, so that it is safe for
// concurrent use.
type Catalog struct {
	rows []row // ordered by key
}

// row is an entry and what it is found by.
type row struct {
	key   string // the model's id in lower case
	entry Entry
	own   bool // of an override file
}

// embedded parses the shipped table at its first use: a server without models
// never needs it.
var embedded = sync.OnceValues(func() (*Catalog, error) { return Parse(table) })

// Default returns the table that ships in the binary. The first call takes
// about a millisecond.
func Default() *Catalog {
	c, err := embedded()
	if err != nil {
		panic(err) // a test reads the shipped table
	}
	return c
}

// build orders rows and keeps the last one of each key.
func build(rows []row) *Catalog {
	slices.SortStableFunc(rows, func(a, b row) int { return strings.Compare(a.key, b.key) })
	kept := rows[:0]
	for i, r := range rows {
		if i+1 == len(rows) || rows[i+1].key != r.key {
			kept = append(kept, r)
		}
	}
	return &Catalog{rows: kept}
}

// exact finds a key.
func (c *Catalog) exact(key string) (row, bool) {
	i := sort.Search(len(c.rows), func(i int) bool { return c.rows[i].key >= key })
	if i == len(c.rows) || c.rows[i].key != key {
		return row{}, false
	}
	return c.rows[i], true
}

// Names lists all models of the table, sorted.
func (c *Catalog) Names() []string {
	names := make([]string, len(c.rows))
	for i, r := range c.rows {
		names[i] = r.entry.Model
	}
	slices.Sort(names)
	return names
}

// own are the providers whose own API has an adapter that passes the conformance
// suite.
var own = []string{"anthropic", "azure", "bedrock", "gemini", "openai"}

// Offers lists what users can choose, sorted by id: models that are still there
// at now, under ids that an endpoint understands. Models of an override file are
// offered in any case, if their id names a provider.
func (c *Catalog) Offers(now time.Time) []llm.Offer {
	day := now.UTC().Format(time.DateOnly)
	var offers []llm.Offer
	for _, r := range c.rows {
		provider, name, slash := strings.Cut(r.entry.Model, "/")
		if !slash || !r.own && (isPriceOnly(r.key) || r.entry.goneBy(day)) {
			continue
		}
		offers = append(offers, llm.Offer{Provider: provider, Name: name,
			Verified: slices.Contains(own, provider) && r.entry.wellKnown()})
	}
	slices.SortFunc(offers, func(a, b llm.Offer) int { return strings.Compare(a.ID(), b.ID()) })
	return offers
}

// isPriceOnly reports whether an id is there for what a region's prices are: no
// endpoint has a model of that name.
func isPriceOnly(key string) bool {
	rest, ok := strings.CutPrefix(key, "azure/")
	return ok && strings.Contains(rest, "/")
}
