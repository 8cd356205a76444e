package agentserver

import (
	"net/http"
	"net/url"
	"strings"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/fault"
)

// lookupSecret is a secret that is at an address (agent protocol 1.3). Clients name the
// secrets so that they saw listed here: the SDK with the server's whole address, the web
// UI with a path. What is elsewhere is not fetched: a request must not make the server
// talk to any host with any header.
const lookupSecret = "LookupSecret"

// lookUp puts stored secrets in the place of their addresses. One that keeps its name is
// left out: conversations have what is stored at the time of use.
func (s *Server) lookUp(r *httpkit.Request, owner string, q secretSources, loc ...any) error {
	var stored *account.Settings
	for name, source := range q {
		if source.Kind != lookupSecret {
			continue
		}
		at := append(loc[:len(loc):len(loc)], name, "url")
		from, own := s.ownSecret(r.Request, source.URL)
		if !own {
			return httpkit.BadField("a LookupSecret names a secret that this server stores (/api/settings/secrets/{name}); of another one send the value", nil, at...)
		}
		if stored == nil {
			var err error
			if stored, err = s.cfg.Settings.Settings(r.Context(), owner); fault.Is(err, fault.NotFound) {
				stored = account.DefaultSettings()
			} else if err != nil {
				return err
			}
		}
		value, custom := storedSecret(&stored.Secrets, from)
		switch {
		case !value.IsSet():
			return httpkit.BadField("this server stores no such secret", nil, at...)
		case custom && from == name:
			delete(q, name)
		default:
			q[name] = secretInput{Kind: staticSecret, Value: value, Description: source.Description}
		}
	}
	return nil
}

// ownSecret returns the name of the secret that an address of this server leads to.
func (s *Server) ownSecret(r *http.Request, address string) (name string, own bool) {
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.Opaque != "" {
		return "", false
	}
	if u.Host != "" || u.Scheme != "" {
		here := strings.EqualFold(u.Host, r.Host)
		if urls := s.cfg.Previews.URLs; urls != nil && !here {
			base, err := url.Parse(urls.Base(r))
			here = err == nil && strings.EqualFold(u.Host, base.Host)
		}
		if !here || u.Scheme != "http" && u.Scheme != "https" {
			return "", false
		}
	}
	before, name, ok := strings.Cut(u.Path, "/settings/secrets/")
	_, sandbox, ofSandbox := strings.Cut(before, "/api/v1/sandboxes/")
	ok = ok && name != "" && !strings.Contains(name, "/") &&
		(strings.HasSuffix(before, "/api") || ofSandbox && sandbox != "" && !strings.Contains(sandbox, "/"))
	return name, ok
}

// storedSecret returns a secret of an owner: a custom one, else the token of a git
// provider (github_token).
func storedSecret(s *account.Secrets, name string) (value account.Secret, custom bool) {
	if c, ok := s.Custom[name]; ok && c.Value.IsSet() {
		return c.Value, true
	}
	for provider, t := range s.ProviderTokens {
		if strings.EqualFold(name, provider+"_token") {
			value = t.Token
		}
	}
	return value, false
}

// secrets are all that a request has of them, by their places.
func (q *startRequest) secrets() map[string]secretSources {
	all := map[string]secretSources{"": q.Secrets}
	if q.Agent != nil && q.Agent.Context != nil {
		all["agent"] = q.Agent.Context.Secrets
	}
	if q.AgentSettings != nil && q.AgentSettings.Context != nil {
		all["agent_settings"] = q.AgentSettings.Context.Secrets
	}
	return all
}

// lookUpAll looks up the secrets of a start.
func (s *Server) lookUpAll(r *httpkit.Request, owner string, q *startRequest) error {
	for part, sources := range q.secrets() {
		loc := []any{"body", "secrets"}
		if part != "" {
			loc = []any{"body", part, "agent_context", "secrets"}
		}
		if err := s.lookUp(r, owner, sources, loc...); err != nil {
			return err
		}
	}
	return nil
}
