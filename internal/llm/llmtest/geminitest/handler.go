// Package geminitest is a server that speaks the wire format of Google's Gemini
// API: it gives llmtest.Replies, whole, as server-sent events and as a JSON array,
// and refuses what Google refuses, in Google's words.
//
// It knows the documented rules of requests, and is stricter where Google's
// models differ: roles must alternate for all of them. It counts no tokens and
// checks no keys, only that there is one.
package geminitest

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"parley/internal/lazyre"
	"parley/internal/llm/llmtest"
)

// AnySignature is the documented signature of calls that Gemini did not make.
const AnySignature = "skip_thought_signature_validator"

// maxBody bounds a request, in bytes: Google's own limit.
const maxBody = 20 << 20

// Handler serves POST .../models/{model}:generateContent and
// :streamGenerateContent under any prefix. next is asked for the reply to each
// request that is acceptable; it may be called from many goroutines at once.
func Handler(next func(r *http.Request, body []byte) llmtest.Reply) http.Handler {
	return &handler{next: next, issued: map[string][]string{}}
}

type handler struct {
	next func(*http.Request, []byte) llmtest.Reply

	mu     sync.Mutex
	issued map[string][]string // call id -> the signatures given with it
	order  []string            // of ids, the oldest first
}

// maxIssued bounds the calls whose signatures are remembered.
const maxIssued = 20_000

// call is one request.
type call struct {
	model    string
	streamed bool
	sse      bool
	body     []byte
}

var callPath = lazyre.MustCompile(`/(?:models|tunedModels)/([^/:]+):(generateContent|streamGenerateContent)$`)

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := callPath.FindStringSubmatch(r.URL.Path)
	switch {
	case m == nil:
		writeError(w, call{}, apiError{http.StatusNotFound, "NOT_FOUND", "The requested URL " + r.URL.Path + " was not found.", nil})
		return
	case r.Method != http.MethodPost:
		writeError(w, call{}, apiError{http.StatusMethodNotAllowed, "UNIMPLEMENTED", "Use POST.", nil})
		return
	}
	c := call{model: m[1], streamed: m[2] == "streamGenerateContent", sse: r.URL.Query().Get("alt") == "sse"}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return // the client is gone
	}
	c.body = body
	if e := h.check(r, c); e != nil {
		writeError(w, c, *e)
		return
	}
	h.reply(w, r, c, h.next(r, body))
}

// check returns why Google would refuse the request; nil if it would not.
func (h *handler) check(r *http.Request, c call) *apiError {
	bearer := strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case r.Header.Get("X-Goog-Api-Key") == "" && r.URL.Query().Get("key") == "" && !bearer:
		return &apiError{http.StatusForbidden, "PERMISSION_DENIED", "Method doesn't allow unregistered callers (callers without established identity).", nil}
	case len(c.body) > maxBody:
		return invalid("Request payload size exceeds the limit: 20971520 bytes.")
	case !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json"):
		return invalid("Invalid JSON payload received. Unexpected content type.")
	}
	q := checker{gen: generationOf(c.model), issued: h.signatures}
	if err := q.check(c.body); err != nil {
		return invalid(err.Error())
	}
	return nil
}

// sign notes a signature that is given with a call.
func (h *handler) sign(id, signature string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.issued[id]; !ok {
		h.order = append(h.order, id)
	}
	if !slices.Contains(h.issued[id], signature) {
		h.issued[id] = append(h.issued[id], signature)
	}
	if len(h.order) > maxIssued {
		delete(h.issued, h.order[0])
		h.order = h.order[1:]
	}
}

// signatures are those that were given with calls of the id.
func (h *handler) signatures(id string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.issued[id]...)
}

// apiError is a google.rpc.Status.
type apiError struct {
	code    int
	status  string
	message string
	details []any
}

func invalid(message string) *apiError {
	return &apiError{http.StatusBadRequest, "INVALID_ARGUMENT", message, nil}
}

func (e apiError) object() map[string]any {
	status := map[string]any{"code": e.code, "message": e.message, "status": e.status}
	if e.details != nil {
		status["details"] = e.details
	}
	return map[string]any{"error": status}
}

// writeError refuses a call. To one that wanted a stream Google answers with an
// array of one.
func writeError(w http.ResponseWriter, c call, e apiError) {
	var v any = e.object()
	if c.streamed {
		v = []any{v}
	}
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // maps of strings and numbers are always encoded
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(e.code)
	_, _ = w.Write(raw) // the client may be gone
}
