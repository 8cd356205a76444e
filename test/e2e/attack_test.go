package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/test/testkit/parleytest"
)

// plain runs a server without isolated sandboxes: these tests are about the HTTP
// surface.
func plain(t *testing.T) *parleytest.Server {
	t.Helper()
	return parleytest.Start(t, parleytest.Options{Demo: true, Sandbox: "process"})
}

// wire sends a request line and headers as they are, which net/http would not do.
func wire(t *testing.T, s *parleytest.Server, method, target string, headers ...string) (*http.Response, string) {
	t.Helper()
	address := strings.TrimPrefix(s.URL, "http://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	lines := append([]string{method + " " + target + " HTTP/1.1", "Host: " + address, "Connection: close"}, headers...)
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	return resp, string(body)
}

const withKey = "X-Session-API-Key: " + parleytest.Key

// Paths have one spelling inside; no spelling gets around a check, and none is
// answered with a redirect that loses the prefix or the key.
func TestPathsAreReadInOneWay(t *testing.T) {
	s := plain(t)
	id := s.Conversation("")
	info := s.Info(id)
	box, _ := info["sandbox_id"].(string)
	dashed := id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
	agent := "/agent/" + box
	encoded := "/agent/%73" + box[1:] // the id begins with an "s"
	for target, want := range map[string]int{
		"/api/v1/app-conversations/" + id:                             200,
		"/api/v1/app-conversations/" + strings.ToUpper(id):            200,
		"/api/v1/app-conversations/" + dashed:                         200,
		"/api/v1/app-conversations/" + strings.ToUpper(dashed):        200,
		"//api/v1/app-conversations/" + id:                            200,
		"/api//v1///app-conversations/" + id:                          200,
		"/api/v1/app-conversations/" + id + "/":                       404,
		"/api/v1/./app-conversations/" + id:                           404,
		"/api/v1/x/../app-conversations/" + id:                        404,
		"/api/v1/%2e%2e/v1/app-conversations/" + id:                   404,
		"/api/v1%2Fapp-conversations/" + id:                           404,
		"/api/v1/app-conversations/" + id + "%2F..%2F":                400,
		"/api/v1/app-conversations/" + id + "%00":                     400,
		"/api/v1/app-conversations/%ff":                               400,
		agent + "/api/conversations/" + id:                            200,
		agent + "//api/conversations/" + id:                           200,
		encoded + "/api/conversations/" + id:                          200,
		"/agent/" + strings.ToUpper(box) + "/api/conversations/" + id: 404,
		"/agent/%2e%2e/api/v1/app-conversations":                      404,
		"/agent/x/../../api/v1/app-conversations":                     404,
		"/agent/a%2Fb/api/conversations/" + id:                        404,
		agent + "/api/bash":                                           404,
		agent + "/api/git":                                            404,
		"/api/settings/":                                              404,
		"/sockets/events/" + id:                                       426,
		"/%61live":                                                    200,
		"/alive/":                                                     404,
	} {
		resp, body := wire(t, s, "GET", target, withKey)
		if resp.StatusCode != want || resp.Header.Get("Content-Type") != "application/json" || !json.Valid([]byte(body)) {
			t.Errorf("GET %s: %d %s %s, want %d", target, resp.StatusCode, resp.Header.Get("Content-Type"), body, want)
		}
		if resp, body := wire(t, s, "GET", target); resp.StatusCode == 200 && !strings.Contains(target, "live") {
			t.Errorf("GET %s without a key: %d %s", target, resp.StatusCode, body)
		}
	}
}

func TestOtherMethods(t *testing.T) {
	s := plain(t)
	id := s.Conversation("")
	for _, target := range []string{"/alive", "/api/settings", "/api/v1/app-conversations", "/api/v1/sandboxes/search", "/sockets/events/" + id, "/"} {
		for _, method := range []string{"OPTIONS", "TRACE", "PROPFIND", "PURGE", "get"} {
			resp, body := wire(t, s, method, target, withKey, "X-HTTP-Method-Override: GET", "X-Method-Override: GET")
			if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") == "" || !json.Valid([]byte(body)) {
				t.Errorf("%s %s: %d %s", method, target, resp.StatusCode, body)
			}
		}
	}
	// What a GET of a stream would send for ever, a HEAD does not wait for: the
	// connection serves the next request.
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	end := " HTTP/1.1\r\nHost: localhost\r\n" + withKey + "\r\n\r\n"
	in := bufio.NewReader(conn)
	for target, want := range map[string]string{"HEAD /api/v1/conversation/" + id + "/events/stream": "text/event-stream", "HEAD /alive": "application/json"} {
		for range 2 {
			if _, err := io.WriteString(conn, target+end); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(in, &http.Request{Method: "HEAD"})
			if err != nil {
				t.Fatalf("%s: %v", target, err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != want {
				t.Errorf("%s: %d %v", target, resp.StatusCode, resp.Header)
			}
		}
	}
	for _, header := range []string{"X-Big: " + strings.Repeat("x", 100<<10), strings.Repeat("X-Many: y\r\n", 10000) + "X-End: z"} {
		if resp, body := wireRefused(t, s, header); resp != nil && resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("huge headers: %d %s", resp.StatusCode, body)
		}
	}
}

// wireRefused is wire for requests that the server may cut off.
func wireRefused(t *testing.T, s *parleytest.Server, header string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(conn, "GET /alive HTTP/1.1\r\nHost: localhost\r\n"+header+"\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body)
	return resp, string(body)
}

// A query parameter that cannot be read must not count as absent: a filter that
// is dropped shows what it should hide.
func TestQueryParametersAreNeverDropped(t *testing.T) {
	s := plain(t)
	id := s.Conversation("")
	for query, want := range map[string]int{"limit=%zz": 422, "limit=": 422, "limit=1&limit=x": 422, "limit=x&limit=1": 200, "sort_order=%": 422,
		"created_at__gte=%2026": 422, "title__contains=%ff": 422, "title__contains=%C3%28": 422} {
		if resp, body := wire(t, s, "GET", "/api/v1/app-conversations/search?"+query, withKey); resp.StatusCode != want {
			t.Errorf("%s: %d %s", query, resp.StatusCode, body)
		}
	}
	for _, title := range []string{"100%", "a;b", "50% off; today", "%zz"} {
		if code := s.Call("PATCH", "/api/v1/app-conversations/"+id, map[string]any{"title": "x " + title + " y"}, nil); code != 200 {
			t.Fatalf("PATCH: %d", code)
		}
		for query, found := range map[string]bool{strings.ReplaceAll(title, " ", "+"): true, url.QueryEscape(title): true, "no" + title: false} {
			resp, body := wire(t, s, "GET", "/api/v1/app-conversations/search?title__contains="+strings.ReplaceAll(query, " ", "+"), withKey)
			if resp.StatusCode != 200 || strings.Contains(body, id) != found {
				t.Errorf("%s for the title %q: %d %s", query, title, resp.StatusCode, body)
			}
		}
	}
}

// Whatever id a legacy client chooses, the URLs handed out lead to the
// conversation.
func TestURLsOfOddConversationIDs(t *testing.T) {
	s := plain(t)
	for _, id := range []string{"my conv", `a%2Fb?x=1#y"'<&+;`, ".", "日本語", "con:1@h", "%", "-rf"} {
		var made struct {
			ID string `json:"conversation_id"`
		}
		if code := s.Call("POST", "/api/conversations", map[string]any{"conversation_id": id}, &made); code != 200 || made.ID != id {
			t.Fatalf("POST %q: %d %+v", id, code, made)
		}
		segment := strings.ReplaceAll(url.PathEscape(id), ".", "%2E")
		var legacy struct {
			ID     string `json:"conversation_id"`
			Status string `json:"status"`
			URL    string `json:"url"`
		}
		s.Eventually(id+" to run", func() bool {
			s.Call("GET", "/api/conversations/"+segment, nil, &legacy)
			return legacy.Status == "RUNNING"
		})
		if code := s.Call("GET", legacy.URL, nil, &legacy); code != 200 || legacy.ID != id {
			t.Errorf("%q: url %s opens %d %+v", id, legacy.URL, code, legacy)
		}
		var record struct {
			ID  string `json:"id"`
			URL string `json:"conversation_url"`
			Key string `json:"session_api_key"`
		}
		if code := s.Call("GET", "/api/v1/app-conversations/"+segment, nil, &record); code != 200 || record.ID != id {
			t.Errorf("%q: V1 %d %+v", id, code, record)
		}
		if _, err := url.ParseRequestURI(record.URL); err != nil || strings.ContainsAny(record.URL, " \"'<?#") {
			t.Errorf("%q: conversation_url is %q, %v", id, record.URL, err)
		}
		if code := s.CallAs(record.Key, "GET", record.URL, nil, &record); code != 200 || record.ID != id {
			t.Errorf("%q: %s opens %d %+v", id, record.URL, code, record)
		}
		if code := s.Call("DELETE", "/api/conversations/"+segment, nil, nil); code != 200 {
			t.Errorf("DELETE %q: %d", id, code)
		}
	}
}

// Web pages of others can neither read nor change anything, nor open a socket,
// even if their name resolves to this machine.
func TestForeignPages(t *testing.T) {
	s := plain(t)
	id := s.Conversation("")
	for _, origin := range []string{"http://evil.example", "null", "http://127.0.0.1.evil.example", "http://localhost.evil.example", "file://", "http://evil.example@127.0.0.1x"} {
		from := "Origin: " + origin
		for _, method := range []string{"POST", "PATCH", "DELETE"} {
			if resp, body := wire(t, s, method, "/api/v1/app-conversations/"+id, withKey, from, "Content-Length: 0"); resp.StatusCode != http.StatusForbidden {
				t.Errorf("%s from %s: %d %s", method, origin, resp.StatusCode, body)
			}
		}
		if resp, _ := wire(t, s, "GET", "/api/v1/app-conversations/"+id, withKey, from); resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("GET from %s may be read", origin)
		}
		resp, _ := wire(t, s, "OPTIONS", "/api/v1/app-conversations", from, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: x-session-api-key")
		if resp.StatusCode != http.StatusBadRequest || resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("preflight from %s: %d", origin, resp.StatusCode)
		}
		for _, upgrade := range []string{"websocket", "WebSocket", "h2c, websocket", "websocket/13"} {
			resp, _ := wire(t, s, "GET", "/sockets/events/"+id+"?session_api_key="+parleytest.Key, from, "Upgrade: "+upgrade,
				"Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==")
			if resp.StatusCode != http.StatusForbidden {
				t.Errorf("a socket (%s) from %s: %d", upgrade, origin, resp.StatusCode)
			}
		}
	}
	for _, host := range []string{"evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "169.254.169.254", "[::ffff:1.2.3.4]"} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/api/v1/app-conversations", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("X-Session-API-Key", parleytest.Key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("Host %s: %d", host, resp.StatusCode)
		}
	}
}

// goroutines reads the server's own count.
func goroutines(t *testing.T, s *parleytest.Server) int {
	t.Helper()
	_, body, err := s.Raw(t.Context(), parleytest.Key, "GET", "/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if text, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no go_goroutines in the metrics")
	return 0
}

// settle waits until the server has about as many goroutines as before.
func settle(t *testing.T, s *parleytest.Server, before int) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	s.Eventually(fmt.Sprintf("about %d goroutines", before), func() bool { return goroutines(t, s) <= before+10 })
}

