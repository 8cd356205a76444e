package socketio

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Server serves Engine.IO and Socket.IO; see New. It is an http.Handler for the
// path /socket.io/, wherever that is mounted: it looks at the query only.
type Server struct {
	config Config

	mu       sync.Mutex
	closed   bool
	closing  chan struct{} // closed with closed
	sessions map[string]*session
	work     sync.WaitGroup // requests, sessions, and what they run
}

// New makes a server. Close ends it.
func New(config Config) *Server {
	return &Server{config: config.withDefaults(), closing: make(chan struct{}), sessions: make(map[string]*session)}
}

// Close ends all sessions, whose clients will try again, and refuses new ones. It
// waits until everything has ended that the server runs, at most until ctx ends:
// then its cause is the error.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	open := make([]*session, 0, len(s.sessions))
	for _, session := range s.sessions {
		open = append(open, session)
	}
	s.mu.Unlock()
	for _, session := range open {
		session.drop(ErrServerClosed)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.work.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Sessions returns how many connections there are, those included that have not
// connected to the namespace.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// enter counts a request, unless the server is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Add(1)
	return true
}

// ServeHTTP answers one request of either transport.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.allow(w, r) {
		return
	}
	if !s.enter() {
		refuse(w, errClosing)
		return
	}
	defer s.work.Done()
	query := r.URL.Query()
	transport, sid := query.Get("transport"), query.Get("sid")
	switch {
	case transport != polling && transport != websocketName, query.Has("j"):
		// JSONP, the parameter j, would hand answers to pages of any origin.
		refuse(w, errTransport)
	case sid != "":
		s.resume(w, r, transport, sid)
	case r.Method != http.MethodGet:
		refuse(w, errMethod)
	case transport == websocketName && !upgrades(r):
		refuse(w, errRequest)
	case query.Get("EIO") != "4":
		refuse(w, errVersion)
	default:
		s.open(w, r, transport)
	}
}

// resume serves a request of a session.
func (s *Server) resume(w http.ResponseWriter, r *http.Request, transport, sid string) {
	s.mu.Lock()
	session := s.sessions[sid]
	s.mu.Unlock()
	switch {
	case session == nil:
		refuse(w, errSession)
	case transport == websocketName && upgrades(r):
		session.upgrade(w, r)
	case transport == websocketName || session.overWebSocket():
		refuse(w, errRequest)
	case r.Method == http.MethodGet:
		session.poll(w, r)
	case r.Method == http.MethodPost:
		session.post(w, r)
	default:
		refuse(w, errMethod)
	}
}

// open starts a session.
func (s *Server) open(w http.ResponseWriter, r *http.Request, transport string) {
	session, err := s.add(r)
	var refused httpError
	if errors.As(err, &refused) {
		refuse(w, refused)
		return
	}
	if transport == polling {
		s.start(session)
		answer(w, session.handshake(`"websocket"`))
		return
	}
	conn := accept(w, r, s.config.MaxPayload)
	if conn == nil {
		s.remove(session)
		return
	}
	session.transport = websocketName // nobody else knows the session yet
	session.out.first(session.handshake(""))
	s.start(session)
	session.serve(conn)
}

// add makes a session. Where there are as many as may be, the one goes that has
// been without a socket for longest: strangers keep nobody out.
func (s *Server) add(r *http.Request) (*session, error) {
	made := newSession(s, rand.Text(), r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions) >= s.config.MaxSessions {
		idlest := s.idlest()
		if idlest == nil {
			made.cancel(errBusy)
			return nil, errBusy
		}
		idlest.drop(errCrowded)
		delete(s.sessions, idlest.id)
	}
	if s.closed {
		made.cancel(ErrServerClosed)
		return nil, errClosing
	}
	s.sessions[made.id] = made
	return made, nil
}

// idlest returns the session that has been without a socket for longest, nil if all
// have one.
func (s *Server) idlest() *session {
	var found *session
	var since time.Time
	for _, session := range s.sessions {
		session.mu.Lock()
		idle := session.idle
		session.mu.Unlock()
		if !idle.IsZero() && (found == nil || idle.Before(since)) {
			found, since = session, idle
		}
	}
	return found
}

// start runs a session's clock, and removes the session when it has ended. The
// caller is a request, so that the server is still there.
func (s *Server) start(session *session) {
	s.work.Go(func() {
		defer s.remove(session)
		session.run()
	})
}

func (s *Server) remove(session *session) {
	session.drop(ErrGone)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, session.id)
}

// allow checks a request's origin, sets what browsers want to see, and answers
// preflights. It reports whether the request goes on. Where another handler has
// decided about the origin already, its headers stay.
func (s *Server) allow(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if origin := r.Header.Get("Origin"); origin != "" {
		if s.config.AllowOrigin != nil && !s.config.AllowOrigin(r) {
			refuse(w, errOrigin)
			return false
		}
		if h.Get("Access-Control-Allow-Origin") == "" {
			h.Add("Vary", "Origin")
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Credentials", "true")
		}
	}
	if r.Method != http.MethodOptions {
		return true
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
	if headers := r.Header.Get("Access-Control-Request-Headers"); headers != "" {
		h.Set("Access-Control-Allow-Headers", headers)
	}
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return false
}

// httpError is an error as Engine.IO's clients know it.
type httpError struct {
	status, code int
	message      string
}

func (e httpError) Error() string { return e.message }

var (
	errTransport = httpError{http.StatusBadRequest, 0, "Transport unknown"}
	errSession   = httpError{http.StatusBadRequest, 1, "Session ID unknown"}
	errMethod    = httpError{http.StatusBadRequest, 2, "Bad handshake method"}
	errRequest   = httpError{http.StatusBadRequest, 3, "Bad request"}
	errTooLarge  = httpError{http.StatusRequestEntityTooLarge, 3, "Payload too large"}
	errOrigin    = httpError{http.StatusForbidden, 4, "Forbidden"}
	errVersion   = httpError{http.StatusBadRequest, 5, "Unsupported protocol version"}
	errBusy      = httpError{http.StatusServiceUnavailable, 3, "Too many connections, try again later"}
	errClosing   = httpError{http.StatusServiceUnavailable, 3, "The server is stopping, try again later"}
)

// refuse answers with an error.
func refuse(w http.ResponseWriter, e httpError) {
	message, err := json.Marshal(e.message)
	if err != nil {
		message = []byte(`""`)
	}
	w.Header().Set("Content-Type", "application/json")
	if e.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(e.status)
	_, _ = w.Write([]byte(`{"code":` + strconv.Itoa(e.code) + `,"message":` + string(message) + `}`)) // the client may be gone
}

// answer answers with a text.
func answer(w http.ResponseWriter, text string) bool {
	w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, err := w.Write([]byte(text))
	return err == nil
}
