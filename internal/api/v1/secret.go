package v1

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/api/settingswire"
	"parley/internal/fault"
)

// secretErrors is the shape of these routes (V1 9.3): a missing secret in "error", a
// name that is taken in "message", beside what V1 says elsewhere.
func secretErrors(r *http.Request, p *httpkit.Problem) (int, any) {
	status, body := httpkit.DetailErrors(r, p)
	m, ok := body.(map[string]any)
	if !ok || len(p.Fields) > 0 {
		return status, body
	}
	m["error"] = p.Text
	if p.Code == account.CodeSecretExists {
		status = http.StatusBadRequest
		m["message"] = p.Text
		delete(m, "error")
	}
	return status, m
}

type secretQuery struct {
	Contains *string `json:"name__contains"`
	PageID   *string `json:"page_id"`
	Limit    int     `json:"limit"`
}

func (h *handlers) searchSecrets(w http.ResponseWriter, r *httpkit.Request) error {
	var q secretQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	s, err := h.book().Settings(r)
	if err != nil {
		return err
	}
	part := strings.ToLower(orEmpty(q.Contains))
	all := slices.DeleteFunc(settingswire.SecretNames(s.Secrets.Custom), func(n settingswire.SecretName) bool {
		return !strings.Contains(strings.ToLower(n.Name), part)
	})
	from, err := strconv.Atoi(orEmpty(q.PageID))
	if err != nil || from < 0 { // from the beginning (V1 0.2)
		from = 0
	}
	from = min(from, len(all))
	to, next := min(from+q.Limit, len(all)), ""
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	return writePage(w, all[from:to], next)
}

type message struct {
	Message string `json:"message"`
}

func (h *handlers) createSecret(w http.ResponseWriter, r *httpkit.Request) error {
	var q settingswire.SecretInput
	if err := r.Body(&q); err != nil {
		return err
	}
	err := h.book().Change(r, func(s *account.Settings) error {
		return s.PutSecret(q.Name, q.Value, q.Description, "body", "value")
	})
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusCreated, message{"Secret saved"})
}

func (h *handlers) updateSecret(w http.ResponseWriter, r *httpkit.Request) error {
	var q settingswire.SecretName
	if err := r.Body(&q); err != nil {
		return err
	}
	err := h.book().Change(r, func(s *account.Settings) error {
		return s.RenameSecret(r.PathValue("secret_id"), q.Name, q.Description)
	})
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, message{"Secret updated"})
}

func (h *handlers) deleteSecret(w http.ResponseWriter, r *httpkit.Request) error {
	err := h.book().Change(r, func(s *account.Settings) error { return s.DeleteSecret(r.PathValue("secret_id")) })
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, message{"Secret deleted"})
}

// sandboxOwner returns the settings of the owner of the sandbox that the path names.
// The key of that sandbox is the only credential that opens them (V1 0.5).
func (h *handlers) sandboxOwner(r *httpkit.Request) (*account.Settings, error) {
	p, err := httpkit.PrincipalOf(r.Context())
	if err != nil {
		return nil, err
	}
	if p.SandboxID == "" || p.SandboxID != r.PathValue("sandbox_id") {
		return nil, fault.New(fault.Unauthenticated, "unauthorized", "The key is not that of the sandbox.")
	}
	s, err := h.Settings.Settings(r.Context(), p.Owner)
	if fault.Is(err, fault.NotFound) {
		return account.DefaultSettings(), nil
	}
	return s, err
}

// tokenName is what the git token of a provider is called.
func tokenName(provider string) string { return provider + "_token" }

func (h *handlers) listSandboxSecrets(w http.ResponseWriter, r *httpkit.Request) error {
	s, err := h.sandboxOwner(r)
	if err != nil {
		return err
	}
	names := settingswire.SecretNames(s.Secrets.Custom)
	for provider, t := range s.Secrets.ProviderTokens {
		if _, own := s.Secrets.Custom[tokenName(provider)]; t.Token.IsSet() && !own {
			description := "Token of the git provider " + provider
			names = append(names, settingswire.SecretName{Name: tokenName(provider), Description: &description})
		}
	}
	slices.SortFunc(names, func(a, b settingswire.SecretName) int { return strings.Compare(a.Name, b.Name) })
	return httpkit.JSON(w, http.StatusOK, map[string]any{"secrets": names})
}

// readSandboxSecret answers with a value as it is stored now: a custom secret, else the
// git token of a provider.
func (h *handlers) readSandboxSecret(w http.ResponseWriter, r *httpkit.Request) error {
	s, err := h.sandboxOwner(r)
	if err != nil {
		return err
	}
	name := r.PathValue("secret_name")
	value := s.Secrets.Custom[name].Value
	for provider, t := range s.Secrets.ProviderTokens {
		if !value.IsSet() && strings.EqualFold(name, tokenName(provider)) {
			value = t.Token
		}
	}
	if !value.IsSet() {
		return httpkit.NotFound("Secret")
	}
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	_, err = io.WriteString(w, value.Reveal())
	return err
}