// Clients that only hold connections do not keep others from being served.
func TestIdleAndSlowConnectionsHoldNobodyUp(t *testing.T) {
	const idle = 2000
	s := plain(t)
	id := s.Conversation("")
	before := goroutines(t, s)
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	address := strings.TrimPrefix(s.URL, "http://")
	starts := []string{"", "GET /alive HTTP/1.1\r\nHost: " + address + "\r\nX-Slow: ",
		"POST /api/settings HTTP/1.1\r\nHost: " + address + "\r\n" + withKey + "\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
		"POST /api/settings HTTP/1.1\r\nHost: " + address + "\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
		"GET /sockets/events/" + id + " HTTP/1.1\r\nHost: " + address + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"}
	for i := range idle {
		c, err := net.Dial("tcp", address)
		if errors.Is(err, syscall.EMFILE) {
			break // the test may not open as many files here
		}
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		if _, err := io.WriteString(c, starts[i%len(starts)]); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	for range 20 {
		if code := s.Call("GET", "/api/v1/app-conversations/"+id, nil, nil); code != 200 {
			t.Errorf("with %d connections held: %d", len(conns), code)
		}
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("with %d connections held, 20 requests took %s", len(conns), took)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	settle(t, s, before)
}

func TestSocketFramesOutOfMeasure(t *testing.T) {
	s := plain(t)
	id := s.Conversation("")
	before := goroutines(t, s)
	path := "ws" + strings.TrimPrefix(s.URL, "http") + "/sockets/events/" + id
	open := func(query string) *websocket.Conn {
		conn, _, err := websocket.Dial(t.Context(), path+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetReadLimit(64 << 20)
		t.Cleanup(func() { _ = conn.CloseNow() })
		return conn
	}
	known := "?session_api_key=" + parleytest.Key
	for name, c := range map[string]struct {
		query string
		bytes int
	}{"64 MB": {known, 64 << 20}, "64 KB of a stranger": {"", 64 << 10}} {
		conn := open(c.query)
		_ = conn.Write(s.Within(10*time.Second), websocket.MessageText, []byte(strings.Repeat("x", c.bytes))) // may be cut
		for {
			if _, _, err := conn.Read(s.Within(10 * time.Second)); err != nil {
				if code := websocket.CloseStatus(err); code != websocket.StatusMessageTooBig && code != -1 {
					t.Errorf("%s: %v", name, err)
				}
				break
			}
		}
	}
	// A message in many binary fragments, with pings between, is a message.
	conn := open(known)
	pongs := conn.Ping
	go func() { // reads the pongs as well
		for {
			if _, _, err := conn.Read(t.Context()); err != nil {
				return
			}
		}
	}()
	w, err := conn.Writer(t.Context(), websocket.MessageBinary)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("fragments ", 2000)
	raw, _ := json.Marshal(map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": text}}})
	for part := range slices.Chunk(raw, 1000) {
		if _, err := w.Write(part); err != nil {
			t.Fatal(err)
		}
		if err := pongs(s.Within(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s.WaitEvent(id, "the fragments", func(e parleytest.Event) bool { return strings.Contains(e.Text(), text) })
	s.WaitStatus(id, "finished")
	_ = conn.CloseNow()
	settle(t, s, before)
}

// Many clients that do everything at once, also to each other's conversations,
// leave nothing behind.
func TestManyClientsAtOnce(t *testing.T) {
	const clients, lasts = 50, 5 * time.Second
	s := plain(t)
	s.Conversation("") // what stays alive once used is counted before
	before := goroutines(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var shared sync.Map // ids, for others to meddle with
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), 1))
			for ctx.Err() == nil {
				oneLife(ctx, t, s, rng, &shared)
			}
		})
	}
	wg.Wait()
	var boxes, conversations struct {
		Items []struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		} `json:"items"`
	}
	s.Eventually("no sandbox to be STARTING", func() bool {
		s.Call("GET", "/api/v1/sandboxes/search", nil, &boxes)
		return !slices.ContainsFunc(boxes.Items, func(b struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		}) bool {
			return b.Status == "STARTING"
		})
	})
	for {
		s.Call("GET", "/api/v1/app-conversations/search", nil, &conversations)
		if len(conversations.Items) == 0 {
			break
		}
		for _, c := range conversations.Items {
			if code := s.Call("DELETE", "/api/v1/app-conversations/"+c.ID, nil, nil); code != 200 && code != 404 {
				t.Fatalf("DELETE %s: %d", c.ID, code)
			}
		}
	}
	for {
		s.Call("GET", "/api/v1/sandboxes/search", nil, &boxes)
		if len(boxes.Items) == 0 {
			break
		}
		for _, b := range boxes.Items {
			if code := s.Call("DELETE", "/api/v1/sandboxes/"+b.ID, nil, nil); code != 200 && code != 404 {
				t.Fatalf("DELETE sandbox %s: %d", b.ID, code)
			}
		}
	}
	settle(t, s, before)
	if took := s.Stop(); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	}
	for line := range strings.Lines(s.Log()) {
		if strings.Contains(line, "panic") || strings.Contains(line, "level=ERROR msg=request") {
			t.Errorf("in the log: %s", line)
		}
	}
}

