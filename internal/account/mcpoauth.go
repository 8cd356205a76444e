package account

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"parley/internal/fault"
)

// oauthClientAuth are the ways in which a client shows itself to an authorization
// server that Parley knows.
var oauthClientAuth = []string{"none", "client_secret_post", "client_secret_basic"}

// oauth reads what the user configured, and what a client brought along.
func (p *serverParser) oauth(s *MCPHTTPServer, m map[string]any) {
	old := &MCPOAuth{}
	if stored := p.storedAuth(MCPAuthOAuth).OAuth; stored != nil {
		old = stored
	}
	o := &MCPOAuth{}
	s.Auth = &MCPAuth{Strategy: MCPAuthOAuth, OAuth: o}
	loc := at(p.loc, "auth")
	switch v := m["authentication"].(type) {
	case nil:
	case map[string]any:
		p.authentication(o, old, &reader{m: v, loc: at(loc, "authentication")})
	default:
		p.fields = append(p.fields, notAnObject(at(loc, "authentication")))
	}
	switch v := m["state"].(type) {
	case nil:
		if p.same {
			o.State = old.State
		}
	case map[string]any:
		o.State = p.state(v, old.state(), at(loc, "state"))
	default:
		p.fields = append(p.fields, notAnObject(at(loc, "state")))
	}
}

func (p *serverParser) authentication(o, old *MCPOAuth, r *reader) {
	text := func(name string) string { return strings.TrimSpace(or(r.text(name), "")) }
	o.ClientID, o.ClientAuth, o.ClientName, o.MetadataURL = text("client_id"), text("client_auth_method"), text("client_name"), text("client_metadata_url")
	var stored Secret
	if o.ClientID == old.ClientID {
		stored = old.ClientSecret
	} else if r.m["client_secret"] == Mask && old.ClientSecret.IsSet() {
		p.fields = append(p.fields, elsewhere(at(r.loc, "client_secret")))
	}
	o.ClientSecret = p.kept(r.m["client_secret"], stored, at(r.loc, "client_secret"))
	if o.ClientAuth != "" && !slices.Contains(oauthClientAuth, o.ClientAuth) {
		r.fail("client_auth_method", "literal_error", "Input should be one of: "+strings.Join(oauthClientAuth, ", "), nil)
	}
	if o.MetadataURL != "" && !strings.HasPrefix(o.MetadataURL, "https://") {
		r.rule("client_metadata_url", "The address of a client's metadata begins with https://", nil)
	}
	o.Scopes = r.scopes()
	if extra, ok := r.m["additional_client_metadata"].(map[string]any); ok && len(extra) > 0 {
		o.Registration, _ = json.Marshal(extra) // it was decoded from JSON
	} else if r.m["additional_client_metadata"] != nil && !ok {
		r.fail("additional_client_metadata", "dict_type", "Input should be a valid dictionary", nil)
	}
	for _, name := range sortedKeys(r.m) {
		switch name {
		case "client_id", "client_secret", "client_auth_method", "client_name", "client_metadata_url", "scopes", "additional_client_metadata":
		case "type":
			if r.m[name] != "oauth" {
				r.fail(name, "literal_error", "Input should be oauth", nil)
			}
		default:
			r.fail(name, "extra_forbidden", "Extra inputs are not permitted", nil)
		}
	}
	p.fields = append(p.fields, r.fields...)
}

// scopes reads a list, or one text with spaces between them.
func (r *reader) scopes() []string {
	var out []string
	switch v := r.m["scopes"].(type) {
	case nil:
	case string:
		out = strings.Fields(v)
	case []any:
		for i, item := range v {
			scope, ok := item.(string)
			if scope = strings.TrimSpace(scope); !ok || scope == "" || strings.ContainsAny(scope, " \t\r\n") {
				r.fields = append(r.fields, fault.Field{Loc: at(r.loc, "scopes", i), Type: "string_type", Msg: "Input should be the name of a scope"})
			}
			out = append(out, scope)
		}
	default:
		r.fail("scopes", "list_type", "Input should be a valid list", nil)
	}
	return out
}

