package profiles

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/engine"
	"parley/internal/fault"
)

// Reporter says what a start with an agent profile would come to.
type Reporter interface {
	ReportAgent(ctx context.Context, owner, name string) (*engine.AgentReport, error)
}

// Agents is the agent profiles of whoever a request acts for.
type Agents struct {
	Book
	Reporter Reporter
}

// AgentInfo is an entry of a list.
type AgentInfo struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Kind       string   `json:"agent_kind"`
	Revision   int      `json:"revision"`
	LLMProfile *string  `json:"llm_profile_ref"`
	Servers    []string `json:"mcp_server_refs"` // null = all
}

// AgentList is the list, by name.
type AgentList struct {
	Profiles []AgentInfo `json:"profiles"`
	Active   *string     `json:"active_agent_profile_id"`
}

// List answers with all profiles.
func (a Agents) List(w http.ResponseWriter, r *httpkit.Request) error {
	s, err := a.Settings(r)
	if err != nil {
		return err
	}
	list := AgentList{Profiles: []AgentInfo{}, Active: orNull(s.ActiveAgentProfile)}
	for _, name := range slices.Sorted(maps.Keys(s.AgentProfiles)) {
		p := s.AgentProfiles[name]
		info := AgentInfo{ID: p.ID, Name: name, Kind: p.Kind, Revision: p.Revision, Servers: p.Servers}
		if p.OpenHandsAgent != nil {
			info.LLMProfile = orNull(p.LLMProfile)
		}
		list.Profiles = append(list.Profiles, info)
	}
	return httpkit.JSON(w, http.StatusOK, list)
}

// Get answers with a profile.
func (a Agents) Get(w http.ResponseWriter, r *httpkit.Request) error {
	s, err := a.Settings(r)
	if err != nil {
		return err
	}
	p, err := s.AgentProfile(r.PathValue("name"))
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"name": p.Name, "profile": p})
}

// Save stores a profile, in place of one that has the name.
func (a Agents) Save(w http.ResponseWriter, r *httpkit.Request) error {
	var raw json.RawMessage
	if err := r.Body(&raw); err != nil {
		return err
	}
	p, err := account.ParseAgentProfile(raw, "body")
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	if err := a.Change(r, func(s *account.Settings) error { return s.SaveAgentProfile(name, p) }); err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusCreated, Mutation{name, fmt.Sprintf("Agent profile '%s' saved", name)})
}

// Delete removes a profile; it is no error if there is none.
func (a Agents) Delete(w http.ResponseWriter, r *httpkit.Request) error {
	name := r.PathValue("name")
	err := a.Store.UpdateSettings(r.Context(), a.Owner(r.Principal), func(old *account.Settings) (*account.Settings, error) {
		if old == nil {
			return nil, nil // nothing to delete, and nothing to store
		}
		next := *old
		next.DeleteAgentProfile(name)
		return &next, nil
	})
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, Mutation{name, fmt.Sprintf("Agent profile '%s' deleted", name)})
}

// Rename gives a profile another name; its id stays.
func (a Agents) Rename(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		NewName string `json:"new_name"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	name := r.PathValue("name")
	if err := a.Change(r, func(s *account.Settings) error { return s.RenameAgentProfile(name, q.NewName) }); err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, Mutation{q.NewName, fmt.Sprintf("Agent profile '%s' renamed to '%s'", name, q.NewName)})
}

// Activate notes the profile that clients offer first. The settings stay as they are:
// a start names its profile.
func (a Agents) Activate(w http.ResponseWriter, r *httpkit.Request) error {
	id := r.PathValue("profile_id")
	if err := a.Change(r, func(s *account.Settings) error { return s.ActivateAgentProfile(id) }); err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"id": id, "message": "Agent profile activated", "agent_settings_applied": false})
}

// Diagnostics is what a start with a profile would come to.
type Diagnostics struct {
	Kind          string         `json:"agent_kind"`
	Valid         bool           `json:"valid"`
	Errors        []string       `json:"errors"`
	LLMProfile    *string        `json:"llm_profile_ref"`
	LLMResolved   bool           `json:"llm_profile_resolved"`
	LLMKeySet     bool           `json:"llm_api_key_set"`
	ServerRefs    []string       `json:"mcp_server_refs"`
	ServerKeys    []string       `json:"resolved_mcp_config_keys"`
	Servers       []string       `json:"resolved_mcp_servers"`
	Dangling      []string       `json:"dangling_mcp_server_refs"`
	Disabled      []string       `json:"disabled_skills"`
	Skills        []string       `json:"resolved_skills"`
	ACPKey        *string        `json:"acp_api_key_secret_name"`
	ACPBase       *string        `json:"acp_base_url_secret_name"`
	ACPFiles      []string       `json:"acp_file_secret_names"`
	SettingsFound map[string]any `json:"resolved_settings"` // null unless valid
}

// Materialize says what a start with a profile would come to. What is wrong with it is
// in the answer.
func (a Agents) Materialize(w http.ResponseWriter, r *httpkit.Request) error {
	report, err := a.Reporter.ReportAgent(r.Context(), a.Owner(r.Principal), r.PathValue("name"))
	if err != nil {
		return err
	}
	d, err := diagnose(report)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, d)
}

func diagnose(report *engine.AgentReport) (*Diagnostics, error) {
	p := report.Profile
	servers := report.Servers.RenderServers()
	keys := append([]string{}, slices.Sorted(maps.Keys(servers))...)
	d := &Diagnostics{Kind: p.Kind, Valid: len(report.Errors) == 0, Errors: append([]string{}, report.Errors...), LLMResolved: report.HasLLM,
		LLMKeySet: report.LLM.APIKey.IsSet(), ServerRefs: p.Servers, ServerKeys: keys, Servers: keys, Dangling: append([]string{}, report.Dangling...),
		Disabled: []string{}, Skills: report.Skills, ACPFiles: []string{}}
	if p.OpenHandsAgent == nil {
		return d, nil
	}
	d.LLMProfile, d.Disabled = orNull(p.LLMProfile), p.DisabledSkills
	if !d.Valid {
		return d, nil
	}
	llm, err := report.LLM.Render(func(account.Secret) string { return account.Mask })
	d.SettingsFound = map[string]any{"agent_kind": p.Kind, "agent": p.Agent, "llm": llm, "tools": p.Tools, "mcp_config": servers,
		"agent_context": map[string]any{"system_message_suffix": p.Suffix, "disabled_skills": p.DisabledSkills},
		"condenser":     p.Condenser, "verification": p.Verification, "enable_sub_agents": p.SubAgents,
		"enable_switch_llm_tool": p.SwitchLLM, "tool_concurrency_limit": p.Concurrency}
	return d, err
}

// WriteDangling answers a start with an agent profile that needs MCP servers which do
// not exist (agent protocol 1.3).
func WriteDangling(w http.ResponseWriter, err error, names []string) error {
	return httpkit.JSON(w, http.StatusUnprocessableEntity, map[string]any{
		"detail": map[string]any{"message": fault.PublicText(err), engine.CodeDanglingServers: names}})
}
