package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
)

var experimentTests = map[string]func(*suite){
	"OnceForEachConversation":  experimentOnce,
	"TheNewestAreKept":         experimentNewest,
	"GoWithTheirConversations": experimentGoes,
}

// experiment puts one and returns whether it was stored.
func (s *suite) experiment(owner, id string, at time.Time, most int) bool {
	s.Helper()
	stored, err := s.Experiments().Put(s.ctx, owner, conversation.ID(id), json.RawMessage(`{"a":"b"}`), at, most)
	s.ok(err)
	return stored
}

func experimentOnce(s *suite) {
	now := time.Now()
	s.equal(s.experiment("u", "c", now, 10), true)
	s.equal(s.experiment("u", "c", now, 10), false)
	s.equal(s.experiment("v", "c", now, 10), true) // another user's, who learns nothing
	s.equal(s.experiment("u", "d", now, 10), true)
	_, err := s.Experiments().Put(s.ctx, "", "c", nil, now, 10)
	s.fails(err, fault.Internal, "")
}

func experimentNewest(s *suite) {
	now := time.Now()
	for i := range 5 {
		s.equal(s.experiment("u", fmt.Sprint("c", i), now.Add(time.Duration(i)*time.Second), 3), true)
	}
	s.equal(s.experiment("v", "c0", now, 3), true)
	s.equal(s.experiment("u", "c4", now, 3), false)
	s.equal(s.experiment("u", "c2", now, 3), false)
	s.equal(s.experiment("u", "c1", now.Add(9*time.Second), 3), true) // was dropped
}

func experimentGoes(s *suite) {
	c := s.create("u", "c")
	s.equal(s.experiment("u", string(c.ID), time.Now(), 3), true)
	s.ok(s.Conversations().Delete(s.ctx, c.ID))
	s.equal(s.experiment("u", string(c.ID), time.Now(), 3), true)
}
