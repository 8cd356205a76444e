package extension

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/internal/fault"
	"parley/internal/hook"
	"parley/internal/skill"
	"parley/internal/subagent"
)

// Bounds of what one place brings.
const (
	maxFiles    = 500
	maxFile     = 256 << 10 // bytes
	maxBytes    = 4 << 20   // of all files
	maxDepth    = 6         // of directories with skills
	maxListed   = 2000      // files of one directory with skills
	maxName     = 300       // bytes of a path
	maxProblems = 100
	maxNested   = 50 // notes of directories
	maxMemory   = 64 << 10
)

// Options say what a place is.
type Options struct {
	Name    string      // for people; "" = what it calls itself
	Level   skill.Level // of its skills; its agents get the level that goes with it
	Subject string      // Bundle.Subject
	Commit  string      // Bundle.Commit
	// Dir is where the place is in the tree, "" = at its top. Links may lead from there
	// to the rest of the tree.
	Dir string
	// Root is where the place is inside the sandbox, absolute: sources, directories of
	// skills and pins are paths below it. "" = nowhere: they are paths below the top of
	// the tree, and nothing of the place can be run (Strip).
	Root string
	// Contents takes the files of AgentSkills along (skill.Skill.Files), of a place that
	// no sandbox has: of each up to 1 MiB a file, 4 MiB and 200 files, six levels deep,
	// without .git; of all together 16 MiB and 2000 files. What is more is a Problem.
	Contents bool
	// Memory loads what earlier conversations wrote down, of a repository.
	Memory bool
	// Parameters are the user's values for ${name} in the hooks and servers of a plugin.
	Parameters map[string]any
}

// loader reads one place. The first error that means that the place cannot be read
// ends it: everything is skipped then.
type loader struct {
	ctx context.Context
	t   Tree
	opt Options
	b   Bundle
	err error

	files int
	bytes int64
	full  bool
	// edit changes files before they are read: plugins name their directory in them.
	edit  func([]byte) []byte
	mains map[string]string // files of skills by name
	room  *room             // for the files of skills; shared by a collection and its plugins
}

func newLoader(ctx context.Context, t Tree, opt Options) *loader {
	if opt.Root != "" {
		opt.Root = path.Clean(opt.Root)
	}
	opt.Dir = strings.TrimPrefix(path.Clean("/"+opt.Dir), "/") // dots do not lead out
	return &loader{ctx: ctx, t: t, opt: opt, edit: func(data []byte) []byte { return data },
		mains: map[string]string{}, room: &room{files: maxContentFiles, bytes: maxContents},
		b: Bundle{Name: opt.Name, Level: opt.Level, Subject: opt.Subject, Commit: opt.Commit, Root: opt.Root}}
}

// done returns what was found, with the files that come along, what of it must be
// pinned and its hash.
func (l *loader) done() (Bundle, error) {
	l.contents()
	l.pin()
	if l.err != nil {
		return Bundle{}, l.err
	}
	l.b.Hash = Hash(l.b)
	return l.b, nil
}

// problem notes what could not be used.
func (l *loader) problem(file string, line int, format string, args ...any) {
	p := Problem{File: visible(file, maxName), Line: line, Text: visible(fmt.Sprintf(format, args...), 1000)}
	switch {
	case slices.Contains(l.b.Problems, p): // a directory is listed for this and for that
	case len(l.b.Problems) < maxProblems:
		l.b.Problems = append(l.b.Problems, p)
	case len(l.b.Problems) == maxProblems:
		l.b.Problems = append(l.b.Problems, Problem{Text: "There are more problems; they are not listed."})
	}
}

// read returns a file, if there is one that can be used.
func (l *loader) read(name string) (data []byte, ok bool) {
	if l.err != nil || l.full {
		return nil, false
	}
	data, err := l.t.Read(l.ctx, path.Join(l.opt.Dir, name), maxFile)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, false
	case err != nil:
		l.refused(name, err)
		return nil, false
	}
	l.files++
	l.bytes += int64(len(data))
	if l.full = l.files > maxFiles || l.bytes > maxBytes; l.full {
		l.problem(name, 0, "There are more than %d files or %d MiB; this one and what comes after it is left out.", maxFiles, maxBytes>>20)
		return nil, false
	}
	return data, true
}

