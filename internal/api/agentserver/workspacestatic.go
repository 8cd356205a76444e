package agentserver

import (
	"bufio"
	"cmp"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"

	"parley/internal/api/httpkit"
	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/workspace"
)

const (
	workspaceCookieTime = 10 * 365 * 24 * 60 * 60 // seconds
	// staticPolicy keeps what agents and models wrote from acting as a page of this
	// server. It may stand in frames of anybody's: in an opaque origin it has no rights
	// that a click could be stolen for.
	staticPolicy = opaquePolicy + "; frame-ancestors http: https:"
	sniffed      = 512 // bytes of a file that tell what it is
)

// isWorkspacePath reports paths of the static server at the root. No other API has
// them, so they need no key that says where they lead.
func isWorkspacePath(p string) bool {
	rest, ok := strings.CutPrefix(p, "/api/conversations/")
	_, rest, found := strings.Cut(rest, "/")
	return ok && found && (rest == "workspace" || strings.HasPrefix(rest, "workspace/"))
}

// workspaceViewer lets in who has a key in the headers, or in the cookie that
// openWorkspaceSession sets.
func (s *Server) workspaceViewer(r *http.Request) (httpkit.Principal, error) {
	who, err := s.authorize(r)
	if err == nil {
		return who, nil
	}
	for _, c := range r.CookiesNamed(sessionCookie) {
		found, wrong := s.cfg.Auth.Resolve(r.Context(), c.Value)
		if wrong == nil {
			found, wrong = s.admit(r.Context(), found)
		}
		if wrong == nil {
			return found, nil
		}
	}
	return who, err
}

// serveWorkspace serves the files of a conversation's working directory to browsers.
func (s *Server) serveWorkspace(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", staticPolicy)
	h.Del("X-Frame-Options")
	h.Del("Cross-Origin-Opener-Policy") // browsers refuse pages that have both
	if err := s.sendWorkspace(w, r); err != nil {
		if h.Get("Content-Length") != "" {
			panic(http.ErrAbortHandler) // a part must not pass for the whole
		}
		httpkit.WriteError(w, r, httpkit.AgentErrors, err)
	}
}

func (s *Server) sendWorkspace(w http.ResponseWriter, r *http.Request) error {
	who, err := s.workspaceViewer(r)
	if err != nil {
		return err
	}
	v, err := s.view(r.Context(), scopeOf(who), r.PathValue("conversation_id"))
	if err != nil {
		return err
	}
	ws, err := s.workspaceOf(r.Context(), who)
	if err != nil {
		return err
	}
	dir := cmp.Or(v.Options.WorkingDir, ws.Dir())
	file, err := ws.Within(r.Context(), dir, r.PathValue("path"))
	if err != nil {
		return err
	}
	isDir, err := ws.IsDir(r.Context(), file)
	if err != nil {
		return err
	}
	if isDir {
		if !strings.HasSuffix(r.URL.EscapedPath(), "/") { // links in it are relative to it
			here := path.Base(r.URL.EscapedPath())
			w.Header().Set("Location", "./"+here+"/")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return nil
		}
		if file, err = ws.Within(r.Context(), dir, r.PathValue("path")+"/index.html"); err != nil {
			return err
		}
	}
	return showFile(w, r, ws, file)
}

// showFile answers with a file as what its name or its first bytes say that it is.
func showFile(w http.ResponseWriter, r *http.Request, ws *workspace.Workspace, name string) error {
	file, err := ws.Open(r.Context(), name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Body.Close() }()
	body := bufio.NewReaderSize(file.Body, sniffed)
	media := mime.TypeByExtension(path.Ext(name))
	if media == "" {
		begin, err := body.Peek(int(min(sniffed, file.Size)))
		if err != nil {
			return err
		}
		media = http.DetectContentType(begin)
	}
	closer := file.Body
	file.Body = readCloser{body, closer}
	return sendFile(w, r, file, media, false)
}

type readCloser struct {
	io.Reader
	io.Closer
}

// openWorkspaceSession gives a browser a cookie with the key, for the files of
// workspaces and streams of events. It never holds a user's key: that opens more.
func (s *Server) openWorkspaceSession(w http.ResponseWriter, r *httpkit.Request) error {
	key := httpkit.Credential(r.Request)
	if r.Principal.UserID != "" {
		boxes, err := s.cfg.Sandboxes.Batch(r.Context(), r.Principal.Owner, []string{r.Principal.SandboxID})
		if err != nil {
			return err
		}
		if boxes[0] == nil {
			return httpkit.NotFound("Sandbox")
		}
		key = boxes[0].SessionKey.Reveal()
	}
	if key != "" { // a server without keys needs none
		http.SetCookie(w, s.cookieOf(r, key, workspaceCookieTime))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) closeWorkspaceSession(w http.ResponseWriter, r *httpkit.Request) error {
	http.SetCookie(w, s.cookieOf(r, "", -1))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) cookieOf(r *httpkit.Request, value string, age int) *http.Cookie {
	base := s.cfg.Previews.URLs.Base(r.Request)
	at, err := url.Parse(base)
	safe := err == nil && (at.Scheme == "https" || httpkit.IsLoopback(at.Hostname()))
	if mount, mounted := r.Context().Value(mountKey{}).(string); mounted {
		base = httpkit.AgentURL(base, mount)
	}
	return &http.Cookie{Name: sessionCookie, Value: value, Path: strings.TrimRight(pathOf(base), "/") + "/api/conversations", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteNoneMode, Secure: safe, Partitioned: safe}
}

// editor returns what the sandbox offers as an editor; nil if it has none or does not
// run.
func (s *Server) editor(r *httpkit.Request) (*editorPlace, error) {
	boxes, err := s.cfg.Sandboxes.Batch(r.Context(), r.Principal.Owner, []string{r.Principal.SandboxID})
	if err != nil || boxes[0] == nil || s.cfg.Previews.Exposed == nil || s.cfg.Previews.Register == nil {
		return nil, err
	}
	if s.cfg.Previews.Exposed(r.Context(), boxes)[0].Editor == "" {
		return nil, nil
	}
	return &editorPlace{boxes[0].Owner, boxes[0].ID, cmp.Or(boxes[0].WorkingDir, sandbox.WorkingDir)}, nil
}

func errNoEditor() error {
	return fault.New(fault.Unavailable, "no_editor", "The sandbox has no code editor, or does not run.").
		WithHint("Use an image with openvscode-server or code-server in it.")
}
