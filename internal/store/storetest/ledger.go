package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

var ledgerTests = map[string]func(*suite){
	"ReserveAndSettle":       testReserveAndSettle,
	"LimitIsReached":         testLimitIsReached,
	"Tree":                   testTree,
	"OwnCeilings":            testOwnCeilings,
	"Days":                   testDays,
	"Tokens":                 testTokens,
	"WithoutPrice":           testWithoutPrice,
	"FreeAlwaysFits":         testFreeAlwaysFits,
	"TightestCeiling":        testTightestCeiling,
	"SettleTwice":            testSettleTwice,
	"SameReservationTwice":   testSameReservationTwice,
	"OddNumbers":             testOddNumbers,
	"HugeSums":               testHugeSums,
	"UnknownConversation":    testReserveUnknown,
	"WithoutConversation":    testWithoutConversation,
	"AppendSettles":          testAppendSettles,
	"Orphans":                testOrphans,
	"DeleteSub":              testDeleteSub,
	"DeleteParent":           testDeleteParent,
	"DeleteWhileHeld":        testDeleteWhileHeld,
	"DeleteBeforeFirstCall":  testDeleteBeforeFirstCall,
	"CreateAgain":            testCreateAgain,
	"Circle":                 testCircle,
	"CanceledReserve":        testCanceledReserve,
	"FailedReserve":          testFailedReserve,
	"ReserveAsContextsEnd":   testReserveAsContextsEnd,
	"LastCent":               testLastCent,
	"LastCentOfTheDay":       testLastCentOfTheDay,
	"ParallelSettle":         testParallelSettle,
	"LikeTheModel":           testLikeTheModel,
	"ConversationOfNoCalls":  testConversationOfNoCalls,
	"SettleNothing":          testSettleNothing,
	"DayOfTheReservation":    testDayOfTheReservation,
	"ReservationIsNoOutcome": testReservationIsNoOutcome,
}

// usd makes an amount of whole cents.
func cents(n int64) conversation.Money { return conversation.Money(n) * conversation.USD / 100 }

func limit[T any](v T) *T { return &v }

// reserve makes a reservation in the tree of conversation "c".
func reservation(id string, conv conversation.ID, amount conversation.Money) store.Reservation {
	return store.Reservation{ID: id, Conversation: conv, Owner: "u", Use: store.UseAgent, Model: "test/m",
		Amount: amount, Holder: "here", Now: epoch}
}

func (s *suite) reserve(r store.Reservation) {
	s.Helper()
	s.ok(s.Ledger().Reserve(s.ctx, r))
}

// refused expects a refusal and compares it.
func (s *suite) refused(r store.Reservation, want store.BudgetError) {
	s.Helper()
	err := s.Ledger().Reserve(s.ctx, r)
	var full *store.BudgetError
	if !errors.As(err, &full) {
		s.Fatalf("reserve: %v, want a refusal", err)
	}
	s.equal(*full, want)
}

func (s *suite) settle(list ...store.Settlement) {
	s.Helper()
	s.ok(s.Ledger().Settle(s.ctx, list...))
}

// cost makes the settlement of a call.
func cost(id string, amount conversation.Money) store.Settlement {
	return store.Settlement{Reservation: id, Cost: amount,
		Usage: conversation.Usage{Model: "test/m", PromptTokens: 10, CompletionTokens: 5}}
}

// sums returns what a conversation's tree has spent, uncertain and held, by
// asking for more than there can be.
func (s *suite) sums(id conversation.ID) store.BudgetError {
	s.Helper()
	return probe(s.ctx, s.T, s.Ledger(), id, "u")
}

// probe reads the sums of a conversation from a refusal: nothing fits under zero.
func probe(ctx context.Context, t *testing.T, l store.Ledger, id conversation.ID, owner string) store.BudgetError {
	t.Helper()
	r := store.Reservation{ID: "probe", Conversation: id, Owner: owner, Amount: 1, Now: epoch}
	if id == "" {
		r.Ceilings.Day = limit(conversation.Money(0))
	} else {
		r.Ceilings.Own = limit(conversation.Money(0))
	}
	var full *store.BudgetError
	if err := l.Reserve(ctx, r); !errors.As(err, &full) {
		t.Fatalf("probe: %v", err)
	}
	return *full
}

func (s *suite) family() {
	s.create("u", "c")
	s.create("u", "sub", func(c *conversation.Conversation) { c.ParentID = "c" })
	s.create("u", "subsub", func(c *conversation.Conversation) { c.ParentID = "sub" })
	s.create("u", "other", func(c *conversation.Conversation) { c.ParentID = "c" })
}

