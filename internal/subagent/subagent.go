// Package subagent is the definitions of agents that an agent can give tasks to
// (agent protocol 4.8): Markdown files with front matter, and those that every
// conversation has. Pure.
package subagent

import (
	"parley/internal/account"
	"parley/internal/hook"
)

// Levels of a Definition, as the protocol names them; a later one takes the place
// of one of the same name.
const (
	LevelBuiltin      = "builtin"
	LevelUser         = "user"
	LevelPlugin       = "plugin"
	LevelProgrammatic = "programmatic" // of the request
	LevelProject      = "project"      // of the repository: untrusted
)

// ModelInherit as Definition.Model means the parent's model.
const ModelInherit = "inherit"

// Permission modes of a Definition. They make a policy stricter and never less
// strict.
const (
	PermitAlwaysConfirm = "always_confirm"
	PermitNeverConfirm  = "never_confirm"
	PermitConfirmRisky  = "confirm_risky"
)

// Definition is one kind of sub-agent.
type Definition struct {
	Name           string             `json:"name"`
	Description    string             `json:"description"`
	Model          string             `json:"model"`  // ModelInherit, or the name of one of the owner's LLM profiles
	Tools          []string           `json:"tools"`  // names; nil = the parent's
	Skills         []string           `json:"skills"` // names, whose content is in its prompt
	SystemPrompt   string             `json:"system_prompt"`
	Source         string             `json:"source,omitempty"`
	Level          string             `json:"level,omitempty"`
	Examples       []string           `json:"when_to_use_examples"`
	PermissionMode string             `json:"permission_mode,omitempty"`
	MaxIterations  int                `json:"max_iteration_per_run,omitempty"` // 0 = the parent's
	MaxBudget      float64            `json:"max_budget_per_run,omitempty"`    // USD; 0 = only the parent's
	Hooks          *hook.Config       `json:"hooks,omitempty"`
	MCP            *account.MCPConfig `json:"mcp_config,omitempty"`
}
