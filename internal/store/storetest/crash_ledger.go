package storetest

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"testing"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

const (
	spenderHolder = "spender"
	spenderRoot   = conversation.ID("spender-root")
	spenderAmount = conversation.Money(1000)
	spenderCost   = conversation.Money(7)
	// spenderReserved is added to a spender's number where a reservation is
	// acknowledged, not its settlement.
	spenderReserved = 100
)

func spender(i int) conversation.ID { return conversation.ID(fmt.Sprint("spender-", i)) }

// SpendForever is the body of a process that gets killed: sub-conversations of
// one root reserve, and settle with an event. It writes a line to out for every
// reservation ("100+spender n") and every settlement ("spender n") that the
// store acknowledged, n counting from 0 over all lives. It returns only on an error.
func SpendForever(ctx context.Context, s store.Store, out io.Writer) error {
	if err := createOnce(ctx, s, &conversation.Conversation{ID: spenderRoot, Owner: "u"}); err != nil {
		return err
	}
	failed := make(chan error, crashLogs)
	var mu sync.Mutex
	for i := range crashLogs {
		go func() {
			failed <- spend(ctx, s, i, func(log int, n int64) error {
				mu.Lock()
				defer mu.Unlock()
				_, err := fmt.Fprintf(out, "%d %d\n", log, n)
				return err
			})
		}()
	}
	return <-failed
}

func createOnce(ctx context.Context, s store.Store, c *conversation.Conversation) error {
	err := s.Conversations().Create(ctx, c)
	if fault.CodeOf(err) == store.CodeExists {
		return nil
	}
	return err
}

// spend makes one call after another; its log has one event per settled call.
func spend(ctx context.Context, s store.Store, i int, acknowledge func(log int, n int64) error) error {
	id := spender(i)
	if err := createOnce(ctx, s, &conversation.Conversation{ID: id, Owner: "u", ParentID: spenderRoot}); err != nil {
		return err
	}
	_, sum, err := s.Ledger().Conversation(ctx, id)
	if err != nil {
		return err
	}
	c, err := s.Conversations().Get(ctx, "", id)
	if err != nil {
		return err
	}
	reserved := sum.Calls
	for head := c.Summary.Head; ; head++ {
		r := store.Reservation{ID: fmt.Sprint(id, reserved), Conversation: id, Owner: "u", Use: store.UseAgent, Model: "m",
			Amount: spenderAmount, Holder: spenderHolder, Now: epoch}
		if err := s.Ledger().Reserve(ctx, r); err != nil {
			return err
		}
		if err := acknowledge(spenderReserved+i, reserved); err != nil {
			return err
		}
		err := s.Events().Append(ctx, store.Append{Conversation: id, ExpectHead: head, Now: time.Now(),
			Events: []conversation.Event{plain(fmt.Sprint(head), "A", "s", time.Now())},
			Settle: []store.Settlement{{Reservation: r.ID, Cost: spenderCost}}})
		if err != nil {
			return err
		}
		if err := acknowledge(i, head); err != nil {
			return err
		}
		reserved++
	}
}

// KillAndCount is KillAndCheck for a process that runs SpendForever: after each
// kill every call is accounted for, once.
func KillAndCount(t *testing.T, child func() *exec.Cmd, open func() store.Store) {
	killRounds(t, child, open, func(s store.Store, acknowledged map[int]int64) { countSurvivors(t, s, acknowledged) })
}

func countSurvivors(t *testing.T, s store.Store, acknowledged map[int]int64) {
	t.Helper()
	ctx := t.Context()
	orphans, err := s.Ledger().Orphans(ctx, []string{spenderHolder})
	if err != nil || orphans > crashLogs {
		t.Fatalf("%d orphans, %v", orphans, err)
	}
	var settled, all int64
	for i := range crashLogs {
		c, err := s.Conversations().Get(ctx, "", spender(i))
		if err != nil {
			t.Fatal(err)
		}
		_, sum, err := s.Ledger().Conversation(ctx, spender(i))
		if err != nil {
			t.Fatal(err)
		}
		head := c.Summary.Head
		if head <= acknowledged[i] || sum.Calls <= acknowledged[spenderReserved+i] {
			t.Errorf("spender %d: %v was acknowledged, %d events and %+v are there", i, acknowledged, head, sum)
		}
		lost := sum.Calls - head
		if sum.Cost != spenderCost*conversation.Money(head) || sum.Uncertain != spenderAmount*conversation.Money(lost) {
			t.Errorf("spender %d: %d events, %+v", i, head, sum)
		}
		settled, all = settled+head, all+sum.Calls
	}
	want := store.Spending{Calls: all, Cost: spenderCost * conversation.Money(settled), Uncertain: spenderAmount * conversation.Money(all-settled)}
	if _, sum, err := s.Ledger().Conversation(ctx, spenderRoot); err != nil || sum != want {
		t.Errorf("root %+v, %v, want %+v", sum, err, want)
	}
	rows, err := s.Ledger().Days(ctx, "u", "", "9999")
	if err != nil || len(rows) != 1 || rows[0].Spending != want {
		t.Errorf("days %+v, %v, want %+v", rows, err, want)
	}
	for _, id := range []conversation.ID{spenderRoot, ""} {
		if full := probe(ctx, t, s.Ledger(), id, "u"); full.Held != 0 {
			t.Errorf("%d is held and nobody calls", full.Held)
		}
	}
}
