// Package extension is what can be added to an agent, as it is found in one place:
// a repository, a plugin, a collection, a request. It loads such a place through a
// Tree, and says what of it needs the user's trust before it runs.
package extension

import (
	"context"
	"strconv"
	"time"

	"parley/internal/account"
	"parley/internal/hook"
	"parley/internal/skill"
	"parley/internal/subagent"
)

// Bundle is everything that one place brings.
type Bundle struct {
	Name  string      `json:"name"` // for people: "repository", "plugin review", "collection acme"
	Level skill.Level `json:"level"`
	// Subject is what the user is asked to trust, "" where nothing has to be asked
	// (the user's own request, the server's configuration): "repository
	// https://github.com/o/r", "plugin github:o/r". Hash is of the content that runs.
	Subject string `json:"subject,omitempty"`
	Hash    string `json:"hash,omitempty"`
	Root    string `json:"root,omitempty"`   // directory inside the sandbox
	Commit  string `json:"commit,omitempty"` // of a git reference

	Skills   []skill.Skill         `json:"skills,omitempty"`
	Agents   []subagent.Definition `json:"agents,omitempty"`
	Hooks    hook.Config           `json:"hooks,omitzero"`
	Servers  *account.MCPConfig    `json:"servers,omitempty"` // with names, ${SECRET} placeholders unresolved
	Scripts  []string              `json:"scripts,omitempty"` // set-up scripts that exist, relative to Root
	Pins     []Pin                 `json:"pins,omitempty"`    // of Scripts and of the files that hooks and servers name
	Memory   string                `json:"memory,omitempty"`  // what earlier conversations wrote down; untrusted
	Problems []Problem             `json:"problems,omitempty"`
}

// Pin is a file that must be as it was when it was trusted, or the hook or the set-up
// script that runs it fails. Other content is another question, for all that name it.
// What such a file loads itself is not pinned.
type Pin struct {
	Path   string `json:"path"`   // absolute, inside the sandbox
	SHA256 string `json:"sha256"` // in hexadecimal; "" = it is too large or cannot be read: it never is as it was
}

// Problem is something that could not be used. It never stops a start.
type Problem struct {
	File string `json:"file"`           // relative to the bundle's root
	Line int    `json:"line,omitempty"` // from 1; 0 = the whole file
	Text string `json:"text"`
}

// Decision is a user's answer to the question whether something may run.
type Decision struct {
	Subject string    `json:"subject"`
	Hash    string    `json:"hash"`
	Trusted bool      `json:"trusted"`
	At      time.Time `json:"at"`
}

// Tree is a place with files. Names are relative, with slashes; "" is the place
// itself. Symbolic links are followed, but never out of the place; List follows one to
// a directory once, not again below it. What is no regular file is not there.
type Tree interface {
	// List returns the files below dir, sorted, at most depth levels down (1 = directly
	// in it) and max of them; none if there is no such directory.
	List(ctx context.Context, dir string, depth, max int) ([]string, error)
	// Find returns the files at any depth whose path matches a pattern (package glob),
	// sorted, at most max of them. Directories that are hidden are left out, and those
	// that hold installed packages or that git ignores may be.
	Find(ctx context.Context, pattern string, max int) ([]string, error)
	// Read returns a file's content; TooLarge above max bytes, NotFound, Forbidden for
	// what leads out of the place or is no regular file. Any other error means that the
	// place cannot be read now.
	Read(ctx context.Context, name string, max int64) ([]byte, error)
}

// ModeTree is a Tree that knows which of its files are programs. Of another one none
// is.
type ModeTree interface {
	Tree
	// Executable reports whether a file is marked as a program; false if there is none.
	Executable(name string) bool
}

// EachSecret implements account.Sealable.
func (b *Bundle) EachSecret(f func(string, *account.Secret)) {
	if b.Servers != nil {
		b.Servers.EachSecret(func(p string, s *account.Secret) { f("servers."+p, s) })
	}
	for i := range b.Skills {
		if m := b.Skills[i].MCP; m != nil {
			m.EachSecret(func(p string, s *account.Secret) { f("skills."+strconv.Itoa(i)+"."+p, s) })
		}
	}
	for i := range b.Agents {
		if m := b.Agents[i].MCP; m != nil {
			m.EachSecret(func(p string, s *account.Secret) { f("agents."+strconv.Itoa(i)+"."+p, s) })
		}
	}
}
