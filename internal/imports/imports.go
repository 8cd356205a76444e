// Package imports brings over what other servers have stored as files: those of the
// legacy API (its settings, secrets and conversations, legacy API 18) and the
// agent-server (its conversations, agent protocol 2.4).
//
// The source is only read, and nothing outside its directory. A file that cannot be
// read is told and left out; the rest comes over. A conversation keeps its id, by which
// a later import knows it again. Legacy events keep their numbers and, for the legacy
// API, their form; the log has what they mean, so that an agent can go on.
//
// Not read: pickled files, databases, settings that are encrypted, workspaces.
package imports

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"
	"syscall"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

// Options say where to and how.
type Options struct {
	Owner         string
	Accounts      store.Accounts // nil = the target does not exist yet: everything is new
	Conversations store.Conversations
	Imports       store.Imports
	// Mask takes secrets out of a text.
	Mask func(secrets []string) func(string) string
	// Projection and Part say how the legacy API numbers imported events.
	Projection string
	Part       func(agentState string) int
	// MaxIterations of conversations whose owner's settings have none.
	MaxIterations     int
	OverwriteSettings bool
}

// Status says what becomes of something.
type Status string

// What becomes of things.
const (
	New       Status = "new"       // it is imported
	Same      Status = "same"      // it was imported before
	Changed   Status = "changed"   // it was imported before and has changed in the source since: it is left as it is
	Taken     Status = "taken"     // a conversation with its id exists that was not imported
	Broken    Status = "broken"    // it cannot be read
	Kept      Status = "kept"      // the target has settings of its own
	Replaced  Status = "replaced"  // settings of the target are overwritten
	Elsewhere Status = "elsewhere" // the same id was found before in the source
)

// Item is one thing of a source. It holds no secrets.
type Item struct {
	Kind     string   `json:"kind"` // "settings", "secrets", "conversation"
	Path     string   `json:"path"` // in the source
	ID       string   `json:"id,omitempty"`
	Title    string   `json:"title,omitempty"`
	Events   int      `json:"events,omitempty"`
	Status   Status   `json:"status"`
	Problems []string `json:"problems,omitempty"`
}

// Kinds of an Item.
const (
	KindSettings     = "settings"
	KindSecrets      = "secrets"
	KindConversation = "conversation"
)

// Importer imports one directory. Close it.
type Importer struct {
	opt      Options
	src      source
	reader   reader
	settings *account.Settings // of the owner, with what the import brings; nil = none
	incoming *account.SettingsMerge
	secrets  account.SecretsInput
}

// Open opens a directory. NotFound or Invalid if it is none.
func Open(dir string, opt Options) (*Importer, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "no_source", "%s cannot be read: %s.", dir, why(err))
	}
	i := &Importer{opt: opt, src: source{root}}
	i.reader = reader{source: i.src, part: opt.Part}
	return i, nil
}

// Close gives the directory up.
func (i *Importer) Close() error { return i.src.root.Close() }

// Run goes through the source and hands each thing to told, in the order in which it is
// imported. With do, it imports what is new.
func (i *Importer) Run(ctx context.Context, do bool, told func(Item)) error {
	if err := i.account(ctx, do, told); err != nil {
		return err
	}
	seen := map[conversation.ID]bool{}
	for dir, read := range i.conversations() {
		if err := ctx.Err(); err != nil {
			return err
		}
		item, err := i.conversation(ctx, dir, read, do, seen)
		if err != nil {
			return err
		}
		told(item)
	}
	return nil
}

type readConversation func(dir string) (*loaded, error)

// unreadable stands for what cannot even be looked at.
func unreadable(err error) readConversation {
	return func(string) (*loaded, error) { return nil, err }
}

