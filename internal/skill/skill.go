// Package skill is what a team teaches an agent in files: always-on repository
// notes, knowledge that keywords or paths bring in, tasks with inputs, and
// AgentSkills that the agent opens when it needs them. It reads the files, decides
// which skill counts where several have one name, and finds those that a message
// or a path calls for. Pure: no I/O.
//
// Skills come from repositories and are untrusted: what is rendered for a model is
// marked as such, and nothing in them configures the server.
package skill

import "parley/internal/account"

// Level says where a skill comes from. A skill of a later level takes the place of
// one of the same name.
type Level string

// The levels, from the weakest.
const (
	LevelSandbox  Level = "sandbox"
	LevelPublic   Level = "public"
	LevelUser     Level = "user"
	LevelOrg      Level = "org"
	LevelPlugin   Level = "plugin"
	LevelExplicit Level = "explicit" // of the request
	LevelProject  Level = "project"  // of the repository
)

// Levels lists all levels, the weakest first.
var Levels = []Level{LevelSandbox, LevelPublic, LevelUser, LevelOrg, LevelPlugin, LevelExplicit, LevelProject}

// Skill is one skill.
type Skill struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"` // at most MaxDescription characters
	Content     string   `json:"content"`               // without front matter
	Source      string   `json:"source,omitempty"`      // path of the file, or where else it is from
	Level       Level    `json:"level"`
	Triggers    []string `json:"triggers,omitempty"` // keywords that bring the content in
	Inputs      []Input  `json:"inputs,omitempty"`   // of a task
	Paths       []string `json:"paths,omitempty"`    // patterns (package glob) of paths that bring the content in
	// AgentSkill says that it is a SKILL.md of the AgentSkills format: it is listed
	// by name and description, and the agent opens it.
	AgentSkill bool `json:"agent_skill,omitempty"`
	// Hidden keeps it from being listed to the model (disable-model-invocation).
	Hidden bool `json:"hidden,omitempty"`
	// Family names the models that read it: "claude", "gemini"; "" = all.
	Family        string            `json:"family,omitempty"`
	Root          string            `json:"root,omitempty"`      // directory of a SKILL.md, inside the sandbox
	Resources     []string          `json:"resources,omitempty"` // files below Root in scripts, references and assets; relative
	Version       string            `json:"version,omitempty"`
	License       string            `json:"license,omitempty"`
	Compatibility string            `json:"compatibility,omitempty"`
	AllowedTools  []string          `json:"allowed_tools,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
	// MCP are the servers that a repository skill brings (mcp_tools). They are of no
	// effect before the user trusted the repository.
	MCP *account.MCPConfig `json:"mcp,omitempty"`
}

// Input is something that a task asks for.
type Input struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// MaxDescription is the bound of a description in characters (agent protocol 4.10).
const MaxDescription = 1024
