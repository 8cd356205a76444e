package httpkit

import (
	"context"
	"net/http"
	"strings"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/store"
)

const (
	headerSessionKey  = "X-Session-API-Key"
	headerAccessToken = "X-Access-Token"
)

// Principal is who asks. UserID is set for a user's key. SandboxID and Owner are
// set for a sandbox's session key, which opens the agent protocol of that
// sandbox and nothing else. All are empty without a valid credential.
type Principal struct {
	UserID    string
	SandboxID string
	Owner     string // user id of the sandbox's owner
	// Key is the hash of the user's key that was shown, zero where there was none: what
	// lasts longer than a request asks again whether it is still good (Streams.Recheck).
	Key account.KeyHash
}

// Known reports whether there is a valid credential.
func (p Principal) Known() bool { return p.UserID != "" || p.SandboxID != "" }

// Keys finds users by the hash of their key.
type Keys interface {
	UserByKey(ctx context.Context, h account.KeyHash) (account.User, error)
}

// Authenticator resolves keys. Keys are looked up by their hash, so comparison
// time says nothing about them.
type Authenticator struct {
	Users Keys
	// Sandbox finds a sandbox by its session key; NotFound or Unauthenticated if
	// there is none.
	Sandbox func(ctx context.Context, key string) (*store.Sandbox, error)
	// Everybody is who asks without any key that is known: nobody, unless the server
	// was told to let everybody in.
	Everybody Principal
}

var errUnauthenticated = fault.New(fault.Unauthenticated, "unauthorized", "Unauthorized")

// Resolve returns whom a key belongs to, or Unauthenticated.
func (a *Authenticator) Resolve(ctx context.Context, key string) (Principal, error) {
	if a.Everybody.Known() {
		return a.Everybody, nil
	}
	if key == "" {
		return Principal{}, errUnauthenticated
	}
	hash := account.HashKey(key)
	user, err := a.Users.UserByKey(ctx, hash)
	if err == nil {
		return Principal{UserID: user.ID, Key: hash}, nil
	}
	if !fault.Is(err, fault.Unauthenticated) && !fault.Is(err, fault.NotFound) {
		return Principal{}, err
	}
	box, err := a.Sandbox(ctx, key)
	switch {
	case fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.NotFound):
		return Principal{}, errUnauthenticated
	case err != nil:
		return Principal{}, err
	}
	return Principal{SandboxID: box.ID, Owner: box.Owner}, nil
}

// Credential returns the key a request carries in its headers, "" if none. A
// bearer token wins over X-Session-API-Key, which wins over X-Access-Token.
func Credential(r *http.Request) string {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if ok && strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(token)
	}
	if key := r.Header.Get(headerSessionKey); key != "" {
		return key
	}
	return r.Header.Get(headerAccessToken)
}

type identity struct {
	principal Principal
	err       error
}

type identityKey struct{}

// Wrap resolves the request's credential for everything inside. It refuses
// nothing: operations say what they need.
func (a *Authenticator) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := identity{err: errUnauthenticated}
		if key := Credential(r); key != "" || a.Everybody.Known() {
			id.principal, id.err = a.Resolve(r.Context(), key)
		}
		noteOf(r.Context()).principal = id.principal
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, id)))
	})
}

// PrincipalOf returns who asks, or why nobody is known.
func PrincipalOf(ctx context.Context) (Principal, error) {
	id, ok := ctx.Value(identityKey{}).(identity)
	if !ok {
		return Principal{}, errUnauthenticated
	}
	return id.principal, id.err
}

// RequireUser is the rule of user APIs: a user's key.
func RequireUser(r *http.Request) (Principal, error) {
	p, err := PrincipalOf(r.Context())
	if err == nil && p.UserID == "" {
		err = errUnauthenticated
	}
	return p, err
}
