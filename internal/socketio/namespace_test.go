package socketio_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/socketio"
)

func TestConnectToTheNamespace(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	for packet, auth := range map[string]string{"40": "{}", `40{"token":"123"}`: `{"token":"123"}`, "40/,": "{}"} {
		w := g.dial("EIO=4&transport=websocket")
		o := decodeOpening(t, w.next())
		w.send(packet)
		accepted := w.next()
		var handshake map[string]string
		if err := json.Unmarshal([]byte(strings.TrimPrefix(accepted, "40")), &handshake); err != nil || len(handshake) != 1 || len(handshake["sid"]) < 20 {
			t.Errorf("%s: %s", packet, accepted)
		}
		if handshake["sid"] == o.SID {
			t.Error("the connection's id, which is a secret, is the socket's")
		}
		w.want(`42["auth",` + auth + `]`)
	}
	p := g.poll("")
	p.must("40")
	if got := p.packets(2); !strings.HasPrefix(got[0], `40{"sid":"`) || got[1] != `42["auth",{}]` {
		t.Errorf("over polling: %q", got)
	}
}

func TestOtherNamespacesDoNotExist(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	w := g.wire("")
	w.send("40/random,")
	w.want(`44/random,{"message":"Invalid namespace"}`)
	w.send(`40/random`)
	w.want(`44/random,{"message":"Invalid namespace"}`)
	w.send("40") // the connection is still of use
	w.wantPrefix("40{")
	w.want(`42["auth",{}]`)
	w.send("40/" + strings.Repeat("x", 300) + ",")
	w.closed()
}

func TestRefusalComesInPlaceOfTheAcceptance(t *testing.T) {
	t.Parallel()
	serve := func(_ context.Context, s *socketio.Socket) error {
		switch s.Query().Get("as") {
		case "data":
			return &socketio.Refusal{Message: "Settings not found", Data: map[string]string{"msg_id": "CONFIGURATION$SETTINGS_NOT_FOUND"}}
		case "wrapped":
			return fmt.Errorf("why: %w", &socketio.Refusal{Message: "no"})
		case "broken":
			return &socketio.Refusal{Message: "no", Data: func() {}}
		case "error":
			return errors.New("secret")
		case "panic":
			panic("secret")
		}
		return nil
	}
	g := start(t, socketio.Config{Serve: serve})
	for as, want := range map[string][]string{
		"data":    {`44{"message":"Settings not found","data":{"msg_id":"CONFIGURATION$SETTINGS_NOT_FOUND"}}`},
		"wrapped": {`44{"message":"no"}`},
		"nil":     {`44{"message":"Not connected"}`},
		"broken":  nil,
		"error":   nil,
		"panic":   nil,
	} {
		t.Run(as, func(t *testing.T) {
			w := g.wire("&as=" + as)
			w.send("40")
			if got := w.closed(); strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("over a WebSocket: %q", got)
			}
			p := g.poll("&as=" + as)
			p.must("40")
			for _, want := range append(want, "1") { // each with a poll of its own
				if _, text := p.get(); text != want {
					t.Errorf("over polling: %q, want %q", text, want)
				}
			}
			eventuallyGone(t, p)
		})
	}
}

func TestTheServerDisconnects(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{Serve: func(ctx context.Context, s *socketio.Socket) error {
		if err := s.Accept(ctx); err != nil {
			return err
		}
		if err := s.Emit(ctx, "last", json.RawMessage(`1`)); err != nil {
			return err
		}
		if s.Query().Has("fail") {
			return errors.New("failed")
		}
		return nil
	}})
	for query, last := range map[string]string{"": "41", "&fail": ""} {
		w := g.wire(query)
		w.send("40")
		w.wantPrefix("40")
		w.want(`42["last",1]`)
		if got := strings.Join(w.closed(), " "); got != last {
			t.Errorf("%q over a WebSocket: %q", query, got)
		}
		p := g.poll(query)
		p.must("40")
		// No poll is under way when the server disconnects: the next one is told.
		var all []string
		for len(all) == 0 || all[len(all)-1] != "1" {
			payload := p.mustGet()
			if strings.Contains(payload, "\x1e1") {
				t.Errorf("%q: the official client loses what comes with a close", payload)
			}
			all = append(all, strings.Split(payload, "\x1e")...)
		}
		got := strings.Join(all, " ")
		if _, rest, _ := strings.Cut(got, "} "); rest != strings.Join(strings.Fields(`42["last",1] `+last+" 1"), " ") {
			t.Errorf("%q over polling: %q", query, got)
		}
		// The client may close the session at the same time: that is no error.
		if status, text := p.post("1"); status != http.StatusOK || text != "ok" {
			t.Errorf("the client's close met the server's: %d %s", status, text)
		}
		eventuallyGone(t, p)
	}
}

