package v1

import (
	"net/http"
	"net/url"
	"time"

	"parley/internal/api/httpkit"
	"parley/internal/store"
)

type shareLink struct {
	ID        string `json:"id"`
	CreatedAt string `json:"created_at"`
	ExpiresAt string `json:"expires_at"`
}

type newShareLink struct {
	shareLink
	Token string `json:"token"`
	URL   string `json:"url"`
}

func renderShare(s store.Share) shareLink {
	return shareLink{s.ID, httpkit.FormatTime(s.CreatedAt), httpkit.FormatTime(s.ExpiresAt)}
}

// share makes a link for strangers. Its token is shown this once.
func (h *handlers) share(w http.ResponseWriter, r *httpkit.Request) error {
	q := struct {
		ExpiresIn int64 `json:"expires_in"`
	}{ExpiresIn: 7 * 24 * 3600}
	if err := r.Body(&q); err != nil {
		return err
	}
	v, err := h.find(r)
	if err != nil {
		return err
	}
	token, s, err := h.Engine.ShareLink(r.Context(), r.Principal.UserID, v.ID, time.Duration(q.ExpiresIn)*time.Second)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	link := h.URLs.Base(r.Request) + "/api/shared-conversations?share_token=" + url.QueryEscape(token)
	return httpkit.JSON(w, http.StatusCreated, newShareLink{renderShare(s), token, link})
}

func (h *handlers) listShares(w http.ResponseWriter, r *httpkit.Request) error {
	v, err := h.find(r)
	if err != nil {
		return err
	}
	all, err := h.Engine.ShareLinks(r.Context(), r.Principal.UserID, v.ID)
	if err != nil {
		return err
	}
	items := make([]shareLink, len(all))
	for i, s := range all {
		items[i] = renderShare(s)
	}
	return writePage(w, items, "")
}

func (h *handlers) revokeShare(w http.ResponseWriter, r *httpkit.Request) error {
	v, err := h.find(r)
	if err != nil {
		return err
	}
	if err := h.Engine.RevokeLink(r.Context(), r.Principal.UserID, v.ID, r.PathValue("share_id")); err != nil {
		return err
	}
	return writeSuccess(w)
}
