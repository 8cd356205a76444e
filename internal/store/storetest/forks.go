package storetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

var forkTests = map[string]func(*suite){
	"RecordAndLog":    forkRecordAndLog,
	"Empty":           forkEmpty,
	"IDTaken":         forkIDTaken,
	"Refused":         forkRefused,
	"Searchable":      forkSearchable,
	"TimesOutOfOrder": forkTimesOutOfOrder,
	"GoesOn":          forkGoesOn,
	"StartsWithout":   forkStartsWithout,
	"Long":            forkLong,
	"OneWinner":       forkOneWinner,
	"Canceled":        forkCanceled,
}

// numbered makes n events of a kind that nothing knows.
func numbered(n int) []conversation.Event {
	log := make([]conversation.Event, n)
	for i := range log {
		log[i] = plain("e"+strconv.Itoa(i), "A", "agent", at(i))
	}
	return log
}

func forkRecordAndLog(s *suite) {
	s.create("u", "source")
	s.append("source", message("m", "hello", at(0)), plain("p", "A", "agent", at(1)), message("n", "bye", at(2)))
	log, err := s.Events().Read(s.ctx, "source", -1, 2)
	s.ok(err)
	log[0].Seq, log[1].Seq = 40, 2 // numbers of another log do not matter
	c := fullConversation("fork")
	c.Summary.Head, c.LastEventAt = 99, at(44)
	s.ok(s.Conversations().Fork(s.ctx, c, log))
	want := fullConversation("fork")
	want.Summary.Head, want.LastEventAt = 2, at(44)
	s.equal(c, want)
	s.equal(s.get("fork"), want)
	got, err := s.Events().Read(s.ctx, "fork", -1, 10)
	s.ok(err)
	s.equal(got, log)
	s.equal(ids(got), []string{"m", "p"})
	s.gapFree("fork", 2)
	s.gapFree("source", 3)

	bare := &conversation.Conversation{ID: "bare", CreatedAt: at(5)}
	s.ok(s.Conversations().Fork(s.ctx, bare, numbered(1)))
	if last := s.get("bare").LastEventAt; !last.Equal(at(5)) || !bare.LastEventAt.Equal(at(5)) {
		s.Errorf("the last event of a fork without a time is at %v, want its creation", last)
	}
}

// forkEmpty: a fork from the very start has no log.
func forkEmpty(s *suite) {
	c := &conversation.Conversation{ID: "fork", ForkedFrom: "source", CreatedAt: at(1)}
	s.ok(s.Conversations().Fork(s.ctx, c, nil))
	s.gapFree("fork", 0)
	got := s.get("fork")
	if got.ForkedFrom != "source" || got.ForkedAt != "" || !got.LastEventAt.IsZero() {
		s.Errorf("an empty fork: %+v", got)
	}
}

func forkIDTaken(s *suite) {
	before := s.create("user-1", "c")
	s.append("c", message("m", "hello", at(0)))
	before = s.get(before.ID)
	for _, owner := range []string{"user-1", "user-2"} {
		c := &conversation.Conversation{ID: "c", Owner: owner, Summary: conversation.Summary{Head: 7}}
		log := numbered(3)
		err := s.Conversations().Fork(s.ctx, c, log)
		s.fails(err, fault.Conflict, store.CodeExists)
		if log[2].Seq != 0 || c.Summary.Head != 7 {
			s.Errorf("a refused fork changed its arguments: seq %d, head %d", log[2].Seq, c.Summary.Head)
		}
	}
	s.equal(s.get("c"), before)
	s.gapFree("c", 1)
}

// forkRefused: a log that breaks a rule leaves nothing, wherever the fault is.
func forkRefused(s *suite) {
	cases := map[string]func([]conversation.Event){
		"no id":    func(log []conversation.Event) { log[99].ID = "" },
		"no JSON":  func(log []conversation.Event) { log[99].Raw = nil },
		"id twice": func(log []conversation.Event) { log[99].ID = log[0].ID },
	}
	for name, spoil := range cases {
		log := numbered(100)
		spoil(log)
		if err := s.Conversations().Fork(s.ctx, &conversation.Conversation{ID: "fork"}, log); err == nil {
			s.Errorf("%s: accepted", name)
		}
		_, err := s.Conversations().Get(s.ctx, "", "fork")
		s.fails(err, fault.NotFound, "")
		_, err = s.Events().Read(s.ctx, "fork", -1, 10)
		s.fails(err, fault.NotFound, "")
	}
	s.ok(s.Conversations().Fork(s.ctx, &conversation.Conversation{ID: "fork"}, numbered(100)))
}

