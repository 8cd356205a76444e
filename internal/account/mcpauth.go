package account

import (
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"parley/internal/fault"
	"parley/internal/lazyre"
)

// onlyNames are values of placeholders and what stands between them: no secrets.
var onlyNames = lazyre.MustCompile(`^(Bearer )?[ ,;:/=.@_-]*\$\{[A-Za-z_][A-Za-z0-9_]*\}(\$\{[A-Za-z_][A-Za-z0-9_]*\}|[ ,;:/=.@_-])*$`)

// shower renders secrets that are set; nil shows the mask.
type shower func(Secret) string

// value is what is shown of a secret; one that only names others is shown as it is.
func (show shower) value(s Secret) string {
	switch {
	case onlyNames.MatchString(s.value):
		return s.value
	case show == nil || !s.IsSet():
		return Mask
	}
	return show(s)
}

func (show shower) values(secrets map[string]Secret) map[string]string {
	out := map[string]string{}
	for name, s := range secrets {
		out[name] = show.value(s)
	}
	return out
}

// orNull shows what is not set as null.
func (show shower) orNull(s Secret) any {
	if !s.IsSet() {
		return nil
	}
	return show.value(s)
}

// names returns the headers that the credential is sent in.
func (a *MCPAuth) names() []string {
	switch a.Strategy {
	case MCPAuthAPIKey:
		return []string{a.keyHeader()}
	case MCPAuthHeader:
		return sortedKeys(a.Headers)
	}
	return []string{"Authorization"}
}

func (a *MCPAuth) keyHeader() string {
	if a.Header == "" {
		return "X-API-Key"
	}
	return a.Header
}

func (a *MCPAuth) render(show shower) map[string]any {
	out := map[string]any{"strategy": a.Strategy}
	switch a.Strategy {
	case MCPAuthAPIKey:
		out["value"], out["header_name"] = show.orNull(a.Value), nil
		if a.Header != "" {
			out["header_name"] = a.Header
		}
	case MCPAuthBasic:
		out["username"], out["password"] = a.Username, show.orNull(a.Value)
	case MCPAuthHeader:
		out["headers"] = show.values(a.Headers)
	case MCPAuthOAuth:
		o := or(a.OAuth, MCPOAuth{})
		out["authentication"], out["state"] = o.render(show), o.state().render(show)
	}
	return out
}