func (s *suite) spent(id conversation.ID) (map[string]store.Spending, store.Spending) {
	s.Helper()
	own, tree, err := s.Ledger().Conversation(s.ctx, id)
	s.ok(err)
	return own, tree
}

func testReserveAndSettle(s *suite) {
	s.create("u", "c")
	s.reserve(reservation("r", "c", cents(5)))
	own, tree := s.spent("c")
	s.equal(len(own), 0)
	s.equal(tree, store.Spending{})
	call := store.Settlement{Reservation: "r", Cost: cents(2), Uncertain: cents(1), Usage: conversation.Usage{
		PromptTokens: 100, CompletionTokens: 20, CacheReadTokens: 30, CacheWriteTokens: 40, ReasoningTokens: 7}}
	s.settle(call)
	title := reservation("t", "c", cents(1))
	title.Use = store.UseTitle
	s.reserve(title)
	s.settle(cost("t", cents(1)))
	first := store.Spending{Calls: 1, Cost: cents(2), Uncertain: cents(1), PromptTokens: 100, CompletionTokens: 20,
		CacheReadTokens: 30, CacheWriteTokens: 40, ReasoningTokens: 7}
	second := store.Spending{Calls: 1, Cost: cents(1), PromptTokens: 10, CompletionTokens: 5}
	own, tree = s.spent("c")
	s.equal(own, map[string]store.Spending{store.UseAgent: first, store.UseTitle: second})
	s.equal(tree, store.Spending{Calls: 2, Cost: cents(3), Uncertain: cents(1), PromptTokens: 110, CompletionTokens: 25,
		CacheReadTokens: 30, CacheWriteTokens: 40, ReasoningTokens: 7})
	days, err := s.Ledger().Days(s.ctx, "u", "2026-03-01", "2026-03-01")
	s.ok(err)
	s.equal(days, []store.SpendingRow{
		{Day: "2026-03-01", Use: store.UseAgent, Model: "test/m", Spending: first},
		{Day: "2026-03-01", Use: store.UseTitle, Model: "test/m", Spending: second}})
}

func testReservationIsNoOutcome(s *suite) {
	s.create("u", "c")
	s.reserve(reservation("r", "c", cents(5)))
	s.settle(store.Settlement{Reservation: "r"}) // there was no call
	own, tree := s.spent("c")
	s.equal(len(own), 0)
	s.equal(tree, store.Spending{})
	days, err := s.Ledger().Days(s.ctx, "u", "", "9999")
	s.ok(err)
	s.equal(len(days), 0)
}

func testConversationOfNoCalls(s *suite) {
	s.create("u", "c")
	for _, id := range []conversation.ID{"c", "nobody", ""} {
		own, tree := s.spent(id)
		s.equal(len(own), 0)
		s.equal(tree, store.Spending{})
	}
	days, err := s.Ledger().Days(s.ctx, "u", "", "9999")
	s.ok(err)
	s.equal(days, []store.SpendingRow{})
}

func testSettleNothing(s *suite) {
	s.settle()
	s.settle(cost("unknown", cents(3)))
	n, err := s.Ledger().Orphans(s.ctx, nil)
	s.ok(err)
	s.equal(n, 0)
}

func testLimitIsReached(s *suite) {
	s.create("u", "c")
	r := reservation("a", "c", cents(60))
	r.Ceilings.Tree = limit(cents(100))
	s.reserve(r)
	r.ID, r.Amount = "b", cents(40)+1
	s.refused(r, store.BudgetError{Scope: store.ScopeConversation, Limit: int64(cents(100)), Held: int64(cents(60)), Want: int64(cents(40)) + 1})
	r.Amount = cents(40) // exactly full
	s.reserve(r)
	r.ID, r.Amount = "c", 1
	s.refused(r, store.BudgetError{Scope: store.ScopeConversation, Limit: int64(cents(100)), Held: int64(cents(100)), Want: 1})
	s.settle(cost("a", cents(10)), store.Settlement{Reservation: "b", Cost: cents(5), Uncertain: cents(35)})
	r.Amount = cents(51)
	s.refused(r, store.BudgetError{Scope: store.ScopeConversation, Limit: int64(cents(100)),
		Spent: int64(cents(15)), Uncertain: int64(cents(35)), Want: int64(cents(51))})
	r.Amount = cents(50)
	s.reserve(r)
	// Without a ceiling there is none.
	r.ID, r.Amount, r.Ceilings = "d", cents(1_000_000), store.Ceilings{}
	s.reserve(r)
}

