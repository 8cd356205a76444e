package api_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/internal/store"
)

// place is a sandbox as its clients reach it, and the test its files.
type place struct {
	*world
	box *store.Sandbox
	dir string // the working directory, also outside: boxes of tests are not isolated
}

func newPlace(t testing.TB, change option) *place {
	w := newWorldWith(t, change)
	box := w.sandbox()
	return &place{w, box, box.WorkingDir}
}

// agent calls the agent protocol of the sandbox with its own key.
func (p *place) agent(want int, method, path string, body any) *answer {
	p.Helper()
	return p.as(p.box.SessionKey.Reveal(), method, path, body).is(want)
}

func (p *place) file(name string) string { return filepath.Join(p.dir, name) }

func (p *place) write(name, text string) string {
	p.Helper()
	check(p.TB, os.MkdirAll(filepath.Dir(p.file(name)), 0o755))
	check(p.TB, os.WriteFile(p.file(name), []byte(text), 0o644))
	return p.file(name)
}

func (p *place) git(args ...string) {
	p.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		p.Skip("git is not installed")
	}
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ada", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		p.Fatalf("git %v: %v %s", args, err, out)
	}
}

// form is a body with a file in it.
func form(t testing.TB, field string, data []byte) (string, http.Header) {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	check(t, m.WriteField("other", "ignored"))
	part, err := m.CreateFormFile(field, "name.bin")
	check(t, err)
	_, err = part.Write(data)
	check(t, err)
	check(t, m.Close())
	return b.String(), http.Header{"Content-Type": {m.FormDataContentType()}}
}

func (p *place) upload(want int, route, field string, data []byte) *answer {
	p.Helper()
	body, header := form(p.TB, field, data)
	header.Set("X-Session-API-Key", p.box.SessionKey.Reveal())
	return p.do("POST", route, header, body).is(want)
}

// query is a path as the parameter of a route.
func query(route, path string) string { return route + "?path=" + url.QueryEscape(path) }

func TestGitRoutes(t *testing.T) {
	p := newPlace(t, nil)
	p.git("init", "-q", ".")
	p.write("a file.txt", "old\n")
	p.git("add", ".")
	p.git("commit", "-q", "-m", "first")
	p.write("a file.txt", "new\n")
	p.write("fresh", "x")
	for name, route := range map[string]string{
		"the query's path":   query("/api/git/changes", p.dir) + "&ref=HEAD",
		"the path's segment": "/api/git/changes/" + url.PathEscape(p.dir) + "?ref=HEAD",
	} {
		a := p.agent(200, "GET", route, nil)
		if l := a.list(); len(l) != 2 || a.text(0, "path") != "a file.txt" || a.text(0, "status") != "UPDATED" || a.text(1, "status") != "ADDED" {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	for _, route := range []string{query("/api/git/diff", p.file("a file.txt")) + "&ref=HEAD", "/api/git/diff/" + url.PathEscape(p.file("a file.txt")) + "?ref=HEAD"} {
		if a := p.agent(200, "GET", route, nil); a.text("original") != "old\n" || a.text("modified") != "new\n" {
			t.Errorf("%s", a.body)
		}
	}
	commits := p.agent(200, "GET", query("/api/git/commits", p.dir), nil)
	if commits.text("commits", 0, "subject") != "first" || commits.at("has_more") != false {
		t.Errorf("%s", commits.body)
	}
	sha := commits.text("commits", 0, "sha")
	if a := p.agent(200, "GET", query("/api/git/commits/"+sha+"/changes", p.dir), nil); a.text(0, "path") != "a file.txt" {
		t.Errorf("%s", a.body)
	}
	if a := p.agent(200, "GET", query("/api/git/diff", p.file("a file.txt"))+"&commit="+sha, nil); a.text("original") != "" || a.text("modified") != "old\n" {
		t.Errorf("%s", a.body)
	}
	if a := p.agent(200, "GET", query("/api/git/changes", t.TempDir()), nil); string(bytes.TrimSpace(a.body)) != "[]" {
		t.Errorf("no repository: %s", a.body)
	}
	p.agent(400, "GET", query("/api/git/changes", p.dir)+"&ref=nowhere", nil)
	p.agent(400, "GET", query("/api/git/diff", p.file("fresh"))+"&ref=HEAD&commit="+sha, nil)
	p.agent(404, "GET", query("/api/git/commits/deadbeef/changes", p.dir), nil)
	p.agent(422, "GET", "/api/git/changes", nil)
	p.agent(422, "GET", query("/api/git/commits", p.dir)+"&limit=201", nil)
	p.as("", "GET", query("/agent/"+p.box.ID+"/api/git/changes", p.dir), nil).is(401)
	p.as(otherKey, "GET", query("/agent/"+p.box.ID+"/api/git/changes", p.dir), nil).is(404)
	p.call(200, "GET", query("/agent/"+p.box.ID+"/api/git/changes", p.dir), nil)
}

func TestFilesGoInAndOut(t *testing.T) {
	p := newPlace(t, func(c *config) { c.agent.MaxUpload = 12 << 20 })
	large := bytes.Repeat([]byte("0123456789abcdef"), 10<<16) // over two pieces
	for name, data := range map[string][]byte{"empty": {}, "small": []byte("\x00\xff text"), "large": large} {
		route := query("/api/file/upload", p.file("in/deep/"+name))
		if name == "small" {
			route = "/api/file/upload/" + url.PathEscape(p.file("in/deep/"+name))
		}
		for range 2 { // also over what is there
			if a := p.upload(200, route, "file", data); a.at("success") != true {
				t.Errorf("%s", a.body)
			}
		}
		got, err := os.ReadFile(p.file("in/deep/" + name))
		check(t, err)
		if !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes arrived of %d", name, len(got), len(data))
		}
		a := p.agent(200, "GET", query("/api/file/download", p.file("in/deep/"+name)), nil)
		if sha256.Sum256(a.body) != sha256.Sum256(data) {
			t.Errorf("%s: %d bytes came back of %d", name, len(a.body), len(data))
		}
		if got := a.header.Get("Content-Disposition"); got != "attachment; filename="+name || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("headers %v", a.header)
		}
	}
	p.agent(200, "GET", "/api/file/download/"+url.PathEscape(p.file("in/deep/small")), nil)
	left, err := os.ReadDir(p.file("in/deep"))
	check(t, err)
	if len(left) != 3 {
		t.Errorf("left behind: %v", left)
	}
}

