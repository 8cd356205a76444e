package bedrock

import (
	"encoding/json"
	"strings"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// The request on the wire. Fields are written in this order, so that equal
// histories have equal bytes: caches work by prefix.
type wireRequest struct {
	System     []block        `json:"system,omitempty"`
	Messages   []turn         `json:"messages"`
	Inference  *inference     `json:"inferenceConfig,omitempty"`
	Tools      *toolConfig    `json:"toolConfig,omitempty"`
	Additional map[string]any `json:"additionalModelRequestFields,omitempty"`
}

type inference struct {
	MaxTokens   int64    `json:"maxTokens,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"topP,omitempty"`
}

type toolConfig struct {
	Tools []tool `json:"tools"`
}

type tool struct {
	Spec       *toolSpec   `json:"toolSpec,omitempty"`
	CachePoint *cachePoint `json:"cachePoint,omitempty"`
}

type toolSpec struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Schema      schema `json:"inputSchema"`
}

type schema struct {
	JSON json.RawMessage `json:"json"`
}

type turn struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// block is one content block: exactly one field is set.
type block struct {
	Text       string          `json:"text,omitempty"`
	Image      *image          `json:"image,omitempty"`
	ToolUse    *toolUse        `json:"toolUse,omitempty"`
	ToolResult *toolResult     `json:"toolResult,omitempty"`
	Reasoning  json.RawMessage `json:"reasoningContent,omitempty"`
	CachePoint *cachePoint     `json:"cachePoint,omitempty"`
}

type image struct {
	Format string      `json:"format"`
	Source imageSource `json:"source"`
}

type imageSource struct {
	Bytes string `json:"bytes"` // base64
}

type toolUse struct {
	ID    string          `json:"toolUseId"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type toolResult struct {
	ID      string  `json:"toolUseId"`
	Content []block `json:"content"`
	Status  string  `json:"status,omitempty"`
}

type cachePoint struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitempty"`
}

// encode renders a request without the optional parts in refused. names are the
// tools by the names they have on the wire.
func (m *Model) encode(req *llm.Request, refused refusals) (body []byte, names *legal, err error) {
	w := wireRequest{}
	names = newLegal()
	w.Tools = m.encodeTools(req, names)
	system, rest := splitSystem(req.Messages)
	w.System = m.encodeSystem(system, refused)
	h := newHistory(m, names, refused)
	if refused.has(refusedSystem) {
		h.text("", w.System...)
		w.System = nil
	}
	w.Messages = h.encode(rest)
	think := m.thinking(m.cfg.Output(req), h.openLoop(), refused)
	w.Additional = m.additional(think, refused)
	w.Inference = m.inference(m.cfg.Output(req), think, refused)
	m.markCaches(&w, refused)
	body, err = content.Marshal(w)
	if err != nil {
		return nil, nil, err
	}
	body, err = wire.Merge(body, m.cfg.Body)
	return body, names, err
}

// encodeTools lists the tools. A history with tool calls needs a list, also where
// no tool may be used any more.
func (m *Model) encodeTools(req *llm.Request, names *legal) *toolConfig {
	c := &toolConfig{}
	for _, t := range req.Tools {
		c.Tools = append(c.Tools, encodeTool(t, names))
	}
	if len(c.Tools) == 0 {
		for _, msg := range req.Messages {
			for _, call := range msg.ToolCalls {
				if _, listed := names.given[call.Name]; !listed {
					c.Tools = append(c.Tools, encodeTool(llm.Tool{Name: call.Name,
						Description: "Not available any more: do not call it."}, names))
				}
			}
		}
	}
	if len(c.Tools) == 0 {
		return nil
	}
	return c
}

func encodeTool(t llm.Tool, names *legal) tool {
	spec := &toolSpec{Name: names.of(t.Name), Schema: schema{JSON: wire.ObjectSchema(t.Parameters)}}
	if strings.TrimSpace(t.Description) != "" {
		spec.Description = t.Description
	}
	return tool{Spec: spec}
}

// splitSystem divides the instructions at the beginning from the conversation.
func splitSystem(msgs []content.Message) (system []content.Part, rest []content.Message) {
	for i, msg := range msgs {
		if msg.Role != content.RoleSystem {
			return system, msgs[i:]
		}
		system = append(system, msg.Parts...)
	}
	return system, nil
}

// encodeSystem renders the instructions, with a cache point behind the last part
// that asks for one, or behind them all.
func (m *Model) encodeSystem(parts []content.Part, refused refusals) []block {
	var out []block
	at := 0
	for _, p := range parts {
		if p.Type == content.TypeImage || strings.TrimSpace(p.Text) == "" {
			continue
		}
		out = append(out, block{Text: p.Text})
		if p.CachePrompt {
			at = len(out)
		}
	}
	if at == 0 {
		at = len(out)
	}
	if at > 0 && !refused.has(refusedSystem) && m.mayCache(refused) {
		tail := append([]block{{CachePoint: m.point(refused)}}, out[at:]...)
		out = append(out[:at:at], tail...)
	}
	return out
}

func (m *Model) mayCache(refused refusals) bool {
	return !m.cfg.NoCache && m.family.caches() && !refused.has(refusedCache)
}

func (m *Model) point(refused refusals) *cachePoint {
	p := &cachePoint{Type: "default"}
	if (m.cfg.CacheRetention == "1h" || m.cfg.CacheRetention == "5m") && !refused.has(refusedTTL) {
		p.TTL = m.cfg.CacheRetention
	}
	return p
}

// markCaches puts cache points behind the tools and behind the last two user
// turns: what the last call wrote at its end is what this one reads. With that of
// the system prompt these are the four that a request may have.
func (m *Model) markCaches(w *wireRequest, refused refusals) {
	if !m.mayCache(refused) {
		return
	}
	if w.Tools != nil && m.family.cachesTools() && !refused.has(refusedCacheTools) {
		w.Tools.Tools = append(w.Tools.Tools, tool{CachePoint: m.point(refused)})
	}
	if refused.has(refusedCacheMessages) {
		return
	}
	left := 2
	for i := len(w.Messages) - 1; i >= 0 && left > 0; i-- {
		if t := &w.Messages[i]; t.Role == content.RoleUser {
			t.Content = append(t.Content, block{CachePoint: m.point(refused)})
			left--
		}
	}
}
