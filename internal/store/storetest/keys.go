package storetest

import (
	"fmt"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/store"
)

// accountMadeKeys are the keys that users make: they last as long as they say, are
// their owner's, and are told apart by ids that nobody gets again.
func accountMadeKeys(s *suite) {
	a, _ := s.user("a"), s.user("b")
	h := account.HashKey
	now := time.Now().UTC().Truncate(time.Microsecond)
	past, future := now.Add(-time.Hour), now.Add(time.Hour)
	made := account.APIKey{UserID: "a", Label: account.MadeKeyLabel, Name: "laptop", CreatedAt: now}
	create := func(key string, k account.APIKey) account.APIKey {
		s.Helper()
		k, err := s.Accounts().CreateKey(s.ctx, k, h(key))
		s.ok(err)
		return k
	}
	first := create("k1", made)
	expired, early := made, made
	expired.ExpiresAt, early.NotBefore = &past, &future
	second, third := create("k2", expired), create("k3", early)
	other := made
	other.UserID = "b"
	create("k4", other)
	s.ok(s.Accounts().SetKeys(s.ctx, "a", "session", []account.KeyHash{h("k5")}))

	got, err := s.Accounts().Keys(s.ctx, "a", account.MadeKeyLabel)
	s.ok(err)
	s.equal(got, []account.APIKey{first, second, third})
	for _, key := range []string{"k1", "k5"} {
		u, err := s.Accounts().UserByKey(s.ctx, h(key))
		s.ok(err)
		s.equal(u, a)
	}
	for _, key := range []string{"k2", "k3"} {
		_, err := s.Accounts().UserByKey(s.ctx, h(key))
		s.fails(err, fault.Unauthenticated, "")
	}
	used, err := s.Accounts().Key(s.ctx, h("k1"))
	s.ok(err)
	if used.UsedAt == nil || used.UsedAt.Before(now) {
		s.Errorf("used at %v", used.UsedAt)
	}
	_, err = s.Accounts().Key(s.ctx, h("nobody's"))
	s.fails(err, fault.NotFound, account.CodeKeyNotFound)
	_, err = s.Accounts().CreateKey(s.ctx, made, h("k4"))
	s.fails(err, fault.Conflict, store.CodeExists)

	s.fails(s.Accounts().DeleteKey(s.ctx, "b", account.MadeKeyLabel, first.ID), fault.NotFound, account.CodeKeyNotFound)
	s.ok(s.Accounts().DeleteKey(s.ctx, "a", account.MadeKeyLabel, third.ID))
	s.ok(s.Accounts().DeleteKey(s.ctx, "a", account.MadeKeyLabel, first.ID))
	s.fails(s.Accounts().DeleteKey(s.ctx, "a", account.MadeKeyLabel, first.ID), fault.NotFound, account.CodeKeyNotFound)
	_, err = s.Accounts().UserByKey(s.ctx, h("k1"))
	s.fails(err, fault.Unauthenticated, "")

	// The same key of the configuration keeps its id.
	session, err := s.Accounts().Key(s.ctx, h("k5"))
	s.ok(err)
	s.fails(s.Accounts().DeleteKey(s.ctx, "a", account.MadeKeyLabel, session.ID), fault.NotFound, account.CodeKeyNotFound)
	s.ok(s.Accounts().SetKeys(s.ctx, "a", "session", []account.KeyHash{h("k6"), h("k5")}))
	again, err := s.Accounts().Key(s.ctx, h("k5"))
	s.ok(err)
	s.equal(again, session)

	last := create("k7", made)
	if last.ID <= session.ID {
		s.Errorf("the id %d was given again", last.ID)
	}
	for i := 2; i < account.MaxKeys; i++ {
		create(fmt.Sprint("more-", i), made)
	}
	_, err = s.Accounts().CreateKey(s.ctx, made, h("one-more"))
	s.fails(err, fault.Conflict, account.CodeKeyLimit)
}
