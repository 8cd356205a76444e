package agentserver

import (
	"cmp"
	"encoding/json"
	"slices"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/engine"
)

type agentInfo struct {
	Kind                string               `json:"kind"`
	LLM                 llmInfo              `json:"llm"`
	Tools               []toolInfo           `json:"tools"`
	MCPConfig           map[string]any       `json:"mcp_config"`
	Filter              *string              `json:"filter_tools_regex"`
	IncludeDefaultTools []string             `json:"include_default_tools"`
	AgentContext        *contextInfo         `json:"agent_context"`
	Condenser           map[string]any       `json:"condenser"`
	Critic              *conversation.Critic `json:"critic"`
	ToolConcurrency     int                  `json:"tool_concurrency_limit"`
}

type llmInfo struct {
	Model   string         `json:"model"`
	APIKey  account.Secret `json:"api_key"` // masked
	BaseURL *string        `json:"base_url"`
	UsageID string         `json:"usage_id"`
	Stream  bool           `json:"stream"`
}

type toolInfo struct {
	Name   string         `json:"name"`
	Params map[string]any `json:"params"`
}

type contextInfo struct {
	Skills        []json.RawMessage `json:"skills"`
	Suffix        *string           `json:"system_message_suffix"`
	UserSuffix    *string           `json:"user_message_suffix"`
	ProjectSkills bool              `json:"load_project_skills"`
	Disabled      []string          `json:"disabled_skills"`
}

type clientToolInfo struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Annotations json.RawMessage `json:"annotations"` // null if there are none
}

func renderAgent(v *engine.View) agentInfo {
	o := v.Options
	names := v.Tools
	if len(o.Tools) > 0 { // with sets of tools under their own names
		names = slices.DeleteFunc(slices.Clone(o.Tools), func(n string) bool { return n == toolFinish || n == toolThink })
	}
	tools := make([]toolInfo, len(names))
	for i, name := range names {
		tools[i] = toolInfo{name, map[string]any{}}
	}
	return agentInfo{
		Kind: "Agent", LLM: renderLLM(o.LLM, "agent", true),
		Tools: tools, MCPConfig: o.MCP.RenderServers(),
		Filter: orNull(o.ToolFilter), IncludeDefaultTools: []string{"FinishTool", "ThinkTool"},
		AgentContext: &contextInfo{[]json.RawMessage{}, orNull(o.SystemSuffix), orNull(o.UserSuffix), !o.NoProject, append([]string{}, o.DisabledSkills...)},
		Condenser:    renderCondenser(o.Condenser, o.LLM), Critic: o.Critic,
		ToolConcurrency: cmp.Or(o.ToolConcurrency, engine.DefaultConcurrency),
	}
}

func renderLLM(l account.LLM, use string, streams bool) llmInfo {
	return llmInfo{l.Model, l.APIKey, orNull(l.BaseURL), use, streams}
}

// renderCondenser shows what was asked for, defaults filled in; nil is the one of
// the settings.
func renderCondenser(c *conversation.Condenser, own account.LLM) map[string]any {
	switch {
	case c == nil:
		return nil
	case c.Kind == conversation.CondenserPipeline:
		parts := []any{}
		for i := range c.Condensers {
			parts = append(parts, renderCondenser(&c.Condensers[i], own))
		}
		return map[string]any{"kind": c.Kind, "condensers": parts}
	case c.Kind != conversation.CondenserSummarizing:
		return map[string]any{"kind": c.Kind}
	}
	if c.LLM != nil {
		own = *c.LLM
	}
	out := map[string]any{"kind": c.Kind, "llm": renderLLM(own, "condenser", false), "max_size": cmp.Or(c.MaxSize, 240),
		"keep_first": orDefault(c.KeepFirst, 2), "minimum_progress": orDefault(c.MinimumProgress, 0.1), "max_tokens": nil,
		"hard_context_reset_max_retries":     orDefault(c.ResetRetries, 5),
		"hard_context_reset_context_scaling": orDefault(c.ResetScaling, 0.8)}
	if c.MaxTokens > 0 {
		out["max_tokens"] = c.MaxTokens
	}
	return out
}

func orDefault[T any](v *T, fallback T) T {
	if v == nil {
		return fallback
	}
	return *v
}

func clientTools(o conversation.Options) []clientToolInfo {
	out := make([]clientToolInfo, len(o.ClientTools))
	for i, t := range o.ClientTools {
		out[i] = clientToolInfo(t)
	}
	return out
}
