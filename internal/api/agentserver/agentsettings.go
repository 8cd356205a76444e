package agentserver

import (
	"encoding/json"
	"slices"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/subagent"
)

// agentSettings is an agent as a settings page describes it (agent protocol 1.8).
// What it leaves out is as the owner's settings say.
type agentSettings struct {
	Kind         *string               `json:"agent_kind"`
	LLM          json.RawMessage       `json:"llm"`
	Tools        []toolSpec            `json:"tools"` // none = the default set
	SwitchLLM    *bool                 `json:"enable_switch_llm_tool"`
	Concurrency  *int                  `json:"tool_concurrency_limit"`
	Context      *agentContext         `json:"agent_context"`
	Condenser    *condenserSettings    `json:"condenser"`
	Verification *verificationSettings `json:"verification"`
	SubAgents    *bool                 `json:"enable_sub_agents"`
	MCPConfig    json.RawMessage       `json:"mcp_config"` // nothing = the settings'
	confirmationSettings
}

type condenserSettings struct {
	Enabled         *bool    `json:"enabled"`
	Kind            *string  `json:"condenser_kind"`
	MaxSize         *int     `json:"max_size"`
	MaxTokens       *int64   `json:"max_tokens"`
	KeepFirst       *int     `json:"keep_first"`
	MinimumProgress *float64 `json:"minimum_progress"`
	ResetRetries    *int     `json:"hard_context_reset_max_retries"`
	ResetScaling    *float64 `json:"hard_context_reset_context_scaling"`
}

type verificationSettings struct {
	Critic     *bool    `json:"critic_enabled"`
	Mode       *string  `json:"critic_mode"`
	Refine     *bool    `json:"enable_iterative_refinement"`
	Threshold  *float64 `json:"critic_threshold"`
	Iterations *int     `json:"max_refinement_iterations"`
	confirmationSettings

	CriticServer any `json:"critic_server_url"`
	CriticModel  any `json:"critic_model_name"`
}

// confirmationSettings stand in several places, by the age of the client.
type confirmationSettings struct {
	Confirm  *bool   `json:"confirmation_mode"`
	Analyzer *string `json:"security_analyzer"`
}

func (a *agentSettings) apply(req *engine.StartRequest, known surroundings) error {
	switch orEmpty(a.Kind) {
	case "", "openhands", "llm":
	case "acp":
		return notBuilt("agent_settings.", map[string]any{"agent_kind (acp)": true})
	default:
		return httpkit.BadField("the kind of an agent is openhands", *a.Kind, "body", "agent_settings", "agent_kind")
	}
	var err error
	if req.MCP, err = serversOf(a.MCPConfig, known.servers, "body", "agent_settings", "mcp_config"); err != nil {
		return err
	}
	if len(a.LLM) > 0 && string(a.LLM) != "null" {
		if req.LLM, err = llmOf(a.LLM, "body", "agent_settings", "llm"); err != nil {
			return err
		}
	}
	if a.Concurrency != nil {
		req.ToolConcurrency = *a.Concurrency
	}
	if req.Tools, err = a.tools(known.tools); err != nil {
		return err
	}
	if err := a.delegate(req, known.tools); err != nil {
		return err
	}
	if req.Condenser, err = a.Condenser.read(); err != nil {
		return err
	}
	a.confirmationSettings.apply(req)
	if err := a.Verification.apply(req); err != nil {
		return err
	}
	return a.Context.apply(req, "agent_settings")
}

func (a *agentSettings) tools(known []string) ([]string, error) {
	if len(a.Tools) == 0 {
		return nil, nil
	}
	names, err := namesOf(a.Tools, "agent_settings")
	const switcher = "switch_llm"
	if (a.SwitchLLM == nil || *a.SwitchLLM) && slices.Contains(known, switcher) && !slices.Contains(names, switcher) {
		names = append(names, switcher)
	}
	return names, err
}

// taskTools is what agents name among their tools to have the one that gives tasks to
// sub-agents.
const taskTools = "task_tool_set"

// delegate lets the agent give tasks to sub-agents. An agent with the default set has
// the tool where agents were brought along for it: then the built-in ones are.
func (a *agentSettings) delegate(req *engine.StartRequest, known []string) error {
	switch {
	case a.SubAgents == nil || !*a.SubAgents:
	case !slices.Contains(known, taskTools):
		return notBuilt("agent_settings.", map[string]any{"enable_sub_agents": true})
	case len(req.Tools) == 0:
		brought(req).Agents = slices.Clone(subagent.Builtin())
	case !slices.Contains(req.Tools, taskTools):
		req.Tools = append(req.Tools, taskTools)
	}
	return nil
}

func (c *condenserSettings) read() (*conversation.Condenser, error) {
	if c == nil {
		return nil, nil
	}
	if c.Enabled != nil && !*c.Enabled || orEmpty(c.Kind) == "no_op" {
		return &conversation.Condenser{Kind: conversation.CondenserNone}, nil
	}
	out := &conversation.Condenser{Kind: conversation.CondenserSummarizing, KeepFirst: c.KeepFirst,
		MinimumProgress: c.MinimumProgress, ResetRetries: c.ResetRetries, ResetScaling: c.ResetScaling}
	if c.MaxSize != nil {
		out.MaxSize = *c.MaxSize
	}
	if c.MaxTokens != nil {
		out.MaxTokens = *c.MaxTokens
	}
	return out, checkCondenser(out, "body", "agent_settings", "condenser")
}

// apply enables the critic: Parley's own, which asks the agent's model. There is
// no critic on another server.
func (v *verificationSettings) apply(req *engine.StartRequest) error {
	if v == nil {
		return nil
	}
	v.confirmationSettings.apply(req)
	if v.Critic == nil || !*v.Critic {
		return nil
	}
	err := notBuilt("agent_settings.verification.", map[string]any{"critic_server_url": v.CriticServer, "critic_model_name": v.CriticModel})
	if err != nil {
		return err
	}
	critic := &conversation.Critic{Kind: conversation.CriticModel, Mode: orEmpty(v.Mode)}
	if v.Refine != nil && *v.Refine {
		critic.Refinement = &conversation.Refinement{SuccessThreshold: orDefault(v.Threshold, 0), MaxIterations: orDefault(v.Iterations, 0)}
	}
	return setCritic(req, critic, "body", "agent_settings", "verification")
}

// apply sets the policy, unless the request names one itself: with the model's
// label it asks for what is risky, without anybody to judge for everything.
func (c confirmationSettings) apply(req *engine.StartRequest) {
	if c.Confirm == nil || req.Confirmation != nil {
		return
	}
	kind := conversation.NeverConfirm
	if *c.Confirm {
		kind = conversation.AlwaysConfirm
		if orEmpty(c.Analyzer) == "llm" {
			kind = conversation.ConfirmRisky
		}
	}
	req.Confirmation = &conversation.ConfirmationPolicy{Kind: kind}
	if req.Analyzer == nil && orEmpty(c.Analyzer) == "llm" {
		req.Analyzer = &conversation.Analyzer{Kind: conversation.AnalyzerLLM}
	}
}
