package usernet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"parley/internal/sandbox"
	"parley/internal/sandbox/usernet"
)

func TestMain(m *testing.M) {
	if os.Getenv(guestVar) != "" {
		if err := guestMain(); err != nil {
			fmt.Fprintln(os.Stderr, "guest:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// Addresses that are nobody's (RFC 5737). The dialer maps them to loopback, so
// that no test sends a packet off this machine.
const (
	remote      = "198.51.100.7:80"
	remoteOther = "203.0.113.9:9"
)

// world is the outside as the stack's dialer sees it.
type world struct {
	mu    sync.Mutex
	at    map[string]string // network and address to a listener on 127.0.0.1
	dials []string
}

func newWorld() *world { return &world{at: map[string]string{}} }

func (w *world) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	w.dials = append(w.dials, network+" "+addr)
	to, ok := w.at[network+" "+addr]
	w.mu.Unlock()
	if !ok {
		return nil, syscall.ECONNREFUSED
	}
	return (&net.Dialer{}).DialContext(ctx, network, to)
}

func (w *world) dialed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.dials...)
}

// serveTCP puts a server behind addr.
func (w *world) serveTCP(t testing.TB, addr string, serve func(*net.TCPConn)) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.put("tcp4 "+addr, l.Addr().String())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				serve(c.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
}

func (w *world) put(from, to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at[from] = to
}

// serveUDP puts an echo server behind addr and returns how many source
// addresses it saw.
func (w *world) serveUDP(t testing.TB, addr string) (sources func() int) {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.put("udp4 "+addr, c.LocalAddr().String())
	var seen sync.Map
	var n atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 1<<16)
		for {
			size, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			if _, dup := seen.LoadOrStore(from.String(), true); !dup {
				n.Add(1)
			}
			_, _ = c.WriteTo(buf[:size], from)
		}
	})
	t.Cleanup(func() {
		_ = c.Close()
		wg.Wait()
	})
	return func() int { return int(n.Load()) }
}

func echo(c *net.TCPConn) {
	_, _ = io.Copy(struct{ io.Writer }{c}, c)
	_ = c.CloseWrite()
}

