package agentserver

import (
	"net/http"
	"strings"

	"parley/internal/api/httpkit"
	"parley/internal/fault"
)

// missing are the routes of the protocol that this build does not serve (agent
// protocol §1). They say so instead of looking like a wrong address.
var missing = []struct{ path, methods string }{
	{"/api/conversations/{id}/switch_acp_model", "POST"},
	{"/api/conversations/{id}/load_plugin", "POST"},
	{"/api/conversations/{id}/credential-bindings/{name}", "PUT"},
	{"/api/conversations/{id}/prepare-for-sandbox-pause", "POST"},
	{"/api/init", "GET POST"},
	{"/api/skills/{path...}", "GET POST PATCH DELETE"},
	{"/api/plugins", "POST"},
	{"/api/plugins/{path...}", "GET POST PATCH DELETE"},
	{"/api/llm/provider-connections", "POST"},
	{"/api/llm/provider-connections/{id}", "PATCH DELETE"},
	{"/api/llm/subscription/{path...}", "GET POST"},
}

func (s *Server) mountMissing() error {
	for _, m := range missing {
		for _, method := range strings.Fields(m.methods) {
			if err := s.mux.Handle(method, m.path, s.notBuilt); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Server) notBuilt(w http.ResponseWriter, r *http.Request) {
	_, err := s.authorize(r)
	if err == nil {
		err = fault.New(fault.Unsupported, "not_built", "%s %s of the agent-server protocol is not built yet.", r.Method, r.URL.Path)
	}
	httpkit.WriteError(w, r, httpkit.AgentErrors, err)
}
