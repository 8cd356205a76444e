package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"parley/internal/conversation"
	"parley/internal/store"
)

// Bounds of one amount (9 million USD) and of a sum. Neither the sum of both nor
// the difference of a few sums overflows.
const (
	maxAmount = 1 << 53
	maxSum    = 1 << 60
)

// plus adds within the bounds; b may be negative.
func plus(a, b int64) int64 { return min(max(a+b, 0), maxSum) }

func clampCount(n int64) int64 { return min(max(n, 0), maxAmount) }

// purse is what ceilings look at.
type purse struct {
	held       int64 // money of open reservations
	tokens     int64 // of settled calls without a known price
	tokensHeld int64
	spent      store.Spending
}

const (
	spendingColumns = `calls, cost, uncertain, prompt_tokens, completion_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens`
	purseColumns    = `held, tokens, tokens_held, ` + spendingColumns
)

// spendingInto are the members in the order of spendingColumns, for Scan.
func spendingInto(s *store.Spending) []any {
	return []any{&s.Calls, (*int64)(&s.Cost), (*int64)(&s.Uncertain), &s.PromptTokens, &s.CompletionTokens,
		&s.CacheReadTokens, &s.CacheWriteTokens, &s.ReasoningTokens}
}

func spendingValues(s store.Spending) []any {
	return []any{s.Calls, int64(s.Cost), int64(s.Uncertain), s.PromptTokens, s.CompletionTokens,
		s.CacheReadTokens, s.CacheWriteTokens, s.ReasoningTokens}
}

// addSpending adds b to a.
func addSpending(a *store.Spending, b store.Spending) {
	a.Calls = plus(a.Calls, b.Calls)
	a.Cost = conversation.Money(plus(int64(a.Cost), int64(b.Cost)))
	a.Uncertain = conversation.Money(plus(int64(a.Uncertain), int64(b.Uncertain)))
	a.PromptTokens = plus(a.PromptTokens, b.PromptTokens)
	a.CompletionTokens = plus(a.CompletionTokens, b.CompletionTokens)
	a.CacheReadTokens = plus(a.CacheReadTokens, b.CacheReadTokens)
	a.CacheWriteTokens = plus(a.CacheWriteTokens, b.CacheWriteTokens)
	a.ReasoningTokens = plus(a.ReasoningTokens, b.ReasoningTokens)
}

// spendingOf is what a settlement adds. A call that was not made adds nothing.
func spendingOf(s store.Settlement) store.Spending {
	if s == (store.Settlement{Reservation: s.Reservation}) {
		return store.Spending{}
	}
	u := s.Usage
	return store.Spending{Calls: 1, Cost: conversation.Money(clampCount(int64(s.Cost))),
		Uncertain:    conversation.Money(clampCount(int64(s.Uncertain))),
		PromptTokens: clampCount(u.PromptTokens), CompletionTokens: clampCount(u.CompletionTokens),
		CacheReadTokens: clampCount(u.CacheReadTokens), CacheWriteTokens: clampCount(u.CacheWriteTokens),
		ReasoningTokens: clampCount(u.ReasoningTokens)}
}

func (p *purse) into() []any {
	return append([]any{&p.held, &p.tokens, &p.tokensHeld}, spendingInto(&p.spent)...)
}

func (p *purse) values() []any {
	return append([]any{p.held, p.tokens, p.tokensHeld}, spendingValues(p.spent)...)
}

func (p *purse) hold(r store.Reservation) {
	p.held = plus(p.held, int64(r.Amount))
	p.tokensHeld = plus(p.tokensHeld, r.Tokens)
}

func (p *purse) settle(r *store.Reservation, spent store.Spending, tokens int64) {
	p.held = plus(p.held, -int64(r.Amount))
	p.tokensHeld = plus(p.tokensHeld, -r.Tokens)
	p.tokens = plus(p.tokens, tokens)
	addSpending(&p.spent, spent)
}

