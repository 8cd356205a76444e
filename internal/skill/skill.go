// Package skill is what a team teaches an agent in files: always-on repository
// notes, knowledge that keywords or paths bring in, tasks with inputs, and
// AgentSkills that the agent opens when it needs them. It reads the files, decides
// which skill counts where several have one name, and finds those that a message
// or a path calls for. Pure: no I/O.
//
// Skills come from repositories and are untrusted: what is rendered for a model is
// marked as such, and nothing in them configures the server.
package skill

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"parley/internal/account"
)

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
	Root          string            `json:"root,omitempty"`      // directory of a SKILL.md; from Parse relative, as Source is
	Resources     []string          `json:"resources,omitempty"` // files below Root in scripts, references and assets; relative
	Version       string            `json:"version,omitempty"`
	License       string            `json:"license,omitempty"`
	Compatibility string            `json:"compatibility,omitempty"`
	AllowedTools  []string          `json:"allowed_tools,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
	// MCP are the servers that a repository skill brings (mcp_tools). They are of no
	// effect before the user trusted the repository.
	MCP *account.MCPConfig `json:"mcp,omitempty"`
	// Trusted says that the commands in Content may run when it is opened.
	Trusted bool `json:"trusted,omitempty"`
	// Files are those of an AgentSkill that no sandbox has yet: all of its directory,
	// with SKILL.md as the last one, so that a directory with that has the others, too.
	// Root is "" then, and Resources are some of them.
	Files []File `json:"files,omitempty"`
}

// File is a file of a skill.
type File struct {
	Name       string `json:"name"` // relative to the skill's directory, with slashes; never leads out of it
	Data       []byte `json:"data,omitempty"`
	Executable bool   `json:"executable,omitempty"`
}

// Placed returns the skill as it is once Files are below root, a directory inside the
// sandbox.
func (s Skill) Placed(root string) Skill {
	s.Root, s.Files = root, nil
	return s
}

// FilesHash names what is in Files, in any order, with 16 letters and digits; "" if
// there are none. A directory with it in its name is another one when they change.
func (s Skill) FilesHash() string {
	if len(s.Files) == 0 {
		return ""
	}
	h := sha256.New()
	part := func(data []byte) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(data)))
		h.Write(size[:]) // a hash takes everything
		h.Write(data)
	}
	for _, f := range slices.SortedStableFunc(slices.Values(s.Files), func(a, b File) int { return cmp.Compare(a.Name, b.Name) }) {
		mode := byte('-')
		if f.Executable {
			mode = 'x'
		}
		part(append([]byte{mode}, f.Name...))
		part(f.Data)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// The types of skills, as the APIs name them.
const (
	typeRepo        = "repo"
	typeKnowledge   = "knowledge"
	typeAgentSkills = "agentskills"
)

// Type returns the skill's type as the APIs show it (V1 8, legacy API 17.5):
// "agentskills", "knowledge" for what triggers, inputs or paths bring in, else
// "repo".
func (s *Skill) Type() string {
	switch {
	case s.AgentSkill:
		return typeAgentSkills
	case len(s.Triggers)+len(s.Inputs)+len(s.Paths) > 0:
		return typeKnowledge
	}
	return typeRepo
}

// Invocable returns the skills that the model may open with invoke_skill.
func Invocable(skills []Skill) []Skill {
	var out []Skill
	for _, s := range skills {
		if s.AgentSkill && !s.Hidden {
			out = append(out, s)
		}
	}
	return out
}

// Input is something that a task asks for.
type Input struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// MaxDescription is the bound of a description in characters (agent protocol 4.10).
const MaxDescription = 1024
