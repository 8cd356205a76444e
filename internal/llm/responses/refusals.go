package responses

import (
	"errors"
	"net/http"
	"strings"
	"sync"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/wire"
)

// refusals are what an endpoint, or a model, does not take.
type refusals uint32

const (
	refusedCacheKey   refusals = 1 << iota // prompt_cache_key
	refusedRetention                       // prompt_cache_retention
	refusedInclude                         // encrypted reasoning
	refusedSummary                         // reasoning.summary: OpenAI wants to know the organisation first
	refusedReasoning                       // reasoning as a whole: the model does not think
	refusedParallel                        // parallel_tool_calls
	refusedSampling                        // temperature, top_p
	refusedToolImages                      // images in a tool's output
	refusedIDs                             // ids of items: looked up where nothing is stored
)

func (r refusals) has(f refusals) bool { return r&f != 0 }

// shape is how a request is written: without what was refused, and without the
// thoughts up to and including the one with the identity stale.
type shape struct {
	refused refusals
	stale   string
}

// complaint ties the words of an error to what is left out because of it.
type complaint struct {
	refused refusals
	words   []string
}

func complaints() []complaint {
	return []complaint{
		{refusedCacheKey, []string{"prompt_cache_key"}},
		{refusedRetention, []string{"prompt_cache_retention", "extended prompt caching"}},
		{refusedInclude, []string{"reasoning.encrypted_content", "encrypted content is not supported", "'include'", "\"include\"", "'include[", ": include"}},
		{refusedSummary, []string{"reasoning.summary", "reasoning summar"}},
		{refusedReasoning, []string{"parameter: 'reasoning'", "parameter: 'reasoning.effort'", "parameter: reasoning", "support `reasoning"}},
		{refusedParallel, []string{"parallel_tool_calls"}},
		{refusedSampling, []string{"temperature", "top_p"}},
		{refusedToolImages, []string{"].output", "function_call_output", "input_image", "invalid type for 'input'"}},
		{refusedIDs, []string{"item with id", "duplicate item", "].id'", "not persisted"}},
	}
}

// learn returns how to write the request after err, and whether that is
// different from s.
func (m *Model) learn(err error, req *llm.Request, s shape) (shape, bool) {
	var e *llm.Error
	if !errors.As(err, &e) || e.Streamed || !isRefusal(e.Status) {
		return s, false
	}
	text := strings.ToLower(e.Message)
	for _, c := range complaints() {
		if !s.refused.has(c.refused) && m.sends(c.refused, req, s) && failure.Says(text, c.words...) {
			s.refused |= c.refused
			return s, true
		}
	}
	if newest := m.newestThought(req, s); newest != "" && failure.Says(text, "encrypted content", "encrypted_content",
		"required following item", "required 'reasoning' item", "item with id", "type 'reasoning'", "'reasoning'") {
		s.stale = newest
		return s, true
	}
	return s, false
}

func isRefusal(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusUnprocessableEntity
}

// sends reports whether a request of shape s has the field.
func (m *Model) sends(f refusals, req *llm.Request, s shape) bool {
	w := m.settings(req, s)
	switch f {
	case refusedCacheKey:
		return w.PromptCacheKey != ""
	case refusedRetention:
		return w.PromptCacheRetention != ""
	case refusedInclude:
		return len(w.Include) > 0
	case refusedSummary:
		return w.Reasoning != nil && w.Reasoning.Summary != ""
	case refusedReasoning:
		return w.Reasoning != nil
	case refusedParallel:
		return w.ParallelToolCalls
	case refusedSampling:
		return w.Temperature != nil || w.TopP != nil
	case refusedToolImages:
		return !m.cfg.NoVision && hasToolImage(req)
	}
	return m.newestKept(req, s, func(k *kept) bool { return wire.Text(k.fields["id"]) != "" }) != nil
}

func hasToolImage(req *llm.Request) bool {
	for _, msg := range req.Messages {
		for _, p := range msg.Parts {
			if msg.Role == content.RoleTool && p.Type == content.TypeImage {
				return true
			}
		}
	}
	return false
}

// maxStale bounds how many conversations are remembered.
const maxStale = 1024

// staleThoughts remembers, by session, up to which thought the provider could not
// read them any more: after a change of the key, for example. Later ones are its
// own again.
type staleThoughts struct {
	mu   sync.Mutex
	upTo map[string]string
}

func (s *staleThoughts) of(session string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.upTo[session]
}

func (s *staleThoughts) note(session, identity string) {
	if session == "" || identity == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.upTo == nil || len(s.upTo) >= maxStale {
		s.upTo = map[string]string{} // forgetting costs one refused request
	}
	s.upTo[session] = identity
}
