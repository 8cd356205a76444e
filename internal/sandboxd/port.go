package sandboxd

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"parley/internal/fault"
)

const (
	portDialTime = 5 * time.Second
	// portLinger is how long the program behind a port may go on sending after the
	// client's side has ended.
	portLinger = time.Minute
)

func (d *daemon) dialPort(w http.ResponseWriter, r *http.Request) error {
	port, err := decodePort(r.PathValue("port"))
	if err != nil {
		return err
	}
	if r.Header.Get("Upgrade") != portProtocol {
		return invalid("A port's connection needs the header Upgrade: %s.", portProtocol)
	}
	if port == d.own { // whoever asks here has what is there
		return portClosed(nil, port)
	}
	select {
	case d.ports <- struct{}{}:
		defer func() { <-d.ports }()
	default:
		return fault.New(fault.TooLarge, CodePortLimit, "%d connections to ports of the sandbox are open, which is the limit.", cap(d.ports)).
			WithHint("Close those that are not needed.")
	}
	program, err := dialLoopback(r.Context(), port)
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }()
	client, in, err := switchProtocol(w, portProtocol)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	d.relay(r.Context(), client, in, program)
	return nil
}

// switchProtocol takes the request's connection over. in is what the client sends.
// A client that is gone already shows when the connection is used.
func switchProtocol(w http.ResponseWriter, protocol string) (client net.Conn, in io.Reader, err error) {
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	answer := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n\r\n"
	if _, err := io.WriteString(client, answer); err != nil {
		_ = client.Close()
	}
	// Past what was read already, from the connection itself: net/http's reader
	// takes the end of the client's half for the end of the request.
	early := io.LimitReader(buffered, int64(buffered.Reader.Buffered()))
	return client, io.MultiReader(early, client), nil
}

func decodePort(text string) (int, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, invalid("A port is a number from 1 to 65535.")
	}
	return int(port), nil
}

// dialLoopback tries both families: many development servers listen on one only.
func dialLoopback(ctx context.Context, port int) (net.Conn, error) {
	dialer := net.Dialer{Timeout: portDialTime}
	var errs []error
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, portClosed(errors.Join(errs...), port)
}

func portClosed(err error, port int) error {
	return fault.Wrap(err, fault.Unavailable, CodePortClosed, "Nothing listens on port %d in the sandbox.", port).
		WithHint("Start a program that listens on it, or wait until it does.")
}

// relay copies both ways, each direction to its end, until both have ended or
// the daemon stops. in is what the client sends.
func (d *daemon) relay(ctx context.Context, client net.Conn, in io.Reader, program net.Conn) {
	unhook := context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = program.Close()
	})
	defer unhook()
	var ways sync.WaitGroup
	ways.Go(func() {
		_, err := io.Copy(program, in)
		endWrite(program, err)
		// A client that is gone looks like one that only ended its side.
		_ = program.SetReadDeadline(time.Now().Add(portLinger))
	})
	ways.Go(func() {
		_, err := io.Copy(client, program)
		endWrite(client, err)
		if err != nil {
			_ = client.SetReadDeadline(time.Unix(1, 0))
		}
	})
	ways.Wait()
}

// endWrite passes the end of one side on; after an error both directions end.
func endWrite(conn net.Conn, err error) {
	if err != nil {
		_ = conn.Close()
		return
	}
	_ = closeWrite(conn)
}
