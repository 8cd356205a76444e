// Package oauth logs users in at remote MCP servers with OAuth 2.1, as the
// authorization part of the MCP specification has it: it finds the authorization
// server (RFC 9728, RFC 8414), registers Parley there (RFC 7591), runs the
// authorization code flow with PKCE (RFC 7636), resource indicators (RFC 8707) and
// checked issuers (RFC 9207), keeps the tokens, and refreshes them.
//
// Connections never open anything: what needs a login fails with ErrLogin, and the
// login is a job over the API (agent protocol 1.7). Servers are hostile: their answers
// are bounded, nothing they write reaches a client or a log, and what is secret goes
// to the address that it was made for.
package oauth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"parley/internal/fault"
	"parley/internal/tool/mcp/egress"
)

// ErrLogin is in the chain of errors of connections that need a login; their fault
// code is CodeLogin.
var ErrLogin = errors.New("the server needs a login")

// Fault codes.
const (
	CodeLogin       = "mcp_login_needed"    // Forbidden: no tokens, or they are refused
	CodeServer      = "mcp_login_server"    // Unavailable: the authorization server cannot be reached or does not answer as it should
	CodeUnsupported = "mcp_login_not_there" // Invalid: the server offers no login that can be used
	CodeRefused     = "mcp_login_refused"   // Invalid: the login was declined, or its result is not acceptable
	CodeJob         = "mcp_login_unknown"   // NotFound: no such job, or it is over
	CodeTooMany     = "mcp_login_too_many"  // RateLimited: too many logins wait for their users
)

// TokenStore keeps sealed values of owners by names of this package's making, which
// hold nothing secret.
type TokenStore interface {
	// Load returns what was saved, or fault.NotFound.
	Load(ctx context.Context, owner, name string) ([]byte, error)
	// Save replaces a value; an empty one removes it.
	Save(ctx context.Context, owner, name string, value []byte) error
}

// Config is what a Service needs. Store and RedirectURL are required.
type Config struct {
	Store TokenStore
	// HTTPClient reaches authorization servers; its transport holds the egress rule.
	// nil, or one without a transport, reaches the internet only. Its policy on
	// redirects is replaced.
	HTTPClient *http.Client
	// RedirectURL is where authorization servers send users back to; ctx is that of
	// Start. It is registered, so it should not change without need.
	RedirectURL func(ctx context.Context) string
	Now         func() time.Time // nil = time.Now
	Logger      *slog.Logger     // nil = none
}

// Service logs in and keeps logins. It has no goroutines; use it from any.
type Service struct {
	store    TokenStore
	client   *http.Client
	redirect func(context.Context) string
	now      func() time.Time
	log      *slog.Logger

	mu    sync.Mutex
	slots map[slotKey]*slot
	jobs  map[string]*job
}

// New makes a service.
func New(c Config) (*Service, error) {
	s := &Service{store: c.Store, redirect: c.RedirectURL, now: c.Now, log: c.Logger,
		slots: map[slotKey]*slot{}, jobs: map[string]*job{}}
	if s.store == nil || s.redirect == nil {
		return nil, errors.New("oauth: no store or no redirect URL")
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	client, err := guarded(c.HTTPClient)
	s.client = client
	return s, err
}

// requestTimeout is how long one request to an authorization server may take.
const requestTimeout = 20 * time.Second

// guarded returns a client that sends nothing but a GET anywhere else than it was
// told to, and leaves https never.
func guarded(c *http.Client) (*http.Client, error) {
	if c == nil || c.Transport == nil {
		dial, err := egress.Dialer(egress.Config{})
		if err != nil {
			return nil, err
		}
		c = &http.Client{Transport: &http.Transport{DialContext: dial, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 10 * time.Second, MaxIdleConns: 16, IdleConnTimeout: time.Minute}}
	}
	own := *c
	own.Transport = noting{c.Transport}
	own.Jar = nil
	own.CheckRedirect = checkRedirect
	if own.Timeout <= 0 || own.Timeout > requestTimeout {
		own.Timeout = requestTimeout
	}
	return &own, nil
}

// noteKey is where a context has room for a refusal of the egress rule.
type noteKey struct{}

// noting notes refusals of the egress rule: of the errors on the way up they are what
// an operator can do something about, and not all of it comes up.
type noting struct{ http.RoundTripper }

func (n noting) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := n.RoundTripper.RoundTrip(req)
	if note, ok := req.Context().Value(noteKey{}).(*error); ok && fault.CodeOf(err) == egress.CodeRefused {
		*note = err
	}
	return resp, err
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	const limit = 5
	first := via[0]
	switch {
	case first.Method != http.MethodGet:
		return http.ErrUseLastResponse // codes and secrets go where they belong
	case len(via) > limit:
		return errors.New("too many redirects")
	case checkAddress(req.URL.String(), loopback(first.URL)) != nil:
		return errors.New("redirect to an address that is not https")
	}
	return nil
}

func loginNeeded() error {
	return fault.Wrap(ErrLogin, fault.Forbidden, CodeLogin, "The MCP server needs a login.").
		WithHint("Log in to it in the settings of MCP servers.")
}

// serverTrouble says what is wrong on the way; what the operator can allow says so
// itself.
func serverTrouble(err error, text string) error {
	if fault.CodeOf(err) == egress.CodeRefused {
		return err
	}
	return fault.Wrap(err, fault.Unavailable, CodeServer, "The login of the MCP server does not work: %s.", text).
		WithHint("Try again later. If it stays so, tell the server's operator.")
}

func unsupported(text string) error {
	return fault.New(fault.Invalid, CodeUnsupported, "The MCP server offers no login that can be used: %s.", text)
}

func refusedLogin(text string) error {
	return fault.New(fault.Invalid, CodeRefused, "The login at the MCP server failed: %s.", text).WithHint("Start it again.")
}
