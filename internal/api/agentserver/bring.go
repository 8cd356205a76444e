package agentserver

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/engine"
	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/hook"
	"parley/internal/skill"
	"parley/internal/subagent"
)

// surroundings are what a request may refer to.
type surroundings struct {
	tools   []string           // that agents may have
	servers *account.MCPConfig // of the owner's settings; a secret that is sent as the mask is theirs
}

// brought returns the bundle of what a request brings along. It is the user's own:
// nobody is asked before it runs.
func brought(req *engine.StartRequest) *extension.Bundle {
	if req.Brought == nil {
		req.Brought = &extension.Bundle{Name: "request", Level: skill.LevelExplicit}
	}
	return req.Brought
}

// bring reads what a request adds to its agent from outside of it: plugins, hooks and
// sub-agents (agent protocol 2.1).
func (q *startRequest) bring(req *engine.StartRequest) error {
	raw, err := json.Marshal(q.Plugins)
	if err != nil {
		return fmt.Errorf("encode plugins: %w", err)
	}
	if len(raw) > maxPluginBytes {
		return httpkit.BadField(fmt.Sprintf("all plugins together have at most %d bytes", maxPluginBytes), nil, "body", "plugins")
	}
	req.Plugins = q.Plugins
	hooks, err := hook.Parse(q.HookConfig, "body", "hook_config")
	if err != nil {
		return err
	}
	if !hooks.Empty() {
		brought(req).Hooks = *hooks
	}
	return q.bringAgents(req)
}

func (q *startRequest) bringAgents(req *engine.StartRequest) error {
	total := 0
	for i, raw := range q.Definitions {
		if total += len(raw); total > maxAgentBytes {
			return httpkit.BadField(fmt.Sprintf("all definitions of agents together have at most %d bytes", maxAgentBytes), nil, "body", "agent_definitions")
		}
		if copyOfBuiltin(raw) {
			continue
		}
		d, err := subagent.FromJSON(raw, "body", "agent_definitions", i)
		if err != nil {
			return err
		}
		brought(req).Agents = append(brought(req).Agents, d)
	}
	return nil
}

// copyOfBuiltin tells an agent that a client has built in as well as Parley. Clients
// send all agents that they know, and one that is there already stays as it is.
func copyOfBuiltin(raw json.RawMessage) bool {
	var d struct {
		Name  string `json:"name"`
		Level string `json:"level"`
	}
	return json.Unmarshal(raw, &d) == nil && d.Level == subagent.LevelBuiltin &&
		slices.ContainsFunc(subagent.Builtin(), func(own subagent.Definition) bool { return own.Name == d.Name })
}

// distrust takes out of the skills and agents what runs that are below a directory
// that the conversation works in, commands, servers and hooks: clients read those of a
// repository and send them along, and that is not the user's trust.
func distrust(req *engine.StartRequest, dirs ...string) {
	if req.Brought == nil {
		return
	}
	copied := func(places ...string) bool {
		return slices.ContainsFunc(places, func(file string) bool {
			return slices.ContainsFunc(dirs, func(dir string) bool { return below(file, dir) })
		})
	}
	for i := range req.Brought.Skills {
		if s := &req.Brought.Skills[i]; copied(s.Source, s.Root) {
			s.Trusted, s.MCP = false, nil
		}
	}
	for i := range req.Brought.Agents {
		if d := &req.Brought.Agents[i]; copied(d.Source) {
			d.Hooks, d.MCP = nil, nil
		}
	}
}

// below reports whether a path is in a directory; one that is relative always is.
func below(file, dir string) bool {
	if file == "" {
		return false
	}
	if !path.IsAbs(file) {
		return !strings.Contains(file, "://")
	}
	file, dir = path.Clean(file), path.Clean(dir)
	return file == dir || strings.HasPrefix(file, strings.TrimSuffix(dir, "/")+"/")
}

// serversOf reads the MCP servers of a request; nil where it does not say.
func serversOf(raw json.RawMessage, stored *account.MCPConfig, loc ...any) (*account.MCPConfig, error) {
	if len(raw) > maxServerBytes {
		return nil, httpkit.BadField(fmt.Sprintf("all MCP servers together have at most %d bytes", maxServerBytes), nil, loc...)
	}
	if len(raw) == 0 {
		return nil, nil
	}
	config, wrong := account.ParseMCPServers(raw, stored, loc...)
	if len(wrong) > 0 {
		return nil, httpkit.InvalidFields(wrong...)
	}
	return config, nil
}

// places are where in a request something stands that the engine refuses, by its code.
var places = map[string][]any{
	"bad_plugin": {"body", "plugins"}, "too_many_plugins": {"body", "plugins"},
	"bad_tool_filter": {"body", "agent", "filter_tools_regex"},
}

// placeOf returns where the member stands that an error is about.
func (q *startRequest) placeOf(err error) []any {
	switch code := fault.CodeOf(err); {
	case places[code] != nil:
		return places[code]
	case code == engine.CodeUnknownTool && q.Agent != nil:
		return []any{"body", "agent", "tools"}
	case code == engine.CodeUnknownTool:
		return []any{"body", "agent_settings", "tools"}
	case fault.Is(err, fault.Invalid) && strings.Contains(code, "client_tool"):
		return []any{"body", "client_tools"}
	}
	return nil
}
