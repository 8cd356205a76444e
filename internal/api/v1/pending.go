package v1

import (
	"fmt"
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/content"
)

type pendingResponse struct {
	ID       string `json:"id"`
	Queued   bool   `json:"queued"`
	Position int    `json:"position"`
}

// queueMessage keeps a message for a conversation that is starting (V1 section 8).
func (h *handlers) queueMessage(w http.ResponseWriter, r *httpkit.Request) error {
	var m struct {
		Content []content.Part `json:"content"`
	}
	if err := r.Body(&m); err != nil {
		return err
	}
	q, err := h.Engine.Queue(r.Context(), r.Principal.UserID, r.PathValue("conversation_id"), m.Content)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusCreated, pendingResponse{q.ID, true, q.Place})
}

// badRequestErrors is the shape of a route that reads its body itself in the contract:
// an invalid one is a 400 with a text.
func badRequestErrors(r *http.Request, p *httpkit.Problem) (int, any) {
	if p.Status != http.StatusUnprocessableEntity || len(p.Fields) == 0 {
		return httpkit.DetailErrors(r, p)
	}
	text := "Invalid request body."
	for _, f := range p.Fields {
		text += fmt.Sprintf(" %s: %s.", fieldPath(f.Loc), f.Msg)
	}
	return http.StatusBadRequest, map[string]any{"detail": text, "code": p.Code}
}

// fieldPath writes a location as people read it: body.content.0.text.
func fieldPath(loc []any) string {
	path := ""
	for i, step := range loc {
		if i > 0 {
			path += "."
		}
		path += fmt.Sprint(step)
	}
	return path
}
