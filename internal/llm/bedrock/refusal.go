package bedrock

import (
	"strings"

	"parley/internal/llm"
)

// refusals are the optional parts of a request that a model refused.
type refusals uint32

const (
	refusedStreamTools   refusals = 1 << iota // streaming, with tools
	refusedStream                             // streaming at all
	refusedSystem                             // instructions of their own
	refusedMixed                              // tool blocks and others in one turn
	refusedCache                              // cache points
	refusedCacheMessages                      // ... in messages
	refusedCacheTools                         // ... among the tools
	refusedTTL                                // how long a cache holds
	refusedTemperature
	refusedTopP
	refusedTopK
	refusedThinking
	refusedBudget    // thinking with a number of tokens
	refusedAdaptive  // thinking as long as the model likes
	refusedDisplay   // how thinking is shown
	refusedReasoning // thinking sent back: of one call, not of the model
	renewed          // credentials, once per call
)

// passing are the refusals that say nothing about the next call.
const passing = refusedReasoning | renewed

func (r refusals) has(f refusals) bool { return r&f != 0 }

// symptom says which words of a refusal mean which part; all must be there.
type symptom struct {
	words []string
	part  refusals
}

// symptoms are tried in order; the first that names a part which was sent counts.
func symptoms() []symptom {
	return []symptom{
		{[]string{"tool use in streaming"}, refusedStreamTools},
		{[]string{"support", "streaming"}, refusedStream},
		{[]string{"support", "converse-stream"}, refusedStream},
		{[]string{"support", "system message"}, refusedSystem},
		{[]string{"support", "system prompt"}, refusedSystem},
		{[]string{"cannot be provided in the same turn"}, refusedMixed},
		{[]string{"cache point cannot be inserted after reasoning"}, refusedCacheMessages},
		{[]string{"did not allow prompt caching"}, refusedCache},
		{[]string{"cachepoint", "ttl"}, refusedTTL},
		{[]string{"toolconfig", "cachepoint"}, refusedCacheTools},
		{[]string{"messages", "cachepoint"}, refusedCacheMessages},
		{[]string{"cachepoint"}, refusedCache},
		{[]string{"cache point"}, refusedCache},
		{[]string{"display"}, refusedDisplay},
		{[]string{"thinking.type.enabled"}, refusedBudget},
		{[]string{"adaptive"}, refusedAdaptive},
		{[]string{"output_config"}, refusedAdaptive},
		{[]string{"signature"}, refusedReasoning},
		{[]string{"reasoningcontent"}, refusedReasoning},
		{[]string{"reasoning content"}, refusedReasoning},
		{[]string{"thinking` or `redacted_thinking` blocks in the latest"}, refusedReasoning},
		{[]string{"thinking"}, refusedThinking},
		{[]string{"reasoning"}, refusedThinking},
		{[]string{"top_p"}, refusedTopP},
		{[]string{"topp"}, refusedTopP},
		{[]string{"temperature"}, refusedTemperature},
		{[]string{"top_k"}, refusedTopK},
		{[]string{"topk"}, refusedTopK},
	}
}

// learn returns the part that a refusal complains about and that was sent. said
// is what the service said.
func (m *Model) learn(e *llm.Error, said string, req *llm.Request, refused refusals) refusals {
	if e.Streamed || e.NotSent {
		return 0
	}
	text := strings.ToLower(said)
	switch e.Class {
	case llm.ClassAuth: // which is also how cache points are refused
		if !strings.Contains(text, "prompt caching") {
			return m.learnCredentials(text, refused)
		}
	case llm.ClassBadRequest, llm.ClassMalformed:
	default:
		return 0
	}
	for _, s := range symptoms() {
		if containsAll(text, s.words) && !refused.has(s.part) && m.sends(s.part, req, refused) {
			return s.part
		}
	}
	return 0
}

// learnCredentials: what the chain found may have been renewed meanwhile, such as
// by a login.
func (m *Model) learnCredentials(text string, refused refusals) refusals {
	if refused.has(renewed) || !strings.Contains(text, "token") && !strings.Contains(text, "expired") || !m.auth.renew() {
		return 0
	}
	return renewed
}

// sends reports whether a request without refused has the part.
func (m *Model) sends(part refusals, req *llm.Request, refused refusals) bool {
	think := m.cfg.Reasoning && !refused.has(refusedThinking) && (m.cfg.ReasoningEffort != "" || m.cfg.ReasoningBudget > 0)
	switch part {
	case refusedStreamTools:
		return m.streams(req, refused) && usesTools(req)
	case refusedStream:
		return m.streams(req, refused)
	case refusedCache, refusedCacheMessages, refusedCacheTools:
		return m.mayCache(refused)
	case refusedTTL:
		return m.mayCache(refused) && m.point(refused).TTL != ""
	case refusedTemperature:
		return m.cfg.Temperature != nil
	case refusedTopP:
		return m.cfg.TopP != nil
	case refusedTopK:
		return m.cfg.TopK != nil
	case refusedThinking:
		return think
	case refusedBudget, refusedAdaptive, refusedDisplay:
		return think && m.family.vendor == claude
	case refusedReasoning:
		return hasReasoning(req.Messages, m.source)
	}
	return true
}

// streams reports whether a call asks for a stream.
func (m *Model) streams(req *llm.Request, refused refusals) bool {
	return req.OnDelta != nil && !refused.has(refusedStream) && !(refused.has(refusedStreamTools) && usesTools(req))
}

// usesTools reports whether a request will have a list of tools.
func usesTools(req *llm.Request) bool {
	for _, msg := range req.Messages {
		if len(msg.ToolCalls) > 0 {
			return true
		}
	}
	return len(req.Tools) > 0
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
