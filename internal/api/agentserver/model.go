package agentserver

import (
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/llm"
)

func (s *Server) offers() []llm.Offer {
	if s.cfg.Models == nil {
		return nil
	}
	return s.cfg.Models()
}

// llmProviders lists the providers of the models (agent protocol 1.7). The models
// are sorted by id, so that those of one provider are together.
func (s *Server) llmProviders(w http.ResponseWriter, _ *httpkit.Request) error {
	names := []string{}
	for _, o := range s.offers() {
		if len(names) == 0 || names[len(names)-1] != o.Provider {
			names = append(names, o.Provider)
		}
	}
	return httpkit.JSON(w, http.StatusOK, map[string][]string{"providers": names})
}

// tools lists the tools that an agent can have (agent protocol 1.7).
func (s *Server) tools(w http.ResponseWriter, _ *httpkit.Request) error {
	return httpkit.JSON(w, http.StatusOK, s.cfg.Engine.ToolNames())
}

// llmModels lists ids as users configure them.
func (s *Server) llmModels(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Provider *string `json:"provider"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	ids := []string{}
	for _, o := range s.offers() {
		if q.Provider == nil || *q.Provider == o.Provider {
			ids = append(ids, o.ID())
		}
	}
	return httpkit.JSON(w, http.StatusOK, map[string][]string{"models": ids})
}

// llmVerified lists names by provider; clients put both together themselves.
func (s *Server) llmVerified(w http.ResponseWriter, _ *httpkit.Request) error {
	names := map[string][]string{}
	for _, o := range s.offers() {
		if o.Verified {
			names[o.Provider] = append(names[o.Provider], o.Name)
		}
	}
	return httpkit.JSON(w, http.StatusOK, map[string]map[string][]string{"models": names})
}
