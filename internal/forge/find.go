package forge

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/forge/rest"
)

// findTime bounds one question of Find.
const findTime = 15 * time.Second

// Find looks for a repository before somebody works with it: with the token of the
// provider that is named, then with the tokens of the others, then as anybody may read
// it, at the provider that is named or at GitHub. The result is the provider that has
// it, the named one for an address that is of none.
//
// Errors are NotFound where nobody has it, and those of the services. An address at
// which nobody can be asked, in a network that only a sandbox may reach, is taken as it
// is.
func (s *Service) Find(ctx context.Context, owner, provider, repository string) (string, error) {
	tokens, err := s.tokens(ctx, owner)
	if err != nil {
		return "", err
	}
	if strings.Contains(repository, "://") {
		return s.findAddress(ctx, owner, provider, repository, tokens)
	}
	order := []string{provider}
	for _, p := range Providers() {
		if p != provider {
			order = append(order, p)
		}
	}
	var last error
	for _, p := range order {
		if !tokens[p].Token.IsSet() {
			continue
		}
		if err = s.has(ctx, owner, p, repository); err == nil {
			return p, nil
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		last = errors.Join(last, err)
	}
	if provider == "" {
		provider = GitHub
	}
	place, err := PlaceOf(provider, hostOf(tokens[provider]))
	var u *url.URL
	if err == nil {
		u, err = place.CloneURL(repository)
	}
	if err == nil {
		err = s.readable(ctx, place.Own, u)
	}
	if err != nil {
		return "", errors.Join(err, last)
	}
	return provider, nil
}

// has asks a service for a repository with the user's token.
func (s *Service) has(ctx context.Context, owner, provider, repository string) error {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	h, err := s.Host(ctx, owner, provider)
	if err == nil {
		_, err = h.Repository(ctx, repository)
	}
	return err
}

func (s *Service) findAddress(ctx context.Context, owner, provider, address string, tokens map[string]account.ProviderToken) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return "", fault.New(fault.Invalid, CodeBadRepository, "The address of the repository is not valid.")
	}
	for _, p := range Providers() {
		place, err := PlaceOf(p, hostOf(tokens[p]))
		if err != nil || !place.Holds(u) || !tokens[p].Token.IsSet() {
			continue
		}
		if name := place.Name(address); name != "" && s.has(ctx, owner, p, name) == nil {
			return p, nil
		}
		return p, s.readable(ctx, place.Own, u)
	}
	err = s.readable(ctx, false, u)
	if fault.CodeOf(err) == rest.CodeAddress || fault.CodeOf(err) == rest.CodeUnreachable {
		err = nil
	}
	return provider, err
}

// readable reports whether anybody may read a repository: whether git's own protocol
// lists its branches without a login. NotFound where it does not.
func (s *Service) readable(ctx context.Context, own bool, u *url.URL) error {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	client := s.public
	if own {
		client = s.own
	}
	at := *u
	at.Path, at.RawPath = strings.TrimSuffix(at.Path, "/"), ""
	git := rest.New(rest.Config{Name: "The git host", Base: &at, HTTP: client, Header: http.Header{"User-Agent": {"git/parley"}}})
	header, err := git.Get(ctx, "/info/refs", url.Values{"service": {"git-upload-pack"}}, nil)
	if err != nil && slices.Contains([]fault.Kind{fault.Unauthenticated, fault.Forbidden}, fault.KindOf(err)) && fault.CodeOf(err) != rest.CodeAddress {
		return fault.Wrap(err, fault.NotFound, rest.CodeNotFound, "Nobody may read the repository without a login.")
	}
	if err == nil && !strings.HasPrefix(header.Get("Content-Type"), "application/x-git-upload-pack-advertisement") {
		err = fault.New(fault.NotFound, rest.CodeNotFound, "There is no git repository at the address.")
	}
	return err
}