func testTree(s *suite) {
	s.family()
	tree := store.Ceilings{Tree: limit(cents(100))}
	for i, id := range []conversation.ID{"subsub", "other", "c"} {
		r := reservation(string(id), id, cents(int64(10*(i+1))))
		r.Ceilings = tree
		s.reserve(r)
	}
	s.equal(s.sums("c").Held, int64(cents(60)))
	s.equal(s.sums("sub").Held, int64(cents(10)))
	for _, id := range []conversation.ID{"c", "sub", "subsub", "other"} {
		r := reservation("more", id, cents(41))
		r.Ceilings = tree
		s.refused(r, store.BudgetError{Scope: store.ScopeConversation, Limit: int64(cents(100)), Held: int64(cents(60)), Want: int64(cents(41))})
	}
	s.settle(cost("subsub", cents(1)), cost("other", cents(2)), cost("c", cents(4)))
	for id, want := range map[conversation.ID]int64{"subsub": 1, "sub": 1, "other": 2, "c": 7} {
		own, sum := s.spent(id)
		s.equal(sum.Cost, cents(want))
		if id == "sub" {
			s.equal(len(own), 0)
		}
		s.equal(s.sums(id).Held, int64(0))
	}
}

func testOwnCeilings(s *suite) {
	s.family()
	r := reservation("sub", "sub", cents(10))
	r.Ceilings = store.Ceilings{Own: limit(cents(30))}
	s.reserve(r)
	// The ceiling of sub is remembered for what is below it, and only for that.
	s.refused(reservation("x", "subsub", cents(21)), store.BudgetError{Scope: store.ScopeSub, Limit: int64(cents(30)),
		Held: int64(cents(10)), Want: int64(cents(21))})
	s.reserve(reservation("y", "subsub", cents(20)))
	s.reserve(reservation("z", "other", cents(500)))
	r.ID, r.Amount = "sub2", 1
	s.refused(r, store.BudgetError{Scope: store.ScopeSub, Limit: int64(cents(30)), Held: int64(cents(30)), Want: 1})
	r.Ceilings.Own = limit(cents(40)) // raised
	s.reserve(r)
	s.reserve(reservation("x", "subsub", cents(9)))
	r.ID, r.Ceilings.Own = "sub3", nil // none any more
	s.reserve(r)
	s.reserve(reservation("w", "subsub", cents(900)))
}

func testDays(s *suite) {
	s.create("u", "c")
	s.create("u", "d")
	s.create("v", "e")
	day := store.Ceilings{Day: limit(cents(10))}
	r := reservation("1", "c", cents(6))
	r.Ceilings = day
	s.reserve(r)
	r = reservation("2", "d", cents(5)) // another conversation, the same day
	r.Ceilings = day
	full := store.BudgetError{Scope: store.ScopeDay, Limit: int64(cents(10)), Held: int64(cents(6)), Want: int64(cents(5))}
	s.refused(r, full)
	r.Now = time.Date(2026, 3, 2, 0, 30, 0, 0, time.FixedZone("east", 3600)) // still the 1st in UTC
	s.refused(r, full)
	r.Now = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	s.reserve(r)
	r = reservation("3", "e", cents(10)) // another owner
	r.Owner, r.Ceilings = "v", day
	s.reserve(r)
	r.ID, r.Amount = "4", 1
	s.refused(r, store.BudgetError{Scope: store.ScopeDay, Limit: int64(cents(10)), Held: int64(cents(10)), Want: 1})
	s.settle(cost("1", cents(3)), cost("2", cents(4)), cost("3", cents(5)))
	for _, q := range []struct {
		owner, from, to string
		want            []string
	}{
		{"u", "2026-03-01", "2026-03-02", []string{"2026-03-01 3", "2026-03-02 4"}},
		{"u", "2026-03-02", "2026-03-02", []string{"2026-03-02 4"}},
		{"u", "2026-03-03", "2026-04-01", []string{}},
		{"v", "2026-03-01", "2026-03-31", []string{"2026-03-01 5"}},
		{"w", "2026-03-01", "2026-03-31", []string{}},
	} {
		rows, err := s.Ledger().Days(s.ctx, q.owner, q.from, q.to)
		s.ok(err)
		got := []string{}
		for _, row := range rows {
			got = append(got, fmt.Sprint(row.Day, " ", int64(row.Cost/cents(1))))
		}
		s.equal(got, q.want)
	}
}