// forkSearchable: what filters use of an appended event, they use of a copied one.
func forkSearchable(s *suite) {
	filterLog(s)
	log, err := s.Events().Read(s.ctx, "c", -1, 100)
	s.ok(err)
	s.ok(s.Conversations().Fork(s.ctx, &conversation.Conversation{ID: "fork"}, log))
	for _, q := range []store.EventQuery{
		{}, {Kind: "A"}, {Source: "user"}, {Body: "100% wörld"}, {Body: "e0", Kind: "A"}, {Kind: "A", Source: "agent"},
		{From: conversation.FormatTime(at(1)), To: conversation.FormatTime(at(3))},
	} {
		for _, desc := range []bool{false, true} {
			q.Desc, q.AtOrAfter = desc, nil
			q.Conversation = "c"
			want := s.allPages(q, 2)
			q.Conversation = "fork"
			s.equal(s.allPages(q, 2), want)
		}
		n, err := s.Events().Count(s.ctx, q)
		s.ok(err)
		if n != len(s.allPages(q, 100)) {
			s.Errorf("%+v: count %d", q, n)
		}
	}
}

func forkTimesOutOfOrder(s *suite) {
	log := []conversation.Event{plain("a", "A", "s", at(5)), plain("b", "A", "s", at(1)), plain("c", "A", "s", at(9))}
	s.ok(s.Conversations().Fork(s.ctx, &conversation.Conversation{ID: "fork"}, log))
	s.append("fork", plain("d", "A", "s", at(3)))
	q := store.EventQuery{Conversation: "fork", From: conversation.FormatTime(at(2)), To: conversation.FormatTime(at(9))}
	s.equal(s.allPages(q, 1), []string{"a", "d"})

	s.ok(s.Conversations().Fork(s.ctx, &conversation.Conversation{ID: "late"}, []conversation.Event{plain("a", "A", "s", at(5))}))
	s.append("late", plain("b", "A", "s", at(1))) // the first event after the copies jumps back
	q.Conversation = "late"
	s.equal(s.allPages(q, 1), []string{"a"})
}

// forkGoesOn appends to both logs: they are strangers from then on.
func forkGoesOn(s *suite) {
	s.create("u", "source")
	s.append("source", numbered(3)...)
	log, err := s.Events().Read(s.ctx, "source", -1, 10)
	s.ok(err)
	s.ok(s.Conversations().Fork(s.ctx, &conversation.Conversation{ID: "fork", ForkedFrom: "source", ForkedAt: "e2"}, log))
	s.append("source", plain("next", "A", "s", at(4)))
	s.append("fork", plain("next", "A", "s", at(4)), plain("more", "A", "s", at(5)))
	s.fails(s.Events().Append(s.ctx, store.Append{Conversation: "fork", ExpectHead: 5,
		Events: []conversation.Event{plain("e1", "A", "s", at(6))}}), fault.Conflict, store.CodeExists)
	s.ok(s.Conversations().Delete(s.ctx, "source"))
	s.gapFree("fork", 5)
	if c := s.get("fork"); c.ForkedFrom != "source" || c.ForkedAt != "e2" {
		s.Errorf("the fork forgot its source: %+v", c)
	}
	s.ok(s.Conversations().Fork(s.ctx, &conversation.Conversation{ID: "source", ForkedFrom: "fork"}, log[:1]))
	s.gapFree("source", 1)
}

