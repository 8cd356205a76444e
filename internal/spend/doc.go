// Package spend keeps the calls of models below their ceilings. A Keeper stands
// between the engine and the ledger: before every single call it sets the worst
// case aside, afterwards it says what the call cost.
//
// What it promises: as long as a provider charges no more than its prices and
// the bound on the answer allow, no ceiling of the ledger is passed, whatever
// runs in parallel, breaks off, or is killed. A ledger that cannot answer means
// that the call is not made. What a provider reports is taken as it is, also
// where it is more than was set aside: that is what it bills.
//
// How the engine uses it, once per step of a conversation:
//
//	tab := keeper.Open(spend.Scope{...})
//	defer tab.Abandon(ctx)                       // settles what was not stored
//	model := models(choice, ModelOptions{Guard: tab.Guard})
//	resp, err := model.Do(ctx, req)              // *Exceeded: a ceiling is reached
//	events.Append(Append{..., Settle: tab.Take()}) // also after an error
//	tab.Stored()                                 // wakes calls that wait for room
//	next.Anchor = tab.Anchor()                   // for the next Open
package spend
