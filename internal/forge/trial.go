package forge

import (
	"context"
	"slices"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/forge/rest"
)

// CodeScope is the code of a token that the service takes, and that has too few
// rights to list repositories: Forbidden.
const CodeScope = "git_scope_missing"

// trialTime bounds a trial.
const trialTime = 20 * time.Second

// How many names of rights a service is believed, and their length in bytes.
const (
	maxScopes = 64
	maxScope  = 128
)

// Scoped is a Host that may say what its token is allowed to do.
type Scoped interface {
	// Scopes are the service's names for the token's rights, nil if it does not tell.
	Scopes(ctx context.Context) ([]string, error)
}

// Trial is how a token did at its service.
type Trial struct {
	Host    string   // the root of the service's pages; "" if none was asked
	Login   string   // whom the token belongs to; "" = it must not tell
	Scopes  []string // nil = not known
	Lacks   []string // scopes without which some of the work with repositories fails
	Seconds float64  // that it took
	Err     error    // nil = the token can be used
}

// needs are the scopes for reading and pushing, each a list of alternatives, of the
// services that tell theirs.
var needs = map[string][][]string{
	GitHub: {{"repo"}},
	GitLab: {{"read_api", "api"}, {"write_repository", "api"}},
}

// rights say in the service's words what a token needs.
var rights = map[string]string{
	GitHub:              `A classic token needs the scope "repo", a fine-grained one read and write access to Contents.`,
	GitLab:              `The token needs the scope "api", or "read_api" and "write_repository".`,
	Bitbucket:           `The token must read the account and its workspaces, and write repositories.`,
	BitbucketDataCenter: `The token needs the permission to write repositories.`,
	Forgejo:             `The token needs the scopes "read:user" and "write:repository".`,
	AzureDevOps:         `The token needs the scope "Code (Read & write)" in this organization.`,
}

// Try asks a service whether it takes a token, whom it belongs to, and whether it may
// list repositories. Nothing is stored. It takes at most 20 s.
func (s *Service) Try(ctx context.Context, provider string, t account.ProviderToken) Trial {
	inner, cancel := context.WithTimeoutCause(ctx, trialTime, fault.New(fault.Unavailable, rest.CodeUnreachable,
		"The host does not answer within %s.", trialTime).WithHint("Try again in a moment, or check the host."))
	defer cancel()
	start := time.Now()
	out := s.try(inner, provider, t)
	out.Seconds = time.Since(start).Seconds()
	return out
}

func (s *Service) try(ctx context.Context, provider string, t account.ProviderToken) Trial {
	place, err := PlaceOf(provider, hostOf(t))
	if err != nil {
		return Trial{Err: err}
	}
	out := Trial{Host: place.Web.String()}
	h, err := s.open(provider, t)
	if err != nil {
		out.Err = err
		return out
	}
	user, err := h.User(ctx)
	if err != nil && !fault.Is(err, fault.Forbidden) || fault.CodeOf(err) == rest.CodeAddress {
		out.Err = err
		return out
	}
	out.Login = user.Login
	if tells, ok := h.(Scoped); ok {
		found, err := tells.Scopes(ctx)
		long := func(scope string) bool { return len(scope) > maxScope }
		if err == nil && len(found) <= maxScopes && !slices.ContainsFunc(found, long) {
			out.Scopes, out.Lacks = found, lacking(provider, found)
		}
	}
	_, err = h.Repositories(ctx, RepositoryQuery{Page: Page{Limit: 1}})
	if fault.CodeOf(err) == CodeForbidden {
		err = fault.Wrap(err, fault.Forbidden, CodeScope, "%s takes the token, but does not let it list repositories: it has too few rights.", place.Title()).
			WithHint("%s", rights[provider])
	}
	out.Err = err
	return out
}

// lacking are the scopes that are needed and not there, nil where none are known.
func lacking(provider string, scopes []string) []string {
	var out []string
	for _, either := range needs[provider] {
		if scopes != nil && !slices.ContainsFunc(either, func(one string) bool { return slices.Contains(scopes, one) }) {
			out = append(out, either[0])
		}
	}
	return out
}

// Merged is the token that a request means for a trial: its own, or else the stored
// one, which goes to the host that it was stored for and to no other. False if it
// means the stored one and there is none, or it is of another host.
func Merged(provider string, stored, asked account.ProviderToken) (account.ProviderToken, bool) {
	if asked.Token.IsSet() {
		return asked, true
	}
	if !stored.Token.IsSet() {
		return asked, false
	}
	if asked.Host == nil {
		return stored, true
	}
	here, err := PlaceOf(provider, hostOf(asked))
	there, wrong := PlaceOf(provider, hostOf(stored))
	return stored, err == nil && wrong == nil && here.Web == there.Web
}