func start(t testing.TB, g *guest, cfg usernet.Config) *usernet.Stack {
	t.Helper()
	s, err := usernet.Start(g.tun, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestTCP(t *testing.T) {
	g, w := newGuest(t), newWorld()
	w.serveTCP(t, remote, echo)
	start(t, g, usernet.Config{Dial: w.dial})
	for _, size := range []int{0, 1, 1000, 100_000, 5 << 20} {
		if got := g.must(command{Do: "tcp-echo", Addr: remote, Size: size}); got != digest(pattern(size)) {
			t.Errorf("%d bytes came back as %s", size, got)
		}
	}
	g.must(command{Do: "tcp-many", Addr: remote, Size: 50_000, Count: 40})
}

func TestHalfCloseFromOutside(t *testing.T) {
	g, w := newGuest(t), newWorld()
	got := make(chan string, 1)
	w.serveTCP(t, remote, func(c *net.TCPConn) {
		_, _ = c.Write([]byte("that is all"))
		_ = c.CloseWrite()
		rest, err := io.ReadAll(c)
		got <- fmt.Sprint(digest(rest), err)
	})
	start(t, g, usernet.Config{Dial: w.dial})
	if text := g.must(command{Do: "tcp-late", Addr: remote, Size: 300_000}); text != "that is all" {
		t.Errorf("the guest read %q", text)
	}
	if text := <-got; text != digest(pattern(300_000))+"<nil>" {
		t.Errorf("after its end the server read %s", text)
	}
}

func TestReset(t *testing.T) {
	g, w := newGuest(t), newWorld()
	w.serveTCP(t, remote, func(c *net.TCPConn) {
		// Not before the connection is in use: a reset during the dial is a
		// refused connection.
		_, _ = io.ReadFull(c, make([]byte, 1))
		_ = c.SetLinger(0)
	})
	start(t, g, usernet.Config{Dial: w.dial})
	if a := g.run(command{Do: "tcp-read", Addr: remote}); a.Errno != syscall.ECONNRESET {
		t.Errorf("a reset outside is %q inside, want ECONNRESET", a.Error)
	}
}

func TestRefused(t *testing.T) {
	g, w := newGuest(t), newWorld()
	const refuse = "10.99.99.99:80" // a private address
	start(t, g, usernet.Config{Dial: w.dial})
	before := len(w.dialed())
	for _, addr := range append(hostAddresses(t), refuse, "169.254.169.254:80", "224.0.0.1:80",
		usernet.Gateway+":22", usernet.DNS+":80", "10.0.2.77:80", "255.255.255.255:80", "0.1.2.3:80") {
		a := g.run(command{Do: "tcp-dial", Addr: addr})
		if a.Error == "" {
			t.Errorf("%s was reached", addr)
		}
	}
	if dials := w.dialed(); len(dials) != before {
		t.Errorf("the dialer was asked for %v", dials)
	}
	// Nobody there: the dial fails, and the guest sees it as such.
	if a := g.run(command{Do: "tcp-dial", Addr: remote}); a.Errno != syscall.ECONNREFUSED {
		t.Errorf("a failed dial is %q inside, want ECONNREFUSED", a.Error)
	}
	if a := g.run(command{Do: "udp-refused", Addr: refuse}); a.Errno != syscall.ECONNREFUSED {
		t.Errorf("a refused datagram is %q inside, want ECONNREFUSED", a.Error)
	}
}

// hostAddresses are this machine's own, which the guest must not reach.
func hostAddresses(t *testing.T) []string {
	t.Helper()
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range own {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			out = append(out, p.Addr().String()+":22")
		}
	}
	return out
}

func TestUDP(t *testing.T) {
	g, w := newGuest(t), newWorld()
	sources := w.serveUDP(t, remoteOther)
	start(t, g, usernet.Config{Dial: w.dial})
	for _, size := range []int{1, 1200, 9000, 60_000} {
		g.must(command{Do: "udp-echo", Addr: remoteOther, Size: size, Count: 5})
	}
	if n := sources(); n != 4 {
		t.Errorf("4 sockets became %d flows", n)
	}
}

func TestUDPFlowsEndWhenIdle(t *testing.T) {
	g, w := newGuest(t), newWorld()
	w.serveUDP(t, remoteOther)
	start(t, g, usernet.Config{Dial: w.dial, UDPIdle: 50 * time.Millisecond, MaxUDP: 2})
	before := runtime.NumGoroutine()
	for range 2 {
		g.must(command{Do: "udp-echo", Addr: remoteOther, Size: 10, Count: 1})
	}
	eventually(t, "the flows end", func() bool { return runtime.NumGoroutine() <= before })
	g.must(command{Do: "udp-echo", Addr: remoteOther, Size: 10, Count: 1}) // the slots are free again
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		}
	}
}

func TestConnectionLimit(t *testing.T) {
	g, w := newGuest(t), newWorld()
	w.serveTCP(t, remote, echo)
	start(t, g, usernet.Config{Dial: w.dial, MaxTCP: 3})
	if n := g.must(command{Do: "tcp-hold", Addr: remote, Count: 5}); n != "3" {
		t.Errorf("%s connections at once, want 3", n)
	}
}

func TestPing(t *testing.T) {
	g := newGuest(t)
	start(t, g, usernet.Config{Dial: newWorld().dial})
	if got := g.must(command{Do: "ping", Addr: usernet.Gateway, Count: 5000}); got != "echo reply "+usernet.Gateway {
		t.Errorf("ping of the gateway: %s", got)
	}
	for _, addr := range []string{"198.51.100.7", usernet.DNS} {
		if a := g.run(command{Do: "ping", Addr: addr, Count: 150}); a.Error == "" {
			t.Errorf("ping of %s: %s", addr, a.Text)
		}
	}
}

