package agentserver

import (
	"bytes"
	"encoding/json"
	"net/http"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/api/settingswire"
	"parley/internal/engine"
	"parley/internal/fault"
)

// miscSettings are a client's own: kept, without an effect.
const (
	miscSettings = "misc_settings"
	miscDiff     = miscSettings + "_diff"
)

// settingsInfo is agent protocol 1.8.
type settingsInfo struct {
	Agent         map[string]any `json:"agent_settings"`
	Conversation  map[string]any `json:"conversation_settings"`
	LLMKeySet     bool           `json:"llm_api_key_is_set"`
	ActiveProfile *string        `json:"active_profile"`
	ActiveAgent   *string        `json:"active_agent_profile_id"`
	Misc          map[string]any `json:"misc_settings"`
}

// agentDefaults are the members of agent_settings that Parley shows where nothing is
// kept: forms are built from them, and they are sent back with a start.
func agentDefaults() map[string]any {
	return map[string]any{"tools": nil, "enable_sub_agents": false, "enable_switch_llm_tool": true, "tool_concurrency_limit": engine.DefaultConcurrency,
		"agent_context": map[string]any{}, "condenser": map[string]any{"condenser_kind": account.CondenserSummarizing, "keep_first": 2, "max_tokens": nil},
		"verification": map[string]any{"critic_enabled": false, "critic_mode": "finish_and_message", "enable_iterative_refinement": false,
			"critic_threshold": 0.6, "max_refinement_iterations": 3}}
}

func maskSecret(account.Secret) string { return account.Mask }

// viewSettings renders settings; show nil masks the secrets.
func viewSettings(s *account.Settings, show settingswire.Show) (*settingsInfo, error) {
	s, kept, err := settingswire.Adopted(s)
	if err != nil {
		return nil, err
	}
	if show == nil {
		show = maskSecret
	}
	agent, err := settingswire.ViewAgent(s, kept, show)
	if err != nil {
		return nil, err
	}
	info := &settingsInfo{Agent: account.MergeDiff(agentDefaults(), agent), Conversation: settingswire.ViewConversation(s, kept),
		LLMKeySet: s.LLMAPIKey.IsSet(), ActiveProfile: orNull(s.ActiveProfile), ActiveAgent: orNull(s.ActiveAgentProfile), Misc: kept.Object(miscSettings)}
	if info.Misc == nil {
		info.Misc = map[string]any{}
	}
	return info, nil
}

func (s *Server) getSettings(w http.ResponseWriter, r *httpkit.Request) error {
	show, err := s.show(w, r)
	if err != nil {
		return err
	}
	return s.writeSettings(w, r, http.StatusOK, show)
}

func (s *Server) writeSettings(w http.ResponseWriter, r *httpkit.Request, status int, show settingswire.Show) error {
	settings, err := s.book().Settings(r)
	if err != nil {
		return err
	}
	info, err := viewSettings(settings, show)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, status, info)
}

// settingsPatch is a request to change settings.
type settingsPatch struct {
	settingswire.Change
	Misc          settingswire.Member[map[string]any] `json:"misc_settings_diff"`
	ActiveProfile settingswire.Member[string]         `json:"active_profile"`
	ActiveAgent   settingswire.Member[string]         `json:"active_agent_profile_id"`

	all map[string]any // the whole request
}

// patchMembers are the members of which a request must have one.
var patchMembers = []string{settingswire.AgentDiff, settingswire.ConversationDiff, miscDiff, "active_profile", "active_agent_profile_id"}

func (s *Server) updateSettings(w http.ResponseWriter, r *httpkit.Request) error {
	q, err := s.readPatch(r)
	if err != nil {
		return err
	}
	if err := s.book().Change(r, q.apply); err != nil {
		return err
	}
	return s.writeSettings(w, r, http.StatusOK, nil)
}

func (s *Server) readPatch(r *httpkit.Request) (*settingsPatch, error) {
	var raw json.RawMessage
	if err := r.Body(&raw); err != nil {
		return nil, err
	}
	raw, err := s.unlock(r.Principal, raw, "body")
	if err != nil {
		return nil, err
	}
	q := &settingsPatch{}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&q.all); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, q); err != nil {
		return nil, err
	}
	for _, name := range patchMembers {
		if _, sent := q.all[name]; sent {
			return q, nil
		}
	}
	return nil, fault.New(fault.Invalid, "no_changes", "The request changes nothing.").
		WithHint("Send agent_settings_diff, conversation_settings_diff, misc_settings_diff, active_profile or active_agent_profile_id.")
}