// testDayOfTheReservation: a call that ends after midnight counts for the day it began.
func testDayOfTheReservation(s *suite) {
	s.create("u", "c")
	r := reservation("late", "c", cents(6))
	r.Now = time.Date(2026, 3, 1, 23, 59, 59, 0, time.UTC)
	s.reserve(r)
	s.settle(cost("late", cents(6)))
	r = reservation("next", "c", cents(10))
	r.Now, r.Ceilings.Day = time.Date(2026, 3, 2, 0, 0, 1, 0, time.UTC), limit(cents(10))
	s.reserve(r)
	r = reservation("before", "c", cents(5))
	r.Ceilings.Day = limit(cents(10))
	s.refused(r, store.BudgetError{Scope: store.ScopeDay, Limit: int64(cents(10)), Spent: int64(cents(6)), Want: int64(cents(5))})
}

func testTokens(s *suite) {
	s.family()
	r := store.Reservation{ID: "a", Conversation: "sub", Owner: "u", Use: store.UseAgent, Model: "m", Tokens: 700, Now: epoch,
		Ceilings: store.Ceilings{TreeTokens: limit(int64(1000)), DayTokens: limit(int64(5000))}}
	s.reserve(r)
	r.ID, r.Conversation, r.Tokens = "b", "other", 301
	s.refused(r, store.BudgetError{Scope: store.ScopeConversation, Tokens: true, Limit: 1000, Held: 700, Want: 301})
	s.settle(store.Settlement{Reservation: "a", Tokens: 100, Usage: conversation.Usage{PromptTokens: 90, CompletionTokens: 10}})
	r.Tokens = 901
	s.refused(r, store.BudgetError{Scope: store.ScopeConversation, Tokens: true, Limit: 1000, Spent: 100, Want: 901})
	r.Tokens = 900
	s.reserve(r)
	r.ID, r.Ceilings.TreeTokens, r.Tokens = "c", nil, 4001
	s.refused(r, store.BudgetError{Scope: store.ScopeDay, Tokens: true, Limit: 5000, Spent: 100, Held: 900, Want: 4001})
	priced := reservation("p", "c", cents(5)) // ceilings in tokens are not for it
	priced.Ceilings = store.Ceilings{TreeTokens: limit(int64(1)), DayTokens: limit(int64(1))}
	s.reserve(priced)
}

// testWithoutPrice: an endpoint that reports costs has used the money up.
func testWithoutPrice(s *suite) {
	s.create("u", "c")
	r := store.Reservation{ID: "a", Conversation: "c", Owner: "u", Tokens: 100, Now: epoch,
		Ceilings: store.Ceilings{Tree: limit(cents(10)), Day: limit(cents(50))}}
	s.reserve(r)
	s.settle(store.Settlement{Reservation: "a", Cost: cents(10) - 1, Tokens: 50})
	r.ID = "b"
	s.reserve(r) // one unit is left
	s.settle(store.Settlement{Reservation: "b", Cost: cents(4), Tokens: 50})
	r.ID = "c"
	s.refused(r, store.BudgetError{Scope: store.ScopeConversation, Limit: int64(cents(10)), Spent: int64(cents(14)) - 1, Want: 1})
}

func testFreeAlwaysFits(s *suite) {
	s.create("u", "c")
	none := limit(conversation.Money(0))
	r := reservation("a", "c", 0)
	r.Ceilings = store.Ceilings{Tree: none, Own: none, Day: none, TreeTokens: limit(int64(0)), DayTokens: limit(int64(0))}
	s.reserve(r)
	r.ID, r.Amount = "b", 1
	s.refused(r, store.BudgetError{Scope: store.ScopeSub, Want: 1})
	r.Ceilings.Own, r.Ceilings.Tree = nil, limit(conversation.Money(-5)) // no less than none
	s.refused(r, store.BudgetError{Scope: store.ScopeConversation, Want: 1})
}

func testTightestCeiling(s *suite) {
	s.create("u", "c")
	s.reserve(reservation("held", "c", cents(50)))
	r := reservation("a", "c", cents(60))
	r.Ceilings = store.Ceilings{Tree: limit(cents(80)), Own: limit(cents(100)), Day: limit(cents(55))}
	s.refused(r, store.BudgetError{Scope: store.ScopeDay, Limit: int64(cents(55)), Held: int64(cents(50)), Want: int64(cents(60))})
	r.Ceilings.Day = limit(cents(200))
	s.refused(r, store.BudgetError{Scope: store.ScopeConversation, Limit: int64(cents(80)), Held: int64(cents(50)), Want: int64(cents(60))})
}

