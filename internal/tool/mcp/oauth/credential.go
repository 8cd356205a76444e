package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
)

// credential is what is stored of a login at a server, as JSON. Without an access
// token it is what the next login can use.
type credential struct {
	client
	Issuer        string   `json:"issuer,omitempty"`
	TokenEndpoint string   `json:"token_endpoint,omitempty"`
	Resource      string   `json:"resource,omitempty"`
	Access        string   `json:"access_token,omitempty"`
	Refresh       string   `json:"refresh_token,omitempty"`
	RenewAt       int64    `json:"renew_at,omitempty"` // seconds since the epoch, a moment before the access token ends; 0 = when it is refused
	Scopes        []string `json:"scopes,omitempty"`   // granted, or asked for where nothing was said
	Wanted        []string `json:"wanted_scopes,omitempty"`
	Brought       string   `json:"brought,omitempty"` // hash of the login that a client brought along and that was taken
}

// decodeCredential reads what is stored. What cannot be read is no login.
func decodeCredential(raw []byte) credential {
	var c credential
	if json.Unmarshal(raw, &c) != nil {
		return credential{}
	}
	return c
}

// take puts new tokens in. A refresh token stays until another one comes.
func (c *credential) take(t tokens, now time.Time) {
	c.Access, c.RenewAt = t.access, 0
	if t.refresh != "" {
		c.Refresh = t.refresh
	}
	if t.seconds > 0 {
		early := min(30, (t.seconds+9)/10)
		c.RenewAt = now.Unix() + t.seconds - early
	}
	if t.scope != "" {
		c.Scopes = validScopes(splitScopes(t.scope))
	}
}

// drop forgets the tokens.
func (c *credential) drop() { c.Access, c.Refresh, c.RenewAt = "", "", 0 }

type slotKey struct{ owner, name string }

// slot is the lock of one credential: tokens are refreshed once, by one.
type slot struct {
	busy    chan struct{} // holds one token while somebody has the credential
	users   int           // guarded by Service.mu
	unsaved []byte        // what could not be stored; guarded by busy
}

// lock waits for a credential; the function gives it back.
func (s *Service) lock(ctx context.Context, key slotKey) (*slot, func(), error) {
	s.mu.Lock()
	l := s.slots[key]
	if l == nil {
		l = &slot{busy: make(chan struct{}, 1)}
		s.slots[key] = l
	}
	l.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.users--; l.users == 0 && l.unsaved == nil {
			delete(s.slots, key)
		}
	}
	select {
	case l.busy <- struct{}{}:
		return l, func() { <-l.busy; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, nil, ctx.Err()
	}
}

// load returns the credential of a locked slot, an empty one if there is none. What
// could not be stored is stored now.
func (s *Service) load(ctx context.Context, key slotKey, l *slot) (credential, error) {
	if l.unsaved != nil {
		c := decodeCredential(l.unsaved)
		s.save(ctx, key, l, c)
		return c, nil
	}
	raw, err := s.store.Load(ctx, key.owner, key.name)
	switch {
	case fault.Is(err, fault.NotFound):
		return credential{}, nil
	case err != nil:
		return credential{}, err
	}
	return decodeCredential(raw), nil
}

// save stores what must not be lost: a refresh token that was used is of no use
// any more. Where the store refuses, it is kept until the store takes it.
func (s *Service) save(ctx context.Context, key slotKey, l *slot, c credential) {
	raw, err := json.Marshal(c)
	if err == nil {
		err = s.store.Save(ctx, key.owner, key.name, raw)
	}
	l.unsaved = nil
	if err != nil {
		l.unsaved = raw
		s.log.WarnContext(ctx, "a login at an MCP server could not be stored; it is kept in memory", "name", key.name, "code", fault.CodeOf(err))
	}
}

// Forget removes what is known of an owner's login at a server.
func (s *Service) Forget(ctx context.Context, owner string, server *account.MCPHTTPServer) error {
	u, err := serverAddress(server)
	if err != nil {
		return err
	}
	key := slotKey{owner, storedName(u)}
	l, done, err := s.lock(ctx, key)
	if err != nil {
		return err
	}
	defer done()
	l.unsaved = nil
	return s.store.Save(ctx, owner, key.name, nil)
}

// fits reports whether a login is that of the configured client.
func (c *credential) fits(o *account.MCPOAuth) bool {
	return c.Access != "" && (o.ClientID == "" || o.ClientID == c.ID)
}

// broughtHash tells logins that clients brought along apart; "" = none.
func broughtHash(o *account.MCPOAuth) string {
	if !o.State.IsSet() {
		return ""
	}
	sum := sha256.Sum256([]byte(o.State.Reveal()))
	return hex.EncodeToString(sum[:])
}

// bring takes the login that a client brought along, once, if there is no other.
func (c *credential) bring(o *account.MCPOAuth) bool {
	if !o.State.IsSet() || c.fits(o) {
		return false
	}
	hash, b := broughtHash(o), o.Brought()
	if hash == c.Brought || b.AccessToken.Reveal() == "" {
		return false
	}
	*c = credential{Access: b.AccessToken.Reveal(), Refresh: b.RefreshToken.Reveal(), RenewAt: int64(max(0, min(b.ExpiresAt, 1<<40))), Brought: hash,
		client: client{ID: b.ClientID, Secret: b.ClientSecret.Reveal()}}
	if c.ID == "" || c.ID == o.ClientID {
		c.ID, c.Secret, c.Auth = o.ClientID, o.ClientSecret.Reveal(), o.ClientAuth
	}
	return true
}
