package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/stream"
)

// frame is one server-sent event.
type frame struct {
	id, event, data string
	comment         bool
}

type eventStream struct {
	testing.TB
	body io.ReadCloser
	in   *bufio.Reader
}

// listen opens an event stream.
func (w *world) listen(path string, header http.Header) *eventStream {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), "GET", w.server.URL+path, nil)
	check(w.TB, err)
	req.Header.Set("X-Session-API-Key", userKey)
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := w.server.Client().Do(req)
	check(w.TB, err)
	w.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		raw, _ := io.ReadAll(resp.Body)
		w.Fatalf("%d %s", resp.StatusCode, raw)
	}
	s := &eventStream{w.TB, resp.Body, bufio.NewReader(resp.Body)}
	if line, err := s.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "retry: ") {
		w.Fatalf("no retry hint first: %q, %v", line, err)
	}
	_, _ = s.in.ReadString('\n')
	return s
}

// next returns the next frame or comment, io.EOF at the end.
func (s *eventStream) next() (frame, error) {
	s.Helper()
	var f frame
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return f, err
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "":
			return f, nil
		case strings.HasPrefix(line, ":"):
			f.comment = true
		case name == "id":
			f.id = value
		case name == "event":
			f.event = value
		case name == "data":
			f.data += value
		}
	}
}

// until reads frames up to one that is as wanted.
func (s *eventStream) until(what string, ok func(frame) bool) []frame {
	s.Helper()
	var all []frame
	for {
		f, err := s.next()
		if err != nil {
			s.Fatalf("the stream ended before %s: %v; got %v", what, err, all)
		}
		if f.comment {
			continue
		}
		all = append(all, f)
		if ok(f) {
			return all
		}
	}
}

func isState(f frame) bool { return f.event == "state" }

func TestEventStreamShowsTheLogVerbatimAndResumes(t *testing.T) {
	w := newWorld(t, callTool("sh", `{"command":"echo hi"}`), say("done"), say("again"))
	id, _ := w.begin(map[string]any{})
	path := "/api/v1/conversation/" + id + "/events/stream"
	s := w.listen(path, nil)
	w.send(id, "go")
	frames := s.until("the end of the run", isState)
	w.waitFor(id, conversation.Finished)
	stored := frames[:len(frames)-1]
	for _, f := range frames {
		if f.event == "delta" {
			t.Errorf("a delta without streaming: %v", f)
		}
	}
	w.sameAsLog(id, 0, stored)
	var state struct {
		Kind, Key string
		Value     struct {
			Status string `json:"execution_status"`
		}
	}
	check(t, json.Unmarshal([]byte(frames[len(frames)-1].data), &state))
	if state.Key != "full_state" || state.Value.Status != "finished" {
		t.Errorf("state %+v", state)
	}

	// Resume in the middle: Last-Event-ID wins over after_seq.
	s = w.listen(path+"?after_seq=0", http.Header{"Last-Event-ID": {"2"}})
	w.send(id, "more")
	w.sameAsLog(id, 3, withoutState(s.until("the end of the second run", func(f frame) bool { return isState(f) })))
	s = w.listen(path+"?after_seq=1", http.Header{"Last-Event-ID": {"garbage"}})
	if f := s.until("an event", func(frame) bool { return true }); f[0].id != "2" {
		t.Errorf("first is %v", f[0])
	}
	// A cursor beyond the log does not hide what comes.
	s = w.listen(path+"?after_seq=99999", nil)
	head := len(w.events(id))
	w.send(id, "last")
	if f := s.until("an event", func(frame) bool { return true }); f[0].id != strconv.Itoa(head) {
		t.Errorf("first is %v, want %d", f[0], head)
	}
	w.waitFor(id, conversation.Finished)
	w.call(422, "GET", path+"?after_seq=-2", nil)
	w.call(404, "GET", "/api/v1/conversation/"+uuid.NewString()+"/events/stream", nil)
	w.as(otherKey, "GET", path, nil).is(404)
	w.as("", "GET", path, nil).is(401)
}

func withoutState(frames []frame) []frame {
	var out []frame
	for _, f := range frames {
		if f.id != "" {
			out = append(out, f)
		}
	}
	return out
}

