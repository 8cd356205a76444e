package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/internal/account"
	"parley/internal/store"
)

// inside starts a program that listens in every sandbox: boxes of tests share the
// test's own network. It returns its port.
func inside(t testing.TB, h http.HandlerFunc) int {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().(*net.TCPAddr).Port
}

// sandbox starts a sandbox of the first user and returns its record.
func (w *world) sandbox() *store.Sandbox {
	w.Helper()
	id := w.call(200, "POST", "/api/v1/sandboxes", nil).text("id")
	w.eventually("RUNNING", func() bool {
		return w.call(200, "GET", "/api/v1/sandboxes?id="+id, nil).text(0, "status") == "RUNNING"
	})
	s, err := w.fleet.Get(w.Context(), account.FirstUserID, id)
	check(w.TB, err)
	return s
}

// browser is a client that keeps cookies as a browser does, and follows nothing.
func (w *world) browser() *browser {
	return &browser{w: w, cookies: map[string]*http.Cookie{}}
}

type browser struct {
	w       *world
	cookies map[string]*http.Cookie // by path and name
	header  http.Header
}

func (b *browser) do(method, address string, body io.Reader) (*http.Response, string) {
	b.w.Helper()
	if !strings.HasPrefix(address, "http") {
		address = b.w.server.URL + address
	}
	req, err := http.NewRequestWithContext(b.w.Context(), method, address, body)
	check(b.w.TB, err)
	for k, v := range b.header {
		req.Header[k] = v
	}
	if h := req.Header.Get("Host"); h != "" {
		req.Host = h
	}
	for _, c := range b.cookies {
		if req.URL.Path == c.Path || strings.HasPrefix(req.URL.EscapedPath(), strings.TrimRight(c.Path, "/")+"/") {
			req.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
		}
	}
	resp, err := b.w.server.Client().Transport.RoundTrip(req)
	check(b.w.TB, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	check(b.w.TB, err)
	for _, c := range resp.Cookies() {
		b.cookies[c.Path+" "+c.Name] = c
	}
	return resp, string(text)
}

func (b *browser) get(address string) (*http.Response, string) {
	b.w.Helper()
	return b.do("GET", address, nil)
}

func preview(s *store.Sandbox, port int) string {
	return "/agent/" + s.ID + "/ports/" + strconv.Itoa(port)
}

// keyed calls a preview with a key in its header.
func (w *world) keyed(key, path string, more ...string) *answer {
	w.Helper()
	h := http.Header{"X-Session-Api-Key": {key}}
	for i := 0; i+1 < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return w.request(w.server.URL, "GET", path, h, nil)
}

func TestPreviewShowsWhatAProgramServes(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	var got *http.Request
	port := inside(t, func(rw http.ResponseWriter, r *http.Request) {
		got = r.Clone(context.Background())
		rw.Header().Set("X-Own", "yes")
		rw.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(rw, "hello "+r.Method)
	})
	at := preview(s, port)
	for _, key := range []string{userKey, s.SessionKey.Reveal()} {
		a := w.keyed(key, at+"/a%2Fb//c%20d/?x=1&y=%zz", "Authorization", "Bearer of-the-app", "Cookie", "theirs=1; parley_preview=secret; Parley_x=2",
			"Origin", w.server.URL, "X-Forwarded-For", "6.6.6.6", "X-Access-Token", key)
		if a.is(418); string(a.body) != "hello GET" || a.header.Get("X-Own") != "yes" {
			t.Errorf("%s %v", a.body, a.header)
		}
	}
	if got.RequestURI != "/a%2Fb//c%20d/?x=1&y=%zz" {
		t.Errorf("the path came as %s", got.RequestURI)
	}
	host := fmt.Sprintf("localhost:%d", port)
	for name, want := range map[string]string{"X-Session-Api-Key": "", "X-Access-Token": "", "Authorization": "Bearer of-the-app", "Cookie": "theirs=1",
		"X-Forwarded-Prefix": at, "X-Forwarded-Proto": "http", "X-Forwarded-Host": strings.TrimPrefix(w.server.URL, "http://"),
		"X-Forwarded-For": "6.6.6.6", // the test is a proxy on loopback
		"Origin":          "http://" + host} {
		if v := strings.Join(got.Header.Values(name), "|"); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
	if got.Host != host {
		t.Errorf("Host %s", got.Host)
	}
	w.keyedBearer(at, userKey)
	if got.Header.Get("Authorization") != "" {
		t.Error("a key of ours reaches the program")
	}
	if strings.Contains(w.log.String(), "secret") {
		t.Error("a cookie is in the log")
	}
}

func (w *world) keyedBearer(path, key string) {
	w.Helper()
	w.request(w.server.URL, "GET", path+"/", http.Header{"Authorization": {"Bearer " + key}}, nil).is(418)
}

func TestPreviewIsNotForEverybody(t *testing.T) {
	w := newWorld(t)
	s, other := w.sandbox(), w.sandbox()
	reached := false
	port := inside(t, func(http.ResponseWriter, *http.Request) { reached = true })
	at := preview(s, port)
	for name, x := range map[string]struct {
		path, key string
		want      int
	}{
		"no key":                    {at + "/", "", 401},
		"a wrong key":               {at + "/", "wrong", 401},
		"another user":              {at + "/", otherKey, 404},
		"another sandbox's key":     {at + "/", other.SessionKey.Reveal(), 401},
		"an unknown sandbox":        {preview(&store.Sandbox{ID: "sb-none"}, port) + "/", userKey, 404},
		"no port":                   {"/agent/" + s.ID + "/ports/", userKey, 404},
		"port 0":                    {preview(s, 0) + "/", userKey, 404},
		"a port too high":           {preview(s, 65536) + "/", userKey, 404},
		"a port written otherwise":  {"/agent/" + s.ID + "/ports/0" + strconv.Itoa(port) + "/", userKey, 404},
		"a sign":                    {"/agent/" + s.ID + "/ports/+" + strconv.Itoa(port) + "/", userKey, 404},
		"an escaped slash":          {"/agent/" + s.ID + "/ports/" + strconv.Itoa(port) + "%2f..%2f", userKey, 404},
		"dots":                      {at + "/../../../../alive", userKey, 404},
		"a bad ticket":              {at + "/?ticket=parley-ticket-x", "", 401},
		"a cookie of nobody":        {at + "/", "", 401},
		"the key in the query":      {at + "/?session_api_key=" + userKey, "", 401},
		"escaped digits":            {"/agent/" + s.ID + "/ports/%3" + strconv.Itoa(port)[:1] + strconv.Itoa(port)[1:] + "/", userKey, 404},
		"a slash before the number": {"/agent/" + s.ID + "/ports//" + strconv.Itoa(port) + "x/", userKey, 404},
	} {
		h := http.Header{"Cookie": {"parley_preview=guessed"}}
		if x.key != "" {
			h.Set("X-Session-Api-Key", x.key)
		}
		req, err := http.NewRequestWithContext(t.Context(), "GET", w.server.URL, nil)
		check(t, err)
		req.URL, err = url.Parse(w.server.URL + x.path)
		check(t, err)
		req.Header = h
		resp, err := w.server.Client().Transport.RoundTrip(req)
		check(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != x.want || resp.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d, want %d", name, resp.StatusCode, x.want)
		}
	}
	if reached {
		t.Error("a request reached the program")
	}
}

func TestPreviewTellsWhatIsWrong(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	port := lis.Addr().(*net.TCPAddr).Port
	check(t, lis.Close())
	at := preview(s, port) + "/"
	a := w.keyed(userKey, at).is(502)
	if a.text("code") != "port_closed" || !strings.Contains(a.text("detail"), "Nothing listens") {
		t.Errorf("%s", a.body)
	}
	page := w.keyed(userKey, at, "Accept", "text/html,*/*").is(502)
	if text := string(page.body); !strings.Contains(text, "Nothing listens on port "+strconv.Itoa(port)) || !strings.Contains(text, "port_closed") ||
		!strings.HasPrefix(page.header.Get("Content-Type"), "text/html") || !strings.Contains(page.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%s %v", text, page.header)
	}
	broken, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer func() { _ = broken.Close() }()
	go func() {
		for {
			conn, err := broken.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "SSH-2.0-x\r\n")
			_ = conn.Close()
		}
	}()
	if a := w.keyed(userKey, preview(s, broken.Addr().(*net.TCPAddr).Port)+"/").is(502); a.text("code") != "preview_broken" {
		t.Errorf("%s", a.body)
	}
	running := inside(t, func(http.ResponseWriter, *http.Request) { t.Error("a paused sandbox was reached") })
	w.call(200, "POST", "/api/v1/sandboxes/"+s.ID+"/pause", nil)
	for _, mode := range []string{"", "navigate"} { // not even a user who goes there wakes it
		if a := w.keyed(userKey, preview(s, running)+"/", "Sec-Fetch-Mode", mode, "Sec-Fetch-User", "?1").is(409); a.text("code") != "sandbox_paused" {
			t.Errorf("%s", a.body)
		}
	}
	if got := w.call(200, "GET", "/api/v1/sandboxes?id="+s.ID, nil); got.text(0, "status") != "PAUSED" {
		t.Errorf("a preview woke a sandbox: %s", got.body)
	}
	b := w.browser()
	b.get(w.call(200, "POST", "/api/v1/sandboxes/"+s.ID+"/ports/80/ticket", nil).text("url"))
	w.call(200, "DELETE", "/api/v1/sandboxes/"+s.ID, nil)
	if resp, text := b.get(preview(s, 80) + "/"); resp.StatusCode != 410 || !strings.Contains(text, "sandbox_missing") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	w.keyed(userKey, preview(s, 80)+"/").is(404)
}

func TestPreviewInABrowser(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	port := inside(t, func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, r.RequestURI) })
	at := preview(s, port)
	ticketPath := "/api/v1/sandboxes/" + s.ID + "/ports/" + strconv.Itoa(port) + "/ticket"
	w.as(otherKey, "POST", ticketPath, nil).is(404)
	w.as("", "POST", ticketPath, nil).is(401)
	w.as(s.SessionKey.Reveal(), "POST", ticketPath, nil).is(401)
	w.call(422, "POST", "/api/v1/sandboxes/"+s.ID+"/ports/0/ticket", nil)
	w.call(404, "POST", "/api/v1/sandboxes/sb-none/ports/80/ticket", nil)
	link := w.call(200, "POST", ticketPath, nil).text("url")
	if !strings.HasPrefix(link, w.server.URL+at+"/?ticket=parley-ticket-") {
		t.Fatal(link)
	}
	b := w.browser()
	if resp, _ := b.do("HEAD", link, nil); resp.StatusCode != 401 || len(b.cookies) > 0 { // somebody only looks at the address
		t.Errorf("HEAD: %d", resp.StatusCode)
	}
	deep := strings.Replace(link, "/?", "/docs//x?a=1&", 1)
	resp, _ := b.get(deep)
	if resp.StatusCode != 303 || resp.Header.Get("Location") != at+"/docs//x?a=1" || resp.Header.Get("Cache-Control") == "" {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	cookie := resp.Header.Get("Set-Cookie")
	for _, want := range []string{"Path=" + at + ";", "HttpOnly", "SameSite=Lax", "Max-Age="} {
		if !strings.Contains(cookie, want) {
			t.Errorf("%s has no %s", cookie, want)
		}
	}
	if strings.Contains(cookie, "Secure") { // it would not be kept
		t.Error(cookie)
	}
	if resp, text := b.get(resp.Header.Get("Location")); resp.StatusCode != 200 || text != "/docs//x?a=1" {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	if resp, text := b.get(at + "?q=1"); resp.StatusCode != 307 || resp.Header.Get("Location") != at+"/?q=1" {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	if resp, _ := w.browser().get(link); resp.StatusCode != 401 || resp.Header.Get("Set-Cookie") != "" {
		t.Errorf("a ticket works twice: %d", resp.StatusCode)
	}
	// A cookie opens nothing else, however it comes there.
	secret, _, _ := strings.Cut(cookie, ";")
	for _, path := range []string{preview(s, port+1) + "/", preview(w.sandbox(), port) + "/", "/agent/" + s.ID + "/api/conversations/search",
		"/api/v1/sandboxes/search", "/api/v1/app-conversations"} {
		for _, origin := range []string{"", "null", w.server.URL} {
			for _, method := range []string{"GET", "POST"} {
				h := http.Header{"Cookie": {secret}, "Content-Type": {"application/json"}}
				if origin != "" {
					h.Set("Origin", origin)
				}
				a := w.request(w.server.URL, method, path, h, "{}")
				want := 401
				if origin == "null" && method == "POST" {
					want = 403
				}
				if a.status != want && a.status != 404 && a.status != 405 {
					t.Errorf("%s %s from %q: %d %s", method, path, origin, a.status, a.body)
				}
			}
		}
	}
	// Another page cannot use the cookie to change something in the preview.
	if a := w.request(w.server.URL, "POST", at+"/", http.Header{"Cookie": {secret}, "Origin": {"null"}}, "x"); a.status != 403 {
		t.Errorf("%d", a.status)
	}
	if a := w.request(w.server.URL, "POST", at+"/", http.Header{"Cookie": {secret}, "Origin": {"https://evil.example"}}, "x"); a.status != 403 {
		t.Errorf("%d", a.status)
	}
}

func TestPreviewCookieIsSecureWhereTheServerIs(t *testing.T) {
	w := newWorldWith(t, func(c *config) { c.guard.URLs.Public = mustParse(t, "https://example.org/par%20ley") })
	s := w.sandbox()
	link := w.call(200, "POST", "/api/v1/sandboxes/"+s.ID+"/ports/80/ticket", nil).text("url")
	if !strings.HasPrefix(link, "https://example.org/par%20ley"+preview(s, 80)+"/?ticket=") {
		t.Fatal(link)
	}
	resp, _ := w.browser().get(strings.TrimPrefix(link, "https://example.org"))
	cookie := resp.Header.Get("Set-Cookie")
	if resp.StatusCode != 303 || resp.Header.Get("Location") != "/par%20ley"+preview(s, 80)+"/" ||
		!strings.Contains(cookie, "Secure") || !strings.Contains(cookie, "Path=/par%20ley"+preview(s, 80)+";") {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
}

// hostile answers with everything that a page should not be able to do.
func hostile(rw http.ResponseWriter, r *http.Request) {
	h := rw.Header()
	for name, value := range map[string]string{"Service-Worker-Allowed": "/", "Clear-Site-Data": `"*"`, "Strict-Transport-Security": "max-age=1",
		"Access-Control-Allow-Origin": "*", "X-Accel-Redirect": "/internal/", "X-Sendfile": "/etc/passwd", "Alt-Svc": `h2="evil:443"`,
		"Referrer-Policy": "unsafe-url", "X-Content-Type-Options": "off", "Content-Security-Policy": "sandbox allow-same-origin allow-scripts",
		"Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "public, max-age=60, s-maxage=99", "NEL": "{}", "X-Request-Id": "theirs",
		"X-Frame-Options": "SAMEORIGIN"} {
		h.Set(name, value)
	}
	for _, c := range []string{"parley_preview=evil; Path=/", "PARLEY_PREVIEW=evil", "=parley_preview=evil", "a=1; Path=/; Domain=example.org; HttpOnly",
		"b=2; Path=/app", "c=3", "d=4; Path=" + r.Header.Get("X-Forwarded-Prefix") + "/in; SameSite=None; Secure", "bad name=1", "e=5; Path=/; Max-Age=x; Expires=never"} {
		h.Add("Set-Cookie", c)
	}
	_, _ = io.WriteString(rw, "page")
}

func TestPreviewOfAHostilePage(t *testing.T) {
	for _, shared := range []bool{false, true} {
		w := newWorldWith(t, func(c *config) { c.agent.Previews.SharedOrigin = shared })
		s := w.sandbox()
		at := preview(s, inside(t, hostile))
		a := w.keyed(userKey, at+"/").is(200)
		for _, name := range []string{"Service-Worker-Allowed", "Clear-Site-Data", "Strict-Transport-Security", "Access-Control-Allow-Origin",
			"X-Accel-Redirect", "X-Sendfile", "Alt-Svc", "Nel"} {
			if v := a.header.Values(name); len(v) > 0 {
				t.Errorf("%s: %q", name, v)
			}
		}
		referrer := map[bool]string{false: "no-referrer", true: "same-origin"}[shared]
		for name, want := range map[string]string{"Referrer-Policy": referrer, "X-Content-Type-Options": "nosniff", "Cache-Control": "private, max-age=60"} {
			if v := a.header.Values(name); len(v) != 1 || v[0] != want {
				t.Errorf("%s: %q", name, v)
			}
		}
		if id := a.header.Values("X-Request-Id"); len(id) != 1 || id[0] == "theirs" {
			t.Errorf("%q", id)
		}
		policies := a.header.Values("Content-Security-Policy")
		ours := policies[len(policies)-1]
		if len(policies) != 2 || !strings.Contains(ours, "frame-ancestors 'self'") || strings.Contains(ours, "sandbox allow-scripts") == shared ||
			strings.Contains(ours, "allow-same-origin") {
			t.Errorf("%q", policies)
		}
		if opener := a.header.Get("Cross-Origin-Opener-Policy"); (opener == "") == shared {
			t.Errorf("opener policy %q", opener)
		}
		got := strings.Join(a.header.Values("Set-Cookie"), "\n")
		want := "a=1; Path=" + at + "; HttpOnly\nb=2; Path=" + at + "/app\nc=3; Path=" + at + "\nd=4; Path=" + at + "/in; Secure; SameSite=None\ne=5; Path=" + at
		if got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestPreviewRedirectsStayInIt(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	port := inside(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Location", r.URL.Query().Get("to"))
		rw.WriteHeader(http.StatusFound)
	})
	at, own := preview(s, port), strings.TrimPrefix(w.server.URL, "http://")
	n := strconv.Itoa(port)
	for to, want := range map[string]string{
		"/login?x=1#y":                     at + "/login?x=1#y",
		"login":                            "login",
		"?x=1":                             "?x=1",
		at + "/deep":                       at + "/deep",
		at:                                 at,
		at + "x":                           at + at + "x",
		"http://localhost:" + n + "/a":     at + "/a",
		"http://127.0.0.1:" + n:            at + "/",
		"http://[::1]:" + n + "/a?b":       at + "/a?b",
		"http://0.0.0.0:" + n + "/a":       at + "/a",
		"https://LOCALHOST:" + n + "/a":    at + "/a",
		"//localhost:" + n + "/a":          at + "/a",
		"http://localhost:1/a":             preview(s, 1) + "/a",
		"http://" + own + "/a":             at + "/a",
		"http://" + own + at + "/a":        at + "/a",
		"https://example.org/a":            "https://example.org/a",
		"//example.org/a":                  "//example.org/a",
		"http://user@localhost:" + n + "/": "http://user@localhost:" + n + "/",
		"mailto:a@b":                       "mailto:a@b",
	} {
		resp, _ := (&browser{w: w, header: http.Header{"X-Session-Api-Key": {userKey}}}).get(at + "/?to=" + url.QueryEscape(to))
		if got := resp.Header.Get("Location"); got != want {
			t.Errorf("%s leads to %s, want %s", to, got, want)
		}
	}
}

func TestPreviewSockets(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	port := inside(t, func(rw http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(rw, r, &websocket.AcceptOptions{Subprotocols: []string{"hmr"}}) // its own check of Origin is on
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		for {
			kind, data, err := conn.Read(r.Context())
			if err != nil || conn.Write(r.Context(), kind, append([]byte("echo "), data...)) != nil {
				return
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, resp, err := w.dialWith(preview(s, port)+"/ws", &websocket.DialOptions{Subprotocols: []string{"hmr"},
		HTTPHeader: http.Header{"X-Session-Api-Key": {userKey}, "Origin": {w.server.URL}}})
	check(t, err)
	if resp.Header.Get("X-Frame-Options") != "" || conn.Subprotocol() != "hmr" {
		t.Errorf("%v %q", resp.Header, conn.Subprotocol())
	}
	for i := range 3 {
		check(t, conn.Write(ctx, websocket.MessageText, fmt.Append(nil, i)))
		if _, data, err := conn.Read(ctx); err != nil || string(data) != fmt.Sprint("echo ", i) {
			t.Fatalf("%q %v", data, err)
		}
	}
	check(t, conn.Close(websocket.StatusNormalClosure, ""))
	for name, h := range map[string]http.Header{"a foreign page": {"X-Session-Api-Key": {userKey}, "Origin": {"https://evil.example"}},
		"an opaque page": {"X-Session-Api-Key": {userKey}, "Origin": {"null"}}, "nobody": {}} {
		if _, resp, err := w.dialWith(preview(s, port)+"/ws", &websocket.DialOptions{HTTPHeader: h}); err == nil || resp.StatusCode != 403 && resp.StatusCode != 401 {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The server's end ends what is open.
	left, _, err := w.dialWith(preview(s, port)+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"X-Session-Api-Key": {userKey}}})
	check(t, err)
	check(t, w.streams.Drain(ctx))
	if _, _, err := left.Read(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("a socket outlives the server: %v", err)
	}
	if !strings.Contains(w.log.String(), "status=101") {
		t.Error("the log does not say that the protocol was switched")
	}
}

// A stream of events arrives as it is sent, and ends when the client leaves.
func TestPreviewStreams(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	proceed, ended := make(chan struct{}), make(chan struct{})
	port := inside(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		rw.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(rw, "data: 1\n\n")
		_ = http.NewResponseController(rw).Flush()
		<-proceed
		_, _ = io.WriteString(rw, "data: 2\n\n")
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
		close(ended)
	})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, "GET", w.server.URL+preview(s, port)+"/events", nil)
	check(t, err)
	req.Header.Set("X-Session-API-Key", userKey)
	resp, err := w.server.Client().Do(req)
	check(t, err)
	defer func() { _ = resp.Body.Close() }()
	buf := make([]byte, 9)
	_, err = io.ReadFull(resp.Body, buf)
	check(t, err)
	if string(buf) != "data: 1\n\n" || resp.Header.Get("X-Accel-Buffering") != "no" || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%q %v", buf, resp.Header)
	}
	close(proceed)
	_, err = io.ReadFull(resp.Body, buf)
	check(t, err)
	leave()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the program does not learn that the client left")
	}
}

// filler is a body of so many bytes that nobody keeps.
type filler struct{ left int }

func (f *filler) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), f.left)
	for i := range p[:n] {
		p[i] = byte(f.left - i)
	}
	f.left -= n
	return n, nil
}

// A body of 100 MB goes through in both directions at once: the program answers
// while it reads. More than the pipes between hold would block it otherwise.
func TestPreviewBodiesAreNotHeld(t *testing.T) {
	const size = 100 << 20
	w := newWorld(t)
	s := w.sandbox()
	port := inside(t, func(rw http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(rw).EnableFullDuplex()
		rw.WriteHeader(http.StatusOK)
		_, _ = io.Copy(rw, r.Body)
	})
	req, err := http.NewRequestWithContext(t.Context(), "POST", w.server.URL+preview(s, port)+"/", &filler{size})
	check(t, err)
	req.Header.Set("X-Session-API-Key", userKey)
	resp, err := w.server.Client().Do(req)
	check(t, err)
	defer func() { _ = resp.Body.Close() }()
	want, got := sha256.New(), sha256.New()
	_, err = io.Copy(want, &filler{size})
	check(t, err)
	n, err := io.Copy(got, resp.Body)
	if err != nil || n != size || !bytes.Equal(want.Sum(nil), got.Sum(nil)) {
		t.Errorf("%d bytes %s, %v", n, hex.EncodeToString(got.Sum(nil)), err)
	}
}

// A program that answers without reading what it is sent leaves the connection as it
// should be: what is left is not taken for another request.
func TestPreviewOfWhatIsNotRead(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	port := inside(t, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "no") })
	for _, size := range []int{1, 1000, 100 << 10, 5 << 20} {
		for range 20 {
			req, err := http.NewRequestWithContext(t.Context(), "POST", w.server.URL+preview(s, port)+"/", &filler{size})
			check(t, err)
			req.ContentLength = int64(size)
			req.Header.Set("X-Session-API-Key", userKey)
			resp, err := w.server.Client().Do(req)
			if size > 1<<20 && err != nil {
				continue // the program hung up while the body was sent
			}
			check(t, err)
			text, err := io.ReadAll(resp.Body)
			if resp.StatusCode == 502 && size > 1<<20 {
				continue
			}
			if check(t, err); resp.StatusCode != 200 || string(text) != "no" {
				t.Fatalf("%d %s", resp.StatusCode, text)
			}
			check(t, resp.Body.Close())
		}
	}
	if strings.Contains(w.log.String(), "level=ERROR") {
		t.Error(w.log.String())
	}
}

