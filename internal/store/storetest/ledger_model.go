package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

// book is the ledger as its rules say it, without a database: nothing but a
// list of what happened. Every sum is counted anew.
type book struct {
	parents map[conversation.ID]conversation.ID // of all conversations that ever were
	gone    map[conversation.ID]bool
	own     map[conversation.ID]*conversation.Money
	open    map[string]store.Reservation
	settled []bookEntry
}

type bookEntry struct {
	r store.Reservation
	s store.Settlement
}

// bookSums are what a ceiling looks at.
type bookSums struct{ spent, uncertain, held, tokens, tokensHeld int64 }

func (b *book) below(id, top conversation.ID) bool {
	for ; id != ""; id = b.parents[id] {
		if id == top {
			return true
		}
	}
	return false
}

func (b *book) sums(counts func(store.Reservation) bool) bookSums {
	var out bookSums
	for _, r := range b.open {
		if counts(r) {
			out.held += int64(r.Amount)
			out.tokensHeld += r.Tokens
		}
	}
	for _, e := range b.settled {
		if counts(e.r) {
			out.spent += int64(e.s.Cost)
			out.uncertain += int64(e.s.Uncertain)
			out.tokens += e.s.Tokens
		}
	}
	return out
}

func (b *book) tree(top conversation.ID) bookSums {
	return b.sums(func(r store.Reservation) bool { return r.Conversation != "" && b.below(r.Conversation, top) })
}

func (b *book) day(owner, day string) bookSums {
	return b.sums(func(r store.Reservation) bool { return r.Owner == owner && r.Now.UTC().Format("2006-01-02") == day })
}

// reserve says what Reserve must do: nil, a refusal, or errNotFound.
func (b *book) reserve(r store.Reservation) error {
	if r.Conversation != "" && b.gone[r.Conversation] {
		return errNotFound
	}
	var tightest *store.BudgetError
	check := func(scope store.BudgetScope, s bookSums, money *conversation.Money, tokens *int64) {
		want := int64(r.Amount)
		if r.Tokens > 0 {
			want = 1
		}
		var found []*store.BudgetError
		if money != nil && want > 0 {
			found = append(found, &store.BudgetError{Scope: scope, Limit: int64(*money), Spent: s.spent, Uncertain: s.uncertain, Held: s.held, Want: want})
		}
		if tokens != nil && r.Tokens > 0 {
			found = append(found, &store.BudgetError{Scope: scope, Tokens: true, Limit: *tokens, Spent: s.tokens, Held: s.tokensHeld, Want: r.Tokens})
		}
		for _, f := range found {
			room := f.Limit - f.Spent - f.Uncertain
			if f.Held+f.Want > room && (tightest == nil || room < tightest.Limit-tightest.Spent-tightest.Uncertain) {
				tightest = f
			}
		}
	}
	root := conversation.ID("")
	for id := r.Conversation; id != ""; id = b.parents[id] {
		limit := b.own[id]
		if id == r.Conversation {
			limit = r.Ceilings.Own
		}
		check(store.ScopeSub, b.tree(id), limit, nil)
		root = id
	}
	if root != "" {
		check(store.ScopeConversation, b.tree(root), r.Ceilings.Tree, r.Ceilings.TreeTokens)
	}
	check(store.ScopeDay, b.day(r.Owner, r.Now.UTC().Format("2006-01-02")), r.Ceilings.Day, r.Ceilings.DayTokens)
	if tightest != nil {
		return tightest
	}
	b.open[r.ID] = r
	if r.Conversation != "" {
		b.own[r.Conversation] = r.Ceilings.Own
	}
	return nil
}

var errNotFound = errors.New("not found")

func (b *book) settle(s store.Settlement) {
	if r, ok := b.open[s.Reservation]; ok {
		delete(b.open, s.Reservation)
		b.settled = append(b.settled, bookEntry{r, s})
	}
}