// sameAsLog compares frames with the log from a seq on, byte for byte.
func (w *world) sameAsLog(id string, from int, frames []frame) {
	w.Helper()
	log := w.events(id)
	for i, f := range frames {
		e := log[from+i]
		if f.id != strconv.FormatInt(e.Seq, 10) || f.data != string(e.Raw) {
			w.Errorf("frame %d is %v, want %d %s", i, f, e.Seq, e.Raw)
		}
	}
	if len(frames) != len(log)-from {
		w.Errorf("%d frames, want %d", len(frames), len(log)-from)
	}
}

func (w *world) send(id, text string) {
	w.Helper()
	w.call(200, "POST", "/api/v1/app-conversations/"+id+"/send-message",
		map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}})
}

func TestEventStreamHeartbeatDeltasAndDeletion(t *testing.T) {
	proceed := make(chan struct{})
	w := newWorldWith(t, func(c *config) { c.v1.Heartbeat = 20 * time.Millisecond }, streams(proceed, "par", "ley"))
	id, _ := w.begin(map[string]any{})
	s := w.listen("/api/v1/conversation/"+id+"/events/stream", nil)
	for {
		if f, err := s.next(); err != nil {
			t.Fatal(err)
		} else if f.comment {
			break
		}
	}
	w.send(id, "go")
	deltas := s.until("a delta", func(f frame) bool { return f.event == "delta" })
	last := deltas[len(deltas)-1]
	if last.id != "" || !strings.Contains(last.data, "StreamingDeltaEvent") {
		t.Errorf("delta %v", last)
	}
	close(proceed)
	s.until("the end of the run", isState)
	for _, e := range w.events(id) {
		if e.Kind == conversation.KindStreamingDelta {
			t.Error("a delta was stored")
		}
	}
	w.call(200, "DELETE", "/api/v1/app-conversations/"+id, nil)
	s.until("the deletion", func(f frame) bool { return f.event == "deleted" })
	if _, err := s.next(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream goes on: %v", err)
	}
}

func TestDrainEndsStreamsSoThatTheyResume(t *testing.T) {
	w := newWorld(t)
	id, _ := w.begin(map[string]any{})
	s := w.listen("/api/v1/conversation/"+id+"/events/stream", nil)
	c := w.dial("/sockets/events/"+id, userKey)
	c.state()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- w.streams.Drain(ctx) }()
	for {
		if _, err := s.next(); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("the stream broke: %v", err)
			}
			break
		}
	}
	_, _, err := c.conn.Read(ctx)
	var closed websocket.CloseError
	if !errors.As(err, &closed) || closed.Code != websocket.StatusGoingAway || !strings.Contains(closed.Reason, "after_seq=") {
		t.Errorf("socket closed with %v", err)
	}
	check(t, <-drained)
	w.call(503, "GET", "/api/v1/conversation/"+id+"/events/stream", nil)
}

// socket is a client of an event socket.
type socket struct {
	testing.TB
	conn *websocket.Conn
}

func (w *world) dialWith(path string, opt *websocket.DialOptions) (*websocket.Conn, *http.Response, error) {
	conn, resp, err := websocket.Dial(w.Context(), strings.Replace(w.server.URL, "http", "ws", 1)+path, opt)
	if err == nil {
		conn.SetReadLimit(1 << 24)
		w.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, resp, err
}

// dial opens an event socket with a key in the header, "" = none.
func (w *world) dial(path, key string) *socket {
	w.Helper()
	opt := &websocket.DialOptions{HTTPHeader: http.Header{}}
	if key != "" {
		opt.HTTPHeader.Set("X-Session-API-Key", key)
	}
	conn, _, err := w.dialWith(path, opt)
	check(w.TB, err)
	return &socket{w.TB, conn}
}

// read returns the next frame.
func (s *socket) read() map[string]any {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	_, raw, err := s.conn.Read(ctx)
	if err != nil {
		s.Fatal(err)
	}
	var v map[string]any
	check(s.TB, json.Unmarshal(raw, &v))
	return v
}

// state reads a frame that must be a full_state and returns its value.
func (s *socket) state() map[string]any {
	s.Helper()
	f := s.read()
	if f["key"] != "full_state" {
		s.Fatalf("not a full_state: %v", f)
	}
	return f["value"].(map[string]any)
}

// until reads frames up to one that is as wanted.
func (s *socket) until(ok func(map[string]any) bool) []map[string]any {
	s.Helper()
	var all []map[string]any
	for {
		f := s.read()
		all = append(all, f)
		if ok(f) {
			return all
		}
	}
}

func (s *socket) say(v any) {
	s.Helper()
	raw, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		check(s.TB, err)
		raw = string(b)
	}
	check(s.TB, s.conn.Write(s.Context(), websocket.MessageText, []byte(raw)))
}

