package docker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/docker"
)

// call is one that a scripted engine got.
type call struct{ method, path, query string }

// scripted is an engine that answers what a test says, and what a sound engine
// with one image would otherwise. It runs nothing: its containers exist, and
// their first process is a listener of the test.
type scripted struct {
	t       *testing.T
	options docker.Options

	mu         sync.Mutex
	calls      []call
	script     map[string]http.HandlerFunc // "METHOD suffix of the path"
	containers map[string]map[string]string
	running    map[string]io.Closer
}

func newScripted(t *testing.T) *scripted {
	dir := t.TempDir()
	s := &scripted{t: t, script: map[string]http.HandlerFunc{}, containers: map[string]map[string]string{}, running: map[string]io.Closer{},
		options: docker.Options{Host: filepath.Join(dir, "engine.sock"), Dir: filepath.Join(dir, "boxes"), Exe: boxd(t),
			DefaultImage: "debian:12", Installation: "scripted"}}
	lis, err := net.Listen("unix", s.options.Host)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(lis) })
	t.Cleanup(func() {
		_ = server.Close()
		wg.Wait()
		for _, c := range s.running {
			_ = c.Close()
		}
	})
	return s
}

// on scripts an answer.
func (s *scripted) on(what string, h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script[what] = h
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// hangs answers nothing until the other side gives up.
func hangs(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // without that the server does not see the other side leave
	<-r.Context().Done()
}

// breaks ends the connection without an answer.
func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if rest, ok := strings.CutPrefix(path, "/v1."); ok {
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	s.mu.Lock()
	s.calls = append(s.calls, call{r.Method, path, r.URL.RawQuery})
	var scripted http.HandlerFunc
	for what, h := range s.script {
		method, suffix, _ := strings.Cut(what, " ")
		if r.Method == method && strings.HasSuffix(path, suffix) {
			scripted = h
		}
	}
	s.mu.Unlock()
	if scripted != nil {
		scripted(w, r)
		return
	}
	s.sound(w, r, path)
}

// sound is what an engine does that is well.
func (s *scripted) sound(w http.ResponseWriter, r *http.Request, path string) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case path == "/version":
		_, _ = io.WriteString(w, `{"ApiVersion":"1.41","MinAPIVersion":"1.12"}`)
	case path == "/info":
		_, _ = io.WriteString(w, `{"OSType":"linux","Driver":"overlay2","MemoryLimit":true,"PidsLimit":true,"NCPU":2}`)
	case parts[0] == "images" && r.Method == http.MethodGet && path != "/images/json":
		_, _ = io.WriteString(w, `{"Id":"sha256:aa","Config":{}}`)
	case path == "/images/json":
		_, _ = io.WriteString(w, `[]`)
	case path == "/containers/create":
		var c struct{ Labels map[string]string }
		_ = json.NewDecoder(r.Body).Decode(&c)
		s.containers[r.URL.Query().Get("name")] = c.Labels
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]string{"Id": r.URL.Query().Get("name")})
	case path == "/containers/json":
		var list []map[string]any
		for name, labels := range s.containers {
			list = append(list, map[string]any{"Names": []string{"/" + name}, "Labels": labels})
		}
		_ = json.NewEncoder(w).Encode(list)
	case parts[0] == "containers" && len(parts) >= 2:
		s.container(w, r, parts)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (s *scripted) container(w http.ResponseWriter, r *http.Request, parts []string) {
	name := parts[1]
	labels, ok := s.containers[name]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"message":"No such container"}`)
		return
	}
	switch {
	case r.Method == http.MethodDelete:
		delete(s.containers, name)
		if c := s.running[name]; c != nil {
			_ = c.Close()
			delete(s.running, name)
		}
	case parts[2] == "json":
		_ = json.NewEncoder(w).Encode(map[string]any{"Id": name, "Image": "sha256:aa",
			"State": map[string]any{"Running": s.running[name] != nil}, "Config": map[string]any{"Labels": labels}})
	case parts[2] == "start":
		closer, err := firstProcess(filepath.Join(s.options.Dir, labels["parley.sandbox"], "inside", "control"))
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		s.running[name] = closer
		w.WriteHeader(http.StatusNoContent)
	case parts[2] == "wait":
		s.mu.Unlock()
		hangs(w, r)
		s.mu.Lock()
	}
}

// firstProcess does as the first process of a box does, as far as the server sees.
func firstProcess(control string) (io.Closer, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: control, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	buf, oob := make([]byte, 96<<10), make([]byte, 64)
	_, n, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("no socket came: %w", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	if _, err := conn.Read(buf); err != nil {
		return nil, err
	}
	_, err = io.WriteString(conn, `{"ready":true}`)
	return os.NewFile(uintptr(fds[0]), "listener"), err
}

// open opens the backend; calls wait for a short time.
func (s *scripted) open() *docker.Backend {
	s.t.Helper()
	b, err := docker.Hurried(s.t.Context(), s.options, 300*time.Millisecond)
	if err != nil {
		s.t.Fatalf("open: %v", err)
	}
	s.t.Cleanup(func() {
		if err := b.Close(); err != nil {
			s.t.Errorf("close: %v", err)
		}
	})
	return b
}

// got reports whether a call was made.
func (s *scripted) got(method, suffix string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.method == method && strings.HasSuffix(c.path, suffix) {
			return true
		}
	}
	return false
}

// nothingLeft looks that neither a container nor a directory is left.
func (s *scripted) nothingLeft(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.containers) > 0 {
		t.Errorf("containers are left: %v", s.containers)
	}
	if entries, err := os.ReadDir(s.options.Dir); err != nil || len(entries) > 0 {
		t.Errorf("directories are left: %v, %v", entries, err)
	}
}

func TestOpenSaysWhatIsWrongWithTheEngine(t *testing.T) {
	for name, c := range map[string]struct {
		what string
		do   http.HandlerFunc
		kind fault.Kind
		text string
	}{
		"hangs":             {"GET /version", hangs, fault.Unavailable, "does not answer in time"},
		"breaks off":        {"GET /version", breaks, fault.Unavailable, "No container engine answers"},
		"too old":           {"GET /version", says(200, `{"ApiVersion":"1.40"}`), fault.Unsupported, "1.41 is needed"},
		"no version":        {"GET /version", says(200, `{"ApiVersion":"new"}`), fault.Unsupported, "1.41 is needed"},
		"is something else": {"GET /version", says(200, `<html>`), fault.Unavailable, "makes no sense"},
		"no end":            {"GET /version", endless, fault.Unavailable, "makes no sense"},
		"refuses":           {"GET /info", says(500, `{"message":"out of\nsorts"}`), fault.Unavailable, "out of sorts"},
		"windows":           {"GET /info", says(200, `{"OSType":"windows"}`), fault.Unavailable, "windows"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t)
			s.on(c.what, c.do)
			_, err := docker.Hurried(t.Context(), s.options, time.Second)
			if !fault.Is(err, c.kind) || !strings.Contains(fault.PublicText(err), c.text) {
				t.Errorf("%v, want %v with %q", err, c.kind, c.text)
			}
		})
	}
}

func endless(w http.ResponseWriter, r *http.Request) {
	chunk := []byte(strings.Repeat(" ", 1<<20))
	for r.Context().Err() == nil {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

func TestOpenWithoutAnEngine(t *testing.T) {
	s := newScripted(t)
	for _, host := range []string{"tcp://127.0.0.1:2375", "ssh://host", "relative"} {
		s.options.Host = host
		if _, err := docker.New(t.Context(), s.options); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", host, err)
		}
	}
	s.options.Host = "unix://" + filepath.Join(t.TempDir(), "none.sock")
	_, err := docker.New(t.Context(), s.options)
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != fault.Unavailable || !strings.Contains(f.Hint, "systemctl start docker") {
		t.Errorf("no engine: %v", err)
	}
}

// TestNegotiation: the version that is spoken is one that both sides know.
func TestNegotiation(t *testing.T) {
	for versions, want := range map[string]string{
		`{"ApiVersion":"1.41","MinAPIVersion":"1.12"}`: "/v1.41/info",
		`{"ApiVersion":"1.43","MinAPIVersion":"1.24"}`: "/v1.43/info",
		`{"ApiVersion":"1.52","MinAPIVersion":"1.44"}`: "/v1.47/info",
		`{"ApiVersion":"1.60","MinAPIVersion":"1.50"}`: "/v1.50/info",
	} {
		s := newScripted(t)
		s.on("GET /version", says(200, versions))
		var asked string
		s.on("GET /info", func(w http.ResponseWriter, r *http.Request) {
			asked = r.URL.Path
			_, _ = io.WriteString(w, `{}`)
		})
		s.open()
		if asked != want {
			t.Errorf("%s: asked %s, want %s", versions, asked, want)
		}
	}
}

// TestCreateLeavesNothing: whatever goes wrong, and what was wrong is said.
func TestCreateLeavesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		what string
		do   http.HandlerFunc
		kind fault.Kind
		text string
	}{
		"create hangs":           {"POST /containers/create", hangs, fault.Unavailable, "in time"},
		"create breaks off":      {"POST /containers/create", breaks, fault.Unavailable, "No container engine"},
		"create is refused":      {"POST /containers/create", says(500, `{"message":"no space left"}`), fault.Unavailable, "no space left"},
		"create answers garbage": {"POST /containers/create", says(201, `nonsense`), fault.Unavailable, "no sense"},
		"create without an id":   {"POST /containers/create", says(201, `{}`), fault.Unavailable, "no sense"},
		"start is refused":       {"POST /start", says(500, `{"message":"exec format error"}`), fault.Unavailable, "exec format error"},
		"start breaks off":       {"POST /start", breaks, fault.Unavailable, "No container engine"},
		"start hangs":            {"POST /start", hangs, fault.Unavailable, "in time"},
		"no device":              {"POST /start", says(500, `{"message":"adding device /dev/net/tun: no such file"}`), fault.Unsupported, "is not connected"},
		"first process dies":     {"POST /start", says(204, ``), fault.Unavailable, "first process ended"},
		"image hangs":            {"GET /images/debian:12/json", hangs, fault.Unavailable, "in time"},
		"image garbage":          {"GET /images/debian:12/json", says(200, `[`), fault.Unavailable, "no sense"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t)
			b := s.open()
			s.on(c.what, c.do)
			if name == "first process dies" {
				s.on("POST /wait", says(200, `{"StatusCode":1}`))
			}
			_, err := b.Create(t.Context(), sandbox.Spec{ID: "box"})
			if !fault.Is(err, c.kind) || !strings.Contains(fault.PublicText(err), c.text) {
				t.Errorf("%v, want %v with %q", err, c.kind, c.text)
			}
			s.nothingLeft(t)
		})
	}
}

// TestLostReply: the engine makes the container and its answer is lost.
func TestLostReply(t *testing.T) {
	s := newScripted(t)
	b := s.open()
	s.on("POST /containers/create", func(w http.ResponseWriter, r *http.Request) {
		s.sound(&nowhere{}, r, "/containers/create")
		breaks(w, r)
	})
	if _, err := b.Create(t.Context(), sandbox.Spec{ID: "box"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("create: %v", err)
	}
	s.nothingLeft(t)
	// The engine also hangs when it is asked to remove it: the sweep finds it.
	s.on("DELETE /containers/parley-scripted-box", hangs)
	if _, err := b.Create(t.Context(), sandbox.Spec{ID: "box"}); err == nil {
		t.Error("create succeeded")
	}
	boxes, err := b.List(t.Context())
	if err != nil || len(boxes) != 1 || boxes[0].ID != "box" {
		t.Fatalf("listed: %v, %v", boxes, err)
	}
	s.on("DELETE /containers/parley-scripted-box", func(w http.ResponseWriter, r *http.Request) {
		s.sound(w, r, "/containers/parley-scripted-box")
	})
	if err := b.Destroy(t.Context(), boxes[0]); err != nil {
		t.Error(err)
	}
	s.nothingLeft(t)
}

// nowhere is an answer that is lost.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header {
	if n.header == nil {
		n.header = http.Header{}
	}
	return n.header
}
func (*nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (*nowhere) WriteHeader(int)             {}

// TestATakenNameIsLeftAlone: a container of that name is another's box.
func TestATakenNameIsLeftAlone(t *testing.T) {
	s := newScripted(t)
	b := s.open()
	s.on("POST /containers/create", says(409, `{"message":"The container name is in use"}`))
	if _, err := b.Create(t.Context(), sandbox.Spec{ID: "box"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("create: %v", err)
	}
	if s.got(http.MethodDelete, "/containers/parley-scripted-box") {
		t.Error("the other's container was removed")
	}
}

func TestImages(t *testing.T) {
	t.Run("one that is there is not pulled", func(t *testing.T) {
		s := newScripted(t)
		b := s.open()
		if _, err := b.Create(t.Context(), sandbox.Spec{ID: "box"}); err != nil {
			t.Fatal(err)
		}
		if s.got(http.MethodPost, "/images/create") {
			t.Error("it was pulled")
		}
	})
	for name, c := range map[string]struct {
		do   http.HandlerFunc
		text string
	}{
		"refused":           {says(404, `{"message":"pull access denied"}`), "could not be pulled: pull access denied. "},
		"fails half-way":    {says(200, `{"status":"Pulling"}`+"\n"+`{"errorDetail":{"message":"x"},"error":"manifest unknown"}`), "could not be pulled: manifest unknown. "},
		"hangs":             {hangs, "it took longer than"},
		"is no progress":    {says(200, `{"status":`), "No container engine"},
		"says nonsense":     {says(200, `]`), "could not be fetched"},
		"claims to be done": {says(200, ``), "No such image"},
	} {
		t.Run("a pull that "+name, func(t *testing.T) {
			s := newScripted(t)
			b := s.open()
			s.on("GET /images/registry.example.com:5000/team/image/json", says(404, `{"message":"No such image"}`))
			s.on("POST /images/create", c.do)
			_, err := b.Create(t.Context(), sandbox.Spec{ID: "box", Image: "registry.example.com:5000/team/image"})
			if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.PublicText(err)+" ", c.text) {
				t.Errorf("%v, want %q", err, c.text)
			}
			s.mu.Lock()
			for _, call := range s.calls {
				if call.path == "/images/create" && call.query != "fromImage=registry.example.com%3A5000%2Fteam%2Fimage&tag=latest" {
					t.Errorf("asked for %s", call.query)
				}
			}
			s.mu.Unlock()
			s.nothingLeft(t)
		})
	}
}

// TestPauseOfWhatIsPaused: engines refuse to do what is done.
func TestPauseOfWhatIsPaused(t *testing.T) {
	s := newScripted(t)
	b := s.open()
	box, err := b.Create(t.Context(), sandbox.Spec{ID: "box"})
	if err != nil {
		t.Fatal(err)
	}
	s.on("POST /pause", says(409, `{"message":"already paused"}`))
	s.on("GET /parley-scripted-box/json", says(200, `{"State":{"Running":true,"Paused":true},"Config":{"Labels":{"parley.sandbox":"box"}}}`))
	if err := box.Pause(t.Context()); err != nil {
		t.Errorf("pause: %v", err)
	}
	s.on("POST /unpause", says(500, `{"message":"the freezer is stuck"}`))
	if err := box.Resume(t.Context()); !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.PublicText(err), "the freezer is stuck") {
		t.Errorf("resume: %v", err)
	}
	var asked atomic.Int32
	s.on("POST /unpause", func(w http.ResponseWriter, r *http.Request) { // it hears of the pause late
		if asked.Add(1) < 3 {
			says(500, `{"message":"Container is not paused"}`)(w, r)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	if err := box.Resume(t.Context()); err != nil || asked.Load() != 3 {
		t.Errorf("%v after asking %d times", err, asked.Load())
	}
	s.on("POST /unpause", says(404, `{"message":"No such container"}`))
	if err := box.Resume(t.Context()); !fault.Is(err, fault.Gone) {
		t.Errorf("resume of nothing: %v", err)
	}
}

// TestWaitIsAskedAgain: an engine that restarts breaks off what is under way.
func TestWaitIsAskedAgain(t *testing.T) {
	s := newScripted(t)
	s.on("POST /wait", func(w http.ResponseWriter, r *http.Request) { breaks(w, r) })
	b := s.open()
	box, err := b.Create(t.Context(), sandbox.Spec{ID: "box"})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "several calls", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := 0
		for _, c := range s.calls {
			if strings.HasSuffix(c.path, "/wait") {
				n++
			}
		}
		return n > 3
	})
	select {
	case <-box.Done():
		t.Fatal("Done is closed and the box runs")
	default:
	}
	// The engine forgot the container meanwhile.
	s.on("GET /parley-scripted-box/json", says(404, `{"message":"No such container"}`))
	select {
	case <-box.Done():
	case <-time.After(patience):
		t.Fatal("Done is not closed")
	}
	if _, err := box.Usage(t.Context()); !fault.Is(err, fault.NotFound) {
		t.Errorf("usage: %v", err)
	}
	if _, err := b.Adopt(t.Context(), box.Handle()); !fault.Is(err, fault.NotFound) {
		t.Errorf("adopt: %v", err)
	}
}

// TestDeadWithoutTheEngine: when nothing answers, the socket tells.
func TestDeadWithoutTheEngine(t *testing.T) {
	s := newScripted(t)
	b := s.open()
	box, err := b.Create(t.Context(), sandbox.Spec{ID: "box"})
	if err != nil {
		t.Fatal(err)
	}
	s.on("POST /wait", breaks)
	s.on("GET /json", hangs)
	s.mu.Lock()
	_ = s.running["parley-scripted-box"].Close()
	delete(s.running, "parley-scripted-box")
	s.mu.Unlock()
	if _, err := box.Dial(t.Context()); !fault.Is(err, fault.Gone) {
		t.Errorf("dial: %v", err)
	}
}

// TestCloseDoesNotWaitForTheEngine.
func TestCloseDoesNotWaitForTheEngine(t *testing.T) {
	s := newScripted(t)
	b, err := docker.New(t.Context(), s.options) // with the usual patience
	if err != nil {
		t.Fatal(err)
	}
	box, err := b.Create(t.Context(), sandbox.Spec{ID: "box"})
	if err != nil {
		t.Fatal(err)
	}
	entered := make(chan struct{})
	s.on("POST /pause", func(w http.ResponseWriter, r *http.Request) { close(entered); hangs(w, r) })
	paused := make(chan error, 1)
	go func() { paused <- box.Pause(context.Background()) }()
	<-entered
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-paused:
		if err == nil {
			t.Error("the pause succeeded")
		}
	case <-time.After(5 * time.Second):
		t.Error("Close left a call of a box hanging")
	}
}
