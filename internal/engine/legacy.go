package engine

import (
	"context"
	"encoding/json"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/lazyre"
	"parley/internal/tool"
)

// What is different for conversations that were made over the legacy API: its clients
// rely on it.

// CodeUnknownAgent is the code of settings that name an agent which there is not.
const CodeUnknownAgent = "unknown_agent"

// legacyAgent is the one agent there is, as the legacy API calls it.
const legacyAgent = "CodeActAgent"

// checkAgent refuses settings that name another agent than the one there is. They are
// stored all the same: what is wrong shows when a session starts (legacy API 20, 12).
func checkAgent(conv *conversation.Conversation, s *account.Settings) error {
	name := deref(s.Agent)
	if conv.Origin != conversation.OriginV0 || name == "" || name == legacyAgent {
		return nil
	}
	return fault.New(fault.Invalid, CodeUnknownAgent, "There is no agent named %.100q.", name).
		WithHint("Set agent to %s or to null with POST /api/settings.", legacyAgent)
}

// takeSettings takes over what the settings say now: a session that starts again is a
// new one, which legacy clients expect to follow them (legacy API 3.3). What was chosen
// for the conversation itself stays.
func (e *Engine) takeSettings(ctx context.Context, conv *conversation.Conversation) error {
	if conv.Origin != conversation.OriginV0 || conv.Options.Task != nil {
		return nil
	}
	s, err := e.settings(ctx, conv.Owner)
	if err != nil {
		return err
	}
	if err := checkAgent(conv, s); err != nil {
		return err
	}
	if reflect.DeepEqual(e.legacyOptions(s, conv.Options), conv.Options) {
		return nil
	}
	return e.do(ctx, conv.Owner, conv.ID, func(l *live) error {
		if l.state.Status == conversation.Running || l.work != nil {
			return nil // the session goes on
		}
		before := l.conv.Options.LLM.Model
		next, err := e.opt.Store.Conversations().Update(ctx, conv.ID, time.Now().UTC(), func(c *conversation.Conversation) error {
			c.Options = e.legacyOptions(s, c.Options)
			return nil
		})
		if err != nil {
			return err
		}
		l.adopt(next)
		if err := l.refresh(ctx); err != nil || next.Options.LLM.Model == before {
			return err
		}
		return l.append(stateUpdate(conversation.KeyModel, next.Options.LLM.Model))
	})
}

// legacyOptions are a conversation's options with what the settings say.
func (e *Engine) legacyOptions(s *account.Settings, o conversation.Options) conversation.Options {
	o.MaxIterations, o.MaxBudget = e.opt.MaxIterations, budgetOf(s)
	if s.MaxIterations != nil && *s.MaxIterations > 0 {
		o.MaxIterations = *s.MaxIterations
	}
	o.ConfirmationMode = s.ConfirmationMode != nil && *s.ConfirmationMode
	o.SecurityAnalyzer = deref(s.SecurityAnalyzer)
	o.GitUserName, o.GitUserEmail = deref(s.GitUserName), deref(s.GitUserEmail)
	if o.SettingsMCP {
		o.MCP = s.MCP.Enabled()
	}
	if l := s.LLM(); l.Model != "" && o.LLMProfile == "" && !o.OwnKey {
		modelChoice{llm: l}.put(&o, e.opt.DemoModel)
	}
	return o
}

var variableName = lazyre.MustCompile(`^[A-Z_][A-Z0-9_]*$`)

// maxUnasked bounds the values that a command gets without naming them, in bytes: each
// command brings them along.
const maxUnasked = 32 << 10

// commandSecrets returns the secrets that a command gets. Conversations of the legacy
// API have all of them, under names in capitals (legacy API 5.2): programs that such
// integrations run look for them by themselves.
func commandSecrets(conv *conversation.Conversation, all map[string]account.CustomSecret, command string) map[string]string {
	found := secretsFor(all, command, gitToken(conv))
	if conv.Origin != conversation.OriginV0 {
		return found
	}
	spelled := map[string]string{} // by names in capitals: the one that is spelled so, else the first
	for name := range all {
		upper := strings.ToUpper(name)
		if !variableName.MatchString(upper) {
			continue
		}
		if before, there := spelled[upper]; !there || name == upper || before != upper && name < before {
			spelled[upper] = name
		}
	}
	left := maxUnasked
	for _, upper := range slices.Sorted(maps.Keys(spelled)) {
		value := all[spelled[upper]].Value.Reveal()
		if _, named := found[spelled[upper]]; !named {
			if len(value) > left {
				continue
			}
			left -= len(value)
		}
		found[upper] = value
	}
	return found
}

// maxNote bounds what is kept of a secret's description, in bytes.
const maxNote = 500

// notesOf are the names of secrets with what is said about them, cut.
func notesOf(all map[string]account.CustomSecret) map[string]string {
	notes := descriptions(all)
	for name, said := range notes {
		if len(said) > maxNote {
			notes[name] = strings.ToValidUTF8(said[:maxNote], "") + "..."
		}
	}
	return notes
}

// moves are calls of git that may leave the repository on another branch.
var moves = lazyre.MustCompile(`\bgit\b[^|;&]*\b(checkout|switch|merge|rebase|reset|branch)\b`)

const (
	branchTime = 10 * time.Second
	maxBranch  = 250 // bytes
)

// branchAfter returns the branch that a command left the conversation's repository on,
// "" if it need not be looked at (legacy API 6: the metadata follows the real branch).
func (e *Engine) branchAfter(ctx context.Context, conv *conversation.Conversation, a *conversation.ActionEvent, hands tool.Hands) string {
	var ran struct {
		Command string `json:"command"`
	}
	if conv.Origin != conversation.OriginV0 || conv.Repository == "" || hands == nil ||
		json.Unmarshal(a.Action, &ran) != nil || !moves.MatchString(ran.Command) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, branchTime)
	defer cancel()
	res, err := hands.Exec(ctx, tool.ExecRequest{Argv: []string{"git", "symbolic-ref", "--short", "-q", "HEAD"},
		Dir: conv.Options.WorkingDir, Timeout: branchTime, MaxOutput: 1 << 10})
	if err != nil || res.ExitCode != 0 {
		return ""
	}
	name := strings.TrimSpace(string(res.Stdout))
	if len(name) > maxBranch || !branchName.MatchString(name) || path.Clean(name) != name {
		return ""
	}
	return name
}

// followBranch notes the branch that the repository is on now.
func (l *live) followBranch(name string) {
	if name == "" || name == l.conv.Branch {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.e.ctx), branchTime)
	defer cancel()
	conv, err := l.e.opt.Store.Conversations().Update(ctx, l.id, time.Now().UTC(), func(c *conversation.Conversation) error {
		if c.Options.StartBranch == nil {
			before := c.Branch
			c.Options.StartBranch = &before
		}
		c.Branch = name
		return nil
	})
	if err != nil { // it is a note for lists, and the next such command makes up for it
		l.e.opt.Logger.Warn("the branch of a conversation was not noted", "conversation", l.id, "error", err)
		return
	}
	l.adopt(conv)
}
