package wire

import "parley/internal/conversation"

// Usage is the domain's.
type Usage = conversation.Usage

// Counts are the tokens of one call: Prompt includes Read and Write (the prompt
// cache), Completion includes Reasoning.
type Counts struct {
	Prompt, Completion, Read, Write, Reasoning int64
}
