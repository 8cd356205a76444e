package httpkit_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/stream"
)

// guarded puts a handler behind a guard that allows little time for bodies.
func guarded(t *testing.T, body time.Duration, h http.Handler) *httptest.Server {
	t.Helper()
	return guardedBy(t, httpkit.GuardConfig{BodyTime: body}, h)
}

func guardedBy(t *testing.T, cfg httpkit.GuardConfig, h http.Handler) *httptest.Server {
	t.Helper()
	cfg.Log, cfg.URLs, cfg.Listen = slog.New(slog.DiscardHandler), &httpkit.URLs{}, "127.0.0.1:0"
	cfg.Metrics = httpkit.NewMetrics(func() int { return 0 })
	cfg.Auth = &httpkit.Authenticator{Users: users{account.HashKey("k"): "u"}, Sandbox: noSandbox}
	srv := httptest.NewServer(httpkit.NewGuard(cfg).Wrap(h))
	t.Cleanup(srv.Close)
	return srv
}

func apiOf(t *testing.T, doc string, handlers httpkit.Handlers) http.Handler {
	t.Helper()
	api, err := httpkit.NewAPI(httpkit.APIConfig{Name: "t", Document: []byte(doc), Handlers: handlers})
	if err != nil {
		t.Fatal(err)
	}
	mux, err := httpkit.NewMux(api)
	if err != nil {
		t.Fatal(err)
	}
	return mux
}

func connect(t *testing.T, srv *httptest.Server, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

const bodyDoc = `{"openapi":"3.1.0","paths":{"/x":{"post":{"operationId":"x","security":[],
	"requestBody":{"content":{"application/json":{"schema":{"type":"object"}}}},"responses":{}}},
	"/y":{"post":{"operationId":"y","responses":{}}}}}`

// A client that sends its body one byte at a time is not waited for, whether or
// not it is known; one that is slow but gets on is.
func TestSlowBodiesAreCut(t *testing.T) {
	srv := guarded(t, 100*time.Millisecond, apiOf(t, bodyDoc, httpkit.Handlers{
		"x": func(w http.ResponseWriter, r *httpkit.Request) error { return httpkit.JSON(w, 200, r.BodyValue()) },
		"y": func(http.ResponseWriter, *httpkit.Request) error { return nil }}))
	for path, want := range map[string]int{"/x": 400, "/y": 401, "/nothing": 404} {
		_, in := connect(t, srv, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if _, err := in.ReadByte(); resp.StatusCode != want || err == nil {
			t.Errorf("%s: %d, then %v; want %d and the end", path, resp.StatusCode, err, want)
		}
	}
	conn, in := connect(t, srv, "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n{")
	for i := range 10 { // 6 kB at a time make up for the pauses
		text := strings.Repeat(" ", 6000)
		if i == 9 {
			text = strings.Repeat(" ", 5998) + "}"
		}
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
	}
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("a slow body that gets on: %v %v", resp, err)
	}
}

// A client that does not take its answer is given up.
func TestAnswersThatNobodyTakesAreCut(t *testing.T) {
	ended := make(chan error, 1)
	srv := guardedBy(t, httpkit.GuardConfig{AnswerTime: 50 * time.Millisecond}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 64<<20)) // more than the kernel buffers
		ended <- err
	}))
	connect(t, srv, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it was taken")
		}
	case <-time.After(20 * time.Second):
		t.Error("the server still waits")
	}
}

// A time limit of one request must not end the next one on its connection.
func TestLimitsEndWithTheirRequest(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		sse := &httpkit.SSE{Source: &ends{}, WriteTimeout: 50 * time.Millisecond,
			Encode: func(context.Context, stream.Item) ([]httpkit.Frame, error) { return nil, nil }}
		if err := sse.Serve(r.Context(), w); err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc("/after", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/body", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-time.After(100 * time.Millisecond) // longer than a body may take
		if r.Context().Err() != nil {
			t.Error("the limit of the body ended the request")
		}
		_, _ = io.WriteString(w, "ok")
	})
	srv := guarded(t, 50*time.Millisecond, mux)
	conn, in := connect(t, srv, "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
	for i, next := range []string{"GET /after HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx", "GET /after HTTP/1.1\r\nHost: localhost\r\n\r\n", ""} {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		<-time.After(100 * time.Millisecond)
		if _, err := io.WriteString(conn, next); err != nil {
			t.Fatal(err)
		}
	}
}

// ends is a source whose conversation was deleted.
type ends struct{}

func (*ends) Next(context.Context) (stream.Item, error) { return stream.Item{Deleted: true}, nil }
func (*ends) After() int64                              { return 0 }

