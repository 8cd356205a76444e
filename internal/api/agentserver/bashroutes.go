package agentserver

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"parley/internal/api/httpkit"
	"parley/internal/bash"
	"parley/internal/store"
)

// bashRequest is a command that a client sends (agent protocol 1.6).
type bashRequest struct {
	Command string  `json:"command"`
	Cwd     *string `json:"cwd"`
	Timeout int     `json:"timeout"`
}

func (b bashRequest) request() bash.Request {
	if orEmpty(b.Cwd) == "" {
		b.Cwd = nil
	}
	return bash.Request{Command: b.Command, Cwd: b.Cwd, Timeout: b.Timeout}
}

func (s *Server) startBash(w http.ResponseWriter, r *httpkit.Request) error {
	return s.runBash(w, r, s.cfg.Commands.Start)
}

func (s *Server) executeBash(w http.ResponseWriter, r *httpkit.Request) error {
	return s.runBash(w, r, s.cfg.Commands.Execute)
}

func (s *Server) runBash(w http.ResponseWriter, r *httpkit.Request,
	run func(ctx context.Context, owner, sandboxID string, req bash.Request) (json.RawMessage, error)) error {
	var b bashRequest
	if err := r.Body(&b); err != nil {
		return err
	}
	event, err := run(r.Context(), r.Principal.Owner, r.Principal.SandboxID, b.request())
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, event)
}

type bashFilter struct {
	Kind    *string     `json:"kind__eq"`
	Command *string     `json:"command_id__eq"`
	From    *string     `json:"timestamp__gte"`
	To      *string     `json:"timestamp__lt"`
	Beyond  *int        `json:"order__gt"`
	Order   store.Order `json:"sort_order"`
	PageID  *string     `json:"page_id"`
	Limit   int         `json:"limit"`
}

func (s *Server) searchBash(w http.ResponseWriter, r *httpkit.Request) error {
	var f bashFilter
	if err := r.Params(&f); err != nil {
		return err
	}
	q := store.CommandQuery{SandboxID: r.Principal.SandboxID, Kind: orEmpty(f.Kind), CommandID: bash.ParseID(orEmpty(f.Command)),
		Beyond: f.Beyond, Desc: f.Order == "TIMESTAMP_DESC", First: bash.ParseID(orEmpty(f.PageID)), Limit: f.Limit}
	for at, text := range map[*time.Time]*string{&q.From: f.From, &q.To: f.To} {
		if text == nil {
			continue
		}
		t, _, err := httpkit.ParseTime(*text)
		if err != nil {
			return err
		}
		*at = t
	}
	found, next, err := s.cfg.Commands.Search(r.Context(), q)
	if err != nil {
		return err
	}
	items := make([]json.RawMessage, len(found))
	for i := range found {
		items[i] = found[i].Raw
	}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"items": items, "next_page_id": orNull(next)})
}

func (s *Server) getBash(w http.ResponseWriter, r *httpkit.Request) error {
	found, err := s.cfg.Commands.Batch(r.Context(), r.Principal.SandboxID, []string{bash.ParseID(r.PathValue("event_id"))})
	if err != nil {
		return err
	}
	if found[0] == nil {
		return httpkit.NotFound("Bash event")
	}
	return httpkit.JSON(w, http.StatusOK, found[0].Raw)
}

// maxBashBatch bounds the events of one answer together, in bytes.
const maxBashBatch = 32 << 20

func (s *Server) batchBash(w http.ResponseWriter, r *httpkit.Request) error {
	var ids []string
	if err := r.Body(&ids); err != nil {
		return err
	}
	out := make([]json.RawMessage, len(ids))
	total := 0
	for i, id := range ids { // one by one: each may be large
		found, err := s.cfg.Commands.Batch(r.Context(), r.Principal.SandboxID, []string{bash.ParseID(id)})
		if err != nil {
			return err
		}
		if out[i] = json.RawMessage("null"); found[0] == nil {
			continue
		}
		if total += len(found[0].Raw); total > maxBashBatch {
			return errLargeBatch(maxBashBatch)
		}
		out[i] = found[0].Raw
	}
	return httpkit.JSON(w, http.StatusOK, out)
}

func (s *Server) clearBash(w http.ResponseWriter, r *httpkit.Request) error {
	n, err := s.cfg.Commands.Clear(r.Context(), r.Principal.SandboxID)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, map[string]int{"cleared_count": n})
}
