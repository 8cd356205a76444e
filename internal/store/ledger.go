package store

import (
	"context"
	"fmt"
	"time"

	"parley/internal/conversation"
)

// Uses of a model call, as metrics name them (usage ids).
const (
	UseAgent     = "agent"
	UseTitle     = "title"
	UseCondenser = "condenser"
	UseAnalyzer  = "analyzer"
	UseProbe     = "probe" // a test of a profile
	UseVision    = "vision"
	UseAsk       = "ask"   // a question of the user beside the run
	UseJudge     = "judge" // of a goal, or a critic
	UseHook      = "hook"  // a hook that asks a model
	UseRemember  = "remember"
)

// Ceilings are what the calls of a conversation may cost together. nil is none.
// A call with a known price must fit under the amounts. One without must fit
// under the tokens, and does not start where an amount is used up.
type Ceilings struct {
	Tree       *conversation.Money // the conversation's root with all sub-conversations below it
	Own        *conversation.Money // this conversation with those below it
	Day        *conversation.Money // the owner's calls of one day
	TreeTokens *int64
	DayTokens  *int64
}

// Reservation sets aside the worst case of one model call before it is made.
type Reservation struct {
	ID           string
	Conversation conversation.ID // "" = none: only the day's ceiling applies
	Owner        string
	Use          string
	Model        string
	Amount       conversation.Money // worst case; 0 where the price is unknown
	Tokens       int64              // worst case where the price is unknown, else 0
	// Ceilings hold for this reservation. Own is remembered too, nil as well: the
	// reservations of sub-conversations must fit under it until this conversation
	// gives another.
	Ceilings Ceilings
	Holder   string    // the server that makes the call
	Now      time.Time // its UTC date is the day it counts for
}

// Settlement replaces a reservation by what the call cost. Settling one that is
// settled, or unknown, changes nothing: it is safe to repeat. One that is zero
// but for the reservation says that there was no call: it is not counted.
// Negative numbers, which providers do report, count as 0.
type Settlement struct {
	Reservation string
	Cost        conversation.Money // known, or estimated where Uncertain is set
	// Uncertain is what may have been charged on top: the call broke off, and its
	// provider may or may not send a bill. It counts against the ceilings, not as cost.
	Uncertain conversation.Money
	Tokens    int64 // of a call without a known price: what counts against token ceilings
	Usage     conversation.Usage
}

// BudgetScope names a ceiling.
type BudgetScope string

// The ceilings that can be reached.
const (
	ScopeConversation BudgetScope = "conversation" // Ceilings.Tree
	ScopeSub          BudgetScope = "sub_conversation"
	ScopeDay          BudgetScope = "day"
)

// BudgetError says that a reservation does not fit. Amounts are Money, or tokens
// where Tokens is set.
type BudgetError struct {
	Scope     BudgetScope
	Tokens    bool
	Limit     int64
	Spent     int64 // settled for sure
	Uncertain int64 // may have been charged
	Held      int64 // reserved by calls that are under way
	Want      int64 // the refused reservation
}

// Error returns the text for logs.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("budget of the %s: limit %d, spent %d, uncertain %d, held %d, wanted %d",
		e.Scope, e.Limit, e.Spent, e.Uncertain, e.Held, e.Want)
}

// Left is what a reservation could still get now; it may be negative.
func (e *BudgetError) Left() int64 { return e.Limit - e.Spent - e.Uncertain - e.Held }

// Spending sums calls.
type Spending struct {
	Calls            int64 // settled
	Cost             conversation.Money
	Uncertain        conversation.Money
	PromptTokens     int64
	CompletionTokens int64
	CacheReadTokens  int64
	CacheWriteTokens int64
	ReasoningTokens  int64
}

// SpendingRow is the spending of one day (UTC, "2006-01-02"), use and model.
type SpendingRow struct {
	Day   string
	Use   string
	Model string
	Spending
}

// Ledger keeps what model calls cost. It is the truth about money; the metrics
// in a log are what a conversation shows of it. Deleting a conversation keeps
// what its owner spent by day.
type Ledger interface {
	// Reserve holds the worst case of a call, in one transaction over the
	// conversation, all above it (as the records say), and the day; *BudgetError if
	// it does not fit under one of the ceilings: the one with the least room apart
	// from what is held. A ceiling that is reached exactly is not passed, and what
	// is free always fits. NotFound for a conversation that is not there: it may
	// not spend any more. Conflict (CodeExists) for an id that is reserved. On any
	// error nothing is held, also where ctx ends in the middle.
	Reserve(ctx context.Context, r Reservation) error
	// Settle replaces reservations by their outcome. Events.Append does the same in
	// the transaction of the events (Append.Settle).
	Settle(ctx context.Context, s ...Settlement) error
	// Orphans settles what dead holders reserved: the call may have been made, so
	// the whole amount becomes uncertain. It returns how many there were.
	Orphans(ctx context.Context, deadHolders []string) (int, error)
	// Conversation returns the spending by use of a conversation alone, and the sum
	// with all below it, also those that were deleted. Zero for one that never
	// called a model.
	Conversation(ctx context.Context, id conversation.ID) (own map[string]Spending, tree Spending, err error)
	// Days returns an owner's spending from one day to another, both inclusive,
	// ordered by day, use and model.
	Days(ctx context.Context, owner, from, to string) ([]SpendingRow, error)
}
