package forge

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/forge/pass"
	"parley/internal/forge/rest"
)

// Fault codes.
const (
	CodeNoProvider = "git_provider_missing" // Unauthenticated: no token is stored
	CodeBadToken   = "bad_git_token"        // Invalid
	CodeRejected   = rest.CodeRejected      // Unauthenticated: the service does not take the token
	CodeForbidden  = rest.CodeForbidden     // Forbidden: a good token, with too few rights
)

// Settings finds users' settings.
type Settings interface {
	Settings(ctx context.Context, userID string) (*account.Settings, error)
}

// Config makes a Service.
type Config struct {
	Settings Settings
	Openers  map[string]Opener // by provider
	Passes   *pass.Signer      // of access tokens
	Logger   *slog.Logger
	// Public connects to hosts that no user named; nil = rest.NewHTTP(false).
	Public *http.Client
}

// Service opens git hosting services with the tokens that users stored. It is safe
// for concurrent use.
type Service struct {
	cfg         Config
	public, own *http.Client
}

// New makes a service. Close ends its connections.
func New(c Config) *Service {
	s := &Service{cfg: c, public: c.Public, own: rest.NewHTTP(true)}
	if s.public == nil {
		s.public = rest.NewHTTP(false)
	}
	return s
}

// Close closes connections that nobody uses.
func (s *Service) Close() {
	s.public.CloseIdleConnections()
	s.own.CloseIdleConnections()
}

// Host returns the user's service. Without a token it is Unauthenticated.
func (s *Service) Host(ctx context.Context, owner, provider string) (Host, error) {
	tokens, err := s.tokens(ctx, owner)
	if err != nil {
		return nil, err
	}
	t, ok := tokens[provider]
	if !ok || !t.Token.IsSet() {
		return nil, missing(provider)
	}
	return s.open(provider, t)
}

func missing(provider string) error {
	title := "No git provider"
	if known, ok := services[provider]; ok {
		title = "No token for " + known.title
	}
	return fault.New(fault.Unauthenticated, CodeNoProvider, "%s is stored.", title).
		WithHint("Store one with POST /api/v1/secrets/git-providers.")
}

// tokens are those of a user, none before the first settings.
func (s *Service) tokens(ctx context.Context, owner string) (map[string]account.ProviderToken, error) {
	settings, err := s.cfg.Settings.Settings(ctx, owner)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return settings.Secrets.ProviderTokens, nil
}

// open makes the service of a token.
func (s *Service) open(provider string, t account.ProviderToken) (Host, error) {
	place, err := PlaceOf(provider, hostOf(t))
	if err != nil {
		return nil, err
	}
	token := strings.TrimSpace(t.Token.Reveal())
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r > unicode.MaxASCII || r <= ' ' || r == 0x7f }) {
		return nil, fault.New(fault.Invalid, CodeBadToken, "The token for %s has characters that cannot be sent.", place.Title()).
			WithHint("Copy the token again.")
	}
	opener := s.cfg.Openers[provider]
	if opener == nil {
		return nil, fault.New(fault.Unsupported, "not_built", "This server cannot talk to %s.", place.Title())
	}
	c := Conn{Place: place, Token: account.NewSecret(token), HTTP: s.public}
	if place.Own {
		c.HTTP = s.own
	}
	return opener(c)
}

func hostOf(t account.ProviderToken) string {
	if t.Host == nil {
		return ""
	}
	return *t.Host
}

// Check asks the service whether it takes a token, and whom it belongs to.
func (s *Service) Check(ctx context.Context, provider string, t account.ProviderToken) (User, error) {
	h, err := s.open(provider, t)
	if err != nil {
		return User{}, err
	}
	return h.User(ctx)
}

