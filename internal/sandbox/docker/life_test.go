package docker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/docker"
	"parley/internal/sandbox/sandboxtest"
)

// derive makes an image with a configuration of its own: lines of a Dockerfile.
func (p *place) derive(name string, changes ...string) string {
	p.t.Helper()
	code, body := p.ask(http.MethodPost, "/containers/create", `{"Image":"`+p.image+`","Cmd":["/bin/true"]}`)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(body), &made); err != nil || code != http.StatusCreated {
		p.t.Fatalf("%d %s", code, body)
	}
	query := url.Values{"container": {made.ID}, "repo": {"parley-derived"}, "tag": {name}, "changes": changes}
	if code, body := p.ask(http.MethodPost, "/commit?"+query.Encode(), "{}"); code != http.StatusCreated {
		p.t.Fatalf("%d %s", code, body)
	}
	p.ask(http.MethodDelete, "/containers/"+made.ID+"?force=1", "")
	ref := "parley-derived:" + name
	p.t.Cleanup(func() { p.ask(http.MethodDelete, "/images/"+ref+"?force=1", "") })
	return ref
}

// containerOf is what the engine says of a box.
func (p *place) containerOf(b *docker.Backend, box sandbox.Box) string {
	p.t.Helper()
	return p.get("/containers/" + docker.Container(b, box.Handle().ID) + "/json")
}

func TestTheImageSaysWhatTheSpecDoesNot(t *testing.T) {
	p := realPlace(t)
	ref := p.derive("config", "ENV FROM_IMAGE=image", "ENV BOTH=image", "ENV GODEBUG=nonsense", "USER games:www-data", "WORKDIR /srv",
		`ENTRYPOINT ["/no/such/program"]`, "HEALTHCHECK --interval=1s CMD touch /health-check-ran", "LABEL parley.sandbox=somebody")
	box := p.box(p.backend(), sandbox.Spec{ID: "config", Image: ref, Env: map[string]string{"BOTH": "spec"}})
	got := sh(t, box, `echo $FROM_IMAGE $BOTH $USER $(id -un) $(id -gn) $(pwd); touch in-workspace ~/in-home && echo $HOME; test -e /health-check-ran || echo no-check`)
	if want := "image spec games games www-data /workspace/project\n/home/games\nno-check"; got != want {
		t.Errorf("inside: %q, want %q", got, want)
	}
	if caps := sh(t, box, "grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status | cut -f2 | sort -u"); caps != "0000000000000000" {
		t.Errorf("capabilities of an ordinary user: %s", caps)
	}
}

// TestFilesBelongToTheOwnerOfTheDirectory: also where the engine's root is the
// machine's.
func TestFilesBelongToTheOwnerOfTheDirectory(t *testing.T) {
	p := realPlace(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can make directories of others")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 64738, 64739); err != nil {
		t.Fatal(err)
	}
	box := p.box(p.backend(), sandbox.Spec{ID: "owner", Mounts: []sandbox.Mount{{Source: dir, Target: sandbox.WorkingDir}}})
	sh(t, box, "echo made > made && touch ~/x && chmod 4755 made && exit 1; test \"$(stat -c %u:%g made)\" = 64738:64739")
}

// TestLostBoxes: what the engine made and nobody was told of is found and swept.
func TestLostBoxes(t *testing.T) {
	p := realPlace(t)
	b := p.backend()
	labels := `"Labels":{"parley.installation":"` + docker.Installation(b) + `","parley.sandbox":"lost","parley.version":"1"}`
	body := `{"Image":"` + p.image + `","Cmd":["/bin/true"],` + labels + `}`
	for _, name := range []string{docker.Container(b, "lost"), "parley-not-ours"} {
		if code, text := p.ask(http.MethodPost, "/containers/create?name="+name, body); code != http.StatusCreated {
			t.Fatalf("%d %s", code, text)
		}
		t.Cleanup(func() { p.ask(http.MethodDelete, "/containers/"+name+"?force=1", "") })
	}
	boxes, err := b.List(context.Background())
	if err != nil || len(boxes) != 1 || boxes[0].ID != "lost" {
		t.Fatalf("listed: %v, %v", boxes, err)
	}
	if _, err := b.Adopt(t.Context(), boxes[0]); !fault.Is(err, fault.Gone) {
		t.Errorf("adopt: %v", err)
	}
	if err := b.Destroy(t.Context(), boxes[0]); err != nil {
		t.Errorf("destroy: %v", err)
	}
	if code, _ := p.ask(http.MethodGet, "/containers/parley-not-ours/json", ""); code != http.StatusOK {
		t.Error("a container that has another name was removed")
	}
	other := *p
	other.options.Installation = "other"
	if boxes, err := other.backend().List(t.Context()); err != nil || len(boxes) > 0 {
		t.Errorf("another installation sees %v, %v", boxes, err)
	}
}

