package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"golang.org/x/oauth2"

	"parley/internal/account"
)

// refreshTimeout bounds a refresh and its storing, which the caller's end does not
// break off: a refresh token works once.
const refreshTimeout = 30 * time.Second

// Handler gives a transport the tokens of an owner's login at a server, and refreshes
// them. Where there is none, requests go without; when the server refuses them, and
// when the tokens are refused for good, Authorize fails with ErrLogin. A server whose
// address no login can be made for is Invalid (CodeUnsupported).
func (s *Service) Handler(owner string, server *account.MCPHTTPServer) (auth.OAuthHandler, error) {
	u, err := serverAddress(server)
	if err != nil {
		return nil, err
	}
	return &handler{s: s, key: slotKey{owner, storedName(u)}, url: u, config: configOf(server)}, nil
}

// configOf returns what the user configured, nothing if OAuth was not asked for.
func configOf(server *account.MCPHTTPServer) *account.MCPOAuth {
	if server.Auth == nil || server.Auth.OAuth == nil {
		return &account.MCPOAuth{}
	}
	return server.Auth.OAuth
}

type handler struct {
	s      *Service
	key    slotKey
	url    *url.URL
	config *account.MCPOAuth
}

// TokenSource implements auth.OAuthHandler. nil = no token.
func (h *handler) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	token, err := h.token(ctx, func(c *credential) bool { return c.RenewAt != 0 && c.RenewAt <= h.s.now().Unix() && c.Refresh != "" })
	switch {
	case errors.Is(err, ErrLogin):
		return nil, nil // the server says whether it needs one
	case err != nil:
		return nil, err
	}
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token, TokenType: "Bearer"}), nil
}

// Authorize implements auth.OAuthHandler: the server refused a request.
func (h *handler) Authorize(ctx context.Context, req *http.Request, resp *http.Response) error {
	_ = resp.Body.Close() // not read: it may have no end
	if resp.StatusCode == http.StatusForbidden {
		if challenge := bearer(resp.Header); challenge["error"] == "insufficient_scope" {
			return h.want(ctx, splitScopes(challenge["scope"]))
		}
		return nil // not for want of a login
	}
	used, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	_, err := h.token(ctx, func(c *credential) bool { return c.Access == used })
	return err
}

// want remembers scopes for the next login.
func (h *handler) want(ctx context.Context, scopes []string) error {
	l, done, err := h.s.lock(ctx, h.key)
	if err != nil {
		return err
	}
	defer done()
	c, err := h.s.load(ctx, h.key, l)
	if err != nil {
		return err
	}
	if wanted := validScopes(append(c.Wanted, scopes...)); len(wanted) > len(c.Wanted) {
		c.Wanted = wanted
		h.s.save(ctx, h.key, l, c)
	}
	return loginNeeded()
}

// token returns the access token, a new one if stale says so of the one there is.
func (h *handler) token(ctx context.Context, stale func(*credential) bool) (string, error) {
	l, done, err := h.s.lock(ctx, h.key)
	if err != nil {
		return "", err
	}
	defer done()
	c, err := h.s.load(ctx, h.key, l)
	if err != nil {
		return "", err
	}
	brought := c.bring(h.config)
	switch {
	case !c.fits(h.config):
		return "", loginNeeded()
	case stale(&c):
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
		defer cancel()
		return h.refresh(ctx, l, c)
	case brought:
		h.s.save(ctx, h.key, l, c)
	}
	return c.Access, nil
}

// refresh gets new tokens and stores them before anybody uses them.
func (h *handler) refresh(ctx context.Context, l *slot, c credential) (string, error) {
	if c.Refresh == "" {
		c.drop()
		h.s.save(ctx, h.key, l, c)
		return "", loginNeeded()
	}
	if o := h.config; o.ClientID == c.ID && o.ClientSecret.IsSet() {
		c.Secret = o.ClientSecret.Reveal() // perhaps a newer one
	}
	if c.TokenEndpoint == "" { // it was brought along
		p, err := h.s.discover(ctx, h.url)
		if err != nil {
			return "", err
		}
		c.Issuer, c.TokenEndpoint, c.Resource = p.server.Issuer, p.server.TokenEndpoint, p.resource
		if c.Auth == "" {
			c.Auth = usualAuth(c.Secret, p.server.TokenEndpointAuthMethodsSupported)
		}
	}
	t, err := h.s.ask(ctx, c.TokenEndpoint, c.client, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {c.Refresh}, "resource": {c.Resource}})
	var no *tokenRefusal
	switch {
	case errors.As(err, &no) && !no.passing():
		if no.code == "invalid_client" && c.Registered {
			c.client = client{} // it is not known there any more: the next login registers anew
		}
		c.drop()
		h.s.save(ctx, h.key, l, c)
		return "", loginNeeded()
	case err != nil:
		return "", serverTrouble(err, "its tokens could not be refreshed")
	}
	c.take(t, h.s.now())
	h.s.save(ctx, h.key, l, c)
	h.s.log.DebugContext(ctx, "refreshed the tokens of an MCP server", "name", h.key.name)
	return c.Access, nil
}

func splitScopes(text string) []string { return strings.Fields(text) }
