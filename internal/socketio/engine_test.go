package socketio_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/internal/socketio"
)

func TestHandshakeTellsHowTheConnectionWorks(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	_, text, header := g.do(within(t), http.MethodGet, "EIO=4&transport=polling&b64=1", "")
	o := decodeOpening(t, text)
	if len(o.SID) < 20 || len(o.Upgrades) != 1 || o.Upgrades[0] != "websocket" ||
		o.PingInterval != 25000 || o.PingTimeout != 20000 || o.MaxPayload != 4194304 {
		t.Errorf("over polling: %s", text)
	}
	if got := header.Get("Content-Type"); got != "text/plain; charset=UTF-8" {
		t.Errorf("content type %q", got)
	}
	w := g.dial("EIO=4&transport=websocket")
	o = decodeOpening(t, w.next())
	if len(o.SID) < 20 || o.Upgrades == nil || len(o.Upgrades) != 0 || o.MaxPayload != 4194304 {
		t.Errorf("over a WebSocket: %+v", o)
	}
}

func TestRequestsThatAreNoneOfTheProtocol(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	p := g.poll("")
	for name, c := range map[string]struct{ method, query, want string }{
		"no version":                       {"GET", "transport=polling", `{"code":5,"message":"Unsupported protocol version"}`},
		"another version":                  {"GET", "EIO=3&transport=polling", `{"code":5,"message":"Unsupported protocol version"}`},
		"no number as version":             {"GET", "EIO=abc&transport=polling", `{"code":5,"message":"Unsupported protocol version"}`},
		"no transport":                     {"GET", "EIO=4", `{"code":0,"message":"Transport unknown"}`},
		"unknown transport":                {"GET", "EIO=4&transport=abc", `{"code":0,"message":"Transport unknown"}`},
		"JSONP":                            {"GET", "EIO=4&transport=polling&j=0", `{"code":0,"message":"Transport unknown"}`},
		"handshake by POST":                {"POST", "EIO=4&transport=polling", `{"code":2,"message":"Bad handshake method"}`},
		"handshake by PUT":                 {"PUT", "EIO=4&transport=polling", `{"code":2,"message":"Bad handshake method"}`},
		"unknown session":                  {"GET", "EIO=4&transport=polling&sid=x", `{"code":1,"message":"Session ID unknown"}`},
		"unknown session by POST":          {"POST", "EIO=4&transport=polling&sid=x", `{"code":1,"message":"Session ID unknown"}`},
		"WebSocket without an upgrade":     {"GET", "EIO=4&transport=websocket", `{"code":3,"message":"Bad request"}`},
		"the transport changed by polling": {"GET", "EIO=4&transport=websocket&sid=" + p.sid, `{"code":3,"message":"Bad request"}`},
		"a session's request by PUT":       {"PUT", p.query, `{"code":2,"message":"Bad handshake method"}`},
	} {
		t.Run(name, func(t *testing.T) {
			status, text, header := g.do(within(t), c.method, c.query, "")
			if status != http.StatusBadRequest || text != c.want || header.Get("Content-Type") != "application/json" {
				t.Errorf("%d %s", status, text)
			}
		})
	}
	p.must("40") // none of them has ended the session
}

