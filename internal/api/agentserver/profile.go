package agentserver

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/api/profiles"
	"parley/internal/fault"
)

// book is the LLM profiles of a credential's owner (agent protocol 1.8).
func (s *Server) book() profiles.Book {
	return profiles.Book{Store: s.cfg.Settings, Owner: func(p httpkit.Principal) string { return p.Owner }}
}

// agents is the agent profiles of a credential's owner.
func (s *Server) agents() profiles.Agents {
	return profiles.Agents{Book: s.book(), Reporter: s.cfg.Engine}
}

// profileInfo is an entry of the list. There are no provider connections.
type profileInfo struct {
	profiles.Info
	Connection       *string `json:"provider_connection_id"`
	ConnectionBroken bool    `json:"provider_connection_broken"`
}

type profileActivation struct {
	profiles.Activation
	LLMApplied bool `json:"llm_applied"`
}

func (s *Server) listProfiles(w http.ResponseWriter, r *httpkit.Request) error {
	if _, err := s.show(w, r); err != nil {
		return err
	}
	list, err := profiles.ListOf(s.book(), r, func(i profiles.Info) profileInfo { return profileInfo{Info: i} })
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, list)
}

func (s *Server) getProfile(w http.ResponseWriter, r *httpkit.Request) error {
	show, err := s.show(w, r)
	if err != nil {
		return err
	}
	return s.book().Get(w, r, show)
}

func (s *Server) saveProfile(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		LLM            json.RawMessage `json:"llm"`
		IncludeSecrets bool            `json:"include_secrets"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	raw, err := s.unlockPart(r.Principal, "llm", q.LLM)
	if err != nil {
		return err
	}
	in, err := lenientLLM(raw, "body", "llm")
	if err != nil {
		return err
	}
	return s.book().Save(w, r, account.ProfileSave{LLM: in, WithSecrets: q.IncludeSecrets, Loc: []any{"body", "llm"}})
}

func (s *Server) deleteProfile(w http.ResponseWriter, r *httpkit.Request) error {
	return s.book().Delete(w, r)
}

func (s *Server) activateProfile(w http.ResponseWriter, r *httpkit.Request) error {
	a, err := s.book().Activate(r)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, profileActivation{a, true})
}

func (s *Server) renameProfile(w http.ResponseWriter, r *httpkit.Request) error {
	return s.book().Rename(w, r)
}

// listConnections answers what is: no keys are shared between profiles.
func (s *Server) listConnections(w http.ResponseWriter, _ *httpkit.Request) error {
	return httpkit.JSON(w, http.StatusOK, []struct{}{})
}

// lenientLLM reads an LLM object, which stands at loc. Unknown members are ignored, as everywhere in
// this protocol: its newer clients send more than this server knows.
func lenientLLM(raw json.RawMessage, loc ...any) (*account.LLMInput, error) {
	in, err := account.ParseLLM(raw, loc...)
	var f *fault.Error
	if !errors.As(err, &f) {
		return in, err
	}
	unknown := map[string]bool{}
	for _, field := range f.Fields {
		if name, ok := field.Loc[len(field.Loc)-1].(string); ok && field.Type == "extra_forbidden" && len(field.Loc) == len(loc)+1 {
			unknown[name] = true
		}
	}
	var members map[string]json.RawMessage
	if len(unknown) == 0 || json.Unmarshal(raw, &members) != nil {
		return nil, err
	}
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return unknown[name] })
	if raw, err = json.Marshal(members); err != nil {
		return nil, err
	}
	return account.ParseLLM(raw, loc...)
}
