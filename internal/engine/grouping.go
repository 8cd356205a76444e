package engine

import (
	"context"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fleet"
	"parley/internal/store"
)

// Bounds of grouping.
const (
	maxGroup      = 20  // conversations of one sandbox; more get another one
	maxCandidates = 300 // sandboxes of the user's that are looked at, the newest first
)

// group finds the sandbox that a new conversation joins, as its owner's settings say;
// "" if it gets its own. Only a sandbox that is what the conversation would get is one
// to join.
func (e *Engine) group(ctx context.Context, owner string, strategy account.Grouping, want fleet.StartRequest) (string, error) {
	if strategy == account.NoGrouping {
		return "", nil
	}
	var best candidate
	q := store.SandboxQuery{Owner: owner, Limit: 100}
	for range maxCandidates / q.Limit {
		page, err := e.opt.Fleet.Search(ctx, q)
		if err != nil {
			return "", err
		}
		for _, s := range page.Items {
			if s.Status != store.SandboxRunning && s.Status != store.SandboxStarting || !e.opt.Fleet.Matches(s, want) {
				continue
			}
			c, err := e.candidate(ctx, owner, s)
			if err != nil {
				return "", err
			}
			if c.conversations < maxGroup && c.before(best, strategy) {
				best = c
			}
			if best.id != "" && (strategy == account.AddToAny || strategy == account.GroupByNewest) {
				return best.id, nil
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	return best.id, nil
}

// candidate is a sandbox that a conversation may join; id "" is none.
type candidate struct {
	id            string
	conversations int
	used          time.Time // when one of its conversations was last changed
}

func (e *Engine) candidate(ctx context.Context, owner string, s *store.Sandbox) (candidate, error) {
	c := candidate{id: s.ID, used: s.CreatedAt}
	q := queryBySandbox(owner, s.ID)
	var err error
	if c.conversations, err = e.opt.Store.Conversations().Count(ctx, q); err != nil {
		return c, err
	}
	q.Order, q.Limit = store.UpdatedDesc, 1
	page, err := e.opt.Store.Conversations().Search(ctx, q)
	if err == nil && len(page.Items) > 0 {
		c.used = page.Items[0].UpdatedAt
	}
	return c, err
}

// before reports whether a strategy prefers c. The newest sandboxes are looked at
// first and win ties.
func (c candidate) before(best candidate, strategy account.Grouping) bool {
	switch {
	case best.id == "":
		return true
	case strategy == account.LeastRecentlyUsed:
		return c.used.Before(best.used)
	case strategy == account.FewestConversations:
		return c.conversations < best.conversations
	}
	return false
}

// joinGroup lets a conversation join a sandbox, if its owner wants that. From then on
// it has a directory of its own below the sandbox's, as all of a group have.
func (e *Engine) joinGroup(ctx context.Context, settings *account.Settings, req *StartRequest, opt *conversation.Options) error {
	strategy := settings.Grouping()
	if strategy == account.NoGrouping || req.HostDir != nil {
		return nil
	}
	opt.OwnDir = true
	var err error
	req.SandboxID, err = e.group(ctx, req.Owner, strategy, fleet.StartRequest{SpecID: opt.SpecID, Changes: changesOf(opt.Sandbox)})
	return err
}
