package gemini

import (
	"encoding/json"

	"parley/internal/llm/wire"
)

// usage is what the API says a call used. Each chunk of a stream repeats it, so
// far; a member that a later chunk leaves out keeps its last value.
type usage struct {
	known                                       bool
	prompt, cached, answer, thought, tools, all int64
}

type wireUsage struct {
	Prompt  json.RawMessage `json:"promptTokenCount"`
	Cached  json.RawMessage `json:"cachedContentTokenCount"`
	Answer  json.RawMessage `json:"candidatesTokenCount"`
	Thought json.RawMessage `json:"thoughtsTokenCount"`
	Tools   json.RawMessage `json:"toolUsePromptTokenCount"`
	All     json.RawMessage `json:"totalTokenCount"`
}

// take reads a usageMetadata object; wrong numbers count as 0.
func (u *usage) take(raw json.RawMessage) {
	var w wireUsage
	if wire.IsNull(raw) || json.Unmarshal(raw, &w) != nil {
		return
	}
	later(&u.prompt, w.Prompt)
	later(&u.cached, w.Cached)
	later(&u.answer, w.Answer)
	later(&u.thought, w.Thought)
	later(&u.tools, w.Tools)
	later(&u.all, w.All)
	u.known = u.known || u.prompt > 0 || u.answer > 0
}

func later(count *int64, raw json.RawMessage) {
	if n := wire.Count(raw); n > 0 {
		*count = n
	}
}

// counts are the numbers in our terms: thoughts are part of the completion, and
// cached tokens of the prompt. Google counts thoughts apart; where the total says
// that an endpoint included them, they are not counted twice.
func (u *usage) counts() wire.Counts {
	c := wire.Counts{Prompt: u.prompt + u.tools, Completion: u.answer + u.thought, Read: u.cached, Reasoning: u.thought}
	if u.answer >= u.thought && u.all > 0 && u.all == c.Prompt+u.answer {
		c.Completion = u.answer
	}
	return c
}