func (b *book) orphans(holder string) int {
	n := 0
	for _, id := range slices.Sorted(maps.Keys(b.open)) {
		if r := b.open[id]; r.Holder == holder {
			s := store.Settlement{Reservation: id, Uncertain: r.Amount, Tokens: r.Tokens}
			s.Usage.Model = r.Model
			b.settle(s)
			n++
		}
	}
	return n
}

// needed reports whether the ledger must still know a conversation.
func (b *book) needed(id conversation.ID) bool {
	for other := range b.parents {
		if !b.gone[other] && b.below(other, id) {
			return true
		}
	}
	for _, r := range b.open {
		if b.below(r.Conversation, id) {
			return true
		}
	}
	return false
}

// spending counts what entries of a kind add up to.
func (b *book) spending(counts func(store.Reservation) bool) store.Spending {
	var out store.Spending
	for _, e := range b.settled {
		if !counts(e.r) || e.s == (store.Settlement{Reservation: e.s.Reservation}) {
			continue
		}
		out.Calls++
		out.Cost += e.s.Cost
		out.Uncertain += e.s.Uncertain
		out.PromptTokens += e.s.Usage.PromptTokens
		out.CompletionTokens += e.s.Usage.CompletionTokens
		out.CacheReadTokens += e.s.Usage.CacheReadTokens
	}
	return out
}

// testLikeTheModel drives the ledger and the book with the same random history.
func testLikeTheModel(s *suite) {
	run := 0
	rapid.Check(s.T, func(t *rapid.T) {
		run++
		newDuel(s, fmt.Sprint("run", run, "-")).play(t)
	})
}

// duel is one history; prefix keeps the ids and owners of histories apart.
type duel struct {
	s      *suite
	prefix string
	b      *book
	seq    int
}

func newDuel(s *suite, prefix string) *duel {
	d := &duel{s: s, prefix: prefix, b: &book{parents: map[conversation.ID]conversation.ID{}, gone: map[conversation.ID]bool{},
		own: map[conversation.ID]*conversation.Money{}, open: map[string]store.Reservation{}}}
	for id, parent := range map[string]string{"a": "", "b": "a", "c": "a", "d": "b", "e": "d", "z": "", "y": "z"} {
		d.b.parents[d.id(id)] = d.id(parent)
		s.create("owner", string(d.id(id)), func(c *conversation.Conversation) { c.ParentID = d.id(parent) })
	}
	return d
}

func (d *duel) id(name string) conversation.ID {
	if name == "" {
		return ""
	}
	return conversation.ID(d.prefix + name)
}

func (d *duel) owner(name string) string { return d.prefix + name }

func (d *duel) ids() []conversation.ID { return slices.Sorted(maps.Keys(d.b.parents)) }

func (d *duel) play(t *rapid.T) {
	t.Repeat(map[string]func(*rapid.T){
		"reserve": d.reserve,
		"more":    d.reserve, // most often
		"settle":  d.settle,
		"append":  d.append,
		"orphans": d.orphans,
		"delete":  d.remove,
		"":        d.compare,
	})
}

func maybe[T any](t *rapid.T, name string, g *rapid.Generator[T]) *T {
	if rapid.Bool().Draw(t, name) {
		return nil
	}
	return limit(g.Draw(t, name))
}

