package config

import (
	"fmt"

	"parley/internal/near"
)

// Suggest returns the candidate nearest to word by edit distance, or "" if none
// is near enough to be a misspelling of it.
func Suggest(word string, candidates []string) string {
	const longest = 64 // bytes; beyond it is no misspelling, and hostile input costs nothing
	best, bestDistance := "", len(word)/3+2
	if len(word) > longest {
		return ""
	}
	for _, c := range candidates {
		if d := near.Distance(word, c, bestDistance); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// didYouMean is Suggest as the end of a message.
func didYouMean(word string, candidates []string) string {
	if s := Suggest(word, candidates); s != "" {
		return fmt.Sprintf(" (did you mean %s?)", s)
	}
	return ""
}
