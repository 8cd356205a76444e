package engine

import (
	"context"
	"maps"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
)

// maxSecrets bounds how many secrets a conversation has of its own.
const maxSecrets = 1000

// AddSecrets gives a conversation secrets beside those it has: commands that name
// them see them from the next call on, and nobody else does. One of a name that is
// there is replaced.
func (e *Engine) AddSecrets(ctx context.Context, owner string, id conversation.ID, add map[string]account.CustomSecret) error {
	if len(add) == 0 {
		_, err := e.opt.Store.Conversations().Get(ctx, owner, id)
		return err
	}
	return e.do(ctx, owner, id, func(l *live) error {
		conv, err := e.opt.Store.Conversations().Update(ctx, id, time.Now().UTC(), func(c *conversation.Conversation) error {
			all := maps.Clone(c.Options.Secrets)
			if all == nil {
				all = map[string]account.CustomSecret{}
			}
			maps.Copy(all, add)
			if len(all) > maxSecrets {
				return fault.New(fault.Invalid, "too_many_secrets", "A conversation takes at most %d secrets.", maxSecrets)
			}
			c.Options.Secrets = all
			return nil
		})
		if err != nil {
			return err
		}
		l.adopt(conv)
		return l.refresh(ctx)
	})
}
