package httpkit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
	"parley/internal/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type users map[account.KeyHash]string

func (u users) UserByKey(_ context.Context, h account.KeyHash) (account.User, error) {
	if id, ok := u[h]; ok {
		return account.User{ID: id}, nil
	}
	return account.User{}, fault.New(fault.Unauthenticated, "x", "no")
}

func noSandbox(context.Context, string) (*store.Sandbox, error) {
	return nil, fault.New(fault.NotFound, "x", "no")
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serve puts handlers of a small document behind a guard.
func serve(t *testing.T, doc string, handlers httpkit.Handlers) (string, *logBuffer) {
	t.Helper()
	api, err := httpkit.NewAPI(httpkit.APIConfig{Name: "t", Document: []byte(doc), Handlers: handlers})
	if err != nil {
		t.Fatal(err)
	}
	mux, err := httpkit.NewMux(api)
	if err != nil {
		t.Fatal(err)
	}
	log := &logBuffer{}
	guard := httpkit.NewGuard(httpkit.GuardConfig{Log: slog.New(slog.NewTextHandler(log, nil)), URLs: &httpkit.URLs{},
		Metrics: httpkit.NewMetrics(func() int { return 0 }), Listen: "127.0.0.1:0",
		Auth: &httpkit.Authenticator{Users: users{account.HashKey("k"): "u"}, Sandbox: noSandbox}})
	srv := httptest.NewServer(guard.Wrap(mux))
	t.Cleanup(func() { srv.Client().CloseIdleConnections(); srv.Close() })
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return srv.URL, log
}

func get(t *testing.T, url string) (int, string, http.Header, error) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return 0, "", nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), resp.Header, err
}

const onePath = `{"openapi":"3.1.0","paths":{"/x":{"get":{"operationId":"x","security":[],"responses":{}}}}}`

// TestPathsThatOverlap: each of two patterns may be the narrower one somewhere. Operations
// are in the order of their paths, so that fixed segments go first.
func TestPathsThatOverlap(t *testing.T) {
	h := httpkit.Handlers{}
	doc := `{"openapi":"3.1.0","paths":{`
	for i, path := range []string{"/a/{x}/b", "/a/c/{y}", "/a/{x}/d", "/a/{x}/{y}/e"} {
		id := fmt.Sprint("op", i)
		h[id] = func(w http.ResponseWriter, r *httpkit.Request) error {
			return httpkit.JSON(w, http.StatusOK, id+" "+r.PathValue("x")+" "+r.PathValue("y"))
		}
		doc += fmt.Sprintf(`%q:{"get":{"operationId":%q,"security":[],"responses":{}}},`, path, id)
	}
	url, _ := serve(t, strings.TrimSuffix(doc, ",")+"}}", h)
	for path, want := range map[string]string{"/a/1/b": `"op0 1 "`, "/a/c/b": `"op1  b"`, "/a/c/2": `"op1  2"`, "/a/1/d": `"op2 1 "`,
		"/a/1/2/e": `"op3 1 2"`, "/a/1/2": `{"detail":"Not Found"}`, "/a/c": `{"detail":"Not Found"}`} {
		if _, body, _, err := get(t, url+path); err != nil || strings.TrimSpace(body) != want {
			t.Errorf("%s: %s, want %s (%v)", path, body, want, err)
		}
	}
}

func TestPathsThatAreTheSame(t *testing.T) {
	none := func(http.ResponseWriter, *httpkit.Request) error { return nil }
	for _, paths := range [][2]string{{"/x/{a}", "/x/{b}"}, {"/x/{a}/y", "/x/{b}/y"}} {
		api, err := httpkit.NewAPI(httpkit.APIConfig{Name: "t", Handlers: httpkit.Handlers{"a": none, "b": none}, Document: fmt.Appendf(nil,
			`{"openapi":"3.1.0","paths":{%q:{"get":{"operationId":"a","responses":{}}},%q:{"get":{"operationId":"b","responses":{}}}}}`, paths[0], paths[1])})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := httpkit.NewMux(api); err == nil {
			t.Errorf("%v are mounted, both", paths)
		}
	}
}