func TestWebSocketOfAnUnknownVersionOrSessionIsRefused(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	for _, query := range []string{"transport=websocket", "EIO=abc&transport=websocket", "EIO=4", "EIO=4&transport=websocket&sid=x"} {
		_, answer, err := websocket.Dial(within(t), strings.Replace(g.url, "http", "ws", 1)+"?"+query, nil)
		if err == nil || answer == nil || answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestPacketsThatAreNoneEndTheSession(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	for _, body := range []string{"abc", "", "40\x1e", "2", "9", "4", "4abc", "47", "40[1]", "42", "40\x1e40", "44{}", "4\xff"} {
		t.Run("polling "+body, func(t *testing.T) {
			p := g.poll("")
			if status, text := p.post(body); status != http.StatusBadRequest || text != `{"code":3,"message":"Bad request"}` {
				t.Errorf("%d %s", status, text)
			}
			eventuallyGone(t, p)
		})
	}
	for _, text := range []string{"abc", "", "2", "4abc", "40[1]", `42["message"`, `42{"a":1}`, `42["disconnect"]`, "42[]", "42[null]", `41/other,`,
		`42` + strings.Repeat("[", 200) + strings.Repeat("]", 200), "42" + strings.Repeat("1", 21) + `["a"]`} {
		t.Run("WebSocket "+text, func(t *testing.T) {
			w := g.join()
			w.send(text)
			w.closed()
		})
	}
}

// eventuallyGone waits until a session is unknown: the server may still be about
// to forget it.
func eventuallyGone(t *testing.T, p *polled) {
	t.Helper()
	eventually(t, "the session is unknown", func() bool {
		status, text := p.get()
		return status == http.StatusBadRequest && strings.HasPrefix(text, `{"code":1,`)
	})
}

func TestTwoPollsAtATimeEndTheSession(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	p := g.poll("")
	first := make(chan string, 1)
	go func() {
		_, text := p.get()
		first <- text
	}()
	// Which of the two comes first is not known, but it is answered with a close.
	status, second := p.get()
	one := <-first
	closed, refused := one, second
	if status == http.StatusOK {
		closed, refused = second, one
	}
	if closed != "1" || refused != `{"code":3,"message":"Bad request"}` {
		t.Errorf("%q and %q", closed, refused)
	}
	eventuallyGone(t, p)
}

func TestTwoPostsAtATimeEndTheSession(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	p := g.poll("")
	body, write := io.Pipe()
	slow, err := http.NewRequestWithContext(within(t), http.MethodPost, g.url+"?"+p.query, body)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan int, 1)
	go func() {
		answer, err := g.http.Do(slow)
		if err != nil {
			done <- 0
			return
		}
		_ = answer.Body.Close()
		done <- answer.StatusCode
	}()
	if _, err := write.Write([]byte("40")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second POST is refused", func() bool {
		status, _ := p.post("3")
		return status == http.StatusBadRequest
	})
	_ = write.Close()
	if status := <-done; status == http.StatusOK {
		t.Error("the first POST was taken")
	}
	eventuallyGone(t, p)
}

func TestAPollThatIsGivenUpEndsTheSession(t *testing.T) { // not parallel: it looks at what runs
	g := start(t, socketio.Config{})
	p := g.poll("")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.do(ctx, http.MethodGet, p.query, "")
	}()
	eventually(t, "the poll waits", func() bool { return strings.Contains(stacks(), "socketio.(*session).poll(") })
	cancel()
	<-ended
	eventually(t, "the session is unknown", func() bool { status, _ := p.post("3"); return status == http.StatusBadRequest })
}

func TestTooMuchForOnePayload(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{MaxPayload: 1000})
	t.Run("POST", func(t *testing.T) {
		p := g.poll("")
		if status, text := p.post(strings.Repeat("4", 1001)); status != http.StatusRequestEntityTooLarge {
			t.Errorf("%d %s", status, text)
		}
		eventuallyGone(t, p)
	})
	t.Run("WebSocket", func(t *testing.T) {
		w := g.join()
		w.send(`42["a","` + strings.Repeat("x", 991) + `"]`) // 1001 bytes
		w.closed()
	})
	t.Run("as much as there may be", func(t *testing.T) {
		w := g.join()
		w.send(`42["a","` + strings.Repeat("x", 990) + `"]`)
		w.wantPrefix(`42["a-back",["xxx`)
	})
	t.Run("packets", func(t *testing.T) {
		g := start(t, socketio.Config{})
		p := g.poll("")
		p.must("40")
		p.packets(1)
		if status, _ := p.post(strings.Repeat("3\x1e", 1<<16) + "3"); status != http.StatusBadRequest {
			t.Errorf("%d", status)
		}
	})
	t.Run("binary body", func(t *testing.T) {
		p := g.poll("")
		answer, err := g.http.Post(g.url+"?"+p.query, "application/octet-stream", strings.NewReader("40"))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%d", answer.StatusCode)
		}
	})
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{PingInterval: 30 * time.Millisecond, PingTimeout: 5 * time.Second})
	t.Run("polling", func(t *testing.T) {
		t.Parallel()
		p := g.poll("")
		for range 3 {
			if status, text := p.get(); status != http.StatusOK || text != "2" {
				t.Fatalf("%d %q", status, text)
			}
			p.must("3")
		}
	})
	t.Run("WebSocket", func(t *testing.T) {
		t.Parallel()
		w := g.dial("EIO=4&transport=websocket")
		decodeOpening(t, w.next())
		for range 3 {
			if _, data, err := w.conn.Read(within(t)); err != nil || string(data) != "2" {
				t.Fatalf("%q %v", data, err)
			}
			w.send("3")
		}
	})
}