// oneLife is what one client does with one conversation, in an order of its own.
func oneLife(ctx context.Context, t *testing.T, s *parleytest.Server, rng *rand.Rand, shared *sync.Map) {
	call := func(method, path string, body any) []byte {
		status, answer, err := s.Raw(ctx, parleytest.Key, method, path, body)
		if err == nil && status >= 500 && status != 503 {
			t.Errorf("%s %s: %d %s", method, path, status, answer)
		}
		return answer
	}
	var task struct {
		ID  string  `json:"id"`
		App *string `json:"app_conversation_id"`
		Box *string `json:"sandbox_id"`
	}
	_ = json.Unmarshal(call("POST", "/api/v1/app-conversations", map[string]any{"initial_message": map[string]any{
		"content": []any{map[string]any{"type": "text", "text": "run: true"}}}}), &task)
	var tasks []*struct {
		App *string `json:"app_conversation_id"`
		Box *string `json:"sandbox_id"`
	}
	for range rng.IntN(40) { // some do not wait until it is ready
		_ = json.Unmarshal(call("GET", "/api/v1/app-conversations/start-tasks?ids="+task.ID, nil), &tasks)
		if len(tasks) == 1 && tasks[0] != nil && tasks[0].App != nil {
			shared.Store(*tasks[0].App, *tasks[0].Box)
			break
		}
	}
	for range 1 + rng.IntN(8) {
		id, box := "none", "none"
		shared.Range(func(k, v any) bool { // the map's order is none
			id, box = k.(string), v.(string)
			return rng.IntN(4) != 0
		})
		switch rng.IntN(7) {
		case 0, 1:
			call("POST", "/api/v1/app-conversations/"+id+"/send-message", map[string]any{"content": []any{map[string]any{"type": "text", "text": "run: true"}}})
		case 2:
			call("POST", "/api/v1/sandboxes/"+box+"/pause", nil)
		case 3:
			call("POST", "/api/v1/sandboxes/"+box+"/resume", nil)
		case 4:
			call("POST", "/agent/"+box+"/api/conversations/"+id+"/interrupt", nil)
		case 5:
			call("GET", "/api/v1/conversation/"+id+"/events/search", nil)
		case 6:
			shared.Delete(id)
			call("DELETE", "/api/v1/app-conversations/"+id, nil)
		}
	}
}

