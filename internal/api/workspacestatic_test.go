package api_test

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"parley/internal/api/httpkit"
)

// conversed is a place with a conversation that works in it.
func conversed(t testing.TB) (*place, string) {
	t.Helper()
	w := newWorld(t)
	id, record := w.begin(map[string]any{})
	s, err := w.fleet.Get(t.Context(), "", record.text("sandbox_id"))
	check(t, err)
	return &place{w, s, record.text("workspace", "working_dir")}, id
}

// get asks without the document, as a browser does.
func (p *place) get(path string, header http.Header) *answer {
	p.Helper()
	if header == nil {
		header = http.Header{}
	}
	return p.request(p.server.URL, "GET", path, header, nil)
}

// sessionCookie opens a session and returns its cookie.
func (p *place) sessionCookie(path string, key string) *http.Cookie {
	p.Helper()
	a := p.as(key, "POST", path, nil).is(204)
	c, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
	check(p.TB, err)
	return c
}

func TestWorkspaceSession(t *testing.T) {
	p, id := conversed(t)
	p.write("index.html", "<p>hello</p>")
	key := p.box.SessionKey.Reveal()
	c := p.sessionCookie("/api/auth/workspace-session", key)
	if c.Name != "oh_workspace_session_key" || c.Value != key || c.Path != "/api/conversations" || !c.HttpOnly || !c.Secure || !c.Partitioned ||
		c.SameSite != http.SameSiteNoneMode || c.MaxAge != 315360000 {
		t.Errorf("%+v", c)
	}
	cookie := http.Header{"Cookie": {c.Name + "=" + c.Value}}
	if a := p.get("/api/conversations/"+id+"/workspace/", cookie).is(200); string(a.body) != "<p>hello</p>" {
		t.Errorf("%s", a.body)
	}
	// A user's key is never in a cookie, and the cookie opens nothing else.
	prefix := "/agent/" + p.box.ID
	below := p.sessionCookie(prefix+"/api/auth/workspace-session", userKey)
	if below.Value != key || below.Path != prefix+"/api/conversations" {
		t.Errorf("%+v", below)
	}
	p.get(prefix+"/api/conversations/"+id+"/workspace/index.html", cookie).is(200)
	for _, path := range []string{prefix + "/api/conversations/" + id, prefix + "/api/conversations", query(prefix+"/api/file/download", p.file("index.html")), prefix + "/api/settings/secrets"} {
		p.get(path, cookie).is(401)
	}
	p.get("/api/conversations/"+id+"/workspace/", nil).is(401)
	p.get("/api/conversations/"+id+"/workspace/", http.Header{"Cookie": {c.Name + "=wrong; " + c.Name + "=" + key}}).is(200)
	p.get("/api/conversations/"+id+"/workspace/", http.Header{"Cookie": {c.Name + "=" + p.sandbox().SessionKey.Reveal()}}).is(404)
	p.do("POST", prefix+"/api/auth/workspace-session", http.Header{"Cookie": cookie["Cookie"]}, nil).is(401)

	gone := p.as(key, "DELETE", "/api/auth/workspace-session", nil).is(204)
	if c, err := http.ParseSetCookie(gone.header.Get("Set-Cookie")); err != nil || c.Value != "" || c.MaxAge >= 0 || c.Path != "/api/conversations" {
		t.Errorf("%v %v", c, err)
	}
}

func TestWorkspaceSessionBehindAProxy(t *testing.T) {
	w := newWorldWith(t, func(c *config) {
		c.guard.URLs.Public = mustParse(t, "https://parley.example/base")
		c.guard.AllowedHosts = []string{"*"}
	})
	box := w.sandbox()
	p := &place{w, box, box.WorkingDir}
	if c := p.sessionCookie("/api/auth/workspace-session", box.SessionKey.Reveal()); c.Path != "/base/api/conversations" || !c.Secure || !c.Partitioned {
		t.Errorf("%+v", c)
	}
}

