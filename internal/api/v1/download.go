package v1

import (
	"net/http"

	"parley/internal/api/eventwire"
	"parley/internal/api/httpkit"
	"parley/internal/engine"
)

// download answers with the whole conversation as an archive. It needs no sandbox.
func (h *handlers) download(w http.ResponseWriter, r *httpkit.Request) error {
	v, err := h.find(r)
	if err != nil {
		return err
	}
	all, err := h.renderAll(r, []*engine.View{v})
	if err != nil {
		return err
	}
	meta := all[0]
	meta.ConversationURL, meta.SessionAPIKey = nil, nil // good here and now only
	return eventwire.Download(w, r, h.Engine, v, meta)
}