func TestAClientWithoutASignOfLifeIsDropped(t *testing.T) {
	t.Parallel()
	gone := make(chan error, 2)
	g := start(t, socketio.Config{PingInterval: 30 * time.Millisecond, PingTimeout: 60 * time.Millisecond,
		Serve: func(ctx context.Context, s *socketio.Socket) error {
			if err := s.Accept(ctx); err != nil {
				return err
			}
			<-ctx.Done()
			gone <- context.Cause(ctx)
			return nil
		}})
	t.Run("polling", func(t *testing.T) {
		p := g.poll("")
		p.must("40")
		if err := <-gone; !errors.Is(err, socketio.ErrGone) {
			t.Error(err)
		}
		eventuallyGone(t, p)
	})
	t.Run("WebSocket", func(t *testing.T) {
		w := g.wire("")
		w.send("40")
		w.closed() // answers no ping
		if err := <-gone; !errors.Is(err, socketio.ErrGone) {
			t.Error(err)
		}
	})
}

func TestAClientThatServeKeepsWaitingIsNotDropped(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{PingInterval: 20 * time.Millisecond, PingTimeout: 40 * time.Millisecond, MaxQueued: 1,
		Serve: func(ctx context.Context, s *socketio.Socket) error {
			if err := s.Accept(ctx); err != nil {
				return err
			}
			select { // many ping times, in which the client's packets are not read
			case <-time.After(400 * time.Millisecond):
			case <-ctx.Done():
				t.Error("dropped: ", context.Cause(ctx))
			}
			for range 3 {
				if _, err := s.Receive(ctx); err != nil {
					return err
				}
			}
			return s.Emit(ctx, "all", nil)
		}})
	w := g.wire("")
	w.send("40")
	w.wantPrefix("40")
	for range 3 {
		w.send(`42["a"]`)
	}
	w.want(`42["all"]`)
}

func TestASessionThatDoesNotConnectIsDropped(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{ConnectTimeout: 50 * time.Millisecond})
	w := g.wire("")
	p := g.poll("")
	w.closed()
	eventuallyGone(t, p)
	after := g.poll("")
	after.must("40", "41") // and one that has left the namespace
	eventuallyGone(t, after)
}

func TestAClientClosesItsSession(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	t.Run("over polling, with a poll under way", func(t *testing.T) {
		p := g.poll("")
		type answer struct {
			status int
			text   string
		}
		polled := make(chan answer, 1)
		go func() {
			status, text := p.get()
			polled <- answer{status, text}
		}()
		// The poll may come before or after the close: both find a last packet.
		p.must("1")
		if a := <-polled; a.status != http.StatusOK || a.text != "6" {
			t.Errorf("%d %q", a.status, a.text)
		}
		eventuallyGone(t, p)
	})
	t.Run("over polling, with a poll after it", func(t *testing.T) {
		p := g.poll("")
		p.must("1")
		if status, text := p.get(); status != http.StatusOK || text != "6" {
			t.Errorf("%d %q", status, text)
		}
		p.gone()
	})
	t.Run("over a WebSocket", func(t *testing.T) {
		w := g.wire("")
		w.send("1")
		w.closed()
	})
}

