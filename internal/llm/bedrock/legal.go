package bedrock

import (
	"strconv"

	"parley/internal/llm/wire"
)

// maxName is the longest id and tool name that the API takes.
const maxName = 64

// legal gives ids and names that the API does not take ones that it does, each
// its own, the same for the whole request.
type legal struct {
	given map[string]string // ours by the original
	taken map[string]string // the original by ours
}

func newLegal() *legal { return &legal{given: map[string]string{}, taken: map[string]string{}} }

// of returns the legal spelling of s.
func (l *legal) of(s string) string {
	if known, ok := l.given[s]; ok {
		return known
	}
	base := wire.LegalName(s)
	out := base
	for n := 2; ; n++ {
		if _, ok := l.taken[out]; !ok {
			break
		}
		suffix := "_" + strconv.Itoa(n)
		out = base[:min(len(base), maxName-len(suffix))] + suffix
	}
	l.given[s], l.taken[out] = out, s
	return out
}

// original returns what a legal spelling stands for; what is not known stands for
// itself.
func (l *legal) original(s string) string {
	if known, ok := l.taken[s]; ok {
		return known
	}
	return s
}