// Configured are the services that a user has a token for, in order. With none it is
// Unauthenticated.
func (s *Service) Configured(ctx context.Context, owner string) ([]string, error) {
	tokens, err := s.tokens(ctx, owner)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, p := range Providers() {
		if t, ok := tokens[p]; ok && t.Token.IsSet() {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return nil, missing("")
	}
	return found, nil
}

// User is whom the first token that is taken belongs to.
func (s *Service) User(ctx context.Context, owner string) (User, error) {
	_, user, err := first(ctx, s, owner, Host.User)
	return user, err
}

// Organizations are those of the first service whose token is taken.
func (s *Service) Organizations(ctx context.Context, owner string) (provider string, names []string, err error) {
	return first(ctx, s, owner, Host.Organizations)
}

// first asks the user's services in order until one answers.
func first[T any](ctx context.Context, s *Service, owner string, ask func(Host, context.Context) (T, error)) (string, T, error) {
	var none T
	providers, err := s.Configured(ctx, owner)
	if err != nil {
		return "", none, err
	}
	var last error
	for _, p := range providers {
		h, err := s.Host(ctx, owner, p)
		if err == nil {
			var found T
			if found, err = ask(h, ctx); err == nil {
				return p, found, nil
			}
		}
		last = errors.Join(last, err)
		if ctx.Err() != nil {
			break
		}
	}
	return "", none, last
}

// Tasks are the open work of the user at all services, asked side by side. A service
// that fails is left out, unless all do.
func (s *Service) Tasks(ctx context.Context, owner string) ([]conversation.SuggestedTask, error) {
	providers, err := s.Configured(ctx, owner)
	if err != nil {
		return nil, err
	}
	found, failed := make([][]conversation.SuggestedTask, len(providers)), make([]error, len(providers))
	var all sync.WaitGroup
	for i, p := range providers {
		all.Go(func() {
			h, err := s.Host(ctx, owner, p)
			if err == nil {
				found[i], err = h.Tasks(ctx)
			}
			failed[i] = err
		})
	}
	all.Wait()
	var tasks []conversation.SuggestedTask
	wrong := 0
	for i, p := range providers {
		tasks = append(tasks, found[i]...)
		if failed[i] != nil {
			wrong++
			s.cfg.Logger.Warn("a git provider did not tell its open work", "provider", p, "error", failed[i])
		}
	}
	if wrong == len(providers) {
		return nil, errors.Join(failed...)
	}
	return tasks, nil
}

// maxText bounds what is searched for, in bytes.
const maxText = 256

// Repositories lists or searches repositories of a service.
func (s *Service) Repositories(ctx context.Context, owner, provider string, q RepositoryQuery) (List[Repository], error) {
	if q.Text = strings.TrimSpace(q.Text); len(q.Text) > maxText || len(q.Installation) > maxText || hasDots(q.Installation) {
		return List[Repository]{}, fault.New(fault.Invalid, rest.CodeRefused, "The query or the installation is not valid.").
			WithHint("At most %d bytes each.", maxText)
	}
	h, err := s.Host(ctx, owner, provider)
	if err != nil {
		return List[Repository]{}, err
	}
	return h.Repositories(ctx, q)
}

// Branches lists or searches the branches of a repository.
func (s *Service) Branches(ctx context.Context, owner, provider string, q BranchQuery) (List[Branch], error) {
	if q.Text = strings.TrimSpace(q.Text); len(q.Text) > maxText {
		return List[Branch]{}, fault.New(fault.Invalid, rest.CodeRefused, "The query is longer than %d bytes.", maxText)
	}
	if _, err := SplitName(provider, q.Repository); err != nil {
		return List[Branch]{}, err
	}
	h, err := s.Host(ctx, owner, provider)
	if err != nil {
		return List[Branch]{}, err
	}
	return h.Branches(ctx, q)
}

// Issue makes an access token for a user's git token of one provider, which need not
// be stored yet. Errors are Invalid for a provider that is not known.
func (s *Service) Issue(owner, provider string) (token string, expires time.Time, err error) {
	if _, known := services[provider]; !known {
		_, err := PlaceOf(provider, "")
		return "", time.Time{}, err
	}
	return s.cfg.Passes.Issue(owner, provider, time.Now())
}

// Redeem returns the git token that an access token opens, as it is stored now.
// Errors are Unauthenticated for an access token that is not good, and NotFound where
// there is no git token any more.
func (s *Service) Redeem(ctx context.Context, access string) (account.Secret, error) {
	claims, err := s.cfg.Passes.Verify(access, time.Now())
	if err != nil {
		return account.Secret{}, err
	}
	tokens, err := s.tokens(ctx, claims.UserID)
	if err != nil {
		return account.Secret{}, err
	}
	if t := tokens[claims.Provider].Token; t.IsSet() {
		return t, nil
	}
	return account.Secret{}, fault.New(fault.NotFound, "git_provider_unknown", "No such provider")
}
