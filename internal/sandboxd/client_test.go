package sandboxd_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

func TestNoDaemon(t *testing.T) {
	c := connect(t, filepath.Join(shortDir(t), "absent"))
	_, err := c.Stat(t.Context(), "/")
	wantFault(t, err, fault.Unavailable, sandboxd.CodeGone)
	_, err = c.Exec(t.Context(), tool.ExecRequest{Argv: []string{"true"}})
	wantFault(t, err, fault.Unavailable, sandboxd.CodeGone)
	_, err = c.DialPort(t.Context(), 80)
	wantFault(t, err, fault.Unavailable, sandboxd.CodeGone)
}

// What a dial function says of itself does not hide that the sandbox is gone.
func TestDialFault(t *testing.T) {
	refusal := fault.New(fault.Gone, "box_dead", "The box is dead.")
	c := sandboxd.NewClient(func(context.Context) (net.Conn, error) { return nil, refusal })
	defer c.Close()
	_, err := c.Health(t.Context())
	wantFault(t, err, fault.Unavailable, sandboxd.CodeGone)
	if !errors.Is(err, refusal) {
		t.Fatal("the cause is lost:", err)
	}
}

// talk runs a false daemon that answers each request with text and hangs up.
func talk(t *testing.T, text string) *sandboxd.Client {
	t.Helper()
	socket := newSocket(t)
	lis, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = lis.Close()
		all.Wait()
	})
	return connect(t, socket)
}

func TestBrokenAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	tests := []struct {
		name, answer string
		kind         fault.Kind
		code         string
	}{
		{"nothing", "", fault.Unavailable, sandboxd.CodeGone},
		{"half a header", "HTTP/1.1 200", fault.Unavailable, sandboxd.CodeGone},
		{"half a body", ok + "Content-Length: 100\r\n\r\n{", fault.Unavailable, sandboxd.CodeGone},
		{"half a chunk", ok + "Transfer-Encoding: chunked\r\n\r\n64\r\nabc", fault.Unavailable, sandboxd.CodeGone},
		{"no JSON", ok + "Content-Length: 3\r\n\r\nabc", fault.Internal, "sandbox_protocol"},
		{"no fault", "HTTP/1.1 500 Oh\r\nContent-Length: 3\r\n\r\nabc", fault.Internal, "sandbox_protocol"},
		{"redirect", "HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n", fault.Internal, "sandbox_protocol"},
		{"an older daemon", "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n", fault.Unsupported, "sandboxd_too_old"},
		{"unknown kind", "HTTP/1.1 500 Oh\r\nContent-Type: application/json\r\nContent-Length: 43\r\n\r\n" + `{"kind":"newer","code":"c","message":"M. "}`, fault.Internal, "c"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := talk(t, test.answer)
			_, err := c.Exec(t.Context(), tool.ExecRequest{Argv: []string{"true"}})
			wantFault(t, err, test.kind, test.code)
		})
	}
	_, err := talk(t, ok+"Content-Length: 0\r\n\r\n").ReadTerminal(t.Context(), "t", tool.TerminalRead{})
	wantFault(t, err, fault.Internal, "sandbox_protocol")
	_, err = talk(t, ok+"Content-Length: 0\r\n\r\n").DialPort(t.Context(), 1)
	wantFault(t, err, fault.Internal, "sandbox_protocol")
	err = talk(t, ok+"Transfer-Encoding: chunked\r\n\r\n3\r\nabc").GetTar(t.Context(), "/", io.Discard, nil, 0)
	wantFault(t, err, fault.Unavailable, sandboxd.CodeGone)
}

// A command is never run twice, whatever happens to its connection.
func TestExecIsNotRepeated(t *testing.T) {
	s := listen(t, sandboxd.Options{})
	var broken atomic.Bool
	c := sandboxd.NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", s.socket)
		return &deafConn{Conn: conn, deaf: &broken}, err
	})
	defer c.Close()
	run(t, c, "true") // its connection is used again
	broken.Store(true)
	_, err := c.Exec(t.Context(), tool.ExecRequest{Argv: []string{"sh", "-c", "echo once >> log"}})
	wantFault(t, err, fault.Unavailable, sandboxd.CodeGone)
	broken.Store(false)
	if _, err := c.Stat(t.Context(), s.dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command's trace", func() bool {
		got, err := c.ReadFile(t.Context(), s.dir+"/log", 0)
		return err == nil && string(got) == "once\n"
	})
}

// deafConn loses answers while deaf is set.
type deafConn struct {
	net.Conn
	deaf *atomic.Bool
}

func (d *deafConn) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	if d.deaf.Load() {
		return 0, io.EOF
	}
	return n, err
}

