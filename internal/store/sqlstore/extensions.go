package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/store"
)

type extensions struct{ s *Store }

// bundleList is the bundles of a conversation, sealed as one value.
type bundleList []extension.Bundle

// EachSecret implements account.Sealable.
func (l *bundleList) EachSecret(f func(string, *account.Secret)) {
	for i := range *l {
		(*l)[i].EachSecret(func(path string, s *account.Secret) { f(strconv.Itoa(i)+"."+path, s) })
	}
}

func bundlesPlace(id conversation.ID) string { return "bundles.sealed/" + string(id) }

// SaveBundles implements store.Extensions.
func (e extensions) SaveBundles(ctx context.Context, id conversation.ID, bundles []extension.Bundle) error {
	const op = "store.extensions.save_bundles"
	blob, err := e.sealBundles(id, bundles)
	if err != nil {
		return classify(op, "", err)
	}
	return e.s.writes.do(ctx, op, func(t *tx) error {
		if err := e.s.exists(ctx, t, id); err != nil {
			return err
		}
		if blob == nil {
			return t.exec(`DELETE FROM bundles WHERE conversation = $1`, string(id))
		}
		return t.exec(`INSERT INTO bundles (conversation, sealed) VALUES ($1, $2)
			ON CONFLICT (conversation) DO UPDATE SET sealed = excluded.sealed`, string(id), blob)
	})
}

// sealBundles returns nil for none.
func (e extensions) sealBundles(id conversation.ID, bundles []extension.Bundle) ([]byte, error) {
	if len(bundles) == 0 {
		return nil, nil
	}
	list := bundleList(bundles)
	plain, err := account.EncodePrivate(&list)
	if err != nil {
		return nil, err
	}
	if len(plain) > store.MaxBundles {
		return nil, fault.New(fault.TooLarge, store.CodeBundlesTooLarge,
			"What is added to the conversation's agent is too large: %d bytes of at most %d.", len(plain), store.MaxBundles).
			WithHint("Use fewer or smaller skills, agents and plugins.")
	}
	return e.s.seal.Seal(bundlesPlace(id), plain)
}

// Bundles implements store.Extensions.
func (e extensions) Bundles(ctx context.Context, id conversation.ID) ([]extension.Bundle, error) {
	const op = "store.extensions.bundles"
	list := bundleList{}
	var blob []byte
	err := e.s.reads.row(ctx, `SELECT sealed FROM bundles WHERE conversation = $1`, string(id)).Scan(&blob)
	if errors.Is(err, sql.ErrNoRows) {
		return list, nil
	}
	if err == nil {
		err = e.s.unsealed(bundlesPlace(id), blob, &list)
	}
	if err != nil {
		return nil, e.s.fail(ctx, op, err)
	}
	return list, nil
}

// Decide implements store.Extensions.
func (e extensions) Decide(ctx context.Context, owner string, d extension.Decision) error {
	const op = "store.extensions.decide"
	if owner == "" || d.Subject == "" {
		return badRecord(op, "a decision without owner or subject")
	}
	return e.s.writes.do(ctx, op, func(t *tx) error {
		err := t.exec(`INSERT INTO decisions (owner, subject, hash, trusted, decided_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (owner, subject, hash) DO UPDATE SET trusted = excluded.trusted, decided_at = excluded.decided_at`,
			owner, d.Subject, d.Hash, d.Trusted, micros(d.At))
		if err != nil {
			return err
		}
		var n int
		if err := t.row(ctx, `SELECT count(*) FROM decisions WHERE owner = $1`, owner).Scan(&n); err != nil {
			return err
		}
		if n <= store.MaxDecisions {
			return nil
		}
		return t.exec(`DELETE FROM decisions WHERE owner = $1 AND (subject, hash) IN (SELECT subject, hash FROM decisions
			WHERE owner = $1 AND (subject, hash) <> ($2, $3) ORDER BY decided_at, subject, hash LIMIT $4)`,
			owner, d.Subject, d.Hash, n-store.MaxDecisions)
	})
}

func scanDecision(rows row) (d extension.Decision, err error) {
	return d, rows.Scan(&d.Subject, &d.Hash, &d.Trusted, timeInto{&d.At})
}

// Decisions implements store.Extensions.
func (e extensions) Decisions(ctx context.Context, owner string) ([]extension.Decision, error) {
	out, err := collect(ctx, e.s.reads, scanDecision, `SELECT subject, hash, trusted, decided_at FROM decisions
		WHERE owner = $1 ORDER BY decided_at DESC, subject, hash`, owner)
	return out, e.s.fail(ctx, "store.extensions.decisions", err)
}