func TestKindsHaveTheirStatus(t *testing.T) {
	for kind, want := range map[fault.Kind]int{fault.Internal: 500, fault.Invalid: 400, fault.NotFound: 404, fault.Conflict: 409,
		fault.Unauthenticated: 401, fault.Forbidden: 403, fault.TooLarge: 413, fault.RateLimited: 429, fault.Unavailable: 503,
		fault.Gone: 410, fault.Unsupported: 501, fault.Timeout: 504, fault.Canceled: 503} {
		p := httpkit.Describe(fault.New(kind, "code", "text"))
		if p.Status != want || p.Text != "text" || p.Code != "code" || (want >= 500) != (p.ErrorID != "") {
			t.Errorf("%s: %+v", kind, p)
		}
	}
	for _, err := range []error{errors.New("inner text"), fmt.Errorf("wrapped: %w", io.ErrUnexpectedEOF)} {
		if p := httpkit.Describe(err); p.Status != 500 || strings.Contains(p.Text, "inner") || strings.Contains(p.Text, "EOF") {
			t.Errorf("%+v", p)
		}
	}
	if p := httpkit.Describe(httpkit.BadField("is odd", "x", "body", "n")); p.Status != 422 || len(p.Fields) != 1 {
		t.Errorf("%+v", p)
	}
}

func TestPanicsAndErrorsAreAnsweredAndLogged(t *testing.T) {
	var fail func() error
	url, log := serve(t, onePath, httpkit.Handlers{"x": func(http.ResponseWriter, *httpkit.Request) error { return fail() }})
	for name, f := range map[string]func() error{
		"panic": func() error { panic("inner text") },
		"error": func() error { return errors.New("inner text") },
	} {
		fail = f
		status, body, header, err := get(t, url+"/x")
		if err != nil || status != 500 || strings.Contains(body, "inner") || !strings.Contains(body, "error_id") || header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s %v", name, status, body, err)
		}
		if !strings.Contains(log.String(), "inner text") || !strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("%s: not logged: %s", name, log)
		}
	}
	fail = func() error {
		f := fault.New(fault.RateLimited, "slow_down", "Too much.")
		f.RetryAfter = 1500 * time.Millisecond
		return f
	}
	if status, _, header, _ := get(t, url+"/x"); status != 429 || header.Get("Retry-After") != "2" {
		t.Errorf("%d %v", status, header)
	}
}

// A half-written answer must not look like a whole one.
func TestFailureAfterTheAnswerBeganCutsTheConnection(t *testing.T) {
	url, _ := serve(t, onePath, httpkit.Handlers{"x": func(w http.ResponseWriter, _ *httpkit.Request) error {
		_, _ = w.Write([]byte(strings.Repeat("x", 10000)))
		_ = http.NewResponseController(w).Flush()
		return errors.New("broken")
	}})
	if _, body, _, err := get(t, url+"/x"); err == nil {
		t.Errorf("looks whole: %d bytes", len(body))
	}
}

