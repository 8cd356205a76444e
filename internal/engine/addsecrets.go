package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
)

// Bounds of the secrets that a conversation has of its own.
const (
	maxSecrets     = 1000
	maxSecretBytes = 1 << 20 // of all values
	maxOldSecrets  = 100     // replaced values that are still masked, the newest ones
)

func checkSecrets(all map[string]account.CustomSecret) error {
	size := 0
	for _, s := range all {
		size += len(s.Value.Reveal())
	}
	if len(all) > maxSecrets || size > maxSecretBytes {
		return fault.New(fault.Invalid, "too_many_secrets", "A conversation takes at most %d secrets of %d bytes in all.", maxSecrets, maxSecretBytes)
	}
	return nil
}

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
			old := slices.Clone(c.Options.OldSecrets)
			for name, s := range add {
				if before := all[name].Value; before.IsSet() && before != s.Value {
					old = append(old, before)
				}
				all[name] = s
			}
			c.Options.OldSecrets = old[max(0, len(old)-maxOldSecrets):]
			if err := checkSecrets(all); err != nil {
				return err
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
