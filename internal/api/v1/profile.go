package v1

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/fault"
)

// profileInfo is V1 9.2, like everything here.
type profileInfo struct {
	Name      string  `json:"name"`
	Model     *string `json:"model"`
	BaseURL   *string `json:"base_url"`
	APIKeySet bool    `json:"api_key_set"`
}

type profileList struct {
	Profiles []profileInfo `json:"profiles"`
	Active   *string       `json:"active_profile"`
}

type profileDetail struct {
	Name      string                     `json:"name"`
	Config    map[string]json.RawMessage `json:"config"`
	APIKeySet bool                       `json:"api_key_set"`
}

type profileMutation struct {
	Name    string `json:"name"`
	Message string `json:"message"`
}

// profileActivation has a model wherever the settings changed: clients look for it.
type profileActivation struct {
	profileMutation
	Model *string `json:"model"`
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

// userSettings returns a user's settings, empty ones before the first store.
func (h *handlers) userSettings(ctx context.Context, owner string) (*account.Settings, error) {
	s, err := h.Settings.Settings(ctx, owner)
	if fault.Is(err, fault.NotFound) {
		return account.DefaultSettings(), nil
	}
	return s, err
}

// changeSettings stores what change makes of a user's settings, in one transaction.
func (h *handlers) changeSettings(ctx context.Context, owner string, change func(*account.Settings) error) error {
	return h.Settings.UpdateSettings(ctx, owner, func(old *account.Settings) (*account.Settings, error) {
		next := account.DefaultSettings()
		if old != nil {
			*next = *old
		}
		return next, change(next)
	})
}

func (h *handlers) listProfiles(w http.ResponseWriter, r *httpkit.Request) error {
	s, err := h.userSettings(r.Context(), r.Principal.UserID)
	if err != nil {
		return err
	}
	list := profileList{Profiles: []profileInfo{}, Active: orNull(s.ActiveProfile)}
	for _, name := range slices.Sorted(maps.Keys(s.Profiles)) {
		l := s.Profiles[name]
		list.Profiles = append(list.Profiles, profileInfo{name, orNull(l.Model), orNull(l.BaseURL), l.APIKey.IsSet()})
	}
	return httpkit.JSON(w, http.StatusOK, list)
}

// getProfile shows no key: api_key is null, so that a client that sends the object
// back with preserve_existing_api_key keeps it.
func (h *handlers) getProfile(w http.ResponseWriter, r *httpkit.Request) error {
	s, err := h.userSettings(r.Context(), r.Principal.UserID)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	config, err := s.ProfileConfig(name, nil)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, profileDetail{name, config, s.Profiles[name].APIKey.IsSet()})
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
	name := r.PathValue("name")
	save := account.ProfileSave{LLM: llm, PreserveKeys: q.PreserveKey, Loc: []any{"body", "llm"},
		WithSecrets: q.IncludeSecrets == nil || *q.IncludeSecrets}
	err = h.changeSettings(r.Context(), r.Principal.UserID, func(s *account.Settings) error { return s.SaveProfile(name, save) })
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusCreated, profileMutation{name, fmt.Sprintf("Profile '%s' saved", name)})
}

func (h *handlers) deleteProfile(w http.ResponseWriter, r *httpkit.Request) error {
	name := r.PathValue("name")
	err := h.Settings.UpdateSettings(r.Context(), r.Principal.UserID, func(old *account.Settings) (*account.Settings, error) {
		if old == nil {
			return nil, nil // nothing to delete, and nothing to store
		}
		next := *old
		next.DeleteProfile(name)
		return &next, nil
	})
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, profileMutation{name, fmt.Sprintf("Profile '%s' deleted", name)})
}

func (h *handlers) activateProfile(w http.ResponseWriter, r *httpkit.Request) error {
	name, model := r.PathValue("name"), ""
	err := h.changeSettings(r.Context(), r.Principal.UserID, func(s *account.Settings) error {
		err := s.ActivateProfile(name)
		model = s.LLM().Model
		return err
	})
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, profileActivation{
		profileMutation{name, fmt.Sprintf("Profile '%s' activated", name)}, orNull(model)})
}

func (h *handlers) renameProfile(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		NewName string `json:"new_name"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	name := r.PathValue("name")
	err := h.changeSettings(r.Context(), r.Principal.UserID, func(s *account.Settings) error {
		return s.RenameProfile(name, q.NewName)
	})
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, profileMutation{q.NewName, fmt.Sprintf("Profile '%s' renamed to '%s'", name, q.NewName)})
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
	if err := h.Engine.SwitchProfile(r.Context(), r.Principal.UserID, v.ID, q.Profile); err != nil {
		return err
	}
	return writeSuccess(w)
}
