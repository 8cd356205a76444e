package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/store"
)

// maxShares bounds the live links of a conversation.
const maxShares = 100

// sharePrefix begins the tokens of links.
const sharePrefix = "parley-share-"

// ShareLink makes a link that opens a conversation for reading for so long. The token
// is only known now.
func (e *Engine) ShareLink(ctx context.Context, owner string, id conversation.ID, lasts time.Duration) (token string, s store.Share, err error) {
	if _, err := e.opt.Store.Conversations().Get(ctx, owner, id); err != nil {
		return "", s, err
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	s = store.Share{ID: string(conversation.NewID()), Owner: owner, Conversation: id, CreatedAt: now, ExpiresAt: now.Add(lasts)}
	token = account.NewKey(sharePrefix)
	return token, s, e.opt.Store.Shares().Add(ctx, s, account.HashKey(token), maxShares)
}

// ShareLinks lists the links of a conversation that have not expired, the newest first.
func (e *Engine) ShareLinks(ctx context.Context, owner string, id conversation.ID) ([]store.Share, error) {
	return e.opt.Store.Shares().List(ctx, owner, id, time.Now())
}

// RevokeLink ends a link. NotFound if there is none.
func (e *Engine) RevokeLink(ctx context.Context, owner string, id conversation.ID, share string) error {
	return e.opt.Store.Shares().Revoke(ctx, owner, id, share)
}

// Published is a conversation as strangers may see it.
type Published struct {
	*conversation.Conversation
	Parent   conversation.ID   // "" if there is none, or strangers may not see it
	Children []conversation.ID // those that strangers may see
	// Redact takes out of a text what is not for strangers: secrets, the sandbox's id
	// and key, and directories of the server's machine.
	Redact func(string) string
}

// Published returns a conversation that is public, or that the token of a link opens;
// token "" is none, and id "" the conversation of the token. NotFound otherwise,
// whether it is there or not.
func (e *Engine) Published(ctx context.Context, id conversation.ID, token string) (*Published, error) {
	opened, err := e.openedBy(ctx, token)
	if err != nil {
		return nil, err
	}
	if id == "" {
		id = opened
	}
	conv, err := e.opt.Store.Conversations().Get(ctx, "", id)
	if err != nil {
		return nil, err
	}
	if !isPublic(conv) && id != opened {
		return nil, fault.New(fault.NotFound, "not_found", "There is no such conversation.")
	}
	p := &Published{Conversation: conv}
	if p.Redact, err = e.redactor(ctx, conv); err != nil {
		return nil, err
	}
	return p, e.relatives(ctx, p, opened)
}

// openedBy is the conversation that a token opens; "" if none.
func (e *Engine) openedBy(ctx context.Context, token string) (conversation.ID, error) {
	if !strings.HasPrefix(token, sharePrefix) {
		return "", nil
	}
	s, err := e.opt.Store.Shares().ByToken(ctx, account.HashKey(token), time.Now())
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return s.Conversation, nil
}

func isPublic(c *conversation.Conversation) bool { return c.Public != nil && *c.Public }

// relatives fills which of the conversation's relatives strangers may see.
func (e *Engine) relatives(ctx context.Context, p *Published, opened conversation.ID) error {
	children, err := e.Children(ctx, p.Owner, []conversation.ID{p.ID})
	if err != nil {
		return err
	}
	ids := children[p.ID]
	if p.ParentID != "" {
		ids = append(slices.Clone(ids), p.ParentID)
	}
	found, err := e.opt.Store.Conversations().Batch(ctx, p.Owner, ids)
	for _, c := range found {
		switch {
		case c == nil || !isPublic(c) && c.ID != opened:
		case c.ID == p.ParentID:
			p.Parent = c.ID
		default:
			p.Children = append(p.Children, c.ID)
		}
	}
	return err
}

// redactor makes Published.Redact.
func (e *Engine) redactor(ctx context.Context, conv *conversation.Conversation) (func(string) string, error) {
	mask, err := e.MaskOf(ctx, conv.Owner, conv.ID)
	if err != nil {
		return nil, err
	}
	boxes, err := e.opt.Fleet.Batch(ctx, conv.Owner, []string{conv.SandboxID})
	if err != nil {
		return nil, err
	}
	places := map[string]string{conv.SandboxID: "sandbox", conv.Options.HostDir: sandbox.WorkingDir}
	if boxes[0] != nil {
		places[boxes[0].HostDir] = sandbox.WorkingDir
		places[boxes[0].WorkingDir] = sandbox.WorkingDir
	}
	if dir := conv.Options.WorkingDir; !strings.HasPrefix(dir, sandbox.WorkingDir) {
		places[dir] = sandbox.WorkingDir
	}
	for _, dir := range e.opt.Private {
		places[dir] = "/private"
	}
	hide := replacer(places)
	// Secrets first: a directory may be a part of one.
	return func(text string) string { return hide.Replace(mask(text)) }, nil
}

// replacer puts the longest of the names first: one may be the beginning of another.
func replacer(places map[string]string) *strings.Replacer {
	var names []string
	for name := range places {
		if len(name) > 1 && name != sandbox.WorkingDir { // "" is none, "/" is everywhere
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, name := range names {
		pairs = append(pairs, name, places[name])
	}
	return strings.NewReplacer(pairs...)
}
