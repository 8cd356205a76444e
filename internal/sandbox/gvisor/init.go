package gvisor

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/seccomp"
)

// Stages, as the last argument after InitArgs.
const (
	stageLaunch = "launch" // on the host, in the namespaces of a new box: starts it
	stageHold   = "hold"   // on the host: keeps a user namespace
	stageServe  = "serve"  // the first process inside
	stageBridge = "bridge" // inside: joins two pipes to the first process
)

// insideOrders is the file with the orders of the first process inside. Only user
// 0, whom they are for, can read it there.
const insideOrders = "/.sandboxd.json"

// inside are the orders of the first process inside.
type inside struct {
	hostbox.Inside
	Token   string `json:"token"`
	NoSetID bool   `json:"no_set_id"`
}

// socketName is where sandboxd listens: an abstract name in the kernel of the box.
const socketName = "@parley-sandboxd"

// Bounds of the conversation between bridge and daemon.
const (
	bridgeWait = 20 * time.Second
	bridgePoll = 2 * time.Millisecond
	tokenWait  = 10 * time.Second
	unproven   = 64 // connections that have not shown the token
	ack        = 'k'
)

// Init is the life of the processes of this program that boxes need; args are what
// follows InitArgs on the command line. It never returns. It must be called from
// the main goroutine before anything else is started.
func Init(args []string, serve hostbox.ServeFunc) {
	stage := ""
	if len(args) > 0 {
		stage = args[len(args)-1]
	}
	var err error
	switch stage {
	case stageLaunch:
		control := hostbox.OpenControl()
		if err := launch(control); err != nil {
			control.Fail(err)
		}
		os.Exit(0)
	case stageHold:
		for {
			_ = unix.Pause()
		}
	case stageServe:
		err = serveInside(serve)
	case stageBridge:
		err = bridge()
	default:
		fmt.Fprintln(os.Stderr, "this command is for the server's own use")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveInside is the life of the first process inside.
func serveInside(serve hostbox.ServeFunc) error {
	if err := hide(); err != nil {
		return err
	}
	text, err := os.ReadFile(insideOrders)
	if err != nil {
		return err
	}
	in, err := parseInside(text)
	if err != nil {
		return err
	}
	if err := seccomp.Install(seccomp.Options{NoSetID: in.NoSetID, AllThreads: true}); err != nil {
		return err
	}
	if err := os.MkdirAll(in.WorkingDir, 0o755); err != nil {
		return err
	}
	if err := os.Chdir(in.WorkingDir); err != nil {
		return err
	}
	raw, err := net.Listen("unix", socketName)
	if err != nil {
		return err
	}
	lis := newTokenListener(raw, in.Token)
	return errors.Join(serve(context.Background(), lis, in.Inside), lis.Close())
}

// hide keeps what this process has open and in memory from programs inside.
func hide() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// parseInside reads the orders of the first process inside.
func parseInside(text []byte) (inside, error) {
	var in inside
	if err := json.Unmarshal(text, &in); err != nil {
		return in, fmt.Errorf("orders: %w", err)
	}
	if in.Token == "" || !filepath.IsAbs(in.WorkingDir) {
		return in, errors.New("orders: they are not complete")
	}
	return in, nil
}

// tokenListener accepts those who know the token: every program inside can reach
// the socket, and not all of them are user 0.
type tokenListener struct {
	net.Listener
	token  string
	proven chan net.Conn
	slots  chan struct{}
	done   chan struct{}
	once   sync.Once
	work   sync.WaitGroup
	err    error // why there are no more connections; read after done is closed
}

func newTokenListener(raw net.Listener, token string) *tokenListener {
	l := &tokenListener{Listener: raw, token: token, proven: make(chan net.Conn),
		slots: make(chan struct{}, unproven), done: make(chan struct{})}
	l.work.Go(l.acceptAll)
	return l
}

func (l *tokenListener) acceptAll() {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			l.stop(err)
			return
		}
		l.slots <- struct{}{} // freed within tokenWait, whoever is at the other end
		l.work.Go(func() {
			ok := l.proves(conn)
			<-l.slots
			if ok {
				select {
				case l.proven <- conn:
					return
				case <-l.done:
				}
			}
			_ = conn.Close()
		})
	}
}

// proves reads the token.
func (l *tokenListener) proves(conn net.Conn) bool {
	given := make([]byte, len(l.token))
	if conn.SetDeadline(time.Now().Add(tokenWait)) != nil {
		return false
	}
	_, err := io.ReadFull(conn, given)
	return err == nil && subtle.ConstantTimeCompare(given, []byte(l.token)) == 1 && conn.SetDeadline(time.Time{}) == nil
}

// Accept returns the next connection of the server and tells it so.
func (l *tokenListener) Accept() (net.Conn, error) {
	for {
		select {
		case conn := <-l.proven:
			if _, err := conn.Write([]byte{ack}); err == nil {
				return conn, nil
			}
			_ = conn.Close()
		case <-l.done:
			return nil, l.err
		}
	}
}

func (l *tokenListener) stop(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.done)
	})
}

// Close ends the listener and joins its goroutines.
func (l *tokenListener) Close() error {
	l.stop(net.ErrClosed)
	err := l.Listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	l.work.Wait()
	return err
}

// bridge joins standard input and output to the daemon's socket. It waits for a
// daemon that is still starting.
func bridge() error {
	if err := hide(); err != nil {
		return err
	}
	conn, err := dialDaemon()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	go func() { // ends with the process, at the latest
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.CloseWrite()
	}()
	_, err = io.Copy(os.Stdout, conn)
	return err
}

func dialDaemon() (*net.UnixConn, error) {
	deadline := time.Now().Add(bridgeWait)
	for {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socketName, Net: "unix"})
		if err == nil || time.Now().After(deadline) {
			return conn, err
		}
		time.Sleep(bridgePoll)
	}
}
