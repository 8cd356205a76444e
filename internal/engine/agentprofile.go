package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"parley/internal/account"
	"parley/internal/agent"
	"parley/internal/agent/condense"
	"parley/internal/agent/judge"
	"parley/internal/conversation"
	"parley/internal/fault"
)

// CodeDanglingServers is the code of the fault for an agent profile that names MCP
// servers which its owner does not have; the error is a DanglingServers.
const CodeDanglingServers = "dangling_mcp_server_refs"

// DanglingServers are the names of MCP servers that a profile needs and nobody has.
type DanglingServers []string

// Error implements error.
func (d DanglingServers) Error() string {
	return "there are no MCP servers named " + strings.Join(d, ", ")
}

// Tags that say which agent profile started a conversation (V1 1.1).
const (
	tagProfile  = "agentprofileid"
	tagRevision = "agentprofilerevision"
)

const switchTool = "switch_llm"

// resolved is what an agent profile comes to with its owner's settings.
type resolved struct {
	llm         account.LLM // with its key
	servers     *account.MCPConfig
	tools       []string
	condenser   *conversation.Condenser
	critic      *conversation.Critic
	concurrency int
}

// applyAgentProfile fills what a request leaves to the agent profile that it names.
func (e *Engine) applyAgentProfile(s *account.Settings, req *StartRequest) error {
	if req.AgentProfile == "" {
		return nil
	}
	p, ok := s.AgentProfileByID(req.AgentProfile)
	if !ok {
		return fault.New(fault.NotFound, account.CodeAgentProfileNotFound, "Agent profile not found: %.100s", req.AgentProfile)
	}
	r, errs := e.resolveAgent(s, &p)
	if len(errs) > 0 {
		return errs[0]
	}
	if req.LLMProfile == "" && req.LLM == nil {
		req.LLMProfile = p.LLMProfile
	}
	if req.MCP == nil {
		req.MCP = r.servers
	}
	if req.AgentType != AgentPlan { // which has tools of its own
		req.Tools = r.tools
	}
	req.Condenser, req.Critic, req.ToolConcurrency = r.condenser, r.critic, r.concurrency
	if p.Suffix != nil {
		req.Instructions = strings.Trim(*p.Suffix+"\n\n"+req.Instructions, "\n")
	}
	req.DisabledSkills = append(slices.Clone(req.DisabledSkills), p.DisabledSkills...)
	tags := maps.Clone(req.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	tags[tagProfile], tags[tagRevision] = p.ID, strconv.Itoa(p.Revision)
	req.Tags, req.launched = tags, &conversation.LaunchedProfile{ID: p.ID, Revision: p.Revision}
	return nil
}

// resolveAgent looks up what a profile refers to. All that is wrong with it is in the
// errors.
func (e *Engine) resolveAgent(s *account.Settings, p *account.AgentProfile) (r resolved, errs []error) {
	if p.OpenHandsAgent == nil {
		return r, []error{notBuiltAgent("agents of the kind acp are")}
	}
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	l, err := s.Profile(p.LLMProfile)
	if err != nil {
		note(fault.New(fault.NotFound, account.CodeProfileNotFound, "The agent profile %s needs the LLM profile %s, which does not exist.", p.Name, p.LLMProfile).
			WithHint("Make it, or choose another LLM profile in the agent profile."))
	}
	r.llm = s.WithKeys(l)
	picked, missing := s.MCP.PickServers(p.Servers)
	r.servers = picked.Enabled()
	if len(missing) > 0 {
		note(fault.Wrap(DanglingServers(missing), fault.Invalid, CodeDanglingServers,
			"The agent profile %s needs MCP servers that do not exist: %s.", p.Name, strings.Join(missing, ", ")))
	}
	note(e.resolveTools(p.OpenHandsAgent, &r))
	note(resolveLoop(p.OpenHandsAgent, &r))
	return r, errs
}

func notBuiltAgent(what string) error {
	return fault.New(fault.Unsupported, "not_built", "In agent profiles %s not built yet.", what).WithHint("Use another agent profile.")
}

// resolveTools chooses the tools of a profile. What the profile says about switching
// models and about sub-agents counts, not the settings.
func (e *Engine) resolveTools(a *account.OpenHandsAgent, r *resolved) error {
	names := slices.Clone(e.opt.DefaultTools)
	if a.Tools != nil {
		names = nil
	}
	for _, t := range a.Tools {
		if len(t.Params) > 0 {
			return notBuiltAgent("parameters of tools are")
		}
		names = append(names, t.Name)
	}
	bare := len(names) == 0
	if _, there := e.opt.Tools.Lookup(switchTool); there && a.SwitchLLM && !bare && !slices.Contains(names, switchTool) {
		names = append(names, switchTool)
	}
	if set := e.taskSet(); a.SubAgents && set != "" && !slices.Contains(names, set) {
		names = append(names, set)
	}
	if len(names) == 0 { // which means the default set elsewhere
		names = []string{agent.ToolFinish}
	}
	r.tools = names
	_, err := e.chooseTools(names)
	return err
}

// taskSet is the set of tools with which agents give tasks to sub-agents, "" if there
// is none.
func (e *Engine) taskSet() string {
	for name, tools := range e.opt.ToolSets {
		if e.opt.TaskTool != "" && slices.Contains(tools, e.opt.TaskTool) {
			return name
		}
	}
	return ""
}

// resolveLoop chooses how a profile's agent shortens its history, and who judges it.
func resolveLoop(a *account.OpenHandsAgent, r *resolved) error {
	r.concurrency = a.Concurrency
	c := a.Condenser
	if r.condenser = (&conversation.Condenser{Kind: conversation.CondenserNone}); c.Enabled && c.Kind == account.CondenserSummarizing {
		r.condenser = &conversation.Condenser{Kind: conversation.CondenserSummarizing, MaxSize: c.MaxSize, KeepFirst: c.KeepFirst,
			MinimumProgress: &c.MinimumProgress, ResetRetries: &c.ResetRetries, ResetScaling: &c.ResetScaling}
		if c.MaxTokens != nil {
			r.condenser.MaxTokens = *c.MaxTokens
		}
	}
	if _, err := condense.FromOptions(r.condenser, condense.Defaults{}, "condenser"); err != nil {
		return err
	}
	v := a.Verification
	if !v.Critic {
		return nil
	}
	if v.CriticServer != nil || v.CriticModel != nil {
		return notBuiltAgent("critics on other servers are")
	}
	r.critic = &conversation.Critic{Kind: conversation.CriticModel, Mode: v.Mode}
	if v.Refine {
		r.critic.Refinement = &conversation.Refinement{SuccessThreshold: v.Threshold, MaxIterations: v.Iterations}
	}
	return judge.Check(*r.critic, "critic")
}

// AgentReport says what a start with an agent profile would come to.
type AgentReport struct {
	Profile  account.AgentProfile
	Errors   []string // why a start would be refused; none = it would not
	LLM      account.LLM
	HasLLM   bool               // the LLM profile exists
	Servers  *account.MCPConfig // that the agent gets
	Dangling []string           // names of servers that do not exist
	Skills   []string           // names of the owner's and the server's skills that it gets
}

// ReportAgent says what a start with an agent profile would come to, without starting
// anything. NotFound if there is no such profile.
func (e *Engine) ReportAgent(ctx context.Context, owner, name string) (*AgentReport, error) {
	s, err := e.opt.Store.Accounts().Settings(ctx, owner)
	if fault.Is(err, fault.NotFound) {
		s, err = account.DefaultSettings(), nil
	}
	if err != nil {
		return nil, err
	}
	p, err := s.AgentProfile(name)
	if err != nil {
		return nil, err
	}
	r, errs := e.resolveAgent(s, &p)
	report := &AgentReport{Profile: p, LLM: r.llm, HasLLM: r.llm.Model != "", Servers: r.servers}
	for _, err := range errs {
		report.Errors = append(report.Errors, fault.PublicText(err))
	}
	_, report.Dangling = s.MCP.PickServers(p.Servers)
	if report.Skills, err = e.skillsBut(ctx, owner, s, p); err != nil {
		return nil, err
	}
	return report, nil
}

// skillsBut are the names of the skills that a profile's agent gets wherever it works,
// sorted.
func (e *Engine) skillsBut(ctx context.Context, owner string, s *account.Settings, p account.AgentProfile) ([]string, error) {
	shared, err := e.Shared(ctx, owner)
	if err != nil {
		return nil, fmt.Errorf("shared skills: %w", err)
	}
	disabled := slices.Clone(s.DisabledSkills)
	if p.OpenHandsAgent != nil {
		disabled = append(disabled, p.DisabledSkills...)
	}
	names := []string{}
	for _, b := range shared {
		for _, sk := range b.Skills {
			if !slices.Contains(disabled, sk.Name) && !slices.Contains(names, sk.Name) {
				names = append(names, sk.Name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}