// refused notes an error of one file; any other ends the load.
func (l *loader) refused(name string, err error) {
	if !ofFile(err) {
		l.err = fmt.Errorf("load %s: %w", l.b.Name, err)
		return
	}
	l.problem(name, 0, "%s", fault.PublicText(err))
}

// list returns the files below a directory that have usable names.
func (l *loader) list(dir string, depth, limit int) []string {
	if l.err != nil {
		return nil
	}
	names, err := l.t.List(l.ctx, path.Join(l.opt.Dir, dir), depth, limit+1)
	if err != nil {
		l.refused(dir, err)
		return nil
	}
	if len(names) > limit {
		l.problem(dir, 0, "There are more than %d files here; only these are looked at.", limit)
		names = names[:limit]
	}
	return l.usable(names)
}

func (l *loader) usable(names []string) []string {
	var out []string
	for _, name := range names {
		if l.opt.Dir != "" {
			name = strings.TrimPrefix(name, l.opt.Dir+"/")
		}
		if !plainName(name) {
			l.problem(name, 0, "The file's name is longer than %d bytes or has characters that cannot be shown. It is left out.", maxName)
			continue
		}
		out = append(out, name)
	}
	return out
}

// plainName refuses names that a person or a model would read as something else.
func plainName(name string) bool {
	return len(name) <= maxName && utf8.ValidString(name) && !strings.ContainsFunc(name, hidden)
}

func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.In(r, unicode.Zl, unicode.Zp)
}

// at returns where a file is inside the sandbox, or in the tree.
func (l *loader) at(name string) string {
	return path.Join(cmp.Or(l.opt.Root, l.opt.Dir), name)
}

// skillFile loads one skill and reports whether the file was there.
func (l *loader) skillFile(name string, change func(*skill.Skill)) bool {
	data, ok := l.read(name)
	if !ok {
		return false
	}
	s, err := skill.Parse(name, l.edit(data), l.opt.Level)
	var p *skill.Problem
	switch {
	case errors.Is(err, skill.ErrNoSkill):
		return true
	case errors.As(err, &p):
		l.problem(name, p.Line, "%s", p.Text)
		return true
	case err != nil:
		l.problem(name, 0, "%s", fault.PublicText(err))
		return true
	}
	s.Source = l.at(name)
	if s.Root != "" {
		s.Root = l.at(s.Root)
	}
	if change != nil {
		change(&s)
	}
	// Commands of other skills are never run.
	s.Trusted = s.AgentSkill && len(commands(s)) > 0
	l.addSkill(s)
	l.mains[s.Name] = name
	return true
}

// addSkill adds a skill in the place of an earlier one of its name.
func (l *loader) addSkill(s skill.Skill) {
	l.b.Skills = slices.DeleteFunc(l.b.Skills, func(old skill.Skill) bool { return old.Name == s.Name })
	l.b.Skills = append(l.b.Skills, s)
}

// skillDir loads the skills of a directory: Markdown files, and directories with a
// SKILL.md. What else is below such a directory belongs to its skill.
func (l *loader) skillDir(dir string) {
	names := l.list(dir, maxDepth, maxListed)
	homes := map[string]bool{} // directories with a SKILL.md
	for _, name := range names {
		if isSkillFile(name) && path.Dir(name) != dir {
			homes[path.Dir(name)] = true
		}
	}
	for _, name := range names {
		home := homeOf(path.Dir(name), dir, homes)
		isHome := home == path.Dir(name) && isSkillFile(name)
		switch {
		case isHome:
			l.skillFile(name, func(s *skill.Skill) { s.Resources = resources(names, home) })
		case home == "" && path.Ext(name) == ".md":
			l.skillFile(name, nil)
		}
	}
}