func TestADisconnectThatNobodyFetchesIsForgotten(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{PingTimeout: 50 * time.Millisecond, Serve: func(ctx context.Context, s *socketio.Socket) error { return s.Accept(ctx) }})
	p := g.poll("")
	p.must("40")
	eventually(t, "the session is over", func() bool { return g.server.Sessions() == 0 })
	p.gone()
}

func TestADisconnectDuringAnUpgradeIsDelivered(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{})
	g := start(t, socketio.Config{Serve: func(ctx context.Context, s *socketio.Socket) error {
		if err := s.Accept(ctx); err != nil {
			return err
		}
		<-leave
		return nil
	}})
	p := g.poll("")
	p.must("40")
	p.packets(1)
	w := g.dial("EIO=4&transport=websocket&sid=" + p.sid)
	w.send("2probe")
	w.want("3probe")
	close(leave)
	w.send("5")
	if got := w.closed(); len(got) != 1 || got[0] != "41" {
		t.Errorf("%q", got)
	}
}

func TestTheClientLeavesTheNamespace(t *testing.T) {
	t.Parallel()
	left := make(chan error, 2)
	g := start(t, socketio.Config{Serve: func(ctx context.Context, s *socketio.Socket) error {
		err := echo(ctx, s)
		left <- err
		if emit := s.Emit(context.WithoutCancel(ctx), "late", nil); !errors.Is(emit, socketio.ErrGone) {
			t.Errorf("emit to a client that left: %v", emit)
		}
		if ctx.Err() == nil || !errors.Is(context.Cause(ctx), socketio.ErrGone) {
			t.Errorf("the context's cause is %v", context.Cause(ctx))
		}
		return err
	}})
	w := g.join()
	w.send("41")
	if err := <-left; !errors.Is(err, socketio.ErrGone) {
		t.Errorf("received %v", err)
	}
	w.send(`42["dropped"]`) // nobody is there
	w.send("40")            // the connection lives on, and may be used again
	w.wantPrefix("40{")
	w.want(`42["auth",{}]`)
	w.send("41")
	if err := <-left; !errors.Is(err, socketio.ErrGone) {
		t.Errorf("received %v", err)
	}
}

func TestEventsReachServeInOrder(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	w := g.join()
	w.send(`42["message",1,"2",{"3":[true]}]`)
	w.want(`42["message-back",[1,"2",{"3":[true]}]]`)
	w.send(`42/,["message"]`)
	w.want(`42["message-back",[]]`)
	w.send(`43[]`) // an acknowledgement that nobody has asked for
	p := g.poll("")
	p.must("40", `42["dropped before it is accepted"]`)
	p.packets(2)
	p.must(`42["a"]`, `42["b",{"text":"caf\u00e9 ☕"}]`, `42["c",null]`)
	if got := strings.Join(p.packets(3), " "); got != `42["a-back",[]] 42["b-back",[{"text":"caf\u00e9 ☕"}]] 42["c-back",[null]]` {
		t.Errorf("%s", got)
	}
}

func TestAnAcknowledgementIsEmpty(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	w := g.join()
	w.send(`42456["message",1]`)
	w.want(`43456[]`)
	w.want(`42["message-back",[1]]`)
}