func testSettleTwice(s *suite) {
	s.family()
	s.reserve(reservation("a", "sub", cents(5)))
	s.reserve(reservation("b", "sub", cents(7)))
	s.settle(cost("a", cents(1)), cost("a", cents(3)))
	s.settle(cost("a", cents(2)))
	s.settle(cost("a", cents(2)), cost("b", cents(6)), cost("a", cents(2)))
	_, tree := s.spent("c")
	s.equal(tree, store.Spending{Calls: 2, Cost: cents(7), PromptTokens: 20, CompletionTokens: 10})
	s.equal(s.sums("c"), store.BudgetError{Scope: store.ScopeSub, Spent: int64(cents(7)), Want: 1})
	s.equal(probe(s.ctx, s.T, s.Ledger(), "", "u").Spent, int64(cents(7)))
}

func testSameReservationTwice(s *suite) {
	s.create("u", "c")
	s.reserve(reservation("a", "c", cents(5)))
	s.fails(s.Ledger().Reserve(s.ctx, reservation("a", "c", cents(5))), fault.Conflict, store.CodeExists)
	s.equal(s.sums("c").Held, int64(cents(5)))
	for _, bad := range []store.Reservation{reservation("", "c", 1), reservation("x", "c", -1),
		{ID: "x", Conversation: "c", Tokens: -1}, reservation("x", "c", math.MaxInt64)} {
		s.fails(s.Ledger().Reserve(s.ctx, bad), fault.Internal, "")
	}
	s.equal(s.sums("c").Held, int64(cents(5)))
}

func testOddNumbers(s *suite) {
	s.create("u", "c")
	s.reserve(reservation("a", "c", cents(5)))
	s.settle(store.Settlement{Reservation: "a", Cost: -5, Uncertain: -6, Tokens: -7, Usage: conversation.Usage{
		PromptTokens: -1, CompletionTokens: math.MinInt64, CacheReadTokens: -1, CacheWriteTokens: -1, ReasoningTokens: -1}})
	_, tree := s.spent("c")
	s.equal(tree, store.Spending{Calls: 1})
	s.equal(s.sums("c"), store.BudgetError{Scope: store.ScopeSub, Want: 1})
}

// testHugeSums: no number that an endpoint can make up turns a sum around.
func testHugeSums(s *suite) {
	s.family()
	const calls = 1280 // of the largest amount: more than an int64 holds
	parallel(s.T, 16, func(worker int) error {
		for i := range calls / 16 {
			id := fmt.Sprint(worker, "-", i)
			if err := s.Ledger().Reserve(s.ctx, reservation(id, "sub", 1<<53)); err != nil {
				return err
			}
			err := s.Ledger().Settle(s.ctx, store.Settlement{Reservation: id, Cost: math.MaxInt64, Uncertain: math.MaxInt64,
				Tokens: math.MaxInt64, Usage: conversation.Usage{PromptTokens: math.MaxInt64, CompletionTokens: math.MaxInt64}})
			if err != nil {
				return err
			}
		}
		return nil
	})
	_, tree := s.spent("c")
	if tree.Cost < 1e18 || tree.Uncertain < 1e18 || tree.PromptTokens < 1e18 || tree.Calls != calls {
		s.Errorf("sums %+v", tree)
	}
	r := reservation("more", "sub", 1)
	r.Ceilings.Tree = limit(conversation.Money(math.MaxInt64))
	var full *store.BudgetError
	if err := s.Ledger().Reserve(s.ctx, r); !errors.As(err, &full) || full.Left() >= 0 {
		s.Errorf("after huge sums: %v", err)
	}
}

func testReserveUnknown(s *suite) {
	s.fails(s.Ledger().Reserve(s.ctx, reservation("a", "nobody", 1)), fault.NotFound, "")
	s.create("u", "c")
	s.reserve(reservation("a", "c", 1))
	s.ok(s.Conversations().Delete(s.ctx, "c"))
	s.fails(s.Ledger().Reserve(s.ctx, reservation("b", "c", 1)), fault.NotFound, "")
	s.settle(cost("a", 1))
	s.fails(s.Ledger().Reserve(s.ctx, reservation("b", "c", 1)), fault.NotFound, "")
}

