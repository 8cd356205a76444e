package spend

import (
	"fmt"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

// Fault codes of this package.
const (
	CodeExceeded = "budget_reached"  // a ceiling has no room for the next call
	CodeNoPrice  = "price_not_known" // a ceiling in USD, and no way to keep it
)

// Exceeded says that a ceiling is reached: the call was not made, and no other
// call has to end for that to be final. It is a fault too: fault.PublicText
// returns a text for users with the figures and what to do.
type Exceeded struct {
	Model string
	// Budget holds the figures. Want is the least that a useful call would need. It
	// is nil where the model has no known price and no token ceiling stands in.
	Budget *store.BudgetError

	said *fault.Error
}

// Error returns the text for logs.
func (e *Exceeded) Error() string {
	if e.Budget == nil {
		return e.said.Public
	}
	return "spend: " + e.Model + ": " + e.Budget.Error()
}

// Unwrap returns the fault and the ledger's refusal.
func (e *Exceeded) Unwrap() []error {
	if e.Budget == nil {
		return []error{e.said}
	}
	return []error{e.said, e.Budget}
}

func exceeded(model string, b *store.BudgetError) *Exceeded {
	said := fault.New(fault.Conflict, CodeExceeded, "%s: %s", headline(b), figures(b)).WithHint("%s", wayOut(b))
	return &Exceeded{Model: model, Budget: b, said: said}
}

func headline(b *store.BudgetError) string {
	what := "cost"
	if b.Tokens {
		what = "token"
	}
	switch b.Scope {
	case store.ScopeDay:
		return "Your " + what + " ceiling of today (UTC) is reached"
	case store.ScopeSub:
		return "The sub-conversation has reached its " + what + " ceiling"
	}
	return "The conversation has reached its " + what + " ceiling"
}

// figures says where the money is.
func figures(b *store.BudgetError) string {
	show := func(n int64) string { return conversation.Money(n).String() }
	if b.Tokens {
		show = func(n int64) string { return fmt.Sprintf("%d tokens", n) }
	}
	text := fmt.Sprintf("%s of %s are spent", show(b.Spent), show(b.Limit))
	if b.Uncertain > 0 {
		text += fmt.Sprintf(", up to %s more may have been charged for calls that broke off", show(b.Uncertain))
	}
	return text + fmt.Sprintf(", and the next call may take %s.", show(b.Want))
}

func wayOut(b *store.BudgetError) string {
	switch {
	case b.Scope == store.ScopeDay:
		return "Go on tomorrow (the day ends at 00:00 UTC), or ask who runs this server to raise the daily ceiling."
	case b.Tokens:
		return "The price of the model is not known, so its tokens are counted. Set its prices in the model's settings, " +
			"or ask who runs this server to raise the token ceiling, then send a message to go on."
	case b.Scope == store.ScopeSub:
		return "The conversation above it goes on without it; raise the budget of the sub-agent to let it do more."
	}
	return "Raise max_budget_per_task in the settings and send a message to go on."
}

// noPrice says that a ceiling cannot be kept.
func noPrice(model string) *Exceeded {
	return &Exceeded{Model: model, said: fault.New(fault.Conflict, CodeNoPrice,
		"The price of %s is not known, so the cost ceiling could not be kept.", model).WithHint(
		"Set the model's prices (input_cost_per_token, output_cost_per_token), remove the ceiling, " +
			"or ask who runs this server to configure a token ceiling for models without a price.")}
}
