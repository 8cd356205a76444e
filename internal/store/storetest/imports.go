package storetest

import (
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

var importTests = map[string]func(*suite){"AllOrNothing": importAllOrNothing, "GoesWithItsConversation": importGoesWithItsConversation}

func anImport(id string) *store.Import {
	return &store.Import{Conversation: &conversation.Conversation{ID: conversation.ID(id), Owner: "u", Title: "T",
		Summary: conversation.Summary{Status: conversation.Idle}, CreatedAt: epoch, UpdatedAt: epoch},
		Events: numbered(2), Digest: []byte{1, 2}, Projection: "p",
		Numbers: []store.ProjectionEntry{{ID: 0, Seq: -1, Part: 7}, {ID: 1, Seq: 1, Part: 8}}, Raw: [][]byte{[]byte(`{"a":0}`), []byte(`{"a":1}`)}}
}

// An import is a conversation with its log, its numbers and what it came from.
func importGoesWithItsConversation(s *suite) {
	s.ok(s.Imports().Add(s.ctx, anImport("a")))
	if c := s.get("a"); c.Summary.Head != 2 || c.Title != "T" {
		s.Errorf("%+v", c)
	}
	s.append("a", plain("more", "A", "agent", at(9)))
	nextID, nextSeq, err := s.Projections().Cursor(s.ctx, "a", "p")
	s.ok(err)
	s.equal([]int64{nextID, nextSeq}, []int64{2, 2})
	digest, err := s.Imports().Digest(s.ctx, "a")
	s.ok(err)
	s.equal(digest, []byte{1, 2})
	raw, err := s.Imports().Raw(s.ctx, "a", 1, 9)
	s.ok(err)
	s.equal(raw, map[int64][]byte{1: []byte(`{"a":1}`)})
	s.ok(s.Conversations().Delete(s.ctx, "a"))
	_, err = s.Imports().Digest(s.ctx, "a")
	s.fails(err, fault.NotFound, "")
	raw, err = s.Imports().Raw(s.ctx, "a", 0, 9)
	s.ok(err)
	s.equal(len(raw), 0)
}

// What cannot be stored whole is not stored at all.
func importAllOrNothing(s *suite) {
	s.create("other", "taken")
	s.fails(s.Imports().Add(s.ctx, anImport("taken")), fault.Conflict, store.CodeExists)
	gap := anImport("gap")
	gap.Numbers[1].ID = 2
	if s.Imports().Add(s.ctx, gap) == nil {
		s.Error("a gap was stored")
	}
	short := anImport("short")
	short.Raw = short.Raw[:1]
	if s.Imports().Add(s.ctx, short) == nil {
		s.Error("a number without an event was stored")
	}
	for _, id := range []conversation.ID{"taken", "gap", "short"} {
		_, err := s.Imports().Digest(s.ctx, id)
		s.fails(err, fault.NotFound, "")
	}
}
