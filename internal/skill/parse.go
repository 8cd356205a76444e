package skill

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"parley/internal/content"
	"parley/internal/glob"
	"parley/internal/lazyre"
)

// Bounds of a skill's file.
const (
	maxFile    = 1 << 20 // bytes
	maxName    = 64      // characters of an AgentSkill's name
	maxTrigger = 200     // bytes
	maxItems   = 200     // of a list in the front matter
)

const defaultVersion = "1.0.0"

// ErrNoSkill says that a file is none by its name: README.md, notes for one family
// of models that are not at the top, or not Markdown.
var ErrNoSkill = errors.New("the file is no skill")

// Problem is why a file is no skill though it should be one.
type Problem struct {
	File string // as Parse got it
	Line int    // of the file, from 1; 0 = the whole file
	Text string // for people
}

// Error returns the text with its place.
func (p *Problem) Error() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// skillDirs are the directories that hold skills (agent protocol 4.10, legacy API
// 17.3): of a workspace or home, and of a repository that has nothing else.
var skillDirs = []string{".agents/skills/", ".openhands/skills/", ".openhands/microagents/", "skills/", "microagents/"}

var agentSkillName = lazyre.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// Parse reads a skill from a file. file is its path relative to the place that it
// was found in (a workspace, a home, a plugin), with slashes; it decides what the
// file is and what the skill is called:
//
//	AGENTS.md, AGENT.md, CLAUDE.md, .cursorrules ...  notes without front matter
//	dir/AGENTS.md                                     notes for what is below dir
//	.agents/skills/pdf/SKILL.md                       the AgentSkill pdf
//	.openhands/microagents/a/b.md                     the skill a/b
//
// The error is ErrNoSkill or a *Problem, and the skill of no use then.
func Parse(file string, data []byte, level Level) (Skill, error) {
	name := path.Clean(file)
	p := &parser{file: file, skill: Skill{Source: file, Level: level, Version: defaultVersion}}
	switch {
	case ignored(name):
		return Skill{}, ErrNoSkill
	case len(data) > maxFile:
		p.fail(0, "the file has %d bytes, more than the %d that a skill may have", len(data), maxFile)
	case bytes.IndexByte(data, 0) >= 0:
		p.fail(0, "the file is no text")
	case p.special(name):
		p.skill.Content = plain(data)
	case strings.EqualFold(path.Base(name), "SKILL.md"):
		p.agentSkill(name, plain(data))
	case path.Ext(name) == ".md":
		p.legacy(name, plain(data))
	default:
		return Skill{}, ErrNoSkill
	}
	if p.problem != nil {
		return Skill{}, p.problem
	}
	return p.skill, nil
}

// ignored tells files that are Markdown and no skills. Notes for a directory are for
// all models: what a path brings in does not ask which model reads it.
func ignored(file string) bool {
	dir, base := path.Split(file)
	return strings.EqualFold(base, "README.md") || dir != "" && (base == "CLAUDE.md" || base == "GEMINI.md")
}

// plain returns a file's text in UTF-8 with the line ends of Unix.
func plain(data []byte) string {
	text := strings.TrimPrefix(strings.ToValidUTF8(string(data), "\uFFFD"), "\uFEFF")
	return strings.ReplaceAll(text, "\r\n", "\n")
}

// parser reads one file.
type parser struct {
	file    string
	skill   Skill
	problem *Problem // the first one
}

func (p *parser) fail(line int, format string, args ...any) {
	if p.problem == nil {
		p.problem = &Problem{File: p.file, Line: line, Text: fmt.Sprintf(format, args...)}
	}
}

// special names a file whose name alone says what it is (legacy API 17.2, agent
// protocol 4.10).
func (p *parser) special(file string) bool {
	dir, base := path.Split(file)
	if dir != "" {
		return p.nested(strings.TrimSuffix(dir, "/"), base)
	}
	switch base {
	case "AGENTS.md", "agents.md", "AGENT.md", "agent.md":
		p.skill.Name = "agents"
	case ".cursorrules":
		p.skill.Name = "cursorrules"
	case ".openhands_instructions":
		p.skill.Name = "repo_legacy"
	case "CLAUDE.md", "claude.md":
		p.skill.Name, p.skill.Family = "claude", "claude"
	case "GEMINI.md", "gemini.md":
		p.skill.Name, p.skill.Family = "gemini", "gemini"
	default:
		return false
	}
	return true
}

