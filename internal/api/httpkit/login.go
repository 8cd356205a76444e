package httpkit

import (
	"context"
	"net/url"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
)

// Logins log users in at remote MCP servers with OAuth (agent protocol 1.7). The flow
// is an implementation that package app provides.
type Logins interface {
	// Start begins a login of an owner. Errors are Invalid (the server offers none),
	// Unavailable and RateLimited.
	Start(ctx context.Context, owner string, server *account.MCPHTTPServer) (Login, error)
	// Status says what became of one; NotFound for one of somebody else, or one that is
	// over.
	Status(owner, id string) (LoginStatus, error)
	// Callback ends a login with what the authorization server sent the user back with:
	// code and state, or error. Errors are NotFound, Invalid, Conflict and Unavailable.
	Callback(ctx context.Context, owner, id string, params url.Values) error
	// CallbackByState is Callback for a browser that was sent back: the state, which
	// nobody can guess, says which login it is about.
	CallbackByState(ctx context.Context, params url.Values) error
}

// Login waits for its user.
type Login struct {
	ID               string // unguessable
	AuthorizationURL string // where the user goes
	ExpiresAt        time.Time
}

// LoginStatus is what became of a login.
type LoginStatus struct {
	State string // "pending", "done", "failed"
	Error string // for the user; of a failed one
}

// NoLogins is the fault of a server that cannot log anybody in.
func NoLogins() error {
	return fault.New(fault.Unsupported, "mcp_login_not_built", "This server cannot log in at MCP servers with OAuth.").
		WithHint("Use a token: auth with the strategy bearer, api_key or header.")
}
