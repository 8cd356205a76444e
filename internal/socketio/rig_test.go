package socketio_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"parley/internal/socketio"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// rig is a server on a real socket.
type rig struct {
	t      *testing.T
	server *socketio.Server
	url    string // of the path, without a query
	http   *http.Client
}

// start serves config until the test ends.
func start(t *testing.T, config socketio.Config) *rig {
	t.Helper()
	if config.Serve == nil {
		config.Serve = echo
	}
	config.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	server := socketio.New(config)
	listener := httptest.NewServer(server)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := server.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if n := server.Sessions(); n != 0 {
			t.Errorf("%d sessions after Close", n)
		}
		client.CloseIdleConnections()
		listener.Close()
	})
	return &rig{t: t, server: server, url: listener.URL + "/base/socket.io/", http: client}
}

// TestMain checks at the end that every goroutine of every test has been joined.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// echo accepts, tells what it was given to be let in, and sends back what it gets.
func echo(ctx context.Context, s *socketio.Socket) error {
	if err := s.Accept(ctx); err != nil {
		return err
	}
	auth := s.Auth()
	if auth == nil {
		auth = json.RawMessage("{}")
	}
	if err := s.Emit(ctx, "auth", auth); err != nil {
		return err
	}
	for {
		e, err := s.Receive(ctx)
		if err != nil {
			return err
		}
		args, err := json.Marshal(e.Args)
		if err != nil {
			return err
		}
		if err := s.Emit(ctx, e.Name+"-back", args); err != nil {
			return err
		}
	}
}

// do sends a request and returns its status and body.
func (g *rig) do(ctx context.Context, method, query, body string) (status int, text string, header http.Header) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, g.url+"?"+query, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "text/plain;charset=UTF-8")
	}
	answer, err := g.http.Do(r)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error(), nil
	}
	return answer.StatusCode, string(data), answer.Header
}

// within is a context for what must not take long.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// polled is a session over long-polling.
type polled struct {
	*rig
	query string
	sid   string
}

type opening struct {
	SID          string   `json:"sid"`
	Upgrades     []string `json:"upgrades"`
	PingInterval int      `json:"pingInterval"`
	PingTimeout  int      `json:"pingTimeout"`
	MaxPayload   int      `json:"maxPayload"`
}

func decodeOpening(t *testing.T, text string) opening {
	t.Helper()
	rest, ok := strings.CutPrefix(text, "0")
	if !ok {
		t.Fatalf("the first packet is %q, not one that opens", text)
	}
	decoder := json.NewDecoder(strings.NewReader(rest))
	decoder.DisallowUnknownFields()
	var o opening
	if err := decoder.Decode(&o); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return o
}

// poll opens a session; extra is added to its query.
func (g *rig) poll(extra string) *polled {
	g.t.Helper()
	status, text, _ := g.do(within(g.t), http.MethodGet, "EIO=4&transport=polling&t=abc"+extra, "")
	if status != http.StatusOK {
		g.t.Fatalf("handshake: %d %s", status, text)
	}
	o := decodeOpening(g.t, text)
	return &polled{rig: g, sid: o.SID, query: "EIO=4&transport=polling&t=def&sid=" + url.QueryEscape(o.SID)}
}

func (p *polled) get() (int, string) {
	status, text, _ := p.do(within(p.t), http.MethodGet, p.query, "")
	return status, text
}

func (p *polled) post(body string) (int, string) {
	status, text, _ := p.do(within(p.t), http.MethodPost, p.query, body)
	return status, text
}

// packets polls until there are n packets.
func (p *polled) packets(n int) []string {
	p.t.Helper()
	var all []string
	for len(all) < n {
		status, text := p.get()
		if status != http.StatusOK {
			p.t.Fatalf("poll: %d %s after %q", status, text, all)
		}
		for packet := range strings.SplitSeq(text, "\x1e") {
			if packet == "2" {
				p.must("3")
				continue
			}
			all = append(all, packet)
		}
	}
	return all
}

// must posts packets that are taken.
func (p *polled) must(packets ...string) {
	p.t.Helper()
	if status, text := p.post(strings.Join(packets, "\x1e")); status != http.StatusOK || text != "ok" {
		p.t.Fatalf("post %q: %d %s", packets, status, text)
	}
}

// gone checks that the server knows the session no longer.
func (p *polled) gone() {
	p.t.Helper()
	status, text := p.get()
	if status != http.StatusBadRequest || text != `{"code":1,"message":"Session ID unknown"}` {
		p.t.Errorf("poll of a session that is over: %d %s", status, text)
	}
}

// wired is a session over a WebSocket.
type wired struct {
	*rig
	conn *websocket.Conn
}

func (g *rig) dial(query string) *wired {
	g.t.Helper()
	conn, answer, err := websocket.Dial(within(g.t), strings.Replace(g.url, "http", "ws", 1)+"?"+query, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	if answer.Body != nil {
		_ = answer.Body.Close()
	}
	conn.SetReadLimit(64 << 20)
	g.t.Cleanup(func() { _ = conn.CloseNow() })
	return &wired{rig: g, conn: conn}
}

// wire opens a session; extra is added to its query.
func (g *rig) wire(extra string) *wired {
	g.t.Helper()
	w := g.dial("EIO=4&transport=websocket" + extra)
	decodeOpening(g.t, w.next())
	return w
}

// join opens a session and connects to the namespace of echo.
func (g *rig) join() *wired {
	g.t.Helper()
	w := g.wire("")
	w.send("40")
	w.wantPrefix(`40{"sid":"`)
	w.want(`42["auth",{}]`)
	return w
}

func (w *wired) send(text string) {
	w.t.Helper()
	if err := w.conn.Write(within(w.t), websocket.MessageText, []byte(text)); err != nil {
		w.t.Fatalf("send %.80q: %v", text, err)
	}
}

// next returns the next packet, pings answered and left out.
func (w *wired) next() string {
	w.t.Helper()
	for {
		kind, data, err := w.conn.Read(within(w.t))
		if err != nil {
			w.t.Fatalf("read: %v", err)
		}
		if kind != websocket.MessageText {
			w.t.Fatalf("a binary message: %q", data)
		}
		if !bytes.Equal(data, []byte("2")) {
			return string(data)
		}
		w.send("3")
	}
}

func (w *wired) want(text string) {
	w.t.Helper()
	if got := w.next(); got != text {
		w.t.Fatalf("got %.200q, want %.200q", got, text)
	}
}

func (w *wired) wantPrefix(text string) {
	w.t.Helper()
	if got := w.next(); !strings.HasPrefix(got, text) {
		w.t.Fatalf("got %.200q, want it to begin with %q", got, text)
	}
}

// closed checks that the server closes the WebSocket, and returns what it sent
// before.
func (w *wired) closed() []string {
	w.t.Helper()
	ctx := within(w.t)
	var before []string
	for {
		_, data, err := w.conn.Read(ctx)
		if ctx.Err() != nil {
			w.t.Fatal("the server does not close the WebSocket")
		}
		if err != nil {
			return before
		}
		before = append(before, string(data))
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
