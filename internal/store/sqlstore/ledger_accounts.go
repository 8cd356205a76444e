package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"parley/internal/conversation"
)

// spendAccount is a conversation in the ledger, with the sums of its subtree.
type spendAccount struct {
	id, parent conversation.ID
	gone       bool
	ownLimit   *conversation.Money
	purse
}

// loadAccount returns an account, nil if there is none.
func loadAccount(ctx context.Context, t *tx, id conversation.ID) (*spendAccount, error) {
	a := &spendAccount{id: id}
	err := t.row(ctx, `SELECT parent, gone, own_limit, `+purseColumns+` FROM spend_accounts WHERE conversation = $1`,
		string(id)).Scan(append([]any{&a.parent, &a.gone, &a.ownLimit}, a.into()...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return a, err
}

func (a *spendAccount) store(t *tx) error {
	var limit any
	if a.ownLimit != nil {
		limit = int64(*a.ownLimit)
	}
	return t.exec(`INSERT INTO spend_accounts (conversation, parent, gone, own_limit, `+purseColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
		ON CONFLICT (conversation) DO UPDATE SET gone = excluded.gone, own_limit = excluded.own_limit, `+replacePurse,
		append([]any{string(a.id), string(a.parent), a.gone, limit}, a.values()...)...)
}

// newAccount makes the account of a conversation that has none, from its record.
// One without a record, which only an ancestor can be, is a root and gone.
func newAccount(ctx context.Context, t *tx, id conversation.ID) (*spendAccount, error) {
	a := &spendAccount{id: id}
	err := t.row(ctx, `SELECT parent_id FROM conversations WHERE id = $1`, string(id)).Scan(&a.parent)
	if errors.Is(err, sql.ErrNoRows) {
		a.gone, err = true, nil
	}
	return a, err
}

// openPath returns the accounts from a conversation up to its root, those that
// are missing made but not stored. NotFound for a conversation that is not
// there; a path of none for "".
func openPath(ctx context.Context, t *tx, id conversation.ID) ([]*spendAccount, error) {
	path, err := walk(ctx, t, id, newAccount)
	if err != nil {
		return nil, err
	}
	if len(path) == 0 || !path[0].gone {
		return path, nil
	}
	var one int // it may have been made again under its id
	err = t.row(ctx, `SELECT 1 FROM conversations WHERE id = $1`, string(id)).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noConversation()
	}
	path[0].gone = false
	return path, err
}

// loadPath returns the accounts from a conversation up to its root.
func loadPath(ctx context.Context, t *tx, id conversation.ID) ([]*spendAccount, error) {
	return walk(ctx, t, id, func(context.Context, *tx, conversation.ID) (*spendAccount, error) { return nil, nil })
}

// walk goes up to the root. missing says what stands for an account that is not
// there; nil ends the path.
func walk(ctx context.Context, t *tx, id conversation.ID,
	missing func(context.Context, *tx, conversation.ID) (*spendAccount, error)) ([]*spendAccount, error) {
	var path []*spendAccount
	for ; id != ""; id = path[len(path)-1].parent {
		if len(path) == maxDepth {
			return nil, badRecord("store.ledger", "conversations are nested too deeply or in a circle")
		}
		a, err := loadAccount(ctx, t, id)
		if err == nil && a == nil {
			a, err = missing(ctx, t, id)
		}
		if err != nil {
			return nil, err
		}
		if a == nil {
			break
		}
		path = append(path, a)
	}
	return path, nil
}

// forgetSpending is called when a conversation's record was deleted. What it
// spent stays in the sums above it and of the days; its account stays as long
// as something below it has to find the way up.
func forgetSpending(ctx context.Context, t *tx, id, parent conversation.ID) error {
	a, err := loadAccount(ctx, t, id)
	if err != nil {
		return err
	}
	if a == nil {
		a = &spendAccount{id: id, parent: parent}
	}
	a.gone = true
	if err := a.store(t); err != nil {
		return err
	}
	return prune(ctx, t, id)
}

// prune removes the accounts, from id upwards, whose conversations are gone and
// that nothing needs any more.
func prune(ctx context.Context, t *tx, id conversation.ID) error {
	for id != "" {
		a, err := loadAccount(ctx, t, id)
		if err != nil || a == nil || !a.gone {
			return err
		}
		needed, err := isNeeded(ctx, t, id)
		if err != nil || needed {
			return err
		}
		for _, text := range []string{
			`DELETE FROM spend_accounts WHERE conversation = $1`,
			`DELETE FROM spend_uses WHERE conversation = $1`,
		} {
			if err := t.exec(text, string(id)); err != nil {
				return err
			}
		}
		id = a.parent
	}
	return nil
}

// isNeeded reports whether there are conversations below one, or calls of it
// under way.
func isNeeded(ctx context.Context, t *tx, id conversation.ID) (bool, error) {
	var needed bool
	err := t.row(ctx, `SELECT EXISTS (SELECT 1 FROM spend_accounts WHERE parent <> '' AND parent = $1)
		OR EXISTS (SELECT 1 FROM conversations WHERE parent_id <> '' AND parent_id = $1)
		OR EXISTS (SELECT 1 FROM spend_reservations WHERE conversation <> '' AND conversation = $1)`,
		string(id)).Scan(&needed)
	return needed, err
}
