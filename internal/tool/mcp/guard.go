package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"parley/internal/tool/mcp/oauth"
)

// Bounds of what a server on the network may do.
const (
	maxBody      = maxLine // bytes of an answer that is no stream, and of one event
	maxPosts     = 64      // requests at a time
	maxErrorBody = 4 << 10 // bytes that are kept of the body of a refusal
	maxRedirects = 5
	streamLines  = 20_000 // lines of streams at once,
	streamRate   = 2000   // and a second
	streamBytes  = 64 << 20
	streamSpeed  = 8 << 20
)

var (
	errLogin    = errors.New("the server asks for a login")
	errManyPost = errors.New("it makes more than 64 requests necessary at a time")
	errFlood    = errors.New("it floods: it sent more messages than anybody can read")
)

// otherHost is a redirect, or an address for messages, that leads to somebody else.
type otherHost struct{ host string }

func (e *otherHost) Error() string {
	return "it sends its clients on to another host, " + oneLine(e.host, 100) + ": credentials are not sent there"
}

// refusal is an HTTP answer that is none of a working server.
type refusal struct {
	method string
	code   int
	body   string
}

func (r *refusal) Error() string {
	text := "it answers " + statusText(r.code)
	if r.body != "" {
		text += " (" + r.body + ")"
	}
	return text
}

// guard is all that the SDK sends to a server on the network goes through: it adds the
// credentials, keeps them with their host, bounds the answers, and ends with its context,
// but for the end of the session (see bind).
type guard struct {
	ctx    context.Context
	giveUp func(error) // ends ctx
	to     *target
	agent  string
	oauth  auth.OAuthHandler // nil = none
	base   *http.Transport
	posts  chan struct{}

	mu    sync.Mutex
	lines bucket
	bytes bucket
	last  *refusal // of a POST, or of a GET before the session is open
	open  bool     // the session is
	lost  int      // requests for a stream in a row that did not reach the server
	login bool
}

func newGuard(ctx context.Context, giveUp func(error), to *target, oauth auth.OAuthHandler, cfg *Config) *guard {
	return &guard{ctx: ctx, giveUp: giveUp, to: to, oauth: oauth, agent: cfg.Name + "/" + cfg.Version,
		posts: make(chan struct{}, maxPosts),
		lines: bucket{rate: streamRate, most: streamLines}, bytes: bucket{rate: streamSpeed, most: streamBytes},
		base: &http.Transport{DialContext: cfg.Dial, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10, MaxConnsPerHost: 2 * maxPosts, IdleConnTimeout: 90 * time.Second}}
}

func (g *guard) client() *http.Client {
	return &http.Client{Transport: g, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if !g.to.owns(req.URL) {
			return &otherHost{req.URL.Host}
		}
		if len(via) > maxRedirects {
			return errors.New("it sends its clients in circles")
		}
		return nil
	}}
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if !g.to.owns(req.URL) {
		return nil, &otherHost{req.URL.Host}
	}
	if req.Method == http.MethodPost {
		select {
		case g.posts <- struct{}{}:
		default:
			g.giveUp(errManyPost)
			return nil, errManyPost
		}
	}
	release := func() {
		if req.Method == http.MethodPost {
			<-g.posts
		}
	}
	ctx, cancel := g.bind(req)
	end := sync.OnceFunc(func() { cancel(); release() })
	resp, err := g.send(ctx, req)
	if err != nil {
		g.failed(ctx, req, err)
		end()
		if req.Method == http.MethodGet && g.ctx.Err() != nil {
			return noStream(req), nil //nolint:nilerr // see there
		}
		return nil, err
	}
	g.bound(resp, end)
	return resp, nil
}

// bind gives a request the end of its connection. Only the DELETE of the session does not
// end then: it is sent at this end, and a server that never hears it keeps the session.
func (g *guard) bind(req *http.Request) (context.Context, context.CancelFunc) {
	if req.Method == http.MethodDelete {
		return context.WithTimeout(req.Context(), endGrace)
	}
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(g.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// noStream is the answer of a server that has no stream. The SDK opens a stream inside the
// handshake and tries for hours after any error, deaf to the context of the handshake.
func noStream(req *http.Request) *http.Response {
	return &http.Response{StatusCode: http.StatusMethodNotAllowed, Header: http.Header{}, Body: http.NoBody, Request: req}
}

// failed ends the connection to a server that cannot be reached any more.
func (g *guard) failed(ctx context.Context, req *http.Request, err error) {
	if ctx.Err() != nil || errors.Is(err, errLogin) {
		return
	}
	g.mu.Lock()
	g.lost++
	gone := g.open && (req.Method == http.MethodPost || g.lost >= 3)
	g.mu.Unlock()
	if gone {
		g.giveUp(err)
	}
}

// established is called when the session is open.
func (g *guard) established() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open, g.last = true, nil
}

// send makes a request, and once more after a login.
func (g *guard) send(ctx context.Context, req *http.Request) (*http.Response, error) {
	resp, sent, err := g.once(ctx, req)
	if err != nil || g.oauth == nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return resp, err
	}
	if err := g.authorize(ctx, sent, resp); err != nil {
		if !errors.Is(err, oauth.ErrLogin) { // trouble with whoever gives the tokens, which may pass
			return nil, err
		}
		g.mu.Lock()
		g.login = true
		g.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", errLogin, err)
	}
	resp, _, err = g.once(ctx, req)
	return resp, err
}