// apply changes settings, or returns Invalid with all that is wrong.
func (q *settingsPatch) apply(s *account.Settings) error {
	var fields []fault.Field
	if err := settingswire.AdoptKept(s); err != nil {
		return err
	}
	q.ApplyPlain(s)
	for _, step := range []func(*account.Settings) error{q.applyProfile, q.applyAgentProfile, q.ApplyLLM} {
		if err := settingswire.Collect(&fields, step(s)); err != nil {
			return err
		}
	}
	wrong, err := q.MergeMCP(s)
	if err != nil {
		return err
	}
	if fields = append(fields, wrong...); len(fields) > 0 {
		return account.Invalid(fields)
	}
	return q.keep(s)
}

// applyProfile chooses a profile's model. Beside a change of the model it only says
// whose change that is, and holds if the model is the profile's then.
func (q *settingsPatch) applyProfile(s *account.Settings) error {
	name := orEmpty(q.ActiveProfile.Value)
	switch {
	case !q.ActiveProfile.Sent:
		return nil
	case name == "":
		s.ActiveProfile = ""
		return nil
	case len(q.Agent.LLM) == 0 || string(q.Agent.LLM) == "null":
		return s.ActivateProfile(name)
	}
	if _, err := s.Profile(name); err != nil {
		return err
	}
	s.ActiveProfile = name
	return nil
}

func (q *settingsPatch) applyAgentProfile(s *account.Settings) error {
	if !q.ActiveAgent.Sent {
		return nil
	}
	return s.ChooseAgentProfile(orEmpty(q.ActiveAgent.Value), "body", "active_agent_profile_id")
}

func (q *settingsPatch) keep(s *account.Settings) error {
	kept, err := settingswire.ReadKept(s)
	if err != nil {
		return err
	}
	q.Keep(kept, q.all)
	if change, ok := q.all[miscDiff].(map[string]any); ok {
		plain, _ := settingswire.Keepable("", change)
		diff, _ := plain.(map[string]any)
		kept[miscSettings] = account.MergeDiff(kept.Object(miscSettings), diff)
	}
	return kept.Store(s)
}

// putServer stores an MCP server of the settings: a new one (POST), or a change of one
// (PATCH; null removes a member).
func (s *Server) putServer(exists bool, status int) httpkit.Handler {
	return func(w http.ResponseWriter, r *httpkit.Request) error {
		var raw json.RawMessage
		if err := r.Body(&raw); err != nil {
			return err
		}
		key := r.PathValue("key")
		nested, err := json.Marshal(map[string]any{"mcp_config": map[string]any{key: raw}})
		if err != nil {
			return err
		}
		if nested, err = s.unlock(r.Principal, nested); err != nil {
			return err
		}
		q := &settingsPatch{}
		if err := json.Unmarshal(nested, &q.Agent); err != nil {
			return err
		}
		err = s.book().Change(r, func(old *account.Settings) error {
			if _, there := old.MCP.RenderServers()[key]; there != exists {
				return errServer(key, there)
			}
			return q.apply(old)
		})
		if err != nil {
			return err
		}
		return s.writeSettings(w, r, status, nil)
	}
}

func errServer(key string, there bool) error {
	if there {
		return fault.New(fault.Conflict, "mcp_server_exists", "There is an MCP server named %.100q already.", key)
	}
	return fault.New(fault.NotFound, "mcp_server_not_found", "MCP server not found: %.100s", key)
}

func (s *Server) deleteServer(w http.ResponseWriter, r *httpkit.Request) error {
	key := r.PathValue("key")
	err := s.book().Change(r, func(old *account.Settings) error {
		if _, there := old.MCP.RenderServers()[key]; !there {
			return errServer(key, false)
		}
		q := &settingsPatch{}
		diff, err := json.Marshal(map[string]any{key: nil})
		if err != nil {
			return err
		}
		q.Agent.MCP = diff
		return q.apply(old)
	})
	if err != nil {
		return err
	}
	return s.writeSettings(w, r, http.StatusOK, nil)
}

func writeForm(form func() settingswire.Form) httpkit.Handler {
	return func(w http.ResponseWriter, _ *httpkit.Request) error { return httpkit.JSON(w, http.StatusOK, form()) }
}
