package v1

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"parley/internal/api/httpkit"
	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/store"
)

// maxWorkers bounds the WORKER_n of one sandbox.
const maxWorkers = 32

type exposedURL struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	Port int    `json:"port"`
}

// renderExposed lists what a running sandbox can be reached by (V1 3.4). Programs
// that listen are numbered by their ports, so that the numbers are the same after a
// restart of the server.
func renderExposed(s *store.Sandbox, e fleet.Exposed, base string) []exposedURL {
	out := []exposedURL{{"AGENT_SERVER", httpkit.AgentURL(base, s.ID), portOf(base)}}
	if e.Editor != "" {
		folder := url.Values{"folder": {s.WorkingDir}}.Encode()
		out = append(out, exposedURL{"VSCODE", httpkit.PreviewURL(base, s.ID, fleet.EditorPort) + "?" + folder, fleet.EditorPort})
	}
	for i, p := range e.Ports[:min(len(e.Ports), maxWorkers)] {
		out = append(out, exposedURL{"WORKER_" + strconv.Itoa(i+1), httpkit.PreviewURL(base, s.ID, p.Port), p.Port})
	}
	return out
}

// exposed asks the sandboxes what they offer.
func (h *handlers) exposed(ctx context.Context, boxes []*store.Sandbox) []fleet.Exposed {
	if h.Exposed == nil {
		return make([]fleet.Exposed, len(boxes))
	}
	return h.Exposed(ctx, boxes)
}

type previewTicket struct {
	Ticket    string `json:"ticket"`
	URL       string `json:"url"`
	ExpiresAt string `json:"expires_at"`
}

// previewTicket lets a browser open a preview once, without a key.
func (h *handlers) previewTicket(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Port int `json:"port"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	box, err := h.sandbox(r)
	if err != nil {
		return err
	}
	switch {
	case h.Previews == nil:
		return fault.New(fault.Unsupported, "previews_not_built", "This server shows no previews.")
	case box.Status == store.SandboxMissing:
		return fault.New(fault.Gone, "sandbox_missing", "The sandbox %s does not exist any more.", box.ID)
	}
	ticket, expires := h.Previews.Ticket(httpkit.Preview{Owner: box.Owner, SandboxID: box.ID, Port: q.Port})
	target := h.URLs.OwnPreviewURL(r.Request, box.ID, q.Port)
	query := url.Values{"ticket": {ticket}}
	if q.Port == fleet.EditorPort {
		query.Set("folder", box.WorkingDir)
	}
	return httpkit.JSON(w, http.StatusOK, previewTicket{ticket, target + "?" + query.Encode(), httpkit.FormatTime(expires.UTC())})
}