// follower reads one conversation over SSE or the socket, however often it has to
// connect, and notes a gap or a double.
type follower struct {
	after int64
	err   error
}

func (f *follower) saw(seq int64) bool {
	if seq != f.after+1 && f.err == nil {
		f.err = fmt.Errorf("after %d comes %d", f.after, seq)
	}
	f.after = seq
	return f.err == nil
}

// 200 followers are told to come back when the server stops in the middle of a
// run; it is gone within 10 s; after the restart they go on where they were.
func TestTerminationWithManyFollowers(t *testing.T) {
	const followers, silent = 200, 4
	s := plain(t)
	id := s.Conversation("run: echo 1\nrun: echo 2\nslow 1\nrun: echo 3\nslow 60")
	_, key := s.AgentURL(id)
	all := make([]*follower, followers)
	var connected, ended sync.WaitGroup
	for i := range all {
		all[i] = &follower{after: -1}
		connected.Add(1)
		ended.Go(func() { followUntilTheEnd(t, s, id, key, i%2 == 0, all[i], connected.Done) })
	}
	for range silent { // clients that never read nor answer
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "GET /sockets/events/"+id+"?resend_mode=all&session_api_key="+key+" HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"+
			"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n")
	}
	connected.Wait()
	if took := s.Stop(); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	}
	ended.Wait()
	if strings.Contains(s.Log(), "deadline exceeded") {
		t.Error("the stop was not clean")
	}
	s.Again()
	s.Call("POST", "/agent/"+s.Info(id)["sandbox_id"].(string)+"/api/conversations/"+id+"/interrupt", nil, nil)
	s.WaitStatus(id, "paused", "finished", "idle")
	head := int64(len(s.Events(id)))
	for i, f := range all {
		ctx := s.Within(20 * time.Second)
		if f.after+1 < head {
			if err := s.Stream(ctx, id, f.after, func(e parleytest.Frame) bool { return e.Seq >= 0 && (!f.saw(e.Seq) || e.Seq+1 >= head) }); err != nil {
				t.Errorf("follower %d: %v", i, err)
			}
		}
		if f.err != nil || f.after+1 < head {
			t.Errorf("follower %d: saw up to %d of %d: %v", i, f.after, head, f.err)
		}
	}
}

