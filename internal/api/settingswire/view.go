package settingswire

import (
	"bytes"
	"encoding/json"

	"parley/internal/account"
	"parley/internal/agent/condense"
)

// What settings show where nothing is stored (V1 9.1).
const (
	agentSchema       = 5
	defaultAgent      = "CodeActAgent"
	agentKind         = "openhands"
	defaultIterations = 500
)

// Show renders a secret that is set. nil leaves it out of what can be left out, and
// masks the rest.
type Show = func(account.Secret) string

// ViewAgent renders agent_settings: what has an effect over what is kept.
func ViewAgent(s *account.Settings, kept Kept, show Show) (map[string]any, error) {
	llm, err := s.LLM().Render(show)
	if err != nil {
		return nil, err
	}
	own := kept.Object(AgentSettings)
	condenser, _ := own["condenser"].(map[string]any)
	size := condense.DefaultMaxSize
	if s.CondenserMaxSize != nil {
		size = *s.CondenserMaxSize
	}
	agent := defaultAgent
	if s.Agent != nil {
		agent = *s.Agent
	}
	out := account.MergeDiff(own, map[string]any{"schema_version": agentSchema, "agent_kind": agentKind, "agent": agent, "llm": llm,
		"mcp_config": s.MCP.RenderServersAs(show),
		"condenser":  account.MergeDiff(condenser, map[string]any{"enabled": s.EnableDefaultCondenser, "max_size": size})})
	if s.SubAgents != nil {
		out["enable_sub_agents"] = *s.SubAgents
	}
	return out, nil
}

// ViewConversation renders conversation_settings. It shows no analyzer where none is
// stored: none is asked then.
func ViewConversation(s *account.Settings, kept Kept) map[string]any {
	iterations := defaultIterations
	if s.MaxIterations != nil && *s.MaxIterations > 0 {
		iterations = *s.MaxIterations
	}
	out := account.MergeDiff(kept.Object(ConversationSettings), map[string]any{"schema_version": 1, "max_iterations": iterations,
		"confirmation_mode": s.ConfirmationMode != nil && *s.ConfirmationMode})
	out["security_analyzer"] = s.SecurityAnalyzer
	return out
}

// decode reads JSON with exact numbers.
func decode(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(v)
}