func (d *duel) reserve(t *rapid.T) {
	d.seq++
	money := rapid.Custom(func(t *rapid.T) conversation.Money {
		return conversation.Money(rapid.Int64Range(0, 60).Draw(t, "limit"))
	})
	r := store.Reservation{ID: fmt.Sprint(d.prefix, "r", d.seq), Conversation: rapid.SampledFrom(append(d.ids(), "")).Draw(t, "conversation"),
		Owner: d.owner(rapid.SampledFrom([]string{"u", "v"}).Draw(t, "owner")), Use: rapid.SampledFrom([]string{"agent", "title"}).Draw(t, "use"),
		Model: rapid.SampledFrom([]string{"m", "n"}).Draw(t, "model"), Holder: d.prefix + rapid.SampledFrom([]string{"1", "2"}).Draw(t, "holder"),
		Now: at(rapid.IntRange(0, 2).Draw(t, "day") * 86400), Ceilings: store.Ceilings{
			Tree: maybe(t, "tree", money), Own: maybe(t, "own", money), Day: maybe(t, "day", money),
			TreeTokens: maybe(t, "tree tokens", rapid.Int64Range(0, 60)), DayTokens: maybe(t, "day tokens", rapid.Int64Range(0, 60))}}
	if rapid.Bool().Draw(t, "priced") {
		r.Amount = conversation.Money(rapid.Int64Range(0, 20).Draw(t, "amount"))
	} else {
		r.Tokens = rapid.Int64Range(1, 20).Draw(t, "tokens")
	}
	want := d.b.reserve(r)
	got := d.s.Ledger().Reserve(d.s.ctx, r)
	var wantFull, gotFull *store.BudgetError
	switch {
	case want == nil && got != nil, want != nil && got == nil:
		t.Fatalf("reserve %+v: %v, want %v", r, got, want)
	case errors.Is(want, errNotFound) && !fault.Is(got, fault.NotFound):
		t.Fatalf("reserve for a conversation that is gone: %v", got)
	case errors.As(want, &wantFull) && (!errors.As(got, &gotFull) || gotFull.Left()+gotFull.Held != wantFull.Left()+wantFull.Held):
		t.Fatalf("reserve %+v:\n got %v\nwant %v", r, got, want) // of equally tight ones any may be named
	}
}

// outcome draws the settlement of an open reservation, or of one long settled.
func (d *duel) outcome(t *rapid.T) (store.Settlement, bool) {
	ids := slices.Sorted(maps.Keys(d.b.open))
	for _, e := range d.b.settled {
		ids = append(ids, e.r.ID)
	}
	if len(ids) == 0 {
		return store.Settlement{}, false
	}
	id := rapid.SampledFrom(ids).Draw(t, "reservation")
	r := d.b.open[id]
	s := store.Settlement{Reservation: id, Cost: conversation.Money(rapid.Int64Range(0, int64(r.Amount)).Draw(t, "cost"))}
	s.Uncertain = conversation.Money(rapid.Int64Range(0, int64(r.Amount-s.Cost)).Draw(t, "uncertain"))
	s.Tokens = rapid.Int64Range(0, r.Tokens).Draw(t, "tokens")
	s.Usage.PromptTokens = rapid.Int64Range(0, 9).Draw(t, "prompt")
	s.Usage.CompletionTokens = rapid.Int64Range(0, 9).Draw(t, "completion")
	s.Usage.CacheReadTokens = rapid.Int64Range(0, 9).Draw(t, "read")
	return s, true
}

func (d *duel) settle(t *rapid.T) {
	var list []store.Settlement
	for range rapid.IntRange(1, 3).Draw(t, "settlements") {
		s, ok := d.outcome(t)
		if !ok {
			t.Skip("nothing reserved")
		}
		d.b.settle(s)
		list = append(list, s)
	}
	if err := d.s.Ledger().Settle(d.s.ctx, list...); err != nil {
		t.Fatal(err)
	}
}

// append settles with events, right or too late.
func (d *duel) append(t *rapid.T) {
	s, ok := d.outcome(t)
	id := d.id(rapid.SampledFrom([]string{"a", "z", "e"}).Draw(t, "log"))
	if !ok || d.b.gone[id] {
		t.Skip("nothing reserved, or no log")
	}
	d.seq++
	late := rapid.Bool().Draw(t, "late")
	a := store.Append{Conversation: id, ExpectHead: d.s.get(id).Summary.Head, Settle: []store.Settlement{s},
		Events: []conversation.Event{plain(fmt.Sprint("e", d.seq), "A", "s", epoch)}, Now: epoch}
	if late {
		a.ExpectHead++
	} else {
		d.b.settle(s)
	}
	if err := d.s.Events().Append(d.s.ctx, a); late != (err != nil) {
		t.Fatalf("append (late %v): %v", late, err)
	}
}

