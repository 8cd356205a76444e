package local_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"parley/internal/netpolicy"
	"parley/internal/sandbox"
	"parley/internal/sandbox/local"
	"parley/internal/sandbox/usernet"
)

// publicWeb is an address of the internet that nobody has (RFC 5737); the dialer of
// these tests finds a server of this machine there.
const publicWeb = "203.0.113.80:80"

// outside is what boxes of these tests find: a name server that has one answer for
// every name, a web server behind publicWeb, and one on this machine's loopback.
type outside struct {
	resolver, web string // 127.0.0.1:port
	mu            sync.Mutex
	asked         []string
	told          map[string]sandbox.Connection
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{told: map[string]sandbox.Connection{}}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "served %s", r.URL.Path)
	}))
	t.Cleanup(web.Close)
	o.web = web.Listener.Addr().String()
	dns, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.resolver = dns.LocalAddr().String()
	var serving sync.WaitGroup
	serving.Go(func() { o.serveNames(dns) })
	t.Cleanup(func() {
		_ = dns.Close()
		serving.Wait()
	})
	return o
}

func (o *outside) serveNames(conn net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		o.mu.Lock()
		o.asked = append(o.asked, q.Name.String())
		o.mu.Unlock()
		m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
		address := netip.MustParseAddrPort(publicWeb).Addr().As4()
		if strings.HasPrefix(q.Name.String(), "rebind.") {
			address = [4]byte{169, 254, 169, 254}
		}
		if q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class},
				Body: &dnsmessage.AResource{A: address}}}
		}
		if answer, err := m.Pack(); err == nil {
			_, _ = conn.WriteTo(answer, from)
		}
	}
}

// connect is the server's side of a box's network, as the server has it.
func (o *outside) connect(t *testing.T) func(context.Context, int, string, sandbox.Network) (io.Closer, error) {
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(conf, []byte("nameserver "+o.resolver+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(_ context.Context, tun int, _ string, n sandbox.Network) (io.Closer, error) {
		defer func() { _ = unix.Close(tun) }()
		policy, err := netpolicy.Compile(n)
		if err != nil {
			return nil, err
		}
		return usernet.Start(tun, usernet.Config{Policy: policy, Record: o.record, Resolver: usernet.HostResolver(conf), Dial: o.dial})
	}
}

func (o *outside) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if addr == publicWeb {
		addr = o.web
	}
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}

func (o *outside) record(c sandbox.Connection) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told[c.ID] = c
}

func (o *outside) wasAsked(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.asked, name)
}

// log is what was told, without times, sorted.
func (o *outside) log() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for _, c := range o.told {
		line := fmt.Sprintf("%s %s %s:%d %s", c.Protocol, c.Host, c.Address, c.Port, c.Verdict)
		if c.Open || c.Verdict == sandbox.VerdictAllowed && (c.Sent == 0 || c.Received == 0) {
			line += fmt.Sprintf(" open %v, %d/%d bytes", c.Open, c.Sent, c.Received)
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// fetch is a web request that bash alone can make: many boxes have no curl.
func fetch(host, port string) string {
	return fmt.Sprintf(`timeout 20 bash -c 'exec 3<>/dev/tcp/%s/%s && printf "GET /page HTTP/1.0\r\n\r\n" >&3 && cat <&3' 2>&1`, host, port)
}

func TestNetworkPolicy(t *testing.T) {
	out := newOutside(t)
	o := options(t)
	o.Network = out.connect(t)
	b, err := local.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if !holds(t, b, "network_outbound") {
		_ = b.Close()
		t.Skip("Caps says that there is no network device here")
	}
	box := create(t, b, sandbox.Spec{ID: "listed", Network: sandbox.Network{Mode: sandbox.NetworkAllow,
		Allow: []string{"web.example:80", "rebind.example", out.web}}})
	port := out.web[strings.LastIndex(out.web, ":")+1:]
	for _, c := range []struct{ script, want string }{
		{fetch("web.example", "80"), "served /page"},
		{fetch(usernet.Gateway, port), "served /page"}, // the loopback of the server's machine
		{fetch("web.example", "81"), "Connection refused"},
		{fetch("rebind.example", "80"), "Connection refused"},
		{fetch("203.0.113.81", "80"), "Connection refused"},
		{fetch("10.1.2.3", "80"), "Connection refused"},
		{fetch("evil.example", "80"), "Name or service not known"},
	} {
		start := time.Now()
		if got := run(t, box, c.script); !strings.Contains(got.Text, c.want) {
			t.Errorf("%s: %s, want %q", c.script, got.Text, c.want)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s took %v", c.script, took)
		}
	}
	for _, program := range []string{
		"curl -sS -m 20 http://web.example/page",
		`python3 -c 'import urllib.request as u; print(u.urlopen("http://web.example/page", timeout=20).read().decode())'`,
	} {
		if run(t, box, "command -v "+strings.Fields(program)[0]).Code != 0 {
			continue
		}
		if got := run(t, box, program); !strings.Contains(got.Text, "served /page") {
			t.Errorf("%s: %s", program, got.Text)
		}
	}
	if out.wasAsked("evil.example.") {
		t.Error("a name that is not listed left the box")
	}
	want := []string{"dns evil.example :0 refused", "tcp  10.1.2.3:80 refused", "tcp  " + out.web + " allowed", "tcp  203.0.113.81:80 refused",
		"tcp rebind.example 169.254.169.254:80 refused", "tcp web.example 203.0.113.80:80 allowed", "tcp web.example 203.0.113.80:81 refused"}
	deadline := time.Now().Add(patience)
	for !slices.Equal(slices.Compact(out.log()), want) {
		if time.Now().After(deadline) {
			t.Fatalf("told:\n%s\nwant:\n%s", strings.Join(out.log(), "\n"), strings.Join(want, "\n"))
		}
		runtime.Gosched()
	}
}
