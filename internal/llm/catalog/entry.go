package catalog

import "parley/internal/llm"

// Fact is a yes or a no that may be unknown.
type Fact uint8

// The values of a Fact.
const (
	Unknown Fact = iota
	Yes
	No
)

// Entry is what is known of a model. Zero fields are unknown. The prices are
// shared: they must not be changed.
type Entry struct {
	Model         string // "provider/model"
	ContextWindow int64  // tokens of a prompt
	MaxOutput     int64  // tokens of one answer
	Vision        Fact   // takes images
	Tools         Fact   // has native tool calling
	Reasoning     Fact   // thinks before it answers, or can
	CachePrompt   Fact   // has a prompt cache
	Responses     bool   // is reached over the Responses API only
	Price         *llm.Price
	// HourPrice are the prices where prompts are cached for an hour instead of
	// minutes; nil = the same as Price. See PriceFor.
	HourPrice  *llm.Price
	Deprecated string // the day it goes away, "2006-01-02"
}

// PriceFor returns the prices under a cache retention ("1h", "5m", "" = the
// provider's default); nil = unknown.
func (e Entry) PriceFor(retention string) *llm.Price {
	if retention == "1h" && e.HourPrice != nil {
		return e.HourPrice
	}
	return e.Price
}

// goneBy reports whether the model is known to have gone away before a day.
func (e Entry) goneBy(day string) bool { return e.Deprecated != "" && e.Deprecated < day }

// wellKnown reports whether everything is known that an agent's work needs.
func (e Entry) wellKnown() bool {
	return e.Tools == Yes && e.ContextWindow > 0 && e.Price != nil
}
