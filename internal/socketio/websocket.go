package socketio

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// closeTime is how long a client may take to answer that its WebSocket is closed.
const closeTime = 2 * time.Second

var errStuck = fmt.Errorf("%w: it did not take what it was sent", ErrGone)

// upgrades reports whether a request asks for a WebSocket.
func upgrades(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// wire is a WebSocket and what it runs on.
type wire struct {
	*websocket.Conn
	raw net.Conn
}

// accept makes a request a WebSocket, or answers why not; nil then. Who may
// connect is checked before.
func accept(w http.ResponseWriter, r *http.Request, maxPayload int64) *wire {
	h := &hijacker{ResponseWriter: w}
	conn, err := websocket.Accept(h, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return nil
	}
	conn.SetReadLimit(min(maxPayload, maxStranger))
	return &wire{conn, h.raw}
}

// shut closes the WebSocket, with or without the client's answer.
func (c *wire) shut(code websocket.StatusCode) {
	cut := time.AfterFunc(closeTime, func() { _ = c.raw.Close() })
	defer cut.Stop()
	_ = c.Close(code, "")
}

type hijacker struct {
	http.ResponseWriter
	raw net.Conn
}

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.raw = conn
	return conn, rw, err
}

// serve carries the session over a WebSocket until one of them ends.
func (s *session) serve(conn *wire) {
	s.mu.Lock()
	s.conn = conn
	s.mu.Unlock()
	if s.letIn() {
		s.trust()
	}
	var writer sync.WaitGroup
	writer.Go(func() { s.write(conn) })
	s.drop(s.read(conn))
	writer.Wait()
	_ = conn.CloseNow()
}

// trust lets a client that was accepted send as much as may be.
func (s *session) trust() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.SetReadLimit(s.server.config.MaxPayload)
	}
}

// read takes the client's packets until the WebSocket ends, which the writer does
// when the session ends.
func (s *session) read(conn *wire) error {
	for {
		kind, data, err := s.readOne(conn)
		if err != nil {
			return errLeft
		}
		if kind == websocket.MessageBinary {
			s.noBinary()
			continue
		}
		if err := s.receive(data); err != nil {
			if errors.Is(err, errLeft) {
				return errLeft
			}
			return fmt.Errorf("%w: %w", ErrGone, err)
		}
	}
}

// readOne reads a message. Each of its parts is a sign of life: a client answers no
// ping before it has sent the whole.
func (s *session) readOne(conn *wire) (websocket.MessageType, []byte, error) {
	kind, r, err := conn.Reader(context.WithoutCancel(s.ctx))
	if err != nil {
		return 0, nil, err
	}
	data, err := io.ReadAll(&moving{r, func(int64) { s.alive() }, 0})
	return kind, data, err
}

// moving tells how many bytes have been read.
type moving struct {
	io.Reader
	moved func(bytes int64)
	bytes int64
}

func (m *moving) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.bytes += int64(n)
	if n > 0 {
		m.moved(m.bytes)
	}
	return n, err
}

// write sends what waits for the client. It is the only writer, and closes the
// WebSocket when the session ends.
func (s *session) write(conn *wire) {
	for {
		items, over, changed := s.out.take(64, 64<<10)
		for _, item := range items {
			if err := s.writeOne(conn, item); err != nil {
				s.drop(errStuck)
			}
		}
		switch {
		case s.ctx.Err() != nil:
			conn.shut(websocket.StatusGoingAway)
			return
		case over:
			conn.shut(websocket.StatusNormalClosure)
			s.drop(errFinished)
			return
		}
		if len(items) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
		}
	}
}

func (s *session) writeOne(conn *wire, item string) error {
	defer s.occupy()()
	ctx, cancel := context.WithTimeout(s.ctx, s.server.config.WriteTimeout)
	defer cancel()
	return conn.Write(ctx, websocket.MessageText, []byte(item))
}

// upgrade moves a session from long-polling to a WebSocket. One that is of no use
// is accepted and closed, which is all that browsers let a client see.
func (s *session) upgrade(w http.ResponseWriter, r *http.Request) {
	conn := accept(w, r, s.server.config.MaxPayload)
	if conn == nil {
		return
	}
	if !s.beginProbe() {
		conn.shut(websocket.StatusPolicyViolation)
		return
	}
	upgraded := s.handshakeOver(conn)
	s.endProbe(upgraded)
	if !upgraded {
		_ = conn.CloseNow()
		return
	}
	s.serve(conn)
}

func (s *session) beginProbe() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.probing || s.transport == websocketName {
		return false
	}
	s.probing = true
	return true
}

// endProbe ends a probe. After one that succeeded, long-polling is over.
func (s *session) endProbe(upgraded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probing = false
	if upgraded {
		s.transport = websocketName
		return
	}
	select {
	case <-s.probed:
		s.probed = make(chan struct{})
	default:
	}
}

// handshakeOver exchanges the packets of a probe: 2probe, 3probe, 5.
func (s *session) handshakeOver(conn *wire) bool {
	ctx, cancel := context.WithTimeout(s.ctx, s.server.config.UpgradeTimeout)
	defer cancel()
	if !expect(ctx, conn, "2probe") || conn.Write(ctx, websocket.MessageText, []byte("3probe")) != nil {
		return false
	}
	s.mu.Lock()
	close(s.probed) // the client upgrades when no poll is under way
	s.mu.Unlock()
	return expect(ctx, conn, string(engineUpgrade))
}

func expect(ctx context.Context, conn *wire, want string) bool {
	kind, data, err := conn.Read(ctx)
	return err == nil && kind == websocket.MessageText && string(data) == want
}
