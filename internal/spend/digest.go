package spend

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
)

// digester tells prompts apart. It needs no cryptography: nobody gains by two
// prompts of the own conversation that look alike, and chance makes none.
type digester struct{ hash maphash.Hash }

// add takes texts, each with its length, so that none runs into the next.
func (d *digester) add(texts ...string) {
	for _, text := range texts {
		maphash.WriteComparable(&d.hash, len(text))
		_, _ = d.hash.WriteString(text) // never fails
	}
}

func (d *digester) sum() uint64 { return d.hash.Sum64() }

func sortedNames(m map[string]json.RawMessage) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}
