// Package ops serves what operators and probes ask for: liveness, readiness,
// server information, metrics, the merged OpenAPI document, its page, and a
// landing page. Everything but /metrics is public and says nothing about users.
package ops

import (
	"context"
	_ "embed" // document and pages
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/internal/api/httpkit"
	"parley/internal/fault"
)

//go:embed openapi.yaml
var document []byte

//go:embed docs.html
var docsPage []byte

//go:embed landing.html
var landingPage string

// Config makes the API.
type Config struct {
	Version string // of this program
	Demo    bool   // the scripted model answers; said on the landing page
	// Ready says why the server cannot take work, nil if it can. Its code becomes
	// the status if it is CodeDraining or CodeInitializing.
	Ready      func(ctx context.Context) error
	ServerInfo func() any // body of /server_info, see About
	Metrics    *httpkit.Metrics
	URLs       *httpkit.URLs  // nil = URLs are built from requests
	Parts      []httpkit.Part // the other APIs' parts of /openapi.json
	// Authorize says who may read the metrics; nil = users.
	Authorize func(r *http.Request) (httpkit.Principal, error)
}

// Codes of Config.Ready's error that are shown as status.
const (
	CodeDraining     = "draining"
	CodeInitializing = "initializing"
)

type handlers struct {
	Config
	openapi func() ([]byte, error) // made when it is asked for first: it is large
	landing *template.Template
}

// New makes the API.
func New(cfg Config) (*httpkit.API, error) {
	if cfg.URLs == nil {
		cfg.URLs = &httpkit.URLs{}
	}
	landing, err := template.New("landing").Parse(landingPage)
	if err != nil {
		return nil, err
	}
	h := &handlers{Config: cfg, landing: landing}
	api, err := httpkit.NewAPI(httpkit.APIConfig{Name: "ops", Document: document, Authorize: cfg.Authorize, Handlers: httpkit.Handlers{
		"landing_page": h.landingPage,
		"alive":        alive,
		"health":       alive,
		"ready":        h.ready,
		"server_info":  h.serverInfo,
		"metrics":      h.metrics,
		"openapi":      h.document,
		"docs":         docs,
	}})
	if err != nil {
		return nil, err
	}
	h.openapi = sync.OnceValues(func() ([]byte, error) {
		return httpkit.Merge("Parley", cfg.Version, append(slices.Clone(cfg.Parts), api.Part())...)
	})
	return api, nil
}

type status struct {
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

func alive(w http.ResponseWriter, _ *httpkit.Request) error {
	return httpkit.JSON(w, http.StatusOK, status{Status: "ok"})
}

// checkTime bounds the readiness check.
const checkTime = 2 * time.Second

func (h *handlers) ready(w http.ResponseWriter, r *httpkit.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), checkTime)
	defer cancel()
	code, s := http.StatusOK, status{Status: "ready"}
	if err := h.Ready(ctx); err != nil {
		code, s = http.StatusServiceUnavailable, notReady(err)
	}
	return httpkit.JSON(w, code, s)
}

func notReady(err error) status {
	s := status{"unavailable", fault.PublicText(err)}
	if code := fault.CodeOf(err); code == CodeDraining || code == CodeInitializing {
		s.Status = code
	}
	return s
}

func (h *handlers) serverInfo(w http.ResponseWriter, _ *httpkit.Request) error {
	return httpkit.JSON(w, http.StatusOK, h.ServerInfo())
}

func (h *handlers) metrics(w http.ResponseWriter, r *httpkit.Request) error {
	h.Metrics.Handler().ServeHTTP(w, r.Request)
	return nil
}

func (h *handlers) document(w http.ResponseWriter, _ *httpkit.Request) error {
	openapi, err := h.openapi()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(openapi)
	return err
}

// pagePolicy lets a page run its own script and style only, and talk to its own
// server.
const pagePolicy = "default-src 'none'; script-src 'sha256-%HASH%'; style-src 'unsafe-inline'; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

func docs(w http.ResponseWriter, _ *httpkit.Request) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", strings.Replace(pagePolicy, "%HASH%", scriptHash(docsPage), 1))
	_, err := w.Write(docsPage)
	return err
}

func (h *handlers) landingPage(w http.ResponseWriter, r *httpkit.Request) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	return h.landing.Execute(w, map[string]any{"Base": h.URLs.Base(r.Request), "Version": h.Version, "Demo": h.Demo})
}
