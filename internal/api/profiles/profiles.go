// Package profiles are the operations on a user's LLM profiles that V1 and the
// agent-server protocol have in common: what the settings become and what is
// answered. It knows no routes; an API adds what only it has (members of a list,
// headers, how strictly it reads). Keys are never shown.
package profiles

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

// Store keeps users' settings, the LLM profiles among them.
type Store interface {
	Settings(ctx context.Context, userID string) (*account.Settings, error)
	UpdateSettings(ctx context.Context, userID string,
		change func(old *account.Settings) (*account.Settings, error)) error
}

// Book is the profiles of whoever a request acts for.
type Book struct {
	Store Store
	Owner func(httpkit.Principal) string // the user whose profiles a credential opens
}

// Info is an entry of a list.
type Info struct {
	Name      string  `json:"name"`
	Model     *string `json:"model"`
	BaseURL   *string `json:"base_url"`
	APIKeySet bool    `json:"api_key_set"`
}

// List is an API's list of profiles; its entries embed Info.
type List[T any] struct {
	Profiles []T     `json:"profiles"`
	Active   *string `json:"active_profile"`
}

// Detail is one profile.
type Detail struct {
	Name      string                     `json:"name"`
	Config    map[string]json.RawMessage `json:"config"`
	APIKeySet bool                       `json:"api_key_set"`
}

// Mutation tells what was done to a profile.
type Mutation struct {
	Name    string `json:"name"`
	Message string `json:"message"`
}

// Activation has a model wherever the settings changed: clients look for it.
type Activation struct {
	Mutation
	Model *string `json:"model"`
}

// Settings returns the user's settings, empty ones before the first store.
func (b Book) Settings(r *httpkit.Request) (*account.Settings, error) {
	s, err := b.Store.Settings(r.Context(), b.Owner(r.Principal))
	if fault.Is(err, fault.NotFound) {
		return account.DefaultSettings(), nil
	}
	return s, err
}

// Change stores what change makes of the user's settings, in one transaction.
func (b Book) Change(r *httpkit.Request, change func(*account.Settings) error) error {
	return b.Store.UpdateSettings(r.Context(), b.Owner(r.Principal), func(old *account.Settings) (*account.Settings, error) {
		next := account.DefaultSettings()
		if old != nil {
			*next = *old
		}
		return next, change(next)
	})
}

// ListOf returns the profiles by name, each as entry makes it.
func ListOf[T any](b Book, r *httpkit.Request, entry func(Info) T) (List[T], error) {
	s, err := b.Settings(r)
	if err != nil {
		return List[T]{}, err
	}
	list := List[T]{Profiles: []T{}, Active: orNull(s.ActiveProfile)}
	for _, name := range slices.Sorted(maps.Keys(s.Profiles)) {
		l := s.Profiles[name]
		list.Profiles = append(list.Profiles, entry(Info{name, orNull(l.Model), orNull(l.BaseURL), l.APIKey.IsSet()}))
	}
	return list, nil
}

// Get answers with a profile. With no show it shows no key: api_key is null, so that a
// client that sends the object back with preserve_existing_api_key keeps it.
func (b Book) Get(w http.ResponseWriter, r *httpkit.Request, show func(account.Secret) string) error {
	s, err := b.Settings(r)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	config, err := s.ProfileConfig(name, show)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, Detail{name, config, s.Profiles[name].APIKey.IsSet()})
}

// Save stores a profile, in place of one that has the name.
func (b Book) Save(w http.ResponseWriter, r *httpkit.Request, save account.ProfileSave) error {
	name := r.PathValue("name")
	if err := b.Change(r, func(s *account.Settings) error { return s.SaveProfile(name, save) }); err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusCreated, Mutation{name, fmt.Sprintf("Profile '%s' saved", name)})
}

// Delete removes a profile; it is no error if there is none.
func (b Book) Delete(w http.ResponseWriter, r *httpkit.Request) error {
	name := r.PathValue("name")
	err := b.Store.UpdateSettings(r.Context(), b.Owner(r.Principal), func(old *account.Settings) (*account.Settings, error) {
		if old == nil {
			return nil, nil // nothing to delete, and nothing to store
		}
		next := *old
		return &next, next.DeleteProfile(name)
	})
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, Mutation{name, fmt.Sprintf("Profile '%s' deleted", name)})
}

// Activate makes the settings choose a profile's model, and returns what to
// answer.
func (b Book) Activate(r *httpkit.Request) (Activation, error) {
	name, model := r.PathValue("name"), ""
	err := b.Change(r, func(s *account.Settings) error {
		err := s.ActivateProfile(name)
		model = s.LLM().Model
		return err
	})
	return Activation{Mutation{name, fmt.Sprintf("Profile '%s' activated", name)}, orNull(model)}, err
}

// Rename gives a profile another name; what refers to it follows.
func (b Book) Rename(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		NewName string `json:"new_name"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	name := r.PathValue("name")
	if err := b.Change(r, func(s *account.Settings) error { return s.RenameProfile(name, q.NewName) }); err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, Mutation{q.NewName, fmt.Sprintf("Profile '%s' renamed to '%s'", name, q.NewName)})
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
