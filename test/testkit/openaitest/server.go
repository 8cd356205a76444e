// Package openaitest is an in-process model endpoint for tests: an HTTP server
// on 127.0.0.1 that speaks the OpenAI chat completions wire format, streamed
// and not, from scripted replies. It checks every request like a strict
// provider and answers 400 to what such a provider would refuse. It can also
// misbehave on demand: raw bytes, odd statuses, silence, cut streams.
//
// Tests in the same process use it directly; tests that start the real binary
package openaitest

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is the endpoint.
type Server struct {
	http   *httptest.Server
	scribe *scribe

	mu       sync.Mutex
	key      string
	refused  []string
	queues   []*queue
	handler  func(*Request) Reply
	requests []*Request
	more     chan struct{} // closed and replaced at each request
}

type queue struct {
	match   func(*Request) bool
	replies []Reply
}

// New starts a server that is closed at the end of the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{scribe: &scribe{closing: make(chan struct{})}, more: make(chan struct{})}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("openaitest: %v", err)
	}
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	_ = s.http.Listener.Close()
	s.http.Listener = listener
	s.http.Start()
	t.Cleanup(s.close)
	return s
}

func (s *Server) close() {
	close(s.scribe.closing)
	s.http.CloseClientConnections()
	s.http.Close()
}

// URL returns "http://127.0.0.1:port"; the API is at URL()+"/v1".
func (s *Server) URL() string { return s.http.URL }

// Client returns an HTTP client whose idle connections end with the server.
func (s *Server) Client() *http.Client { return s.http.Client() }

// RequireKey makes the server answer 401 to any other key.
func (s *Server) RequireKey(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

// RefuseField makes the server answer 400 to requests with that top-level
// member, or a message with it, as endpoints do that forbid unknown members.
func (s *Server) RefuseField(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = append(s.refused, name)
}

// Reply queues replies for requests that no other queue takes.
func (s *Server) Reply(replies ...Reply) { s.ReplyWhen(nil, replies...) }

// ReplyWhen queues replies for the requests that match. Queues are asked in the
// order they were made, those with a matcher first, so that an extra request
// (for a title) does not take a reply meant for a step.
func (s *Server) ReplyWhen(match func(*Request) bool, replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues = append(s.queues, &queue{match: match, replies: slices.Clone(replies)})
}

// Handle sets what answers when no queue does. It runs on the request's
// goroutine.
func (s *Server) Handle(f func(*Request) Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = f
}

// Requests returns the accepted and refused requests so far, in order.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Left returns how many queued replies were not used.
func (s *Server) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, q := range s.queues {
		n += len(q.replies)
	}
	return n
}

// WaitRequests waits until there were n requests and returns them; it fails the
// test after the time-out.
func (s *Server) WaitRequests(t testing.TB, n int, timeout time.Duration) []*Request {
	t.Helper()
	deadline := time.After(timeout)
	for {
		s.mu.Lock()
		got, more := slices.Clone(s.requests), s.more
		s.mu.Unlock()
		if len(got) >= n {
			return got
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("openaitest: %d requests within %v, want %d", len(got), timeout, n)
		}
	}
}

// NoTools matches requests that offer no tools: titles, summaries.
func NoTools(r *Request) bool { return len(r.Tools) == 0 }

// UserSays matches requests whose last user message contains s.
func UserSays(s string) func(*Request) bool {
	return func(r *Request) bool { return strings.Contains(r.LastUser(), s) }
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/chat/completions":
		s.serveChat(w, r)
	case "/v1/models":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"test-model","object":"model","owned_by":"openaitest"}]}`)
	default:
		writeError(w, http.StatusNotFound, "Unknown request URL: "+r.Method+" "+r.URL.Path)
	}
}

func (s *Server) serveChat(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return
	}
	req := &Request{Header: r.Header.Clone(), Raw: body}
	problem := req.decode()
	if problem == "" {
		problem = req.validate()
	}
	key, refused := s.record(req, problem)
	if problem == "" {
		problem = req.forbidden(refused)
	}
	switch {
	case r.Method != http.MethodPost:
		writeError(w, http.StatusMethodNotAllowed, "Not allowed to "+r.Method+" on /v1/chat/completions")
	case key != "" && r.Header.Get("Authorization") != "Bearer "+key:
		writeError(w, http.StatusUnauthorized, "Incorrect API key provided")
	case problem != "":
		writeError(w, http.StatusBadRequest, problem)
	default:
		s.scribe.answer(w, r, req, s.next(req))
	}
}

func (s *Server) record(req *Request, problem string) (key string, refused []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	req.Problem = problem
	s.requests = append(s.requests, req)
	close(s.more)
	s.more = make(chan struct{})
	return s.key, slices.Clone(s.refused)
}

// next takes the reply for a request.
func (s *Server) next(req *Request) Reply {
	s.mu.Lock()
	for _, matched := range []bool{true, false} {
		for _, q := range s.queues {
			if (q.match != nil) == matched && len(q.replies) > 0 && (q.match == nil || q.match(req)) {
				reply := q.replies[0]
				q.replies = q.replies[1:]
				s.mu.Unlock()
				return reply
			}
		}
	}
	handler := s.handler
	s.mu.Unlock()
	if handler != nil {
		return handler(req)
	}
	return Fail(http.StatusInternalServerError, "openaitest: no reply is left for this request")
}

func writeError(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"error": map[string]any{"message": message, "type": "invalid_request_error", "param": nil, "code": nil}})
}