func (o *MCPOAuth) render(show shower) map[string]any {
	out := map[string]any{"type": "oauth"}
	for name, value := range map[string]string{"client_id": o.ClientID, "client_auth_method": o.ClientAuth, "client_name": o.ClientName,
		"client_metadata_url": o.MetadataURL} {
		if out[name] = nil; value != "" {
			out[name] = value
		}
	}
	out["client_secret"], out["scopes"], out["additional_client_metadata"] = show.orNull(o.ClientSecret), nil, nil
	if o.Scopes != nil {
		out["scopes"] = o.Scopes
	}
	if o.Registration != nil {
		out["additional_client_metadata"] = o.Registration
	}
	return out
}

// MCPOAuthState is a login as a client brings it along.
type MCPOAuthState struct {
	AccessToken, RefreshToken Secret
	ExpiresAt                 float64 // of the access token, seconds since the epoch; 0 = unknown
	ClientID                  string
	ClientSecret              Secret
}

// oauthState is MCPOAuthState as it is kept in MCPOAuth.State.
type oauthState struct {
	AccessToken  string  `json:"access_token,omitempty"`
	RefreshToken string  `json:"refresh_token,omitempty"`
	ExpiresAt    float64 `json:"token_expires_at,omitempty"`
	ClientID     string  `json:"client_id,omitempty"`
	ClientSecret string  `json:"client_secret,omitempty"`
}

// Brought returns the login that a client brought along; the zero value is none.
func (o *MCPOAuth) Brought() MCPOAuthState {
	s := o.state()
	return MCPOAuthState{AccessToken: NewSecret(s.AccessToken), RefreshToken: NewSecret(s.RefreshToken), ExpiresAt: s.ExpiresAt,
		ClientID: s.ClientID, ClientSecret: NewSecret(s.ClientSecret)}
}

// state decodes what is kept. What cannot be decoded is no login.
func (o *MCPOAuth) state() oauthState {
	var s oauthState
	if json.Unmarshal([]byte(o.State.value), &s) != nil {
		return oauthState{}
	}
	return s
}

func (s oauthState) render(show shower) any {
	if s == (oauthState{}) {
		return nil
	}
	masked := func(v string) any { return show.orNull(Secret{v}) }
	out := map[string]any{"tokens": map[string]any{"access_token": masked(s.AccessToken), "refresh_token": masked(s.RefreshToken)},
		"client_info": map[string]any{"client_id": s.ClientID, "client_secret": masked(s.ClientSecret)}, "token_expires_at": nil}
	if s.ExpiresAt != 0 {
		out["token_expires_at"] = s.ExpiresAt
	}
	return out
}

// state reads a login. Of what it has besides, nothing is kept: it is of no use here,
// and may be secret.
func (p *serverParser) state(m map[string]any, old oauthState, loc []any) Secret {
	object := func(name string) map[string]any {
		v, ok := m[name].(map[string]any)
		if !ok && m[name] != nil {
			p.fields = append(p.fields, notAnObject(at(loc, name)))
		}
		return v
	}
	tokens, client := object("tokens"), object("client_info")
	s := oauthState{
		AccessToken:  p.kept(tokens["access_token"], Secret{old.AccessToken}, at(loc, "tokens", "access_token")).value,
		RefreshToken: p.kept(tokens["refresh_token"], Secret{old.RefreshToken}, at(loc, "tokens", "refresh_token")).value,
	}
	s.ClientID, _ = client["client_id"].(string)
	var secret Secret
	if s.ClientID == old.ClientID {
		secret = Secret{old.ClientSecret}
	}
	s.ClientSecret = p.kept(client["client_secret"], secret, at(loc, "client_info", "client_secret")).value
	switch expires := m["token_expires_at"].(type) {
	case nil:
	case json.Number:
		s.ExpiresAt, _ = expires.Float64() // out of range is not known
	default:
		p.fields = append(p.fields, fault.Field{Loc: at(loc, "token_expires_at"), Type: "float_type", Msg: "Input should be a valid number"})
	}
	if s == (oauthState{}) || math.IsInf(s.ExpiresAt, 0) {
		return Secret{}
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return Secret{}
	}
	return Secret{string(raw)}
}
