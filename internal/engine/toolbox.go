package engine

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"parley/internal/account"
	"parley/internal/agent"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/skill"
	"parley/internal/tool"
)

// CodeUnknownTool is the code of the fault for a start that names a tool which does
// not exist.
const CodeUnknownTool = "unknown_tool"

// maxClientTools bounds how many tools a client may bring.
const maxClientTools = 128

// toolbox are the tools of a conversation.
type toolbox struct {
	set *tool.Set
	// specs are what models are told about them: the same for every call.
	specs   func() ([]llm.Tool, error)
	foreign bool // some are a client's or a server's
	// chosen are the names, but those of the tools that every agent has.
	chosen []string
}

func newToolbox(set *tool.Set) *toolbox {
	box := &toolbox{set: set, chosen: []string{},
		specs: sync.OnceValues(func() ([]llm.Tool, error) { return agent.ToolSpecs(set) })}
	for _, t := range set.Tools() {
		if spec := t.Spec(); !spec.NoConfirm {
			box.chosen = append(box.chosen, spec.Name)
		}
	}
	return box
}

// specsFor are the specs as a model of a conversation reads them: what clients and
// servers say of their tools may hold a secret that they were sent.
func (b *toolbox) specsFor(m Masker) ([]llm.Tool, error) {
	specs, err := b.specs()
	if err != nil || !b.foreign {
		return specs, err
	}
	masked := slices.Clone(specs)
	for i := range masked {
		masked[i].Description = m.Mask(masked[i].Description)
		masked[i].Parameters = maskJSON(masked[i].Parameters, m)
	}
	return masked, nil
}

// claims says what a call uses. The end of a run waits for everything.
func (b *toolbox) claims(a *conversation.ActionEvent) []tool.Claim {
	t, ok := b.set.Lookup(a.ToolName)
	if !ok || a.ToolName == agent.ToolFinish {
		return everything()
	}
	return t.Claims(a.Action)
}

// everything is the claim that conflicts with all others.
func everything() []tool.Claim { return []tool.Claim{{Write: true}} }

// has reports whether there is a tool of that name.
func (b *toolbox) has(name string) bool {
	_, ok := b.set.Lookup(name)
	return ok
}

// ToolNames returns the names of all tools that a conversation can have, and of
// the sets of tools that it can name.
func (e *Engine) ToolNames() []string {
	names := e.opt.Tools.Names()
	for _, set := range slices.Sorted(maps.Keys(e.opt.ToolSets)) {
		names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(e.opt.ToolSets[set], n) })
		names = append(names, set)
	}
	return names
}

// toolbox returns the tools with these names, in whatever order; no names are the
// default set. A tool that this version does not have any more is left out: a
// conversation goes on without it.
func (e *Engine) toolbox(names []string) *toolbox {
	if len(names) == 0 {
		names = e.opt.DefaultTools
	}
	set := e.opt.Tools
	if names != nil {
		set, _ = set.Pick(e.expand(names))
	}
	key := strings.Join(set.Names(), " ")
	if box, ok := e.toolboxes.Load(key); ok {
		return box.(*toolbox)
	}
	box, _ := e.toolboxes.LoadOrStore(key, newToolbox(set))
	return box.(*toolbox)
}

// expand replaces the names of sets by those of their tools.
func (e *Engine) expand(names []string) []string {
	var all []string
	for _, name := range names {
		if members, ok := e.opt.ToolSets[name]; ok {
			all = append(all, members...)
			continue
		}
		all = append(all, name)
	}
	return all
}

// knownTools are the tools that a sub-agent asks for and may have: those that its
// parent has, and those that only read. Names of tools that do not exist are left out.
func (e *Engine) knownTools(asked, has []string) []string {
	var names []string
	for _, name := range e.expand(asked) {
		t, ok := e.opt.Tools.Lookup(name)
		if ok && !t.Spec().NoConfirm && (slices.Contains(has, name) || t.Spec().ReadOnly && !t.Spec().OpenWorld) {
			names = append(names, name)
		}
	}
	if len(names) == 0 { // which would stand for the default set
		return []string{agent.ToolFinish}
	}
	return names
}

// chooseTools checks the names that a start asks for.
func (e *Engine) chooseTools(names []string) ([]string, error) {
	if _, unknown := e.opt.Tools.Pick(e.expand(names)); len(unknown) > 0 {
		return nil, fault.New(fault.Invalid, CodeUnknownTool, "There is no tool named %s.", strings.Join(unknown, ", ")).
			WithHint("The tools are %s.", strings.Join(e.ToolNames(), ", "))
	}
	return names, nil
}

