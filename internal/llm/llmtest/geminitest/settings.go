package geminitest

import (
	"encoding/json"
	"strings"
)

type generationIn struct {
	Temperature      *float64        `json:"temperature"`
	TopP             *float64        `json:"topP"`
	TopK             *int32          `json:"topK"`
	Seed             *int32          `json:"seed"`
	MaxOutput        *int32          `json:"maxOutputTokens"`
	Stop             []string        `json:"stopSequences"`
	Candidates       *int32          `json:"candidateCount"`
	Thinking         *thinkingIn     `json:"thinkingConfig"`
	MediaResolution  string          `json:"mediaResolution"`
	ResponseMimeType string          `json:"responseMimeType"`
	ResponseSchema   json.RawMessage `json:"responseSchema"`
	PresencePenalty  *float64        `json:"presencePenalty"`
	FrequencyPenalty *float64        `json:"frequencyPenalty"`
}

type thinkingIn struct {
	Include bool   `json:"includeThoughts"`
	Budget  *int32 `json:"thinkingBudget"`
	Level   string `json:"thinkingLevel"`
}

func (q *checker) settings(g *generationIn) error {
	if g == nil {
		return nil
	}
	switch {
	case g.Temperature != nil && (*g.Temperature < 0 || *g.Temperature > 2):
		return refuse("* GenerateContentRequest.generation_config.temperature: must be in the range [0.0, 2.0]")
	case g.TopP != nil && (*g.TopP < 0 || *g.TopP > 1):
		return refuse("* GenerateContentRequest.generation_config.top_p: must be in the range [0.0, 1.0]")
	case g.TopK != nil && *g.TopK < 1:
		return refuse("* GenerateContentRequest.generation_config.top_k: must be positive")
	case g.MaxOutput != nil && *g.MaxOutput < 1:
		return refuse("* GenerateContentRequest.generation_config.max_output_tokens: must be positive")
	case g.Thinking != nil:
		return q.thinking(g.Thinking)
	}
	return nil
}

func (q *checker) thinking(t *thinkingIn) error {
	level := strings.ToUpper(t.Level)
	switch {
	case q.gen.number < 2.5:
		return refuse("Thinking is not supported for this model.")
	case t.Budget != nil && t.Level != "":
		return refuse("You can only set only one of thinking budget and thinking level.")
	case t.Level != "" && q.gen.number < 3:
		return refuse("Thinking level is not supported for this model.")
	case level == "MINIMAL" && (q.gen.pro || (!q.gen.lite && q.gen.number >= 3.7)),
		level == "MEDIUM" && q.gen.pro && q.gen.number == 3:
		return refuse("Thinking level %s is not supported for this model.", level)
	case level != "" && level != "MINIMAL" && level != "LOW" && level != "MEDIUM" && level != "HIGH":
		return refuse("Invalid value at 'generation_config.thinking_config.thinking_level': %q", t.Level)
	case t.Budget != nil:
		return q.budget(*t.Budget, t.Include)
	}
	return nil
}

func (q *checker) budget(n int32, include bool) error {
	low, high := int32(0), int32(24576)
	switch {
	case q.gen.pro:
		low, high = 128, 32768
	case q.gen.lite && n != 0:
		low = 512
	}
	switch {
	case n == 0 && q.gen.pro:
		return refuse("Budget 0 is invalid. This model only works in thinking mode.")
	case n == 0 && include:
		return refuse("Thinking_config.include_thoughts is only enabled when thinking is enabled.")
	case n != -1 && (n < low || n > high):
		return refuse("The thinking budget %d is invalid. Please choose a value between %d and %d.", n, low, high)
	}
	return nil
}
