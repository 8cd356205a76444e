package agentserver

import (
	"cmp"
	"context"
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/sandbox"
	"parley/internal/workspace"
)

// workspaceOf returns the workspace of a sandbox, which is resumed if it is paused.
func (s *Server) workspaceOf(ctx context.Context, p httpkit.Principal) (*workspace.Workspace, error) {
	boxes, err := s.cfg.Sandboxes.Batch(ctx, p.Owner, []string{p.SandboxID})
	if err != nil {
		return nil, err
	}
	if boxes[0] == nil {
		return nil, httpkit.NotFound("Sandbox")
	}
	hands, err := s.cfg.Sandboxes.Ensure(ctx, p.Owner, p.SandboxID, true)
	if err != nil {
		return nil, err
	}
	return workspace.New(hands, cmp.Or(boxes[0].WorkingDir, sandbox.WorkingDir)), nil
}

// pathQuery are the parameters of the git routes.
type pathQuery struct {
	Path   string  `json:"path"`
	Ref    *string `json:"ref"`
	Commit *string `json:"commit"`
	Limit  int     `json:"limit"`
}

// inWorkspace reads the parameters and the workspace of a request.
func (s *Server) inWorkspace(r *httpkit.Request) (q pathQuery, ws *workspace.Workspace, err error) {
	if err = r.Params(&q); err != nil {
		return q, nil, err
	}
	ws, err = s.workspaceOf(r.Context(), r.Principal)
	return q, ws, err
}

func (s *Server) gitChanges(w http.ResponseWriter, r *httpkit.Request) error {
	q, ws, err := s.inWorkspace(r)
	if err != nil {
		return err
	}
	changes, err := ws.Changes(r.Context(), q.Path, orEmpty(q.Ref))
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, changes)
}

func (s *Server) gitDiff(w http.ResponseWriter, r *httpkit.Request) error {
	q, ws, err := s.inWorkspace(r)
	if err != nil {
		return err
	}
	diff, err := ws.FileDiff(r.Context(), q.Path, orEmpty(q.Ref), orEmpty(q.Commit))
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, diff)
}

func (s *Server) gitCommits(w http.ResponseWriter, r *httpkit.Request) error {
	q, ws, err := s.inWorkspace(r)
	if err != nil {
		return err
	}
	commits, more, err := ws.Commits(r.Context(), q.Path, q.Limit)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"commits": commits, "has_more": more})
}

func (s *Server) gitCommitChanges(w http.ResponseWriter, r *httpkit.Request) error {
	q, ws, err := s.inWorkspace(r)
	if err != nil {
		return err
	}
	changes, err := ws.CommitChanges(r.Context(), q.Path, r.PathValue("sha"))
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, changes)
}