// followUntilTheEnd reads until the server stops. ready is called once it is
// connected.
func followUntilTheEnd(t *testing.T, s *parleytest.Server, id, key string, overSSE bool, f *follower, ready func()) {
	once := sync.OnceFunc(ready)
	defer once()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if overSSE {
		_ = s.Stream(ctx, id, -1, func(e parleytest.Frame) bool { once(); return e.Seq >= 0 && !f.saw(e.Seq) })
		return
	}
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(s.URL, "http")+"/sockets/events/"+id+"?after_seq=-1&session_api_key="+key, nil)
	if err != nil {
		f.err = err
		return
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(64 << 20)
	var e parleytest.Event
	for {
		_, raw, err := conn.Read(ctx)
		if err != nil {
			resumable(f, err)
			return
		}
		once()
		if err := json.Unmarshal(raw, &e); err != nil {
			f.err = err
			return
		}
		if !fullState(e) && e.Kind() != "StreamingDeltaEvent" {
			f.saw(f.after + 1) // the socket's frames carry no number
		}
		e = nil
	}
}

// resumable checks that a socket ended with the cursor to go on from.
func resumable(f *follower, err error) {
	var closed websocket.CloseError
	switch {
	case f.err != nil:
	case !errors.As(err, &closed) || closed.Code != websocket.StatusGoingAway:
		f.err = fmt.Errorf("the socket ended with %w", err)
	case !strings.HasSuffix(closed.Reason, fmt.Sprintf("after_seq=%d", f.after)):
		f.err = fmt.Errorf("after %d frames the reason is %q", f.after+1, closed.Reason)
	}
}