// TestCloseResetsAndKeepsTheDevice restarts the stack under a running guest.
func TestCloseResetsAndKeepsTheDevice(t *testing.T) {
	g, w := newGuest(t), newWorld()
	w.serveTCP(t, remote, echo)
	w.serveUDP(t, remoteOther)
	for range 3 {
		s := start(t, g, usernet.Config{Dial: w.dial, Resolver: fakeResolver})
		g.must(command{Do: "tcp-many", Addr: remote, Size: 1000, Count: 10})
		g.must(command{Do: "udp-echo", Addr: remoteOther, Size: 10, Count: 1})
		g.must(command{Do: "dns", Name: "a.test"})
		g.must(command{Do: "tcp-hold", Addr: remote, Count: 1})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
	}
	if a := g.run(command{Do: "tcp-held"}); a.Errno != syscall.ECONNRESET {
		t.Errorf("an open connection after Close: %q, want ECONNRESET", a.Error)
	}
}

// TestCloseDuringDial closes while a dial hangs.
func TestCloseDuringDial(t *testing.T) {
	g := newGuest(t)
	dialing := make(chan struct{})
	s := start(t, g, usernet.Config{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		close(dialing)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	done := make(chan answer, 1)
	go func() { done <- g.run(command{Do: "tcp-dial", Addr: remote}) }()
	<-dialing
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if a := <-done; a.Errno != syscall.ECONNREFUSED {
		t.Errorf("the guest's dial ended with %q, want ECONNREFUSED", a.Error)
	}
}

func TestStartWithoutDevice(t *testing.T) {
	if s, err := usernet.Start(-1, usernet.Config{}); err == nil {
		_ = s.Close()
		t.Error("a stack on no descriptor")
	}
}

// fakeResolver knows one name.
func fakeResolver(_ context.Context, network string, query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	q := m.Questions[0]
	m.Header = dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}
	m.Additionals = nil
	switch {
	case q.Name.String() == "broken.test.":
		return nil, errors.New("no server")
	case !strings.HasSuffix(q.Name.String(), ".test."):
		m.RCode = dnsmessage.RCodeNameError
	case q.Name.String() == "long.test." && network == "udp":
		m.Truncated = true
	case q.Type == dnsmessage.TypeA:
		for i := range byte(3) {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60},
				Body:   &dnsmessage.AResource{A: [4]byte{192, 0, 2, i}}})
		}
	}
	return m.Pack()
}

func TestDNS(t *testing.T) {
	g := newGuest(t)
	start(t, g, usernet.Config{Dial: newWorld().dial, Resolver: fakeResolver})
	const want = "192.0.2.0 192.0.2.1 192.0.2.2"
	for _, c := range []command{{Name: "a.test"}, {Name: "a.test", Net: "tcp"}, {Name: "long.test"}} {
		c.Do = "dns"
		if got := g.must(c); got != want {
			t.Errorf("%s over %q: %s, want %s", c.Name, c.Net, got, want)
		}
	}
	if a := g.run(command{Do: "dns", Name: "a.example"}); !strings.Contains(a.Error, "no such host") {
		t.Errorf("an unknown name: %+v", a)
	}
	if a := g.run(command{Do: "dns", Name: "broken.test"}); !strings.Contains(a.Error, "server misbehaving") {
		t.Errorf("a resolver that fails: %+v", a)
	}
	// A query that makes no sense is answered with FORMERR and its id.
	if got := g.must(command{Do: "dns-raw", Name: "abcd01000001000000000000ff"}); got != "abcd81810000000000000000" {
		t.Errorf("answer to a malformed query: %s", got)
	}
}

