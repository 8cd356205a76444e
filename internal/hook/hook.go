// Package hook is the configuration of hooks: commands, prompts and agents that
// run when something happens in a conversation, and may hold it back (agent
// protocol 4.9). It reads and checks configurations and says which hooks an event
// calls. Pure: agent/hookrun runs them.
package hook

import (
	"slices"
	"strings"

	"parley/internal/content"
)

// Event is what hooks can be called for.
type Event string

// The events.
const (
	PreToolUse       Event = "PreToolUse"       // before a tool runs; may block it
	PostToolUse      Event = "PostToolUse"      // after a tool ran
	UserPromptSubmit Event = "UserPromptSubmit" // a user's message; may block it
	SessionStart     Event = "SessionStart"     // the conversation begins
	SessionEnd       Event = "SessionEnd"       // the conversation ends
	Stop             Event = "Stop"             // the agent wants to end a run; may send it back to work
)

// Events lists all events, in the order in which configurations are shown.
var Events = []Event{PreToolUse, PostToolUse, UserPromptSubmit, SessionStart, SessionEnd, Stop}

// Config are the hooks by event. Parse makes one with its defaults filled in.
type Config struct {
	PreToolUse       []Matcher `json:"pre_tool_use"`
	PostToolUse      []Matcher `json:"post_tool_use"`
	UserPromptSubmit []Matcher `json:"user_prompt_submit"`
	SessionStart     []Matcher `json:"session_start"`
	SessionEnd       []Matcher `json:"session_end"`
	Stop             []Matcher `json:"stop"`
}

// Matcher calls hooks for the tools that it matches; for events without a tool it
// always does.
type Matcher struct {
	// Matcher is "*" or "" for all; a regular expression, between slashes or with
	// a character that only expressions have, which must match the whole name; else
	// the name itself.
	Matcher string       `json:"matcher"`
	Hooks   []Definition `json:"hooks"`
}

// Kinds of a Definition.
const (
	TypeCommand = "command"
	TypePrompt  = "prompt"
	TypeAgent   = "agent"
)

// Definition is one hook.
type Definition struct {
	Type          string   `json:"type"` // TypeCommand, TypePrompt or TypeAgent
	Name          string   `json:"name,omitempty"`
	Command       string   `json:"command"` // of a command: what a shell runs inside the sandbox
	Prompt        string   `json:"prompt,omitempty"`
	SystemPrompt  string   `json:"system_prompt,omitempty"`
	Tools         []string `json:"tools"`          // that an agent may use
	Timeout       int      `json:"timeout"`        // seconds, 1..600; 60
	MaxIterations int      `json:"max_iterations"` // of an agent, 1..20; 3
	Async         bool     `json:"async"`          // nobody waits for it, and it blocks nothing
}

// matchers returns the list of an event, nil for an event that is none.
func (c *Config) matchers(event Event) *[]Matcher {
	switch event {
	case PreToolUse:
		return &c.PreToolUse
	case PostToolUse:
		return &c.PostToolUse
	case UserPromptSubmit:
		return &c.UserPromptSubmit
	case SessionStart:
		return &c.SessionStart
	case SessionEnd:
		return &c.SessionEnd
	case Stop:
		return &c.Stop
	}
	return nil
}

// For returns the hooks that an event calls, in their order. tool is the name of
// the tool, "" for events without one. A nil Config has none.
func (c *Config) For(event Event, tool string) []Definition {
	if c == nil {
		return nil
	}
	list := c.matchers(event)
	if list == nil {
		return nil
	}
	var found []Definition
	for _, m := range *list {
		if len(m.Hooks) > 0 && (tool == "" || m.matches(tool)) {
			found = append(found, m.Hooks...)
		}
	}
	return found
}

// Empty reports whether there is no hook.
func (c *Config) Empty() bool {
	return !slices.ContainsFunc(Events, func(e Event) bool { return len(c.For(e, "")) > 0 })
}

// Commands says what would run, one line or more for each hook, so that somebody
// can be asked whether it may: "PreToolUse terminal: ./guard.sh". Nothing is left
// out of commands and prompts.
func (c Config) Commands() []string {
	var out []string
	for _, event := range Events {
		for _, m := range *c.matchers(event) {
			where := string(event)
			if !m.all() {
				where += " " + m.Matcher
			}
			for _, d := range m.Hooks {
				out = append(out, where+": "+d.text())
			}
		}
	}
	return out
}

// text is all that a hook does.
func (d Definition) text() string {
	if d.Type == TypeCommand {
		return d.Command
	}
	text := strings.TrimSuffix(d.Type+": "+d.Name, ": ")
	if len(d.Tools) > 0 {
		text += " (with " + strings.Join(d.Tools, ", ") + ")"
	}
	for _, prompt := range []string{d.SystemPrompt, d.Prompt} {
		if prompt != "" {
			text += "\n" + prompt
		}
	}
	return text
}

// Label names a hook in a log: its command, or for others their type and name, or
// else how their prompt begins.
func (d Definition) Label() string {
	const shown = 80 // characters of a prompt
	if d.Type == TypeCommand {
		return d.Command
	}
	name := d.Name
	if name == "" {
		name = content.Short(strings.Join(strings.Fields(d.Prompt), " "), shown)
	}
	return d.Type + ": " + name
}

// Without returns the hooks that do something else than those of another configuration
// do at the same event. Names, matchers and time-outs do not make a hook another one.
func (c Config) Without(other Config) Config {
	var out Config
	for _, event := range Events {
		var theirs []Definition
		for _, m := range *other.matchers(event) {
			theirs = append(theirs, m.Hooks...)
		}
		for _, m := range *c.matchers(event) {
			m.Hooks = slices.DeleteFunc(slices.Clone(m.Hooks), func(d Definition) bool { return slices.ContainsFunc(theirs, d.same) })
			if len(m.Hooks) > 0 {
				to := out.matchers(event)
				*to = append(*to, m)
			}
		}
	}
	return out
}

// same reports whether two hooks do the same.
func (d Definition) same(other Definition) bool {
	return d.Type == other.Type && plain(d.Command) == plain(other.Command) && plain(d.Prompt) == plain(other.Prompt)
}

// plain is a text without what blanks make of it.
func plain(text string) string { return strings.Join(strings.Fields(text), " ") }
