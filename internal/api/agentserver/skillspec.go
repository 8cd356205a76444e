package agentserver

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"parley/internal/api/httpkit"
	"parley/internal/glob"
	"parley/internal/skill"
)

// skillSpec is a skill of a request (OpenAPI Skill).
type skillSpec struct {
	Name          string            `json:"name"`
	Content       string            `json:"content"`
	Trigger       *triggerSpec      `json:"trigger"` // null = always on, or opened by the agent
	Source        *string           `json:"source"`
	MCPTools      json.RawMessage   `json:"mcp_tools"`
	Inputs        []skill.Input     `json:"inputs"`
	AgentSkill    bool              `json:"is_agentskills_format"`
	Version       *string           `json:"version"`
	Description   *string           `json:"description"`
	License       *string           `json:"license"`
	Compatibility *string           `json:"compatibility"`
	Metadata      map[string]string `json:"metadata"`
	AllowedTools  []string          `json:"allowed_tools"`
	Hidden        bool              `json:"disable_model_invocation"`
	Resources     *resourceSpec     `json:"resources"`
}

// triggerSpec is what brings a skill in. One of the lists is set, by the type.
type triggerSpec struct {
	Type     string   `json:"type"`     // keyword, task or path
	Keywords []string `json:"keywords"` // of keyword
	Triggers []string `json:"triggers"` // of task
	Paths    []string `json:"paths"`    // of path
}

// resourceSpec are the files of an AgentSkill.
type resourceSpec struct {
	Root       string   `json:"skill_root"`
	Scripts    []string `json:"scripts"`
	References []string `json:"references"`
	Assets     []string `json:"assets"`
}

// skillsOf reads the skills of a request, which are the user's own. loc is where they
// stand.
func skillsOf(specs []skillSpec, loc ...any) ([]skill.Skill, error) {
	seen, total := map[string]bool{}, 0
	var all []skill.Skill
	for i := range specs {
		at := append(slices.Clone(loc), i)
		s, err := specs[i].read(at)
		if err != nil {
			return nil, err
		}
		if seen[s.Name] {
			return nil, httpkit.BadField("there are several skills of this name", s.Name, append(at, "name")...)
		}
		if total += len(s.Content) + len(s.Description); total > maxSkillBytes {
			return nil, httpkit.BadField(fmt.Sprintf("all skills together have at most %d bytes", maxSkillBytes), nil, loc...)
		}
		seen[s.Name] = true
		all = append(all, s)
	}
	return all, nil
}

func (p *skillSpec) read(loc []any) (skill.Skill, error) {
	s := skill.Skill{Name: p.Name, Content: p.Content, Source: orEmpty(p.Source), Level: skill.LevelExplicit, Inputs: p.Inputs,
		AgentSkill: p.AgentSkill, Hidden: p.Hidden, Version: orEmpty(p.Version), Description: strings.TrimSpace(orEmpty(p.Description)),
		License: orEmpty(p.License), Compatibility: orEmpty(p.Compatibility), Metadata: p.Metadata, AllowedTools: p.AllowedTools,
		Trusted: p.AgentSkill, Family: p.family()}
	if len(s.Content) > maxSkillContent {
		return s, httpkit.BadField(fmt.Sprintf("a skill has at most %d bytes", maxSkillContent), nil, append(loc, "content")...)
	}
	if r := p.Resources; r != nil {
		s.Root = r.Root
		for dir, names := range map[string][]string{"scripts": r.Scripts, "references": r.References, "assets": r.Assets} {
			for _, name := range names {
				s.Resources = append(s.Resources, path.Join(dir, name))
			}
		}
		slices.Sort(s.Resources)
	}
	if t := p.Trigger; t != nil {
		s.Triggers, s.Paths = slices.Concat(t.Keywords, t.Triggers), t.Paths
		if err := checkPaths(t.Paths, append(slices.Clone(loc), "trigger", "paths")); err != nil {
			return s, err
		}
	}
	var err error
	s.MCP, err = serversOf(p.MCPTools, nil, append(slices.Clone(loc), "mcp_tools")...)
	return s, err
}

// family tells notes for one family of models by their names, as a repository's are.
func (p *skillSpec) family() string {
	for _, family := range []string{"claude", "gemini"} {
		if p.Name == family && p.Trigger == nil && strings.EqualFold(path.Base(orEmpty(p.Source)), family+".md") {
			return family
		}
	}
	return ""
}

func checkPaths(patterns []string, loc []any) error {
	for i, pattern := range patterns {
		if strings.HasSuffix(pattern, "/") { // everything below
			pattern += "**"
		}
		if _, err := glob.Compile(pattern); err != nil {
			return httpkit.BadField(fmt.Sprintf("this is no pattern of paths: %v", err), patterns[i], append(loc, i)...)
		}
	}
	return nil
}
