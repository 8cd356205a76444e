package agentserver

import (
	"io"
	"net/http"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/api/settingswire"
)

func (s *Server) listSecrets(w http.ResponseWriter, r *httpkit.Request) error {
	settings, err := s.book().Settings(r)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"secrets": settingswire.SecretNames(settings.Secrets.Custom)})
}

// readSecret answers with a secret's value. It is what users hand to their sandboxes:
// the key of one opens it.
func (s *Server) readSecret(w http.ResponseWriter, r *httpkit.Request) error {
	settings, err := s.book().Settings(r)
	if err != nil {
		return err
	}
	secret, ok := settings.Secrets.Custom[r.PathValue("name")]
	if !ok {
		return httpkit.NotFound("Secret")
	}
	return writeSecret(w, secret.Value)
}

func writeSecret(w http.ResponseWriter, value account.Secret) error {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	_, err := io.WriteString(w, value.Reveal())
	return err
}

func (s *Server) putSecret(w http.ResponseWriter, r *httpkit.Request) error {
	var q settingswire.SecretInput
	if err := r.Body(&q); err != nil {
		return err
	}
	err := s.book().Change(r, func(old *account.Settings) error {
		return old.PutSecret(q.Name, q.Value, q.Description, "body", "value")
	})
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, settingswire.SecretName{Name: q.Name, Description: q.Description})
}

func (s *Server) deleteSecret(w http.ResponseWriter, r *httpkit.Request) error {
	err := s.book().Change(r, func(old *account.Settings) error { return old.DeleteSecret(r.PathValue("name")) })
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, map[string]bool{"deleted": true})
}
