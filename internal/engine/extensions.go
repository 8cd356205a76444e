package engine

import (
	"context"
	"errors"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/hook"
	"parley/internal/lazyre"
	"parley/internal/skill"
	"parley/internal/store"
	"parley/internal/subagent"
	"parley/internal/tool"
)

// Extensions is what is added to the agent of a conversation.
type Extensions struct {
	Skills    []skill.Skill
	Agents    []subagent.Definition
	Hooks     []NamedHooks        // that run
	Servers   []tool.ServerStatus // of MCP
	Questions []conversation.TrustQuestion
	Problems  []string
}

// NamedHooks are hooks with the place that they are from.
type NamedHooks struct {
	Name   string
	Config hook.Config
}

// Extensions returns what is added to a conversation's agent now.
func (e *Engine) Extensions(ctx context.Context, owner string, id conversation.ID) (Extensions, error) {
	var x Extensions
	err := e.do(ctx, owner, id, func(l *live) error {
		x = Extensions{Skills: l.extras.skills, Agents: l.extras.agents, Questions: l.extras.questions, Problems: l.maskAll(l.extras.problems)}
		x.Hooks, x.Servers = l.extras.namedHooks(), l.serverStatus()
		return nil
	})
	return x, err
}

// Hooks returns the hooks that run in a conversation now. Unlike Extensions it does not
// load the conversation: clients ask for one often.
func (e *Engine) Hooks(ctx context.Context, owner string, id conversation.ID) ([]NamedHooks, error) {
	conv, err := e.opt.Store.Conversations().Get(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	x, err := e.extras(ctx, conv, account.DefaultSettings()) // which say nothing about hooks
	if err != nil {
		return nil, err
	}
	return x.namedHooks(), nil
}

func (x *extras) namedHooks() []NamedHooks {
	var all []NamedHooks
	for _, h := range x.hooks {
		all = append(all, NamedHooks{h.Name, h.Config})
	}
	return all
}

// Project reads what a directory of a sandbox would add to an agent. Nothing of it
// runs.
func (e *Engine) Project(ctx context.Context, owner, sandboxID, dir string) (extension.Bundle, error) {
	hands, err := e.opt.Fleet.Ensure(ctx, owner, sandboxID, true)
	if err != nil {
		return extension.Bundle{}, err
	}
	return extension.LoadRepository(ctx, treeOf(hands, dir), extension.Options{Name: "project", Level: skill.LevelProject, Root: dir})
}

// Shared returns what the server's collections and the owner's stored skills add to
// every conversation.
func (e *Engine) Shared(ctx context.Context, owner string) ([]extension.Bundle, error) {
	return e.sharedBundles(ctx, owner)
}

// Agents returns the sub-agents that every conversation has.
func (e *Engine) Agents() []subagent.Definition {
	layers := [][]subagent.Definition{subagent.Builtin()}
	if e.opt.Collections != nil {
		for _, b := range e.opt.Collections() {
			layers = append(layers, b.Agents)
		}
	}
	return subagent.Merge(layers...)
}

// skillName is what users may call a skill.
var skillName = lazyre.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// PutSkill stores a skill of an owner's: the text of a skill file. Conversations that
// are loaded anew have it. Invalid, with the line, if it cannot be read.
func (e *Engine) PutSkill(ctx context.Context, owner, name, text string) (skill.Skill, error) {
	if !skillName.MatchString(name) {
		return skill.Skill{}, fault.New(fault.Invalid, "bad_skill_name", "A skill's name has 1 to 64 letters, digits, and . _ - in it.")
	}
	s, err := parseUserSkill(name, text)
	if errors.Is(err, skill.ErrNoSkill) {
		return s, fault.New(fault.Invalid, "bad_skill_name", "A file named %s.md is no skill: choose another name.", name)
	}
	if err != nil {
		p := problemOf(name, err)
		return s, fault.New(fault.Invalid, "bad_skill", "The skill cannot be read: line %d: %s", max(p.Line, 1), p.Text)
	}
	return s, e.opt.Store.Extensions().PutSkill(ctx, owner, store.UserSkill{Name: name, Content: text, UpdatedAt: time.Now().UTC().Truncate(time.Microsecond)})
}

// Skills lists the skills that an owner stored, sorted by name.
func (e *Engine) Skills(ctx context.Context, owner string) ([]store.UserSkill, error) {
	return e.opt.Store.Extensions().Skills(ctx, owner)
}

// DeleteSkill removes one. NotFound if there is none.
func (e *Engine) DeleteSkill(ctx context.Context, owner, name string) error {
	return e.opt.Store.Extensions().DeleteSkill(ctx, owner, name)
}

// Servers lists the MCP servers of a configuration, as conversations get them.
func Servers(c *account.MCPConfig) []tool.Server {
	var x extras
	x.addServers("settings", "", c)
	return x.servers
}
