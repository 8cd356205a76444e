package usernet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"
)

// HostResolver forwards queries to the name servers of a resolv.conf ("" means
// the host's), one after the other until one answers. The file is read again
// when it changes. It talks to the servers directly: they may well be on
// loopback, where the sandbox itself must not go.
func HostResolver(path string) Resolver {
	if path == "" {
		path = "/etc/resolv.conf"
	}
	h := &hostResolver{path: path}
	return h.resolve
}

// serverTimeout bounds the wait for one server.
const serverTimeout = 3 * time.Second

type hostResolver struct {
	path string

	mu      sync.Mutex
	changed time.Time
	servers []string
}

func (h *hostResolver) resolve(ctx context.Context, network string, query []byte) ([]byte, error) {
	servers, err := h.current()
	if err != nil {
		return nil, err
	}
	errs := []error{}
	for _, server := range servers {
		answer, err := ask(ctx, network, server, query)
		if err == nil {
			return answer, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no name server answered: %w", errors.Join(errs...))
}

// current returns the servers of the file as it is now.
func (h *hostResolver) current() ([]string, error) {
	info, err := os.Stat(h.path)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.servers != nil && info.ModTime().Equal(h.changed) {
		return h.servers, nil
	}
	text, err := os.ReadFile(h.path)
	if err != nil {
		return nil, err
	}
	h.servers, h.changed = parseServers(text), info.ModTime()
	return h.servers, nil
}

// parseServers reads the nameserver lines, the resolver's default if there are
// none.
func parseServers(text []byte) []string {
	var servers []string
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		host, port := fields[1], uint16(dnsPort)
		if a, err := netip.ParseAddr(host); err == nil {
			servers = append(servers, netip.AddrPortFrom(a, port).String())
		} else if a, err := netip.ParseAddrPort(host); err == nil { // an extension some resolvers know
			servers = append(servers, a.String())
		}
	}
	if len(servers) == 0 {
		servers = []string{"127.0.0.1:53"}
	}
	return servers
}

// ask sends one query to one server.
func ask(ctx context.Context, network, server string, query []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, server)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing is buffered
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if network == "tcp" {
		return exchangeStream(conn, query)
	}
	return exchangeDatagram(conn, query)
}

func exchangeStream(conn io.ReadWriter, query []byte) ([]byte, error) {
	if err := writeMessage(conn, query); err != nil {
		return nil, err
	}
	return readMessage(conn)
}

// exchangeDatagram ignores datagrams that do not answer this query.
func exchangeDatagram(conn io.ReadWriter, query []byte) ([]byte, error) {
	if _, err := conn.Write(query); err != nil {
		return nil, err
	}
	buf := make([]byte, dnsMaxUDP)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return nil, err
		}
		if n >= dnsHeaderSize && buf[0] == query[0] && buf[1] == query[1] && buf[2]&0x80 != 0 {
			return buf[:n], nil
		}
	}
}
