package agentserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"parley/internal/account"
	"parley/internal/agent/judge"
	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/engine"
)

// agentSpec is an agent as a program describes it (agent protocol 2.1).
type agentSpec struct {
	Kind                string               `json:"kind"`
	LLM                 json.RawMessage      `json:"llm"`
	Tools               []toolSpec           `json:"tools"` // nil = the default set
	Filter              *string              `json:"filter_tools_regex"`
	IncludeDefaultTools []string             `json:"include_default_tools"`
	Context             *agentContext        `json:"agent_context"`
	Condenser           *condenserSpec       `json:"condenser"`
	Critic              *conversation.Critic `json:"critic"`
	Concurrency         *int                 `json:"tool_concurrency_limit"`
	PromptFile          *string              `json:"system_prompt_filename"`
	PolicyFile          *string              `json:"security_policy_filename"`
	MCPConfig           json.RawMessage      `json:"mcp_config"`

	SystemPrompt any `json:"system_prompt"`
}

type toolSpec struct {
	Name   string         `json:"name"`
	Params map[string]any `json:"params"`
}

// agentContext is what an agent knows beside its tools. load_user_skills and
// load_public_skills are not read: the skills that the owner stored and the
// collections that the operator configured were chosen for all conversations, while
// the flags, false unless a client sets them, mean a home directory and a download
// that are not there. disabled_skills leaves out what a conversation must not have.
type agentContext struct {
	Suffix        *string       `json:"system_message_suffix"`
	UserSuffix    *string       `json:"user_message_suffix"`
	Secrets       secretSources `json:"secrets"`
	Skills        []skillSpec   `json:"skills"`
	ProjectSkills *bool         `json:"load_project_skills"` // nil = false (agent protocol 2.1)
	Disabled      []string      `json:"disabled_skills"`
}

// Names of prompt templates that clients send. Parley has prompts of its own; only
// which agent they mean counts.
const (
	defaultPrompt = "system_prompt.j2"
	planPrompt    = "system_prompt_planning.j2"
	defaultPolicy = "security_policy.j2"
)

// Tools that every agent has, the last one where it has skills to open.
const (
	toolFinish      = "finish"
	toolThink       = "think"
	toolInvokeSkill = "invoke_skill"
)

// defaultTools are the classes that include_default_tools can name, with the tools
// they stand for.
var defaultTools = map[string]string{"FinishTool": toolFinish, "ThinkTool": toolThink,
	"InvokeSkillTool": toolInvokeSkill, "SwitchLLMTool": "switch_llm", "VisionInspectTool": "inspect_image_with_vision"}

func (a *agentSpec) apply(req *engine.StartRequest, known surroundings) error {
	switch a.Kind {
	case "Agent":
	case "ACPAgent":
		return notBuilt("agent.", map[string]any{"kind (ACPAgent)": true})
	default:
		return httpkit.BadField("the kind of an agent is Agent", a.Kind, "body", "agent", "kind")
	}
	if err := a.built(); err != nil {
		return err
	}
	l, err := llmOf(a.LLM, "body", "agent", "llm")
	if err != nil {
		return err
	}
	req.LLM = l
	if err := setCritic(req, a.Critic, "body", "agent", "critic"); err != nil {
		return err
	}
	if orEmpty(a.PromptFile) == planPrompt {
		req.AgentType = engine.AgentPlan
	}
	if a.Concurrency != nil {
		req.ToolConcurrency = *a.Concurrency
	}
	if req.Condenser, err = a.Condenser.read("body", "agent", "condenser"); err != nil {
		return err
	}
	if req.Tools, err = a.tools(known.tools); err != nil {
		return err
	}
	req.ToolFilter = orEmpty(a.Filter)
	if req.MCP, err = serversOf(a.MCPConfig, known.servers, "body", "agent", "mcp_config"); err != nil {
		return err
	}
	if req.MCP == nil { // not those of the settings: a program says everything
		req.MCP = &account.MCPConfig{}
	}
	return a.Context.apply(req, "agent")
}