func TestUpgrade(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	t.Run("keeps the order and loses nothing", func(t *testing.T) {
		p := g.poll("")
		p.must("40")
		p.packets(2) // the acceptance and auth
		w := g.dial("EIO=4&transport=websocket&sid=" + p.sid)
		w.send("2probe")
		w.want("3probe")
		if status, text := p.get(); status != http.StatusOK || text != "6" {
			t.Fatalf("a poll while probing: %d %q", status, text)
		}
		p.must(`42["one"]`) // its answer finds no poll
		w.send("5")
		w.want(`42["one-back",[]]`)
		w.send(`42["two"]`)
		w.want(`42["two-back",[]]`)
		if status, text := p.get(); status != http.StatusBadRequest || text != `{"code":3,"message":"Bad request"}` {
			t.Errorf("a poll after the upgrade: %d %s", status, text)
		}
		if status, _ := p.post("3"); status != http.StatusBadRequest {
			t.Errorf("a POST after the upgrade: %d", status)
		}
		again := g.dial("EIO=4&transport=websocket&sid=" + p.sid)
		if got := again.closed(); len(got) > 0 {
			t.Errorf("a second WebSocket was sent %q", got)
		}
		w.send(`42["three"]`)
		w.want(`42["three-back",[]]`)
	})
	t.Run("of a WebSocket's session is closed", func(t *testing.T) {
		w := g.dial("EIO=4&transport=websocket")
		o := decodeOpening(t, w.next())
		g.dial("EIO=4&transport=websocket&sid=" + o.SID).closed()
		w.send("40")
		w.wantPrefix("40")
	})
	t.Run("twice at a time: the second is closed", func(t *testing.T) {
		p := g.poll("")
		w := g.dial("EIO=4&transport=websocket&sid=" + p.sid)
		w.send("2probe")
		w.want("3probe")
		g.dial("EIO=4&transport=websocket&sid=" + p.sid).closed()
		w.send("5")
		w.send("40")
		w.wantPrefix("40")
	})
	t.Run("that fails leaves polling as it was", func(t *testing.T) {
		p := g.poll("")
		for _, packet := range []string{"2", "5", "40", "3probe"} {
			w := g.dial("EIO=4&transport=websocket&sid=" + p.sid)
			w.send(packet)
			w.closed()
		}
		w := g.dial("EIO=4&transport=websocket&sid=" + p.sid)
		w.send("2probe")
		w.want("3probe")
		_ = w.conn.CloseNow()
		p.must("40")
		got := p.packets(2)
		for len(got) > 0 && got[0] == "6" { // of the probe
			got = append(got[1:], p.packets(1)...)
		}
		if !strings.HasPrefix(got[0], "40{") || got[1] != `42["auth",{}]` {
			t.Errorf("%q", got)
		}
		eventually(t, "the next upgrade is possible", func() bool {
			w := g.dial("EIO=4&transport=websocket&sid=" + p.sid)
			if err := w.conn.Write(within(t), websocket.MessageText, []byte("2probe")); err != nil {
				return false
			}
			_, data, err := w.conn.Read(within(t))
			return err == nil && string(data) == "3probe"
		})
	})
}

func TestAnUpgradeThatDoesNotEndIsGivenUp(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{UpgradeTimeout: 50 * time.Millisecond})
	p := g.poll("")
	w := g.dial("EIO=4&transport=websocket&sid=" + p.sid)
	w.send("2probe")
	w.want("3probe")
	w.closed()
	p.must("40")
	eventually(t, "polling goes on", func() bool { return strings.HasPrefix(p.packets(1)[0], "40") })
}