func TestUploadsThatAreRefused(t *testing.T) {
	p := newPlace(t, func(c *config) { c.agent.MaxUpload = 6 << 20 })
	kept := p.write("kept", "as it was")
	p.upload(413, query("/api/file/upload", kept), "file", make([]byte, 7<<20))
	p.upload(422, query("/api/file/upload", kept), "wrong", []byte("x"))
	p.upload(400, query("/api/file/upload", "relative/path"), "file", []byte("x"))
	p.upload(400, query("/api/file/upload", p.dir), "file", make([]byte, 5<<20))
	p.upload(400, query("/api/file/upload", p.dir), "file", []byte("x"))
	p.agent(422, "POST", query("/api/file/upload", kept), map[string]any{"file": "x"})
	// A client that leaves in the middle changes nothing.
	body, header := form(t, "file", make([]byte, 5<<20))
	in, out := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "POST", p.server.URL+query("/api/file/upload", kept), in)
	check(t, err)
	req.Header = header
	req.Header.Set("X-Session-API-Key", p.box.SessionKey.Reveal())
	go func() {
		_, _ = io.WriteString(out, body[:len(body)-100])
		_ = out.CloseWithError(errors.New("gone"))
	}()
	if resp, err := p.server.Client().Do(req); err == nil {
		_ = resp.Body.Close()
		t.Errorf("status %d", resp.StatusCode)
	}
	p.eventually("the scratch file is gone", func() bool {
		names, err := os.ReadDir(p.dir)
		check(t, err)
		return !slices.ContainsFunc(names, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".parley-upload") })
	})
	if got, _ := os.ReadFile(kept); string(got) != "as it was" {
		t.Errorf("the file holds %d other bytes", len(got))
	}
}

