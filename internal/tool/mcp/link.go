package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/tool"
)

// The versions of the protocol that are offered, in this order: servers of today know
// the first one's handshake, and some that do not know the second one's hang at it.
var versions = []string{"2025-11-25", "2026-07-28"}

var (
	errClosing = errors.New("it is being disconnected")
	errEnded   = errors.New("the connection ended")
	errSlow    = fault.New(fault.Timeout, "mcp_timeout", "It did not answer in time.")
)

// streamRetries is how often the SDK opens the stream of a server's own messages again:
// servers close it when it is idle, and that must not end the session. The guard notices
// servers that are gone.
const streamRetries = 1000

// endGrace is how long a connection may take to end in peace.
const endGrace = time.Second

// link is a connection to a server, from its handshake to its end.
type link struct {
	session *sdk.ClientSession
	// ctx ends with the connection; its cause says why. giveUp ends it.
	ctx    context.Context
	giveUp context.CancelCauseFunc
	// calls ends before: what still runs then is cancelled.
	calls    context.Context
	endCalls context.CancelFunc
	done     chan struct{} // the SDK is done with it
	end      error         // why, when done is closed

	pipe  *stdio // one of pipe and guard is set
	guard *guard

	mu       sync.Mutex
	progress map[string]func(string)
	tokens   atomic.Int64
}

// dialer makes links to one server.
type dialer struct {
	cfg    *Config
	opt    *tool.ServerOptions
	server *tool.Server
	// changed hears that the server's list of tools changed; it does not block.
	changed func()
	ctx     context.Context // of the links
	hands   tool.Hands      // see enter
}

// enter waits for the sandbox, where the server runs in it.
func (d *dialer) enter(ctx context.Context) (err error) {
	defer recovered(&err)
	if d.server.Stdio != nil {
		d.hands, err = d.opt.Hands(ctx)
	}
	return err
}

// dial connects; ctx is for that only.
func (d *dialer) dial(ctx context.Context) (l *link, err error) {
	defer recovered(&err)
	err = errors.New("no version of the protocol was tried")
	for _, version := range versions {
		if d.server.Stdio != nil {
			l, err = d.start(ctx, version)
		} else {
			l, err = d.reach(ctx, version)
		}
		if err == nil || !otherVersion(err) {
			break
		}
	}
	return l, err
}

// otherVersion reports whether the server speaks the protocol, but not this version.
func otherVersion(err error) bool {
	rpc, ok := rpcError(err)
	return ok && (rpc.Code == jsonrpc.CodeMethodNotFound || rpc.Code == sdk.CodeUnsupportedProtocolVersion)
}

func newLink(ctx context.Context) *link {
	l := &link{done: make(chan struct{}), progress: map[string]func(string){}}
	l.ctx, l.giveUp = context.WithCancelCause(ctx)
	l.calls, l.endCalls = context.WithCancel(l.ctx)
	return l
}

// start runs a program inside the sandbox and connects to it.
func (d *dialer) start(ctx context.Context, version string) (*link, error) {
	req, err := d.request()
	if err != nil {
		return nil, err
	}
	program, err := d.hands.StartProgram(ctx, req)
	if err != nil {
		return nil, err
	}
	l := newLink(d.ctx)
	l.pipe = newStdio(program, d.changed)
	if err := d.handshake(ctx, l, l.pipe, version); err != nil {
		l.close(errClosing)
		return nil, l.explain(err)
	}
	return l, nil
}

// request expands the names of secrets in a configuration, with their values now.
func (d *dialer) request() (tool.ProgramRequest, error) {
	s, secret := d.server.Stdio, lookup(d.opt.Secret)
	req := tool.ProgramRequest{Argv: []string{s.Command}, Env: map[string]string{}}
	for _, arg := range s.Args {
		text, err := secret.expandArg(arg)
		if err != nil {
			return req, err
		}
		req.Argv = append(req.Argv, text)
	}
	for name, value := range s.Env {
		text, err := secret.expand(value.Reveal())
		if err != nil {
			return req, err
		}
		req.Env[name] = text
	}
	if req.Dir = s.Cwd; !path.IsAbs(req.Dir) {
		req.Dir = path.Join(orElse(d.server.Dir, d.opt.WorkingDir), s.Cwd)
	}
	return req, nil
}

// reach connects to a server on the network, over the older transport where it does
// not know the newer one.
func (d *dialer) reach(ctx context.Context, version string) (*link, error) {
	to, err := resolve(d.server.HTTP, d.opt.Secret, d.opt.Conversation)
	if err != nil {
		return nil, err
	}
	oauth, err := d.oauth()
	if err != nil {
		return nil, err
	}
	if !d.server.SSE {
		l, err := d.over(ctx, to, oauth, version, false)
		if err == nil {
			return l, nil
		}
		var r *refusal
		if !errors.As(err, &r) || r.method != http.MethodPost || r.code != http.StatusNotFound && r.code != http.StatusMethodNotAllowed {
			return nil, err
		}
		older, olderErr := d.over(ctx, to, oauth, version, true)
		if olderErr != nil {
			return nil, err // it tells more
		}
		return older, nil
	}
	return d.over(ctx, to, oauth, version, true)
}

func (d *dialer) oauth() (auth.OAuthHandler, error) {
	a := d.server.HTTP.Auth
	if a == nil || a.Strategy != account.MCPAuthOAuth {
		return nil, nil
	}
	if d.cfg.OAuth == nil {
		return nil, errLogin
	}
	h, err := d.cfg.OAuth(d.opt.Owner, d.server.HTTP)
	if err == nil && h == nil {
		err = errLogin
	}
	return h, err
}

