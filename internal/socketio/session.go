package socketio

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// The names of the transports.
const (
	polling       = "polling"
	websocketName = "websocket"
)

// maxQueued is how many packets wait for a client.
const maxQueued = 4096

// maxStranger is how many bytes a packet or a POST may have of a client that is not let
// in, and how much of it is read: the official clients keep theirs until they are.
const maxStranger = 64 << 10

// lastWords is how long a request is answered that a client may have sent before
// it knew that its session is over.
const lastWords = 2 * time.Second

var (
	errLeft     = fmt.Errorf("%w: it left", ErrGone)
	errSilent   = fmt.Errorf("%w: it gave no sign of life", ErrGone)
	errIdle     = fmt.Errorf("%w: it did not connect to the namespace", ErrGone)
	errFinished = fmt.Errorf("%w: it was disconnected", ErrGone)
	errCrowded  = fmt.Errorf("%w: others needed its place", ErrGone)
	errOverlap  = fmt.Errorf("%w: it sent two requests at a time", ErrGone)
)

// session is an Engine.IO connection. It ends once, by drop: ctx is over then.
// finish lets its client take what is queued before.
type session struct {
	server  *Server
	id      string
	request *http.Request
	ctx     context.Context
	cancel  context.CancelCauseFunc
	out     *queue[string] // Engine.IO packets

	seen    chan struct{} // has an item after a sign of life
	busy    atomic.Int32  // > 0: a packet waits for Serve, or one for the client is on its way: a pong could not come
	reading sync.Mutex    // held while a packet of the client is handled

	mu        sync.Mutex
	transport string
	probing   bool
	probed    chan struct{} // closed while probing
	polled    bool          // a poll is under way
	posted    bool          // a POST is under way
	parted    chan struct{} // closed when a request has met the end of the session
	finishing bool
	conn      *wire     // once it is over a WebSocket
	socket    *Socket   // the latest: a client may connect again after it left the namespace
	idle      time.Time // since when there is no socket
}

func newSession(server *Server, id string, r *http.Request) *session {
	base := context.WithoutCancel(r.Context())
	ctx, cancel := context.WithCancelCause(base)
	request := r.Clone(base)
	request.Body = http.NoBody
	return &session{
		server: server, id: id, request: request, ctx: ctx, cancel: cancel, transport: polling, idle: time.Now(),
		out:    newQueue(server.config.MaxQueued, maxQueued, func(p string) int { return len(p) }),
		seen:   make(chan struct{}, 1),
		probed: make(chan struct{}), parted: make(chan struct{}),
	}
}

// drop ends the session at once.
func (s *session) drop(cause error) {
	s.cancel(cause)
	s.out.discard()
}

// finish ends the session when its client has taken what waits for it and these
// last packets, or has had its time for that.
func (s *session) finish(last ...string) {
	s.mu.Lock()
	s.finishing = true
	s.mu.Unlock()
	s.out.seal(last...)
	wait := time.NewTimer(s.server.config.PingTimeout)
	defer wait.Stop()
	select {
	case <-s.ctx.Done():
	case <-wait.C:
		s.drop(errFinished)
	}
}

// run keeps the session's time: pings, and how long it may be without a socket.
// It returns when nothing is to be answered for the session anymore.
func (s *session) run() {
	c := s.server.config
	connect, ping := time.NewTimer(c.ConnectTimeout), time.NewTimer(c.PingInterval)
	defer connect.Stop()
	defer ping.Stop()
	for waiting := false; ; { // waiting: for an answer to a ping
		select {
		case <-s.seen:
			if waiting {
				waiting = false
				ping.Reset(c.PingInterval)
			}
		case <-ping.C:
			if !waiting {
				s.out.first(string(enginePing))
			} else if s.busy.Load() == 0 {
				s.drop(errSilent)
			}
			waiting = true
			ping.Reset(c.PingTimeout)
		case <-connect.C:
			left := s.idleLeft()
			if left <= 0 {
				s.drop(errIdle)
			}
			connect.Reset(left)
		case <-s.ctx.Done():
			s.linger()
			return
		}
	}
}

// idleLeft is how long the session may go on without a socket.
func (s *session) idleLeft() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle.IsZero() {
		return s.server.config.ConnectTimeout
	}
	return s.server.config.ConnectTimeout - time.Since(s.idle)
}

// linger waits for a last request over polling, see late.
func (s *session) linger() {
	cause := context.Cause(s.ctx)
	if s.overWebSocket() || !errors.Is(cause, errLeft) && !errors.Is(cause, errFinished) {
		return
	}
	wait := time.NewTimer(lastWords)
	defer wait.Stop()
	select {
	case <-s.parted:
	case <-wait.C:
	case <-s.server.closing:
	}
}

// overWebSocket reports whether the session is done with long-polling.
func (s *session) overWebSocket() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.transport == websocketName
}

// letIn reports whether the client has been accepted.
func (s *session) letIn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.socket != nil && s.socket.accepted.Load()
}

// alive notes a sign of life.
func (s *session) alive() {
	select {
	case s.seen <- struct{}{}:
	default:
	}
}

// occupy says until the returned function is called that the client could not
// answer a ping, or could not be heard. If that took long, it has shown that it is
// there.
func (s *session) occupy() (done func()) {
	s.busy.Add(1)
	begin := time.Now()
	return func() {
		if time.Since(begin) > s.server.config.PingTimeout/4 {
			s.alive()
		}
		s.busy.Add(-1)
	}
}

// receive takes a packet of the client. The error ends the session.
func (s *session) receive(data []byte) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.alive()
	if len(data) == 0 {
		return fmt.Errorf("%w: an empty packet", errProtocol)
	}
	if len(data) > maxStranger && !s.letIn() {
		return fmt.Errorf("%w: much to say before it is let in", errProtocol)
	}
	switch data[0] {
	case engineClose:
		return errLeft
	case engineMessage:
		return s.message(data[1:])
	case enginePong, engineOpen, engineUpgrade, engineNoop:
		return nil
	case engineBinary:
		s.noBinary()
		return nil
	}
	return fmt.Errorf("%w: not an Engine.IO packet for a server", errProtocol)
}