func TestDownloadsThatAreRefused(t *testing.T) {
	p := newPlace(t, nil)
	p.agent(400, "GET", query("/api/file/download", "relative"), nil)
	p.agent(404, "GET", query("/api/file/download", p.file("missing")), nil)
	p.agent(400, "GET", query("/api/file/download", p.dir), nil)
	if err := exec.Command("mkfifo", p.file("pipe")).Run(); err == nil {
		p.agent(400, "GET", query("/api/file/download", p.file("pipe")), nil)
	}
	p.agent(400, "GET", query("/api/file/download", "/dev/zero"), nil)
	p.agent(400, "GET", query("/api/file/download", "/a\x00b"), nil)
	named := p.write("we\"ird\nn\u00e4me", "x")
	if got := p.agent(200, "GET", query("/api/file/download", named), nil).header.Get("Content-Disposition"); strings.ContainsAny(got, "\r\n") || !strings.HasPrefix(got, "attachment") {
		t.Errorf("%q", got)
	}
}

func TestPausedAndDeletedSandboxes(t *testing.T) {
	p := newPlace(t, nil)
	file := p.write("f", "text")
	p.call(200, "POST", "/api/v1/sandboxes/"+p.box.ID+"/pause", nil)
	if a := p.agent(200, "GET", query("/api/file/download", file), nil); string(a.body) != "text" {
		t.Errorf("a paused sandbox is not resumed: %s", a.body)
	}
	route := query("/agent/"+p.box.ID+"/api/file/download", file)
	p.call(200, "DELETE", "/api/v1/sandboxes/"+p.box.ID, nil)
	if a := p.as(userKey, "GET", route, nil); a.status != 404 && a.status != 410 {
		t.Errorf("status %d of a deleted sandbox", a.status)
	}
}

func TestDirectories(t *testing.T) {
	p := newPlace(t, nil)
	for _, name := range []string{"b", "A", ".hidden", "c"} {
		p.agent(200, "POST", query("/api/file/create_directory", p.file("dirs/"+name)), nil)
	}
	p.write("dirs/file", "x")
	p.agent(400, "POST", query("/api/file/create_directory", p.file("dirs/file/below")), nil)
	p.agent(400, "POST", query("/api/file/create_directory", "relative"), nil)
	names := func(more string) (out []string, next any) {
		a := p.agent(200, "GET", query("/api/file/search_subdirs", p.file("dirs"))+more, nil)
		for i := range a.list("items") {
			out = append(out, a.text("items", i, "name"))
			if a.text("items", i, "path") != p.file("dirs/"+out[i]) {
				t.Errorf("%s", a.body)
			}
		}
		return out, a.at("next_page_id")
	}
	if got, next := names(""); !slices.Equal(got, []string{"A", "b", "c"}) || next != nil {
		t.Errorf("%v %v", got, next)
	}
	if got, next := names("&limit=2&include_hidden=true"); !slices.Equal(got, []string{".hidden", "A"}) || next != "b" {
		t.Errorf("%v %v", got, next)
	}
	if got, _ := names("&page_id=b"); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("%v", got)
	}
	p.agent(404, "GET", query("/api/file/search_subdirs", p.file("missing")), nil)
	p.agent(400, "GET", query("/api/file/search_subdirs", p.file("dirs/file")), nil)
	home := p.agent(200, "GET", "/api/file/home", nil)
	if !filepath.IsAbs(home.text("home")) || home.text("locations", 0, "path") != "/" {
		t.Errorf("%s", home.body)
	}
}

func TestArchive(t *testing.T) {
	p := newPlace(t, nil)
	p.write("top/a.txt", "one")
	p.write("top/node_modules/x", "two")
	p.write("top/skip.log", "three")
	unpack := func(more string) (names []string) {
		a := p.agent(200, "GET", query("/api/file/archive", p.file("top"))+more, nil)
		if a.header.Get("X-Archive-Format") != "tar.gz" || a.header.Get("X-Archive-Path") != url.PathEscape(p.file("top")) {
			t.Errorf("%v", a.header)
		}
		z, err := gzip.NewReader(bytes.NewReader(a.body))
		check(t, err)
		for r := tar.NewReader(z); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return names
			}
			check(t, err)
			if h.Typeflag == tar.TypeReg {
				names = append(names, h.Name)
			}
		}
	}
	if got := unpack("&exclude=*.log"); !slices.Equal(got, []string{"a.txt"}) {
		t.Errorf("%v", got)
	}
	if got := unpack("&use_default_excludes=false"); !slices.Equal(got, []string{"a.txt", "node_modules/x", "skip.log"}) {
		t.Errorf("%v", got)
	}
	p.agent(501, "GET", query("/api/file/archive", p.file("top"))+"&format=git-delta", nil)
	p.agent(400, "GET", query("/api/file/archive", p.file("top/a.txt")), nil)
	p.agent(404, "GET", query("/api/file/archive", p.file("nowhere")), nil)
	p.agent(422, "GET", query("/api/file/archive", p.file("top"))+"&exclude=%5B", nil)
}

