package httpkit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"parley/internal/stream"
)

// AcceptSocket upgrades a request whose Origin the guard has checked, or answers
// in JSON why it is no upgrade; conn is nil then. cut ends the connection at once,
// whoever is reading or writing.
func AcceptSocket(w http.ResponseWriter, r *http.Request) (conn *websocket.Conn, cut func()) {
	plain := &upgrader{ResponseWriter: w}
	conn, err := websocket.Accept(plain, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return nil, nil
	}
	return conn, func() { _ = plain.conn.Close() }
}

// upgrader turns the refusals of an upgrade, which are plain text, into JSON, and
// keeps the connection.
type upgrader struct {
	http.ResponseWriter
	conn    net.Conn
	refused bool
}

func (u *upgrader) WriteHeader(status int) {
	if status == http.StatusSwitchingProtocols {
		u.ResponseWriter.WriteHeader(status)
		return
	}
	u.refused = true
	u.Header().Del("Connection") // the connection stays as it is
	u.Header().Del("Content-Length")
	WriteDetail(u.ResponseWriter, status, "This address is a WebSocket: "+http.StatusText(status))
}

func (u *upgrader) Write(b []byte) (int, error) {
	if u.refused {
		return len(b), nil
	}
	return u.ResponseWriter.Write(b)
}

func (u *upgrader) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(u.ResponseWriter).Hijack()
	u.conn = conn
	return conn, rw, err
}

// Socket serves a live stream over a WebSocket, one text frame per event.
type Socket struct {
	Conn   *websocket.Conn
	Cut    func() // ends the connection, see AcceptSocket; nil = it is waited for
	Source Source
	// Encode renders an item. Item.Deleted ends the stream after its frames.
	Encode func(ctx context.Context, item stream.Item) ([][]byte, error)
	// Receive handles a client's frame; what it returns is sent to the client.
	Receive      func(ctx context.Context, frame []byte) [][]byte
	Ping         time.Duration // after so long a silence; 0 = 20 s
	WriteTimeout time.Duration // a client that does not read for so long is dropped; 0 = 20 s
}

// errClosed is why a socket ends when the client leaves.
var errClosed = errors.New("the client closed the socket")

// Serve runs until the client leaves, the server stops or the conversation is
// deleted. Every client is served by goroutines of its own, so a slow one blocks
// nobody: it falls behind in the log, and is dropped if it stops reading. The
// close reason names the cursor to resume with.
func (s *Socket) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	if s.Cut != nil {
		defer cutAfter(ctx, cutTime, s.Cut)()
	}
	received := make(chan struct{})
	go func() {
		defer close(received)
		cancel(s.receive(ctx))
	}()
	err := s.send(ctx)
	switch {
	case err == nil:
		_ = s.Conn.Close(websocket.StatusNormalClosure, "deleted")
	case errors.Is(err, ErrDraining):
		_ = s.Conn.Close(websocket.StatusGoingAway, fmt.Sprintf("stopping; resume with after_seq=%d", s.Source.After()))
		err = nil
	case errors.Is(err, ErrRevoked):
		_ = s.Conn.Close(CloseAuth, "The key is not valid any more")
		err = nil
	case errors.Is(err, errClosed) || errors.Is(err, context.Canceled):
		err = nil
	default:
		_ = s.Conn.Close(websocket.StatusInternalError, fmt.Sprintf("resume with after_seq=%d", s.Source.After()))
	}
	cancel(errClosed)
	_ = s.Conn.CloseNow()
	<-received
	return err
}

// receive reads frames until the socket closes.
func (s *Socket) receive(ctx context.Context) error {
	for {
		_, frame, err := s.Conn.Read(context.WithoutCancel(ctx)) // ends with CloseNow
		if err != nil {
			return errClosed
		}
		for _, answer := range s.Receive(ctx, frame) {
			if err := s.Write(ctx, answer); err != nil {
				return errClosed
			}
		}
	}
}

func (s *Socket) send(ctx context.Context) error {
	idle := orDefault(s.Ping, 20*time.Second)
	for {
		item, ok, err := nextOrIdle(ctx, s.Source, idle)
		if err != nil {
			return err
		}
		if !ok {
			if err := s.ping(ctx); err != nil {
				return err
			}
			continue
		}
		frames, err := s.Encode(ctx, item)
		if err != nil {
			return fmt.Errorf("encode stream item: %w", err)
		}
		for _, f := range frames {
			if err := s.Write(ctx, f); err != nil {
				return err
			}
		}
		if item.Deleted {
			return nil
		}
	}
}

// Write sends one frame. A cancelled ctx does not tear a frame in two: only the
// time-out ends a write. The error is ctx's cause or that the client is gone.
func (s *Socket) Write(ctx context.Context, frame []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w, cancel := context.WithTimeout(context.WithoutCancel(ctx), orDefault(s.WriteTimeout, 20*time.Second))
	defer cancel()
	if err := s.Conn.Write(w, websocket.MessageText, frame); err != nil {
		return errClosed
	}
	return nil
}

// ping finds out whether a silent client is still there.
func (s *Socket) ping(ctx context.Context) error {
	w, cancel := context.WithTimeout(ctx, orDefault(s.WriteTimeout, 20*time.Second))
	defer cancel()
	if err := s.Conn.Ping(w); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return errClosed
	}
	return nil
}
