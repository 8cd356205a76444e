package socketio

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// maxNamespace is how long a namespace's name may be that is answered.
const maxNamespace = 256

var errPanic = errors.New("a panic")

// message takes a Socket.IO packet.
func (s *session) message(data []byte) error {
	p, err := parsePacket(data)
	switch {
	case errors.Is(err, errBinary):
		s.noBinary()
		return nil
	case err != nil:
		return err
	case p.namespace != "/":
		return s.elsewhere(p)
	}
	switch p.kind {
	case typeConnect:
		return s.connect(p)
	case typeDisconnect:
		s.disconnect(errLeft)
		return nil
	case typeEvent:
		return s.event(p, len(data))
	case typeAck:
		return nil // nobody has asked for one
	}
	return fmt.Errorf("%w: not a Socket.IO packet for a server", errProtocol)
}

// elsewhere answers a packet for a namespace that there is not.
func (s *session) elsewhere(p packet) error {
	if p.kind != typeConnect || len(p.namespace) > maxNamespace {
		return fmt.Errorf("%w: a packet for an unknown namespace", errProtocol)
	}
	text, err := refusal(p.namespace, &Refusal{Message: "Invalid namespace"})
	if err != nil {
		return err
	}
	_ = s.out.put(s.ctx, s.ctx, text) // an error says that the session is over
	return nil
}

// connect starts a socket, once the one before has ended.
func (s *session) connect(p packet) error {
	auth, err := p.object()
	if err != nil {
		return err
	}
	s.mu.Lock()
	before, finishing := s.socket, s.finishing
	s.mu.Unlock()
	if finishing {
		return nil
	}
	if before != nil {
		if before.ctx.Err() == nil {
			return fmt.Errorf("%w: it connected twice", errProtocol)
		}
		<-before.done // its context has ended
	}
	socket := &Socket{id: rand.Text(), session: s, auth: bytes.Clone(auth), done: make(chan struct{}),
		in: newQueue(s.server.config.MaxQueued, maxEvents, func(e incoming) int { return e.size })}
	socket.ctx, socket.cancel = context.WithCancelCause(s.ctx)
	s.mu.Lock()
	s.socket, s.idle = socket, time.Time{}
	s.mu.Unlock()
	s.server.work.Go(func() { s.attend(socket) })
	return nil
}

// disconnect ends the socket, if there is one; the session stays for a while, so
// that the client can close it or connect again.
func (s *session) disconnect(cause error) {
	s.mu.Lock()
	socket := s.socket
	s.mu.Unlock()
	if socket != nil {
		socket.in.seal()
		socket.cancel(cause)
	}
}

// event hands an event to the socket. One that comes before it is accepted or
// after it has ended is dropped.
func (s *session) event(p packet, size int) error {
	e, err := p.event()
	if err != nil {
		return err
	}
	s.mu.Lock()
	socket := s.socket
	s.mu.Unlock()
	if socket == nil || !socket.accepted.Load() {
		return nil
	}
	defer s.occupy()()                                                               // what comes meanwhile is not read
	_ = socket.in.put(s.ctx, socket.ctx, incoming{Event: e, ack: p.ack, size: size}) // an error says that it has ended
	return nil
}

// noBinary disconnects a client that sends what is not supported: should it come
// back by itself, it would only send it again.
func (s *session) noBinary() {
	s.mu.Lock()
	finishing := s.finishing
	s.finishing = true
	s.mu.Unlock()
	if finishing {
		return
	}
	s.disconnect(fmt.Errorf("%w: %w", ErrGone, errBinary))
	s.server.work.Go(func() { s.finish("4" + string(typeDisconnect)) })
}

// attend serves a socket, and tells the client how it ended.
func (s *session) attend(socket *Socket) {
	err := s.serveSocket(socket)
	left := socket.ctx.Err() != nil
	socket.cancel(errFinished)
	socket.in.discard()
	s.mu.Lock()
	s.idle = time.Now()
	s.mu.Unlock()
	close(socket.done)
	if left {
		return
	}
	var refused *Refusal
	switch {
	case errors.As(err, &refused) && !socket.accepted.Load():
		s.refuse(refused)
	case err == nil && !socket.accepted.Load():
		s.refuse(&Refusal{Message: "Not connected"})
	case err == nil:
		s.finish("4" + string(typeDisconnect))
	default:
		if !errors.Is(err, ErrServerClosed) && !errors.Is(err, ErrGone) {
			s.server.config.Log.Error("serve a Socket.IO client", "error", err)
		}
		s.finish()
	}
}

func (s *session) refuse(r *Refusal) {
	text, err := refusal("/", r)
	if err != nil {
		s.server.config.Log.Error("refuse a Socket.IO client", "error", err)
		s.finish()
		return
	}
	s.finish(text)
}

// serveSocket runs Serve. A panic ends its client only.
func (s *session) serveSocket(socket *Socket) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.server.config.Log.Error("panic", "panic", p, "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	return s.server.config.Serve(socket.ctx, socket)
}
