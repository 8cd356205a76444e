package httpkit

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"parley/internal/fault"
)

// Handler serves one operation. It writes an answer or returns an error, which
// is then written in the API's shape.
type Handler func(w http.ResponseWriter, r *Request) error

// Handlers are an API's handlers by operationId.
type Handlers map[string]Handler

// JoinHandlers returns the handlers of all groups.
func JoinHandlers(groups ...Handlers) Handlers {
	all := Handlers{}
	for _, g := range groups {
		maps.Copy(all, g)
	}
	return all
}

// APIConfig makes an API.
type APIConfig struct {
	Name     string // "v1": in logs and the merged document
	Document []byte // OpenAPI 3.1, YAML or JSON
	Handlers Handlers
	Encode   ErrorEncoder            // nil = DetailErrors
	Encoders map[string]ErrorEncoder // other shapes, by operationId
	// Authorize checks the credential of operations that are not public; nil =
	// RequireUser.
	Authorize func(r *http.Request) (Principal, error)
	// Authorizers check it where an operation wants another credential, by operationId.
	Authorizers map[string]func(r *http.Request) (Principal, error)
	MaxBody     int64 // bytes, 0 = DefaultMaxBody
	// Respell returns the documented spelling of an escaped path that clients spell in a
	// way that no pattern matches, such as slashes in a parameter; nil = there are none.
	Respell func(path string) string
}

// API is a document with its handlers.
type API struct {
	cfg APIConfig
	doc *Document
}

// NewAPI parses the document and ties the handlers to its operations. It fails
// unless both sets are the same.
func NewAPI(cfg APIConfig) (*API, error) {
	doc, err := ParseDocument(cfg.Document)
	if err != nil {
		return nil, fmt.Errorf("api %s: %w", cfg.Name, err)
	}
	if cfg.Encode == nil {
		cfg.Encode = DetailErrors
	}
	if cfg.Authorize == nil {
		cfg.Authorize = RequireUser
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = DefaultMaxBody
	}
	a := &API{cfg: cfg, doc: doc}
	return a, a.complete()
}

func (a *API) complete() error {
	known := map[string]bool{}
	for _, op := range a.doc.operations {
		switch {
		case known[op.ID]:
			return fmt.Errorf("api %s: operation %q is documented twice", a.cfg.Name, op.ID)
		case a.cfg.Handlers[op.ID] == nil:
			return fmt.Errorf("api %s: operation %q has no handler", a.cfg.Name, op.ID)
		}
		known[op.ID] = true
	}
	for id := range a.cfg.Handlers {
		if !known[id] {
			return fmt.Errorf("api %s: handler %q has no operation", a.cfg.Name, id)
		}
	}
	for id := range a.cfg.Encoders {
		if !known[id] {
			return fmt.Errorf("api %s: encoder %q has no operation", a.cfg.Name, id)
		}
	}
	for id := range a.cfg.Authorizers {
		if !known[id] {
			return fmt.Errorf("api %s: authorizer %q has no operation", a.cfg.Name, id)
		}
	}
	return nil
}

// Document returns the parsed document.
func (a *API) Document() *Document { return a.doc }

// Part returns the API's part of a merged document.
func (a *API) Part() Part { return Part{Name: a.cfg.Name, Document: a.doc} }

func (a *API) serve(w http.ResponseWriter, r *http.Request, op *Operation) {
	note := noteOf(r.Context())
	note.route, note.encode = op.Path, a.encoder(op)
	answer := &answerWriter{ResponseWriter: w}
	err := a.run(answer, r, op)
	if err == nil {
		return
	}
	a.fail(answer, r, op, err)
}

func (a *API) run(w http.ResponseWriter, r *http.Request, op *Operation) error {
	var who Principal
	if !op.Public {
		authorize := a.cfg.Authorize
		if own := a.cfg.Authorizers[op.ID]; own != nil {
			authorize = own
		}
		var err error
		if who, err = authorize(r); err != nil {
			return err
		}
		noteOf(r.Context()).principal = who
	}
	in, err := readInput(r, op, a.cfg.MaxBody)
	if err != nil {
		return err
	}
	in.Principal = who
	return a.cfg.Handlers[op.ID](w, in)
}

// fail writes an error, unless the handler has begun to answer: then the
// connection is cut, so that the client does not take a part for the whole.
func (a *API) fail(w *answerWriter, r *http.Request, op *Operation, err error) {
	if r.Context().Err() != nil {
		noteOf(r.Context()).gone = true // nobody reads the answer
	}
	p := Describe(err)
	noteOf(r.Context()).problem = p
	if w.began {
		panic(http.ErrAbortHandler)
	}
	status, body := a.encoder(op)(r, p)
	if err := writeProblem(w, status, body, p.RetryAfter); err != nil {
		noteOf(r.Context()).gone = true
	}
}

func (a *API) encoder(op *Operation) ErrorEncoder {
	if own := a.cfg.Encoders[op.ID]; own != nil {
		return own
	}
	return a.cfg.Encode
}

// answerWriter knows whether an answer has begun.
type answerWriter struct {
	http.ResponseWriter
	began bool
}

func (w *answerWriter) WriteHeader(status int) {
	w.began = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *answerWriter) Write(b []byte) (int, error) {
	w.began = true
	return w.ResponseWriter.Write(b)
}

