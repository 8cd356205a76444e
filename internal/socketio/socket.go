package socketio

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
)

// maxEvents is how many events of a client wait for Serve.
const maxEvents = 1024

// Event is what a client has emitted.
type Event struct {
	Name string
	Args []json.RawMessage // valid JSON, not nested deeper than 128; may share memory
}

// incoming is an event with what a client wants to know of it.
type incoming struct {
	Event
	ack  string // the id that the client waits for, "" = none
	size int
}

// Socket is a client in the namespace "/". Its methods may be called from any
// goroutine, also after it is gone.
type Socket struct {
	id       string
	session  *session
	auth     json.RawMessage
	ctx      context.Context // ends when the client leaves
	cancel   context.CancelCauseFunc
	in       *queue[incoming]
	accepted atomic.Bool
	done     chan struct{} // closed when Serve has returned
}

// ID returns the socket's id, which its client knows as well. It is a random one,
// and not the one of the connection, which is a secret.
func (s *Socket) ID() string { return s.id }

// Request returns the handshake's request, without a body. Its context has the
// values that the handshake's had, and does not end.
func (s *Socket) Request() *http.Request { return s.session.request }

// Query returns the parameters of the handshake's request, those of the protocol
// included.
func (s *Socket) Query() url.Values { return s.session.request.URL.Query() }

// Auth returns what the client sent to be let in, a JSON object; nil if it sent
// nothing.
func (s *Socket) Auth() json.RawMessage { return s.auth }

// Accept tells the client that it is connected. Nothing can be emitted before,
// and what a client sends before is dropped.
func (s *Socket) Accept(ctx context.Context) error {
	if !s.accepted.CompareAndSwap(false, true) {
		return nil
	}
	s.session.trust()
	return s.send(ctx, `0{"sid":`+strconv.Quote(s.id)+`}`)
}

// Emit sends an event with one argument, valid JSON; without one if arg is empty.
// While as much is waiting for the client as may, it blocks; a client that takes
// nothing is dropped after some time. An error is ErrGone or the end of ctx; nil
// does not say that the client has it already.
func (s *Socket) Emit(ctx context.Context, event string, arg json.RawMessage) error {
	if !s.accepted.Load() {
		return fmt.Errorf("emit %q: the socket is not accepted", event)
	}
	name, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("encode an event's name: %w", err)
	}
	packet := make([]byte, 0, len(name)+len(arg)+4)
	packet = append(append(packet, "2["...), name...)
	if len(arg) > 0 {
		packet = append(append(packet, ','), arg...)
	}
	return s.send(ctx, string(append(packet, ']')))
}

// Receive waits for the client's next event. What the client has sent before it
// left is still returned, also when ctx has ended for that reason: act on it with
// context.WithoutCancel. After that the error is ErrGone, or the end of ctx.
//
// A client that wants an acknowledgement gets an empty one.
func (s *Socket) Receive(ctx context.Context) (Event, error) {
	for ended := false; ; {
		items, over, changed := s.in.take(1, 0)
		switch {
		case len(items) == 1:
			s.acknowledge(ctx, items[0].ack)
			return items[0].Event, nil
		case over:
			return Event{}, ErrGone
		case ended:
			return Event{}, context.Cause(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			ended = true // once more: what came before the end is not lost
		case <-s.ctx.Done():
			ctx, ended = s.ctx, true
		}
	}
}

// acknowledge answers a client that wants to know that its event has arrived. That
// it is gone is not the receiver's concern.
func (s *Socket) acknowledge(ctx context.Context, id string) {
	if id != "" && s.accepted.Load() {
		_ = s.send(ctx, "3"+id+"[]")
	}
}

// send queues a packet as an Engine.IO message.
func (s *Socket) send(ctx context.Context, packet string) error {
	return s.session.out.put(ctx, s.ctx, "4"+packet)
}
