package v1

import (
	"context"
	"net/http"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/fault"
)

// Keys keeps the API keys of users.
type Keys interface {
	CreateKey(ctx context.Context, k account.APIKey, h account.KeyHash) (account.APIKey, error)
	Keys(ctx context.Context, userID, label string) ([]account.APIKey, error)
	Key(ctx context.Context, h account.KeyHash) (account.APIKey, error)
	DeleteKey(ctx context.Context, userID, label string, id int64) error
}

type apiKey struct {
	ID        int64   `json:"id"`
	Name      *string `json:"name"`
	CreatedAt string  `json:"created_at"`
	UsedAt    *string `json:"last_used_at"`
	NotBefore *string `json:"not_before"`
	ExpiresAt *string `json:"expires_at"`
	OrgID     *string `json:"org_id"`
}

// newAPIKey is an answer that shows the key, once.
type newAPIKey struct {
	apiKey
	Key string `json:"key"`
}

func renderKey(k account.APIKey) apiKey {
	return apiKey{ID: k.ID, Name: orNull(k.Name), CreatedAt: httpkit.FormatTime(k.CreatedAt), UsedAt: maybeTime(k.UsedAt),
		NotBefore: maybeTime(k.NotBefore), ExpiresAt: maybeTime(k.ExpiresAt)}
}

func maybeTime(t *time.Time) *string {
	if t == nil {
		return nil
	}
	return orNull(httpkit.FormatTime(*t))
}

func (h *handlers) listKeys(w http.ResponseWriter, r *httpkit.Request) error {
	keys, err := h.Keys.Keys(r.Context(), r.Principal.UserID, account.MadeKeyLabel)
	if err != nil {
		return err
	}
	out := []apiKey{}
	for _, k := range keys {
		out = append(out, renderKey(k))
	}
	return httpkit.JSON(w, http.StatusOK, out)
}

type keyRequest struct {
	Name      *string `json:"name"`
	NotBefore *string `json:"not_before"`
	ExpiresAt *string `json:"expires_at"`
	OrgID     *string `json:"org_id"`
}

func (h *handlers) createKey(w http.ResponseWriter, r *httpkit.Request) error {
	var q keyRequest
	if err := r.Body(&q); err != nil {
		return err
	}
	k, err := q.key(r.Principal.UserID, time.Now().UTC().Truncate(time.Microsecond))
	if err != nil {
		return err
	}
	value := account.NewKey("pk-")
	if k, err = h.Keys.CreateKey(r.Context(), k, account.HashKey(value)); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return httpkit.JSON(w, http.StatusOK, newAPIKey{renderKey(k), value})
}

func (q *keyRequest) key(user string, now time.Time) (account.APIKey, error) {
	k := account.APIKey{UserID: user, Label: account.MadeKeyLabel, Name: strings.TrimSpace(orEmpty(q.Name)), CreatedAt: now}
	if q.OrgID != nil {
		return k, httpkit.NotFound("Organization")
	}
	for _, m := range []struct {
		name string
		text *string
		to   **time.Time
	}{{"not_before", q.NotBefore, &k.NotBefore}, {"expires_at", q.ExpiresAt, &k.ExpiresAt}} {
		if m.text == nil {
			continue
		}
		t, err := parseTime(m.text)
		if err != nil {
			return k, err
		}
		t = t.UTC().Truncate(time.Microsecond)
		*m.to = &t
	}
	if k.ExpiresAt != nil && (!k.ExpiresAt.After(now) || k.NotBefore != nil && !k.ExpiresAt.After(*k.NotBefore)) {
		return k, httpkit.BadField("the key would never open anything: it ends before it begins", q.ExpiresAt, "body", "expires_at")
	}
	return k, nil
}

func (h *handlers) deleteKey(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		ID int64 `json:"key_id"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	if err := h.Keys.DeleteKey(r.Context(), r.Principal.UserID, account.MadeKeyLabel, q.ID); err != nil {
		return err
	}
	h.Streams.Recheck(r.Context()) // what the key has open ends with it
	return httpkit.JSON(w, http.StatusOK, message{"API key deleted"})
}

type currentKey struct {
	ID         int64   `json:"id"`
	Name       *string `json:"name"`
	OrgID      string  `json:"org_id"` // "" = there are no organisations
	BoundOrgID *string `json:"bound_org_id"`
	UserID     string  `json:"user_id"`
	AuthType   string  `json:"auth_type"`
}

// currentKey tells of the key that the request came with, also one that the
// configuration gives.
func (h *handlers) currentKey(w http.ResponseWriter, r *httpkit.Request) error {
	k, err := h.Keys.Key(r.Context(), account.HashKey(httpkit.Credential(r.Request)))
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.Invalid, "no_api_key", "The request did not come with an API key.")
	}
	if err != nil {
		return err
	}
	name := k.Name
	if k.Label != account.MadeKeyLabel {
		name = k.Label
	}
	return httpkit.JSON(w, http.StatusOK, currentKey{ID: k.ID, Name: orNull(name), UserID: r.Principal.UserID, AuthType: "bearer"})
}