func TestManyPollsWhileProbingDoNotSpin(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	p := g.poll("")
	w := g.dial("EIO=4&transport=websocket&sid=" + p.sid)
	w.send("2probe")
	w.want("3probe")
	polls := 0
	for begin := time.Now(); time.Since(begin) < 300*time.Millisecond; polls++ {
		if _, text := p.get(); text != "6" {
			t.Fatal(text)
		}
	}
	if polls > 10 {
		t.Errorf("%d polls in 300 ms", polls)
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	open := start(t, socketio.Config{})
	strict := start(t, socketio.Config{AllowOrigin: func(r *http.Request) bool { return r.Header.Get("Origin") == "http://good" }})
	ask := func(g *rig, method, origin string) *http.Response {
		r, err := http.NewRequestWithContext(within(t), method, g.url+"?EIO=4&transport=polling", nil)
		if err != nil {
			t.Fatal(err)
		}
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		r.Header.Set("Access-Control-Request-Headers", "x-custom")
		answer, err := g.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer
	}
	a := ask(open, http.MethodGet, "http://any.example")
	if a.StatusCode != http.StatusOK || a.Header.Get("Access-Control-Allow-Origin") != "http://any.example" ||
		a.Header.Get("Access-Control-Allow-Credentials") != "true" || a.Header.Get("Vary") != "Origin" {
		t.Errorf("any origin: %v", a.Header)
	}
	if a := ask(open, http.MethodGet, ""); a.StatusCode != http.StatusOK || a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("no origin: %v", a.Header)
	}
	a = ask(open, http.MethodOptions, "http://any.example")
	if a.StatusCode != http.StatusNoContent || a.Header.Get("Access-Control-Allow-Headers") != "x-custom" ||
		a.Header.Get("Access-Control-Allow-Methods") != "GET, POST, OPTIONS" {
		t.Errorf("preflight: %d %v", a.StatusCode, a.Header)
	}
	if a := ask(strict, http.MethodGet, "http://good"); a.StatusCode != http.StatusOK {
		t.Errorf("allowed origin: %d", a.StatusCode)
	}
	if a := ask(strict, http.MethodGet, "http://evil"); a.StatusCode != http.StatusForbidden || a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("other origin: %d %v", a.StatusCode, a.Header)
	}
	header := http.Header{"Origin": {"http://evil"}}
	_, answer, err := websocket.Dial(within(t), strings.Replace(strict.url, "http", "ws", 1)+"?EIO=4&transport=websocket", &websocket.DialOptions{HTTPHeader: header})
	if err == nil || answer.StatusCode != http.StatusForbidden {
		t.Errorf("a WebSocket of another origin: %v", err)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{MaxSessions: 2})
	p := g.poll("")
	w := g.join()
	v := g.join() // p is not connected to the namespace: it has to go
	eventuallyGone(t, p)
	for _, transport := range []string{"polling", "websocket"} {
		query := "EIO=4&transport=" + transport
		r, err := http.NewRequestWithContext(within(t), http.MethodGet, g.url+"?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		if transport == "websocket" {
			r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
		}
		answer, err := g.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d", transport, answer.StatusCode)
		}
	}
	w.send("1")
	w.closed()
	eventually(t, "there is room again", func() bool { return g.server.Sessions() == 1 })
	g.join()
	v.send(`42["still here"]`)
	v.want(`42["still here-back",[]]`)
}

func TestAStrangerMayNotSayMuch(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	long := `{"token":"` + strings.Repeat("x", 64<<10) + `"}`
	w := g.wire("")
	w.send("40" + long)
	w.closed()
	p := g.poll("")
	if status, _ := p.post(`42["a",` + long + `]`); status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d", status)
	}
	g.join().send(`42["a",` + long + `]`) // one who is let in may
}