func (d *duel) orphans(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
		t.Skip("nobody died")
	}
	holder := d.prefix + rapid.SampledFrom([]string{"1", "2"}).Draw(t, "holder")
	n, err := d.s.Ledger().Orphans(d.s.ctx, []string{holder, "nobody"})
	if want := d.b.orphans(holder); err != nil || n != want {
		t.Fatalf("orphans: %d, %v, want %d", n, err, want)
	}
}

func (d *duel) remove(t *rapid.T) {
	id := rapid.SampledFrom(d.ids()).Draw(t, "conversation")
	if d.b.gone[id] || rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
		t.Skip("not now")
	}
	d.b.gone[id] = true
	if err := d.s.Conversations().Delete(d.s.ctx, id); err != nil {
		t.Fatal(err)
	}
}

// compare looks at everything that can be seen.
func (d *duel) compare(t *rapid.T) {
	for _, id := range d.ids() {
		d.compareConversation(t, id)
	}
	for _, owner := range []string{d.owner("u"), d.owner("v")} {
		rows, err := d.s.Ledger().Days(d.s.ctx, owner, "0000", "9999")
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, row := range rows {
			seen[row.Day+row.Use+row.Model] = true
			want := d.b.spending(func(r store.Reservation) bool {
				return r.Owner == owner && r.Now.Format("2006-01-02") == row.Day && r.Use == row.Use && r.Model == row.Model
			})
			if row.Spending != want {
				t.Fatalf("day %+v, want %+v", row, want)
			}
		}
		for _, e := range d.b.settled {
			called := e.s != (store.Settlement{Reservation: e.s.Reservation})
			if called && e.r.Owner == owner && !seen[e.r.Now.Format("2006-01-02")+e.r.Use+e.r.Model] {
				t.Fatalf("no row for %+v", e)
			}
		}
	}
}

func (d *duel) compareConversation(t *rapid.T, id conversation.ID) {
	own, tree, err := d.s.Ledger().Conversation(d.s.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if d.b.gone[id] && !d.b.needed(id) {
		if tree != (store.Spending{}) || len(own) != 0 {
			t.Fatalf("%s is gone and not needed, and there is %+v", id, tree)
		}
		return
	}
	if want := d.b.spending(func(r store.Reservation) bool { return d.b.below(r.Conversation, id) }); tree != want {
		t.Fatalf("tree of %s: %+v, want %+v", id, tree, want)
	}
	for _, use := range []string{"agent", "title"} {
		want := d.b.spending(func(r store.Reservation) bool { return r.Conversation == id && r.Use == use })
		if got := own[use]; got != want {
			t.Fatalf("%s of %s: %+v, want %+v", use, id, got, want)
		}
	}
	if d.b.gone[id] {
		return
	}
	full := probe(d.s.ctx, d.s.T, d.s.Ledger(), id, d.owner("w"))
	if strings.HasPrefix(string(full.Scope), "sub") && full.Limit == 0 {
		want := d.b.tree(id)
		if full.Held != want.held || full.Spent != want.spent || full.Uncertain != want.uncertain {
			d.compareTightest(t, id, full)
		}
	}
}

// compareTightest accepts the sums of an ancestor with an own ceiling that is
// even tighter than the probe's.
func (d *duel) compareTightest(t *rapid.T, id conversation.ID, full store.BudgetError) {
	for up := id; up != ""; up = d.b.parents[up] {
		if s := d.b.tree(up); full.Held == s.held && full.Spent == s.spent && full.Uncertain == s.uncertain {
			return
		}
	}
	t.Fatalf("sums of %s: %+v", id, full)
}