// headers reads names with values. Those that are to stay and are not stored are left
// out. loc is where they stand.
func (p *serverParser) headers(v any, loc []any) map[string]Secret {
	m, ok := v.(map[string]any)
	if !ok {
		if v != nil {
			p.fields = append(p.fields, fault.Field{Loc: loc, Type: "dict_type", Msg: "Input should be a valid dictionary"})
		}
		return nil
	}
	out, taken := map[string]Secret{}, map[string]bool{}
	for _, name := range sortedKeys(m) {
		where := at(loc, name)
		value := p.kept(m[name], p.storedHeader(name), where)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			p.refuse(where, "This is no name of a header")
		case taken[strings.ToLower(name)]:
			p.refuse(where, "The header is given twice")
		case value.IsSet():
			out[name] = value
		}
		taken[strings.ToLower(name)] = true
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func (p *serverParser) refuse(loc []any, text string) {
	p.fields = append(p.fields, fault.Field{Loc: loc, Type: "value_error", Ctx: map[string]any{"error": map[string]any{}},
		Msg: "Value error, " + text})
}

// kept reads a secret: null and the mask are the stored one, which must be at the same
// place.
func (p *serverParser) kept(v any, stored Secret, loc []any) Secret {
	text, ok := v.(string)
	switch {
	case v == nil || text == Mask:
		if stored.IsSet() && !p.same {
			p.fields = append(p.fields, elsewhere(loc))
		}
		return stored
	case !ok:
		p.fields = append(p.fields, fault.Field{Loc: loc, Type: "string_type", Msg: "Input should be a valid string"})
	case !httpguts.ValidHeaderFieldValue(strings.TrimSpace(text)):
		p.refuse(loc, "A credential has no line breaks or other control characters")
	}
	return NewSecret(strings.TrimSpace(text))
}

// storedHeader returns what the stored server sends under a name, however it came there.
func (p *serverParser) storedHeader(name string) Secret {
	if p.old.http == nil {
		return Secret{}
	}
	all := []map[string]Secret{p.old.http.Headers}
	if p.old.http.Auth != nil {
		all = append(all, p.old.http.Auth.Headers)
	}
	for _, headers := range all {
		for _, stored := range sortedKeys(headers) {
			if strings.EqualFold(stored, name) {
				return headers[stored]
			}
		}
	}
	if key := p.old.http.APIKey; strings.EqualFold(name, "Authorization") && key.IsSet() {
		return NewSecret("Bearer " + key.value)
	}
	return Secret{}
}

// takeBearer makes a bearer token among the headers the server's key.
func (p *serverParser) takeBearer(s *MCPHTTPServer) {
	const prefix = "Bearer "
	for name, value := range s.Headers {
		if strings.EqualFold(name, "Authorization") && len(value.value) > len(prefix) && strings.EqualFold(value.value[:len(prefix)], prefix) {
			s.APIKey = NewSecret(strings.TrimSpace(value.value[len(prefix):]))
			delete(s.Headers, name)
		}
	}
	if len(s.Headers) == 0 {
		s.Headers = nil
	}
}

// auth reads how the server knows its user; a text is "oauth" or a bearer token.
func (p *serverParser) auth(s *MCPHTTPServer) {
	loc := at(p.loc, "auth")
	switch auth := p.m["auth"].(type) {
	case nil:
	case string:
		switch auth {
		case "":
		case "oauth":
			p.oauth(s, nil)
		default:
			s.APIKey = p.kept(auth, p.storedKey(), loc)
		}
	case map[string]any:
		p.strategy(s, &reader{m: auth, loc: loc})
	default:
		p.fail("auth", "dict_type", "Input should be a valid dictionary", nil)
	}
}

func (p *serverParser) storedKey() Secret {
	if p.old.http == nil {
		return Secret{}
	}
	return p.old.http.APIKey
}

// storedAuth returns the stored credential of a strategy, an empty one if there is none.
func (p *serverParser) storedAuth(strategy string) MCPAuth {
	if p.old.http == nil || p.old.http.Auth == nil || p.old.http.Auth.Strategy != strategy {
		return MCPAuth{}
	}
	return *p.old.http.Auth
}

func (p *serverParser) strategy(s *MCPHTTPServer, r *reader) {
	strategy, _ := r.m["strategy"].(string)
	switch strategy {
	case "none":
	case "bearer":
		if key := p.kept(r.m["value"], p.storedKey(), at(r.loc, "value")); key.IsSet() || r.m["value"] == "" {
			s.APIKey = key
		}
	case MCPAuthAPIKey:
		s.Auth = &MCPAuth{Strategy: strategy, Header: strings.TrimSpace(or(r.text("header_name"), "")),
			Value: p.kept(r.m["value"], p.storedAuth(strategy).Value, at(r.loc, "value"))}
		if s.Auth.Header != "" && !httpguts.ValidHeaderFieldName(s.Auth.Header) {
			r.rule("header_name", "This is no name of a header", nil)
		}
	case MCPAuthBasic:
		s.Auth = &MCPAuth{Strategy: strategy, Username: or(r.text("username"), ""),
			Value: p.kept(r.m["password"], p.storedAuth(strategy).Value, at(r.loc, "password"))}
		if s.Auth.Username == "" || strings.ContainsRune(s.Auth.Username, ':') {
			p.rule("auth", "Basic authentication needs a username without a colon", nil)
		}
	case MCPAuthHeader:
		s.Auth = &MCPAuth{Strategy: strategy, Headers: p.headers(r.m["headers"], at(r.loc, "headers"))}
	case MCPAuthOAuth:
		p.oauth(s, r.m)
	default:
		p.rule("auth", "strategy is one of none, api_key, bearer, basic, header, oauth2", nil)
	}
	p.fields = append(p.fields, r.fields...)
}

// checkTwice refuses two values for one header: which of them counts nobody could tell.
func (p *serverParser) checkTwice(s *MCPHTTPServer) {
	given, names := sortedKeys(s.Headers), []string{}
	if s.APIKey.IsSet() {
		names = append(names, "Authorization")
	}
	if s.Auth != nil {
		given, names = append(given, names...), s.Auth.names()
	}
	for _, name := range names {
		if slices.ContainsFunc(given, func(other string) bool { return strings.EqualFold(other, name) }) {
			p.rule("auth", "Both headers and auth say what the header "+shown(name)+" is", nil)
		}
	}
}
