package v0

import (
	"maps"
	"net/http"
	"slices"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/fault"
)

func (h *handlers) secretHandlers() httpkit.Handlers {
	return httpkit.Handlers{
		"load_custom_secrets_names": h.listSecrets,
		"create_custom_secret":      h.createSecret,
		"update_custom_secret":      h.updateSecret,
		"delete_custom_secret":      h.deleteSecret,
	}
}

func secretEncoders() map[string]httpkit.ErrorEncoder {
	return map[string]httpkit.ErrorEncoder{
		"load_custom_secrets_names": secretErrors("loading"),
		"create_custom_secret":      secretErrors("creating"),
		"update_custom_secret":      secretErrors("updating"),
		"delete_custom_secret":      secretErrors("deleting"),
	}
}

// secretErrors is the shape of these routes (legacy API 5.2): a name that is taken is a
// 400 with a message, which clients look into for "already exists".
func secretErrors(doing string) httpkit.ErrorEncoder {
	return func(r *http.Request, p *httpkit.Problem) (int, any) {
		switch {
		case isFrameworks(p):
			return detailErrors(r, p)
		case p.Code == account.CodeSecretExists:
			return http.StatusBadRequest, map[string]any{"message": p.Text}
		case p.Kind == fault.Internal:
			return p.Status, map[string]any{"error": "Something went wrong " + doing + " secret"}
		}
		return p.Status, map[string]any{"error": p.Text}
	}
}

type secretEntry struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

func (h *handlers) listSecrets(w http.ResponseWriter, r *httpkit.Request) error {
	s, err := h.settings.Settings(r.Context(), r.Principal.UserID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	list := []secretEntry{}
	if s != nil {
		for _, name := range slices.Sorted(maps.Keys(s.Secrets.Custom)) {
			list = append(list, secretEntry{name, s.Secrets.Custom[name].Description})
		}
	}
	return ok(w, map[string]any{"custom_secrets": list})
}

// message is the answer to what was stored.
func message(w http.ResponseWriter, status int, text string) error {
	return httpkit.JSON(w, status, map[string]string{"message": text})
}

func (h *handlers) createSecret(w http.ResponseWriter, r *httpkit.Request) error {
	var in struct {
		Name        string  `json:"name"`
		Value       string  `json:"value"`
		Description *string `json:"description"`
	}
	if err := r.Body(&in); err != nil {
		return err
	}
	secret := account.CustomSecret{Value: account.NewSecret(in.Value), Description: text(in.Description)}
	err := h.changeSecrets(r, func(s *account.Settings) error { return s.AddSecret(in.Name, secret, "body", "value") })
	if err != nil {
		return named(err, in.Name)
	}
	return message(w, http.StatusCreated, "Secret created successfully")
}

// updateSecret renames a secret and replaces its description. The value stays.
func (h *handlers) updateSecret(w http.ResponseWriter, r *httpkit.Request) error {
	var in struct {
		Name        string  `json:"name"`
		Description *string `json:"description"`
	}
	if err := r.Body(&in); err != nil {
		return err
	}
	id, description := r.PathValue("secret_id"), text(in.Description)
	err := h.changeSecrets(r, func(s *account.Settings) error {
		if noSecretsYet(s) {
			return nil
		}
		return s.RenameSecret(id, in.Name, &description)
	})
	if fault.CodeOf(err) == account.CodeSecretExists {
		return named(err, in.Name)
	}
	if err != nil {
		return named(err, id)
	}
	return message(w, http.StatusOK, "Secret updated successfully")
}

func (h *handlers) deleteSecret(w http.ResponseWriter, r *httpkit.Request) error {
	id := r.PathValue("secret_id")
	err := h.changeSecrets(r, func(s *account.Settings) error {
		if noSecretsYet(s) {
			return nil
		}
		return s.DeleteSecret(id)
	})
	if err != nil {
		return named(err, id)
	}
	return message(w, http.StatusOK, "Secret deleted successfully")
}

// noSecretsYet reports whether nobody ever stored a secret or a token: there is nothing
// to change then, which is no error.
func noSecretsYet(s *account.Settings) bool {
	return s.Secrets.ProviderTokens == nil && s.Secrets.Custom == nil
}

// changeSecrets stores what change makes of the secrets. Without settings they are
// stored for themselves.
func (h *handlers) changeSecrets(r *httpkit.Request, change func(*account.Settings) error) error {
	return h.settings.UpdateSettings(r.Context(), r.Principal.UserID, func(old *account.Settings) (*account.Settings, error) {
		next := account.DefaultSettings()
		next.SecretsOnly = true
		if old != nil {
			*next = *old
		}
		if err := change(next); err != nil {
			return nil, err
		}
		if old == nil && noSecretsYet(next) {
			return nil, nil // nothing changed, nothing to store
		}
		return next, nil
	})
}

// named says which secret an error is about, in the words that clients look for.
func named(err error, name string) error {
	switch fault.CodeOf(err) {
	case account.CodeSecretExists:
		return fault.New(fault.Conflict, account.CodeSecretExists, "Secret %s already exists", name)
	case account.CodeSecretNotFound:
		return fault.New(fault.NotFound, account.CodeSecretNotFound, "Secret with ID %s not found", name)
	}
	return err
}
