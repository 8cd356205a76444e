package extension

import (
	"context"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/internal/skill"
)

// Directories that may be in a repository, a home or a collection; what is in a
// later one counts (agent protocol 4.8 and 4.10, V1 8).
var (
	skillDirs = []string{".agents/skills", ".openhands/skills", ".openhands/microagents"}
	agentDirs = []string{".agents/agents", ".openhands/agents"}
)

// setupScripts run when a conversation begins (legacy API 17.3).
var setupScripts = []string{".openhands/setup.sh", ".openhands/pre-commit.sh"}

// LoadRepository loads what a repository brings: notes in AGENTS.md and the like,
// also of directories, skills, agents, hooks and set-up scripts. It must run nothing
// of it before the user trusts it (Approve). Its .mcp.json is not read: servers of a
// repository come with its skills (legacy API 17.1). A file that cannot be used is a
// Problem; an error means that the place could not be read.
func LoadRepository(ctx context.Context, t Tree, opt Options) (Bundle, error) {
	l := newLoader(ctx, t, opt)
	if l.b.Name == "" {
		l.b.Name = "repository"
	}
	// First what runs: bounds must not take it away.
	l.hookFile(".openhands/hooks.json", func(data []byte) []byte { return data })
	for _, name := range setupScripts {
		if _, ok := l.read(name); ok {
			l.b.Scripts = append(l.b.Scripts, name)
		}
	}
	l.notes()
	for _, dir := range skillDirs {
		l.skillDir(dir)
	}
	for _, dir := range agentDirs {
		l.agentDir(dir)
	}
	if opt.Memory {
		l.memory()
	}
	return l.done()
}

// notes loads what is always on, and what is for directories (agent protocol 4.10,
// legacy API 17.2 and 17.3).
func (l *loader) notes() {
	for _, name := range []string{".openhands_instructions", ".cursorrules", "CLAUDE.md", "GEMINI.md"} {
		l.skillFile(name, nil)
	}
	for _, name := range []string{"AGENTS.md", "agents.md", "AGENT.md", "agent.md"} {
		if l.skillFile(name, nil) {
			break
		}
	}
	if l.err != nil {
		return
	}
	names, err := l.t.Find(l.ctx, "AGENTS.md", maxNested)
	if err != nil {
		l.refused("AGENTS.md", err)
		return
	}
	for _, name := range l.usable(names) {
		if depth := strings.Count(name, "/"); depth > 0 && depth <= maxDepth {
			l.skillFile(name, nil)
		}
	}
}

// memory reads what earlier conversations wrote down.
func (l *loader) memory() {
	const name = ".openhands/memory/MEMORY.md"
	data, ok := l.read(name)
	if !ok {
		return
	}
	text := strings.ToValidUTF8(string(data), "")
	if len(text) > maxMemory {
		l.problem(name, 0, "The memory has %d bytes; only the first %d are read.", len(text), maxMemory)
		end := maxMemory
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	l.b.Memory = strings.TrimSpace(text)
}

// LoadCollection loads a collection: a repository or directory of skills and agents,
// as a user, a team or the public have them, and the plugins in it. The first bundle
// are its own skills and agents; it has no hooks and no scripts. What is in the usual
// directories counts before the AgentSkills that lie in the place directly, as one that
// is a directory of skills has them. Then come the plugins that its marketplace names,
// or those in plugins/ without one. Each is trusted on its own.
func LoadCollection(ctx context.Context, t Tree, opt Options) ([]Bundle, error) {
	l := newLoader(ctx, t, opt)
	if l.b.Name == "" {
		l.b.Name = "collection"
	}
	l.topSkills()
	for _, dir := range append([]string{"skills", "microagents"}, skillDirs...) {
		l.skillDir(dir)
	}
	for _, dir := range append([]string{"agents"}, agentDirs...) {
		l.agentDir(dir)
	}
	dirs := l.pluginDirs()
	if len(dirs) > 0 && opt.Root != "" && !plainRoot.MatchString(opt.Root) {
		l.problem("plugins", 0, "The plugins are left out: %q is no directory that they could run in.", opt.Root)
		dirs = nil
	}
	own, err := l.done()
	if err != nil {
		return nil, err
	}
	bundles := []Bundle{own}
	for _, dir := range dirs {
		one := opt
		one.Name = ""
		if one.Root != "" {
			one.Root = path.Join(opt.Root, dir)
		}
		if one.Subject != "" {
			one.Subject += " " + dir
		}
		one.Dir = path.Join(opt.Dir, dir)
		p := newLoader(ctx, t, one)
		p.room = l.room
		b, err := p.plugin()
		if err != nil {
			return nil, err
		}
		bundles = append(bundles, b)
	}
	return bundles, nil
}

// topSkills loads the AgentSkills that lie in the place directly, and the one that the
// place is. Other files there are none of the collection's.
func (l *loader) topSkills() {
	names, err := l.t.List(l.ctx, l.opt.Dir, 2, maxEntries)
	if err != nil {
		l.refused(".", err)
		return
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !isSkillFile(name) })
	for _, name := range l.usable(names) {
		dir := path.Dir(name)
		if dir != "." && strings.HasPrefix(dir, ".") {
			continue
		}
		l.skillFile(name, func(s *skill.Skill) { s.Resources = resources(l.list(dir, maxDepth, maxListed), dir) })
	}
}
