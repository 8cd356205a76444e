package sandboxd_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/sandboxd"
)

func listenTCP(t *testing.T, address string) (*net.TCPListener, int) {
	t.Helper()
	lis, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip("cannot listen:", err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	return lis.(*net.TCPListener), lis.Addr().(*net.TCPAddr).Port
}

func dial(t *testing.T, c *sandboxd.Client, port int) net.Conn {
	t.Helper()
	conn, err := c.DialPort(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func halfClose(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
}

// A program that answers only when its input has ended needs both halves.
func TestPortPassesBothHalves(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		lis, port := listenTCP(t, address)
		go func() {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			data, _ := io.ReadAll(conn)
			_, _ = conn.Write(append(data, "!"...))
		}()
		conn := dial(t, c, port)
		want := bytes.Repeat([]byte{0, 1, 0xff}, 500_000)
		if _, err := conn.Write(want); err != nil {
			t.Fatal(err)
		}
		halfClose(t, conn)
		got, err := io.ReadAll(conn)
		if err != nil || !bytes.Equal(got, append(want, '!')) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
}

func TestPortCarriesHTTP(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello from "+r.URL.Path)
	}))
	defer srv.Close()
	conn := dial(t, c, srv.Listener.Addr().(*net.TCPAddr).Port)
	if _, err := io.WriteString(conn, "GET /here HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil || !bytes.Contains(got, []byte("hello from /here")) {
		t.Fatalf("%q %v", got, err)
	}
}

func TestPortSpeaksFirst(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	lis, port := listenTCP(t, "127.0.0.1:0")
	ended := make(chan error, 1)
	go func() {
		conn, err := lis.Accept()
		if err != nil {
			ended <- err
			return
		}
		_, _ = io.WriteString(conn, "220 ready")
		_, err = io.Copy(io.Discard, conn)
		_ = conn.Close()
		ended <- err
	}()
	conn := dial(t, c, port)
	got := make([]byte, 9)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "220 ready" {
		t.Fatalf("%q %v", got, err)
	}
	// Deadlines are the connection's own.
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := conn.Read(got); !os.IsTimeout(err) {
		t.Fatal(err)
	}
	_ = conn.Close() // reaches the program
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestPortRefusals(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	lis, port := listenTCP(t, "127.0.0.1:0")
	_ = lis.Close()
	_, err := c.DialPort(t.Context(), port)
	wantFault(t, err, fault.Unavailable, sandboxd.CodePortClosed)
	for _, bad := range []int{0, -1, 65536} {
		_, err := c.DialPort(t.Context(), bad)
		wantFault(t, err, fault.Invalid, sandboxd.CodeBadRequest)
	}
}

func TestPortEndsWithClientAndDaemon(t *testing.T) {
	for _, who := range []string{"client", "daemon"} {
		s, c := serve(t, sandboxd.Options{})
		lis, port := listenTCP(t, "127.0.0.1:0")
		conn := dial(t, c, port)
		program, err := lis.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if who == "client" {
			c.Close()
		} else {
			s.stop(t)
		}
		if n, err := program.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%s: read %d %v", who, n, err)
		}
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%s: read %d %v", who, n, err)
		}
		_ = program.Close()
	}
}

// Many connections work at once; one more than the limit is refused, takes no
// place, and other calls go on meanwhile.
func TestPortsManyAtOnce(t *testing.T) {
	const limit = 40
	_, c := serve(t, sandboxd.Options{MaxConnections: 2 * limit, MaxPorts: limit})
	lis, port := listenTCP(t, "127.0.0.1:0")
	var programs sync.WaitGroup
	programs.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			programs.Go(func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			})
		}
	})
	conns := make([]net.Conn, limit)
	for i := range conns {
		conns[i] = dial(t, c, port)
	}
	_, err := c.DialPort(t.Context(), port)
	wantFault(t, err, fault.TooLarge, sandboxd.CodePortLimit)
	if res := run(t, c, "echo", "still here"); string(res.Stdout) != "still here\n" {
		t.Errorf("a program says %q", res.Stdout)
	}
	var clients sync.WaitGroup
	for i, conn := range conns {
		clients.Go(func() {
			want := bytes.Repeat([]byte{byte(i)}, 200_000)
			go func() {
				_, _ = conn.Write(want)
				_ = conn.(interface{ CloseWrite() error }).CloseWrite()
			}()
			if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, want) {
				t.Errorf("connection %d: %d bytes, %v", i, len(got), err)
			}
			_ = conn.Close()
		})
	}
	clients.Wait()
	eventually(t, "a place is free again", func() bool {
		conn, err := c.DialPort(t.Context(), port)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	_ = lis.Close()
	programs.Wait()
}

// What the client does not read stays with the program: nothing piles up between.
func TestPortHoldsBack(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	lis, port := listenTCP(t, "127.0.0.1:0")
	conn := dial(t, c, port)
	program, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	_ = program.SetWriteDeadline(time.Now().Add(2 * time.Second))
	sent, chunk := 0, make([]byte, 1<<20)
	for err == nil && sent < 64<<20 {
		var n int
		n, err = program.Write(chunk)
		sent += n
	}
	if !os.IsTimeout(err) {
		t.Fatalf("%d bytes went through to a client that does not read: %v", sent, err)
	}
	_ = program.Close()
	if n, err := io.Copy(io.Discard, conn); err != nil || n != int64(sent) {
		t.Errorf("%d of %d bytes arrived: %v", n, sent, err)
	}
}