func testWithoutConversation(s *suite) {
	none := conversation.Money(0)
	r := reservation("a", "", cents(5))
	r.Use = store.UseProbe
	r.Ceilings = store.Ceilings{Tree: &none, Own: &none, TreeTokens: limit(int64(0)), Day: limit(cents(5))}
	s.reserve(r)
	s.settle(cost("a", cents(2)))
	r.ID, r.Amount = "b", cents(4)
	s.refused(r, store.BudgetError{Scope: store.ScopeDay, Limit: int64(cents(5)), Spent: int64(cents(2)), Want: int64(cents(4))})
	_, tree := s.spent("")
	s.equal(tree, store.Spending{})
	rows, err := s.Ledger().Days(s.ctx, "u", "2026-03-01", "2026-03-01")
	s.ok(err)
	s.equal(len(rows), 1)
	s.equal(rows[0].Use, store.UseProbe)
}

func testAppendSettles(s *suite) {
	s.create("u", "c")
	s.reserve(reservation("a", "c", cents(5)))
	add := store.Append{Conversation: "c", ExpectHead: 7, Events: []conversation.Event{plain("e", "A", "s", epoch)},
		Settle: []store.Settlement{cost("a", cents(3))}, Now: at(1)}
	s.fails(s.Events().Append(s.ctx, add), fault.Conflict, store.CodeHeadMoved)
	s.equal(s.sums("c").Held, int64(cents(5))) // neither events nor settlement
	add.ExpectHead = 0
	s.ok(s.Events().Append(s.ctx, add))
	s.equal(s.sums("c"), store.BudgetError{Scope: store.ScopeSub, Spent: int64(cents(3)), Want: 1})
	s.reserve(reservation("b", "c", cents(5)))
	add = store.Append{Conversation: "c", ExpectHead: 1, Events: []conversation.Event{plain("e", "A", "s", epoch)},
		Settle: []store.Settlement{cost("b", cents(3))}, Now: at(1)}
	s.fails(s.Events().Append(s.ctx, add), fault.Conflict, store.CodeExists) // the event's id is taken
	s.equal(s.sums("c").Held, int64(cents(5)))
	add.Events = nil // a summary alone settles too
	s.ok(s.Events().Append(s.ctx, add))
	s.equal(s.sums("c").Spent, int64(cents(6)))
}

func testOrphans(s *suite) {
	s.family()
	for i, holder := range []string{"dead", "alive", "dead", "gone"} {
		r := reservation(fmt.Sprint(i), "sub", cents(int64(i+1)))
		r.Holder = holder
		if i == 2 {
			r.Amount, r.Tokens = 0, 77
		}
		s.reserve(r)
	}
	n, err := s.Ledger().Orphans(s.ctx, []string{"dead", "gone", "never"})
	s.ok(err)
	s.equal(n, 3)
	s.equal(s.sums("c"), store.BudgetError{Scope: store.ScopeSub, Uncertain: int64(cents(5)), Held: int64(cents(2)), Want: 1})
	own, tree := s.spent("sub")
	s.equal(tree, store.Spending{Calls: 3, Uncertain: cents(5)})
	s.equal(own[store.UseAgent], tree)
	tokens := store.Reservation{ID: "t", Conversation: "c", Owner: "u", Tokens: 1, Now: epoch,
		Ceilings: store.Ceilings{TreeTokens: limit(int64(77))}}
	s.refused(tokens, store.BudgetError{Scope: store.ScopeConversation, Tokens: true, Limit: 77, Spent: 77, Want: 1})
	s.settle(cost("0", cents(1)), cost("3", cents(1))) // too late
	n, err = s.Ledger().Orphans(s.ctx, []string{"dead", "gone"})
	s.ok(err)
	s.equal(n, 0)
	_, tree = s.spent("sub")
	s.equal(tree.Cost, conversation.Money(0))
}

func testDeleteSub(s *suite) {
	s.family()
	for _, id := range []conversation.ID{"c", "sub", "subsub"} {
		s.reserve(reservation(string(id), id, cents(5)))
		s.settle(cost(string(id), cents(1)))
	}
	s.ok(s.Conversations().Delete(s.ctx, "subsub"))
	s.ok(s.Conversations().Delete(s.ctx, "sub"))
	_, tree := s.spent("c")
	s.equal(tree.Cost, cents(3)) // the tree has spent it
	for _, id := range []conversation.ID{"sub", "subsub"} {
		own, tree := s.spent(id)
		s.equal(len(own), 0)
		s.equal(tree, store.Spending{})
	}
	rows, err := s.Ledger().Days(s.ctx, "u", "2026-03-01", "2026-03-01")
	s.ok(err)
	s.equal(rows[0].Cost, cents(3))
}

