package condense

import (
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/tool"
)

// How an event is counted: about as package spend counts what a prompt is likely
// to have, so that the parts make up the whole.
const (
	bytesPerToken = 4
	perEvent      = 16   // tokens of markup
	perImage      = 4096 // tokens; the dearest families count more only for the largest
	imageBytes    = perImage * bytesPerToken
)

// weigh estimates how many bytes of a prompt an event makes, images included.
func weigh(p conversation.Payload) int64 {
	n := int64(perEvent * bytesPerToken)
	switch e := p.(type) {
	case *conversation.SystemPromptEvent:
		n += int64(len(e.SystemPrompt.Text))
	case *conversation.MessageEvent:
		n += weighParts(e.LLMMessage.Content) + weighParts(e.ExtendedContent) + int64(len(e.LLMMessage.Reasoning))
		n += weighBlocks(e.LLMMessage.ThinkingBlocks)
	case *conversation.ActionEvent:
		n += weighParts(e.Thought) + int64(len(e.Reasoning)+len(e.ToolCall.Name)+len(e.ToolCall.Arguments))
		n += weighBlocks(e.ThinkingBlocks)
	case *conversation.ObservationEvent:
		for _, part := range append(tool.ModelParts(e.Observation), e.ExtendedContent...) {
			n += min(weighParts([]content.Part{part}), shownOfResult+imageBytes*int64(len(part.ImageURLs)))
		}
	case *conversation.UserRejectObservation:
		n += int64(len(e.RejectionReason))
	case *conversation.AgentErrorEvent:
		n += min(int64(len(e.Error)), shownOfResult)
	case *conversation.CondensationSummaryEvent:
		n += int64(len(e.Summary))
	}
	return n
}

// shownOfResult bounds what a model reads of one result, in bytes (agent protocol 3).
const shownOfResult = 50_000

func weighParts(parts []content.Part) int64 {
	var n int64
	for _, p := range parts {
		n += int64(len(p.Text)) + imageBytes*int64(len(p.ImageURLs))
	}
	return n
}

func weighBlocks[T ~[]byte](blocks []T) int64 {
	var n int64
	for _, b := range blocks {
		n += int64(len(b))
	}
	return n
}

// scale is the estimate of a whole view, in tokens.
type scale struct {
	event []int64 // of each event
	own   int64   // of all but the system prompt, without what the caller knows
	total int64   // of the whole prompt
}

// estimate counts a view. told is what the caller counted for the whole prompt,
// tools included, 0 if it did not; where it counted more, every event counts for
// more.
func estimate(view []conversation.Payload, told int64) scale {
	s := scale{event: make([]int64, len(view)), total: told}
	var sum int64
	for i, p := range view {
		n := (weigh(p) + bytesPerToken - 1) / bytesPerToken
		s.event[i] = n
		sum += n
		if !isPrompt(p) {
			s.own += n
		}
	}
	if told <= 0 {
		s.total = sum
	}
	if told > sum && sum > 0 {
		for i := range s.event {
			s.event[i] = int64(float64(s.event[i]) * float64(told) / float64(sum))
		}
	}
	return s
}
