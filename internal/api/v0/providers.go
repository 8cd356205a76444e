package v0

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/forge"
)

// Git is what the API needs of the git hosting services.
type Git interface {
	Host(ctx context.Context, owner, provider string) (forge.Host, error)
	Configured(ctx context.Context, owner string) ([]string, error)
	Repositories(ctx context.Context, owner, provider string, q forge.RepositoryQuery) (forge.List[forge.Repository], error)
	Branches(ctx context.Context, owner, provider string, q forge.BranchQuery) (forge.List[forge.Branch], error)
	Tasks(ctx context.Context, owner string) ([]conversation.SuggestedTask, error)
	User(ctx context.Context, owner string) (forge.User, error)
	Check(ctx context.Context, provider string, t account.ProviderToken) (forge.User, error)
	Find(ctx context.Context, owner, provider, repository string) (found string, err error)
}

func (h *handlers) providerHandlers() httpkit.Handlers {
	return httpkit.Handlers{
		"store_provider_tokens": h.storeProviders,
		"unset_provider_tokens": h.unsetProviders,
		"reset_settings":        h.resetSettings,
	}
}

func providerEncoders() map[string]httpkit.ErrorEncoder {
	return map[string]httpkit.ErrorEncoder{
		"store_provider_tokens": providerErrors,
		"unset_provider_tokens": providerErrors,
		"reset_settings":        providerErrors,
	}
}

// codeInvalidToken is the code of a token that its provider does not take.
const codeInvalidToken = "git_token_invalid"

func providerErrors(r *http.Request, p *httpkit.Problem) (int, any) {
	switch {
	case p.Code == codeInvalidToken:
		return p.Status, map[string]any{"error": p.Text}
	case isFrameworks(p):
		return detailErrors(r, p)
	case p.Kind == fault.Internal:
		return p.Status, map[string]any{"error": "Something went wrong storing git providers"}
	}
	return p.Status, map[string]any{"error": p.Text}
}

// resetSettings is gone for good; old clients still ask.
func (h *handlers) resetSettings(http.ResponseWriter, *httpkit.Request) error {
	return fault.New(fault.Gone, "reset_removed", "Reset settings functionality has been removed.")
}

// storeProviders replaces all tokens, once the providers took those that are new
// (legacy API 5.1).
func (h *handlers) storeProviders(w http.ResponseWriter, r *httpkit.Request) error {
	var in struct {
		Tokens map[string]account.TokenChange `json:"provider_tokens"`
	}
	if err := r.Body(&in); err != nil {
		return err
	}
	if err := knownProviders(in.Tokens); err != nil {
		return err
	}
	stored, err := h.settings.Settings(r.Context(), r.Principal.UserID)
	if fault.Is(err, fault.NotFound) {
		stored, err = account.DefaultSettings(), nil
	}
	if err != nil {
		return err
	}
	_, check := account.ReplaceTokens(stored.Secrets.ProviderTokens, in.Tokens)
	for _, provider := range account.Providers { // in order, so that the same one is told each time
		if t, ok := check[provider]; ok {
			if err := h.verify(r.Context(), provider, t); err != nil {
				return err
			}
		}
	}
	err = h.changeSecrets(r, func(s *account.Settings) error {
		if next, _ := account.ReplaceTokens(s.Secrets.ProviderTokens, in.Tokens); len(next) > 0 || len(s.Secrets.ProviderTokens) > 0 {
			s.SetTokens(next)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return message(w, http.StatusOK, "Git providers stored")
}

// knownProviders refuses keys that are no provider, in the framework's shape for keys.
func knownProviders(tokens map[string]account.TokenChange) error {
	var fields []fault.Field
	names := make([]string, len(account.Providers))
	for i, p := range account.Providers {
		names[i] = "'" + p + "'"
	}
	last := len(names) - 1
	expected := strings.Join(names[:last], ", ") + " or " + names[last]
	for name := range tokens {
		if !slices.Contains(account.Providers, name) {
			fields = append(fields, fault.Field{Loc: []any{"body", "provider_tokens", name, "[key]"}, Type: "enum",
				Msg: "Input should be " + expected, Input: name, Ctx: map[string]any{"expected": expected}})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	slices.SortFunc(fields, func(a, b fault.Field) int { return strings.Compare(a.Input.(string), b.Input.(string)) })
	return account.Invalid(fields)
}

// verify asks the provider whether it takes a token. One with too few rights to say
// whose it is counts as good. A provider that cannot answer now is no reason to refuse:
// servers without a way out store tokens, too.
func (h *handlers) verify(ctx context.Context, provider string, t account.ProviderToken) error {
	if h.git == nil {
		return nil
	}
	_, err := h.git.Check(ctx, provider, t)
	switch {
	case err == nil || fault.CodeOf(err) == forge.CodeForbidden:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	switch fault.KindOf(err) {
	case fault.Unavailable, fault.Timeout, fault.RateLimited:
		h.log.Warn("a git token is stored unverified: its provider did not answer", "provider", provider, "error", err)
		return nil
	case fault.Internal:
		return err
	}
	return fault.Wrap(err, fault.Unauthenticated, codeInvalidToken, "Invalid token. Please make sure it is a valid %s token.", provider)
}

func (h *handlers) unsetProviders(w http.ResponseWriter, r *httpkit.Request) error {
	err := h.changeSecrets(r, func(s *account.Settings) error {
		if len(s.Secrets.ProviderTokens) > 0 {
			s.SetTokens(map[string]account.ProviderToken{})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return message(w, http.StatusOK, "Unset Git provider tokens")
}