func testDeleteParent(s *suite) {
	s.family()
	tree := store.Ceilings{Tree: limit(cents(10))}
	r := reservation("a", "sub", cents(6))
	r.Ceilings = tree
	s.reserve(r)
	s.ok(s.Conversations().Delete(s.ctx, "sub"))
	s.ok(s.Conversations().Delete(s.ctx, "c"))
	for _, id := range []conversation.ID{"subsub", "other"} { // they live, and their ceiling does
		r := reservation("b", id, cents(5))
		r.Ceilings = tree
		s.refused(r, store.BudgetError{Scope: store.ScopeConversation, Limit: int64(cents(10)), Held: int64(cents(6)), Want: int64(cents(5))})
	}
	s.settle(cost("a", cents(6)))
	r = reservation("b", "subsub", cents(5))
	r.Ceilings = tree
	s.refused(r, store.BudgetError{Scope: store.ScopeConversation, Limit: int64(cents(10)), Spent: int64(cents(6)), Want: int64(cents(5))})
	for _, id := range []conversation.ID{"subsub", "other"} {
		s.ok(s.Conversations().Delete(s.ctx, id))
	}
	_, sum := s.spent("c")
	s.equal(sum, store.Spending{}) // nothing needs it any more
}

func testDeleteWhileHeld(s *suite) {
	s.create("u", "c")
	s.reserve(reservation("a", "c", cents(6)))
	s.ok(s.Conversations().Delete(s.ctx, "c"))
	r := reservation("b", "", cents(5))
	r.Ceilings.Day = limit(cents(10))
	s.refused(r, store.BudgetError{Scope: store.ScopeDay, Limit: int64(cents(10)), Held: int64(cents(6)), Want: int64(cents(5))})
	s.settle(cost("a", cents(2)))
	s.reserve(r)
	own, tree := s.spent("c")
	s.equal(len(own), 0)
	s.equal(tree, store.Spending{})
}

// testDeleteBeforeFirstCall: the way up leads over conversations that never
// called a model and are gone.
func testDeleteBeforeFirstCall(s *suite) {
	s.family()
	r := reservation("a", "c", cents(6))
	r.Ceilings.Tree = limit(cents(10))
	s.reserve(r)
	s.ok(s.Conversations().Delete(s.ctx, "sub"))
	r = reservation("b", "subsub", cents(5))
	r.Ceilings.Tree = limit(cents(10))
	s.refused(r, store.BudgetError{Scope: store.ScopeConversation, Limit: int64(cents(10)), Held: int64(cents(6)), Want: int64(cents(5))})
}

func testCreateAgain(s *suite) {
	s.family()
	s.reserve(reservation("a", "sub", cents(6)))
	s.reserve(reservation("b", "subsub", cents(6)))
	s.ok(s.Conversations().Delete(s.ctx, "sub"))
	s.fails(s.Ledger().Reserve(s.ctx, reservation("x", "sub", 1)), fault.NotFound, "")
	s.create("u", "sub")
	s.reserve(reservation("x", "sub", 1))
}

func testCircle(s *suite) {
	s.create("u", "a", func(c *conversation.Conversation) { c.ParentID = "b" })
	s.create("u", "b", func(c *conversation.Conversation) { c.ParentID = "a" })
	s.create("u", "self", func(c *conversation.Conversation) { c.ParentID = "self" })
	for _, id := range []conversation.ID{"a", "b", "self"} {
		s.fails(s.Ledger().Reserve(s.ctx, reservation("x", id, 1)), fault.Internal, "")
	}
	s.ok(s.Conversations().Delete(s.ctx, "self"))
	s.ok(s.Conversations().Delete(s.ctx, "a"))
	s.ok(s.Conversations().Delete(s.ctx, "b"))
}

func testCanceledReserve(s *suite) {
	s.create("u", "c")
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if err := s.Ledger().Reserve(ctx, reservation("a", "c", 5)); !errors.Is(err, context.Canceled) {
		s.Fatal(err)
	}
	s.equal(s.sums("c").Held, int64(0))
}