// A deletion ends all followers, and leaves nothing to be read.
func TestDeletionWhileFollowersListen(t *testing.T) {
	const followers = 20
	s := plain(t)
	id := s.Conversation("run: echo 1\nslow 60")
	_, key := s.AgentURL(id)
	before := goroutines(t, s)
	var connected, ended sync.WaitGroup
	ends := make(chan string, followers)
	for i := range followers {
		connected.Add(1)
		ended.Go(func() {
			once := sync.OnceFunc(connected.Done)
			defer once()
			if i%2 == 0 {
				last := ""
				_ = s.Stream(s.Within(20*time.Second), id, -1, func(f parleytest.Frame) bool { once(); last = f.Event; return false })
				ends <- last
				return
			}
			conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http")+"/sockets/events/"+id+"?session_api_key="+key, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.CloseNow() }()
			conn.SetReadLimit(64 << 20)
			for {
				if _, _, err := conn.Read(s.Within(20 * time.Second)); err != nil {
					var closed websocket.CloseError
					_ = errors.As(err, &closed)
					ends <- closed.Reason
					return
				}
				once()
			}
		})
	}
	connected.Wait()
	if code := s.Call("DELETE", "/api/v1/app-conversations/"+id, nil, nil); code != 200 {
		t.Fatalf("DELETE: %d", code)
	}
	ended.Wait()
	close(ends)
	for end := range ends {
		if end != "deleted" {
			t.Errorf("a follower ended with %q", end)
		}
	}
	for _, path := range []string{"/api/v1/app-conversations/" + id, "/api/v1/conversation/" + id + "/events/stream"} {
		if code := s.Call("GET", path, nil, nil); code != 404 {
			t.Errorf("GET %s: %d", path, code)
		}
	}
	settle(t, s, before)
}
