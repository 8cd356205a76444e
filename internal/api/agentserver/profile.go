package agentserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/fault"
)

// Settings keeps a user's settings, the LLM profiles among them.
type Settings interface {
	Settings(ctx context.Context, userID string) (*account.Settings, error)
	UpdateSettings(ctx context.Context, userID string,
		change func(old *account.Settings) (*account.Settings, error)) error
}

// profileInfo is agent protocol 1.8, like everything here. There are no provider
// connections.
type profileInfo struct {
	Name             string  `json:"name"`
	Model            *string `json:"model"`
	BaseURL          *string `json:"base_url"`
	Connection       *string `json:"provider_connection_id"`
	ConnectionBroken bool    `json:"provider_connection_broken"`
	APIKeySet        bool    `json:"api_key_set"`
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

type profileActivation struct {
	profileMutation
	Model      *string `json:"model"`
	LLMApplied bool    `json:"llm_applied"`
}

// userSettings returns the settings of a credential's owner, empty ones before
// the first store.
func (s *Server) userSettings(r *httpkit.Request) (*account.Settings, error) {
	u, err := s.cfg.Settings.Settings(r.Context(), r.Principal.Owner)
	if fault.Is(err, fault.NotFound) {
		return account.DefaultSettings(), nil
	}
	return u, err
}

// changeSettings stores what change makes of them, in one transaction.
func (s *Server) changeSettings(r *httpkit.Request, change func(*account.Settings) error) error {
	return s.cfg.Settings.UpdateSettings(r.Context(), r.Principal.Owner, func(old *account.Settings) (*account.Settings, error) {
		next := account.DefaultSettings()
		if old != nil {
			*next = *old
		}
		return next, change(next)
	})
}

// refuseExposure answers X-Expose-Secrets. A key of a sandbox opens what runs in
// it, and may be known to it: it never gets a key of its owner. There is no cipher
// to encrypt one with, and in clear they are not given at all.
func refuseExposure(r *httpkit.Request) error {
	switch r.Header.Get("X-Expose-Secrets") {
	case "":
		return nil
	case "encrypted", "true":
		return fault.New(fault.Unavailable, "no_cipher", "This server does not hand out encrypted secrets.").
			WithHint("Leave X-Expose-Secrets out; the server uses the stored keys itself.")
	case "plaintext":
		return fault.New(fault.Forbidden, "secrets_not_exposed", "This server does not hand out secrets.").
			WithHint("Leave X-Expose-Secrets out; the server uses the stored keys itself.")
	}
	return fault.New(fault.Invalid, "invalid_header", "X-Expose-Secrets must be encrypted or plaintext.")
}

func (s *Server) listProfiles(w http.ResponseWriter, r *httpkit.Request) error {
	if err := refuseExposure(r); err != nil {
		return err
	}
	u, err := s.userSettings(r)
	if err != nil {
		return err
	}
	list := profileList{Profiles: []profileInfo{}, Active: orNull(u.ActiveProfile)}
	for _, name := range slices.Sorted(maps.Keys(u.Profiles)) {
		l := u.Profiles[name]
		list.Profiles = append(list.Profiles, profileInfo{Name: name, Model: orNull(l.Model), BaseURL: orNull(l.BaseURL),
			APIKeySet: l.APIKey.IsSet()})
	}
	return httpkit.JSON(w, http.StatusOK, list)
}

func (s *Server) getProfile(w http.ResponseWriter, r *httpkit.Request) error {
	if err := refuseExposure(r); err != nil {
		return err
	}
	u, err := s.userSettings(r)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	config, err := u.ProfileConfig(name, nil)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, profileDetail{name, config, u.Profiles[name].APIKey.IsSet()})
}

func (s *Server) saveProfile(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		LLM            json.RawMessage `json:"llm"`
		IncludeSecrets bool            `json:"include_secrets"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	in, err := lenientLLM(q.LLM)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	save := account.ProfileSave{LLM: in, WithSecrets: q.IncludeSecrets, Loc: []any{"body", "llm"}}
	err = s.changeSettings(r, func(u *account.Settings) error { return u.SaveProfile(name, save) })
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusCreated, profileMutation{name, fmt.Sprintf("Profile '%s' saved", name)})
}

func (s *Server) deleteProfile(w http.ResponseWriter, r *httpkit.Request) error {
	name := r.PathValue("name")
	err := s.cfg.Settings.UpdateSettings(r.Context(), r.Principal.Owner, func(old *account.Settings) (*account.Settings, error) {
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

func (s *Server) activateProfile(w http.ResponseWriter, r *httpkit.Request) error {
	name, model := r.PathValue("name"), ""
	err := s.changeSettings(r, func(u *account.Settings) error {
		err := u.ActivateProfile(name)
		model = u.LLM().Model
		return err
	})
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, profileActivation{
		profileMutation{name, fmt.Sprintf("Profile '%s' activated", name)}, orNull(model), true})
}

func (s *Server) renameProfile(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		NewName string `json:"new_name"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	name := r.PathValue("name")
	err := s.changeSettings(r, func(u *account.Settings) error { return u.RenameProfile(name, q.NewName) })
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, profileMutation{q.NewName, fmt.Sprintf("Profile '%s' renamed to '%s'", name, q.NewName)})
}

// lenientLLM reads an LLM object. Unknown members are ignored, as everywhere in
// this protocol: its newer clients send more than this server knows.
func lenientLLM(raw json.RawMessage) (*account.LLMInput, error) {
	loc := []any{"body", "llm"}
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
