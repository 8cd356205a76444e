package sandboxd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"parley/internal/fault"
)

const (
	// idleConns serve a few long polls and a command at the same time; more are
	// dialled when needed and closed after use.
	idleConns    = 8
	idleConnTime = 30 * time.Second
)

// Client speaks to one sandbox's daemon. It implements tool.Hands and may be used
// concurrently. Every method returns when its context ends, with the context's
// cause; it has no time-outs of its own, because a frozen sandbox answers when it
// is thawed. Errors are *fault.Error with the daemon's kind and code, or
// Unavailable with CodeGone if there is no daemon or it died meanwhile.
//
// A request that finds its pooled connection dead is sent again if it changes
// nothing or the same thing twice, or if nothing of it was sent.
type Client struct {
	dial      func(ctx context.Context) (net.Conn, error)
	transport *http.Transport
	http      http.Client

	mu     sync.Mutex
	conns  map[*trackedConn]struct{}
	closed bool
}

// NewClient makes a client that connects with dial when it needs to.
func NewClient(dial func(ctx context.Context) (net.Conn, error)) *Client {
	c := &Client{dial: dial, conns: map[*trackedConn]struct{}{}}
	c.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return c.connect(ctx)
		},
		MaxIdleConnsPerHost: idleConns,
		IdleConnTimeout:     idleConnTime,
		DisableCompression:  true,
	}
	c.http = http.Client{
		Transport:     c.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// Close breaks all connections, those of DialPort and StartProgram included, which ends
// the programs; later calls fail
// with CodeClosed. Terminals go on. Idempotent.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	open := make([]*trackedConn, 0, len(c.conns))
	for conn := range c.conns {
		open = append(open, conn)
	}
	c.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close()
	}
	c.transport.CloseIdleConnections()
}

// connect dials and remembers the connection until it is closed.
func (c *Client) connect(ctx context.Context) (net.Conn, error) {
	if c.isClosed() {
		return nil, net.ErrClosed
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	tracked := &trackedConn{Conn: conn, client: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	c.conns[tracked] = struct{}{}
	return tracked, nil
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// trackedConn is a connection that Close of the client finds.
type trackedConn struct {
	net.Conn
	client *Client
}

// CloseWrite ends one direction.
func (t *trackedConn) CloseWrite() error { return closeWrite(t.Conn) }

// Close closes the connection.
func (t *trackedConn) Close() error {
	t.client.mu.Lock()
	delete(t.client.conns, t)
	t.client.mu.Unlock()
	return t.Conn.Close()
}

// call is one request.
type call struct {
	method string
	path   string
	query  url.Values
	body   io.Reader // *bytes.Reader, so that it can be sent again, except for streams
	most   int64     // bytes of the answer; 0 = maxAnswer
	// repeatable: sending it twice does no more than sending it once.
	repeatable bool
}

// do sends a request and returns a successful answer, whose body the caller closes.
func (c *Client) do(ctx context.Context, call call) (*http.Response, error) {
	target := url.URL{Scheme: "http", Host: "sandbox", Path: call.path, RawQuery: call.query.Encode()}
	req, err := http.NewRequestWithContext(ctx, call.method, target.String(), call.body)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, CodeBadRequest, "The request to the sandbox cannot be made.")
	}
	if call.repeatable {
		req.Header["Idempotency-Key"] = nil // tells the transport, is not sent
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	return nil, c.refusal(ctx, resp)
}

// broken classifies an error of the connection.
func (c *Client) broken(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.isClosed():
		return fault.Wrap(err, fault.Canceled, CodeClosed, "The connection to the sandbox was closed.")
	}
	return fault.Wrap(err, fault.Unavailable, CodeGone, "The sandbox does not answer.").
		WithHint("It may have been stopped. Start it again.")
}

// refusal reads the fault of an answer.
func (c *Client) refusal(ctx context.Context, resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return c.broken(ctx, err)
	}
	var wire wireFault
	if resp.Header.Get("Content-Type") == "application/json" && json.Unmarshal(body, &wire) == nil && wire.Kind != "" {
		return wire.fault()
	}
	if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed {
		return fault.New(fault.Unsupported, "sandboxd_too_old", "The sandbox was started by a version that cannot do this.").
			WithHint("Restart the sandbox.")
	}
	return badAnswer(errors.New("status " + strconv.Itoa(resp.StatusCode)))
}

func badAnswer(err error) error {
	return fault.Wrap(err, fault.Internal, "sandbox_protocol", "The sandbox's answer makes no sense.")
}

// discard sends a request whose answer has no body.
func (c *Client) discard(ctx context.Context, call call) error {
	resp, err := c.do(ctx, call)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// maxAnswer bounds what a daemon may answer, in bytes: programs in the sandbox may
// have taken its place. The longest are lists of 100,000 files with long paths.
const maxAnswer = 128 << 20

// raw sends a request and reads the whole body of the answer.
func (c *Client) raw(ctx context.Context, call call) ([]byte, http.Header, error) {
	resp, err := c.do(ctx, call)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	most := call.most
	if most == 0 {
		most = maxAnswer
	}
	body, err := readSized(resp.Body, resp.ContentLength, most)
	if errors.Is(err, errTooLong) {
		return nil, nil, badAnswer(err)
	}
	if err != nil {
		return nil, nil, c.broken(ctx, err)
	}
	return body, resp.Header, nil
}

// json sends a request and decodes the answer into out.
func (c *Client) json(ctx context.Context, call call, out any) error {
	body, _, err := c.raw(ctx, call)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, out); err != nil {
		return badAnswer(err)
	}
	return nil
}

func jsonBody(v any) (*bytes.Reader, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, CodeBadRequest, "The request to the sandbox cannot be encoded.")
	}
	return bytes.NewReader(body), nil
}

// Health asks the daemon who it is.
func (c *Client) Health(ctx context.Context) (Health, error) {
	var h Health
	err := c.json(ctx, call{method: http.MethodGet, path: "/health"}, &h)
	return h, err
}
