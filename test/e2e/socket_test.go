package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/test/testkit/parleytest"
)

// socket is a client of /sockets/events/{id}.
type socket struct {
	t    *testing.T
	conn *websocket.Conn
}

func dial(t *testing.T, url string) *socket {
	t.Helper()
	conn, resp, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(url, "http"), nil)
	if err != nil {
		t.Fatalf("dial %s: %v (%v)", url, err, resp)
	}
	conn.SetReadLimit(64 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &socket{t, conn}
}

func (s *socket) send(v any) {
	s.t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.conn.Write(s.t.Context(), websocket.MessageText, raw); err != nil {
		s.t.Fatal(err)
	}
}

func (s *socket) next() parleytest.Event {
	s.t.Helper()
	var e parleytest.Event
	within(s.t, 20*time.Second, "the next frame", func(ctx context.Context) error {
		_, raw, err := s.conn.Read(ctx)
		if err != nil {
			return err
		}
		return json.Unmarshal(raw, &e)
	})
	return e
}

// until reads frames until one satisfies want, and returns all.
func (s *socket) until(want func(parleytest.Event) bool) []parleytest.Event {
	s.t.Helper()
	var all []parleytest.Event
	for {
		e := s.next()
		all = append(all, e)
		if want(e) {
			return all
		}
	}
}

func fullState(e parleytest.Event) bool {
	return e.Kind() == "ConversationStateUpdateEvent" && e["key"] == "full_state"
}

func stored(events []parleytest.Event) []string {
	var ids []string
	for _, e := range events {
		if !fullState(e) && e.Kind() != "StreamingDeltaEvent" {
			ids = append(ids, e.ID())
		}
	}
	return ids
}

func TestSocketRunsAConversation(t *testing.T) {
	s := demo(t)
	id := s.Conversation("")
	url, key := s.AgentURL(id)
	base := strings.Split(url, "/api/conversations/")[0]
	for name, address := range map[string]string{"below the prefix": base, "at the root": s.URL} {
		t.Run(name, func(t *testing.T) {
			ws := dial(t, address+"/sockets/events/"+id)
			ws.send(map[string]string{"type": "auth", "session_api_key": key})
			if first := ws.next(); !fullState(first) {
				t.Fatalf("first frame: %s", first.Text())
			}
			ws.send(map[string]string{"type": "auth", "session_api_key": key}) // a repeated one is ignored
			ws.send(map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "run: echo over-the-socket"}}})
			frames := ws.until(fullState)
			last := frames[len(frames)-2]
			if last["key"] != "execution_status" || last["value"] != "finished" {
				t.Errorf("before the last full_state: %s", last.Text())
			}
			if !strings.Contains(texts(frames), "over-the-socket") {
				t.Errorf("frames %s", texts(frames))
			}
		})
	}
}

func TestSocketResendModes(t *testing.T) {
	s := demo(t)
	id := s.Conversation("run: echo one")
	s.WaitStatus(id, "finished")
	events := s.Events(id)
	url, key := s.AgentURL(id)
	base := strings.Split(url, "/api/conversations/")[0] + "/sockets/events/" + id + "?session_api_key=" + key
	ts, _ := events[3]["timestamp"].(string)
	for query, want := range map[string]int{"&resend_mode=all": len(events), "&resend_all=true": len(events),
		"&resend_mode=since&after_timestamp=" + ts: len(events) - 3, "&after_seq=4": len(events) - 5, "": 0} {
		ws := dial(t, base+query)
		if first := ws.next(); !fullState(first) {
			t.Fatalf("%s: first frame %s", query, first.Text())
		}
		ws.send("not a message")
		frames := ws.until(func(e parleytest.Event) bool { return e.Kind() == "ServerErrorEvent" })
		if got := len(frames) - 1; got > want {
			t.Errorf("%q: %d events resent, want %d", query, got, want)
		}
		for got := len(frames) - 1; got < want; got++ { // the error may overtake the history
			ws.next()
		}
	}
}

func TestSocketRefusals(t *testing.T) {
	s := demo(t)
	id := s.Conversation("")
	_, key := s.AgentURL(id)
	closed := func(path string, frames ...any) websocket.StatusCode {
		ws := dial(t, s.URL+path)
		for _, f := range frames {
			ws.send(f)
		}
		for {
			_, _, err := ws.conn.Read(s.Within(20 * time.Second))
			var ce websocket.CloseError
			if errors.As(err, &ce) {
				return ce.Code
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if code := closed("/sockets/events/"+id, map[string]string{"type": "auth", "session_api_key": "wrong"}); code != 4001 {
		t.Errorf("wrong first frame: %d", code)
	}
	if code := closed("/sockets/events/0123456789abcdef0123456789abcdef", map[string]string{"type": "auth", "session_api_key": key}); code != 4004 {
		t.Errorf("unknown conversation: %d", code)
	}
	if _, resp, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http")+"/sockets/events/"+id+"?session_api_key=wrong", nil); err == nil ||
		resp == nil || resp.StatusCode != 403 {
		t.Errorf("wrong query key: %v %v", resp, err)
	}
}

func TestEveryFollowerSeesTheSameLog(t *testing.T) {
	s := demo(t)
	id := s.Conversation("")
	url, key := s.AgentURL(id)
	base := strings.Split(url, "/api/conversations/")[0] + "/sockets/events/" + id + "?resend_mode=all&session_api_key=" + key
	early := dial(t, base)
	early.until(fullState)
	s.Send(id, "run: echo 1\nrun: echo 2")
	a := stored(early.until(fullState))
	late := dial(t, base)
	var b []string
	for first := true; len(b) < len(a); first = false {
		if e := late.next(); !first {
			b = append(b, e.ID())
		}
	}
	if strings.Join(a, " ") != strings.Join(b, " ") {
		t.Errorf("early saw %v, late saw %v", a, b)
	}
	var rest []string
	for _, e := range s.Events(id) {
		rest = append(rest, e.ID())
	}
	if strings.Join(a, " ") != strings.Join(rest, " ") {
		t.Errorf("the socket saw %v, REST shows %v", a, rest)
	}
}
