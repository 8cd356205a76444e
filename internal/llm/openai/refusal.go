package openai

import (
	"errors"
	"strconv"
	"strings"

	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/wire"
)

// refusals are what an endpoint refused of a request that can do without.
type refusals uint32

const (
	refusedStreamOptions refusals = 1 << iota
	refusedStream                 // the answer is asked for as a whole
	refusedCacheKey
	refusedRetention
	refusedMarkers
	refusedExtra
	refusedTemperature
	refusedTopP
	refusedTopK
	refusedSeed
	refusedEffort // the extreme efforts: a moderate one instead
	refusedReasoning
	refusedUsageCost
	refusedMaxSpelling // the other name of max_tokens and max_completion_tokens
	refusedSystem      // instructions are a user's message
	refusedLate        // instructions behind the beginning are
	refusedRuns        // roles must alternate: neighbours are joined
	refusedEnd         // the last message must be a user's or a tool's
	refusedImages
	refusedParts // text must be a string
	refusedIDs   // call ids must be nine letters and digits
)

func (r refusals) has(f refusals) bool { return r&f != 0 }

// complaint says by which words of an error a refusal is known.
type complaint struct {
	what  refusals
	words []string // lower case; one is enough
	field string   // or the name of a request field
}

func complaints() []complaint {
	return []complaint{
		{what: refusedStreamOptions, field: "stream_options"},
		{what: refusedStreamOptions, field: "include_usage"},
		{what: refusedStream, words: []string{"verified to stream", "streaming is not supported", "does not support streaming", "does not support stream"}},
		{what: refusedCacheKey, field: "prompt_cache_key"},
		{what: refusedRetention, field: "prompt_cache_retention"},
		{what: refusedMarkers, field: "cache_control"},
		{what: refusedMarkers, words: []string{"cached content is too small"}},
		{what: refusedTemperature, field: "temperature"},
		{what: refusedTopP, field: "top_p"},
		{what: refusedTopK, field: "top_k"},
		{what: refusedSeed, field: "seed"},
		{what: refusedReasoning, field: "reasoning_effort"},
		{what: refusedReasoning, field: "reasoning"},
		{what: refusedReasoning, words: []string{"does not support thinking", "does not support reasoning"}},
		{what: refusedUsageCost, words: []string{"'usage'", "`usage`", "\"usage\"", "supplied: usage"}},
		{what: refusedSystem, words: []string{"system role not supported", "does not support 'system'", "system messages are not supported"}},
		{what: refusedLate, words: []string{"unexpected role 'system'", "system message must be at the beginning", "system role must be first"}},
		{what: refusedRuns, words: []string{"roles must alternate"}},
		{what: refusedEnd, words: []string{"expected last role", "last message must"}},
		{what: refusedImages, words: []string{"support image input", "image input is not supported", "does not support images",
			"not a multimodal model", "unknown variant `image_url`", "only supported by certain models", "image_url is not supported",
			"not support vision", "multimodal is not supported", "images are not supported"}},
		{what: refusedParts, words: []string{"content must be a string", "content should be a string", "content: input should be a valid string",
			"content.str: input should be a valid string", "invalid type: sequence, expected a string"}},
		{what: refusedIDs, words: []string{"with a length of 9", "tool_calls[0].id': string too long", "id': string too long"}},
	}
}

func (c complaint) matches(text string) bool {
	return c.field != "" && mentions(text, c.field) || failure.Says(text, c.words...)
}

// mentions reports whether text names a field as a whole word.
func mentions(text, field string) bool {
	for rest := text; ; {
		i := strings.Index(rest, field)
		if i < 0 {
			return false
		}
		end := i + len(field)
		if (i == 0 || !isWord(rest[i-1])) && (end == len(rest) || !isWord(rest[end])) {
			return true
		}
		rest = rest[end:]
	}
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// learn takes from an error what later requests must do without; it reports
// whether the same call is worth making again. sent are the parts that this
// request had and could do without.
func (m *Model) learn(err error, req *llm.Request, sent refusals) bool {
	var e *llm.Error
	if !errors.As(err, &e) || e.Streamed || e.Status < 400 || !refuses(e.Status) {
		return false
	}
	text := strings.ToLower(e.Message)
	if m.learnBound(e, req) {
		return true
	}
	var more refusals
	for _, c := range complaints() {
		if sent.has(c.what) && c.matches(text) {
			more |= c.what
		}
	}
	if sent.has(refusedExtra) && m.complainsOfExtra(e.Message, req) {
		more |= refusedExtra
	}
	if sent.has(refusedMaxSpelling) && mentions(text, m.maxName(refusals(m.refused.Load()))) {
		more |= refusedMaxSpelling
	}
	if more.has(refusedReasoning) && sent.has(refusedEffort) && strings.Contains(text, "value") {
		more = more&^refusedReasoning | refusedEffort // this effort, not effort as such
	}
	if more.has(refusedTemperature) && more.has(refusedTopP) && strings.Contains(text, "both") {
		more &^= refusedTemperature // one of the two is allowed
	}
	m.refused.Or(uint32(more))
	return more != 0
}

// refuses says with which statuses endpoints refuse a field: some find out
// only when they render the prompt (500) or look for a backend (404).
func refuses(status int) bool {
	return status == 400 || status == 404 || status == 422 || status == 500
}

// minBound is the smallest number in a refusal that can be an answer's bound.
const minBound = 256

// learnBound reads how long an answer may be from a refusal of a longer one: the
// largest number in it that is below what was asked for.
func (m *Model) learnBound(e *llm.Error, req *llm.Request) bool {
	text, asked, allowed := strings.ToLower(e.Message), m.bound(req), int64(0)
	about := mentions(text, maxTokens) || mentions(text, maxCompletionTokens)
	if asked == 0 || !about || e.Class == llm.ClassContext { // there the prompt decides
		return false
	}
	separates := func(r rune) bool { return r > 127 || !isWord(byte(r)) && r != '-' }
	for _, word := range strings.FieldsFunc(text, separates) {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil && n >= minBound && n < asked {
			allowed = max(allowed, n)
		}
	}
	if allowed > 0 {
		m.maxOutput.Store(allowed)
	}
	return allowed > 0
}

// complainsOfExtra reports whether message names a field that an earlier answer
// brought.
func (m *Model) complainsOfExtra(message string, req *llm.Request) bool {
	for _, msg := range req.Messages {
		own, _ := wire.Own(msg.Extra, m.source())
		for key := range own {
			if key != callExtraKey && strings.Contains(message, key) {
				return true
			}
		}
		for _, fields := range callExtra(own) {
			for key := range fields {
				if strings.Contains(message, key) {
					return true
				}
			}
		}
	}
	return false
}