func TestV1WorkspaceRoutes(t *testing.T) {
	w := newWorld(t)
	id, record := w.begin(map[string]any{})
	box := record.text("sandbox_id")
	s, err := w.fleet.Get(t.Context(), "", box)
	check(t, err)
	p := &place{w, s, s.WorkingDir}
	base := "/api/v1/app-conversations/" + id
	p.write("PLAN.md", "a \"plan\"\n")
	p.write("src/main.go", "package main\n")
	p.write("node_modules/x/y.js", "no")
	p.write("sub/.git/HEAD", "no repository")

	file := base + "/file?file_path=" + url.QueryEscape(p.file("PLAN.md"))
	if got := w.call(200, "GET", file, nil).value(); got != "a \"plan\"\n" {
		t.Errorf("%v", got)
	}
	for accept, plain := range map[string]bool{"text/plain": true, "text/plain, application/json;q=0.5": true,
		"application/json, text/plain, */*": false, "*/*": false, "text/plain;q=0, application/json": false, "": false} {
		a := w.do("GET", file, http.Header{"X-Session-Api-Key": {userKey}, "Accept": {accept}}, nil).is(200)
		if got := string(a.body) == "a \"plan\"\n"; got != plain {
			t.Errorf("Accept %q: %s", accept, a.body)
		}
	}
	for _, path := range []string{"PLAN.md", "src", "nowhere/at/all", "/proc/self/root/nowhere", "/dev/zero"} {
		want := ""
		if path == "PLAN.md" {
			want = "a \"plan\"\n"
		}
		if got := w.call(200, "GET", base+"/file?file_path="+url.QueryEscape(path), nil).value(); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if got := w.call(200, "GET", base+"/file", nil).value(); got != "" {
		t.Errorf("%v", got)
	}
	list := w.call(200, "GET", base+"/files", nil)
	if got := string(bytes.TrimSpace(list.body)); got != `["PLAN.md","src/main.go"]` {
		t.Errorf("%s", got)
	}
	if got := w.call(200, "GET", query(base+"/files", p.file("src")), nil); got.text(0) != "main.go" {
		t.Errorf("%s", got.body)
	}
	if got := w.call(200, "GET", base+"/files?level=true", nil); string(bytes.TrimSpace(got.body)) != `["node_modules/","src/","sub/","PLAN.md"]` {
		t.Errorf("%s", got.body)
	}
	p.git("init", "-q", ".")
	changes := w.call(200, "GET", query(base+"/git/changes", p.dir), nil)
	if !strings.Contains(string(changes.body), `{"status":"ADDED","path":"src/main.go"}`) {
		t.Errorf("%s", changes.body)
	}
	if a := w.call(200, "GET", query(base+"/git/diff", p.file("PLAN.md")), nil); a.text("original") != "" || a.text("modified") != "a \"plan\"\n" {
		t.Errorf("%s", a.body)
	}
	w.call(400, "GET", query(base+"/git/changes", p.dir)+"&ref=-x", nil)
	w.call(422, "GET", base+"/git/changes", nil)
	w.as(otherKey, "GET", file, nil).is(404)
	w.call(404, "GET", "/api/v1/app-conversations/00000000-0000-4000-8000-000000000000/file", nil)

	w.call(200, "POST", "/api/v1/sandboxes/"+box+"/pause", nil)
	if got := w.call(200, "GET", file, nil).value(); got != "" {
		t.Errorf("paused: %v", got)
	}
	if got := w.call(200, "GET", base+"/files", nil); len(got.list()) != 0 {
		t.Errorf("paused: %s", got.body)
	}
	w.call(409, "GET", query(base+"/git/changes", p.dir), nil)
	w.call(409, "GET", query(base+"/git/diff", p.file("PLAN.md")), nil)
}
