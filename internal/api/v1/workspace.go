package v1

import (
	"cmp"
	"io"
	"net/http"
	"strconv"
	"strings"

	"parley/internal/api/httpkit"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/store"
	files "parley/internal/workspace"
)

// maxShownFile bounds the file that readFile shows, in bytes.
const maxShownFile = 8 << 20

// workspace returns the workspace of the conversation in the path, nil while its
// sandbox does not run.
func (h *handlers) workspace(r *httpkit.Request) (*files.Workspace, *engine.View, error) {
	v, err := h.find(r)
	if err != nil || v.SandboxStatus != store.SandboxRunning || v.Sandbox == nil {
		return nil, v, err
	}
	hands, err := h.Fleet.Ensure(r.Context(), r.Principal.UserID, v.SandboxID, false)
	if err != nil {
		return nil, v, err
	}
	return files.New(hands, cmp.Or(v.Options.WorkingDir, v.Sandbox.WorkingDir, sandbox.WorkingDir)), v, nil
}

// gitWorkspace is workspace for the routes that need one (V1 11 row 13).
func (h *handlers) gitWorkspace(r *httpkit.Request) (*files.Workspace, error) {
	ws, v, err := h.workspace(r)
	if err == nil && ws == nil {
		err = fault.New(fault.Conflict, "sandbox_not_running", "The conversation's sandbox is %s, not RUNNING.", v.SandboxStatus).
			WithHint("Resume the sandbox and wait until it is RUNNING.")
	}
	return ws, err
}

type workspaceQuery struct {
	FilePath string  `json:"file_path"`
	Path     *string `json:"path"`
	Ref      *string `json:"ref"`
	Level    bool    `json:"level"` // one level only
}

// readFile answers with a file as a JSON string, or as it is to who prefers plain
// text; "" for what is no file.
func (h *handlers) readFile(w http.ResponseWriter, r *httpkit.Request) error {
	var q workspaceQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	ws, _, err := h.workspace(r)
	if err != nil {
		return err
	}
	text := ""
	if ws != nil {
		if text, err = ws.Read(r.Context(), q.FilePath, maxShownFile); err != nil {
			return err
		}
	}
	w.Header().Add("Vary", "Accept")
	if !prefersPlain(r.Header.Values("Accept")) {
		return httpkit.JSON(w, http.StatusOK, text)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	_, err = io.WriteString(w, text)
	return err
}

// prefersPlain reports whether a client would rather have text/plain than JSON.
func prefersPlain(accept []string) bool {
	plain, other := -1.0, -1.0
	for item := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, params, _ := strings.Cut(item, ";")
		q := 1.0
		for p := range strings.SplitSeq(params, ";") {
			if text, ok := strings.CutPrefix(strings.ReplaceAll(p, " ", ""), "q="); ok {
				if n, err := strconv.ParseFloat(text, 64); err == nil {
					q = n
				}
			}
		}
		switch strings.ToLower(strings.TrimSpace(media)) {
		case "text/plain", "text/*":
			plain = max(plain, q)
		case "application/json", "application/*", "*/*":
			other = max(other, q)
		}
	}
	return plain > 0 && plain > other
}

func (h *handlers) listFiles(w http.ResponseWriter, r *httpkit.Request) error {
	var q workspaceQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	ws, _, err := h.workspace(r)
	if err != nil {
		return err
	}
	list := []string{}
	if ws != nil {
		read := ws.List
		if q.Level {
			read = ws.Level
		}
		if list, err = read(r.Context(), orEmpty(q.Path)); err != nil {
			return err
		}
	}
	return httpkit.JSON(w, http.StatusOK, list)
}

func (h *handlers) gitChanges(w http.ResponseWriter, r *httpkit.Request) error {
	var q workspaceQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	ws, err := h.gitWorkspace(r)
	if err != nil {
		return err
	}
	changes, err := ws.Changes(r.Context(), orEmpty(q.Path), orEmpty(q.Ref))
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, changes)
}

func (h *handlers) gitDiff(w http.ResponseWriter, r *httpkit.Request) error {
	var q workspaceQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	ws, err := h.gitWorkspace(r)
	if err != nil {
		return err
	}
	diff, err := ws.FileDiff(r.Context(), orEmpty(q.Path), orEmpty(q.Ref), "")
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, diff)
}
