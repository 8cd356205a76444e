package api_test

import (
	"archive/zip"
	"bytes"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/conversation"
)

// legacyPlace is a conversation of the legacy API that runs, and the test its files.
type legacyPlace struct {
	*place
	id string
}

func newLegacyPlace(t testing.TB, change option, steps ...step) *legacyPlace {
	w := newWorldWith(t, change, steps...)
	id := w.legacyConversation(`{}`)
	v, err := w.engine.View(t.Context(), account.FirstUserID, conversation.ID(id))
	check(t, err)
	return &legacyPlace{&place{w, v.Sandbox, v.Options.WorkingDir}, id}
}

// legacyConversation creates one over the legacy API and waits until it runs.
func (w *world) legacyConversation(body string) string {
	w.Helper()
	id := w.call(200, "POST", "/api/conversations", body).text("conversation_id")
	w.eventually("RUNNING", func() bool {
		return w.call(200, "GET", "/api/conversations/"+id, nil).text("status") == "RUNNING"
	})
	return id
}

// of is the path of one of the conversation's routes.
func (p *legacyPlace) of(route string) string { return "/api/conversations/" + p.id + "/" + route }

func (p *legacyPlace) list(query string) string {
	p.Helper()
	return string(bytes.TrimSpace(p.call(200, "GET", p.of("list-files")+query, nil).body))
}

func TestLegacyListFiles(t *testing.T) {
	p := newLegacyPlace(t, nil)
	for _, name := range []string{"b.txt", "A.txt", "src/deep/x.go", "src/a.go", "Docs/y.md", "secret.env", "out/z", "node_modules/m/i.js",
		".git/config", ".vscode/s.json", "__pycache__/c.pyc", ".DS_Store", "lost+found/x", "src/node_modules/k"} {
		p.write(name, "text")
	}
	p.write(".gitignore", "*.env\nout/\n")
	for query, want := range map[string]string{
		"": `["Docs/","src/",".gitignore","A.txt","b.txt"]`,
		// What is hidden is so at the top only, as the names are compared whole.
		"?path=src":                     `["src/deep/","src/node_modules/","src/a.go"]`,
		"?path=src/":                    `["src/deep/","src/node_modules/","src/a.go"]`,
		"?path=out":                     `[]`,
		"?path=nowhere":                 `[]`,
		"?path=A.txt":                   `[]`,
		"?path=%00":                     ``,
		"?path=" + p.file("src/deep"):   `["` + p.file("src/deep") + `/x.go"]`,
		"?path=" + url.QueryEscape(" "): `[]`,
	} {
		if want == "" {
			if a := p.call(400, "GET", p.of("list-files")+query, nil); !strings.Contains(a.text("error"), "Error listing files: ") {
				t.Errorf("%s: %s", query, a.body)
			}
			continue
		}
		if got := p.list(query); got != want {
			t.Errorf("list-files%s:\n got %s\nwant %s", query, got, want)
		}
	}
}

func TestLegacySelectFile(t *testing.T) {
	p := newLegacyPlace(t, nil)
	p.write("a/b.txt", "line <1>\n\u65e5\u672c")
	p.write("empty", "")
	p.write("binary", "\x00\x01")
	p.write("latin", "caf\xe9")
	outside := t.TempDir() + "/out.txt"
	check(t, os.WriteFile(outside, []byte("out"), 0o644))
	check(t, os.Truncate(p.write("huge", "x"), 11<<20))
	get := func(file string) string { return p.of("select-file") + "?file=" + url.QueryEscape(file) }
	for file, want := range map[string]string{"a/b.txt": "line <1>\n\u65e5\u672c", "empty": "", p.file("a/b.txt"): "line <1>\n\u65e5\u672c", outside: "out"} {
		if a := p.call(200, "GET", get(file), nil); a.text("code") != want {
			t.Errorf("%s: %s", file, a.body)
		}
	}
	for file, want := range map[string]struct {
		status int
		error  string
	}{
		"binary":  {415, "Unable to open binary file: binary"},
		"latin":   {415, "Unable to open binary file: latin"},
		"gone":    {404, "Error opening file: File not found: gone"},
		"a":       {400, "Error opening file: "},
		"":        {400, "Error opening file: "},
		"huge":    {413, "Error opening file: "},
		"x\x00y":  {400, "Error opening file: "},
		"../gone": {404, "Error opening file: File not found: ../gone"},
	} {
		if a := p.call(want.status, "GET", get(file), nil); !strings.HasPrefix(a.text("error"), want.error) {
			t.Errorf("%q: %s", file, a.body)
		}
	}
	p.call(422, "GET", p.of("select-file"), nil)
}