// checkClientTools makes sure that a client's tools can be used beside all others.
func (e *Engine) checkClientTools(tools []conversation.ClientTool) error {
	if len(tools) > maxClientTools {
		return fault.New(fault.Invalid, "too_many_client_tools", "A conversation takes at most %d client tools, not %d.", maxClientTools, len(tools))
	}
	seen := map[string]bool{}
	for _, t := range tools {
		if _, taken := e.opt.Tools.Lookup(t.Name); taken || seen[t.Name] {
			return fault.New(fault.Invalid, "client_tool_clash", "The client tool %s has the name of another tool.", t.Name)
		}
		seen[t.Name] = true
		if _, err := e.clientTool(t); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) clientTool(t conversation.ClientTool) (tool.Tool, error) {
	if e.opt.ClientTool == nil {
		return nil, fault.New(fault.Unsupported, "client_tools", "This server has no client tools.")
	}
	return e.opt.ClientTool(t)
}

// tools are the conversation's tools as its settings are now.
func (l *live) tools() *toolbox {
	names := slices.Clone(l.conv.Options.Tools)
	if extra := l.extraTools(); len(extra) > 0 {
		if len(names) == 0 {
			names = slices.Clone(l.e.opt.DefaultTools)
		}
		names = append(names, extra...)
	}
	servers := l.serverTools()
	l.offered.Store(&servers)
	if key := strings.Join(names, " "); l.box == nil || l.boxKey != key || !slices.Equal(l.boxServers, servers) {
		l.box, l.boxKey, l.boxServers = l.e.toolbox(names), key, servers
		if len(l.conv.Options.ClientTools)+len(servers) > 0 || l.conv.Options.ToolFilter != "" {
			l.box = l.withForeignTools(l.box.set, servers)
		}
	}
	return l.box
}

// extraTools are those that a conversation has by itself: the web search for a
// user with a key, and the look at images for a model that cannot see.
func (l *live) extraTools() []string {
	var names []string
	if l.e.opt.SearchTool != "" && l.searchKey.IsSet() && strings.HasPrefix(l.searchKey.Reveal(), l.e.opt.SearchKeys) {
		names = append(names, l.e.opt.SearchTool)
	}
	if l.e.opt.VisionTool != "" && l.seer != "" {
		names = append(names, l.e.opt.VisionTool)
	}
	if l.extras == nil {
		return names
	}
	if l.e.opt.SkillTool != "" && len(skill.Invocable(l.extras.skills)) > 0 {
		names = append(names, l.e.opt.SkillTool)
	}
	if l.e.opt.TaskTool != "" && l.delegates() {
		names = append(names, l.e.opt.TaskTool)
	}
	return names
}

// delegates reports whether the agent can give tasks away without having asked for the
// tool: the owner wants it, or there are agents for it. The last of nested agents
// cannot.
func (l *live) delegates() bool {
	o := &l.conv.Options
	if o.Task != nil && o.Task.Depth >= maxDepth || len(o.Tools) > 0 {
		return false
	}
	if on := l.settings.SubAgents; on != nil {
		return *on
	}
	return l.extras.own
}

// withForeignTools adds the tools of the client and of MCP servers, and applies the
// filter. One that cannot be used any more, or has the name of another one, is left
// out.
func (l *live) withForeignTools(own *tool.Set, servers []tool.Tool) *toolbox {
	all := own.Tools()
	taken := map[string]bool{}
	for _, t := range all {
		taken[t.Spec().Name] = true
	}
	add := func(t tool.Tool) {
		name := t.Spec().Name
		if taken[name] {
			l.e.opt.Logger.Warn("tool left out: another one has its name", "conversation", l.id, "tool", name)
			return
		}
		taken[name] = true
		all = append(all, t)
	}
	for _, t := range l.conv.Options.ClientTools {
		if made, err := l.e.clientTool(t); err == nil {
			add(made)
		} else {
			l.e.opt.Logger.Warn("client tool left out", "conversation", l.id, "tool", t.Name, "error", err)
		}
	}
	for _, t := range servers {
		add(t)
	}
	set, err := tool.NewSet(l.filtered(all)...)
	if err != nil { // names are different
		return newToolbox(own)
	}
	box := newToolbox(set)
	box.foreign = true
	return box
}

// filtered keeps the tools whose names begin as the conversation's filter says, and
// those that every agent has.
func (l *live) filtered(all []tool.Tool) []tool.Tool {
	if l.conv.Options.ToolFilter == "" {
		return all
	}
	re, err := regexp.Compile("^(?:" + l.conv.Options.ToolFilter + ")")
	if err != nil { // checked at the start
		return all
	}
	return slices.DeleteFunc(all, func(t tool.Tool) bool {
		spec := t.Spec()
		return !spec.NoConfirm && !re.MatchString(spec.Name)
	})
}

// seerOf is the profile whose model looks at images for one that cannot see; ""
// if the model sees, or none of the owner's does.
func (l *live) seerOf(s *account.Settings) string {
	if l.e.opt.VisionTool == "" || len(s.Profiles) == 0 || l.e.sees(l.choice) {
		return ""
	}
	return l.e.firstSeer(s)
}

func (e *Engine) firstSeer(s *account.Settings) string {
	for _, name := range slices.Sorted(maps.Keys(s.Profiles)) {
		if e.sees(s.WithKeys(s.Profiles[name])) {
			return name
		}
	}
	return ""
}

func (e *Engine) sees(choice account.LLM) bool {
	m, err := e.opt.Models(choice, ModelOptions{})
	return err == nil && m.Info().Vision
}