func TestWorkspaceFiles(t *testing.T) {
	p, id := conversed(t)
	key := http.Header{"X-Session-Api-Key": {p.box.SessionKey.Reveal()}}
	p.write("page.html", "<script>alert(1)</script>")
	p.write("sub/index.html", "sub")
	p.write("app.js", "let x")
	p.write("README", "plain text")
	p.write("data.unknownext", "\x00\x01\x02")
	p.write("large.bin", strings.Repeat("0123456789abcdef", 6<<16))
	p.write("empty", "")
	base := "/api/conversations/" + id + "/workspace"
	for name, media := range map[string]string{"page.html": "text/html; charset=utf-8", "app.js": "text/javascript; charset=utf-8", "README": "text/plain; charset=utf-8",
		"data.unknownext": "application/octet-stream", "large.bin": "application/octet-stream", "empty": "text/plain; charset=utf-8"} {
		a := p.get(base+"/"+name, key).is(200)
		want, err := os.ReadFile(p.file(name))
		check(t, err)
		h := a.header
		if string(a.body) != string(want) || name != "large.bin" && h.Get("Content-Type") != media {
			t.Errorf("%s: %q, %d bytes of %d", name, h.Get("Content-Type"), len(a.body), len(want))
		}
		if csp := h.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "sandbox ") || strings.Contains(csp, "allow-same-origin") ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Frame-Options") != "" || !strings.Contains(h.Get("Cache-Control"), "no-store") {
			t.Errorf("%s: %v", name, h)
		}
	}
	if a := p.get(base+"/sub/", key).is(200); string(a.body) != "sub" {
		t.Errorf("%s", a.body)
	}
	if a := p.get(base+"/sub", key); string(a.body) != "sub" { // redirected
		t.Errorf("%d %s", a.status, a.body)
	}
	check(t, os.Symlink("/etc", p.file("etc")))
	check(t, os.Symlink("README", p.file("link")))
	check(t, os.Symlink("/proc/self/root/etc/passwd", p.file("passwd")))
	if a := p.get(base+"/link", key).is(200); string(a.body) != "plain text" {
		t.Errorf("%s", a.body)
	}
	for path, want := range map[string]int{"/missing": 404, "/sub/missing": 404, "/%2e%2e/x": 400, "/sub%2F..%2F..%2F..%2Fetc%2Fpasswd": 400, "/etc/passwd": 400, "/passwd": 400, "/a%00b": 400} {
		if a := p.get(base+path, key); a.status != want && a.status != 404 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		} else if strings.Contains(string(a.body), "root:") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	if exec.Command("mkfifo", p.file("pipe")).Run() == nil {
		p.get(base+"/pipe", key).is(400)
	}
	p.get("/api/conversations/00000000-0000-4000-8000-000000000000/workspace/README", key).is(404)
	p.get("/api/conversations/"+id+"/workspacex", key).is(404)
	if a := p.request(p.server.URL, "HEAD", base+"/README", key, nil).is(200); len(a.body) != 0 || a.header.Get("Content-Length") != "10" {
		t.Errorf("%v", a.header)
	}
}

func TestPreviewsDoNotSeeTheWorkspaceCookie(t *testing.T) {
	w := newWorld(t)
	box := w.sandbox()
	port := inside(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Add("Set-Cookie", "oh_workspace_session_key=forged")
		_, _ = rw.Write([]byte(r.Header.Get("Cookie")))
	})
	a := w.request(w.server.URL, "GET", strings.TrimPrefix(httpkit.PreviewURL("", box.ID, port), ""), http.Header{
		"X-Session-Api-Key": {box.SessionKey.Reveal()}, "Cookie": {"oh_workspace_session_key=secret; own=1"}}, nil).is(200)
	if string(a.body) != "own=1" || a.header.Get("Set-Cookie") != "" {
		t.Errorf("%s %v", a.body, a.header)
	}
}

func TestEditorAndDesktop(t *testing.T) {
	p := newPlace(t, nil)
	p.agent(503, "GET", "/api/desktop/url", nil)
	status := p.agent(200, "GET", "/api/vscode/status", nil)
	if status.at("running") != false || status.at("enabled") != false || status.text("message") == "" {
		t.Errorf("%s", status.body)
	}
	p.agent(503, "GET", "/api/vscode/url?base_url=http://x", nil)
}