func TestParametersReachTheHandler(t *testing.T) {
	doc := `
openapi: 3.1.0
paths:
  /x/{id}:
    post:
      operationId: x
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
        - {name: n, in: query, schema: {type: integer, default: 7}}
        - {name: tag, in: query, schema: {type: array, items: {type: string}}}
        - {name: X-Thing, in: header, schema: {type: boolean}}
      requestBody: {content: {application/json: {schema: {type: object, properties: {a: {type: [integer, "null"]}}}}}}
      responses: {}
`
	type params struct {
		ID    string   `json:"id"`
		N     int      `json:"n"`
		Tag   []string `json:"tag"`
		Thing *bool    `json:"X-Thing"`
	}
	url, _ := serve(t, doc, httpkit.Handlers{"x": func(w http.ResponseWriter, r *httpkit.Request) error {
		var p params
		body := map[string]*int{}
		if err := errors.Join(r.Params(&p), r.Body(&body)); err != nil {
			return err
		}
		a, there := body["a"]
		thing := "-"
		if p.Thing != nil {
			thing = fmt.Sprint(*p.Thing)
		}
		_, err := fmt.Fprintf(w, "%s %d %v %s %v %v %s", p.ID, p.N, p.Tag, thing, there, a != nil, r.Principal.UserID)
		return err
	}})
	for _, c := range []struct{ path, header, body, want string }{
		{"/x/a%2Fb", "", "", "a/b 7 [] - false false u"},
		{"/x/a?n=1&n=2&tag=x&tag=y&other=z", "yes", `{"a":"5","b":1}`, "a 2 [x y] true true true u"},
		{"/x/a", "", `{"a":null}`, "a 7 [] - true false u"},
		{"/x/a", "", `{}`, "a 7 [] - false false u"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", url+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer k")
		if c.header != "" {
			req.Header.Set("X-Thing", c.header)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(raw) != c.want {
			t.Errorf("%s: %q, want %q", c.path, raw, c.want)
		}
	}
}

func TestURLs(t *testing.T) {
	public, err := url.Parse("https://p.example.org/base/")
	if err != nil {
		t.Fatal(err)
	}
	request := func(remote string, header ...string) *http.Request {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host, r.RemoteAddr = "h:1", remote
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return r
	}
	forwarded := []string{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "f:2, other", "X-Forwarded-For", "9.9.9.9, 8.8.8.8"}
	proxy := &httpkit.URLs{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	for _, c := range []struct {
		urls         *httpkit.URLs
		r            *http.Request
		base, client string
	}{
		{&httpkit.URLs{}, request("1.2.3.4:5"), "http://h:1", "1.2.3.4"},
		{&httpkit.URLs{}, request("1.2.3.4:5", forwarded...), "http://h:1", "1.2.3.4"},
		{&httpkit.URLs{}, request("127.0.0.1:5", forwarded...), "https://f:2", "8.8.8.8"},
		{proxy, request("10.1.1.1:5", forwarded...), "https://f:2", "8.8.8.8"},
		{proxy, request("[::ffff:10.1.1.1]:5", forwarded...), "https://f:2", "8.8.8.8"},
		{&httpkit.URLs{Public: public}, request("127.0.0.1:5", forwarded...), "https://p.example.org/base", "8.8.8.8"},
	} {
		if got := c.urls.Base(c.r); got != c.base {
			t.Errorf("base %q, want %q", got, c.base)
		}
		if got := c.urls.Client(c.r); got != c.client {
			t.Errorf("client %q, want %q", got, c.client)
		}
	}
}

// endless hands out items until its context ends.
type endless struct{ item stream.Item }

func (e endless) Next(ctx context.Context) (stream.Item, error) {
	if ctx.Err() != nil {
		return stream.Item{}, context.Cause(ctx)
	}
	return e.item, nil
}

func (endless) After() int64 { return 41 }

// silent never has anything to show.
type silent struct{}

func (silent) Next(ctx context.Context) (stream.Item, error) {
	<-ctx.Done()
	return stream.Item{}, context.Cause(ctx)
}

func (silent) After() int64 { return 41 }

var big = stream.Item{Events: []conversation.Event{{Raw: bytes.Repeat([]byte("x"), 1<<16)}}}

// A client that stops reading is dropped, and its goroutine with it.
func TestSSEDropsAClientThatDoesNotRead(t *testing.T) {
	ended := make(chan error, 1)
	url, _ := serve(t, onePath, httpkit.Handlers{"x": func(w http.ResponseWriter, r *httpkit.Request) error {
		s := &httpkit.SSE{Source: endless{big}, WriteTimeout: 50 * time.Millisecond,
			Encode: func(_ context.Context, i stream.Item) ([]httpkit.Frame, error) {
				return []httpkit.Frame{{ID: "1", Data: i.Events[0].Raw}}, nil
			}}
		err := s.Serve(r.Context(), w)
		ended <- err
		return err
	}})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = conn.Write([]byte("GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the stream goes on")
	}
}

func socketServer(t *testing.T, ctx context.Context, s *httpkit.Socket) (*websocket.Conn, chan error) {
	t.Helper()
	ended := make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			ended <- err
			return
		}
		s.Conn = conn
		ended <- s.Serve(ctx)
	}))
	t.Cleanup(srv.Close)
	conn, _, err := websocket.Dial(t.Context(), srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn, ended
}

func rawFrames(_ context.Context, i stream.Item) ([][]byte, error) {
	return [][]byte{i.Events[0].Raw}, nil
}

func nothing(context.Context, []byte) [][]byte { return nil }

func TestSocketDropsAClientThatDoesNotRead(t *testing.T) {
	_, ended := socketServer(t, t.Context(), &httpkit.Socket{Source: endless{big}, Encode: rawFrames, Receive: nothing,
		WriteTimeout: 50 * time.Millisecond})
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the socket goes on")
	}
}

