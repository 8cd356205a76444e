package sandboxtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/internal/sandbox"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

// handsProtocol is the Upgrade token of a connection to the real daemon.
const handsProtocol = "sandboxtest-hands"

// Conns is a listener of connections that are given to it.
type Conns struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewConns returns a listener that waits for connections.
func NewConns() *Conns {
	return &Conns{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Give waits until the connection is accepted. False: the listener is closed or
// ctx has ended, and the connection is still the caller's.
func (c *Conns) Give(ctx context.Context, conn net.Conn) bool {
	select {
	case c.conns <- conn:
		return true
	case <-c.closed:
	case <-ctx.Done():
	}
	return false
}

// Accept returns the next connection.
func (c *Conns) Accept() (net.Conn, error) {
	select {
	case conn := <-c.conns:
		return conn, nil
	case <-c.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (c *Conns) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// Addr names the listener.
func (c *Conns) Addr() net.Addr { return &net.UnixAddr{Name: "sandboxtest", Net: "unix"} }

// handOver gives the request's connection to the real daemon.
func handOver(w http.ResponseWriter, r *http.Request, real *Conns) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+handsProtocol+"\r\n\r\n")
	if err != nil || !real.Give(context.WithoutCancel(r.Context()), conn) {
		_ = conn.Close()
	}
}

// hands is a client of the real daemon inside a box whose daemon is Serve.
func hands(box sandbox.Box) *sandboxd.Client {
	return sandboxd.NewClient(func(ctx context.Context) (net.Conn, error) {
		conn, err := box.Dial(ctx)
		if err != nil {
			return nil, err
		}
		if err := askForHands(ctx, conn); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return conn, nil
	})
}

func askForHands(ctx context.Context, conn net.Conn) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://box/hands", nil)
	if err != nil {
		return err
	}
	if err := req.Write(conn); err != nil {
		return err
	}
	// Nothing follows the answer before the first request.
	res, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusSwitchingProtocols {
		return errors.New(res.Status)
	}
	return nil
}

// program checks that a program with pipes works inside, waits while the box is
// paused, and ends with what it started when it is closed.
func (s *suite) program(t *testing.T) {
	b := s.backend(t)
	box := s.box(t, b, sandbox.Spec{})
	client := hands(box)
	defer client.Close()
	if s.NoPrograms {
		if _, err := client.Health(s.context(t)); err == nil {
			t.Error("the real daemon serves in a box without processes")
		}
		return
	}
	p, err := client.StartProgram(s.context(t), tool.ProgramRequest{Argv: []string{"sh", "-c",
		`trap '' TERM; sleep 1000 & echo $! > children; setsid sleep 1000 & echo $! >> children; while read -r line; do echo "got $line"; done; wait`}})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	defer func() { _ = p.Close() }()
	in := bufio.NewReader(p)
	ask := func(text string) {
		if _, err := fmt.Fprintln(p, text); err != nil {
			t.Fatalf("write: %v", err)
		}
	}
	answer := func(want string) {
		if line, err := in.ReadString('\n'); err != nil || line != "got "+want+"\n" {
			t.Fatalf("answer %q, %v", line, err)
		}
	}
	ask("first")
	answer("first")
	if b.Caps().Pause {
		if err := box.Pause(s.context(t)); err != nil {
			t.Fatalf("pause: %v", err)
		}
		ask("paused")
		if err := box.Resume(s.context(t)); err != nil {
			t.Fatalf("resume: %v", err)
		}
		answer("paused")
	}
	const living = `for pid in $(cat children); do read -r line < /proc/$pid/stat && case "${line##*) }" in Z*) ;; *) echo $pid;; esac; done 2>/dev/null || true`
	if n := len(strings.Fields(s.sh(t, box, living))); n != 2 {
		t.Errorf("%d children live while the program runs, want 2", n)
	}
	_ = p.Close()
	for deadline := time.Now().Add(s.Patience); s.sh(t, box, living) != ""; {
		if time.Now().After(deadline) {
			t.Fatal("children outlive their program")
		}
	}
}