func TestLegacyZipIsTheWholeWorkspace(t *testing.T) {
	p := newLegacyPlace(t, nil)
	p.write("a.txt", "one")
	p.write("d/e.txt", strings.Repeat("two", 100000))
	check(t, os.Symlink("a.txt", p.file("link")))
	check(t, os.Chmod(p.write("run.sh", "#!"), 0o755))
	check(t, os.MkdirAll(p.file("none"), 0o755))
	a := p.call(200, "GET", p.of("zip-directory"), nil)
	if a.header.Get("Content-Type") != "application/zip" || a.header.Get("Content-Disposition") != `attachment; filename="workspace.zip"` {
		t.Errorf("headers: %v", a.header)
	}
	z, err := zip.NewReader(bytes.NewReader(a.body), int64(len(a.body)))
	check(t, err)
	got := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		check(t, err)
		raw, err := io.ReadAll(r)
		check(t, err)
		got[f.Name] = string(raw)
		if strings.HasPrefix(f.Name, ".git/") {
			delete(got, f.Name)
		}
		if f.Name == "run.sh" && f.Mode().Perm() != 0o755 || f.Name == "link" && f.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s has mode %v", f.Name, f.Mode())
		}
	}
	want := map[string]string{"a.txt": "one", "d/": "", "d/e.txt": strings.Repeat("two", 100000), "link": "a.txt", "run.sh": "#!", "none/": ""}
	if !maps.Equal(got, want) {
		t.Errorf("got %v", slices.Sorted(maps.Keys(got)))
	}
}

