package storetest

import (
	"slices"
	"sync/atomic"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

var leaseTests = map[string]func(*suite){
	"Acquire":     leaseAcquire,
	"Renew":       leaseRenew,
	"Release":     leaseRelease,
	"Interrupted": leaseInterrupted,
	"OneHolder":   leaseOneHolder,
}

const ttl = 10 * time.Second

func (s *suite) acquire(id conversation.ID, holder string, now time.Time) int64 {
	s.Helper()
	g, err := s.Leases().Acquire(s.ctx, id, holder, now, ttl)
	s.ok(err)
	return g
}

func leaseAcquire(s *suite) {
	s.create("u", "c")
	first := s.acquire("c", "a", at(0))
	c := s.get("c")
	if c.LeaseHolder != "a" || !c.LeaseUntil.Equal(at(10)) || c.Generation != first {
		s.Errorf("record: holder %q until %v generation %d", c.LeaseHolder, c.LeaseUntil, c.Generation)
	}
	_, err := s.Leases().Acquire(s.ctx, "c", "b", at(9), ttl)
	s.fails(err, fault.Conflict, store.CodeLeaseHeld)
	again := s.acquire("c", "a", at(5))
	expired := s.acquire("c", "b", at(15)) // a's lease ended at 15
	if again <= first || expired <= again {
		s.Errorf("generations %d, %d, %d do not grow", first, again, expired)
	}
	_, err = s.Leases().Acquire(s.ctx, "absent", "a", at(0), ttl)
	s.fails(err, fault.NotFound, "")
	if !s.get("c").UpdatedAt.Equal(epoch) {
		s.Error("a lease changed the time of the last update")
	}
}

func leaseRenew(s *suite) {
	for _, id := range []string{"mine", "late", "taken", "old"} {
		s.create("u", id)
	}
	held := map[conversation.ID]int64{"mine": s.acquire("mine", "a", at(0)), "late": s.acquire("late", "a", at(0)),
		"taken": s.acquire("taken", "a", at(0)), "old": s.acquire("old", "a", at(0)), "absent": 1}
	s.acquire("taken", "b", at(20))
	s.acquire("old", "a", at(1)) // a newer generation of the same holder
	lost, err := s.Leases().Renew(s.ctx, "a", held, at(21), ttl)
	s.ok(err)
	slices.Sort(lost)
	s.equal(lost, []conversation.ID{"absent", "old", "taken"})
	if until := s.get("mine").LeaseUntil; !until.Equal(at(31)) {
		s.Errorf("renewed until %v, want %v", until, at(31))
	}
	if holder := s.get("taken").LeaseHolder; holder != "b" {
		s.Errorf("the taken lease is %q's", holder)
	}
	lost, err = s.Leases().Renew(s.ctx, "a", nil, at(21), ttl)
	s.ok(err)
	if len(lost) != 0 {
		s.Errorf("lost %v of nothing", lost)
	}
}

func leaseRelease(s *suite) {
	s.create("u", "c")
	g := s.acquire("c", "a", at(0))
	s.ok(s.Leases().Release(s.ctx, "c", "a", g+1))
	s.ok(s.Leases().Release(s.ctx, "c", "b", g))
	if s.get("c").LeaseHolder != "a" {
		s.Fatal("another's release took the lease away")
	}
	s.ok(s.Leases().Release(s.ctx, "c", "a", g))
	if c := s.get("c"); c.LeaseHolder != "" || !c.LeaseUntil.IsZero() || c.Generation != g {
		s.Errorf("after release: %q until %v generation %d", c.LeaseHolder, c.LeaseUntil, c.Generation)
	}
	s.ok(s.Leases().Release(s.ctx, "absent", "a", g))
	if next := s.acquire("c", "b", at(1)); next <= g {
		s.Errorf("generation %d after %d", next, g)
	}
}

func leaseInterrupted(s *suite) {
	running := func(c *conversation.Conversation) { c.Summary.Status = conversation.Running }
	for _, id := range []string{"free", "expired", "live", "dead", "dead-2"} {
		s.create("u", id, running)
	}
	s.create("u", "idle")
	for id, active := range map[string]bool{"goal": true, "goal-over": false} {
		s.create("u", id, func(c *conversation.Conversation) {
			c.Summary.Status = conversation.Finished
			c.Summary.Goal = &conversation.Goal{Active: active}
		})
	}
	s.acquire("expired", "x", at(-10))
	s.acquire("live", "alive", at(0))
	s.acquire("dead", "dead", at(0))
	s.acquire("dead-2", "dead'er", at(0))
	got, err := s.Leases().Interrupted(s.ctx, at(0), []string{"dead", "dead'er"})
	s.ok(err)
	slices.Sort(got)
	s.equal(got, []conversation.ID{"dead", "dead-2", "expired", "free", "goal"})
	got, err = s.Leases().Interrupted(s.ctx, at(0), nil)
	s.ok(err)
	slices.Sort(got)
	s.equal(got, []conversation.ID{"expired", "free", "goal"})
}

func leaseOneHolder(s *suite) {
	s.create("u", "c")
	var won atomic.Int32
	parallel(s.T, 12, func(i int) error {
		_, err := s.Leases().Acquire(s.ctx, "c", string(rune('a'+i)), at(0), ttl)
		if err == nil {
			won.Add(1)
			return nil
		}
		if fault.CodeOf(err) == store.CodeLeaseHeld {
			return nil
		}
		return err
	})
	if won.Load() != 1 {
		s.Errorf("%d holders got the lease", won.Load())
	}
}
