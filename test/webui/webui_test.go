// Package webui_test drives the web UI in a browser against the real binary, and
// checks what of it is built.
package webui_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/internal/conversation"
	"parley/test/testkit/longlog"
	"parley/test/testkit/parleytest"
)

// requireVar lists what must not be skipped: a machine that should have it has it.
const requireVar = "PARLEY_TEST_REQUIRE"

func TestMain(m *testing.M) {
	code := m.Run()
	parleytest.Cleanup()
	os.Exit(code)
}

func missing(t *testing.T, what, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv(requireVar), ","), what) {
		t.Fatalf("%s, and %s requires %s", why, requireVar, what)
	}
	t.Skip(why)
}

// webDir is where the sources of the UI are, with what they need installed.
func webDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../web")
	if err != nil {
		t.Fatal(err)
	}
	node, err := exec.Command("node", "-p", `process.versions.node.split('.')[0] >= 20`).Output()
	if err != nil || string(node) != "true\n" {
		missing(t, "webui", "Node.js 20 or later is not installed (apt-get install nodejs)")
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "playwright-core")); err != nil {
		missing(t, "webui", "the packages of the web UI are not installed: run scripts/web check")
	}
	return dir
}

// serve starts a server that has the UI.
func serve(t *testing.T) *parleytest.Server {
	t.Helper()
	server := parleytest.Start(t, parleytest.Options{Demo: true, Args: []string{"--mcp-allow", "127.0.0.1"}})
	if page := fetch(t, server.URL+"/"); !strings.Contains(page, `id="root"`) {
		missing(t, "webui", "the binary was built without the web UI")
	}
	return server
}

func fetch(t *testing.T, address string) string {
	t.Helper()
	resp, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// line is what a session says: a step that ended, or something to do.
type line struct {
	Step   string `json:"step"`
	Status string `json:"status"` // ok, failed
	Detail string `json:"detail"`
	Do     string `json:"do"` // restart: kill the server like a crash, and start it again; grow; end

	// Of grow: the conversation to which events are added, which kind of, and how many.
	ID     conversation.ID `json:"id"`
	Kind   longlog.Kind    `json:"kind"`
	Events int             `json:"events"`
}

// TestBrowser runs web/e2e/session.mjs; WEBUI_ONLY is an expression for the steps to run.
func TestBrowser(t *testing.T) {
	dir := webDir(t)
	browser, err := exec.LookPath("chromium")
	if err != nil {
		missing(t, "webui", "chromium is not installed (apt-get install chromium)")
	}
	server := serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", filepath.Join(dir, "e2e", "session.mjs"))
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "WEBUI_URL=" + server.URL, "WEBUI_KEY=" + parleytest.Key,
		"WEBUI_BROWSER=" + browser, "WEBUI_ONLY=" + os.Getenv("WEBUI_ONLY"), "WEBUI_PROXY=" + proxy(t, server.URL) + "/tools/parley",
		"WEBUI_NGINX=" + nginx(t)}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	replies, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := follow(t, server, out, replies)
	if err := cmd.Wait(); err != nil || !ended {
		t.Errorf("the session broke off: %v\n%s", err, stderr.String())
	}
}

// proxy puts the server below /tools/parley/ of another origin, as a reverse proxy that
// knows nothing of it does.
func proxy(t *testing.T, target string) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(http.StripPrefix("/tools/parley", &httputil.ReverseProxy{FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
		}}))
	t.Cleanup(front.Close)
	return front.URL
}

// follow reports the steps of a session, and does what it asks for. It tells whether
// the session came to its end.
func follow(t *testing.T, server *parleytest.Server, out io.Reader, replies io.Writer) bool {
	t.Helper()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Errorf("the session said %s", lines.Text())
			continue
		}
		switch {
		case l.Do == "restart":
			server.Kill()
			server.Again()
			reply(t, replies)
		case l.Do == "grow":
			server.Stop()
			if _, _, err := longlog.Grow(t.Context(), server.Dir, l.ID, l.Kind, l.Events); err != nil {
				t.Error(err)
			}
			server.Again()
			reply(t, replies)
		case l.Do == "end":
			return true
		default:
			t.Run(strings.ReplaceAll(l.Step, " ", "_"), func(t *testing.T) {
				if l.Status != "ok" {
					t.Error(l.Detail)
				}
			})
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	return false
}

func reply(t *testing.T, to io.Writer) {
	t.Helper()
	if _, err := io.WriteString(to, "done\n"); err != nil {
		t.Error(err)
	}
}

// TestTypesAreCurrent holds the types of the UI and the server's document together.
func TestTypesAreCurrent(t *testing.T) {
	dir := webDir(t)
	server := serve(t)
	document := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(document, []byte(fetch(t, server.URL+"/openapi.json")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "scripts/types.mjs", document, "--check")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// firstLoad is how much a browser may have to load before it shows a conversation,
// compressed with gzip.
const firstLoad = 600 << 10

var asset = regexp.MustCompile(`\./(assets/[^"]+)`)

// TestFirstLoadIsSmall adds up the page, what it names, and the part that shows a
// conversation.
func TestFirstLoadIsSmall(t *testing.T) {
	server := serve(t)
	page := fetch(t, server.URL+"/")
	names := asset.FindAllStringSubmatch(page, -1)
	if len(names) < 2 {
		t.Fatalf("no assets in %s", page)
	}
	total, seen := 0, map[string]bool{}
	var load func(name string)
	load = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		total += sizeOf(t, server.URL+"/"+name)
		if !strings.HasSuffix(name, ".js") {
			return
		}
		// All parts count, but colours of code and other languages, which come later.
		for _, part := range regexp.MustCompile(`(?:\./|assets/)([\w-]+\.(?:js|css))`).FindAllStringSubmatch(fetch(t, server.URL+"/"+name), -1) {
			if !regexp.MustCompile(`^(highlight|de|fr)-`).MatchString(part[1]) {
				load("assets/" + part[1])
			}
		}
	}
	for _, name := range names {
		load(name[1])
	}
	t.Logf("first load: %d KiB in %d files", total>>10, len(seen))
	if total > firstLoad {
		t.Errorf("the first load is %d KiB, more than %d", total>>10, firstLoad>>10)
	}
}

func sizeOf(t *testing.T, address string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "gzip") // also keeps the client from unpacking it
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v", address, resp.StatusCode, err)
	}
	return int(n)
}
