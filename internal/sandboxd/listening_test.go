package sandboxd_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"parley/internal/fault"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

func portsOf(t *testing.T, c *sandboxd.Client) map[int]tool.ListeningPort {
	t.Helper()
	list, err := c.ListeningPorts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]tool.ListeningPort{}
	for _, p := range list {
		found[p.Port] = p
	}
	return found
}

func TestListeningPorts(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	_, four := listenTCP(t, "127.0.0.1:0")
	_, six := listenTCP(t, "[::1]:0")
	every, all := listenTCP(t, "0.0.0.0:0")
	_, elsewhere := listenTCP(t, "127.0.0.2:0")
	found := portsOf(t, c)
	for port, loopback := range map[int]bool{four: true, six: true, all: false} {
		if p, ok := found[port]; !ok || p.Loopback != loopback {
			t.Errorf("port %d: %+v %v", port, p, ok)
		}
	}
	if _, ok := found[elsewhere]; ok {
		t.Error("a port is listed that DialPort does not reach")
	}
	_ = every.Close()
	if _, ok := portsOf(t, c)[all]; ok {
		t.Error("a closed port is listed")
	}
}

// A daemon that listens on TCP itself neither shows nor opens its own port.
func TestOwnPortIsNotListed(t *testing.T) {
	lis, port := listenTCP(t, "127.0.0.1:0")
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- sandboxd.Serve(ctx, lis, sandboxd.Options{WorkingDir: t.TempDir()}) }()
	c := sandboxd.NewClient(func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", lis.Addr().String())
	})
	found := portsOf(t, c)
	if _, err := c.DialPort(t.Context(), port); fault.CodeOf(err) != sandboxd.CodePortClosed {
		t.Errorf("the daemon's own port is open: %v", err)
	}
	c.Close()
	stop()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	if _, ok := found[port]; ok {
		t.Error("the daemon's own port is listed")
	}
}

// A daemon of an older version, or one that lies, gives an error and no list.
func TestListeningPortsOfOtherDaemons(t *testing.T) {
	answers := map[string]string{"/long": string(slices.Repeat([]byte{' '}, 300<<10)), "/lie": `[{"port":0}]`, "/text": "no"}
	for _, which := range []string{"", "/long", "/lie", "/text"} {
		lis, err := net.Listen("unix", filepath.Join(shortDir(t), "s"))
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if which == "" {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write([]byte(answers[which]))
		})}
		ended := make(chan error, 1)
		go func() { ended <- srv.Serve(lis) }()
		c := connect(t, lis.Addr().String())
		_, err = c.ListeningPorts(t.Context())
		want := fault.Internal
		if which == "" {
			want = fault.Unsupported
		}
		if fault.KindOf(err) != want {
			t.Errorf("%q: %v", which, err)
		}
		_ = srv.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
}
