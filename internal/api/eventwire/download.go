package eventwire

import (
	"context"
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/store"
	"parley/internal/trajectory"
)

// Downloads is what an archive of a conversation is made with.
type Downloads interface {
	Log() store.Events
	// MaskOf hides the secrets that a conversation knows now.
	MaskOf(ctx context.Context, owner string, id conversation.ID) (func(string) string, error)
}

// Download answers with a conversation as a zip archive. Events that come while it is
// written are left out. The log is masked already; here those secrets are, too, that
// were stored after an event.
func Download(w http.ResponseWriter, r *httpkit.Request, from Downloads, v *engine.View, meta any) error {
	mask, err := from.MaskOf(r.Context(), v.Owner, v.ID)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/zip")
	h.Set("Content-Disposition", `attachment; filename="`+trajectory.Name(v.ID)+`"`)
	h.Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return nil
	}
	return trajectory.Write(r.Context(), w, from.Log(), trajectory.Archive{Conversation: v.ID, Head: v.Summary.Head,
		Meta: meta, Modified: v.UpdatedAt, Mask: mask})
}
