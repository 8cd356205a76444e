// Package cli is what the client commands do: it talks to a Parley server over
// its public API, like any other client, and shows conversations in a terminal.
//
// It promises that no text of a model, a tool or a server reaches the terminal
// as a control sequence, that no stored event is shown twice or left out across
// broken connections, and that standard output holds nothing but the
// conversation. It does not know commands and flags: those are cmd/parley's.
package cli