func (d *dialer) over(ctx context.Context, to *target, oauth auth.OAuthHandler, version string, sse bool) (*link, error) {
	l := newLink(d.ctx)
	l.guard = newGuard(l.ctx, l.giveUp, to, oauth, d.cfg)
	var transport sdk.Transport = &sdk.StreamableClientTransport{Endpoint: to.url.String(), HTTPClient: l.guard.client(), MaxEventSize: maxBody,
		MaxRetries: streamRetries}
	if sse {
		transport = &sdk.SSEClientTransport{Endpoint: to.url.String(), HTTPClient: l.guard.client(), MaxEventSize: maxBody}
	}
	if err := d.handshake(ctx, l, transport, version); err != nil {
		l.close(errClosing)
		return nil, l.explain(err)
	}
	return l, nil
}

// handshake opens the session.
func (d *dialer) handshake(ctx context.Context, l *link, transport sdk.Transport, version string) error {
	stop := context.AfterFunc(ctx, func() { l.giveUp(errSlow) })
	session, err := d.client(l).Connect(l.ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if !stop() && err == nil {
		err = errSlow
		_ = quietly(session.Close)
	}
	if err != nil {
		close(l.done)
		return err
	}
	l.session = session
	if l.guard != nil {
		l.guard.established()
	}
	go func() {
		l.end = quietly(session.Wait)
		close(l.done)
		l.giveUp(errEnded)
	}()
	return nil
}

// client is the SDK's client of one link. It offers what the server may ask for: where
// the conversation works, and nothing else.
func (d *dialer) client(l *link) *sdk.Client {
	capabilities := &sdk.ClientCapabilities{}
	if d.server.Stdio != nil {
		capabilities.RootsV2 = &sdk.RootCapabilities{} //nolint:staticcheck // servers of today ask for roots
	}
	c := sdk.NewClient(&sdk.Implementation{Name: d.cfg.Name, Version: d.cfg.Version}, &sdk.ClientOptions{
		Capabilities:                capabilities,
		MultiRoundTrip:              &sdk.MultiRoundTripOptions{Disabled: true}, // it would repeat calls
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { d.changed() },
		ProgressNotificationHandler: func(_ context.Context, req *sdk.ProgressNotificationClientRequest) { l.progressed(req.Params) },
	})
	if d.server.Stdio != nil && d.opt.WorkingDir != "" {
		c.AddRoots(&sdk.Root{URI: fileURI(d.opt.WorkingDir), Name: "workspace"}) //nolint:staticcheck // as above
	}
	return c
}

// ending is why the connection ended.
func (l *link) ending() error {
	select {
	case <-l.done:
		if l.end != nil {
			return l.end
		}
	default:
	}
	return errEnded
}

// explain replaces what the SDK says of a failure by what is known here.
func (l *link) explain(err error) error {
	if _, ok := rpcError(err); ok {
		return err
	}
	cause := context.Cause(l.ctx)
	own := cause != nil && !errors.Is(cause, errEnded) && !errors.Is(cause, errClosing)
	switch {
	case l.guard != nil && (errors.Is(err, errLogin) || l.guard.needsLogin()):
		return errLogin
	case own:
		return cause
	case errors.Is(err, context.DeadlineExceeded):
		return errSlow
	case l.pipe != nil:
		return l.pipe.explain(err)
	}
	var other *otherHost
	if errors.As(err, &other) {
		return other
	}
	if r := l.guard.refusedWith(); r != nil {
		return r
	}
	return plainError(err)
}

// close ends the connection, in peace if that is quick, and waits for its end a moment.
// Whoever wants to know more asks explain.
func (l *link) close(cause error) {
	l.endCalls()
	if l.session != nil {
		go func() { _ = quietly(l.session.Close) }()
		waitFor(l.done, endGrace)
	}
	l.giveUp(cause)
	if l.pipe != nil {
		_ = l.pipe.Close()
		waitFor(l.pipe.ended, 3*endGrace)
	}
	waitFor(l.done, endGrace)
	if l.guard != nil {
		l.guard.base.CloseIdleConnections()
	}
}

// waitFor waits until done is closed, at most so long.
func waitFor(done <-chan struct{}, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// notify registers who hears of a call's progress; forget ends it.
func (l *link) notify(show func(string)) (token string, forget func()) {
	token = "p" + strconv.FormatInt(l.tokens.Add(1), 10)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.progress[token] = show
	return token, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.progress, token)
	}
}

func (l *link) progressed(p *sdk.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	l.mu.Lock()
	show := l.progress[token]
	l.mu.Unlock()
	if show == nil {
		return
	}
	text := strconv.FormatFloat(p.Progress, 'g', 6, 64)
	if p.Total > 0 {
		text += " of " + strconv.FormatFloat(p.Total, 'g', 6, 64)
	}
	if message := oneLine(p.Message, 200); message != "" {
		text += ": " + message
	}
	show(text)
}

// offers reports which kinds of things the server says it has.
func (l *link) offers() (tools, resources, prompts bool) {
	r := l.session.InitializeResult()
	if r == nil || r.Capabilities == nil {
		return false, false, false
	}
	c := r.Capabilities
	return c.Tools != nil, c.Resources != nil, c.Prompts != nil
}

// quietly calls the SDK.
func quietly(do func() error) (err error) {
	defer recovered(&err)
	return do()
}

// recovered turns a panic of foreign code into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("mcp: panic: %v", p)
	}
}
