package v1

import (
	"errors"
	"net/http"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/fault"
	"parley/internal/forge"
)

// gitTrial is how the test of a git token went. It is an answer, not an error of this
// API: the status is 200 in any case.
type gitTrial struct {
	OK       bool          `json:"ok"`
	Provider string        `json:"provider"`
	Host     *string       `json:"host"`
	Login    *string       `json:"login"`
	Scopes   []string      `json:"scopes"` // null = not known
	Missing  []string      `json:"missing_scopes"`
	Latency  float64       `json:"latency_seconds"`
	Error    *llmTestError `json:"error"`
}

// testGitProvider tries what a form holds before it is stored. A token that it leaves
// out, or shows as the mask, is the stored one, where the host is the one that it was
// stored for.
func (h *handlers) testGitProvider(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Provider string               `json:"provider"`
		Token    account.SecretChange `json:"token"`
		Host     *string              `json:"host"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	s, err := h.book().Settings(r)
	if err != nil {
		return err
	}
	stored := s.Secrets.ProviderTokens[q.Provider]
	asked := account.ProviderToken{Token: q.Token.Apply(account.Secret{}), Host: q.Host}
	token, ok := forge.Merged(q.Provider, stored, asked)
	switch {
	case !ok && stored.Token.IsSet():
		return httpkit.BadField("the stored token belongs to another host: enter it again", nil, "body", "token")
	case !ok:
		return httpkit.BadField("enter a token: none is stored for this provider", nil, "body", "token")
	}
	trial := h.Git.Try(r.Context(), q.Provider, token)
	if r.Context().Err() != nil {
		return trial.Err // nobody reads the answer
	}
	return writeTrial(w, q.Provider, trial)
}

func writeTrial(w http.ResponseWriter, provider string, t forge.Trial) error {
	out := gitTrial{OK: t.Err == nil, Provider: provider, Host: orNull(t.Host), Login: orNull(t.Login), Scopes: t.Scopes,
		Missing: t.Lacks, Latency: t.Seconds}
	if out.Missing == nil {
		out.Missing = []string{}
	}
	if t.Err != nil {
		var said *fault.Error
		if !errors.As(t.Err, &said) {
			return t.Err
		}
		out.Error = &llmTestError{said.Code, said.Public, orNull(said.Hint)}
	}
	return httpkit.JSON(w, http.StatusOK, out)
}
