package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"parley/internal/account"
)

// Ways in which a client shows itself at the token endpoint.
const (
	authNone  = "none"
	authPost  = "client_secret_post"
	authBasic = "client_secret_basic"
)

// client is what Parley is at an authorization server. It is stored.
type client struct {
	ID         string `json:"client_id,omitempty"`
	Secret     string `json:"client_secret,omitempty"`
	Auth       string `json:"client_auth,omitempty"`
	Registered bool   `json:"registered,omitempty"`        // dynamically
	Redirect   string `json:"redirect_uri,omitempty"`      // of the registration
	Until      int64  `json:"client_expires_at,omitempty"` // the registration's end, seconds since the epoch; 0 = none
}

// clientFor returns the client to log in with: the configured one, the one that its
// metadata describes, the one that was registered before, or a new one.
func (s *Service) clientFor(ctx context.Context, o *account.MCPOAuth, p *place, have credential, redirect string) (client, error) {
	m := p.server
	switch {
	case strings.Contains(o.ClientID+o.ClientSecret.Reveal(), "${"):
		return client{}, unsupported("its client's id and secret must be written out")
	case o.ClientID != "" && o.ClientSecret.IsSet() && have.ID == o.ClientID && have.Issuer != m.Issuer && have.Issuer != "":
		// A secret goes to the server that it was made for, whatever the MCP server says now.
		return client{}, unsupported("it names another authorization server than at the last login; if that is right, remove that login first")
	case o.ClientID != "":
		c := client{ID: o.ClientID, Secret: o.ClientSecret.Reveal(), Auth: o.ClientAuth}
		if c.Auth == "" {
			c.Auth = usualAuth(c.Secret, m.TokenEndpointAuthMethodsSupported)
		}
		return c, nil
	case o.MetadataURL != "" && m.ClientIDMetadataDocumentSupported:
		return client{ID: o.MetadataURL, Auth: authNone}, nil
	case have.Registered && have.Issuer == m.Issuer && have.Redirect == redirect && (have.Until == 0 || have.Until > s.now().Add(time.Hour).Unix()):
		return have.client, nil
	case m.RegistrationEndpoint == "":
		return client{}, unsupported("its authorization server registers no clients by itself; a client_id must be configured")
	}
	return s.register(ctx, o, p, redirect)
}

// usualAuth chooses how a client with or without a secret shows itself.
func usualAuth(secret string, known []string) string {
	switch {
	case secret == "":
		return authNone
	case slices.Contains(known, authPost):
		return authPost
	}
	return authBasic // also where nothing is said (RFC 8414, 2)
}

// register registers a client (RFC 7591).
func (s *Service) register(ctx context.Context, o *account.MCPOAuth, p *place, redirect string) (client, error) {
	meta := &oauthex.ClientRegistrationMetadata{ClientName: "Parley"}
	if len(o.Registration) > 0 && json.Unmarshal(o.Registration, meta) != nil {
		return client{}, unsupported("additional_client_metadata is not what a registration takes")
	}
	if o.ClientName != "" {
		meta.ClientName = o.ClientName
	}
	meta.RedirectURIs = []string{redirect}
	meta.GrantTypes, meta.ResponseTypes = []string{"authorization_code", "refresh_token"}, []string{"code"}
	meta.TokenEndpointAuthMethod = registrationAuth(o.ClientAuth, p.server.TokenEndpointAuthMethodsSupported)
	if scopes := validScopes(o.Scopes); len(scopes) > 0 {
		meta.Scope = strings.Join(scopes, " ")
	}
	r, err := oauthex.RegisterClient(ctx, p.server.RegistrationEndpoint, meta, s.client)
	switch {
	case ctx.Err() != nil:
		return client{}, ctx.Err()
	case err != nil: // its text may quote the answer, a secret included
		var no *oauthex.ClientRegistrationError
		if errors.As(err, &no) {
			return client{}, unsupported("its authorization server refused to register Parley (" + errorCode(no.ErrorCode) + "); a client_id must be configured")
		}
		return client{}, serverTrouble(nil, "its authorization server did not register Parley; a client_id can be configured instead")
	case len(r.ClientID) > maxToken || len(r.ClientSecret) > maxToken:
		return client{}, serverTrouble(nil, "its authorization server gave Parley an id that is too long")
	}
	c := client{ID: r.ClientID, Secret: r.ClientSecret, Auth: r.TokenEndpointAuthMethod, Registered: true, Redirect: redirect}
	if !r.ClientSecretExpiresAt.IsZero() && c.Secret != "" {
		c.Until = r.ClientSecretExpiresAt.Unix()
	}
	if !slices.Contains([]string{authNone, authPost, authBasic}, c.Auth) || c.Auth != authNone && c.Secret == "" {
		c.Auth = usualAuth(c.Secret, p.server.TokenEndpointAuthMethodsSupported)
	}
	return c, nil
}

func registrationAuth(wanted string, known []string) string {
	if wanted != "" {
		return wanted
	}
	for _, method := range []string{authPost, authBasic, authNone} {
		if slices.Contains(known, method) {
			return method
		}
	}
	return authBasic
}
