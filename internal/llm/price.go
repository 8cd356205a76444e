package llm

import (
	"parley/internal/conversation"
)

// Price is USD per token.
type Price struct {
	Input      float64
	CacheRead  float64 // tokens read from the prompt cache
	CacheWrite float64 // tokens written to it
	Output     float64 // reasoning tokens included
	// Long are the prices of a call whose prompt is longer than LongFrom tokens,
	// for the whole call; nil = there is no such step. Long may have a step of its
	// own, with a larger LongFrom.
	Long     *Price
	LongFrom int64
}

// at returns the prices of a call with so many prompt tokens.
func (p *Price) at(prompt int64) *Price {
	for p.Long != nil && prompt > p.LongFrom {
		p = p.Long
	}
	return p
}

// Cost returns what a call cost, in USD. PromptTokens include the cached ones,
// CompletionTokens the reasoning; impossible counts are clamped.
func (p *Price) Cost(u conversation.Usage) float64 {
	prompt := max(u.PromptTokens, 0)
	read := min(max(u.CacheReadTokens, 0), prompt)
	write := min(max(u.CacheWriteTokens, 0), prompt-read)
	t := p.at(prompt)
	return float64(prompt-read-write)*t.Input + float64(read)*t.CacheRead +
		float64(write)*t.CacheWrite + float64(max(u.CompletionTokens, 0))*t.Output
}

// Worst returns the most that a call of at most so many tokens can cost, in USD.
func (p *Price) Worst(prompt, output int64) float64 {
	cost := p.worst(prompt, output)
	for p.Long != nil && prompt > p.LongFrom {
		p = p.Long
		cost = max(cost, p.worst(prompt, output))
	}
	return cost
}

func (p *Price) worst(prompt, output int64) float64 {
	return float64(max(prompt, 0))*max(p.Input, p.CacheWrite, p.CacheRead) + float64(max(output, 0))*p.Output
}

// Affordable returns the longest output, in tokens, that a call with so many
// prompt tokens can have without costing more than usd; negative if the prompt
// alone is too dear.
func (p *Price) Affordable(prompt int64, usd float64) int64 {
	left := usd - p.Worst(prompt, 0)
	if left < 0 {
		return -1
	}
	per := p.Output
	for p.Long != nil && prompt > p.LongFrom {
		p = p.Long
		per = max(per, p.Output)
	}
	if per <= 0 {
		return 1 << 40
	}
	return int64(min(left/per, 1<<40))
}