// closed reads until the socket closes and returns the code.
func (s *socket) closed() websocket.StatusCode {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	for {
		if _, _, err := s.conn.Read(ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

func fullState(f map[string]any) bool { return f["key"] == "full_state" }

func userSays(text string) map[string]any {
	return map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": text}}}
}

// Agent traps 3, 4 and 9; a message over the socket runs.
func TestSocketStateFirstThenLiveThenStateAfterTheRun(t *testing.T) {
	w := newWorld(t, say("one"), say("two"))
	id, a := w.begin(message("first"))
	w.waitFor(id, conversation.Finished)
	known := len(w.events(id))
	key := a.text("session_api_key")
	for name, path := range map[string]string{"root": "/sockets/events/" + id,
		"dashed":    "/sockets/events/" + conversation.ID(id).Dashed(),
		"below":     "/agent/" + a.text("sandbox_id") + "/sockets/events/" + id,
		"after_seq": "/sockets/events/" + id + "?after_seq=" + strconv.Itoa(known-1)} {
		t.Run(name, func(t *testing.T) {
			w.TB = t
			before := len(w.events(id))
			path = strings.Replace(path, "after_seq="+strconv.Itoa(known-1), "after_seq="+strconv.Itoa(before-1), 1)
			c := w.dial(path, key)
			if st := c.state(); st["id"] != conversation.ID(id).Dashed() || st["execution_status"] != "finished" {
				t.Errorf("state %v", st)
			}
			m := userSays("again")
			m["run"] = false // tolerated; it runs anyway
			c.say(m)
			frames := c.until(fullState)
			last := frames[len(frames)-1]["value"].(map[string]any)
			if last["execution_status"] != "finished" {
				t.Errorf("state after the run: %v", last["execution_status"])
			}
			log := w.events(id)[before:]
			if len(log) != len(frames)-1 {
				t.Fatalf("%d frames, %d events: %v", len(frames)-1, len(log), frames)
			}
			for i, e := range log {
				if frames[i]["id"] != e.ID || frames[i]["timestamp"] != e.Timestamp {
					t.Errorf("frame %d: %v, want %s", i, frames[i], e.Raw)
				}
			}
		})
	}
	w.TB = t
	// A run of a finished conversation is a no-op that still ends with the state.
	c := w.dial("/sockets/events/"+id, userKey)
	c.state()
	w.as(key, "POST", "/api/conversations/"+id+"/run", nil).is(200)
	c.state()
}

func TestSocketResendModes(t *testing.T) {
	w := newWorld(t, callTool("sh", `{"command":"true"}`), say("done"))
	id, _ := w.begin(message("go"))
	w.waitFor(id, conversation.Finished)
	log := w.events(id)
	mid := log[len(log)/2]
	for query, from := range map[string]int{
		"":                      len(log),
		"?resend_mode=all":      0,
		"?resend_all=true":      0,
		"?resend_mode=since":    len(log), // without a time nothing is sent again
		"?after_seq=-1":         0,
		"?after_seq=2":          3,
		"?after_seq=99999":      len(log),
		"?after_seq=x":          len(log),
		"?session_api_key=null": len(log), // what a client without a key in its hands sends
		"?resend_mode=since&after_timestamp=" + mid.Timestamp:    len(log) / 2,
		"?resend_mode=since&after_timestamp=2999-01-01T00:00:00": len(log),
	} {
		t.Run(query, func(t *testing.T) {
			w.TB = t
			c := w.dial("/sockets/events/"+id+query, userKey)
			c.state()
			for i := from; i < len(log); i++ {
				if f := c.read(); f["id"] != log[i].ID {
					t.Fatalf("frame %d is %v, want %s", i, f, log[i].Raw)
				}
			}
			c.say("{}") // what follows is the answer to it, so nothing else was sent
			if f := c.read(); f["kind"] != "ServerErrorEvent" {
				t.Errorf("sent beyond the log: %v", f)
			}
		})
	}
	w.TB = t
}

func TestSocketBadFramesAreToldAndItStaysOpen(t *testing.T) {
	w := newWorld(t, say("ok"))
	id, a := w.begin(map[string]any{})
	c := w.dial("/sockets/events/"+id, a.text("session_api_key"))
	c.state()
	for _, bad := range []any{"not json", "[]", map[string]any{"role": "system", "content": []any{}}, `{"content": 7}`,
		strings.Repeat("[", 100), `{"role":"user","content":[{"type":"video"}]}`} {
		c.say(bad)
		if f := c.read(); f["kind"] != "ServerErrorEvent" || f["code"] != "ValidationError" || f["source"] != "environment" {
			t.Errorf("%v: %v", bad, f)
		}
	}
	c.say(map[string]any{"type": "auth", "session_api_key": "whatever"}) // ignored
	c.say(userSays("hello"))
	frames := c.until(fullState)
	for _, f := range frames {
		if f["kind"] == "ServerErrorEvent" {
			t.Errorf("%v", f)
		}
	}
}

func TestSocketAuthentication(t *testing.T) {
	w := newWorldWith(t, func(c *config) { c.agent.AuthWait = 100 * time.Millisecond })
	id, a := w.begin(map[string]any{})
	other, b := w.begin(map[string]any{})
	key := a.text("session_api_key")
	path := "/sockets/events/" + id
	below := "/agent/" + a.text("sandbox_id") + path
	for _, ok := range []string{path + "?session_api_key=" + key, path + "?session_api_key=" + userKey,
		below + "?session_api_key=" + key, below + "?session_api_key=" + userKey} {
		w.dial(ok, "").state()
	}
	for _, good := range []string{key, userKey} {
		c := w.dial(path, "")
		c.say(map[string]any{"type": "auth", "session_api_key": good})
		c.state()
	}
	for name, first := range map[string]any{"wrong key": map[string]any{"type": "auth", "session_api_key": "wrong"},
		"no auth frame": userSays("hi"), "no JSON": "hi", "foreign key": map[string]any{"type": "auth", "session_api_key": otherKey}} {
		c := w.dial(path, "")
		c.say(first)
		want := websocket.StatusCode(4001)
		if name == "foreign key" {
			want = 4004 // a good key, but nothing to see
		}
		if code := c.closed(); code != want {
			t.Errorf("%s: closed with %d, want %d", name, code, want)
		}
	}
	if code := w.dial(path, "").closed(); code != 4001 {
		t.Errorf("silence: closed with %d", code)
	}
	for _, bad := range []string{path + "?session_api_key=wrong", below + "?session_api_key=" + b.text("session_api_key")} {
		_, resp, err := w.dialWith(bad, nil)
		if err == nil || resp == nil || resp.StatusCode != 403 {
			t.Errorf("%s: %v", bad, err)
		}
	}
	// Unknown conversations, and those of other sandboxes.
	for path, key := range map[string]string{"/sockets/events/" + uuid.NewString(): userKey, "/sockets/events/x": userKey,
		"/sockets/events/" + other: key, "/agent/" + a.text("sandbox_id") + "/sockets/events/" + other: userKey} {
		if code := w.dial(path, key).closed(); code != 4004 {
			t.Errorf("%s: closed with %d", path, code)
		}
	}
	if strings.Contains(w.log.String(), key) || strings.Contains(w.log.String(), userKey) {
		t.Error("a key is in the log")
	}
}

func TestSocketSubscribersAreBounded(t *testing.T) {
	w := newWorldWith(t, func(c *config) { c.limit = 2 })
	id, _ := w.begin(map[string]any{})
	path := "/sockets/events/" + id
	first := w.dial(path, userKey)
	first.state()
	w.dial(path, userKey).state()
	if code := w.dial(path, userKey).closed(); code != websocket.StatusTryAgainLater {
		t.Errorf("closed with %d", code)
	}
	w.call(429, "GET", "/api/v1/conversation/"+id+"/events/stream", nil)
	check(t, first.conn.Close(websocket.StatusNormalClosure, ""))
	w.eventually("a free place", func() bool {
		c := w.dial(path, userKey)
		_, raw, err := c.conn.Read(t.Context())
		return err == nil && strings.Contains(string(raw), "full_state")
	})
}

func TestSocketShowsDeltasAndDeletion(t *testing.T) {
	proceed := make(chan struct{})
	w := newWorld(t, streams(proceed, "par", "ley"))
	id, _ := w.begin(map[string]any{})
	c := w.dial("/sockets/events/"+id, userKey)
	c.state()
	c.say(userSays("go"))
	frames := c.until(func(f map[string]any) bool { return f["kind"] == "StreamingDeltaEvent" })
	if d := frames[len(frames)-1]; d["content"] == nil || d["reasoning_content"] != nil || d["source"] != "agent" {
		t.Errorf("delta %v", d)
	}
	close(proceed)
	c.until(fullState)
	w.call(200, "DELETE", "/api/v1/app-conversations/"+id, nil)
	if code := c.closed(); code != websocket.StatusNormalClosure {
		t.Errorf("closed with %d", code)
	}
}

func TestTroubleThatCannotBeStoredIsShown(t *testing.T) {
	w := newWorld(t)
	id, _ := w.begin(map[string]any{})
	c := w.dial("/sockets/events/"+id, userKey)
	c.state()
	s := w.listen("/api/v1/conversation/"+id+"/events/stream", nil)
	w.hub.Notice(conversation.ID(id), stream.Notice{Code: "store_full", Detail: "The disk is full."})
	if f := c.read(); f["kind"] != "ServerErrorEvent" || f["code"] != "store_full" {
		t.Errorf("%v", f)
	}
	s.until("the notice", func(f frame) bool { return f.event == "notice" && strings.Contains(f.data, "store_full") })
}

// A client that does not read must not hold up the others.
func TestSlowSocketBlocksNobody(t *testing.T) {
	w := newWorld(t)
	id, _ := w.begin(map[string]any{})
	slow := w.dial("/sockets/events/"+id, userKey)
	quick := w.dial("/sockets/events/"+id, userKey)
	quick.state()
	big := strings.Repeat("x", 1<<19)
	for range 8 { // more than the kernel buffers for the one that does not read
		check(t, w.engine.Send(t.Context(), account.FirstUserID, conversation.ID(id), messageOf(big)))
	}
	seen := 0
	quick.until(func(f map[string]any) bool {
		if f["kind"] == "MessageEvent" && f["source"] == "user" {
			seen++
		}
		return seen == 8
	})
	slow.state()
	seen = 0
	slow.until(func(f map[string]any) bool { // the slow one is behind, but loses nothing
		if f["kind"] == "MessageEvent" && f["source"] == "user" {
			seen++
		}
		return seen == 8
	})
}

func TestManyFollowersReconnectWithoutGapOrDouble(t *testing.T) {
	const followers, messages = 8, 20
	w := newWorld(t)
	id, _ := w.begin(map[string]any{})
	errs := make(chan error, followers)
	for i := range followers {
		go func() { errs <- w.readAll(id, i, messages) }()
	}
	for i := range messages {
		check(t, w.engine.Send(t.Context(), account.FirstUserID, conversation.ID(id), messageOf(fmt.Sprint("message ", i))))
	}
	for range followers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// readAll follows with a socket that reconnects after every few events, until it
// has seen all messages, and checks that seqs are without gaps.
func (w *world) readAll(id string, n, messages int) error {
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	after, seen := -1, 0
	for seen < messages {
		req, err := http.NewRequestWithContext(ctx, "GET", w.server.URL+"/api/v1/conversation/"+id+"/events/stream", nil)
		if err != nil {
			return err
		}
		req.Header.Set("X-Session-API-Key", userKey)
		req.Header.Set("Last-Event-ID", strconv.Itoa(after))
		resp, err := w.server.Client().Do(req)
		if err != nil {
			return err
		}
		in := &eventStream{w.TB, resp.Body, bufio.NewReader(resp.Body)}
		for got := 0; got <= n && seen < messages; {
			f, err := in.next()
			if err != nil {
				return err
			}
			if f.id == "" {
				continue
			}
			if f.id != strconv.Itoa(after+1) {
				return fmt.Errorf("after %d comes %q", after, f.id)
			}
			after++
			got++
			if strings.Contains(f.data, `"source":"user"`) && strings.Contains(f.data, "MessageEvent") {
				seen++
			}
		}
		_ = resp.Body.Close()
	}
	return nil
}

// A client that listens for the end of a run only after it has read the answer to the
// request is told of it, also if the run was over before.
func TestARunThatIsOverAtOnceIsToldAgain(t *testing.T) {
	b := newBench(t)
	a := b.post(201, conversations, b.with(nil))
	s := b.dial("/sockets/events/"+a.text("id"), b.key)
	s.until(func(e map[string]any) bool { return e["key"] == "full_state" })
	b.post(200, conversations+"/"+a.text("id")+"/run", map[string]any{}) // nothing to do
	for range 2 {
		s.until(func(e map[string]any) bool { return e["key"] == "full_state" })
	}
}