// forkStartsWithout: nothing that is derived from the source's log is copied.
func forkStartsWithout(s *suite) {
	s.create("u", "source")
	s.append("source", numbered(2)...)
	s.ok(s.Projections().Extend(s.ctx, "source", "v0", 0, 0, 2, []store.ProjectionEntry{{ID: 0}, {ID: 1, Seq: 1}}))
	s.ok(s.Ledger().Reserve(s.ctx, store.Reservation{ID: "r", Conversation: "source", Owner: "u", Use: store.UseAgent,
		Amount: 5, Now: epoch}))
	s.ok(s.Ledger().Settle(s.ctx, store.Settlement{Reservation: "r", Cost: 5}))
	log, err := s.Events().Read(s.ctx, "source", -1, 10)
	s.ok(err)
	s.ok(s.Conversations().Fork(s.ctx, &conversation.Conversation{ID: "fork", Owner: "u", ForkedFrom: "source"}, log))
	nextID, nextSeq, err := s.Projections().Cursor(s.ctx, "fork", "v0")
	s.ok(err)
	_, spent, err := s.Ledger().Conversation(s.ctx, "fork")
	s.ok(err)
	if nextID != 0 || nextSeq != 0 || spent != (store.Spending{}) {
		s.Errorf("a fork starts with ids up to %d, seq %d, spending %+v", nextID, nextSeq, spent)
	}
	_, err = s.StartTasks().Latest(s.ctx, "fork")
	s.fails(err, fault.NotFound, "")
	_, err = s.Leases().Acquire(s.ctx, "fork", "me", at(0), 10e9)
	s.ok(err)
}

// forkLong forks what no single statement holds, beside writers.
func forkLong(s *suite) {
	const length, beside = 20_003, 50
	s.create("u", "other")
	parallel(s.T, 2, func(i int) error {
		if i == 0 {
			return s.Conversations().Fork(s.ctx, &conversation.Conversation{ID: "fork"}, numbered(length))
		}
		for head := range beside {
			err := s.Events().Append(s.ctx, store.Append{Conversation: "other", ExpectHead: int64(head), Now: at(head),
				Events: []conversation.Event{plain(fmt.Sprint(head), "A", "s", at(head))}})
			if err != nil {
				return err
			}
		}
		return nil
	})
	s.gapFree("other", beside)
	got, err := s.Events().Read(s.ctx, "fork", -1, length+1)
	s.ok(err)
	if len(got) != length || s.get("fork").Summary.Head != length {
		s.Fatalf("%d events and head %d, want %d", len(got), s.get("fork").Summary.Head, length)
	}
	want := numbered(length)
	for i := range want {
		if got[i].Seq != int64(i) || got[i].ID != want[i].ID || string(got[i].Raw) != string(want[i].Raw) {
			s.Fatalf("event %d is %q, want %q", i, got[i].ID, want[i].ID)
		}
	}
}

// forkOneWinner lets creates and forks race for one id.
func forkOneWinner(s *suite) {
	var winner atomic.Int64
	parallel(s.T, 12, func(i int) error {
		c := &conversation.Conversation{ID: "c", Title: strconv.Itoa(i)}
		var err error
		if i%3 == 0 {
			err = s.Conversations().Create(s.ctx, c)
		} else {
			err = s.Conversations().Fork(s.ctx, c, numbered(i))
		}
		if fault.CodeOf(err) == store.CodeExists {
			return nil
		}
		if old := winner.Swap(int64(i) + 1); err == nil && old != 0 {
			return fmt.Errorf("%d has won already", old-1)
		}
		return err
	})
	i := int(winner.Load()) - 1
	want := i
	if i%3 == 0 {
		want = 0
	}
	if title := s.get("c").Title; title != strconv.Itoa(i) {
		s.Errorf("the record is of %s, the winner was %d", title, i)
	}
	s.gapFree("c", want)
}

func forkCanceled(s *suite) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if err := s.Conversations().Fork(ctx, &conversation.Conversation{ID: "fork"}, numbered(5)); !fault.Is(err, fault.Canceled) {
		s.Errorf("error %v", err)
	}
	found, err := s.Conversations().Batch(s.ctx, "", []conversation.ID{"fork"})
	s.ok(err)
	if slices.ContainsFunc(found, func(c *conversation.Conversation) bool { return c != nil }) {
		s.Error("a canceled fork is there")
	}
}