func isSkillFile(name string) bool { return strings.EqualFold(path.Base(name), "SKILL.md") }

// homeOf returns the outermost directory of a skill that a directory is in, "" for
// none.
func homeOf(dir, top string, homes map[string]bool) (home string) {
	for ; dir != top && dir != "." && dir != "/"; dir = path.Dir(dir) {
		if homes[dir] {
			home = dir
		}
	}
	return home
}

// resources are the files that a skill brings (agent protocol 4.10).
func resources(names []string, home string) []string {
	var out []string
	for _, name := range names {
		rest, ok := below("/"+name, path.Join("/", home))
		if top, _, inDir := strings.Cut(rest, "/"); ok && inDir && slices.Contains([]string{"scripts", "references", "assets"}, top) {
			out = append(out, rest)
		}
	}
	return out
}

// agentDir loads the agents of a directory.
func (l *loader) agentDir(dir string) {
	for _, name := range l.list(dir, 2, maxFiles) {
		if path.Ext(name) == ".md" && !strings.EqualFold(path.Base(name), "README.md") {
			l.agentFile(name)
		}
	}
}

func (l *loader) agentFile(name string) {
	data, ok := l.read(name)
	if !ok {
		return
	}
	d, err := subagent.Parse(name, l.edit(data), agentLevel(l.opt.Level))
	if err != nil {
		var p *skill.Problem
		if errors.As(err, &p) {
			l.problem(name, p.Line, "%s", p.Text)
		}
		return
	}
	d.Source = l.at(name)
	l.b.Agents = slices.DeleteFunc(l.b.Agents, func(old subagent.Definition) bool { return strings.EqualFold(old.Name, d.Name) })
	l.b.Agents = append(l.b.Agents, d)
}

// agentLevel is the level of agents that come from where skills of a level do.
func agentLevel(level skill.Level) string {
	switch level {
	case skill.LevelProject:
		return subagent.LevelProject
	case skill.LevelPlugin:
		return subagent.LevelPlugin
	case skill.LevelExplicit:
		return subagent.LevelProgrammatic
	}
	return subagent.LevelUser
}

// hookFile adds the hooks of a file.
func (l *loader) hookFile(name string, prepare func([]byte) []byte) {
	data, ok := l.read(name)
	if !ok {
		return
	}
	l.addHooks(name, data, prepare(data))
}

// addHooks adds hooks; data is what of the file they were made from.
func (l *loader) addHooks(name string, data, raw []byte) {
	config, err := hook.Parse(raw)
	if err != nil {
		l.problem(name, lineOfError(data, err), "%s", fault.PublicText(err))
		return
	}
	if config == nil {
		return
	}
	for _, event := range hook.Events {
		to, from := matchers(&l.b.Hooks, event), matchers(config, event)
		*to = append(*to, *from...)
	}
}

// matchers returns the list of an event.
func matchers(c *hook.Config, event hook.Event) *[]hook.Matcher {
	switch event {
	case hook.PreToolUse:
		return &c.PreToolUse
	case hook.PostToolUse:
		return &c.PostToolUse
	case hook.UserPromptSubmit:
		return &c.UserPromptSubmit
	case hook.SessionStart:
		return &c.SessionStart
	case hook.SessionEnd:
		return &c.SessionEnd
	}
	return &c.Stop
}

// definitions returns all hooks, to be read or changed in their place.
func definitions(c *hook.Config) []*hook.Definition {
	var out []*hook.Definition
	for _, event := range hook.Events {
		for _, m := range *matchers(c, event) {
			for i := range m.Hooks {
				out = append(out, &m.Hooks[i])
			}
		}
	}
	return out
}

// ofFile reports whether an error is about one file, so that others can be read.
func ofFile(err error) bool {
	switch fault.KindOf(err) {
	case fault.NotFound, fault.Forbidden, fault.TooLarge, fault.Invalid, fault.Conflict, fault.Unsupported:
		return true
	}
	return false
}
