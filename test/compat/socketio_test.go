package compat_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/internal/socketio"
	"parley/test/testkit/openaitest"
	"parley/test/testkit/parleytest"
)

// TestSocketIOClient runs the published Socket.IO client, in Node.js and in a
// browser, against a server of the package that speaks its protocol.
func TestSocketIOClient(t *testing.T) {
	t.Parallel()
	direct := protocolServer(t)
	inBoth(t, "protocol", func(t *testing.T, c client) {
		host := direct
		if strings.HasSuffix(t.Name(), "/node") {
			host = proxied(t, direct)
		}
		run(t, c, nil, host)
	})
}

// TestSocketIORooms runs sessions of the same client against the whole server.
func TestSocketIORooms(t *testing.T) {
	t.Parallel()
	inBoth(t, "rooms", func(t *testing.T, c client) {
		model := openaitest.New(t)
		server := parleytest.Start(t, parleytest.Options{})
		session(t, c, server, model, server.URL, "")
	})
}

// inBoth runs a session in Node.js and in a browser.
func inBoth(t *testing.T, session string, try func(t *testing.T, c client)) {
	t.Helper()
	node := socketIONode(t)
	env := []string{"COMPAT_SESSION=" + session}
	t.Run("node", func(t *testing.T) {
		try(t, client{argv: []string{node, script(t, "socketio/node.mjs")}, env: env, limit: 4 * time.Minute})
	})
	t.Run("browser", func(t *testing.T) {
		browser := socketIOBrowser(t, node)
		try(t, client{argv: []string{node, script(t, "socketio/browser.mjs")}, env: append(env, "COMPAT_BROWSER="+browser), limit: 4 * time.Minute})
	})
}

// socketIONode finds Node.js, and the client installed.
func socketIONode(t *testing.T) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		missing(t, "socketio-client", "node is not installed (apt-get install nodejs)")
	}
	if _, err := os.Stat("socketio/node_modules/socket.io-client"); err != nil {
		missing(t, "socketio-client", "the Socket.IO client is not installed: run scripts/clients")
	}
	return node
}

// socketIOBrowser finds a browser, and a Node.js that can drive it.
func socketIOBrowser(t *testing.T, node string) string {
	t.Helper()
	if out, err := exec.Command(node, "-p", "process.versions.node.split('.')[0] >= 20").Output(); err != nil || string(out) != "true\n" {
		missing(t, "socketio-browser", "what drives the browser needs Node.js 20 or later")
	}
	browser, err := exec.LookPath("chromium")
	if err != nil {
		missing(t, "socketio-browser", "chromium is not installed (apt-get install chromium)")
	}
	return browser
}

func script(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// protocolServer serves what protocol.mjs talks to, with pings that do not wait
// long. /sessions says how many connections there are.
func protocolServer(t *testing.T) string {
	server := socketio.New(socketio.Config{Serve: serveProtocol, PingInterval: 150 * time.Millisecond, PingTimeout: 20 * time.Second})
	mux := http.NewServeMux()
	mux.Handle("/base/socket.io/", server)
	mux.HandleFunc("/sessions", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		_, _ = fmt.Fprint(w, server.Sessions())
	})
	listener := httptest.NewServer(mux)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := server.Close(ctx); err != nil {
			t.Error(err)
		}
		listener.Close()
	})
	return listener.URL
}

// proxied is an address whose requests another server forwards.
func proxied(t *testing.T, host string) string {
	t.Helper()
	target, err := url.Parse(host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorLog: log.New(io.Discard, "", 0), // clients break off
	})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// serveProtocol does for a client what the query and its events ask for.
func serveProtocol(ctx context.Context, s *socketio.Socket) error {
	if s.Query().Has("refuse") {
		return &socketio.Refusal{Message: "Settings not found", Data: map[string]string{"msg_id": "CONFIGURATION$SETTINGS_NOT_FOUND"}}
	}
	if err := s.Accept(ctx); err != nil {
		return err
	}
	count, err := strconv.Atoi(s.Query().Get("count"))
	for i := 0; err == nil && i < count; i++ {
		if err := s.Emit(ctx, "n", json.RawMessage(strconv.Itoa(i))); err != nil {
			return err
		}
	}
	seen, wrong := 0, 0
	for {
		e, err := s.Receive(ctx)
		if err != nil {
			return err
		}
		switch e.Name {
		case "n":
			if len(e.Args) != 1 || string(e.Args[0]) != strconv.Itoa(seen) {
				wrong++
			}
			seen++
		case "seen":
			err = s.Emit(ctx, "seen", fmt.Appendf(nil, `{"events":%d,"wrong":%d}`, seen, wrong))
		case "echo":
			err = s.Emit(ctx, "echo", e.Args[0])
		case "who":
			err = who(ctx, s)
		case "leave":
			return s.Emit(ctx, "last", json.RawMessage(`"word"`))
		case "fail":
			return errors.New("failed as asked")
		}
		if err != nil {
			return err
		}
	}
}

func who(ctx context.Context, s *socketio.Socket) error {
	answer, err := json.Marshal(struct {
		Word string          `json:"word"`
		Auth json.RawMessage `json:"auth"`
		ID   string          `json:"id"`
	}{s.Query().Get("word"), s.Auth(), s.ID()})
	if err != nil {
		return err
	}
	return s.Emit(ctx, "who", answer)
}