func TestBinaryIsRefused(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	for _, packet := range []string{`451-["message",{"_placeholder":true,"num":0}]`, `461-1[]`, "bAQID"} {
		w := g.join()
		w.send(packet)
		w.send(`42["ignored"]`)
		if got := w.closed(); len(got) != 1 || got[0] != "41" {
			t.Errorf("%s: %q", packet, got)
		}
		p := g.poll("")
		p.must("40")
		p.packets(2)
		p.must(packet, "bAQID")
		if got := strings.Join(p.packets(2), " "); got != "41 1" {
			t.Errorf("%s over polling: %q", packet, got)
		}
	}
	w := g.join()
	if err := w.conn.Write(within(t), 2, []byte{1, 2, 3}); err != nil { // 2 = binary
		t.Fatal(err)
	}
	if got := w.closed(); len(got) != 1 || got[0] != "41" {
		t.Errorf("a binary message: %q", got)
	}
}

func TestWhatAClientSentBeforeItLeftIsReceived(t *testing.T) {
	t.Parallel()
	var received atomic.Int32
	leave := make(chan struct{})
	ended := make(chan error, 1)
	g := start(t, socketio.Config{Serve: func(ctx context.Context, s *socketio.Socket) error {
		if err := s.Accept(ctx); err != nil {
			return err
		}
		<-leave
		<-ctx.Done()
		for {
			if _, err := s.Receive(ctx); err != nil {
				ended <- err
				return err
			}
			received.Add(1)
		}
	}})
	w := g.wire("")
	w.send("40")
	w.wantPrefix("40")
	w.send(`42["one"]`)
	w.send(`422["two"]`) // and the client does not wait for its acknowledgement
	w.send("1")
	w.closed()
	close(leave)
	if err := <-ended; !errors.Is(err, socketio.ErrGone) || received.Load() != 2 {
		t.Errorf("%d events, then %v", received.Load(), err)
	}
}

func TestASocketKnowsItsHandshake(t *testing.T) {
	t.Parallel()
	type key struct{}
	seen := make(chan string, 1)
	server := socketio.New(socketio.Config{Serve: func(ctx context.Context, s *socketio.Socket) error {
		seen <- fmt.Sprint(s.Query()["conversation_id"], s.Request().Header.Get("User-Agent"), ctx.Value(key{}), s.Request().Context().Err(), len(s.ID()) > 20)
		return nil
	}})
	g := &rig{t: t, server: server, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, url: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, "value")))
	}))}
	t.Cleanup(func() { _ = server.Close(context.Background()) })
	p := g.poll("&conversation_id=a%20b&conversation_id=c")
	p.must("40")
	if got := <-seen; got != "[a b c]Go-http-client/1.1value<nil> true" && got != "[a b c] Go-http-client/1.1 value <nil> true" {
		t.Errorf("%s", got)
	}
}

func TestEmitBeforeAcceptIsAnError(t *testing.T) {
	t.Parallel()
	result := make(chan error, 1)
	g := start(t, socketio.Config{Serve: func(ctx context.Context, s *socketio.Socket) error {
		result <- s.Emit(ctx, "early", nil)
		return nil
	}})
	w := g.wire("")
	w.send("40")
	if err := <-result; err == nil {
		t.Error("no error")
	}
	w.want(`44{"message":"Not connected"}`)
}

// A client that does not read stops who emits to it, holds a bounded part of what
// is emitted, and is dropped.
func TestASlowClientHoldsBoundedMemory(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"polling", "websocket"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			var emitted atomic.Int64
			result := make(chan error, 1)
			event := json.RawMessage(`"` + strings.Repeat("x", 100<<10) + `"`)
			g := start(t, socketio.Config{MaxQueued: 1 << 20, WriteTimeout: 300 * time.Millisecond, PingInterval: 200 * time.Millisecond, PingTimeout: 200 * time.Millisecond,
				Serve: func(ctx context.Context, s *socketio.Socket) error {
					err := s.Accept(ctx)
					for err == nil {
						if err = s.Emit(context.WithoutCancel(ctx), "e", event); err == nil {
							emitted.Add(1)
						}
					}
					result <- err
					return err
				}})
			if transport == "polling" {
				g.poll("").must("40")
			} else {
				g.wire("").send("40") // and nothing is read
			}
			if err := <-result; !errors.Is(err, socketio.ErrGone) {
				t.Errorf("emit ended with %v", err)
			}
			limit := int64(12) // 1 MiB of events of 100 KiB, and what is between
			if transport == "websocket" {
				limit = 200 // the buffers of the system's sockets as well
			}
			if n := emitted.Load(); n == 0 || n > limit {
				t.Errorf("%d events were taken from who emits", n)
			}
			eventually(t, "the session is over", func() bool { return g.server.Sessions() == 0 })
		})
	}
}

