package catalog

// Entries returns all entries, ordered by id in lower case.
func (c *Catalog) Entries() []Entry {
	entries := make([]Entry, len(c.rows))
	for i, r := range c.rows {
		entries[i] = r.entry
	}
	return entries
}
