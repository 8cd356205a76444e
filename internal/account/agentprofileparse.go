package account

import (
	"encoding/json"
	"slices"
	"strings"

	"parley/internal/fault"
)

// Bounds of an agent profile.
const (
	maxProfileNames = 1000     // of servers, tools and skills, each
	maxProfileText  = 64 << 10 // bytes of a text
	maxProfileBytes = 256 << 10
)

// agentParser reads an object as llmParser does, with its own members.
type agentParser struct{ llmParser }

// ParseAgentProfile reads an agent profile of a request. It is strict: unknown
// members, wrong types and values out of range are Invalid with all of them named. Its
// name, id and revision are not the request's to say. loc is where it stands.
func ParseAgentProfile(raw json.RawMessage, loc ...any) (AgentProfile, error) {
	v, err := decodeAny(raw)
	m, ok := v.(map[string]any)
	if err != nil || !ok {
		return AgentProfile{}, Invalid([]fault.Field{notAnObject(loc)})
	}
	if len(raw) > maxProfileBytes {
		return AgentProfile{}, Invalid([]fault.Field{{Loc: loc, Type: "too_long", Msg: "An agent profile has at most 256 KiB"}})
	}
	p := newAgentParser(m, loc)
	out := AgentProfile{Kind: p.kind()}
	for _, name := range []string{"schema_version", "id", "name", "revision"} {
		p.seen[name] = true
	}
	out.Servers = p.names("mcp_server_refs")
	switch out.Kind {
	case AgentACP:
		out.ACPAgent = p.acp()
	default:
		out.OpenHandsAgent = p.openHands()
	}
	p.end()
	if len(p.fields) > 0 {
		return AgentProfile{}, Invalid(p.fields)
	}
	return out, nil
}

func newAgentParser(m map[string]any, loc []any) *agentParser {
	return &agentParser{llmParser{reader: reader{m: m, loc: loc}, seen: map[string]bool{}}}
}

// end refuses what was not read.
func (p *agentParser) end() {
	for _, name := range sortedKeys(p.m) {
		if !p.seen[name] {
			p.fail(name, "extra_forbidden", "Extra inputs are not permitted", nil)
		}
	}
}

// part reads an object in the object. What is wrong in it is added by done.
func (p *agentParser) part(name string) (part *agentParser, done func()) {
	m, ok := p.get(name).(map[string]any)
	if p.m[name] != nil && !ok {
		p.fields = append(p.fields, notAnObject(at(p.loc, name)))
	}
	part = newAgentParser(m, at(p.loc, name))
	return part, func() {
		part.end()
		p.fields = append(p.fields, part.fields...)
	}
}

// one reads one of several texts, the first if there is none.
func (p *agentParser) one(name string, choices ...string) string {
	to := ""
	if p.choice(name, &to, choices); to == "" {
		return choices[0]
	}
	return to
}

func (p *agentParser) kind() string { return p.one("agent_kind", AgentOpenHands, AgentACP) }

func (p *agentParser) flag(name string, fallback bool) bool { return or(p.boolean(name), fallback) }

// whole reads a whole number of at least low.
func (p *agentParser) whole(name string, low, fallback int) int {
	return int(or(p.integer(name, int64(low)), int64(fallback)))
}

// positive reads a number above 0.
func (p *agentParser) positive(name string, limit, fallback float64) float64 {
	f := p.number(name, limit)
	if f != nil && *f == 0 {
		p.fail(name, "greater_than", "Input should be greater than 0", 0)
	}
	return or(f, fallback)
}

// textOrNull reads a text; blanks are none.
func (p *agentParser) textOrNull(name string) *string {
	p.seen[name] = true
	text := p.text(name)
	switch {
	case text == nil || strings.TrimSpace(*text) == "":
		return nil
	case len(*text) > maxProfileText:
		p.fail(name, "string_too_long", "String should have at most 65536 bytes", nil)
	}
	return text
}

// names reads a list of names; null is nil.
func (p *agentParser) names(name string) []string {
	v := p.get(name)
	if v == nil {
		return nil
	}
	items, ok := v.([]any)
	if !ok || len(items) > maxProfileNames {
		p.fail(name, "list_type", "Input should be a valid list of at most 1000 items", nil)
		return nil
	}
	out := []string{}
	for i, item := range items {
		text, ok := item.(string)
		if !ok || text == "" || len(text) > maxProfileText {
			p.fields = append(p.fields, fault.Field{Loc: at(p.loc, name, i), Type: "string_type", Msg: "Input should be a valid string"})
			continue
		}
		out = append(out, text)
	}
	return out
}