// Unwrap serves http.ResponseController and WebSocket upgrades.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Mux routes to the operations of APIs and answers everything else with 404 or
// 405 in JSON.
type Mux struct {
	mux    http.ServeMux
	routes map[string]*route // by path
	// more has the routes that ServeMux does not take beside those of mux: of "/a/{x}/b"
	// and "/a/c/{y}" each is the narrower one somewhere. What came first goes first.
	more    *Mux
	respell []func(path string) string
}

type route struct {
	methods map[string]http.HandlerFunc
}

// NewMux mounts APIs side by side. It fails if two claim the same route.
func NewMux(apis ...*API) (*Mux, error) {
	m := newTier()
	for _, a := range apis {
		if a.cfg.Respell != nil {
			m.respell = append(m.respell, a.cfg.Respell)
		}
		for _, op := range a.doc.operations {
			serve := func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, op) }
			if err := m.add(op.Method, op.Path, serve); err != nil {
				return nil, fmt.Errorf("api %s: %w", a.cfg.Name, err)
			}
		}
	}
	return m, nil
}

func newTier() *Mux {
	m := &Mux{routes: map[string]*route{}}
	m.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if m.more != nil {
			m.more.ServeHTTP(w, r)
			return
		}
		notFound(w, r)
	})
	return m
}

// Handle mounts a handler that no document describes: a WebSocket, or a route
// that only says what it is not. It fails if the route is taken.
func (m *Mux) Handle(method, path string, h http.HandlerFunc) error {
	return m.add(method, path, func(w http.ResponseWriter, r *http.Request) {
		SetRoute(r, path)
		h(w, r)
	})
}

func (m *Mux) add(method, path string, h http.HandlerFunc) error {
	if len(path) > 1 && strings.HasSuffix(path, "/") {
		path += "{$}" // a document means this path, ServeMux everything below it
	}
	if m.routes[path] == nil {
		for other := range m.routes {
			if shape(other) == shape(path) {
				return fmt.Errorf("route %s %s is mounted as %s, too", method, path, other)
			}
		}
	}
	t, err := m.tryRoute(path)
	switch {
	case err != nil && (m.routes[path] != nil || len(m.routes) == 0):
		return fmt.Errorf("route %s %s: %w", method, path, err)
	case err != nil:
		if m.more == nil {
			m.more = newTier()
		}
		return m.more.add(method, path, h)
	case t.methods[method] != nil:
		return fmt.Errorf("route %s %s is mounted twice", method, path)
	}
	t.methods[method] = h
	return nil
}

// shape is a path without the names of its wildcards.
func shape(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, "{") && p != "{$}" && !strings.HasSuffix(p, "...}") {
			parts[i] = "{}"
		}
	}
	return strings.Join(parts, "/")
}

// tryRoute returns the route of a path, or why ServeMux does not take it.
func (m *Mux) tryRoute(path string) (t *route, err error) {
	defer func() {
		if r := recover(); r != nil { // ServeMux reports conflicting patterns so
			err = fmt.Errorf("%v", r)
		}
	}()
	return m.route(path), nil
}

// route returns the route of a path. The path above a subtree becomes a route
// too, and "/x" the same as "/x/{$}": ServeMux redirects them otherwise, without
// the prefix that was stripped.
func (m *Mux) route(path string) *route {
	if t := m.routes[path]; t != nil {
		return t
	}
	t := &route{methods: map[string]http.HandlerFunc{}}
	m.mount(path, t)
	cut := strings.LastIndexByte(path, '/')
	above, last := path[:cut], path[cut:]
	switch {
	case above == "" || m.routes[above] != nil:
	case last == "/{$}":
		m.mount(above, t)
	case strings.HasSuffix(last, "...}"):
		m.route(above)
	}
	return t
}

func (m *Mux) mount(path string, t *route) {
	pattern := path
	if path == "/" {
		pattern = "/{$}"
	}
	m.mux.HandleFunc(pattern, t.serve)
	m.routes[path] = t
}

// ServeHTTP implements http.Handler.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, respell := range m.respell {
		if was := r.URL.EscapedPath(); respell(was) != was {
			r = WithPath(r, respell(was))
		}
	}
	m.mux.ServeHTTP(w, r)
}

func (t *route) serve(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if h := t.methods[method]; h != nil {
		h(w, r)
		return
	}
	if len(t.methods) == 0 {
		notFound(w, r)
		return
	}
	allowed := sortedKeys(t.methods)
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	WriteDetail(w, http.StatusMethodNotAllowed, "Method Not Allowed")
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	WriteDetail(w, http.StatusNotFound, "Not Found")
}

// WriteError answers with an error in an API's shape, for handlers outside an
// API.
func WriteError(w http.ResponseWriter, r *http.Request, encode ErrorEncoder, err error) {
	p := Describe(err)
	n := noteOf(r.Context())
	n.problem = p
	n.gone = r.Context().Err() != nil
	status, body := encode(r, p)
	if err := writeProblem(w, status, body, p.RetryAfter); err != nil {
		n.gone = true
	}
}

// WriteDetail answers {"detail": text}; an error in writing means that nobody
// reads it.
func WriteDetail(w http.ResponseWriter, status int, text string) {
	_ = JSON(w, status, map[string]any{"detail": text})
}

// NotFound makes the fault of a missing thing: "<what> not found".
func NotFound(what string) error {
	return fault.New(fault.NotFound, "not_found", "%s not found", what)
}
