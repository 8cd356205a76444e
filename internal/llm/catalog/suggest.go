package catalog

import (
	"slices"
	"strings"
	"time"

	"parley/internal/near"
)

// maxSuggestions bounds what Suggest returns.
const maxSuggestions = 3

// Suggest returns at most three ids that somebody who wrote id may have meant,
// the likeliest first: the same name at a provider, else names that are a few typing
// errors away. Models that are gone are not suggested.
func (c *Catalog) Suggest(id string) []string {
	id = strings.ToLower(strings.TrimSpace(id))
	name := id[strings.LastIndexByte(id, '/')+1:]
	if name == "" || len(id) > 128 {
		return nil
	}
	if found := c.sameName(name); len(found) > 0 && found[0] != id {
		return found
	}
	return c.nearest(id, name)
}

// sameName finds a bare name at its makers, else at hosts.
func (c *Catalog) sameName(name string) []string {
	made, hosted := c.named(name)
	if len(made) == 0 {
		made = hosted
	}
	var found []string
	for _, e := range made {
		found = append(found, e.Model)
	}
	return found[:min(len(found), maxSuggestions)]
}

// nearest finds what is a few typing errors away from the id, or from its name.
func (c *Catalog) nearest(id, name string) []string {
	type guess struct {
		model    string
		distance int
	}
	var found []guess
	bound := len(name)/4 + 1
	for _, o := range c.Offers(time.Now()) {
		full := strings.ToLower(o.ID())
		d := near.Distance(id, full, bound)
		if !strings.Contains(id, "/") || d > bound {
			d = min(d, near.Distance(name, full[strings.LastIndexByte(full, '/')+1:], bound))
		}
		if d <= bound {
			found = append(found, guess{o.ID(), d})
		}
	}
	slices.SortStableFunc(found, func(a, b guess) int {
		if a.distance != b.distance {
			return a.distance - b.distance
		}
		return rank(b.model) - rank(a.model)
	})
	var models []string
	for _, n := range found[:min(len(found), maxSuggestions)] {
		models = append(models, n.model)
	}
	return models
}

func rank(model string) int {
	provider, _, _ := strings.Cut(model, "/")
	if isMaker(provider) {
		return 1
	}
	return 0
}