// A client that sends more than Serve takes is stopped, and loses nothing.
func TestAFloodIsStoppedAndComesInOrder(t *testing.T) {
	t.Parallel()
	const events = 5000
	begin := make(chan struct{})
	result := make(chan error, 1)
	g := start(t, socketio.Config{MaxQueued: 64 << 10, Serve: func(ctx context.Context, s *socketio.Socket) error {
		if err := s.Accept(ctx); err != nil {
			return err
		}
		<-begin
		for i := range events {
			e, err := s.Receive(ctx)
			if err != nil || len(e.Args) != 2 || string(e.Args[0]) != fmt.Sprint(i) {
				result <- fmt.Errorf("event %d: %s %w", i, e.Args, err)
				return nil
			}
		}
		result <- nil
		return nil
	}})
	w := g.wire("")
	w.send("40")
	w.wantPrefix("40")
	sent := make(chan struct{})
	var n atomic.Int64
	pad := strings.Repeat("x", 4<<10)
	go func() {
		defer close(sent)
		for i := range events {
			if err := w.conn.Write(t.Context(), 1, fmt.Appendf(nil, `42["e",%d,"%s"]`, i, pad)); err != nil {
				return
			}
			n.Add(1)
		}
	}()
	last := int64(-1)
	eventually(t, "the client is stopped", func() bool {
		time.Sleep(20 * time.Millisecond)
		before := last
		last = n.Load()
		return last > 0 && last == before
	})
	if last == events {
		t.Error("20 MiB were taken while nobody received")
	}
	close(begin)
	<-sent
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// Events come in order and once, whichever way the client takes while they do.
func TestEventsComeInOrderOverAnUpgrade(t *testing.T) {
	t.Parallel()
	const events = 20000
	g := start(t, socketio.Config{Serve: func(ctx context.Context, s *socketio.Socket) error {
		if err := s.Accept(ctx); err != nil {
			return err
		}
		for i := range events {
			if err := s.Emit(ctx, "e", fmt.Appendf(nil, "%d", i)); err != nil {
				return err
			}
		}
		return nil
	}})
	for _, polls := range []int{0, 3, 1 << 20} { // before the upgrade
		p := g.poll("")
		p.must("40")
		next := 0
		take := func(packet string) (over bool) {
			switch want := fmt.Sprintf(`42["e",%d]`, next); {
			case packet == want:
				next++
			case packet == "1" || packet == "41":
				return packet == "1" || polls < 1<<20
			case packet != "6" && packet != "2" && !strings.HasPrefix(packet, "40"):
				t.Fatalf("%q, want %q", packet, want)
			}
			return false
		}
		over := false
		poll := func() {
			for packet := range strings.SplitSeq(p.mustGet(), "\x1e") {
				over = take(packet) || over
			}
		}
		for n := 0; n < polls && !over; n++ {
			poll()
		}
		if !over {
			w := g.dial("EIO=4&transport=websocket&sid=" + p.sid)
			w.send("2probe")
			w.want("3probe")
			poll()
			w.send("5")
			for !over {
				over = take(w.next())
			}
		}
		if next != events {
			t.Errorf("%d polls first: %d events", polls, next)
		}
	}
}

func (p *polled) mustGet() string {
	p.t.Helper()
	status, text := p.get()
	if status != http.StatusOK {
		p.t.Fatalf("poll: %d %s", status, text)
	}
	return text
}
