package egress_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"parley/internal/fault"
	"parley/internal/tool/mcp/egress"
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

func dialer(t testing.TB, c egress.Config) dialFunc {
	t.Helper()
	dial, err := egress.Dialer(c)
	if err != nil {
		t.Fatal(err)
	}
	return dial
}

// resolving answers every question with the same addresses.
func resolving(addrs ...string) func(context.Context, string) ([]netip.Addr, error) {
	return func(context.Context, string) ([]netip.Addr, error) {
		var out []netip.Addr
		for _, a := range addrs {
			out = append(out, netip.MustParseAddr(a))
		}
		return out, nil
	}
}

// listen returns the port of a listener on loopback, on which it accepts.
func listen(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func TestInsideIsRefused(t *testing.T) {
	port := listen(t)
	for _, a := range []string{"127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"169.254.169.254", "fe80::1", "fe80::1%lo", "fc00::1", "fd00:ec2::254", "fec0::1", "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1",
		"100.64.0.1", "100.127.255.255", "100.100.100.200", "198.18.0.1", "192.0.0.192",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
		"2002:7f00:1::1", "2002:a00:1::", "2002:a9fe:a9fe::1", "2001:0:1:2::3", "2001:4860::5efe:a00:1", "2001:4860::200:5efe:7f00:1"} {
		for what, dial := range map[string]dialFunc{"as it is": dialer(t, egress.Config{}), "by a name": dialer(t, egress.Config{Lookup: resolving(a)})} {
			host := a
			if what == "by a name" {
				host = "name.example"
			}
			conn, err := dial(t.Context(), "tcp", net.JoinHostPort(host, port))
			if err == nil {
				_ = conn.Close()
			}
			if !fault.Is(err, fault.Forbidden) || fault.CodeOf(err) != egress.CodeRefused || !strings.Contains(fault.PublicText(err), "mcp_allow") {
				t.Errorf("%s %s: %v", a, what, err)
			}
			if what == "by a name" && strings.Contains(fault.PublicText(err), a) {
				t.Errorf("the error tells what the name resolves to: %v", fault.PublicText(err))
			}
		}
	}
}

// The addresses of this machine's interfaces lead to it as loopback does.
func TestThisMachineIsRefused(t *testing.T) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	dial := dialer(t, egress.Config{})
	for _, o := range own {
		p, err := netip.ParsePrefix(o.String())
		if err != nil {
			continue
		}
		if _, err := dial(t.Context(), "tcp", net.JoinHostPort(p.Addr().String(), "9")); fault.CodeOf(err) != egress.CodeRefused {
			t.Errorf("%v: %v", p, err)
		}
	}
}

// An address of the internet is tried: the context, which is over, is all that stops it.
func TestTheInternetIsNotRefused(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, a := range []string{"8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::1", "2001:4860:4860::8888"} {
		if _, err := dialer(t, egress.Config{})(ctx, "tcp", net.JoinHostPort(a, "443")); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", a, err)
		}
	}
}

func TestAllowLiftsTheRule(t *testing.T) {
	port := listen(t)
	for _, x := range []struct {
		allow, host string
		ok          bool
	}{
		{"*", "127.0.0.1", true},
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1", "name.example", true}, // the address is what was allowed
		{"127.0.0.1:" + port, "127.0.0.1", true},
		{"127.0.0.1:1", "127.0.0.1", false},
		{"127.0.0.0/8", "127.0.0.1", true},
		{"127.0.0.0/8", "::ffff:127.0.0.1", true},
		{"::ffff:127.0.0.0/104", "127.0.0.1", true},
		{"[127.0.0.1]", "127.0.0.1", true},
		{"10.0.0.0/8", "127.0.0.1", false},
		{"name.example", "Name.Example.", true},
		{"NAME.example:" + port, "name.example", true},
		{"name.example:1", "name.example", false},
		{"name.example", "127.0.0.1", false}, // the name, not its addresses
		{"example", "name.example", false},
		{"other.example", "name.example", false},
	} {
		dial := dialer(t, egress.Config{Allow: []string{x.allow}, Lookup: resolving("127.0.0.1")})
		conn, err := dial(t.Context(), "tcp", net.JoinHostPort(x.host, port))
		if (err == nil) != x.ok || err != nil && fault.CodeOf(err) != egress.CodeRefused {
			t.Errorf("%s allowed, %s: %v", x.allow, x.host, err)
		}
		if conn != nil {
			_ = conn.Close()
		}
	}
}

func TestBadEntriesAreRefused(t *testing.T) {
	for _, entry := range []string{"", " ", "http://x", "x:y", "x:0", "x:65536", "10.0.0.0/33", "*.example", "a b", "[::1", "x:1:2"} {
		if _, err := egress.Dialer(egress.Config{Allow: []string{"localhost", entry}}); !fault.Is(err, fault.Invalid) || fault.CodeOf(err) != egress.CodeBadAllow {
			t.Errorf("%q: %v", entry, err)
		}
	}
}

// A name is resolved once; what it resolves to later does not count.
func TestTheCheckedAddressIsDialed(t *testing.T) {
	port, calls := listen(t), 0
	dial := dialer(t, egress.Config{Allow: []string{"127.0.0.1"}, Lookup: func(context.Context, string) ([]netip.Addr, error) {
		calls++
		return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("127.0.0.1")}, nil
	}})
	conn, err := dial(t.Context(), "tcp", "rebind.example:"+port)
	if err != nil || calls != 1 {
		t.Fatalf("%d look-ups: %v", calls, err)
	}
	defer func() { _ = conn.Close() }()
	if got := conn.RemoteAddr().String(); got != "127.0.0.1:"+port {
		t.Errorf("connected to %s", got)
	}
}

func TestOtherFailures(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	_ = l.Close()
	all := egress.Config{Allow: []string{"*"}}
	if _, err := dialer(t, all)(t.Context(), "tcp", closed); fault.CodeOf(err) != egress.CodeConnect {
		t.Errorf("nobody listens: %v", err)
	}
	all.Lookup = func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("hush") }
	if _, err := dialer(t, all)(t.Context(), "tcp", "x:1"); fault.CodeOf(err) != egress.CodeLookup || strings.Contains(fault.PublicText(err), "hush") {
		t.Errorf("no such name: %v", err)
	}
	all.Lookup = resolving()
	if _, err := dialer(t, all)(t.Context(), "tcp", "x:1"); fault.CodeOf(err) != egress.CodeLookup {
		t.Errorf("a name without addresses: %v", err)
	}
	for _, network := range []string{"udp", "unix", "ip"} {
		if _, err := dialer(t, all)(t.Context(), network, closed); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", network, err)
		}
	}
}

func FuzzAllow(f *testing.F) {
	for _, s := range []string{"*", "localhost:3000", "10.0.0.0/8", "[::1]:80", "fe80::1%eth0", "::ffff:10.0.0.0/104"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		dial, err := egress.Dialer(egress.Config{Allow: []string{entry}})
		if err != nil {
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		// What is not an address, a network or everything lifts nothing for an address.
		_, err = dial(ctx, "tcp", "10.0.0.1:1")
		lifted := errors.Is(err, context.Canceled)
		if !lifted && fault.CodeOf(err) != egress.CodeRefused || lifted && !strings.ContainsAny(entry, "*0123456789:") {
			t.Errorf("%q: %v", entry, err)
		}
	})
}
