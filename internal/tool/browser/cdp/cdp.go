// Package cdp speaks the Chrome DevTools Protocol with a browser: commands with
// their answers, and events, of many sessions over one WebSocket.
//
// It knows no domain of the protocol but what ends calls: a session that detaches
// and a page that crashes. It promises that a call ends with its context, with its
// session or with the connection, whichever comes first; that a message is at most
// MaxMessage long; and that what nobody waits for is dropped. It does not
// reconnect.
package cdp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// MaxMessage is how many bytes a message of the browser may have. A longer one
// ends the connection.
const MaxMessage = 64 << 20

// writeTime bounds one write: a browser always reads, unless it is frozen.
const writeTime = 30 * time.Second

// Errors that end calls.
var (
	ErrClosed   = errors.New("the connection to the browser is closed")
	ErrDetached = errors.New("the page was closed")
	ErrCrashed  = errors.New("the page crashed")
)

// Error is the browser's refusal of a command.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    string `json:"data"`
}

// Error returns what the browser said.
func (e *Error) Error() string {
	if e.Data != "" {
		return e.Message + " (" + e.Data + ")"
	}
	return e.Message
}

// Event is something that happened in the browser, or in the page of a session.
type Event struct {
	Session string // "" = the browser
	Method  string
	Params  json.RawMessage
}

// message is anything that the browser sends.
type message struct {
	ID      int64           `json:"id"`
	Session string          `json:"sessionId"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *Error          `json:"error"`
}

type command struct {
	ID      int64  `json:"id"`
	Session string `json:"sessionId,omitempty"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

// pending is a call that waits for its answer.
type pending struct {
	session string
	answer  chan answer // room for one
}

type answer struct {
	result json.RawMessage
	err    error
}

// Conn is a connection to a browser. Its methods may be called concurrently.
type Conn struct {
	ws     *websocket.Conn
	handle func(*Conn, Event)
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	last  int64
	calls map[int64]pending // nil once closed
}

// Dial connects to the browser's endpoint (a path like /devtools/browser/ID) on a
// port that dial reaches. handle gets every event, one after the other; it must
// not wait for answers, because nothing is read meanwhile. Close ends the
// connection.
func Dial(ctx context.Context, dial func(context.Context) (net.Conn, error), port int, path string, handle func(*Conn, Event)) (*Conn, error) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	ws, resp, err := websocket.Dial(ctx, "ws://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(port))+path,
		&websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		if resp != nil && resp.Body != nil {
			_ = resp.Body.Close()
		}
		transport.CloseIdleConnections()
		return nil, fmt.Errorf("connect to the browser: %w", err)
	}
	ws.SetReadLimit(MaxMessage)
	c := &Conn{ws: ws, handle: handle, done: make(chan struct{}), calls: map[int64]pending{}}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go c.read()
	return c, nil
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Context ends with the connection.
func (c *Conn) Context() context.Context { return c.ctx }

// Close ends the connection and returns when no event is handled any more. It may
// not be called by the handler.
func (c *Conn) Close() {
	c.cancel()
	<-c.done
}

// read is the connection's life.
func (c *Conn) read() {
	defer close(c.done)
	defer c.end()
	for {
		_, data, err := c.ws.Read(c.ctx)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(data, &m) == nil {
			c.take(m)
		}
	}
}

// take passes a message on to whom it concerns.
func (c *Conn) take(m message) {
	if m.Method == "" {
		c.answer(m)
		return
	}
	switch m.Method {
	case "Inspector.targetCrashed":
		c.fail(m.Session, ErrCrashed)
	case "Target.detachedFromTarget":
		var p struct {
			Session string `json:"sessionId"`
		}
		if json.Unmarshal(m.Params, &p) == nil && p.Session != "" {
			c.fail(p.Session, ErrDetached)
		}
	}
	c.handle(c, Event{Session: m.Session, Method: m.Method, Params: m.Params})
}

func (c *Conn) answer(m message) {
	c.mu.Lock()
	call, ok := c.calls[m.ID]
	delete(c.calls, m.ID)
	c.mu.Unlock()
	switch {
	case !ok: // nobody waits any more
	case m.Error != nil:
		call.answer <- answer{err: m.Error}
	default:
		call.answer <- answer{result: m.Result}
	}
}

// fail ends the calls of a session.
func (c *Conn) fail(session string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, call := range c.calls {
		if call.session == session {
			delete(c.calls, id)
			call.answer <- answer{err: err}
		}
	}
}

// end fails all calls, those to come included.
func (c *Conn) end() {
	c.cancel()
	_ = c.ws.CloseNow()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.calls {
		call.answer <- answer{err: ErrClosed}
	}
	c.calls = nil
}

// Call sends a command to a session ("" = the browser) and decodes the answer into
// result, unless that is nil. It returns *Error if the browser refuses, the
// context's cause if that ends first, or what ended the session.
func (c *Conn) Call(ctx context.Context, session, method string, params, result any) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	call := pending{session: session, answer: make(chan answer, 1)}
	id, err := c.send(session, method, params, &call)
	if err != nil {
		return err
	}
	select {
	case a := <-call.answer:
		return finish(method, a, result)
	case <-ctx.Done():
		c.forget(id)
		return context.Cause(ctx)
	}
}

func finish(method string, a answer, result any) error {
	if a.err != nil {
		return fmt.Errorf("%s: %w", method, a.err)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(a.result, result); err != nil {
		return fmt.Errorf("%s: the answer makes no sense: %w", method, err)
	}
	return nil
}

// Send sends a command whose answer nobody needs. It does not wait, so that
// handlers may use it.
func (c *Conn) Send(session, method string, params any) {
	_, _ = c.send(session, method, params, nil) // a connection that broke ends everything anyway
}

func (c *Conn) send(session, method string, params any, call *pending) (int64, error) {
	c.mu.Lock()
	if c.calls == nil {
		c.mu.Unlock()
		return 0, ErrClosed
	}
	c.last++
	id := c.last
	if call != nil {
		c.calls[id] = *call
	}
	c.mu.Unlock()
	data, err := json.Marshal(command{id, session, method, params})
	if err != nil {
		c.forget(id)
		return 0, fmt.Errorf("%s: %w", method, err)
	}
	// Not the caller's context: one that ends in the middle of a write would end
	// the connection.
	ctx, cancel := context.WithTimeout(c.ctx, writeTime)
	defer cancel()
	if err := c.ws.Write(ctx, websocket.MessageText, data); err != nil {
		c.forget(id)
		return 0, ErrClosed
	}
	return id, nil
}

func (c *Conn) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, id)
}