// authorize asks the handler, which may panic as any other foreign code.
func (g *guard) authorize(ctx context.Context, req *http.Request, resp *http.Response) (err error) {
	defer func() { _ = resp.Body.Close() }()
	defer recovered(&err)
	return g.oauth.Authorize(ctx, req, resp)
}

func (g *guard) once(ctx context.Context, from *http.Request) (*http.Response, *http.Request, error) {
	req := from.Clone(ctx)
	if from.GetBody != nil {
		body, err := from.GetBody()
		if err != nil {
			return nil, nil, err
		}
		req.Body = body
	}
	for name, values := range g.to.header {
		if _, own := req.Header[name]; !own {
			req.Header[name] = values
		}
	}
	req.Header.Set("User-Agent", g.agent)
	if err := g.token(ctx, req); err != nil {
		return nil, nil, err
	}
	resp, err := g.base.RoundTrip(req)
	return resp, req, err
}

// token adds what the login brought. Without one, or with one that is not taken any
// more, the server says so.
func (g *guard) token(ctx context.Context, req *http.Request) (err error) {
	if g.oauth == nil {
		return nil
	}
	defer recovered(&err)
	source, err := g.oauth.TokenSource(ctx)
	if err != nil || source == nil {
		return err
	}
	token, err := source.Token()
	if err != nil || token == nil || token.AccessToken == "" {
		return nil //nolint:nilerr // the answer will be 401, and that leads to the login
	}
	req.Header.Set("Authorization", "Bearer "+token.AccessToken)
	return nil
}

// bound limits the body of an answer. Of a refusal only the beginning is kept.
func (g *guard) bound(resp *http.Response, end func()) {
	g.answered(resp)
	if resp.StatusCode >= 400 {
		head, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		_ = resp.Body.Close()
		end()
		g.refused(resp.Request, resp.StatusCode, head)
		resp.Body = io.NopCloser(bytes.NewReader(head))
		return
	}
	b := &body{inner: resp.Body, end: end, guard: g, left: maxBody}
	if mediaType(resp.Header.Get("Content-Type")) == "text/event-stream" {
		b.stream = true
	}
	resp.Body = b
}

func (g *guard) answered(resp *http.Response) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost = 0
	if resp.StatusCode < 400 && resp.Request.Method == http.MethodPost {
		g.last = nil
	}
}

func (g *guard) refused(req *http.Request, code int, head []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if req.Method == http.MethodPost || !g.open {
		g.last = &refusal{req.Method, code, oneLine(string(head), 200)}
	}
}

// refusedWith is the last refusal, nil for none.
func (g *guard) refusedWith() *refusal {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

func (g *guard) needsLogin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.login || g.last != nil && g.last.code == http.StatusUnauthorized && g.oauth != nil
}

// body is the body of an answer within bounds.
type body struct {
	inner  io.ReadCloser
	end    func()
	guard  *guard
	stream bool
	left   int64 // of one that is no stream
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	if over := b.over(p[:n]); over != nil {
		b.guard.giveUp(over)
		return 0, over
	}
	return n, err
}

func (b *body) over(p []byte) error {
	if !b.stream {
		if b.left -= int64(len(p)); b.left < 0 {
			return fmt.Errorf("its answer has more than %d MiB", maxBody>>20)
		}
		return nil
	}
	g, now := b.guard, time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.lines.takeN(float64(bytes.Count(p, []byte{'\n'})), now) || !g.bytes.takeN(float64(len(p)), now) {
		return errFlood
	}
	return nil
}

func (b *body) Close() error {
	b.end() // first: a body that is not read to its end may be waited for
	return b.inner.Close()
}

// plainError takes the address out of an error of net/http: it may hold a secret.
func plainError(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