// files is a form with files; names may be anything.
func files(t testing.TB, field string, named ...string) (string, http.Header) {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for i := 0; i < len(named); i += 2 {
		part, err := m.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="` + field + `"; filename="` + named[i] + `"`}})
		check(t, err)
		_, err = part.Write([]byte(named[i+1]))
		check(t, err)
	}
	check(t, m.Close())
	return b.String(), http.Header{"Content-Type": {m.FormDataContentType()}, "X-Session-Api-Key": {userKey}}
}

func TestLegacyUploadKeepsBytesAndBaseNames(t *testing.T) {
	p := newLegacyPlace(t, func(c *config) { c.agent.MaxUpload = 1 << 20 })
	p.write("old", "before")
	check(t, os.MkdirAll(p.file("dir"), 0o755))
	body, header := files(t, "files", "bytes.bin", "\x00\xff\xfe", "old", "after", "../../up.txt", "up", `C:\\dos\\name.txt`, "dos",
		"sub/old", "second", "dir", "x", "..", "dots", "", "nameless")
	a := p.do("POST", p.of("upload-files"), header, body).is(200)
	want := []any{p.file("bytes.bin"), p.file("old"), p.file("up.txt"), p.file("name.txt")}
	if got := a.list("uploaded_files"); !slices.Equal(got, want) {
		t.Errorf("uploaded %v, want %v", got, want)
	}
	var skipped []string
	for i := range a.list("skipped_files") {
		skipped = append(skipped, a.text("skipped_files", i, "name"))
	}
	if !slices.Equal(skipped, []string{"old", "dir", ".."}) {
		t.Errorf("skipped %v: %s", skipped, a.body)
	}
	for name, want := range map[string]string{"bytes.bin": "\x00\xff\xfe", "old": "after", "up.txt": "up", "name.txt": "dos"} {
		if got, err := os.ReadFile(p.file(name)); err != nil || string(got) != want {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

func TestLegacyUploadRefusals(t *testing.T) {
	p := newLegacyPlace(t, func(c *config) { c.agent.MaxUpload = 1 << 20 })
	large, header := files(t, "files", "large", strings.Repeat("x", 1<<20+1))
	if a := p.do("POST", p.of("upload-files"), header, large).is(413); a.text("error") == "" {
		t.Errorf("%s", a.body)
	}
	other, otherHeader := files(t, "file", "name", "text")
	cut, cutHeader := files(t, "files", "name", "text")
	for name, c := range map[string]struct {
		body   string
		header http.Header
	}{"another part": {other, otherHeader}, "no form": {"{}", http.Header{"Content-Type": {"application/json"}, "X-Session-Api-Key": {userKey}}},
		"no boundary": {cut, http.Header{"Content-Type": {"multipart/form-data"}, "X-Session-Api-Key": {userKey}}}} {
		a := p.do("POST", p.of("upload-files"), c.header, c.body)
		if a.status != 422 || a.text("detail", 0, "type") != "missing" || a.text("detail", 0, "loc", 1) != "files" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	p.do("POST", p.of("upload-files"), cutHeader, cut[:len(cut)-8]).is(400)
}

func TestLegacyGitRoutes(t *testing.T) {
	p := newLegacyPlace(t, nil)
	check(t, os.RemoveAll(p.file(".git")))
	if got := string(bytes.TrimSpace(p.call(200, "GET", p.of("git/changes"), nil).body)); got != "[]" {
		t.Errorf("without a repository: %s", got)
	}
	if a := p.call(404, "GET", p.of("git/diff")+"?path=x", nil); a.text("error") != "Not a git repository" {
		t.Errorf("%s", a.body)
	}
	p.git("init", "-q", ".")
	for _, name := range []string{"kept", "gone", "moved", "binary"} {
		p.write(name, name+"\n"+strings.Repeat("same\n", 50))
	}
	p.git("add", ".")
	p.git("commit", "-q", "-m", "first")
	p.git("update-ref", "refs/remotes/origin/main", "HEAD")
	p.write("kept", "changed\n")
	p.write("binary", "\x00")
	p.write("new", "new\n")
	check(t, os.Remove(p.file("gone")))
	p.git("mv", "moved", "away")
	want := `[{"status":"A","path":"away"},{"status":"M","path":"binary"},{"status":"D","path":"gone"},{"status":"M","path":"kept"},{"status":"D","path":"moved"},{"status":"A","path":"new"}]`
	if got := string(bytes.TrimSpace(p.call(200, "GET", p.of("git/changes"), nil).body)); got != want {
		t.Errorf("changes:\n got %s\nwant %s", got, want)
	}
	original := func(name string) string { return name + "\n" + strings.Repeat("same\n", 50) }
	for name, want := range map[string][2]string{"kept": {"changed\n", original("kept")}, "new": {"new\n", ""}, "gone": {"", original("gone")},
		"away": {original("moved"), original("moved")}} {
		if a := p.call(200, "GET", p.of("git/diff")+"?path="+name, nil); a.text("modified") != want[0] || a.text("original") != want[1] {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	if a := p.call(415, "GET", p.of("git/diff")+"?path=binary", nil); a.text("error") != "Unable to open binary file: binary" {
		t.Errorf("%s", a.body)
	}
	p.call(404, "GET", p.of("git/diff")+"?path=never", nil)
	p.call(422, "GET", p.of("git/diff"), nil)
}

func TestLegacyWorkspaceRoutesNeedARunningConversation(t *testing.T) {
	p := newLegacyPlace(t, nil)
	routes := []string{"list-files", "select-file?file=x", "zip-directory", "git/changes", "git/diff?path=x"}
	refused := func(key, id string) {
		t.Helper()
		for _, route := range routes {
			a := p.as(key, "GET", "/api/conversations/"+id+"/"+route, nil).is(404)
			if a.text("detail") != "Conversation "+id+" not found" {
				t.Errorf("%s: %s", route, a.body)
			}
		}
		body, header := files(t, "files", "a", "b")
		header.Set("X-Session-API-Key", key)
		p.do("POST", "/api/conversations/"+id+"/upload-files", header, body).is(404)
	}
	refused(otherKey, p.id)
	refused(userKey, "nobody")
	for _, route := range routes {
		p.as("", "GET", p.of(route), nil).is(401)
	}
	p.call(200, "POST", p.of("stop"), nil)
	refused(userKey, p.id)
}