func TestPreviewIsBounded(t *testing.T) {
	impatient := newWorldWith(t, func(c *config) { c.agent.Previews.FirstByte = 50 * time.Millisecond })
	never := inside(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if a := impatient.keyed(userKey, preview(impatient.sandbox(), never)+"/").is(504); a.text("code") != "preview_timeout" {
		t.Errorf("%s", a.body)
	}
	w := newWorldWith(t, func(c *config) { c.agent.Previews.Connections = 1 })
	s := w.sandbox()
	proceed := make(chan struct{})
	slow := inside(t, func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/headers":
			rw.Header().Set("X-Long", strings.Repeat("x", 300<<10))
		case "/stream":
			_ = http.NewResponseController(rw).Flush()
			<-proceed
		}
	})
	at := preview(s, slow)
	if a := w.keyed(userKey, at+"/headers").is(502); a.text("code") != "preview_broken" {
		t.Errorf("%s", a.body)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", w.server.URL+at+"/stream", nil)
	check(t, err)
	req.Header.Set("X-Session-API-Key", userKey)
	resp, err := w.server.Client().Do(req)
	check(t, err)
	if a := w.keyed(userKey, at+"/").is(429); a.text("code") != "too_many_previews" {
		t.Errorf("%s", a.body)
	}
	w.keyed(userKey, preview(w.sandbox(), slow)+"/").is(200) // another sandbox's are its own
	close(proceed)
	_, err = io.Copy(io.Discard, resp.Body)
	check(t, err)
	check(t, resp.Body.Close())
	w.eventually("a free place", func() bool { return w.keyed(userKey, at+"/").status == 200 })
}

