package agentserver

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"path"

	"parley/internal/api/httpkit"
	"parley/internal/store"
)

// Places keeps lists of directories.
type Places interface {
	Save(ctx context.Context, owner string, p store.SavedPlace, most int) error
	List(ctx context.Context, owner string) ([]store.SavedPlace, error)
	Delete(ctx context.Context, owner, kind, path string) error
}

// maxPlaces bounds each list of a user.
const maxPlaces = 500

// savedPlace is an entry as clients read it (agent protocol 1.8); what is not set is
// left out.
type savedPlace struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Path       string `json:"path"`
	ParentPath string `json:"parentPath,omitempty"`
}

func (s *Server) listPlaces(w http.ResponseWriter, r *httpkit.Request) error {
	all, err := s.cfg.Places.List(r.Context(), r.Principal.Owner)
	if err != nil {
		return err
	}
	lists := map[string][]json.RawMessage{store.PlaceWorkspace: {}, store.PlaceParent: {}}
	for _, p := range all {
		lists[p.Kind] = append(lists[p.Kind], p.Doc)
	}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"workspaces": lists[store.PlaceWorkspace], "workspaceParents": lists[store.PlaceParent]})
}

// savePlaces adds entries to one of the lists and answers with both.
func (s *Server) savePlaces(kind string) httpkit.Handler {
	return func(w http.ResponseWriter, r *httpkit.Request) error {
		var q struct {
			Workspaces []savedPlace `json:"workspaces"`
			Parents    []savedPlace `json:"parents"`
		}
		if err := r.Body(&q); err != nil {
			return err
		}
		all := q.Workspaces
		if kind == store.PlaceParent {
			all = q.Parents
		}
		for _, p := range all { // none is saved if one is wrong
			if err := absolute(p.Path); err != nil {
				return err
			}
		}
		for _, p := range all {
			if err := s.savePlace(r.Context(), r.Principal.Owner, kind, p); err != nil {
				return err
			}
		}
		return s.listPlaces(w, r)
	}
}

func (s *Server) savePlace(ctx context.Context, owner, kind string, p savedPlace) error {
	p.Path = path.Clean(p.Path)
	p.ID, p.Name = cmp.Or(p.ID, p.Path), cmp.Or(p.Name, path.Base(p.Path))
	doc, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return s.cfg.Places.Save(ctx, owner, store.SavedPlace{Kind: kind, Path: p.Path, Doc: doc}, maxPlaces)
}

func (s *Server) deletePlace(kind string) httpkit.Handler {
	return func(w http.ResponseWriter, r *httpkit.Request) error {
		var q pathQuery
		if err := r.Params(&q); err != nil {
			return err
		}
		if err := s.cfg.Places.Delete(r.Context(), r.Principal.Owner, kind, path.Clean(q.Path)); err != nil {
			return err
		}
		return httpkit.JSON(w, http.StatusOK, map[string]bool{"deleted": true})
	}
}
