package agentserver

import (
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
)

// listTrust shows what the conversation asks its user to trust. The route is
// Parley's own: the protocol knows no such questions.
func (s *Server) listTrust(w http.ResponseWriter, r *httpkit.Request) error {
	sc, v, err := s.find(r)
	if err != nil {
		return err
	}
	x, err := s.cfg.Engine.Extensions(r.Context(), sc.owner, v.ID)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, map[string][]conversation.TrustQuestion{"questions": append([]conversation.TrustQuestion{}, x.Questions...)})
}

// decideTrust takes the user's answer.
func (s *Server) decideTrust(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Subject string `json:"subject"`
		Hash    string `json:"hash"`
		Trusted bool   `json:"trusted"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	sc, v, err := s.find(r)
	if err != nil {
		return err
	}
	if err := s.cfg.Engine.Trust(r.Context(), sc.owner, v.ID, q.Subject, q.Hash, q.Trusted); err != nil {
		return err
	}
	return writeSuccess(w, true)
}