// conversations yields the directories of conversations with what reads them.
func (i *Importer) conversations() iter.Seq2[string, readConversation] {
	return func(yield func(string, readConversation) bool) {
		if !i.below("sessions", "metadata.json", i.reader.legacyConversation, yield) {
			return
		}
		users, err := i.src.names("users")
		if err != nil && !yield("users", unreadable(err)) {
			return
		}
		for _, user := range users {
			if !i.below(path.Join("users", user, "conversations"), "metadata.json", i.reader.legacyConversation, yield) {
				return
			}
		}
		for _, parent := range []string{".", "conversations", "workspace/conversations"} {
			if !i.below(parent, "base_state.json", i.reader.agentConversation, yield) {
				return
			}
		}
	}
}

// below yields the directories in a directory that have a file in them. False if the
// caller has enough.
func (i *Importer) below(parent, mark string, read readConversation, yield func(string, readConversation) bool) bool {
	names, err := i.src.names(parent)
	if err != nil && !yield(parent, unreadable(err)) {
		return false
	}
	for _, name := range names {
		dir := path.Join(parent, name)
		_, err := i.src.root.Stat(path.Join(dir, mark))
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		case err != nil:
			if !yield(dir, unreadable(err)) {
				return false
			}
		case !yield(dir, read):
			return false
		}
	}
	return true
}

// conversation imports one conversation.
func (i *Importer) conversation(ctx context.Context, dir string, read readConversation, do bool, seen map[conversation.ID]bool) (Item, error) {
	item := Item{Kind: KindConversation, Path: dir, Status: Broken}
	l, err := read(dir)
	if err != nil {
		item.Problems = []string{why(err)}
		return item, nil
	}
	l.conv.Owner = i.opt.Owner
	i.equip(l)
	item.ID, item.Title, item.Events, item.Problems = string(l.conv.ID), l.conv.Title, max(len(l.raw), len(l.events)), l.problems
	if seen[l.conv.ID] {
		item.Status = Elsewhere
		return item, nil
	}
	seen[l.conv.ID] = true
	if item.Status, err = i.statusOf(ctx, l); err != nil || item.Status != New || !do {
		return item, err
	}
	err = i.opt.Imports.Add(ctx, &store.Import{Conversation: l.conv, Events: l.events, Digest: l.digest,
		Projection: i.opt.Projection, Numbers: l.numbers, Raw: l.raw})
	return item, err
}

// statusOf finds out whether a conversation is there already.
func (i *Importer) statusOf(ctx context.Context, l *loaded) (Status, error) {
	if i.opt.Accounts == nil {
		return New, nil
	}
	digest, err := i.opt.Imports.Digest(ctx, l.conv.ID)
	switch {
	case err == nil && bytes.Equal(digest, l.digest):
		return Same, nil
	case err == nil:
		return Changed, nil
	case !fault.Is(err, fault.NotFound):
		return "", err
	}
	_, err = i.opt.Conversations.Get(ctx, "", l.conv.ID)
	switch {
	case err == nil:
		return Taken, nil
	case fault.Is(err, fault.NotFound):
		return New, nil
	}
	return "", err
}

