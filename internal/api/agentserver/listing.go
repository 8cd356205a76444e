package agentserver

import (
	"maps"
	"net/http"
	"path"
	"slices"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/extension"
	"parley/internal/hook"
	"parley/internal/skill"
	"parley/internal/subagent"
)

// projectDir is a request's directory of the sandbox, "" = the working directory.
// Relative ones count from that, as those of conversations do: the web UI asks for
// workspace/project before it has asked where that is.
type projectDir struct {
	Dir *string `json:"project_dir"`
}

// listPlugins tells clients that ask at each conversation that nothing was installed:
// nothing can be.
func (s *Server) listPlugins(w http.ResponseWriter, _ *httpkit.Request) error {
	return httpkit.JSON(w, http.StatusOK, map[string]any{"plugins": []struct{}{}})
}

// project reads what the directory would add to an agent. Nothing of it runs.
func (s *Server) project(r *httpkit.Request, d projectDir) (extension.Bundle, error) {
	sc := scopeOf(r.Principal)
	dir := orEmpty(d.Dir)
	if !isPath(dir) {
		return extension.Bundle{}, httpkit.BadField("this is no path", *d.Dir, "body", "project_dir")
	}
	if !path.IsAbs(dir) {
		base, err := s.workingDir(r.Context(), sc)
		if err != nil {
			return extension.Bundle{}, err
		}
		dir = path.Join(base, dir)
	}
	return s.cfg.Engine.Project(r.Context(), sc.owner, sc.sandbox, path.Clean(dir))
}

// skillInfo is a skill in a list (agent protocol 1.7).
type skillInfo struct {
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Content     string   `json:"content"`
	Triggers    []string `json:"triggers"`
	Source      *string  `json:"source"`
	Description *string  `json:"description"`
	AgentSkill  bool     `json:"is_agentskills_format"`
	Hidden      bool     `json:"disable_model_invocation"`
}

func renderSkills(all []skill.Skill) []skillInfo {
	out := make([]skillInfo, len(all))
	for i := range all {
		s := &all[i]
		out[i] = skillInfo{s.Name, s.Type(), s.Content, append([]string{}, s.Triggers...), orNull(s.Source), orNull(s.Description),
			s.AgentSkill, s.Hidden}
	}
	return out
}

// listSkills lists the skills that conversations can have, also those that the owner
// disabled: it is from this list that clients choose. Where several have one name,
// the one that counts is shown; sources counts all of them.
func (s *Server) listSkills(w http.ResponseWriter, r *httpkit.Request) error {
	q := struct {
		Public  bool `json:"load_public"`
		User    bool `json:"load_user"`
		Org     bool `json:"load_org"`
		Project bool `json:"load_project"`
		projectDir
	}{Public: true, User: true, Org: true, Project: true}
	if err := r.Body(&q); err != nil {
		return err
	}
	wanted := map[skill.Level]bool{skill.LevelPublic: q.Public, skill.LevelUser: q.User, skill.LevelOrg: q.Org,
		skill.LevelPlugin: q.Public || q.Org, skill.LevelProject: q.Project}
	bundles, err := s.bundles(r, wanted, q.projectDir)
	if err != nil {
		return err
	}
	layers, sources := [][]skill.Skill{}, map[string]int{}
	for level := range maps.Keys(wanted) {
		if wanted[level] {
			sources[string(level)] = 0
		}
	}
	for _, b := range bundles {
		layers = append(layers, b.Skills)
		sources[string(b.Level)] += len(b.Skills)
	}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"skills": renderSkills(skill.Merge(nil, layers...)), "sources": sources})
}

// bundles are those of the wanted levels, the project's last.
func (s *Server) bundles(r *httpkit.Request, wanted map[skill.Level]bool, dir projectDir) ([]extension.Bundle, error) {
	all, err := s.cfg.Engine.Shared(r.Context(), scopeOf(r.Principal).owner)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(b extension.Bundle) bool { return !wanted[b.Level] })
	if !wanted[skill.LevelProject] {
		return all, nil
	}
	own, err := s.project(r, dir)
	return append(all, own), err
}

// listHooks shows the hooks of a directory, null if there are none that can be read.
func (s *Server) listHooks(w http.ResponseWriter, r *httpkit.Request) error {
	var q projectDir
	if err := r.Body(&q); err != nil {
		return err
	}
	own, err := s.project(r, q)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, map[string]*hook.Config{"hook_config": orNone(own.Hooks)})
}

func orNone(c hook.Config) *hook.Config {
	if c.Empty() {
		return nil
	}
	return &c
}

// agentEntry is a kind of sub-agent in a list. Tools is left out where it has those of
// the agent that calls it.
type agentEntry struct {
	Name           string         `json:"name"`
	Description    string         `json:"description"`
	Model          string         `json:"model"`
	Tools          []string       `json:"tools,omitzero"`
	Skills         []string       `json:"skills"`
	SystemPrompt   string         `json:"system_prompt"`
	Source         *string        `json:"source"`
	Level          *string        `json:"level"`
	Builtin        bool           `json:"is_builtin"`
	Examples       []string       `json:"when_to_use_examples"`
	Hooks          *hook.Config   `json:"hooks"`
	PermissionMode *string        `json:"permission_mode"`
	MaxIterations  *int           `json:"max_iteration_per_run"`
	MaxBudget      *float64       `json:"max_budget_per_run"` // USD
	Servers        map[string]any `json:"mcp_config"`
}

func renderAgents(all []subagent.Definition) []agentEntry {
	out := make([]agentEntry, len(all))
	for i, d := range all {
		out[i] = agentEntry{Name: d.Name, Description: d.Description, Model: d.Model, Tools: d.Tools, Skills: append([]string{}, d.Skills...),
			SystemPrompt: d.SystemPrompt, Source: orNull(d.Source), Level: orNull(d.Level), Builtin: d.Level == subagent.LevelBuiltin,
			Examples: append([]string{}, d.Examples...), Hooks: d.Hooks, PermissionMode: orNull(d.PermissionMode),
			MaxIterations: orNil(d.MaxIterations), MaxBudget: orNil(d.MaxBudget), Servers: renderServers(d.MCP)}
	}
	return out
}

// renderServers shows MCP servers with their secrets masked; null is none.
func renderServers(c *account.MCPConfig) map[string]any {
	if c == nil {
		return nil
	}
	return c.RenderServers()
}

// orNil renders 0 as null.
func orNil[T int | float64](n T) *T {
	if n == 0 {
		return nil
	}
	return &n
}

// listAgents lists the kinds of sub-agents that conversations can have.
func (s *Server) listAgents(w http.ResponseWriter, r *httpkit.Request) error {
	q := struct {
		User    bool `json:"load_user"`
		Project bool `json:"load_project"`
		Builtin bool `json:"load_builtin"`
		projectDir
	}{User: true, Project: true, Builtin: true}
	if err := r.Body(&q); err != nil {
		return err
	}
	wanted := map[skill.Level]bool{skill.LevelProject: q.Project}
	for _, level := range []skill.Level{skill.LevelPublic, skill.LevelUser, skill.LevelOrg, skill.LevelPlugin} {
		wanted[level] = q.User
	}
	bundles, err := s.bundles(r, wanted, q.projectDir)
	if err != nil {
		return err
	}
	layers := [][]subagent.Definition{}
	if q.Builtin {
		layers = append(layers, subagent.Builtin())
	}
	for _, b := range bundles {
		layers = append(layers, b.Agents)
	}
	return httpkit.JSON(w, http.StatusOK, map[string][]agentEntry{"agents": renderAgents(subagent.Merge(layers...))})
}