func TestSocketFindsASilentClientDead(t *testing.T) {
	// A client that never reads answers no ping.
	_, ended := socketServer(t, t.Context(), &httpkit.Socket{Source: silent{}, Encode: rawFrames, Receive: nothing,
		Ping: 10 * time.Millisecond, WriteTimeout: 50 * time.Millisecond})
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the socket goes on")
	}
}

func TestSocketClosesWithTheReason(t *testing.T) {
	for name, c := range map[string]struct {
		cause error
		code  websocket.StatusCode
	}{"draining": {httpkit.ErrDraining, websocket.StatusGoingAway}, "broken": {errors.New("disk"), websocket.StatusInternalError}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		conn, ended := socketServer(t, ctx, &httpkit.Socket{Source: silent{}, Encode: rawFrames, Receive: nothing})
		cancel(c.cause)
		_, _, err := conn.Read(t.Context())
		var closed websocket.CloseError
		if !errors.As(err, &closed) || closed.Code != c.code || !strings.Contains(closed.Reason, "after_seq=41") || strings.Contains(closed.Reason, "disk") {
			t.Errorf("%s: %v", name, err)
		}
		if err := <-ended; (err != nil) != (name == "broken") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStreamsAreBoundedAndDrained(t *testing.T) {
	s := httpkit.NewStreams(1, httpkit.NewMetrics(func() int { return 0 }), nil)
	ctx, leave, err := s.Join(t.Context(), httpkit.Principal{}, "sse", "c")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Join(t.Context(), httpkit.Principal{}, "sse", "c"); !fault.Is(err, fault.RateLimited) {
		t.Errorf("over the limit: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Drain(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drained with an open stream: %v", err)
	}
	if !errors.Is(context.Cause(ctx), httpkit.ErrDraining) {
		t.Errorf("cause %v", context.Cause(ctx))
	}
	leave()
	if err := s.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if _, _, err := s.Join(t.Context(), httpkit.Principal{}, "sse", "c"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("joined while draining: %v", err)
	}
}

// somebodysKeys are the keys that are good.
type somebodysKeys struct {
	good map[account.KeyHash]error // nil = good
}

func (k somebodysKeys) UserByKey(_ context.Context, h account.KeyHash) (account.User, error) {
	return account.User{ID: "u"}, k.good[h]
}

func TestStreamsEndWithTheirKey(t *testing.T) {
	one, two, three := account.HashKey("1"), account.HashKey("2"), account.HashKey("3")
	keys := somebodysKeys{map[account.KeyHash]error{}}
	s := httpkit.NewStreams(0, httpkit.NewMetrics(func() int { return 0 }), keys)
	join := func(key account.KeyHash) context.Context {
		ctx, leave, err := s.Join(t.Context(), httpkit.Principal{UserID: "u", Key: key}, "sse", "c")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(leave)
		return ctx
	}
	streams := map[string]context.Context{"revoked": join(one), "revoked, too": join(one), "good": join(two), "not to be found out": join(three),
		"no user's": join(account.KeyHash{})}
	s.Recheck(t.Context())
	for name, ctx := range streams {
		if ctx.Err() != nil {
			t.Errorf("%s: over while the keys are good: %v", name, context.Cause(ctx))
		}
	}
	keys.good[one] = fault.New(fault.Unauthenticated, "unauthorized", "no")
	keys.good[three] = fault.New(fault.Unavailable, "store", "busy")
	keys.good[account.KeyHash{}] = keys.good[one]
	s.Recheck(t.Context())
	for name, ctx := range streams {
		if over := strings.HasPrefix(name, "revoked"); over != errors.Is(context.Cause(ctx), httpkit.ErrRevoked) {
			t.Errorf("%s: %v", name, context.Cause(ctx))
		}
	}
}

func TestKeysOfOpenStreamsAreLookedUpNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := account.HashKey("1")
		keys := somebodysKeys{map[account.KeyHash]error{}}
		s := httpkit.NewStreams(0, httpkit.NewMetrics(func() int { return 0 }), keys)
		ctx, leave, err := s.Join(t.Context(), httpkit.Principal{UserID: "u", Key: key}, "ws", "c")
		if err != nil {
			t.Fatal(err)
		}
		keys.good[key] = fault.New(fault.Unauthenticated, "unauthorized", "expired")
		watched := make(chan struct{})
		go func() { defer close(watched); s.Watch() }()
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), httpkit.ErrRevoked) {
			t.Errorf("%v", context.Cause(ctx))
		}
		leave()
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		<-watched
	})
}