// TestSnapshotsAreNoImages: a user may name an image, not what another worked on.
func TestSnapshotsAreNoImages(t *testing.T) {
	p := realPlace(t)
	b := p.backend()
	box := p.box(b, sandbox.Spec{ID: "private"})
	snap, err := b.Snapshot(t.Context(), box.Handle(), "Kept-1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.DropSnapshot(context.Background(), snap); err != nil {
			t.Error(err)
		}
	}()
	ref := "parley-" + docker.Installation(b) + "-snapshot:s.Kept-1"
	var img struct{ ID string }
	if err := json.Unmarshal([]byte(p.get("/images/"+ref+"/json")), &img); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{ref, img.ID} {
		if _, err := b.Create(t.Context(), sandbox.Spec{ID: "thief", Image: name}); !fault.Is(err, fault.Invalid) {
			t.Errorf("a box from %s: %v", name, err)
		}
	}
}

func TestAnUnknownRuntimeIsRefusedInWords(t *testing.T) {
	p := realPlace(t)
	_, err := p.backend().Create(t.Context(), sandbox.Spec{ID: "runtime", Runtime: "no-such-runtime"})
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(fault.PublicText(err), "no-such-runtime") {
		t.Errorf("%v", err)
	}
}

// proxy stands between a backend and the engine and lets calls hang.
type proxy struct {
	to   string
	lis  net.Listener
	wg   sync.WaitGroup
	stop chan struct{}

	mu   sync.Mutex
	hang func(*http.Request) bool
}

func newProxy(t *testing.T, p *place) *proxy {
	path := filepath.Join(t.TempDir(), "proxy.sock")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	x := &proxy{to: strings.TrimPrefix(p.options.Host, "unix://"), lis: lis, stop: make(chan struct{}), hang: func(*http.Request) bool { return false }}
	x.wg.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			x.wg.Go(func() { x.serve(conn) })
		}
	})
	t.Cleanup(func() {
		close(x.stop)
		_ = lis.Close()
		x.wg.Wait()
	})
	p.options.Host = path
	return x
}

func (x *proxy) set(hang func(*http.Request) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.hang = hang
}

func (x *proxy) serve(conn net.Conn) {
	unhook := make(chan struct{})
	defer close(unhook)
	go func() {
		select {
		case <-x.stop:
		case <-unhook:
		}
		_ = conn.Close()
	}()
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		x.mu.Lock()
		hang := x.hang
		x.mu.Unlock()
		if hang(req) {
			_, _ = io.Copy(io.Discard, in) // until the other side gives up
			return
		}
		if x.forward(conn, req) != nil {
			return
		}
	}
}

func (x *proxy) forward(conn net.Conn, req *http.Request) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-x.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", x.to)
	}}
	out := req.Clone(ctx)
	out.RequestURI, out.URL.Scheme, out.URL.Host = "", "http", "engine"
	res, err := transport.RoundTrip(out)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	return res.Write(conn)
}

