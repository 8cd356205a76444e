package engine

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"parley/internal/account"
	"parley/internal/agent/hookrun"
	"parley/internal/conversation"
	"parley/internal/extension"
	"parley/internal/skill"
	"parley/internal/subagent"
	"parley/internal/tool"
)

// extras is what is added to the agent of a conversation, as it holds now. It does
// not change; another one takes its place.
type extras struct {
	skills    []skill.Skill
	agents    []subagent.Definition
	own       bool               // agents holds some beside the built-in ones
	task      *conversation.Task // of a sub-agent; nil = it is none
	hooks     []hookrun.Source
	servers   []tool.Server
	setUps    []extension.Bundle // repositories whose set-up scripts may run
	origins   []extension.Bundle // where agents are from, as far as it may be used
	questions []conversation.TrustQuestion
	problems  []string
}

// Bounds of what is told about extensions in the log.
const (
	maxQuestions = 20
	maxProblems  = 50
	maxProblem   = 500 // characters
)

// extras reads what is added to a conversation: what its start found, the owner's
// own skills, the collections of the server, and what the owner trusts.
func (e *Engine) extras(ctx context.Context, conv *conversation.Conversation, s *account.Settings) (*extras, error) {
	found, err := e.opt.Store.Extensions().Bundles(ctx, conv.ID)
	if err == nil && len(found) == 0 && conv.ForkedFrom != "" { // the copying was cut off
		found, err = e.opt.Store.Extensions().Bundles(ctx, conv.ForkedFrom)
	}
	if err != nil {
		return nil, err
	}
	decisions, err := e.opt.Store.Extensions().Decisions(ctx, conv.Owner)
	if err != nil {
		return nil, err
	}
	shared, err := e.sharedBundles(ctx, conv.Owner)
	if err != nil {
		return nil, err
	}
	x := &extras{task: conv.Options.Task}
	x.addServers("settings", "", conv.Options.MCP)
	layers := [][]skill.Skill{}
	agents := [][]subagent.Definition{subagent.Builtin()}
	for _, b := range slices.Concat(shared, found) {
		b = x.admit(b, e.opt.TrustAll, decisions)
		layers = append(layers, b.Skills)
		agents = append(agents, b.Agents)
		x.own = x.own || len(b.Agents) > 0
	}
	x.skills = skill.Merge(slices.Concat(s.DisabledSkills, conv.Options.DisabledSkills), layers...)
	x.agents = subagent.Merge(agents...)
	for _, sk := range x.skills {
		if x.task == nil { // else its parent has them
			x.addServers("skill "+sk.Name, "", sk.MCP)
		}
	}
	return x, nil
}

// sharedBundles are those of the server's collections and of the owner.
func (e *Engine) sharedBundles(ctx context.Context, owner string) ([]extension.Bundle, error) {
	var all []extension.Bundle
	if e.opt.Collections != nil {
		all = e.opt.Collections()
	}
	own, err := e.userBundle(ctx, owner)
	return append(slices.Clip(all), own), err
}

// admit takes a bundle's hooks and servers over if it may run, and returns what of it
// can be used.
func (x *extras) admit(b extension.Bundle, trustAll bool, decisions []extension.Decision) extension.Bundle {
	for _, p := range b.Problems {
		x.note(b.Name, p)
	}
	approved, ask := extension.Approve(b, decisions)
	if !approved && !trustAll {
		if ask && len(x.questions) < maxQuestions {
			x.questions = append(x.questions, conversation.TrustQuestion{Subject: b.Subject, Hash: b.Hash, Runs: b.Runs()})
		}
		return extension.Strip(b)
	}
	if len(b.Scripts) > 0 {
		x.setUps = append(x.setUps, b)
	}
	if len(b.Agents) > 0 {
		x.origins = append(x.origins, b)
	}
	if !b.Hooks.Empty() {
		x.hooks = append(x.hooks, hookrun.Source{Name: b.Name, Config: b.Hooks, Dir: b.Root, Pins: hookPins(b), Env: rootEnv(b)})
	}
	if x.task == nil || b.Name == agentBundle(x.task.Agent) { // else its parent has them
		x.addServers(b.Name, b.Root, b.Servers)
	}
	return b
}

// origin is the bundle that an agent is from, without the agents and skills in it: what
// its hooks and servers need to run as the user trusted them. False if there is none
// that may run.
func (x *extras) origin(def *subagent.Definition) (extension.Bundle, bool) {
	for _, b := range slices.Backward(x.origins) {
		if slices.ContainsFunc(b.Agents, func(d subagent.Definition) bool {
			return d.Name == def.Name && d.Level == def.Level && d.Source == def.Source
		}) {
			return extension.Bundle{Level: b.Level, Subject: b.Subject, Hash: b.Hash, Root: b.Root, Pins: b.Pins, Commit: b.Commit}, true
		}
	}
	return extension.Bundle{}, false
}

