package v1

import (
	"encoding/json"
	"net/http"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/api/profiles"
	"parley/internal/engine"
	"parley/internal/fault"
)

// book is the caller's LLM profiles (V1 9.2).
func (h *handlers) book() profiles.Book {
	return profiles.Book{Store: h.Settings, Owner: func(p httpkit.Principal) string { return p.UserID }}
}

// agents is the caller's agent profiles.
func (h *handlers) agents() profiles.Agents {
	return profiles.Agents{Book: h.book(), Reporter: h.Engine}
}

type saveProfileRequest struct {
	IncludeSecrets *bool           `json:"include_secrets"` // nil = there was no body
	LLM            json.RawMessage `json:"llm"`
	PreserveKey    bool            `json:"preserve_existing_api_key"`
}

// input reads the LLM object of a request, nil if there is none.
func input(raw json.RawMessage) (*account.LLMInput, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	return account.ParseLLM(raw, "body", "llm")
}

func (h *handlers) listProfiles(w http.ResponseWriter, r *httpkit.Request) error {
	list, err := profiles.ListOf(h.book(), r, func(i profiles.Info) profiles.Info { return i })
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, list)
}

func (h *handlers) getProfile(w http.ResponseWriter, r *httpkit.Request) error {
	return h.book().Get(w, r, nil)
}

func (h *handlers) saveProfile(w http.ResponseWriter, r *httpkit.Request) error {
	var q saveProfileRequest
	if err := r.Body(&q); err != nil {
		return err
	}
	llm, err := input(q.LLM)
	if err != nil {
		return err
	}
	return h.book().Save(w, r, account.ProfileSave{LLM: llm, PreserveKeys: q.PreserveKey, Loc: []any{"body", "llm"},
		WithSecrets: q.IncludeSecrets == nil || *q.IncludeSecrets})
}

func (h *handlers) deleteProfile(w http.ResponseWriter, r *httpkit.Request) error {
	return h.book().Delete(w, r)
}

func (h *handlers) activateProfile(w http.ResponseWriter, r *httpkit.Request) error {
	a, err := h.book().Activate(r)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, a)
}

func (h *handlers) renameProfile(w http.ResponseWriter, r *httpkit.Request) error {
	return h.book().Rename(w, r)
}

// switchProfile works whatever the sandbox does: the model is called by the server.
func (h *handlers) switchProfile(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Profile string `json:"profile_name"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	v, err := h.find(r)
	if err != nil {
		return err
	}
	if err := canSwitch(v); err != nil {
		return err
	}
	if err := h.Engine.SwitchProfile(r.Context(), r.Principal.UserID, v.ID, q.Profile); err != nil {
		return err
	}
	return writeSuccess(w)
}

// canSwitch wants a sandbox that runs (V1 1.2), or would if it were used.
func canSwitch(v *engine.View) error {
	err := canSend(v)
	switch fault.KindOf(err) {
	case fault.Gone:
		return httpkit.NotFound("Sandbox")
	case fault.Unavailable:
		return fault.New(fault.Conflict, "sandbox_not_running", "%s", fault.PublicText(err)).
			WithHint("Resume the sandbox or start a new conversation.")
	}
	return err
}