// TestAnEngineThatHangs delays the calls on its boxes only, and Close not at all.
func TestAnEngineThatHangs(t *testing.T) {
	const call = 2 * time.Second
	p := realPlace(t)
	direct := p.options.Host
	x := newProxy(t, p)
	b, err := docker.Hurried(t.Context(), p.options, call)
	if err != nil {
		t.Fatal(err)
	}
	p.options.Host = direct
	boxes := map[string]sandbox.Box{}
	for _, id := range []string{"stuck", "free"} {
		if boxes[id], err = b.Create(t.Context(), sandbox.Spec{ID: id}); err != nil {
			t.Fatal(err)
		}
		defer func() {
			other := p.open()
			defer func() { _ = other.Close() }()
			if err := other.Destroy(context.Background(), boxes[id].Handle()); err != nil {
				t.Error(err)
			}
		}()
	}
	var c struct{ ID string }
	if err := json.Unmarshal([]byte(p.containerOf(b, boxes["stuck"])), &c); err != nil {
		t.Fatal(err)
	}
	x.set(func(r *http.Request) bool {
		return strings.Contains(r.URL.Path, c.ID) || strings.Contains(r.URL.Path, docker.Container(b, "stuck"))
	})
	stuck := make(chan error, 1)
	go func() { stuck <- boxes["stuck"].Pause(context.Background()) }()
	for range 3 {
		began := time.Now()
		if err := errors.Join(boxes["free"].Pause(t.Context()), boxes["free"].Resume(t.Context())); err != nil {
			t.Errorf("the other box: %v", err)
		}
		if took := time.Since(began); took > call {
			t.Errorf("the other box was paused and resumed in %v", took)
		}
		sh(t, boxes["stuck"], "true") // what is inside does not need the engine
	}
	if err := <-stuck; !fault.Is(err, fault.Unavailable) {
		t.Errorf("pause of the box whose calls hang: %v", err)
	}
	x.set(func(*http.Request) bool { return true })
	if _, err := b.Create(t.Context(), sandbox.Spec{ID: "new"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("create: %v", err)
	}
	began := time.Now()
	if err := b.Close(); err != nil || time.Since(began) > call {
		t.Errorf("close: %v after %v", err, time.Since(began))
	}
}

// TestTheDeathOfABoxIsNoticedWithoutTheEngine.
func TestTheDeathOfABoxIsNoticedWithoutTheEngine(t *testing.T) {
	p := realPlace(t)
	direct := p.options.Host
	x := newProxy(t, p)
	b := p.backend()
	p.options.Host = direct
	box := p.box(b, sandbox.Spec{ID: "dying"})
	x.set(func(*http.Request) bool { return true })
	_ = x.lis.Close() // the engine is gone, as far as the backend can see
	if err := os.Remove(x.lis.Addr().String()); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := sandboxtest.Crash(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	if _, err := box.Dial(t.Context()); !fault.Is(err, fault.Gone) {
		t.Errorf("dial: %v", err)
	}
}

// TestNetworkSurvivesTheServer: a restarted server gets the device again, also of
// a box that is paused.
func TestNetworkSurvivesTheServer(t *testing.T) {
	const greeting = "hello"
	host := hostAddress()
	if host == "" {
		t.Skip("this machine has no address beside loopback")
	}
	p := realPlace(t)
	p.options.Network = outward
	lis, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, greeting)
			_ = conn.Close()
		}
	})
	t.Cleanup(func() { _ = lis.Close(); served.Wait() })
	_, port, _ := net.SplitHostPort(lis.Addr().String())
	reach := `bash -c 'read -t 5 -r x < /dev/tcp/` + host + `/` + port + `; echo "$x"'`
	first := p.open()
	box := p.box(first, sandbox.Spec{ID: "net", Network: sandbox.Network{Mode: sandbox.NetworkAllow, Allow: []string{host}}})
	if got := sh(t, box, reach); got != greeting {
		t.Fatalf("before: %q", got)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := p.open()
	adopted, err := second.Adopt(t.Context(), box.Handle())
	if err != nil {
		t.Fatal(err)
	}
	if got := sh(t, adopted, reach); got != greeting {
		t.Errorf("after a restart of the server: %q", got)
	}
	if err := errors.Join(adopted.Pause(t.Context()), second.Close()); err != nil {
		t.Fatal(err)
	}
	third := p.backend()
	frozen, err := third.Adopt(t.Context(), box.Handle())
	if err != nil {
		t.Fatal(err)
	}
	if err := frozen.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "the network of a resumed box", func() bool {
		return strings.TrimSpace(run(t, frozen, "sh", "-c", reach).Text) == greeting
	})
}

func hostAddress() string {
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	return ""
}

// TestLongDirectory: sockets are reached where their path is longer than a
// socket's may be.
func TestLongDirectory(t *testing.T) {
	p := realPlace(t)
	p.options.Dir = filepath.Join(t.TempDir(), strings.Repeat("long", 20), strings.Repeat("path", 20))
	box := p.box(p.backend(), sandbox.Spec{ID: strings.Repeat("x", 64)})
	sh(t, box, "true")
	adopted, err := p.backend().Adopt(t.Context(), box.Handle())
	if err != nil {
		t.Fatal(err)
	}
	sh(t, adopted, "true")
}

func TestUsageOfTheEngine(t *testing.T) {
	p := realPlace(t)
	b := p.backend()
	box := p.box(b, sandbox.Spec{ID: "usage", Limits: sandbox.Limits{MemoryBytes: 128 << 20}})
	docker.WithoutGroups(box)
	u, err := box.Usage(t.Context())
	if err != nil || u.MemoryBytes <= 0 || u.Processes <= 0 || u.CPU <= 0 || u.OOMKills != 0 {
		t.Errorf("usage: %+v, %v", u, err)
	}
	sh(t, box, "head -c 1000000000 /dev/zero | tail -n 1 >/dev/null; true")
	await(t, "a kill for want of memory, as the engine tells it", func() bool {
		u, err := box.Usage(t.Context())
		return err == nil && u.OOMKills > 0
	})
}