// Forget implements store.Extensions.
func (e extensions) Forget(ctx context.Context, owner, subject string) error {
	return e.remove(ctx, "store.extensions.forget", "There is no decision about this.",
		`DELETE FROM decisions WHERE owner = $1 AND subject = $2`, owner, subject)
}

// remove is a delete that is NotFound, with the text missing, if it finds nothing.
func (e extensions) remove(ctx context.Context, op, missing, text string, args ...any) error {
	return e.s.writes.do(ctx, op, func(t *tx) error {
		n, err := t.affected(text, args...)
		if err == nil && n == 0 {
			err = fault.New(fault.NotFound, codeMissing, "%s", missing).WithOp(op)
		}
		return err
	})
}

// PutSkill implements store.Extensions.
func (e extensions) PutSkill(ctx context.Context, owner string, sk store.UserSkill) error {
	const op = "store.extensions.put_skill"
	if owner == "" || sk.Name == "" {
		return badRecord(op, "a skill without owner or name")
	}
	return e.s.writes.do(ctx, op, func(t *tx) error {
		var others int
		err := t.row(ctx, `SELECT count(*) FROM user_skills WHERE owner = $1 AND name <> $2`, owner, sk.Name).Scan(&others)
		if err != nil {
			return err
		}
		if others >= store.MaxUserSkills {
			return fault.New(fault.TooLarge, store.CodeTooManySkills, "There are %d skills already, the most a user can have.",
				store.MaxUserSkills).WithHint("Delete skills that are no longer used.").WithOp(op)
		}
		return t.exec(`INSERT INTO user_skills (owner, name, content, updated_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (owner, name) DO UPDATE SET content = excluded.content, updated_at = excluded.updated_at`,
			owner, sk.Name, []byte(sk.Content), micros(sk.UpdatedAt))
	})
}

func scanSkill(rows row) (sk store.UserSkill, err error) {
	return sk, rows.Scan(&sk.Name, &sk.Content, timeInto{&sk.UpdatedAt})
}

// Skills implements store.Extensions.
func (e extensions) Skills(ctx context.Context, owner string) ([]store.UserSkill, error) {
	out, err := collect(ctx, e.s.reads, scanSkill,
		`SELECT name, content, updated_at FROM user_skills WHERE owner = $1 ORDER BY name`, owner)
	return out, e.s.fail(ctx, "store.extensions.skills", err)
}

// DeleteSkill implements store.Extensions.
func (e extensions) DeleteSkill(ctx context.Context, owner, name string) error {
	return e.remove(ctx, "store.extensions.delete_skill", "There is no such skill.",
		`DELETE FROM user_skills WHERE owner = $1 AND name = $2`, owner, name)
}

// credentialPlace quotes, so that no two pairs have one place.
func credentialPlace(owner, name string) string {
	return fmt.Sprintf("credentials.sealed/%q/%q", owner, name)
}

// PutCredential implements store.Extensions.
func (e extensions) PutCredential(ctx context.Context, owner, name string, value account.Secret) error {
	const op = "store.extensions.put_credential"
	if owner == "" || name == "" {
		return badRecord(op, "a credential without owner or name")
	}
	if !value.IsSet() {
		return e.s.writes.do(ctx, op, func(t *tx) error {
			return t.exec(`DELETE FROM credentials WHERE owner = $1 AND name = $2`, owner, name)
		})
	}
	blob, err := e.s.seal.Seal(credentialPlace(owner, name), []byte(value.Reveal()))
	if err != nil {
		return classify(op, "", err)
	}
	return e.s.writes.do(ctx, op, func(t *tx) error {
		return t.exec(`INSERT INTO credentials (owner, name, sealed) VALUES ($1, $2, $3)
			ON CONFLICT (owner, name) DO UPDATE SET sealed = excluded.sealed`, owner, name, blob)
	})
}

// Credential implements store.Extensions.
func (e extensions) Credential(ctx context.Context, owner, name string) (account.Secret, error) {
	var blob, plain []byte
	err := e.s.reads.row(ctx, `SELECT sealed FROM credentials WHERE owner = $1 AND name = $2`, owner, name).Scan(&blob)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = fault.New(fault.NotFound, codeMissing, "There is no such credential.")
	case err == nil:
		plain, err = e.s.seal.Unseal(credentialPlace(owner, name), blob)
	}
	return account.NewSecret(string(plain)), e.s.fail(ctx, "store.extensions.credential", err)
}