func TestClientClose(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	open(t, c, "t", "cat")
	failed := make(chan error, 2)
	go func() {
		_, err := c.ReadTerminal(context.Background(), "t", tool.TerminalRead{Wait: patience})
		failed <- err
	}()
	go func() {
		_, err := c.Exec(context.Background(), tool.ExecRequest{Argv: []string{"sh", "-c", "echo $$ > pid; exec sleep 1000"}})
		failed <- err
	}()
	pid := readPID(t, filepath.Join(s.dir, "pid"))
	c.Close()
	c.Close()
	for range 2 {
		wantFault(t, <-failed, fault.Canceled, sandboxd.CodeClosed)
	}
	_, err := c.Stat(t.Context(), "/")
	wantFault(t, err, fault.Canceled, sandboxd.CodeClosed)
	eventually(t, "end of the program", func() bool { return !alive(pid) })
	if info := open(t, connect(t, s.socket), "t"); info.Created {
		t.Fatal("the terminal ended with its client")
	}
}

func TestManyLongPolls(t *testing.T) {
	_, c := serve(t, sandboxd.Options{MaxConnections: 8})
	open(t, c, "t", "cat")
	ctx, cancel := context.WithCancel(t.Context())
	var polls sync.WaitGroup
	for range 7 {
		polls.Go(func() {
			_, err := c.ReadTerminal(ctx, "t", tool.TerminalRead{Wait: patience})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	for range 50 {
		run(t, c, "true")
	}
	cancel()
	polls.Wait()
	// Their connections are given back.
	for range 20 {
		run(t, c, "true")
	}
}

// More connections than the daemon takes wait for their turn.
func TestConnectionLimit(t *testing.T) {
	s, c := serve(t, sandboxd.Options{MaxConnections: 2})
	open(t, c, "t", "cat")
	var polls sync.WaitGroup
	for range 6 {
		other := connect(t, s.socket)
		polls.Go(func() {
			if _, err := other.ReadTerminal(t.Context(), "t", tool.TerminalRead{Wait: 10 * time.Millisecond}); err != nil {
				t.Error(err)
			}
			other.Close()
		})
	}
	c.Close()
	polls.Wait()
}

func TestHealthAndRawHTTP(t *testing.T) {
	s, c := serve(t, sandboxd.Options{Version: "1.2.3"})
	open(t, c, "t", "cat")
	h, err := c.Health(t.Context())
	if err != nil || h.Version != "1.2.3" || h.PID == 0 || h.Uptime <= 0 || h.Terminals != 1 || h.WorkingDir != s.dir {
		t.Fatalf("%+v %v", h, err)
	}
	raw := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", s.socket)
	}}}
	tests := []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/nothing", "", 404},
		{"GET", "/exec", "", 405},
		{"POST", "/exec", "{", 400},
		{"POST", "/exec", `{"argv":"true"}`, 400},
		{"POST", "/exec", `{"argv":["true"],"member_of_a_newer_version":1}`, 200},
		{"POST", "/exec", strings.Repeat("[", 20000), 400},
		{"GET", "/files/stat?path=%zz", "", 400},
		{"GET", "/files/stat?path=/;x", "", 400},
		{"GET", "/files/list?path=/&depth=x", "", 400},
		{"PUT", "/files/content?path=/x&new=perhaps", "", 400},
		{"GET", "/ports/80", "", 400},
		{"POST", "/programs", `{"argv":["true"]}`, 400},
		{"GET", "/terminals/t/output?wait=99999999999999999999", "", 400},
		{"PUT", "/terminals/a%2Fb", "{}", 400},
	}
	for _, test := range tests {
		req, err := http.NewRequestWithContext(t.Context(), test.method, "http://sandbox"+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := raw.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != test.status {
			t.Errorf("%s %s: %d %s", test.method, test.path, resp.StatusCode, body)
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://sandbox/health", nil)
	req.Header.Set("X-Long", strings.Repeat("x", 100<<10))
	resp, err := raw.Do(req)
	if err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a long header: %d", resp.StatusCode)
		}
	}
}

func TestServeRefusesWrongOptions(t *testing.T) {
	lis, err := net.Listen("unix", newSocket(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := sandboxd.Serve(t.Context(), lis, sandboxd.Options{WorkingDir: "relative"}); err == nil {
		t.Fatal("no error")
	}
}

func TestServeEndsWithItsListener(t *testing.T) {
	lis, err := net.Listen("unix", newSocket(t))
	if err != nil {
		t.Fatal(err)
	}
	_ = lis.Close()
	if err := sandboxd.Serve(t.Context(), lis, sandboxd.Options{}); err == nil {
		t.Fatal("a broken listener must be an error")
	}
}

// A program inside may take the daemon's place and announce more than there is
// memory.
func TestAnswersAreBounded(t *testing.T) {
	for name, answer := range map[string]string{
		"announced": "HTTP/1.1 200 OK\r\nContent-Length: 9000000000000\r\n\r\nx",
		"sent":      "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 2000),
	} {
		t.Run(name, func(t *testing.T) {
			c := sandboxd.NewClient(func(context.Context) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() {
					buf := make([]byte, 4096)
					_, _ = theirs.Read(buf)
					_, _ = io.WriteString(theirs, answer)
					_ = theirs.Close()
				}()
				return ours, nil
			})
			defer c.Close()
			if _, err := c.ReadFile(t.Context(), "/f", 1000); fault.CodeOf(err) != "sandbox_protocol" {
				t.Errorf("%v", err)
			}
		})
	}
}