// TestHostResolver asks real name servers on loopback, the first of which is
// dead, and follows changes of the file.
func TestHostResolver(t *testing.T) {
	server := nameServer(t)
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(text string, age time.Duration) {
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(conf, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	r := usernet.HostResolver(conf)
	query := packQuery(t, "a.test.")
	if _, err := r(t.Context(), "udp", query); err == nil {
		t.Error("an answer without a resolv.conf")
	}
	write("# comment\nsearch x\nnameserver 127.0.0.1:1\nnameserver "+server+"\n", time.Hour)
	for _, network := range []string{"udp", "tcp"} {
		answer, err := r(t.Context(), network, query)
		if err != nil {
			t.Fatalf("%s: %v", network, err)
		}
		var m dnsmessage.Message
		if err := m.Unpack(answer); err != nil || len(m.Answers) != 3 || m.ID != 77 {
			t.Errorf("%s: %+v, %v", network, m, err)
		}
	}
	write("nameserver 127.0.0.1:1\n", time.Minute)
	if _, err := r(t.Context(), "udp", query); err == nil {
		t.Error("the old servers are still asked")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	write("nameserver "+server+"\n", 0)
	if _, err := r(ctx, "udp", query); err == nil {
		t.Error("an answer for a canceled context")
	}
}

func packQuery(t *testing.T, name string) []byte {
	t.Helper()
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 77, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// nameServer serves fakeResolver on a loopback port, UDP and TCP. Before each
// datagram it sends one with another id, which must be ignored.
func nameServer(t *testing.T) string {
	t.Helper()
	var l net.Listener
	var c net.PacketConn
	for range 20 { // the same port must be free for both
		var err error
		if l, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if c, err = net.ListenPacket("udp4", l.Addr().String()); err == nil {
			break
		}
		_ = l.Close()
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			answer, err := fakeResolver(context.Background(), "udp", buf[:n])
			if err == nil {
				_, _ = c.WriteTo(append([]byte{answer[0] ^ 1}, answer[1:]...), from)
				_, _ = c.WriteTo(answer, from)
			}
		}
	})
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			var size [2]byte
			if _, err := io.ReadFull(conn, size[:]); err == nil {
				query := make([]byte, int(size[0])<<8|int(size[1]))
				if _, err = io.ReadFull(conn, query); err == nil {
					answer, _ := fakeResolver(context.Background(), "tcp", query)
					_, _ = conn.Write(append([]byte{byte(len(answer) >> 8), byte(len(answer))}, answer...))
				}
			}
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = errors.Join(l.Close(), c.Close())
		wg.Wait()
	})
	return l.Addr().String()
}

// BenchmarkThroughput moves 64 MiB through one connection per round.
func BenchmarkThroughput(b *testing.B) {
	const size = 64 << 20
	g, w := newGuest(b), newWorld()
	w.serveTCP(b, remote, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	w.serveTCP(b, remoteOther, func(c *net.TCPConn) {
		chunk := make([]byte, 256<<10)
		for range size / len(chunk) {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
	})
	start(b, g, usernet.Config{Dial: w.dial})
	for name, c := range map[string]command{
		"up":   {Do: "tcp-load", Addr: remote, Size: size},
		"down": {Do: "tcp-load", Addr: remoteOther, Name: "down"},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				g.must(c)
			}
		})
	}
}

// BenchmarkConnect makes connections one after the other: anywhere, and by a long
// list of hosts with each connection told.
func BenchmarkConnect(b *testing.B) {
	entries := []string{"good.test"}
	for i := range 255 {
		entries = append(entries, fmt.Sprintf("*.h%d.example:443", i))
	}
	for name, cfg := range map[string]usernet.Config{
		"open":   {},
		"listed": {Policy: allow(b, entries...), Record: func(sandbox.Connection) {}, Resolver: (&zone{records: []string{"good.test A 198.51.100.7"}}).resolve},
	} {
		b.Run(name, func(b *testing.B) {
			g, w := newGuest(b), newWorld()
			w.serveTCP(b, remote, echo)
			cfg.Dial = w.dial
			start(b, g, cfg)
			if cfg.Resolver != nil {
				g.must(command{Do: "dns", Name: "good.test"})
			}
			for b.Loop() {
				g.must(command{Do: "tcp-echo", Addr: remote, Size: 10})
			}
		})
	}
}

// BenchmarkIdle measures what a stack costs that nobody uses.
func BenchmarkIdle(b *testing.B) {
	g := newGuest(b)
	const n = 200
	stacks := make([]*usernet.Stack, n)
	for b.Loop() {
		heap, stackBytes, routines := memory(), stackMemory(), runtime.NumGoroutine()
		for i := range stacks {
			stacks[i] = start(b, g, usernet.Config{})
		}
		b.ReportMetric(float64(memory()-heap)/n/1024, "KiB-heap/stack")
		b.ReportMetric(float64(stackMemory()-stackBytes)/n/1024, "KiB-goroutines/stack")
		b.ReportMetric(float64(runtime.NumGoroutine()-routines)/n, "goroutines/stack")
		for _, s := range stacks {
			_ = s.Close()
		}
	}
}

func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func stackMemory() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.StackInuse
}
