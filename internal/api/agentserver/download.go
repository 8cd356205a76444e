package agentserver

import (
	"net/http"

	"parley/internal/api/eventwire"
	"parley/internal/api/httpkit"
)

// downloadTrajectory answers with the whole conversation as an archive.
func (s *Server) downloadTrajectory(w http.ResponseWriter, r *httpkit.Request) error {
	sc, v, err := s.find(r)
	if err != nil {
		return err
	}
	info, err := s.stateOf(r.Context(), sc, v)
	if err != nil {
		return err
	}
	return eventwire.Download(w, r, s.cfg.Engine, v, info)
}