// TestAStrangersMessageIsNotKept: a message that is too long for a stranger ends the
// connection before all of it is there, and is not held in memory until then.
func TestAStrangersMessageIsNotKept(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	w := g.wire("")
	part, err := w.conn.Writer(within(t), websocket.MessageText)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write([]byte(strings.Repeat("4", 80<<10))) // an error says that it has been cut off already
	w.closed()

	reader, writer := io.Pipe()
	defer func() { _ = writer.Close() }()
	go func() { _, _ = writer.Write([]byte(strings.Repeat("4", 80<<10))) }()
	r, err := http.NewRequestWithContext(within(t), http.MethodPost, g.url+"?"+g.poll("").query, reader)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := g.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%d", answer.StatusCode)
	}
}

// A message takes longer than the pings' time-outs, both ways.
func TestASlowLineIsASignOfLife(t *testing.T) {
	t.Parallel()
	const pause = 60 * time.Millisecond
	g := start(t, socketio.Config{PingInterval: 40 * time.Millisecond, PingTimeout: time.Second})
	t.Run("a WebSocket's message in parts", func(t *testing.T) {
		t.Parallel()
		w := g.join()
		writer, err := w.conn.Writer(within(t), websocket.MessageText)
		if err != nil {
			t.Fatal(err)
		}
		part := strings.Repeat("x", 8<<10) // more than the library keeps
		for i := range 40 {
			text := part
			if i == 0 {
				text = `42["slow","` + part
			}
			if _, err := writer.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(pause)
		}
		if _, err := writer.Write([]byte(`"]`)); err != nil {
			t.Fatal(err)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		w.want(`42["slow-back",["` + strings.Repeat(part, 40) + `"]]`)
	})
	t.Run("a message that the client takes slowly", func(t *testing.T) {
		t.Parallel()
		large := json.RawMessage(`"` + strings.Repeat("x", 32<<20) + `"`) // more than the system's sockets keep
		g := start(t, socketio.Config{PingInterval: 40 * time.Millisecond, PingTimeout: time.Second, Serve: func(ctx context.Context, s *socketio.Socket) error {
			if err := s.Accept(ctx); err != nil {
				return err
			}
			if err := s.Emit(ctx, "large", large); err != nil {
				return err
			}
			return echo(ctx, s)
		}})
		w := g.wire("")
		w.send("40")
		w.wantPrefix("40")
		for size := 0; size < 32<<20; { // pings may come before
			_, reader, err := w.conn.Reader(within(t))
			if err != nil {
				t.Fatal(err)
			}
			size = 0
			for buf := make([]byte, 256<<10); err == nil; {
				var n int
				n, err = io.ReadFull(reader, buf)
				if size += n; size > len(buf) {
					time.Sleep(15 * time.Millisecond)
				}
			}
			if size < len(`42["large"`) {
				w.send("3")
			}
		}
		w.want(`42["auth",{}]`)
		w.send(`42["there"]`)
		w.want(`42["there-back",[]]`)
	})
	t.Run("a POST in parts", func(t *testing.T) {
		t.Parallel()
		p := g.poll("")
		body, write := io.Pipe()
		go func() {
			for _, part := range strings.Split("40\x1e42[\"slow\",\""+strings.Repeat("x", 20)+"\"]", "") {
				if _, err := write.Write([]byte(part)); err != nil {
					return
				}
				time.Sleep(pause)
			}
			_ = write.Close()
		}()
		answer, err := g.http.Post(g.url+"?"+p.query, "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%d", answer.StatusCode)
		}
	})
}

func TestAWebSocketThatIsNoneIsNoSession(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	r, err := http.NewRequestWithContext(within(t), http.MethodGet, g.url+"?EIO=4&transport=websocket", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"8"}}
	answer, err := g.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode < 400 || g.server.Sessions() != 0 {
		t.Errorf("%d, %d sessions", answer.StatusCode, g.server.Sessions())
	}
}