// A preview with an origin of its own needs no opaque one, and reaches nothing else.
func TestPreviewWithAnOriginOfItsOwn(t *testing.T) {
	w := newWorldWith(t, func(c *config) { c.guard.URLs.PreviewHost = "localhost" })
	s := w.sandbox()
	port := inside(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/go" {
			rw.Header().Set("Location", "http://localhost:"+strconv.Itoa(r.Context().Value(http.LocalAddrContextKey).(net.Addr).(*net.TCPAddr).Port)+"/x")
			rw.WriteHeader(http.StatusFound)
			return
		}
		rw.Header().Set("Set-Cookie", "a=1; Path=/; Domain=localhost")
		_, _ = io.WriteString(rw, r.RequestURI+" "+r.Header.Get("X-Forwarded-Prefix")+" "+r.Header.Get("X-Forwarded-Host"))
	})
	link := w.call(200, "POST", "/api/v1/sandboxes/"+s.ID+"/ports/"+strconv.Itoa(port)+"/ticket", nil).text("url")
	u := mustParse(t, link)
	if !strings.HasPrefix(u.Host, strconv.Itoa(port)+"-"+s.ID+".localhost:") || u.Path != "/" {
		t.Fatal(link)
	}
	b := w.browser()
	b.header = http.Header{"Host": {u.Host}}
	resp, _ := b.get(u.RequestURI())
	if resp.StatusCode != 303 || resp.Header.Get("Location") != "/" || !strings.Contains(resp.Header.Get("Set-Cookie"), "Path=/;") {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	resp, text := b.get("/api/v1/settings?x")
	policies := strings.Join(resp.Header.Values("Content-Security-Policy"), "")
	if resp.StatusCode != 200 || text != "/api/v1/settings?x  "+u.Host || strings.Contains(policies, "sandbox") || resp.Header.Get("Set-Cookie") != "a=1; Path=/" ||
		policies != "frame-ancestors 'self' http://localhost:"+u.Port() {
		t.Errorf("%d %s %v", resp.StatusCode, text, resp.Header)
	}
	if resp, _ := b.get("/go"); resp.Header.Get("Location") != "/x" {
		t.Errorf("%v", resp.Header)
	}
	for origin, want := range map[string]int{"http://" + u.Host: 200, "http://localhost:" + u.Port(): 403, "null": 403,
		"http://1-" + s.ID + ".localhost:" + u.Port(): 403} {
		b.header.Set("Origin", origin)
		if resp, text := b.do("POST", "/", strings.NewReader("x")); resp.StatusCode != want {
			t.Errorf("%s: %d %s", origin, resp.StatusCode, text)
		}
	}
	a := w.do("POST", "/api/v1/sandboxes/"+s.ID+"/pause", http.Header{"X-Session-Api-Key": {userKey}, "Origin": {"http://" + u.Host}}, nil)
	if a.status != 403 || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a preview uses the API: %d %v", a.status, a.header)
	}
	for host, want := range map[string]int{"0-" + s.ID: 404, "80-sb-none": 401, "x": 404, strconv.Itoa(port+1) + "-" + s.ID: 401} {
		b := w.browser()
		b.header = http.Header{"Host": {host + ".localhost:" + u.Port()}}
		if resp, text := b.get("/api/v1/app-conversations"); resp.StatusCode != want {
			t.Errorf("%s: %d %s", host, resp.StatusCode, text)
		}
	}
}
