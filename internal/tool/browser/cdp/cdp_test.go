package cdp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"parley/internal/tool/browser/cdp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// command is what the peer was asked.
type command struct {
	ID      int64           `json:"id"`
	Session string          `json:"sessionId"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// peer answers like a browser: each command with what reply returns, "" = nothing.
func peer(t *testing.T, reply func(command) string, handle func(*cdp.Conn, cdp.Event)) *cdp.Conn {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = ws.CloseNow() }()
		ws.SetReadLimit(cdp.MaxMessage)
		for {
			_, data, err := ws.Read(context.Background())
			var c command
			if err != nil || json.Unmarshal(data, &c) != nil {
				return
			}
			for line := range strings.Lines(reply(c)) {
				if strings.TrimSpace(line) == "hang up" || ws.Write(context.Background(), websocket.MessageText, []byte(line)) != nil {
					return
				}
			}
		}
	}))
	t.Cleanup(srv.Close)
	if handle == nil {
		handle = func(*cdp.Conn, cdp.Event) {}
	}
	c, err := cdp.Dial(t.Context(), dialer(srv), 1, "/devtools/browser/x", handle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func dialer(srv *httptest.Server) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", srv.Listener.Addr().String())
	}
}

func echo(c command) string {
	return fmt.Sprintf(`{"id":%d,"result":{"method":%q,"session":%q,"params":%s}}`, c.ID, c.Method, c.Session, c.Params)
}

func TestCallsSideBySide(t *testing.T) {
	c := peer(t, echo, nil)
	var calls sync.WaitGroup
	for i := range 100 {
		calls.Go(func() {
			var got struct {
				Method  string
				Session string
				Params  map[string]int
			}
			err := c.Call(t.Context(), fmt.Sprint("s", i), "Do.it", map[string]int{"n": i}, &got)
			if err != nil || got.Params["n"] != i || got.Session != fmt.Sprint("s", i) || got.Method != "Do.it" {
				t.Errorf("%d: %+v %v", i, got, err)
			}
		})
	}
	calls.Wait()
}

func TestRefusals(t *testing.T) {
	c := peer(t, func(c command) string {
		if c.Method == "Odd" {
			return fmt.Sprintf(`{"id":%d,"result":"text"}`, c.ID)
		}
		return fmt.Sprintf(`{"id":%d,"error":{"code":-32000,"message":"No","data":"because"}}`, c.ID)
	}, nil)
	var refused *cdp.Error
	if err := c.Call(t.Context(), "", "X", nil, nil); !errors.As(err, &refused) || refused.Error() != "No (because)" {
		t.Errorf("%v", err)
	}
	var out struct{}
	if err := c.Call(t.Context(), "", "Odd", nil, &out); err == nil {
		t.Error("an answer of another form is accepted")
	}
	if err := c.Call(t.Context(), "", "X", func() {}, nil); err == nil {
		t.Error("what has no JSON is sent")
	}
}

// What ends a session ends its calls, and no others.
func TestSessionsEnd(t *testing.T) {
	for event, want := range map[string]error{
		`{"method":"Target.detachedFromTarget","params":{"sessionId":"S"}}`: cdp.ErrDetached,
		`{"method":"Inspector.targetCrashed","sessionId":"S","params":{}}`:  cdp.ErrCrashed,
	} {
		waiting := make(chan struct{})
		c := peer(t, func(c command) string {
			switch c.Method {
			case "Wait":
				close(waiting)
				return ""
			case "End":
				return event + "\n" + echo(c)
			}
			return ""
		}, nil)
		ended := make(chan error, 1)
		go func() { ended <- c.Call(context.Background(), "S", "Wait", nil, nil) }()
		<-waiting
		if err := c.Call(t.Context(), "T", "End", map[string]any{}, nil); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		c.Close()
	}
}

func TestContextsAndClose(t *testing.T) {
	asked := make(chan struct{}, 2)
	c := peer(t, func(c command) string {
		if c.Method == "Ping" {
			return echo(c)
		}
		asked <- struct{}{}
		return ""
	}, nil)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Call(ctx, "", "Wait", nil, nil) }()
	<-asked
	cancel(cause)
	if err := <-ended; !errors.Is(err, cause) {
		t.Errorf("%v, want the cause", err)
	}
	if err := c.Call(ctx, "", "Ping", nil, nil); !errors.Is(err, cause) {
		t.Errorf("an ended context: %v", err)
	}
	if err := c.Call(t.Context(), "", "Ping", map[string]any{}, nil); err != nil { // goes on
		t.Error(err)
	}
	go func() { ended <- c.Call(context.Background(), "", "Wait", nil, nil) }()
	<-asked
	c.Close()
	if err := <-ended; !errors.Is(err, cdp.ErrClosed) {
		t.Errorf("%v, want closed", err)
	}
	if err := c.Call(t.Context(), "", "Ping", nil, nil); !errors.Is(err, cdp.ErrClosed) {
		t.Errorf("%v, want closed", err)
	}
	c.Send("", "Ping", nil)
	c.Close()
}

func TestPeerHangsUp(t *testing.T) {
	c := peer(t, func(command) string { return "hang up" }, nil)
	if err := c.Call(t.Context(), "", "X", nil, nil); !errors.Is(err, cdp.ErrClosed) {
		t.Errorf("%v", err)
	}
	select {
	case <-c.Done():
	case <-time.After(10 * time.Second):
		t.Error("the connection does not end")
	}
}

func TestTooLongMessage(t *testing.T) {
	long := strings.Repeat("x", cdp.MaxMessage+1)
	c := peer(t, func(command) string { return `"` + long + `"` }, nil)
	if err := c.Call(t.Context(), "", "X", nil, nil); !errors.Is(err, cdp.ErrClosed) {
		t.Errorf("%v", err)
	}
}

func TestEventsInOrder(t *testing.T) {
	var got []string
	c := peer(t, func(c command) string {
		if c.Method != "Go" {
			return ""
		}
		return "{\"method\":\"A\",\"params\":{\"n\":1}}\nnonsense\n{\"method\":\"B\",\"sessionId\":\"S\"}\n" + echo(c)
	}, func(conn *cdp.Conn, e cdp.Event) {
		conn.Send(e.Session, "Heard", nil) // a handler may send
		got = append(got, e.Method+e.Session+string(e.Params))
	})
	if err := c.Call(t.Context(), "", "Go", map[string]any{}, nil); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(got, " "); text != `A{"n":1} BS` {
		t.Errorf("heard %s", text)
	}
}

func TestDialFails(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	if _, err := cdp.Dial(t.Context(), dialer(srv), 1, "/x", func(*cdp.Conn, cdp.Event) {}); err == nil {
		t.Error("a server that is no browser is accepted")
	}
}
