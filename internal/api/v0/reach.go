package v0

import (
	"context"
	"net/http"
	"net/url"

	"parley/internal/api/httpkit"
	"parley/internal/fleet"
	"parley/internal/store"
)

// Exposed tells what programs in sandboxes offer.
type Exposed func(ctx context.Context, boxes []*store.Sandbox) []fleet.Exposed

// attachedTo returns a running conversation's sandbox.
func (h *handlers) attachedTo(r *httpkit.Request) (*store.Sandbox, fleet.Exposed, error) {
	id, err := idOf(r)
	if err != nil {
		return nil, fleet.Exposed{}, err
	}
	v, err := h.attached(r.Context(), r.Principal.UserID, id)
	if err != nil || v.Sandbox == nil || h.exposed == nil {
		return nil, fleet.Exposed{}, err
	}
	return v.Sandbox, h.exposed(r.Context(), []*store.Sandbox{v.Sandbox})[0], nil
}

// runtimeConfig names the sandbox and the session, which is the conversation.
func (h *handlers) runtimeConfig(w http.ResponseWriter, r *httpkit.Request) error {
	id, err := idOf(r)
	if err != nil {
		return err
	}
	v, err := h.attached(r.Context(), r.Principal.UserID, id)
	if err != nil {
		return err
	}
	return ok(w, map[string]*string{"runtime_id": unlessEmpty(v.SandboxID), "session_id": ref(string(v.ID))})
}

// editorURL answers with a link that opens the code editor once, without a key; null
// if the sandbox has none.
func (h *handlers) editorURL(w http.ResponseWriter, r *httpkit.Request) error {
	box, offers, err := h.attachedTo(r)
	if err != nil {
		return err
	}
	if offers.Editor == "" || h.previews == nil {
		return ok(w, map[string]any{"vscode_url": nil})
	}
	ticket, _ := h.previews.Ticket(httpkit.Preview{Owner: box.Owner, SandboxID: box.ID, Port: fleet.EditorPort})
	query := url.Values{"ticket": {ticket}, "folder": {box.WorkingDir}}
	return ok(w, map[string]string{"vscode_url": h.urls.OwnPreviewURL(r.Request, box.ID, fleet.EditorPort) + "?" + query.Encode()})
}

// maxHosts bounds the web-hosts of one sandbox.
const maxHosts = 32

// webHosts maps the addresses of what listens in the sandbox to their ports.
func (h *handlers) webHosts(w http.ResponseWriter, r *httpkit.Request) error {
	box, offers, err := h.attachedTo(r)
	if err != nil {
		return err
	}
	hosts := map[string]int{}
	for _, p := range offers.Ports[:min(len(offers.Ports), maxHosts)] {
		hosts[httpkit.PreviewURL(h.urls.Base(r.Request), box.ID, p.Port)] = p.Port
	}
	return ok(w, map[string]any{"hosts": hosts})
}

// securityPaths are where old clients look for an analyzer's own routes (V0 section
// 13). There is none in any conversation.
var securityPaths = [...]string{"/api/conversations/{conversation_id}/security/{path...}", "/api/security/{path...}"}

// MountSecurity mounts the routes that only say that there is no such analyzer.
func MountSecurity(mux *httpkit.Mux) error {
	for _, path := range securityPaths {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if err := mux.Handle(method, path, noAnalyzer); err != nil {
				return err
			}
		}
	}
	return nil
}

func noAnalyzer(w http.ResponseWriter, _ *http.Request) {
	httpkit.WriteDetail(w, http.StatusNotFound, "Security analyzer not initialized")
}
