package docker_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/internal/sandbox"
	"parley/internal/sandbox/docker"
	"parley/internal/sandbox/sandboxtest"
)

// Variables that say what there is to test with.
const (
	imageVar   = "PARLEY_TEST_IMAGE"   // of a Debian-like system that the engine has
	requireVar = "PARLEY_TEST_REQUIRE" // tiers, with commas: docker must not be skipped
)

const patience = 30 * time.Second

// built is the static program that is the first process of containers.
var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(shared, "boxd")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./testdata/boxd")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// shared holds what all tests share.
var shared string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "docker-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shared = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

// boxd returns the path of the first process.
func boxd(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// place is an engine and a data directory of a test's own.
type place struct {
	t       testing.TB
	options docker.Options
	image   string
}

// realPlace finds the engine to test with, or skips.
func realPlace(t testing.TB) *place {
	t.Helper()
	host, image := os.Getenv("DOCKER_HOST"), os.Getenv(imageVar)
	if host == "" {
		host = "/var/run/docker.sock"
	}
	conn, err := net.DialTimeout("unix", strings.TrimPrefix(host, "unix://"), 5*time.Second)
	if err != nil || image == "" {
		text := fmt.Sprintf("no container engine to test with: DOCKER_HOST %s: %v; %s=%q", host, err, imageVar, image)
		if slices.Contains(strings.Split(os.Getenv(requireVar), ","), docker.Name) {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	_ = conn.Close()
	p := &place{t: t, image: image, options: docker.Options{Host: host, Dir: filepath.Join(t.TempDir(), "boxes"), Exe: boxd(t), DefaultImage: image}}
	t.Cleanup(p.mustBeEmpty)
	return p
}

// mustBeEmpty looks that the engine has nothing of the test any more.
func (p *place) mustBeEmpty() {
	b, err := docker.New(context.Background(), p.options)
	if err != nil {
		p.t.Errorf("open: %v", err)
		return
	}
	defer func() { _ = b.Close() }()
	boxes, err := b.List(context.Background())
	if err != nil || len(boxes) > 0 {
		p.t.Errorf("left: %v, %v", boxes, err)
	}
	for _, h := range boxes {
		_ = b.Destroy(context.Background(), h)
	}
	snaps, err := b.Snapshots(context.Background())
	if err != nil || len(snaps) > 0 {
		p.t.Errorf("left: %v, %v", snaps, err)
	}
	left := p.get("/images/json?all=1&filters=" + filterLabel("parley.installation="+docker.Installation(b)))
	if strings.TrimSpace(left) != "[]" {
		p.t.Errorf("images are left: %s", left)
	}
	if entries, err := os.ReadDir(p.options.Dir); err != nil || len(entries) > 0 {
		p.t.Errorf("directories are left: %v, %v", entries, err)
	}
}

func filterLabel(label string) string { return `%7B%22label%22%3A%5B%22` + label + `%22%5D%7D` }

// open makes a backend that is not closed.
func (p *place) open() *docker.Backend {
	p.t.Helper()
	b, err := docker.New(context.Background(), p.options)
	if err != nil {
		p.t.Fatalf("open: %v", err)
	}
	return b
}

// backend makes a backend that is closed at the end of the test.
func (p *place) backend() *docker.Backend {
	p.t.Helper()
	b := p.open()
	p.t.Cleanup(func() {
		if err := b.Close(); err != nil {
			p.t.Errorf("close: %v", err)
		}
	})
	return b
}

// box makes a box that is destroyed at the end of the test.
func (p *place) box(b *docker.Backend, spec sandbox.Spec) sandbox.Box {
	p.t.Helper()
	box, err := b.Create(context.Background(), spec)
	if err != nil {
		p.t.Fatalf("create: %v", err)
	}
	p.t.Cleanup(func() {
		other := p.open()
		defer func() { _ = other.Close() }()
		if err := other.Destroy(context.Background(), box.Handle()); err != nil {
			p.t.Errorf("destroy: %v", err)
		}
	})
	return box
}

// ask speaks to the engine past the backend, as an administrator would.
func (p *place) ask(method, path, body string) (int, string) {
	p.t.Helper()
	return askSocket(p.t, strings.TrimPrefix(p.options.Host, "unix://"), method, path, body)
}

func askSocket(t testing.TB, socket, method, path, body string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	req, err := http.NewRequest(method, "http://engine/v1.44"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.URL.Path = strings.Replace(req.URL.Path, "/v1.44", "/v1.41", 1)
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

func (p *place) get(path string) string {
	p.t.Helper()
	code, body := p.ask(http.MethodGet, path, "")
	if code != http.StatusOK {
		p.t.Fatalf("%s: %d %s", path, code, body)
	}
	return body
}

func run(t testing.TB, box sandbox.Box, argv ...string) sandboxtest.Output {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := sandboxtest.Exec(ctx, box, argv...)
	if err != nil {
		t.Fatalf("%v: %v", argv, err)
	}
	return out
}

// sh runs a script inside that must succeed.
func sh(t testing.TB, box sandbox.Box, script string) string {
	t.Helper()
	out := run(t, box, "sh", "-c", script)
	if out.Code != 0 || out.Err != "" {
		t.Fatalf("%s: code %d %s: %s", script, out.Code, out.Err, out.Text)
	}
	return strings.TrimSpace(out.Text)
}

// await polls until something is so.
func await(t testing.TB, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