func (p *agentParser) openHands() *OpenHandsAgent {
	a := &OpenHandsAgent{Agent: or(p.textOrNull("agent"), "CodeActAgent"), Suffix: p.textOrNull("system_message_suffix"),
		DisabledSkills: append([]string{}, p.names("disabled_skills")...), SubAgents: p.flag("enable_sub_agents", false),
		SwitchLLM: p.flag("enable_switch_llm_tool", true), Concurrency: p.whole("tool_concurrency_limit", 1, 1)}
	p.seen["llm_profile_ref"] = true
	if name, ok := p.required("llm_profile_ref"); ok && !profileName.MatchString(name) {
		p.fail("llm_profile_ref", "string_pattern_mismatch", "Input should be the name of an LLM profile", name)
	} else {
		a.LLMProfile = name
	}
	a.Tools = p.tools()
	part, done := p.part("condenser")
	a.Condenser = part.condenser()
	done()
	part, done = p.part("verification")
	a.Verification = part.verification()
	done()
	return a
}

// tools reads a list of tools; null is nil, the default set.
func (p *agentParser) tools() []AgentTool {
	v := p.get("tools")
	if v == nil {
		return nil
	}
	items, ok := v.([]any)
	if !ok || len(items) > maxProfileNames {
		p.fail("tools", "list_type", "Input should be a valid list of at most 1000 items", nil)
		return nil
	}
	out := []AgentTool{}
	for i, item := range items {
		loc := at(p.loc, "tools", i)
		m, ok := item.(map[string]any)
		if !ok {
			p.fields = append(p.fields, notAnObject(loc))
			continue
		}
		one := newAgentParser(m, loc)
		one.seen["name"], one.seen["params"] = true, true
		name, _ := one.required("name")
		params, ok := m["params"].(map[string]any)
		if m["params"] != nil && !ok {
			one.fail("params", "dict_type", "Input should be a valid dictionary", nil)
		}
		if params == nil {
			params = map[string]any{}
		}
		one.end()
		p.fields = append(p.fields, one.fields...)
		out = append(out, AgentTool{Name: name, Params: params})
	}
	return out
}

func (p *agentParser) condenser() AgentCondenser {
	c := AgentCondenser{Enabled: p.flag("enabled", true), Kind: p.one("condenser_kind", CondenserSummarizing, CondenserNoOp)}
	if c.Kind == CondenserNoOp {
		for name := range p.m { // what a client left there from the other kind says nothing
			p.seen[name] = true
		}
		return c
	}
	keep := p.whole("keep_first", 0, 2)
	c.MaxSize, c.KeepFirst, c.MaxTokens = p.whole("max_size", MinCondenserSize, 240), &keep, p.integer("max_tokens", 1)
	c.MinimumProgress, c.ResetRetries = p.positive("minimum_progress", 1, 0.1), p.whole("hard_context_reset_max_retries", 1, 5)
	c.ResetScaling = p.positive("hard_context_reset_context_scaling", 1, 0.8)
	return c
}

func (p *agentParser) verification() ProfileVerification {
	return ProfileVerification{Critic: p.flag("critic_enabled", false), Mode: p.one("critic_mode", "finish_and_message", "all_actions"),
		Refine: p.flag("enable_iterative_refinement", false), Threshold: or(p.number("critic_threshold", 1), 0.6),
		Iterations: p.whole("max_refinement_iterations", 1, 3), CriticServer: p.textOrNull("critic_server_url"), CriticModel: p.textOrNull("critic_model_name")}
}

func (p *agentParser) acp() *ACPAgent {
	const day = 86400 // seconds
	return &ACPAgent{Server: p.one("acp_server", "claude-code", "codex", "gemini-cli", "custom"), Model: p.textOrNull("acp_model"),
		SessionMode: p.textOrNull("acp_session_mode"), PromptTimeout: p.positive("acp_prompt_timeout", day, 1800),
		StartupTimeout: p.positive("acp_startup_timeout", day, 90), Command: p.textOrNull("acp_command"), Args: slices.Clip(p.names("acp_args"))}
}
