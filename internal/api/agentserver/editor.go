package agentserver

import (
	"net/http"
	"net/url"
	"path"

	"parley/internal/api/httpkit"
	"parley/internal/fault"
	"parley/internal/fleet"
)

// editorPlace is a sandbox with a code editor in it.
type editorPlace struct {
	owner, sandboxID, dir string
}

// editorURL answers with a link that opens the editor once, without a key.
func (s *Server) editorURL(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Dir *string `json:"workspace_dir"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	at, err := s.editor(r)
	if err != nil {
		return err
	}
	if at == nil {
		return errNoEditor()
	}
	if path.IsAbs(orEmpty(q.Dir)) {
		at.dir = *q.Dir
	}
	ticket, _ := s.cfg.Previews.Register.Ticket(httpkit.Preview{Owner: at.owner, SandboxID: at.sandboxID, Port: fleet.EditorPort})
	query := url.Values{ticketParameter: {ticket}, "folder": {at.dir}}
	link := s.cfg.Previews.URLs.OwnPreviewURL(r.Request, at.sandboxID, fleet.EditorPort) + "?" + query.Encode()
	return httpkit.JSON(w, http.StatusOK, map[string]string{"url": link})
}

// editorStatus says whether there is an editor; it starts when it is first looked at.
func (s *Server) editorStatus(w http.ResponseWriter, r *httpkit.Request) error {
	at, err := s.editor(r)
	if err != nil {
		return err
	}
	status := map[string]any{"running": at != nil, "enabled": at != nil}
	if at == nil {
		status["message"] = fault.PublicText(errNoEditor())
	}
	return httpkit.JSON(w, http.StatusOK, status)
}

func (s *Server) desktopURL(http.ResponseWriter, *httpkit.Request) error {
	return fault.New(fault.Unavailable, "no_desktop", "The sandbox has no desktop.")
}
