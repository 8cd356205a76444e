package gemini

import (
	"encoding/json"
	"math"
	"strings"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// The request on the wire. What changes least comes first, and maps are written
// by sorted keys, so that equal histories have equal bytes: Google caches by
// prefix.
type wireRequest struct {
	System     *wireContent      `json:"systemInstruction,omitempty"`
	Tools      []wireTools       `json:"tools,omitempty"`
	Contents   []wireContent     `json:"contents"`
	Generation *generationConfig `json:"generationConfig,omitempty"`
}

type wireContent struct {
	Role  string     `json:"role,omitempty"`
	Parts []wirePart `json:"parts"`
}

// wirePart has exactly one of Text, Inline, File, Call and Response.
type wirePart struct {
	Text      *string       `json:"text,omitempty"`
	Inline    *wireBlob     `json:"inlineData,omitempty"`
	File      *wireFile     `json:"fileData,omitempty"`
	Call      *wireCall     `json:"functionCall,omitempty"`
	Response  *wireResponse `json:"functionResponse,omitempty"`
	Thought   bool          `json:"thought,omitempty"`
	Signature string        `json:"thoughtSignature,omitempty"`
}

type wireBlob struct {
	MimeType string `json:"mimeType"`
	Data     string `json:"data"`
}

type wireFile struct {
	MimeType string `json:"mimeType,omitempty"`
	URI      string `json:"fileUri"`
}

type wireCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type wireResponse struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
	Parts    []wirePart        `json:"parts,omitempty"`
}

type wireTools struct {
	Functions []wireFunction `json:"functionDeclarations"`
}

type wireFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`           // Google's own schema
	JSONSchema  json.RawMessage `json:"parametersJsonSchema,omitempty"` // a JSON Schema
}

type generationConfig struct {
	Temperature *float64        `json:"temperature,omitempty"`
	TopP        *float64        `json:"topP,omitempty"`
	TopK        *int64          `json:"topK,omitempty"`
	Seed        *int64          `json:"seed,omitempty"`
	MaxOutput   int64           `json:"maxOutputTokens,omitempty"`
	Thinking    *thinkingConfig `json:"thinkingConfig,omitempty"`
}

type thinkingConfig struct {
	Include bool   `json:"includeThoughts,omitempty"`
	Budget  *int64 `json:"thinkingBudget,omitempty"`
	Level   string `json:"thinkingLevel,omitempty"`
}

// encode renders a request without what is in refused.
func (m *Model) encode(req *llm.Request, names *nameMap, refused refusals) ([]byte, error) {
	h := history{model: m, names: names, refused: refused}
	w := wireRequest{Contents: h.render(req.Messages), Generation: m.settings(req, refused)}
	if len(h.system) > 0 {
		w.System = &wireContent{Parts: h.system}
	}
	if functions := m.functions(req.Tools, names, refused); len(functions) > 0 {
		w.Tools = []wireTools{{Functions: functions}}
	}
	body, err := content.Marshal(w)
	if err != nil {
		return nil, err
	}
	return wire.Merge(body, m.cfg.Body)
}

// functions renders the tools. Their order in names is that of tools.
func (m *Model) functions(tools []llm.Tool, names *nameMap, refused refusals) []wireFunction {
	out := make([]wireFunction, 0, len(tools))
	for i, t := range tools {
		f := wireFunction{Name: names.declared[i], Description: t.Description}
		if strings.TrimSpace(f.Description) == "" {
			f.Description = t.Name
		}
		schema := m.schemas.convert(t.Parameters, refused.form())
		if refused.form() == formProto || refused.form() == formShallow {
			f.Parameters = schema
		} else {
			f.JSONSchema = schema
		}
		out = append(out, f)
	}
	return out
}

// settings renders how the answer shall be; nil if there are none.
func (m *Model) settings(req *llm.Request, refused refusals) *generationConfig {
	g := generationConfig{Temperature: m.cfg.Temperature, TopP: m.cfg.TopP, MaxOutput: max(m.cfg.Output(req), 0)}
	if k := m.cfg.TopK; k != nil {
		whole := int64(math.Round(min(max(*k, 1), math.MaxInt32)))
		g.TopK = &whole
	}
	if s := m.cfg.Seed; s != nil {
		seed := *s & math.MaxInt32 // the API's seed has 32 bits
		g.Seed = &seed
	}
	if !refused.has(refusedThinking) {
		g.Thinking = m.thinking(g.MaxOutput)
	}
	if g == (generationConfig{}) {
		return nil
	}
	return &g
}

// shortAnswer is the bound of an answer, in tokens, that leaves no room for
// thoughts: they count as part of it, and would be all of it.
const shortAnswer = 1024

// thinking renders how much the model shall think. The API refuses a request
// with both a level and a budget, and one that wants to see thoughts of a model
// that has none.
func (m *Model) thinking(output int64) *thinkingConfig {
	effort, budget := m.cfg.ReasoningEffort, m.cfg.ReasoningBudget
	wanted := m.cfg.Reasoning || (effort != "" && effort != "none") || budget > 0
	if !wanted || m.gen.knowsNoThinking() {
		return nil
	}
	if output > 0 && output <= shortAnswer {
		effort, budget = "none", 0
	}
	t := &thinkingConfig{Include: true}
	switch {
	case m.gen.levels() && effort != "":
		t.Level = m.gen.level(effort)
	case m.gen.levels() && budget > 0:
		t.Level = m.gen.levelOfBudget(budget)
	case m.gen.levels() || (effort == "" && budget <= 0):
	default:
		if budget <= 0 {
			budget = m.gen.budgetOf(effort)
		}
		if budget = m.gen.clampBudget(budget, output); budget >= 0 {
			t.Budget, t.Include = &budget, budget != 0
		}
	}
	return t
}