// A client may send a POST's head and never its body, or take a poll's answer
// never: Close does not wait for it longer than for a bound time.
func TestCloseEndsEverySession(t *testing.T) { // not parallel: it looks at what runs
	ended := make(chan error, 8)
	server := socketio.Config{Serve: func(ctx context.Context, s *socketio.Socket) error {
		if err := s.Accept(ctx); err != nil {
			return err
		}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return ctx.Err()
	}}
	g := start(t, server)
	w := g.wire("")
	w.send("40")
	w.wantPrefix("40")
	p := g.poll("")
	p.must("40")
	p.packets(1)
	last := make(chan string, 1)
	go func() {
		_, text := p.get()
		last <- text
	}()
	probing := g.poll("")
	probe := g.dial("EIO=4&transport=websocket&sid=" + probing.sid)
	probe.send("2probe")
	probe.want("3probe")
	eventually(t, "the poll waits", func() bool { return strings.Contains(stacks(), "socketio.(*session).poll(") })
	if err := g.server.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	if got := w.closed(); len(got) > 0 {
		t.Errorf("sent before the close, and a disconnect keeps clients from coming back: %q", got)
	}
	probe.closed()
	if text := <-last; text != "1" {
		t.Errorf("the poll got %q", text)
	}
	for range 2 {
		if err := <-ended; !errors.Is(err, socketio.ErrServerClosed) {
			t.Errorf("ended with %v", err)
		}
	}
	if status, text, _ := g.do(within(t), http.MethodGet, "EIO=4&transport=polling", ""); status != http.StatusServiceUnavailable {
		t.Errorf("a handshake after Close: %d %s", status, text)
	}
	if err := g.server.Close(within(t)); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

func TestCloseDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	release, served := make(chan struct{}), make(chan struct{})
	server := socketio.New(socketio.Config{Serve: func(context.Context, *socketio.Socket) error {
		close(served)
		<-release
		return nil
	}})
	t.Cleanup(func() {
		close(release)
		if err := server.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	g := &rig{t: t, server: server, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, url: serve(t, server)}
	w := g.wire("")
	w.send("40")
	<-served
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("too late"))
	defer cancel()
	if err := server.Close(ctx); err == nil || err.Error() != "too late" {
		t.Errorf("%v", err)
	}
}

// serve serves a handler on a raw listener of the test's.
func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: patience}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return "http://" + listener.Addr().String() + "/socket.io/"
}

// The deadlines of one request must not outlive it: connections are used again.
func TestOneConnectionServesManyPolls(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{WriteTimeout: 50 * time.Millisecond, PingInterval: 120 * time.Millisecond})
	at, err := url.Parse(g.url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	ask := func(method, query, body string) string {
		r, err := http.NewRequest(method, g.url+"?"+query, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Write(conn); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(reader, r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	o := decodeOpening(t, ask("GET", "EIO=4&transport=polling", ""))
	query := "EIO=4&transport=polling&sid=" + o.SID
	for range 4 {
		if text := ask("GET", query, ""); text != "2" { // waits longer than WriteTimeout
			t.Fatal(text)
		}
		if text := ask("POST", query, "3"); text != "ok" {
			t.Fatal(text)
		}
	}
}

// flushed calls a function when an answer has been sent and its handler goes on.
type flushed struct {
	http.ResponseWriter
	then func()
}

func (f *flushed) Flush() {
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	f.then()
}

// A client polls again as soon as it has an answer, also over another connection
// and while the server is not done with the first.
func TestTheNextPollMayFollowAtOnce(t *testing.T) {
	t.Parallel()
	server := socketio.New(socketio.Config{Serve: echo})
	g := &rig{t: t, server: server, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	var then atomic.Pointer[func()]
	g.url = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.ServeHTTP(&flushed{w, func() {
			if f := then.Swap(nil); f != nil {
				(*f)()
			}
		}}, r)
	}))
	t.Cleanup(func() { _ = server.Close(context.Background()) })
	p := g.poll("")
	answered := make(chan struct{})
	next := func() {
		defer close(answered)
		p.must(`42["a"]`)
		if got := p.packets(1); got[0] != `42["a-back",[]]` {
			t.Errorf("%q", got)
		}
	}
	p.must("40")
	then.Store(&next)
	p.packets(1)
	<-answered
	p.must("3")
}