// equip says how the agent goes on: as the owner's settings say now.
func (i *Importer) equip(l *loaded) {
	if l.conv.Title == "" {
		l.conv.Title = "Conversation " + string(l.conv.ID)[:min(5, len(l.conv.ID))]
	}
	s := i.settings
	if s == nil {
		s = account.DefaultSettings()
	}
	o := &l.conv.Options
	o.LLM, o.MaxIterations, o.MCP, o.SettingsMCP = s.LLM(), i.opt.MaxIterations, s.MCP.Enabled(), true
	if o.LLM.Model == "" {
		o.LLM.Model = l.model
	}
	if s.MaxIterations != nil && *s.MaxIterations > 0 {
		o.MaxIterations = *s.MaxIterations
	}
	o.MaxBudget = s.MaxBudgetPerTask
	if s.ConfirmationMode != nil {
		o.ConfirmationMode = *s.ConfirmationMode
	}
	for _, f := range []struct {
		to   *string
		from *string
	}{{&o.SecurityAnalyzer, s.SecurityAnalyzer}, {&o.GitUserName, s.GitUserName}, {&o.GitUserEmail, s.GitUserEmail}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
}

// account imports settings and secrets.
func (i *Importer) account(ctx context.Context, do bool, told func(Item)) error {
	if i.opt.Accounts != nil {
		s, err := i.opt.Accounts.Settings(ctx, i.opt.Owner)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		i.settings = s
	}
	items := i.readAccount()
	next, changed := i.merged(items)
	if do && changed {
		err := i.opt.Accounts.UpdateSettings(ctx, i.opt.Owner, func(*account.Settings) (*account.Settings, error) { return next, nil })
		if err != nil {
			return err
		}
	}
	i.settings = next
	values := i.values()
	mask := i.opt.Mask(values)
	i.reader.mask = func(raw []byte) []byte { return masked(raw, mask) }
	for _, item := range items {
		told(*item)
	}
	return nil
}

// readAccount reads settings.json and secrets.json, as far as they are there.
func (i *Importer) readAccount() (items []*Item) {
	for _, f := range []struct{ kind, name string }{{KindSettings, "settings.json"}, {KindSecrets, "secrets.json"}} {
		raw, err := i.src.optional(f.name)
		if raw == nil && err == nil {
			continue
		}
		item := &Item{Kind: f.kind, Path: f.name, Status: New}
		items = append(items, item)
		if err == nil {
			err = i.readOne(f.kind, raw)
		}
		if err != nil {
			item.Status, item.Problems = Broken, []string{why(err)}
		}
	}
	return items
}

// readOne reads one of them. Its errors repeat nothing of the file.
func (i *Importer) readOne(kind string, raw []byte) error {
	if kind == KindSecrets {
		if json.Unmarshal(raw, &i.secrets) != nil {
			return errors.New("it is no secrets file")
		}
		return nil
	}
	var in account.SettingsInput
	if json.Unmarshal(raw, &in) != nil {
		return errors.New("it is no settings file")
	}
	merge, err := in.Check()
	if err == nil {
		i.incoming = merge
		return nil
	}
	var bad *fault.Error
	var wrong []string
	if errors.As(err, &bad) {
		for _, f := range bad.Fields {
			wrong = append(wrong, strings.Trim(fmt.Sprint(f.Loc), "[]")+" ("+f.Type+")")
		}
	}
	return fmt.Errorf("its values are not valid: %s", strings.Join(wrong, "; "))
}

// merged are the settings with what is to be taken over, and says in the items what is.
func (i *Importer) merged(items []*Item) (next *account.Settings, changed bool) {
	next = i.settings
	for _, item := range items {
		has := next != nil
		if item.Kind == KindSecrets {
			has = next != nil && len(next.Secrets.ProviderTokens)+len(next.Secrets.Custom) > 0
		}
		switch {
		case item.Status == Broken:
			continue
		case has && !i.opt.OverwriteSettings:
			item.Status = Kept
			continue
		case has:
			item.Status = Replaced
		}
		if item.Kind == KindSettings {
			next, changed = i.incoming.Apply(next), true
			continue
		}
		with := account.DefaultSettings()
		if next != nil {
			copied := *next
			with = &copied
		}
		if err := with.AddSecrets(i.secrets); err != nil {
			item.Status, item.Problems = Broken, []string{"its values are not valid"}
			continue
		}
		next, changed = with, true
	}
	return next, changed
}

// values are the secrets that events may repeat.
func (i *Importer) values() []string {
	s := account.Settings{}
	_ = s.AddSecrets(i.secrets) // checked before
	if i.incoming != nil {
		s = *i.incoming.Apply(&s)
	}
	var values []string
	for _, from := range []*account.Settings{&s, i.settings} {
		if from != nil {
			from.EachSecret(func(_ string, v *account.Secret) { values = append(values, v.Reveal()) })
		}
	}
	return values
}
