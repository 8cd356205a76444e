package agentserver

import (
	"encoding/json"
	"net/http"
	"slices"

	"parley/internal/api/httpkit"
	"parley/internal/engine"
	"parley/internal/llm"
)

func (s *Server) switchProfile(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Profile string `json:"profile_name"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	sc, v, err := s.find(r)
	if err != nil {
		return err
	}
	if err := s.cfg.Engine.SwitchProfile(r.Context(), sc.owner, v.ID, q.Profile); err != nil {
		return err
	}
	return writeSuccess(w, true)
}

// switchLLM takes a whole configuration. A key that is sent as the mask is the
// one that the conversation has, for the same endpoint only.
func (s *Server) switchLLM(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		LLM json.RawMessage `json:"llm"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	in, err := lenientLLM(q.LLM, "body", "llm")
	if err != nil {
		return err
	}
	sc, v, err := s.find(r)
	if err != nil {
		return err
	}
	l, err := in.Over(&v.Options.LLM, false, "body", "llm")
	if err != nil {
		return err
	}
	if err := s.cfg.Engine.SwitchLLM(r.Context(), sc.owner, v.ID, l); err != nil {
		return err
	}
	return writeSuccess(w, true)
}

type validation struct {
	Valid bool             `json:"valid"`
	Error *validationError `json:"error"`
}

type validationError struct {
	Type    string  `json:"type"`
	Message string  `json:"message"`
	Action  *string `json:"action"`
}

// transient are failures that say nothing against a configuration.
var transient = []string{llm.ClassRateLimit.Code(), llm.ClassTimeout.Code()}

// validateProfile makes one short call with a configuration that is not stored
// yet, or, without one, with the stored profile. Clients ask before they save.
func (s *Server) validateProfile(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		LLM json.RawMessage `json:"llm"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	u, err := s.book().Settings(r)
	if err != nil {
		return err
	}
	l, err := u.Profile(r.PathValue("name"))
	if len(q.LLM) > 0 && string(q.LLM) != "null" {
		in, bad := lenientLLM(q.LLM, "body", "llm")
		if bad != nil {
			return bad
		}
		l, err = in.Over(&l, false, "body", "llm")
	}
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, validationOf(s.cfg.Engine.Probe(r.Context(), r.Principal.Owner, l)))
}

func validationOf(p engine.ProbeResult) validation {
	if p.Error == nil || slices.Contains(transient, p.Error.Code) {
		return validation{Valid: true}
	}
	return validation{Error: &validationError{p.Error.Code, p.Error.Text, orNull(p.Error.Advice)}}
}
