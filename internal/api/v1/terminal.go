package v1

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"parley/internal/api/httpkit"
	"parley/internal/console"
	"parley/internal/fault"
)

// Terminals open terminals of users in their sandboxes.
type Terminals interface {
	Open(ctx context.Context, req console.Request) (*console.Session, error)
}

// Close codes of a terminal's socket, besides those of all sockets.
const (
	closeConflict    websocket.StatusCode = 4009 // the sandbox is paused
	closeTooMany     websocket.StatusCode = 4029
	closeUnsupported websocket.StatusCode = 4051 // the sandbox cannot do it
)

const (
	// terminalPiece is the most that one frame shows, in bytes.
	terminalPiece = 32 << 10
	terminalPing  = 20 * time.Second
	// terminalCut is how long a client may take, when its terminal is over, to take
	// what was written and to say goodbye.
	terminalCut = time.Second
	// terminalWrite is how long a client may leave a frame untaken.
	terminalWrite = time.Minute
)

// terminal is the socket of a terminal (docs/sandboxes.md): bytes both ways in binary
// frames, all else in JSON.
func (h *handlers) terminal(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Rows   int    `json:"rows"`
		Cols   int    `json:"cols"`
		Window int    `json:"window"`
		Dir    string `json:"dir"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	if h.Terminals == nil || h.Auth == nil {
		return fault.New(fault.Unsupported, "terminal_not_built", "This server gives no terminals of sandboxes.")
	}
	conn, cut, who, err := h.acceptTerminal(w, r.Request)
	if conn == nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(console.MaxInput)
	t := &terminalSocket{conn: conn, cut: cut, window: newSendWindow(q.Window)}
	return t.serve(r.Context(), h, who, console.Request{Owner: who.UserID, SandboxID: r.PathValue("sandbox_id"), Dir: q.Dir, Rows: q.Rows, Cols: q.Cols})
}

// acceptTerminal upgrades a request and finds out who asks. conn is nil if that failed,
// with an error unless it is answered already.
func (h *handlers) acceptTerminal(w http.ResponseWriter, r *http.Request) (conn *websocket.Conn, cut func(), who httpkit.Principal, err error) {
	key := httpkit.SocketKey(r)
	known := key != "" || h.Auth.Everybody.Known()
	if known {
		if who, err = h.terminalUser(r.Context(), key); err != nil {
			return nil, nil, who, err
		}
	}
	if conn, cut = httpkit.AcceptSocket(w, r); conn == nil || known {
		return conn, cut, who, nil
	}
	if key, err = httpkit.FirstKey(r.Context(), conn, h.AuthWait); err == nil {
		who, err = h.terminalUser(r.Context(), key)
	}
	if err != nil {
		_ = conn.Close(httpkit.CloseAuth, "Authentication failed")
		_ = conn.CloseNow()
		return nil, nil, who, nil //nolint:nilerr // the client was told
	}
	return conn, cut, who, nil
}

// terminalUser is the user that a key belongs to; a sandbox's own key opens no terminal.
func (h *handlers) terminalUser(ctx context.Context, key string) (httpkit.Principal, error) {
	p, err := h.Auth.Resolve(ctx, key)
	if err == nil && p.UserID == "" {
		err = fault.New(fault.Unauthenticated, "unauthorized", "Unauthorized")
	}
	return p, err
}

// terminalSocket is a terminal's client. Three goroutines serve it: one reads frames,
// one sends what the terminal shows, and serve waits for all that ends it.
type terminalSocket struct {
	conn    *websocket.Conn
	cut     func() // ends the connection, see httpkit.AcceptSocket
	window  *sendWindow
	session *console.Session
	sending atomic.Bool // output is being written, which a ping would wait for
}

// errLeft is why a socket ends when its client goes.
var errLeft = errors.New("the client closed the terminal")

// serve runs until the shell has ended, the client leaves, or the server stops. It
// returns errors that are ours.
func (t *terminalSocket) serve(ctx context.Context, h *handlers, who httpkit.Principal, req console.Request) error {
	ctx, leave, err := h.Streams.Join(ctx, who, "ws", "terminal:"+req.SandboxID)
	if err != nil {
		return t.end(err)
	}
	defer leave()
	if t.session, err = h.Terminals.Open(ctx, req); err != nil {
		return t.end(err)
	}
	defer t.session.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := t.tell(terminalNote{Type: "ready"}); err != nil {
		return nil //nolint:nilerr // the client left
	}
	over := make(chan error, 2)
	var ways sync.WaitGroup
	ways.Go(func() { over <- t.show(ctx) })
	ways.Go(func() { over <- t.receive() })
	err = t.attend(ctx, over)
	hurry := time.AfterFunc(terminalCut, t.cut) // whoever reads or writes
	defer hurry.Stop()
	cancel(errLeft)
	t.session.Close()
	err = t.end(err)
	_ = t.conn.CloseNow()
	ways.Wait()
	return err
}

// attend tells of pauses and looks whether a silent client is still there, until the
// socket is over.
func (t *terminalSocket) attend(ctx context.Context, over <-chan error) error {
	ping := time.NewTicker(terminalPing)
	defer ping.Stop()
	for {
		select {
		case err := <-over:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.session.News():
			note := terminalNote{Type: "resumed"}
			if t.session.Paused() {
				note.Type = "paused"
			}
			if err := t.tell(note); err != nil {
				return err
			}
		case <-ping.C:
			if t.sending.Load() {
				continue // its time-out tells
			}
			if err := t.ping(ctx); err != nil {
				return err
			}
		}
	}
}

func (t *terminalSocket) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, terminalPing)
	defer cancel()
	if t.conn.Ping(ctx) != nil {
		return errLeft
	}
	return nil
}

// show sends what the terminal shows, as far as the client has room for it: beyond that
// the program waits.
func (t *terminalSocket) show(ctx context.Context) error {
	buf := make([]byte, terminalPiece)
	for {
		room, err := t.window.await(ctx, len(buf))
		if err != nil {
			return err
		}
		n, err := t.session.Read(buf[:room])
		if n > 0 {
			t.window.sent(n)
			if err := t.send(websocket.MessageBinary, buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// receive takes the client's frames until it leaves. What is wrong with one is told;
// the terminal goes on.
func (t *terminalSocket) receive() error {
	for {
		kind, frame, err := t.conn.Read(context.Background()) // ends with the connection
		if err != nil {
			return errLeft
		}
		if kind == websocket.MessageBinary {
			err = t.session.Type(frame)
		} else {
			err = t.control(frame)
		}
		if err == nil {
			continue
		}
		p := httpkit.Describe(err)
		if err := t.tell(terminalNote{Type: "error", Code: p.Code, Detail: p.Text}); err != nil {
			return err
		}
	}
}

func (t *terminalSocket) control(frame []byte) error {
	c, err := decodeControl(frame)
	if err != nil {
		return err
	}
	switch c.Type {
	case controlResize:
		return t.session.Resize(c.Rows, c.Cols)
	case controlAck:
		return t.window.ack(c.Bytes)
	}
	return nil // a credential that is sent again
}

// end says why the terminal is over and closes the socket. It returns errors that are
// ours.
func (t *terminalSocket) end(err error) error {
	switch {
	case errors.Is(err, errLeft) || errors.Is(err, context.Canceled):
		return nil
	case errors.Is(err, io.EOF):
		code := t.session.ExitCode()
		_ = t.tell(terminalNote{Type: "exit", ExitCode: &code})
		_ = t.conn.Close(websocket.StatusNormalClosure, "exit")
		return nil
	case errors.Is(err, httpkit.ErrRevoked):
		_ = t.conn.Close(httpkit.CloseAuth, "The key is not valid any more")
		return nil
	case errors.Is(err, httpkit.ErrDraining):
		_ = t.conn.Close(websocket.StatusGoingAway, "stopping")
		return nil
	}
	p := httpkit.Describe(err)
	_ = t.tell(terminalNote{Type: "error", Code: p.Code, Detail: p.Text, Fatal: true})
	_ = t.conn.Close(terminalClose(p.Kind), p.Code)
	if p.Kind == fault.Internal {
		return err
	}
	return nil
}

func terminalClose(kind fault.Kind) websocket.StatusCode {
	switch kind {
	case fault.NotFound, fault.Gone:
		return httpkit.CloseUnknown
	case fault.Conflict:
		return closeConflict
	case fault.RateLimited:
		return closeTooMany
	case fault.Unsupported:
		return closeUnsupported
	case fault.Internal:
		return websocket.StatusInternalError
	case fault.Canceled:
		return websocket.StatusNormalClosure
	}
	return websocket.StatusTryAgainLater
}

// terminalNote is what the server says beside the output.
type terminalNote struct {
	Type     string `json:"type"` // ready, exit, paused, resumed, error
	ExitCode *int   `json:"exit_code,omitempty"`
	Code     string `json:"code,omitempty"` // of an error, stable
	Detail   string `json:"detail,omitempty"`
	Fatal    bool   `json:"fatal,omitempty"` // the terminal is over
}

func (t *terminalSocket) tell(note terminalNote) error {
	frame, err := json.Marshal(note)
	if err != nil {
		return err
	}
	return t.send(websocket.MessageText, frame)
}

// send sends one frame, whole or not at all: only its own time-out ends it.
func (t *terminalSocket) send(kind websocket.MessageType, frame []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), terminalWrite)
	defer cancel()
	t.sending.Store(true)
	defer t.sending.Store(false)
	if t.conn.Write(ctx, kind, frame) != nil {
		return errLeft
	}
	return nil
}