// Streams of clients that take nothing and answer nothing end soon after the
// server began to stop.
func TestDrainCutsClientsThatDoNotRead(t *testing.T) {
	for name, request := range map[string]string{"sse": "GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"socket": "GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n" +
			"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n",
		"quiet socket": "GET /quiet HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n" +
			"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			streams := httpkit.NewStreams(0, httpkit.NewMetrics(func() int { return 0 }), nil)
			begun := make(chan struct{}, 1)
			srv := guarded(t, 0, streamsHandler(t, streams, begun))
			connect(t, srv, request)
			<-begun
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			if err := streams.Drain(ctx); err != nil {
				t.Errorf("after %s: %v", time.Since(start), err)
			}
		})
	}
}

// streamsHandler serves streams that send without end, and one that says nothing.
func streamsHandler(t *testing.T, streams *httpkit.Streams, begun chan<- struct{}) http.Handler {
	mux := http.NewServeMux()
	join := func(r *http.Request) (context.Context, func()) {
		ctx, leave, err := streams.Join(r.Context(), httpkit.Principal{}, "x", "y")
		if err != nil {
			t.Error(err)
		}
		begun <- struct{}{}
		return ctx, leave
	}
	mux.HandleFunc("/sse", func(w http.ResponseWriter, r *http.Request) {
		ctx, leave := join(r)
		defer leave()
		_ = (&httpkit.SSE{Source: endless{}, Encode: func(context.Context, stream.Item) ([]httpkit.Frame, error) {
			return []httpkit.Frame{{Data: []byte(strings.Repeat("x", 1<<20))}}, nil
		}}).Serve(ctx, w)
	})
	socket := func(source httpkit.Source) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			conn, cut := httpkit.AcceptSocket(w, r)
			if conn == nil {
				return
			}
			ctx, leave := join(r)
			defer leave()
			_ = (&httpkit.Socket{Conn: conn, Cut: cut, Source: source, Receive: nothing,
				Encode: func(context.Context, stream.Item) ([][]byte, error) {
					return [][]byte{[]byte(strings.Repeat("x", 1<<20))}, nil
				}}).Serve(ctx)
		}
	}
	mux.HandleFunc("/ws", socket(endless{}))
	mux.HandleFunc("/quiet", socket(silent{}))
	return mux
}

func TestRefusedUpgradesAreJSON(t *testing.T) {
	srv := guarded(t, 0, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, _ := httpkit.AcceptSocket(w, r); conn != nil {
			_ = conn.CloseNow()
			t.Error("accepted")
		}
	}))
	for name, c := range map[string]struct {
		headers string
		want    int
	}{"no upgrade": {"", 426}, "no connection": {"Upgrade: websocket\r\n", 426}, "no version": {"Upgrade: websocket\r\nConnection: Upgrade\r\n", 400},
		"bad key": {"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: <x>\r\n", 400}} {
		_, in := connect(t, srv, "GET / HTTP/1.1\r\nHost: localhost\r\n"+c.headers+"\r\n")
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != c.want || resp.Header.Get("Content-Type") != "application/json" || !strings.HasPrefix(string(body), `{"detail":"`) {
			t.Errorf("%s: %d %s %v", name, resp.StatusCode, body, err)
		}
	}
}

// Queries are read as clients of lenient servers write them.
func TestQueriesAreReadLeniently(t *testing.T) {
	const doc = `{"openapi":"3.1.0","paths":{"/x":{"get":{"operationId":"x","security":[],"parameters":[
		{"name":"a b","in":"query","schema":{"type":"string","default":"none"}}],"responses":{}}}}}`
	base, _ := serve(t, doc, httpkit.Handlers{"x": func(w http.ResponseWriter, r *httpkit.Request) error {
		var p map[string]string
		if err := r.Params(&p); err != nil {
			return err
		}
		_, err := fmt.Fprint(w, p["a b"])
		return err
	}})
	for query, want := range map[string]string{"": "none", "&&": "none", "a+b=1": "1", "a%20b=1": "1", "a+b": "", "a+b=x=y": "x=y", "a+b=100%": "100%",
		"a+b=%zz%4": "%zz%4", "a+b=a;b": "a;b", "a+b=1&a+b=2": "2", "a+b=%2B%26+": "+& ", "a+b=%E6%97%A5": "日", "a;a+b=1": "none"} {
		status, body, _, err := get(t, base+"/x?"+query)
		if err != nil || status != 200 || body != want {
			t.Errorf("%s: %d %q, want %q: %v", query, status, body, want, err)
		}
	}
	if status, body, _, _ := get(t, base+"/x?a+b=%ff"); status != 422 || !strings.Contains(body, `["query","a b"]`) {
		t.Errorf("not UTF-8: %d %s", status, body)
	}
	many := strings.Repeat("z&", 20000) + "a+b=1"
	if status, body, _, _ := get(t, base+"/x?"+many); status != 200 || body != "1" {
		t.Errorf("many parameters: %d %s", status, body)
	}
}

func TestURLSegments(t *testing.T) {
	for text, want := range map[string]string{"a b": "a%20b", ".": "%2E", "..": "%2E%2E", "...": "...", "a/b": "a%2Fb", "%": "%25", "sb-1": "sb-1"} {
		if got := httpkit.Segment(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