// hookPins are the files that must be unchanged for a bundle's hooks to run. Set-up
// scripts are none of them, unless a hook names one: working on such a script must not
// stop every guard.
func hookPins(b extension.Bundle) []extension.Pin {
	commands := strings.Join(b.Hooks.Commands(), "\n")
	return slices.DeleteFunc(slices.Clone(b.Pins), func(p extension.Pin) bool {
		return slices.ContainsFunc(b.Scripts, func(script string) bool {
			return p.Path == path.Join(b.Root, script) && !strings.Contains(commands, path.Base(script))
		})
	})
}

// rootEnv tells the programs of a plugin where it is.
func rootEnv(b extension.Bundle) map[string]string {
	if b.Level != skill.LevelPlugin {
		return nil
	}
	return map[string]string{"CLAUDE_PLUGIN_ROOT": b.Root, "PLUGIN_ROOT": b.Root}
}

func (x *extras) note(from string, p extension.Problem) {
	if len(x.problems) >= maxProblems {
		return
	}
	place := p.File
	if p.Line > 0 {
		place = fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	text := []rune(strings.ToValidUTF8(fmt.Sprintf("%s: %s: %s", from, place, p.Text), "?"))
	if len(text) > maxProblem {
		text = append(text[:maxProblem-3], '.', '.', '.')
	}
	x.problems = append(x.problems, string(text))
}

// addServers adds MCP servers. Of two with one name the later one gets a number.
func (x *extras) addServers(from, dir string, c *account.MCPConfig) {
	if c == nil {
		return
	}
	c.Enabled().Each(func(name string, http *account.MCPHTTPServer, sse bool, stdio *account.MCPStdioServer) {
		x.servers = append(x.servers, tool.Server{Name: x.freeName(name), From: from, HTTP: http, SSE: sse, Stdio: stdio, Dir: dir})
	})
}

func (x *extras) freeName(name string) string {
	free := name
	for n := 2; slices.ContainsFunc(x.servers, func(s tool.Server) bool { return s.Name == free }); n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	return free
}

// extend reads the extras anew.
func (l *live) extend(ctx context.Context) error {
	x, err := l.e.extras(ctx, l.conv, l.settings)
	if err != nil {
		return err
	}
	l.extras = x
	l.setServers()
	return nil
}

// userBundle are the skills that an owner stored.
func (e *Engine) userBundle(ctx context.Context, owner string) (extension.Bundle, error) {
	b := extension.Bundle{Name: "your skills", Level: skill.LevelUser}
	stored, err := e.opt.Store.Extensions().Skills(ctx, owner)
	if err != nil {
		return b, err
	}
	for _, s := range stored {
		parsed, err := parseUserSkill(s.Name, s.Content)
		if err != nil { // an earlier version took it
			b.Problems = append(b.Problems, problemOf(s.Name, err))
			continue
		}
		b.Skills = append(b.Skills, parsed)
	}
	return b, nil
}

// library is a conversation's skills, for tools.
type library struct {
	skills []skill.Skill
	run    func(ctx context.Context, sk skill.Skill, command string) (string, error)
	place  func(ctx context.Context, sk skill.Skill) (skill.Skill, error)
}

var _ tool.Skills = (*library)(nil)

// Open implements tool.Skills.
func (b *library) Open(ctx context.Context, name string) (string, error) {
	offered := skill.Invocable(b.skills)
	for _, s := range offered {
		if s.Name != name {
			continue
		}
		if len(s.Files) > 0 {
			var err error
			if s, err = b.place(ctx, s); err != nil {
				return "", err
			}
		}
		var run func(context.Context, string) (string, error)
		if s.Trusted {
			run = func(ctx context.Context, command string) (string, error) { return b.run(ctx, s, command) }
		}
		return skill.Open(ctx, s, run), nil
	}
	return "", unknownSkill(name, offered)
}

// secretsNamed returns the secrets whose names a text mentions.
func secretsNamed(all map[string]account.CustomSecret, text string) map[string]string {
	found := map[string]string{}
	lower := strings.ToLower(text)
	for name, s := range all {
		if name != "" && strings.Contains(lower, strings.ToLower(name)) {
			found[name] = s.Value.Reveal()
		}
	}
	return found
}

// descriptions are the names of secrets with what is said about them.
func descriptions(all map[string]account.CustomSecret) map[string]string {
	names := map[string]string{}
	for name, s := range all {
		names[name] = s.Description
	}
	return names
}
