package v0

import (
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/skill"
)

// microagentInfo is a skill as clients know it (legacy API 17.5).
type microagentInfo struct {
	Name     string        `json:"name"`
	Type     string        `json:"type"`
	Content  string        `json:"content"`
	Triggers []string      `json:"triggers"`
	Inputs   []skill.Input `json:"inputs"`
	Tools    []string      `json:"tools"` // names of the stdio servers that it brings
}

// Types of microagents. Clients know no others: a skill that the agent opens by
// itself is knowledge.
const (
	typeRepo      = "repo"
	typeKnowledge = "knowledge"
)

func describeSkill(s *skill.Skill) microagentInfo {
	m := microagentInfo{Name: s.Name, Type: typeKnowledge, Content: s.Content, Triggers: append([]string{}, s.Triggers...),
		Inputs: append([]skill.Input{}, s.Inputs...), Tools: []string{}}
	if s.Type() == typeRepo {
		m.Type = typeRepo
	}
	if s.MCP != nil {
		for _, server := range s.MCP.Stdio {
			m.Tools = append(m.Tools, server.Name)
		}
	}
	return m
}

// microagents lists the skills of a running conversation.
func (h *handlers) microagents(w http.ResponseWriter, r *httpkit.Request) error {
	id, err := idOf(r)
	if err != nil {
		return err
	}
	v, err := h.attached(r.Context(), r.Principal.UserID, id)
	if err != nil {
		return err
	}
	x, err := h.engine.Extensions(r.Context(), r.Principal.UserID, v.ID)
	if err != nil {
		return err
	}
	all := make([]microagentInfo, len(x.Skills))
	for i := range x.Skills {
		all[i] = describeSkill(&x.Skills[i])
	}
	return ok(w, map[string]any{"microagents": all})
}
