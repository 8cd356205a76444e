package console_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/internal/console"
	"parley/internal/fault"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a service and one sandbox, a daemon in the test's process.
type place struct {
	*console.Service
	uses   atomic.Int64
	paused atomic.Bool
}

func newPlace(t *testing.T, opt console.Options) *place {
	t.Helper()
	dir, err := os.MkdirTemp("", "co") // short: a socket lives in it
	check(t, err)
	lis, err := net.Listen("unix", filepath.Join(dir, "s"))
	check(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- sandboxd.Serve(ctx, lis, sandboxd.Options{WorkingDir: dir, Shell: "/bin/sh"}) }()
	client := sandboxd.NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", lis.Addr().String())
	})
	p := &place{}
	opt.Reach = func(_ context.Context, _, _ string, use bool) (tool.Hands, error) {
		if p.paused.Load() {
			return nil, fault.New(fault.Conflict, console.CodePaused, "Paused.")
		}
		if use {
			p.uses.Add(1)
		}
		return client, nil
	}
	p.Service = console.New(opt)
	t.Cleanup(func() {
		p.Close()
		client.Close()
		stop()
		check(t, errors.Join(<-served, os.RemoveAll(dir)))
	})
	return p
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *place) shell(t *testing.T) *console.Session {
	t.Helper()
	s, err := p.Open(t.Context(), console.Request{Owner: "me", SandboxID: "box", Rows: 24, Cols: 80})
	check(t, err)
	return s
}

func shows(t *testing.T, s *console.Session, text string) {
	t.Helper()
	var all strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(all.String(), text) {
		n, err := s.Read(buf)
		all.Write(buf[:n])
		if err != nil {
			t.Fatalf("%q does not come: %v\n%s", text, err, all.String())
		}
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func TestTypingIsUseOfTheSandbox(t *testing.T) {
	p := newPlace(t, console.Options{Touch: time.Millisecond})
	s := p.shell(t)
	opened := p.uses.Load()
	if opened == 0 {
		t.Fatal("opening it is no use")
	}
	check(t, s.Type([]byte("echo al''ive\n")))
	shows(t, s, "alive")
	eventually(t, "use", func() bool { return p.uses.Load() > opened })
	s.Close()
}

func TestUseIsNotedNowAndThen(t *testing.T) {
	p := newPlace(t, console.Options{Touch: time.Hour})
	s := p.shell(t)
	for range 50 {
		check(t, s.Type([]byte("echo x\n")))
	}
	check(t, s.Type([]byte("echo al''l\n")))
	shows(t, s, "all")
	s.Close()
	p.Close()
	if n := p.uses.Load(); n > 2 {
		t.Fatalf("noted %d times", n)
	}
}

func TestNothingTypedForLong(t *testing.T) {
	p := newPlace(t, console.Options{Idle: 200 * time.Millisecond})
	s := p.shell(t)
	defer s.Close()
	_, err := io.Copy(io.Discard, s)
	if fault.CodeOf(err) != console.CodeIdle {
		t.Fatalf("%v", err)
	}
	p.shell(t).Close() // its place is free
}

func TestPauses(t *testing.T) {
	p := newPlace(t, console.Options{})
	s := p.shell(t)
	defer s.Close()
	p.paused.Store(true)
	p.Changed("another")
	p.Changed("box")
	<-s.News()
	if err := s.Type([]byte("x")); !s.Paused() || fault.CodeOf(err) != console.CodePaused {
		t.Fatalf("%v %v", s.Paused(), err)
	}
	_, err := p.Open(t.Context(), console.Request{Owner: "me", SandboxID: "box", Rows: 24, Cols: 80})
	if !fault.Is(err, fault.Conflict) || fault.CodeOf(err) != console.CodePaused {
		t.Fatal(err)
	}
	p.paused.Store(false)
	p.Changed("box")
	<-s.News()
	check(t, s.Type([]byte("echo al''ive\n")))
	shows(t, s, "alive")
}

func TestBounds(t *testing.T) {
	p := newPlace(t, console.Options{Most: 1})
	for _, size := range [][2]int{{0, 80}, {24, 0}, {console.MaxRows + 1, 80}, {24, console.MaxCols + 1}} {
		_, err := p.Open(t.Context(), console.Request{SandboxID: "box", Rows: size[0], Cols: size[1]})
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%v: %v", size, err)
		}
	}
	s := p.shell(t)
	if err := s.Type(make([]byte, console.MaxInput+1)); !fault.Is(err, fault.TooLarge) {
		t.Error(err)
	}
	if err := s.Resize(0, 1); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
	_, err := p.Open(t.Context(), console.Request{SandboxID: "box", Rows: 24, Cols: 80})
	if !fault.Is(err, fault.RateLimited) || fault.CodeOf(err) != console.CodeTooMany {
		t.Error(err)
	}
	s.Close()
	s.Close()
	p.shell(t).Close()
}

func TestCloseEndsSessions(t *testing.T) {
	p := newPlace(t, console.Options{})
	s := p.shell(t)
	p.Close()
	_, err := io.Copy(io.Discard, s)
	if fault.CodeOf(err) != console.CodeStopping {
		t.Fatal(err)
	}
	if _, err = p.Open(t.Context(), console.Request{SandboxID: "box", Rows: 24, Cols: 80}); fault.CodeOf(err) != console.CodeStopping {
		t.Fatal(err)
	}
	check(t, s.Type([]byte("nobody reads this")))
}