func TestEditorLinkOpensItOnce(t *testing.T) {
	fakeEditor(t, "openvscode-server", "exec sleep 1000\n")
	p := newPlace(t, nil)
	p.eventually("the editor", func() bool {
		return p.agent(200, "GET", "/api/vscode/status", nil).at("enabled") == true
	})
	link := mustParse(t, p.agent(200, "GET", "/api/vscode/url?workspace_dir=/elsewhere", nil).text("url"))
	if link.Query().Get("folder") != "/elsewhere" || !strings.Contains(link.Path, "/ports/") {
		t.Errorf("%s", link)
	}
	a := p.as(p.box.SessionKey.Reveal(), "GET", "/api/vscode/url", nil).is(200)
	if folder := mustParse(t, a.text("url")).Query().Get("folder"); folder != p.dir {
		t.Errorf("%s", folder)
	}
	b := p.browser()
	for i, want := range []int{303, 401} { // the link works once, then it wants the cookie
		b.cookies = map[string]*http.Cookie{}
		resp, _ := b.do("GET", link.String(), nil)
		if resp.StatusCode != want {
			t.Errorf("visit %d: status %d, want %d", i, resp.StatusCode, want)
		}
	}
}

func TestSavedPlaces(t *testing.T) {
	p := newPlace(t, nil)
	lists := func(key string) string {
		return strings.TrimSpace(string(p.as(key, "GET", "/api/workspaces", nil).is(200).body))
	}
	key := p.box.SessionKey.Reveal()
	own := func(want int, method, path string, body any) *answer {
		return p.as(userKey, method, "/agent/"+p.box.ID+path, body).is(want)
	}
	if got := lists(key); got != `{"workspaceParents":[],"workspaces":[]}` {
		t.Errorf("%s", got)
	}
	own(200, "POST", "/api/workspaces", map[string]any{"workspaces": []any{map[string]any{"path": "/srv/one/", "name": "One", "parentPath": "/srv", "unknown": 1}}})
	own(200, "POST", "/api/workspaces", map[string]any{"workspaces": []any{map[string]any{"path": "/srv/two", "parentPath": nil}}})
	own(200, "POST", "/api/workspaces", map[string]any{"workspaces": []any{map[string]any{"path": "/srv/one", "name": "First", "id": "x"}}})
	own(200, "POST", "/api/workspaces/parents", map[string]any{"parents": []any{map[string]any{"path": "/srv"}}})
	if got := lists(key); got != `{"workspaceParents":[{"id":"/srv","name":"srv","path":"/srv"}],"workspaces":[{"id":"x","name":"First","path":"/srv/one"},{"id":"/srv/two","name":"two","path":"/srv/two"}]}` {
		t.Errorf("%s", got)
	}
	own(400, "POST", "/api/workspaces", map[string]any{"workspaces": []any{map[string]any{"path": "relative"}}})
	own(422, "POST", "/api/workspaces", map[string]any{})
	own(422, "POST", "/api/workspaces", map[string]any{"workspaces": []any{map[string]any{"name": "no path"}}})
	own(400, "POST", "/api/workspaces", map[string]any{"workspaces": []any{map[string]any{"path": "/good"}, map[string]any{"path": "bad"}}}) // none is saved
	if a := own(200, "DELETE", "/api/workspaces?path="+url.QueryEscape("/srv/one/"), nil); a.at("deleted") != true {
		t.Errorf("%s", a.body)
	}
	own(404, "DELETE", "/api/workspaces?path=/srv/one", nil)
	own(404, "DELETE", "/api/workspaces/parents?path=/srv/two", nil)
	own(200, "DELETE", "/api/workspaces/parents?path=/srv", nil)
	// A sandbox's key reads them only: they are the owner's, of all sandboxes.
	p.agent(403, "POST", "/api/workspaces", map[string]any{"workspaces": []any{map[string]any{"path": "/evil"}}})
	p.agent(403, "POST", "/api/workspaces/parents", map[string]any{"parents": []any{map[string]any{"path": "/evil"}}})
	p.agent(403, "DELETE", "/api/workspaces?path=/srv/two", nil)
	p.agent(403, "DELETE", "/api/workspaces/parents?path=/srv/two", nil)
	// Another sandbox of the user has the same lists, another user has none of them.
	if got := lists(p.sandbox().SessionKey.Reveal()); !strings.Contains(got, "/srv/two") {
		t.Errorf("%s", got)
	}
}
