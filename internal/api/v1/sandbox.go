package v1

import (
	"net/http"
	"net/url"
	"strconv"

	"parley/internal/api/httpkit"
	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/store"
)

// sandboxInfo is V1 §3.1.
type sandboxInfo struct {
	ID              string       `json:"id"`
	CreatedByUserID *string      `json:"created_by_user_id"`
	SandboxSpecID   string       `json:"sandbox_spec_id"`
	Status          string       `json:"status"`
	SessionAPIKey   *string      `json:"session_api_key"`
	ExposedURLs     []exposedURL `json:"exposed_urls"` // nil = null
	CreatedAt       string       `json:"created_at"`
	StatusDetail    *string      `json:"status_detail"`
}

// renderSandbox shows the key and the URLs only while the sandbox runs: they
// open nothing otherwise (V1 §3.3).
func renderSandbox(s *store.Sandbox, e fleet.Exposed, base string) *sandboxInfo {
	out := &sandboxInfo{ID: s.ID, CreatedByUserID: orNull(s.Owner), SandboxSpecID: s.SpecID, Status: string(s.Status),
		CreatedAt: httpkit.FormatTime(s.CreatedAt), StatusDetail: orNull(s.Detail)}
	if s.Status == store.SandboxRunning {
		out.SessionAPIKey = orNull(s.SessionKey.Reveal())
		out.ExposedURLs = renderExposed(s, e, base)
	}
	return out
}

// portOf returns the port a URL leads to.
func portOf(base string) int {
	u, err := url.Parse(base)
	if err != nil {
		return 0
	}
	if port, err := strconv.Atoi(u.Port()); err == nil {
		return port
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}

func (h *handlers) renderSandboxes(r *httpkit.Request, boxes []*store.Sandbox) []*sandboxInfo {
	base, exposed := h.URLs.Base(r.Request), h.exposed(r.Context(), boxes)
	out := make([]*sandboxInfo, len(boxes))
	for i, s := range boxes {
		if s != nil {
			out[i] = renderSandbox(s, exposed[i], base)
		}
	}
	return out
}

type batchQuery struct {
	IDs []string `json:"id"` // singular here, unlike conversations (V1 trap 2)
}

func (h *handlers) getSandboxes(w http.ResponseWriter, r *httpkit.Request) error {
	var q batchQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	if err := checkBatch(q.IDs); err != nil {
		return err
	}
	boxes, err := h.Fleet.Batch(r.Context(), r.Principal.UserID, q.IDs)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, h.renderSandboxes(r, boxes))
}

type pageQuery struct {
	PageID *string `json:"page_id"`
	Limit  int     `json:"limit"`
}

func (h *handlers) searchSandboxes(w http.ResponseWriter, r *httpkit.Request) error {
	var q pageQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	found, err := h.Fleet.Search(r.Context(), store.SandboxQuery{Owner: r.Principal.UserID, Cursor: orEmpty(q.PageID), Limit: q.Limit})
	if err != nil {
		return err
	}
	return writePage(w, h.renderSandboxes(r, found.Items), found.Next)
}

func (h *handlers) startSandbox(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		SpecID *string `json:"sandbox_spec_id"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	spec := orEmpty(q.SpecID)
	if spec != "" && h.spec(spec) == nil {
		return fault.New(fault.NotFound, "sandbox_spec_not_found", "Sandbox spec not found: %.100q", spec)
	}
	box, err := h.Fleet.Start(r.Context(), fleet.StartRequest{Owner: r.Principal.UserID, SpecID: spec})
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, h.renderSandboxes(r, []*store.Sandbox{box})[0])
}

// sandboxID is the id of the query if there is one, else the path's: clients
// send either or both (V1 trap 9).
func sandboxID(r *httpkit.Request) (string, error) {
	var q struct {
		ID string `json:"sandbox_id"`
	}
	err := r.Params(&q)
	return q.ID, err
}

func (h *handlers) deleteSandbox(w http.ResponseWriter, r *httpkit.Request) error {
	id, err := sandboxID(r)
	if err != nil {
		return err
	}
	if err := h.Fleet.Delete(r.Context(), r.Principal.UserID, id); err != nil {
		return sandboxFault(err)
	}
	return writeSuccess(w)
}

func (h *handlers) pauseSandbox(w http.ResponseWriter, r *httpkit.Request) error {
	if err := h.Fleet.Pause(r.Context(), r.Principal.UserID, r.PathValue("sandbox_id")); err != nil {
		return sandboxFault(err)
	}
	return writeSuccess(w)
}

func (h *handlers) resumeSandbox(w http.ResponseWriter, r *httpkit.Request) error {
	if err := h.Fleet.Resume(r.Context(), r.Principal.UserID, r.PathValue("sandbox_id")); err != nil {
		return sandboxFault(err)
	}
	return writeSuccess(w)
}

func sandboxFault(err error) error {
	if fault.Is(err, fault.NotFound) {
		return httpkit.NotFound("Sandbox")
	}
	return err
}

// sandboxSpecInfo is V1 §4, and beyond it from Backend on.
type sandboxSpecInfo struct {
	ID         string            `json:"id"`
	Command    []string          `json:"command"` // nil = null
	CreatedAt  string            `json:"created_at"`
	InitialEnv map[string]string `json:"initial_env"`
	WorkingDir string            `json:"working_dir"`
	Backend    string            `json:"backend"`
	Image      *string           `json:"image"`
	Limits     sandboxLimits     `json:"limits"`
	Network    networkPolicy     `json:"network"`
}

func renderSpec(s *fleet.Spec) *sandboxSpecInfo {
	env := s.Env
	if env == nil {
		env = map[string]string{}
	}
	return &sandboxSpecInfo{s.ID, s.Command, httpkit.FormatTime(s.CreatedAt), env, s.WorkingDir, s.Backend, orNull(s.Image),
		renderLimits(s.Limits), renderPolicy(s.Network)}
}

func (h *handlers) spec(id string) *fleet.Spec {
	for _, s := range h.Fleet.Specs() {
		if s.ID == id {
			return &s
		}
	}
	return nil
}

func (h *handlers) getSpecs(w http.ResponseWriter, r *httpkit.Request) error {
	var q batchQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	if err := checkBatch(q.IDs); err != nil {
		return err
	}
	out := make([]*sandboxSpecInfo, len(q.IDs))
	for i, id := range q.IDs {
		if s := h.spec(id); s != nil {
			out[i] = renderSpec(s)
		}
	}
	return httpkit.JSON(w, http.StatusOK, out)
}

// searchSpecs pages by offset: the list is the configuration's.
func (h *handlers) searchSpecs(w http.ResponseWriter, r *httpkit.Request) error {
	var q pageQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	specs := h.Fleet.Specs()
	from := offset(orEmpty(q.PageID), len(specs))
	to := min(from+q.Limit, len(specs))
	out := []*sandboxSpecInfo{}
	for _, s := range specs[from:to] {
		out = append(out, renderSpec(&s))
	}
	next := ""
	if to < len(specs) {
		next = strconv.Itoa(to)
	}
	return writePage(w, out, next)
}

// offset reads a page id; one that cannot be read starts at the beginning.
func offset(pageID string, length int) int {
	n, err := strconv.Atoi(pageID)
	if err != nil || n < 0 {
		return 0
	}
	return min(n, length)
}