// checkMoney returns why a reservation does not fit, nil if it does. One without
// a price wants the smallest amount: nothing starts where nothing is left.
func (p *purse) checkMoney(r store.Reservation, limit *conversation.Money) *store.BudgetError {
	want := int64(r.Amount)
	if want == 0 && r.Tokens > 0 {
		want = 1
	}
	if limit == nil || want == 0 {
		return nil
	}
	return over(&store.BudgetError{Limit: clampLimit(int64(*limit)), Spent: int64(p.spent.Cost),
		Uncertain: int64(p.spent.Uncertain), Held: p.held, Want: want})
}

func (p *purse) checkTokens(r store.Reservation, limit *int64) *store.BudgetError {
	if limit == nil || r.Tokens == 0 {
		return nil
	}
	return over(&store.BudgetError{Tokens: true, Limit: clampLimit(*limit), Spent: p.tokens, Held: p.tokensHeld, Want: r.Tokens})
}

func clampLimit(n int64) int64 { return min(max(n, 0), maxSum) }

// over returns e if its want does not fit.
func over(e *store.BudgetError) *store.BudgetError {
	if e.Want > e.Left() {
		return e
	}
	return nil
}

// spendDay is an owner's day.
type spendDay struct {
	owner, day string
	purse
}

func loadDay(ctx context.Context, t *tx, owner, day string) (*spendDay, error) {
	d := &spendDay{owner: owner, day: day}
	err := t.row(ctx, `SELECT `+purseColumns+` FROM spend_days WHERE owner = $1 AND day = $2`, owner, day).Scan(d.into()...)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	return d, nil
}

func (d *spendDay) store(t *tx) error {
	return t.exec(`INSERT INTO spend_days (owner, day, `+purseColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		ON CONFLICT (owner, day) DO UPDATE SET `+replacePurse, append([]any{d.owner, d.day}, d.values()...)...)
}

const (
	replacePurse = `held = excluded.held, tokens = excluded.tokens, tokens_held = excluded.tokens_held, ` + replaceSpending

	replaceSpending = `calls = excluded.calls, cost = excluded.cost, uncertain = excluded.uncertain,
		prompt_tokens = excluded.prompt_tokens, completion_tokens = excluded.completion_tokens,
		cache_read_tokens = excluded.cache_read_tokens, cache_write_tokens = excluded.cache_write_tokens,
		reasoning_tokens = excluded.reasoning_tokens`
)

// addUse adds to what a conversation alone has spent.
func addUse(ctx context.Context, t *tx, r *store.Reservation, spent store.Spending) error {
	if r.Conversation == "" {
		return nil
	}
	sum, err := loadSpending(ctx, t, `SELECT `+spendingColumns+` FROM spend_uses WHERE conversation = $1 AND use = $2`,
		string(r.Conversation), r.Use)
	if err != nil {
		return err
	}
	addSpending(&sum, spent)
	return t.exec(`INSERT INTO spend_uses (conversation, use, `+spendingColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (conversation, use) DO UPDATE SET `+replaceSpending,
		append([]any{string(r.Conversation), r.Use}, spendingValues(sum)...)...)
}

// addDayUse adds to a day's spending by use and model.
func addDayUse(ctx context.Context, t *tx, r *store.Reservation, spent store.Spending) error {
	key := []any{r.Owner, dayOf(r.Now), r.Use, r.Model}
	sum, err := loadSpending(ctx, t, `SELECT `+spendingColumns+` FROM spend_day_uses
		WHERE owner = $1 AND day = $2 AND use = $3 AND model = $4`, key...)
	if err != nil {
		return err
	}
	addSpending(&sum, spent)
	return t.exec(`INSERT INTO spend_day_uses (owner, day, use, model, `+spendingColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (owner, day, use, model) DO UPDATE SET `+replaceSpending, append(key, spendingValues(sum)...)...)
}

// loadSpending reads one row of sums; zeros if there is none.
func loadSpending(ctx context.Context, t *tx, text string, args ...any) (store.Spending, error) {
	var sum store.Spending
	err := t.row(ctx, text, args...).Scan(spendingInto(&sum)...)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return sum, err
	}
	return sum, nil
}
