package app

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/collection"
	"parley/internal/store"
	"parley/internal/tool/mcp"
	"parley/internal/tool/mcp/egress"
	"parley/internal/tool/mcp/oauth"
)

// oauthCallback is where authorization servers send the browser back to.
const oauthCallback = "/api/v1/mcp/oauth/callback"

// openServers makes what connects to MCP servers. It needs the listener, for the
// address of the way back from a login.
func (a *App) openServers() error {
	dial, err := egress.Dialer(egress.Config{Allow: a.cfg.MCPAllow})
	if err != nil {
		return err
	}
	transport := &http.Transport{DialContext: dial, TLSHandshakeTimeout: 15 * time.Second, ResponseHeaderTimeout: time.Minute,
		IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 2}
	a.logins, err = oauth.New(oauth.Config{Store: credentials{a.store.Extensions()}, Logger: a.log,
		HTTPClient:  &http.Client{Transport: transport, Timeout: time.Minute},
		RedirectURL: func(context.Context) string { return a.base() + oauthCallback }})
	if err != nil {
		return err
	}
	a.servers = mcp.New(mcp.Config{Dial: dial, OAuth: a.logins.Handler, Version: a.version.Number,
		Reserved: append(a.tools.Names(), "browser_*"), Logger: a.log})
	return nil
}

// openCollections loads the configured collections, and keeps them fresh until the
// server stops.
func (a *App) openCollections(ctx context.Context) error {
	var sources []collection.Source
	for _, text := range a.cfg.SkillCollections {
		s, err := collection.ParseSource(text)
		if err != nil {
			return err
		}
		sources = append(sources, s)
	}
	var err error
	a.collections, err = collection.New(ctx, collection.Config{Sources: sources, Dir: filepath.Join(a.cfg.Data, "collections"), Logger: a.log})
	if err != nil || len(sources) == 0 {
		return err
	}
	ctx, a.stopCollections = context.WithCancel(context.Background())
	a.refreshing.Go(func() { a.collections.Run(ctx) })
	return nil
}

// base is the server's address as users have it.
func (a *App) base() string {
	if a.cfg.PublicURL != "" {
		return a.cfg.PublicURL
	}
	return "http://" + a.lis.Addr().String()
}

// logins are those of MCP servers, for the APIs.
type logins struct{ *oauth.Service }

var _ httpkit.Logins = logins{}

// Start implements httpkit.Logins.
func (l logins) Start(ctx context.Context, owner string, s *account.MCPHTTPServer) (httpkit.Login, error) {
	j, err := l.Service.Start(ctx, owner, s)
	return httpkit.Login{ID: j.ID, AuthorizationURL: j.AuthorizationURL, ExpiresAt: j.ExpiresAt}, err
}

// Status implements httpkit.Logins.
func (l logins) Status(owner, id string) (httpkit.LoginStatus, error) {
	s, err := l.Service.Status(owner, id)
	return httpkit.LoginStatus{State: s.State, Error: s.Error}, err
}

// credentials keeps what logins bring, sealed.
type credentials struct{ store store.Extensions }

var _ oauth.TokenStore = credentials{}

// Load implements oauth.TokenStore.
func (c credentials) Load(ctx context.Context, owner, name string) ([]byte, error) {
	value, err := c.store.Credential(ctx, owner, name)
	return []byte(value.Reveal()), err
}

// Save implements oauth.TokenStore.
func (c credentials) Save(ctx context.Context, owner, name string, value []byte) error {
	return c.store.PutCredential(ctx, owner, name, account.NewSecret(string(slices.Clone(value))))
}
