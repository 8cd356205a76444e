package storetest

import (
	"fmt"
	"time"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

var pendingTests = map[string]func(*suite){
	"InOrder":            pendingInOrder,
	"Limit":              pendingLimit,
	"GoWithConversation": pendingGo,
}

func waiting(id string) store.PendingMessage {
	return store.PendingMessage{ID: id, Parts: []content.Part{content.Text("say " + id), content.Image("data:x")}, CreatedAt: at(1)}
}

func (s *suite) pendingIDs(id conversation.ID) []string {
	s.Helper()
	all, err := s.Pending().List(s.ctx, id)
	s.ok(err)
	out := []string{}
	for _, m := range all {
		out = append(out, m.ID)
	}
	return out
}

func (s *suite) waitingIn() []conversation.ID {
	s.Helper()
	all, err := s.Pending().Waiting(s.ctx)
	s.ok(err)
	return all
}

func pendingInOrder(s *suite) {
	s.create("u", "c")
	s.create("u", "d")
	s.equal(s.waitingIn(), []conversation.ID{})
	for i, id := range []string{"z", "y", "x"} {
		place, err := s.Pending().Add(s.ctx, "c", waiting(id), 10)
		s.ok(err)
		s.equal(place, i+1)
	}
	place, err := s.Pending().Add(s.ctx, "d", waiting("z"), 10)
	s.ok(err)
	s.equal(place, 1)
	all, err := s.Pending().List(s.ctx, "c")
	s.ok(err)
	s.equal(all, []store.PendingMessage{waiting("z"), waiting("y"), waiting("x")})
	s.equal(s.waitingIn(), []conversation.ID{"c", "d"})
	s.ok(s.Pending().Remove(s.ctx, "c", "z"))
	s.ok(s.Pending().Remove(s.ctx, "c", "z"))
	place, err = s.Pending().Add(s.ctx, "c", waiting("w"), 10)
	s.ok(err)
	s.equal(place, 3)
	s.equal(s.pendingIDs("c"), []string{"y", "x", "w"})
	s.ok(s.Pending().Remove(s.ctx, "c", ""))
	s.equal(s.pendingIDs("c"), []string{})
	s.equal(s.pendingIDs("d"), []string{"z"})
}

func pendingLimit(s *suite) {
	s.create("u", "c")
	parallel(s.T, 30, func(i int) error {
		_, err := s.Pending().Add(s.ctx, "c", waiting(fmt.Sprint("m", i)), 10)
		if fault.Is(err, fault.RateLimited) {
			return nil
		}
		return err
	})
	s.equal(len(s.pendingIDs("c")), 10)
	_, err := s.Pending().Add(s.ctx, "c", waiting("more"), 10)
	s.fails(err, fault.RateLimited, store.CodePendingFull)
	_, err = s.Pending().Add(s.ctx, "missing", waiting("m"), 10)
	s.fails(err, fault.NotFound, "")
	_, err = s.Pending().Add(s.ctx, "c", store.PendingMessage{}, 100)
	s.fails(err, fault.Internal, "")
}

func pendingGo(s *suite) {
	s.create("u", "c")
	_, err := s.Pending().Add(s.ctx, "c", waiting("m"), 10)
	s.ok(err)
	s.ok(s.Conversations().Delete(s.ctx, "c"))
	s.equal(s.waitingIn(), []conversation.ID{})
}

var startTests = map[string]func(*suite){
	"Once":          startOnce,
	"Concurrently":  startConcurrently,
	"WithoutKeys":   startWithoutKeys,
	"GoesWithIt":    startForgotten,
	"AllOrNothing":  startAllOrNothing,
	"OwnersApart":   startOwners,
	"KeysOfTwoUses": startTwoKeys,
}

func startOf(owner, id string) (*conversation.Conversation, *conversation.StartTask) {
	c := &conversation.Conversation{ID: conversation.ID(id), Owner: owner, Origin: conversation.OriginV1, CreatedAt: at(0), UpdatedAt: at(0),
		Summary: conversation.Summary{Status: conversation.Idle}}
	return c, &conversation.StartTask{ID: "task-of-" + id, Owner: owner, ConversationID: c.ID, Status: conversation.TaskWorking,
		Request: []byte("{}"), CreatedAt: at(0), UpdatedAt: at(0)}
}

func keyOf(name, digest string) store.StartKey {
	return store.StartKey{Name: name, Digest: []byte(digest)}
}

func startOnce(s *suite) {
	c, t := startOf("u", "c")
	keys := []store.StartKey{keyOf("id/c", "d1"), keyOf("key/k", "d1")}
	earlier, err := s.Starts().Begin(s.ctx, c, t, keys)
	s.ok(err)
	s.equal(earlier, (*conversation.StartTask)(nil))
	s.get("c")
	t.Status, t.UpdatedAt = conversation.TaskReady, at(5)
	s.ok(s.StartTasks().Save(s.ctx, t))
	for _, again := range [][]store.StartKey{keys, keys[:1], keys[1:], {keys[1], keyOf("id/other", "d1")}} {
		c2, t2 := startOf("u", "c2")
		earlier, err = s.Starts().Begin(s.ctx, c2, t2, again)
		s.ok(err)
		s.equal(earlier, t)
		found, err := s.Starts().Find(s.ctx, "u", again)
		s.ok(err)
		s.equal(found, t)
	}
	_, err = s.Starts().Find(s.ctx, "u", []store.StartKey{keyOf("key/k", "d2")})
	s.fails(err, fault.Conflict, store.CodeKeyReused)
	found, err := s.Starts().Find(s.ctx, "u", []store.StartKey{keyOf("key/other", "d1")})
	s.ok(err)
	s.equal(found, (*conversation.StartTask)(nil))
}

func startConcurrently(s *suite) {
	const n = 20
	var made [n]*conversation.StartTask
	parallel(s.T, n, func(i int) error {
		c, t := startOf("u", fmt.Sprint("c", i))
		var err error
		made[i], err = s.Starts().Begin(s.ctx, c, t, []store.StartKey{keyOf("key/k", "d")})
		return err
	})
	first, task := 0, ""
	for _, t := range made {
		switch {
		case t == nil:
			first++
		case task != "" && t.ID != task:
			s.Fatalf("two tasks: %s and %s", task, t.ID)
		default:
			task = t.ID
		}
	}
	s.equal(first, 1)
	count, err := s.Conversations().Count(s.ctx, store.ConversationQuery{Owner: "u"})
	s.ok(err)
	s.equal(count, 1)
}

func startWithoutKeys(s *suite) {
	for _, id := range []string{"c", "d"} {
		c, t := startOf("u", id)
		_, err := s.Starts().Begin(s.ctx, c, t, nil)
		s.ok(err)
	}
	c, t := startOf("v", "c")
	_, err := s.Starts().Begin(s.ctx, c, t, nil)
	s.fails(err, fault.Conflict, store.CodeExists)
}

func startForgotten(s *suite) {
	for range 2 {
		c, t := startOf("u", "c")
		earlier, err := s.Starts().Begin(s.ctx, c, t, []store.StartKey{keyOf("id/c", "d")})
		s.ok(err)
		s.equal(earlier, (*conversation.StartTask)(nil))
		s.ok(s.Conversations().Delete(s.ctx, "c"))
	}
}

func startAllOrNothing(s *suite) {
	s.create("u", "c")
	c, t := startOf("u", "c")
	_, err := s.Starts().Begin(s.ctx, c, t, []store.StartKey{keyOf("key/k", "d")})
	s.fails(err, fault.Conflict, store.CodeExists)
	found, err := s.Starts().Find(s.ctx, "u", []store.StartKey{keyOf("key/k", "d")})
	s.ok(err)
	s.equal(found, (*conversation.StartTask)(nil))
	n, err := s.StartTasks().Count(s.ctx, store.TaskQuery{Owner: "u"})
	s.ok(err)
	s.equal(n, 0)
}

func startOwners(s *suite) {
	for _, owner := range []string{"u", "v"} {
		c, t := startOf(owner, "of-"+owner)
		earlier, err := s.Starts().Begin(s.ctx, c, t, []store.StartKey{keyOf("key/k", "d of "+owner)})
		s.ok(err)
		s.equal(earlier, (*conversation.StartTask)(nil))
	}
}

// startTwoKeys: keys of two different starts name none.
func startTwoKeys(s *suite) {
	for _, id := range []string{"c", "d"} {
		c, t := startOf("u", id)
		_, err := s.Starts().Begin(s.ctx, c, t, []store.StartKey{keyOf("id/"+id, "d")})
		s.ok(err)
	}
	_, err := s.Starts().Find(s.ctx, "u", []store.StartKey{keyOf("id/c", "d"), keyOf("id/d", "d")})
	s.fails(err, fault.Conflict, store.CodeKeyReused)
}

var shareTests = map[string]func(*suite){
	"Life":       shareLife,
	"Expiry":     shareExpiry,
	"Limit":      shareLimit,
	"GoesWithIt": shareGoes,
}

func shareLife(s *suite) {
	s.create("u", "c")
	one := store.Share{ID: "s1", Owner: "u", Conversation: "c", CreatedAt: at(0), ExpiresAt: at(100)}
	two := store.Share{ID: "s2", Owner: "u", Conversation: "c", CreatedAt: at(1), ExpiresAt: at(50)}
	s.ok(s.Shares().Add(s.ctx, one, account.HashKey("t1"), 10))
	s.ok(s.Shares().Add(s.ctx, two, account.HashKey("t2"), 10))
	s.fails(s.Shares().Add(s.ctx, store.Share{ID: "s3", Conversation: "missing"}, account.HashKey("t3"), 10), fault.NotFound, "")
	all, err := s.Shares().List(s.ctx, "u", "c", at(2))
	s.ok(err)
	s.equal(all, []store.Share{two, one})
	all, err = s.Shares().List(s.ctx, "v", "c", at(2))
	s.ok(err)
	s.equal(all, []store.Share{})
	got, err := s.Shares().ByToken(s.ctx, account.HashKey("t1"), at(2))
	s.ok(err)
	s.equal(*got, one)
	_, err = s.Shares().ByToken(s.ctx, account.HashKey("other"), at(2))
	s.fails(err, fault.NotFound, "")
	s.fails(s.Shares().Revoke(s.ctx, "v", "c", "s1"), fault.NotFound, "")
	s.fails(s.Shares().Revoke(s.ctx, "u", "d", "s1"), fault.NotFound, "")
	s.ok(s.Shares().Revoke(s.ctx, "u", "c", "s1"))
	s.fails(s.Shares().Revoke(s.ctx, "u", "c", "s1"), fault.NotFound, "")
	_, err = s.Shares().ByToken(s.ctx, account.HashKey("t1"), at(2))
	s.fails(err, fault.NotFound, "")
}

// shareExpiry: a link ends with the moment of its expiry.
func shareExpiry(s *suite) {
	s.create("u", "c")
	link := store.Share{ID: "s", Owner: "u", Conversation: "c", CreatedAt: at(0), ExpiresAt: at(10)}
	s.ok(s.Shares().Add(s.ctx, link, account.HashKey("t"), 10))
	for _, c := range []struct {
		now  time.Time
		live bool
	}{{at(9), true}, {at(10).Add(-time.Microsecond), true}, {at(10), false}, {at(11), false}} {
		all, err := s.Shares().List(s.ctx, "u", "c", c.now)
		s.ok(err)
		_, errToken := s.Shares().ByToken(s.ctx, account.HashKey("t"), c.now)
		if (len(all) == 1) != c.live || (errToken == nil) != c.live {
			s.Errorf("at %v: listed %v, opens %v", c.now, all, errToken)
		}
	}
}

func shareLimit(s *suite) {
	s.create("u", "c")
	add := func(i, from, to int) error {
		return s.Shares().Add(s.ctx, store.Share{ID: fmt.Sprint("s", i), Owner: "u", Conversation: "c", CreatedAt: at(from), ExpiresAt: at(to)},
			account.HashKey(fmt.Sprint(i)), 2)
	}
	s.ok(add(1, 0, 10))
	s.ok(add(2, 0, 20))
	s.fails(add(3, 5, 20), fault.Conflict, store.CodeSharesFull)
	s.ok(add(4, 10, 20)) // the first has expired
}

func shareGoes(s *suite) {
	s.create("u", "c")
	s.ok(s.Shares().Add(s.ctx, store.Share{ID: "s", Owner: "u", Conversation: "c", CreatedAt: at(0), ExpiresAt: at(10)}, account.HashKey("t"), 2))
	s.ok(s.Conversations().Delete(s.ctx, "c"))
	_, err := s.Shares().ByToken(s.ctx, account.HashKey("t"), at(1))
	s.fails(err, fault.NotFound, "")
}