func (a *agentSpec) built() error {
	missing := map[string]any{"system_prompt": a.SystemPrompt}
	if f := orEmpty(a.PromptFile); f != "" && f != defaultPrompt && f != planPrompt {
		missing["system_prompt_filename"] = f
	}
	if f := orEmpty(a.PolicyFile); f != "" && f != defaultPolicy {
		missing["security_policy_filename"] = f
	}
	return notBuilt("agent.", missing)
}

// tools returns the names of the agent's tools, nil for the default set.
func (a *agentSpec) tools(known []string) ([]string, error) {
	names, err := namesOf(a.Tools, "agent")
	if err != nil {
		return nil, err
	}
	for i, class := range a.IncludeDefaultTools {
		loc := []any{"body", "agent", "include_default_tools", i}
		name := defaultTools[class]
		switch {
		case has(name, known) && byItself(name):
		case !has(name, known):
			return nil, httpkit.BadField("there is no built-in tool of this class; there are "+
				strings.Join(builtIn(known), ", "), class, loc...)
		case names == nil:
			return nil, httpkit.BadField("beside "+class+" the tools have to be named", class, loc...)
		default:
			names = append(names, name)
		}
	}
	if names != nil && len(names) == 0 { // which the engine takes for the default set
		names = []string{toolFinish}
	}
	return names, nil
}

// byItself tells the tools that agents have without being given them.
func byItself(name string) bool {
	return name == toolFinish || name == toolThink || name == toolInvokeSkill
}

// has reports whether this server has a tool.
func has(name string, known []string) bool {
	return name == toolFinish || name == toolThink || slices.Contains(known, name)
}

// builtIn are the classes of the tools that this server has.
func builtIn(known []string) []string {
	var classes []string
	for class, name := range defaultTools {
		if has(name, known) {
			classes = append(classes, class)
		}
	}
	slices.Sort(classes)
	return classes
}

// namesOf reads a list of tools; nil stays nil. part is where it stands. Whether
// there are tools of these names the engine knows.
func namesOf(tools []toolSpec, part string) ([]string, error) {
	if tools == nil {
		return nil, nil
	}
	names := []string{}
	for i, t := range tools {
		if err := notBuilt(fmt.Sprintf("%s.tools[%d].params.", part, i), t.params()); err != nil {
			return nil, err
		}
		names = append(names, t.Name)
	}
	return names, nil
}

// params are those that would change how the tool works. A plan's usual place is
// where it is anyway.
func (t toolSpec) params() map[string]any {
	changing := map[string]any{}
	for name, v := range t.Params {
		if file, ok := v.(string); name == "plan_path" && ok && strings.HasSuffix(file, ".agents_tmp/PLAN.md") {
			continue
		}
		changing[name] = v
	}
	return changing
}

func (c *agentContext) apply(req *engine.StartRequest, part string) error {
	if c == nil {
		c = &agentContext{}
	}
	loc := []any{"body", part, "agent_context"}
	skills, err := skillsOf(c.Skills, append(slices.Clone(loc), "skills")...)
	if err != nil {
		return err
	}
	if len(skills) > 0 {
		brought(req).Skills = skills
	}
	req.NoProject = c.ProjectSkills == nil || !*c.ProjectSkills
	req.DisabledSkills, req.UserSuffix = c.Disabled, orEmpty(c.UserSuffix)
	req.Instructions = joinTexts(req.Instructions, orEmpty(c.Suffix))
	return c.Secrets.addTo(req.Secrets, append(loc, "secrets")...)
}

// setCritic takes a critic, or says what is wrong with it.
func setCritic(req *engine.StartRequest, c *conversation.Critic, loc ...any) error {
	if req.Critic = c; c == nil {
		return nil
	}
	return judge.Check(*c, loc...)
}

// llmOf reads the model of a request. A key that is shown as the mask is none: the
// stored one is used where the calls go where that was stored for.
func llmOf(raw json.RawMessage, loc ...any) (*account.LLM, error) {
	in, err := lenientLLM(raw, loc...)
	if err != nil {
		return nil, err
	}
	l, err := in.Over(nil, false, loc...)
	return &l, err
}