// testFailedReserve: on any error nothing is held, and the id is free.
func testFailedReserve(s *suite) {
	s.create("u", "c")
	s.create("u", "circle", func(c *conversation.Conversation) { c.ParentID = "circle" })
	s.reserve(reservation("taken", "c", cents(5)))
	full := reservation("x", "c", cents(2))
	full.Ceilings.Tree = limit(cents(6))
	unknown, circle, taken := reservation("x", "nobody", cents(2)), reservation("x", "circle", cents(2)), reservation("taken", "c", cents(2))
	for name, r := range map[string]store.Reservation{"too much": full, "unknown": unknown, "in a circle": circle, "taken": taken,
		"impossible": reservation("x", "c", -1)} {
		if err := s.Ledger().Reserve(s.ctx, r); err == nil {
			s.Fatalf("%s: it is reserved", name)
		}
		s.equal(s.sums("c").Held, int64(cents(5)))
		s.equal(probe(s.ctx, s.T, s.Ledger(), "", "u").Held, int64(cents(5)))
	}
	s.settle(cost("x", cents(2))) // of nothing
	s.equal(s.sums("c").Spent, int64(0))
	s.reserve(reservation("x", "c", cents(2)))
}

// testReserveAsContextsEnd: a call whose context ends in the middle either holds
// or fails, never both.
func testReserveAsContextsEnd(s *suite) {
	const workers, rounds = 8, 40
	s.create("u", "c")
	parallel(s.T, workers, func(worker int) error {
		for round := range rounds {
			ctx, cancel := context.WithTimeout(s.ctx, time.Duration(round)*30*time.Microsecond)
			r := reservation(fmt.Sprint(worker, "-", round), "c", 1)
			err := s.Ledger().Reserve(ctx, r)
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			again := s.Ledger().Reserve(s.ctx, r)
			switch held := fault.CodeOf(again) == store.CodeExists; {
			case held && err != nil:
				return fmt.Errorf("held in spite of the error: %w", err)
			case !held && err == nil:
				return fmt.Errorf("not held, and there was no error; then: %w", again)
			case !held && again != nil:
				return again
			}
		}
		return nil
	})
	s.equal(s.sums("c").Held, int64(workers*rounds)) // each once: the failed ones were made again
}

// hunt lets n goroutines reserve until nothing fits and returns the sum they got.
func (s *suite) hunt(n int, ask func(worker, round int) store.Reservation) int64 {
	var total atomic.Int64
	parallel(s.T, n, func(worker int) error {
		for round := range 1000 {
			r := ask(worker, round)
			err := s.Ledger().Reserve(s.ctx, r)
			var full *store.BudgetError
			if errors.As(err, &full) {
				if full.Want <= full.Left() {
					return fmt.Errorf("refused although it fits: %w", err)
				}
				return nil
			}
			if err != nil {
				return err
			}
			total.Add(int64(r.Amount))
		}
		return errors.New("there is no end to it")
	})
	return total.Load()
}

// testLastCent: many sub-conversations reserve at once until nothing fits.
func testLastCent(s *suite) {
	const workers = 16
	s.create("u", "c")
	for i := range workers {
		s.create("u", fmt.Sprint("w", i), func(c *conversation.Conversation) { c.ParentID = "c" })
	}
	got := s.hunt(workers, func(worker, round int) store.Reservation {
		r := reservation(fmt.Sprint(worker, "-", round), conversation.ID(fmt.Sprint("w", worker)), cents(1))
		r.Ceilings.Tree = limit(cents(101))
		return r
	})
	s.equal(got, int64(cents(101)))
	s.equal(s.sums("c").Held, got)
	var below int64
	for i := range workers {
		below += s.sums(conversation.ID(fmt.Sprint("w", i))).Held
	}
	s.equal(below, got)
}

func testLastCentOfTheDay(s *suite) {
	const workers = 16
	for i := range workers {
		s.create("u", fmt.Sprint("w", i))
	}
	got := s.hunt(workers, func(worker, round int) store.Reservation {
		r := reservation(fmt.Sprint(worker, "-", round), conversation.ID(fmt.Sprint("w", worker)), cents(3))
		r.Ceilings.Day = limit(cents(100))
		return r
	})
	s.equal(got, int64(cents(99)))
	s.equal(probe(s.ctx, s.T, s.Ledger(), "", "u").Held, got)
}

// testParallelSettle: the same settlements from everywhere count once.
func testParallelSettle(s *suite) {
	s.family()
	var all []store.Settlement
	for i := range 20 {
		id := fmt.Sprint(i)
		s.reserve(reservation(id, "sub", cents(5)))
		all = append(all, cost(id, cents(int64(i))))
	}
	parallel(s.T, 16, func(i int) error {
		turned := append(append([]store.Settlement(nil), all[i:]...), all[:i]...)
		return s.Ledger().Settle(s.ctx, turned...)
	})
	_, tree := s.spent("c")
	s.equal(tree.Cost, cents(190))
	s.equal(tree.Calls, int64(20))
	s.equal(s.sums("c").Held, int64(0))
}
