package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

const (
	maxMetadata = 256 << 10 // bytes of a document
	maxScopes   = 100
)

// place is where and for what a server wants users to log in.
type place struct {
	resource string // RFC 8707
	scopes   []string
	server   *oauthex.AuthServerMeta
}

// discover finds the authorization server of an MCP server: what it says when it is
// asked without a token, else its well-known addresses, else, as the specification of
// 2025-03-26 has it, the server itself.
func (s *Service) discover(ctx context.Context, u *url.URL) (*place, error) {
	var refused error
	p, err := s.find(context.WithValue(ctx, noteKey{}, &refused), u)
	if err != nil && refused != nil {
		return nil, serverTrouble(refused, "")
	}
	return p, err
}

func (s *Service) find(ctx context.Context, u *url.URL) (*place, error) {
	challenge := s.challenge(ctx, u)
	resource, err := s.resource(ctx, u, challenge["resource_metadata"])
	if err != nil {
		return nil, err
	}
	p := &place{resource: resource.Resource, scopes: resource.ScopesSupported}
	if scope := challenge["scope"]; scope != "" {
		p.scopes = strings.Fields(scope)
	}
	p.scopes = validScopes(p.scopes)
	legacy := len(resource.AuthorizationServers) == 0
	issuer := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	if !legacy {
		issuer = resource.AuthorizationServers[0]
	}
	if checkAddress(issuer, loopback(u)) != nil {
		return nil, unsupported("its authorization server has no https address")
	}
	p.server, err = auth.GetAuthServerMetadata(ctx, issuer, s.client)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, serverTrouble(err, "the description of its authorization server is not usable")
	case p.server == nil && !legacy:
		return nil, unsupported("its authorization server does not describe itself")
	case p.server == nil:
		p.server = &oauthex.AuthServerMeta{Issuer: issuer, AuthorizationEndpoint: issuer + "/authorize", TokenEndpoint: issuer + "/token",
			RegistrationEndpoint: issuer + "/register", CodeChallengeMethodsSupported: []string{"S256"}}
	}
	return p, checkServer(p.server, loopback(u))
}

// checkServer holds an authorization server to what a login needs.
func checkServer(m *oauthex.AuthServerMeta, local bool) error {
	for _, address := range []string{m.AuthorizationEndpoint, m.TokenEndpoint, m.RegistrationEndpoint} {
		if address == m.RegistrationEndpoint && address == "" {
			continue
		}
		if checkAddress(address, local) != nil {
			return unsupported("its authorization server has an endpoint without an https address")
		}
	}
	if !slices.Contains(m.CodeChallengeMethodsSupported, "S256") {
		return unsupported("its authorization server does not know PKCE with S256")
	}
	return nil
}

// challenge asks the server without a token and returns the parameters of its Bearer
// challenge, nil if there is none.
func (s *Service) challenge(ctx context.Context, u *url.URL) map[string]string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		return nil
	}
	return bearer(resp.Header)
}

// bearer returns the parameters of a Bearer challenge.
func bearer(h http.Header) map[string]string {
	const limit = 8 << 10 // bytes; reading them takes the square of their length
	if len(strings.Join(h.Values("WWW-Authenticate"), "")) > limit {
		return nil
	}
	challenges, err := oauthex.ParseWWWAuthenticate(h.Values("WWW-Authenticate"))
	if err != nil {
		return nil
	}
	for _, c := range challenges {
		if c.Scheme == "bearer" {
			return c.Params
		}
	}
	return nil
}

// resource returns the metadata of the protected resource, one without authorization
// servers if there is none.
func (s *Service) resource(ctx context.Context, u *url.URL, stated string) (*oauthex.ProtectedResourceMetadata, error) {
	if stated != "" {
		if checkAddress(stated, loopback(u)) != nil {
			return nil, unsupported("its metadata has no https address")
		}
		if m, err := s.fetch(ctx, stated); err == nil {
			return checkResource(m, u)
		}
	}
	const wellKnown = "/.well-known/oauth-protected-resource"
	paths := []string{wellKnown}
	if path := strings.TrimSuffix(u.Path, "/"); path != "" {
		paths = []string{wellKnown + path, wellKnown}
	}
	for _, path := range paths {
		m, err := s.fetch(ctx, (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: path}).String())
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil {
			return checkResource(m, u)
		}
	}
	return &oauthex.ProtectedResourceMetadata{Resource: u.String()}, nil
}

func checkResource(m *oauthex.ProtectedResourceMetadata, u *url.URL) (*oauthex.ProtectedResourceMetadata, error) {
	switch {
	case !covers(m.Resource, u):
		return nil, unsupported("its metadata is that of another resource")
	case len(m.AuthorizationServers) == 0:
		return nil, unsupported("its metadata names no authorization server")
	}
	return m, nil
}

func (s *Service) fetch(ctx context.Context, address string) (*oauthex.ProtectedResourceMetadata, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New("status " + resp.Status[:min(3, len(resp.Status))])
	}
	m := &oauthex.ProtectedResourceMetadata{}
	return m, decode(resp.Body, maxMetadata, m)
}

// decode reads one JSON value of at most limit bytes.
func decode(r io.Reader, limit int64, to any) error {
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return err
	}
	if int64(len(raw)) > limit {
		return errors.New("too large")
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return errors.New("no JSON as expected") // the cause may quote what is secret
	}
	return nil
}

// validScopes drops what is no scope (RFC 6749, 3.3), and what is too much.
func validScopes(scopes []string) []string {
	var out []string
	for _, scope := range scopes {
		bad := strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
		if scope != "" && len(scope) <= 200 && !bad && len(out) < maxScopes && !slices.Contains(out, scope) {
			out = append(out, scope)
		}
	}
	return out
}
