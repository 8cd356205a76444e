package wire

import (
	"crypto/rand"
	"strings"

	"parley/internal/llm"
)

// TakenIDs are the tool call ids of the history: a new call must not have one of
// them, though some endpoints count from 0 in every answer.
func TakenIDs(req *llm.Request) map[string]bool {
	taken := map[string]bool{}
	for _, msg := range req.Messages {
		for _, c := range msg.ToolCalls {
			taken[c.ID] = true
		}
	}
	return taken
}

// FreshID returns given if it is an id that is not taken, else one of ours, and
// notes it as taken.
func FreshID(given string, taken map[string]bool) string {
	for given == "" || taken[given] {
		// Nine letters or digits are an id for every endpoint, the strictest included.
		given = strings.ToLower(rand.Text()[:9])
	}
	taken[given] = true
	return given
}

// ResponseID returns the id that an endpoint gave its answer, or one of ours
// where it gave none.
func ResponseID(given string) string {
	if given == "" {
		return "resp-" + strings.ToLower(rand.Text())
	}
	return given
}