// nested names notes for a directory. In a directory of skills agents.md is a skill
// about agents.
func (p *parser) nested(dir, base string) bool {
	switch base {
	case "AGENTS.md", "AGENT.md":
	case "agents.md", "agent.md":
		if _, inSkills := belowSkills(dir + "/" + base); inSkills {
			return false
		}
	default:
		return false
	}
	p.skill.Name = dir + "/agents"
	p.setPaths([]string{escapeGlob(dir) + "/**"}, []int{0})
	return true
}

// escapeGlob makes a pattern that matches only the name itself.
func escapeGlob(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if strings.IndexByte(`*?[]{},\!^`, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// belowSkills cuts the directory of skills off a path.
func belowSkills(file string) (rest string, ok bool) {
	for _, dir := range skillDirs {
		if rest, ok = strings.CutPrefix(file, dir); ok {
			return rest, true
		}
	}
	return file, false
}

// legacy reads a skill in one file (legacy API 17.1). What its front matter says of
// its name does not count.
func (p *parser) legacy(file, text string) {
	rest, _ := belowSkills(file)
	p.skill.Name = strings.TrimSuffix(rest, ".md")
	if p.skill.Name == "" {
		p.fail(0, "the file has no name before .md; its name is that of the skill")
	}
	fields := p.frontMatter(text)
	declared := fields.declaredType()
	p.common(fields)
	p.inferTask(declared == "task")
}

// agentSkill reads a SKILL.md of the AgentSkills format.
func (p *parser) agentSkill(file, text string) {
	dir := path.Dir(file)
	p.skill.AgentSkill, p.skill.Root = true, dir
	fields := p.frontMatter(text)
	name, line := fields.text("name")
	switch want := path.Base(dir); {
	case name == "" && dir != ".":
		name = want
	case name == "":
		p.fail(max(line, 1), "the front matter has no name")
	case dir != "." && name != want:
		p.fail(line, "the name %q is not that of the directory, %q; an AgentSkill is called like its directory", short(name), short(want))
	}
	if len(name) > maxName || !agentSkillName.MatchString(name) {
		p.fail(line, "the name %q does not fit: an AgentSkill's name has lowercase letters, digits and single hyphens between them, at most %d", short(name), maxName)
	}
	p.skill.Name = name
	p.common(fields)
	p.inferTask(false)
}

// common reads what both formats have.
func (p *parser) common(f *fields) {
	s := &p.skill
	if version, _ := f.text("version"); version != "" {
		s.Version = version
	}
	s.Content = f.body
	description, _ := f.text("description")
	s.Description = clipDescription(strings.TrimSpace(description), s.Source)
	s.License, _ = f.text("license")
	s.Compatibility, _ = f.text("compatibility")
	s.AllowedTools = f.tools("allowed_tools")
	s.Metadata = f.texts("metadata")
	s.Hidden = f.flag("disable_model_invocation")
	s.Inputs = f.inputs("inputs")
	s.MCP = f.servers("mcp_tools")
	triggers, lines := f.list("triggers")
	for i, t := range triggers {
		if len(t) > maxTrigger {
			p.fail(lines[i], "the trigger has %d bytes, more than the %d allowed", len(t), maxTrigger)
		}
	}
	s.Triggers = triggers
	p.setPaths(f.list("paths"))
}

func (p *parser) setPaths(patterns []string, lines []int) {
	for i, pattern := range patterns {
		if _, err := compile(pattern); err != nil {
			p.fail(lines[i], "the path pattern %q does not fit: %v", short(pattern), err)
		}
	}
	p.skill.Paths = patterns
}

// compile reads a pattern of paths. One that ends in a slash means all below.
func compile(pattern string) (*glob.Pattern, error) {
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	return glob.Compile(pattern)
}

var inputVariable = lazyre.MustCompile(`\$\{([a-zA-Z_][a-zA-Z0-9_]*)\}`)

// inferTask makes a task of a skill with inputs (legacy API 17.1), and of one that
// is declared to be a task and has ${variables}: others have them in their examples
// of shell commands.
func (p *parser) inferTask(declared bool) {
	s := &p.skill
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) && len(names) < maxItems {
			names = append(names, name)
		}
	}
	for _, in := range s.Inputs {
		add(in.Name)
	}
	if declared || len(s.Inputs) > 0 {
		for _, m := range inputVariable.FindAllStringSubmatch(s.Content, maxItems) {
			add(m[1])
		}
	}
	if len(names) == 0 {
		return
	}
	if trigger := "/" + s.Name; !slices.Contains(s.Triggers, trigger) {
		s.Triggers = append(s.Triggers, trigger)
	}
	s.Content += "\n\nThis task needs: " + strings.Join(names, ", ") +
		". If the user has not given one of them, ask for it before you begin."
}

// short makes a text from a file fit into a message.
func short(text string) string {
	return content.Short(text, 100)
}
