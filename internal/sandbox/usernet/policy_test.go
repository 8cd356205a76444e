package usernet_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"parley/internal/netpolicy"
	"parley/internal/sandbox"
	"parley/internal/sandbox/usernet"
)

func policy(t testing.TB, n sandbox.Network) *netpolicy.Policy {
	t.Helper()
	p, err := netpolicy.Compile(n)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func allow(t testing.TB, entries ...string) *netpolicy.Policy {
	return policy(t, sandbox.Network{Mode: sandbox.NetworkAllow, Allow: entries})
}

// ledger keeps what a stack tells: the latest state of each connection, in the
// order in which they were first told of.
type ledger struct {
	mu    sync.Mutex
	order []string
	by    map[string]sandbox.Connection
	tells int
}

func newLedger() *ledger { return &ledger{by: map[string]sandbox.Connection{}} }

func (l *ledger) record(c sandbox.Connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.by[c.ID]; !known {
		l.order = append(l.order, c.ID)
	}
	l.by[c.ID] = c
	l.tells++
}

func (l *ledger) all() []sandbox.Connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]sandbox.Connection, len(l.order))
	for i, id := range l.order {
		out[i] = l.by[id]
	}
	return out
}

// lines are the connections without times and ids.
func (l *ledger) lines() []string {
	out := []string{}
	for _, c := range l.all() {
		line := fmt.Sprintf("%s %s %s:%d %s %d/%d", c.Protocol, c.Host, c.Address, c.Port, c.Verdict, c.Sent, c.Received)
		if c.Open {
			line += " open"
		}
		out = append(out, line)
	}
	return out
}

// zone answers queries for A from a list of records, in its order: "name A
// address", "name CNAME name". What is asked is kept.
type zone struct {
	mu      sync.Mutex
	records []string
	asked   [][]byte
	ttl     uint32
}

func (z *zone) resolve(_ context.Context, _ string, query []byte) ([]byte, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked = append(z.asked, query)
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	for _, r := range z.records {
		f := strings.Fields(r)
		h := dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(f[0] + "."), Class: dnsmessage.ClassINET, TTL: z.ttl}
		if f[1] == "CNAME" {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(f[2] + ".")}})
		} else if m.Questions[0].Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: [4]byte(net.ParseIP(f[2]).To4())}})
		}
	}
	return m.Pack()
}

func (z *zone) queries() [][]byte {
	z.mu.Lock()
	defer z.mu.Unlock()
	return slices.Clone(z.asked)
}

func wantLines(t *testing.T, l *ledger, want ...string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !slices.Equal(l.lines(), want) {
		if time.Now().After(deadline) {
			t.Fatalf("told:\n%s\nwant:\n%s", strings.Join(l.lines(), "\n"), strings.Join(want, "\n"))
		}
		runtime.Gosched()
	}
}

const refusedErrno = syscall.ECONNREFUSED

func TestAllowedByName(t *testing.T) {
	g, w, l := newGuest(t), newWorld(), newLedger()
	w.serveTCP(t, remote, echo)
	z := &zone{records: []string{"good.test A 198.51.100.7"}}
	s := start(t, g, usernet.Config{Dial: w.dial, Resolver: z.resolve, Policy: allow(t, "good.test:80"), Record: l.record})
	if a := g.run(command{Do: "tcp-dial", Addr: remote}); a.Errno != refusedErrno {
		t.Errorf("before the name was asked for: %+v", a)
	}
	if got := g.must(command{Do: "dns", Name: "Good.Test"}); got != "198.51.100.7" {
		t.Error(got)
	}
	g.must(command{Do: "tcp-echo", Addr: remote, Size: 1000})
	if a := g.run(command{Do: "tcp-dial", Addr: "198.51.100.7:81"}); a.Errno != refusedErrno {
		t.Errorf("another port: %+v", a)
	}
	for range 3 { // each is several queries
		if a := g.run(command{Do: "dns", Name: "evil.test"}); !strings.Contains(a.Error, "no such host") {
			t.Errorf("a name that is not listed: %+v", a)
		}
	}
	if n := len(w.dialed()); n != 1 {
		t.Errorf("%d dials", n)
	}
	for _, q := range z.queries() {
		if strings.Contains(string(q), "evil") {
			t.Error("the name went out")
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantLines(t, l, "tcp  198.51.100.7:80 refused 0/0", "tcp good.test 198.51.100.7:80 allowed 1000/1000",
		"tcp good.test 198.51.100.7:81 refused 0/0", "dns evil.test :0 refused 0/0")
	for _, c := range l.all() {
		if c.ID == "" || c.Began.IsZero() || (c.Verdict == sandbox.VerdictRefused) != (c.Reason != "") || (c.Lasted > 0) != (c.Verdict == sandbox.VerdictAllowed) {
			t.Errorf("%+v", c)
		}
	}
}

func TestNamesLeadNowhereInside(t *testing.T) {
	for name, p := range map[string]*netpolicy.Policy{"open": nil, "listed": allow(t, "evil.test")} {
		t.Run(name, func(t *testing.T) {
			g, w, l := newGuest(t), newWorld(), newLedger()
			z := &zone{records: []string{"evil.test A 10.9.9.9", "evil.test A 169.254.169.254", "evil.test A 10.0.2.2", "evil.test A 100.64.0.1"}}
			start(t, g, usernet.Config{Dial: w.dial, Resolver: z.resolve, Policy: p, Record: l.record})
			g.must(command{Do: "dns", Name: "evil.test"})
			for _, to := range []string{"10.9.9.9:80", "169.254.169.254:80", usernet.Gateway + ":80", "100.64.0.1:80"} {
				if a := g.run(command{Do: "tcp-dial", Addr: to}); a.Errno != refusedErrno {
					t.Errorf("%s: %+v", to, a)
				}
			}
			if len(w.dialed()) > 0 {
				t.Error("something was dialed")
			}
			wantLines(t, l, "tcp evil.test 10.9.9.9:80 refused 0/0", "tcp evil.test 169.254.169.254:80 refused 0/0",
				"tcp  127.0.0.1:80 refused 0/0", "tcp evil.test 100.64.0.1:80 refused 0/0")
		})
	}
}

// Answers count for the name that was asked for, through its aliases.
func TestAnswers(t *testing.T) {
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf("good.test A 198.51.100.%d", i))
	}
	g := newGuest(t)
	for name, c := range map[string]struct {
		records []string
		to      string
		ok      bool
	}{
		"several addresses":        {[]string{"good.test A 198.51.100.1", "good.test A 198.51.100.7"}, remote, true},
		"an alias":                 {[]string{"good.test CNAME cdn.example", "cdn.example A 198.51.100.7"}, remote, true},
		"a chain of aliases":       {[]string{"good.test CNAME a.example", "a.example CNAME b.example", "b.example A 198.51.100.7"}, remote, true},
		"aliases in another order": {[]string{"b.example A 198.51.100.7", "a.example CNAME b.example", "good.test CNAME a.example"}, remote, true},
		"case":                     {[]string{"GOOD.test CNAME CDN.example", "cdn.EXAMPLE A 198.51.100.7"}, remote, true},
		"another name":             {[]string{"good.test A 198.51.100.1", "evil.test A 198.51.100.7"}, remote, false},
		"another name's alias":     {[]string{"evil.test CNAME cdn.example", "cdn.example A 198.51.100.7"}, remote, false},
		"aliases in a circle":      {[]string{"good.test CNAME a.example", "a.example CNAME good.test", "b.example A 198.51.100.7"}, remote, false},
		"many addresses, first":    {many, remote, true},
		"many addresses, last":     {many, "198.51.100.199:80", false},
		"none":                     {nil, remote, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.serveTCP(t, c.to, echo)
			start(t, g, usernet.Config{Dial: w.dial, Resolver: (&zone{records: c.records}).resolve, Policy: allow(t, "good.test")})
			g.run(command{Do: "dns", Name: "good.test", Net: "tcp"}) // TTL 0: the answer holds a while nevertheless
			if a := g.run(command{Do: "tcp-dial", Addr: c.to}); (a.Error == "") != c.ok {
				t.Errorf("%+v", a)
			}
		})
	}
}

// What a query holds beside its question is no way out.
func TestOnlyTheQuestionGoesOut(t *testing.T) {
	g := newGuest(t)
	z := &zone{}
	start(t, g, usernet.Config{Dial: newWorld().dial, Resolver: z.resolve, Policy: allow(t, "good.test")})
	const (
		question = "04676f6f64047465737400" + "0010" + "0001" // good.test TXT
		secret   = "736563726574"
		opt      = "00" + "0029" + "1000" + "00008000" + "000a" + "fde9" + "0006" + secret
		other    = "046576696c047465737400" + "0001" + "0001"
		text     = "00" + "0010" + "0001" + "00000000" + "0007" + "06" + secret
	)
	ids := map[string]bool{}
	for name, c := range map[string]struct {
		query, code string
		out         bool
	}{
		"an option":              {"abcd01000001000000000001" + question + opt, "0", true},
		"another record":         {"abcd01000001000000000002" + question + text + opt, "0", true},
		"bytes behind":           {"abcd01000001000000000000" + question + secret, "0", true},
		"two questions":          {"abcd01000002000000000000" + question + other, "1", false},
		"an update":              {"abcd29000001000000000000" + question, "4", false},
		"a zone transfer":        {"abcd01000001000000000000" + "04676f6f64047465737400" + "00fc0001", "5", false},
		"a name not listed, TXT": {"abcd01000001000000000000" + "06" + secret + other[10:22] + "0010" + "0001", "3", false},
		"the same once more":     {"abcd01000001000000000000" + question, "0", true},
		"a dot in a label":       {"abcd01000001000000000000" + "09" + hex.EncodeToString([]byte("good.test")) + "00" + "0001" + "0001", "1", false},
	} {
		before := len(z.queries())
		answer := g.must(command{Do: "dns-raw", Name: c.query})
		if len(answer) < 24 || answer[:4] != "abcd" || answer[7:8] != c.code {
			t.Errorf("%s is answered with %s", name, answer)
		}
		out := z.queries()[before:]
		if (len(out) == 1) != c.out {
			t.Errorf("%s: %d queries went out", name, len(out))
		}
		for _, q := range out {
			ids[string(q[:2])] = true
			if strings.Contains(string(q), "secret") || strings.Contains(string(q), "evil") {
				t.Errorf("%s went out as %q", name, q)
			}
		}
	}
	if len(ids) < 2 {
		t.Error("the box chose the ids of what went out")
	}
}

// TestLoopbackOfTheServer dials a real server of this machine: its port is had by
// the gateway where the policy lists it, and by nothing else.
func TestLoopbackOfTheServer(t *testing.T) {
	lis, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello")
			_, _ = io.ReadFull(c, make([]byte, 1))
			_ = c.Close()
		}
	})
	defer serving.Wait()
	defer func() { _ = lis.Close() }()
	g, l := newGuest(t), newLedger()
	start(t, g, usernet.Config{Policy: allow(t, lis.Addr().String()), Record: l.record})
	at := func(a net.Addr) string { return fmt.Sprintf("%s:%d", usernet.Gateway, a.(*net.TCPAddr).Port) }
	if got := g.must(command{Do: "tcp-read", Addr: at(lis.Addr())}); got != "hello" {
		t.Errorf("the server said %q", got)
	}
	if a := g.run(command{Do: "tcp-dial", Addr: at(other.Addr())}); a.Errno != refusedErrno {
		t.Errorf("another port: %+v", a)
	}
	wantLines(t, l, "tcp  "+lis.Addr().String()+" allowed 1/5", "tcp  "+other.Addr().String()+" refused 0/0")
}

func TestConnectionsAreTold(t *testing.T) {
	g, w, l := newGuest(t), newWorld(), newLedger()
	w.serveTCP(t, remote, echo)
	w.serveUDP(t, remoteOther)
	s := start(t, g, usernet.Config{Dial: w.dial, Record: l.record, MaxTCP: 1})
	g.must(command{Do: "udp-echo", Addr: remoteOther, Size: 100, Count: 3})
	if a := g.run(command{Do: "tcp-dial", Addr: "203.0.113.1:99"}); a.Errno != refusedErrno {
		t.Errorf("nobody there: %+v", a)
	}
	for range 3 {
		if a := g.run(command{Do: "udp-refused", Addr: "10.8.8.8:53"}); a.Errno != refusedErrno {
			t.Errorf("%+v", a)
		}
	}
	g.must(command{Do: "tcp-hold", Addr: remote, Count: 1})
	if a := g.run(command{Do: "tcp-dial", Addr: remote}); a.Errno != refusedErrno {
		t.Errorf("one too many: %+v", a)
	}
	want := []string{"udp  203.0.113.9:9 allowed 0/0 open", "tcp  203.0.113.1:99 failed 0/0", "udp  10.8.8.8:53 refused 0/0",
		"tcp  198.51.100.7:80 allowed 0/0 open", "tcp  198.51.100.7:80 refused 0/0"}
	wantLines(t, l, want...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want[0], want[3] = "udp  203.0.113.9:9 allowed 300/300", "tcp  198.51.100.7:80 allowed 1/1"
	if got := l.lines(); !slices.Equal(got, want) { // Close waits for the recorder
		t.Errorf("after Close:\n%s", strings.Join(got, "\n"))
	}
	if c := l.all(); c[1].Reason != "the other side refused the connection" || !strings.Contains(c[4].Reason, "1 connections already") {
		t.Errorf("%q, %q", c[1].Reason, c[4].Reason)
	}
}

// TestASlowRecorder stands still while connections are made.
func TestASlowRecorder(t *testing.T) {
	g, w, l := newGuest(t), newWorld(), newLedger()
	w.serveTCP(t, remote, echo)
	release := make(chan struct{})
	s := start(t, g, usernet.Config{Dial: w.dial, Record: func(c sandbox.Connection) {
		<-release
		l.record(c)
	}})
	const connections, workers = 100, 20
	for range connections / workers {
		g.must(command{Do: "tcp-many", Addr: remote, Size: 10, Count: workers})
	}
	close(release)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Those that wait are told of once: ended, but for the first and the last few.
	if len(l.all()) != connections || l.tells > connections+1+workers {
		t.Errorf("%d connections in %d calls", len(l.all()), l.tells)
	}
	for _, line := range l.lines() {
		if line != "tcp  "+remote+" allowed 10/10" {
			t.Error(line)
		}
	}
}

// TestAFlood of refused connections does not fill the log, nor hide what is made.
func TestAFlood(t *testing.T) {
	g, w, l := newGuest(t), newWorld(), newLedger()
	w.serveTCP(t, remote, echo)
	s := start(t, g, usernet.Config{Dial: w.dial, Record: l.record})
	const attempts = 1500
	g.must(command{Do: "tcp-refused", Addr: "10.8.8.8:80", Count: attempts})
	g.must(command{Do: "tcp-echo", Addr: remote, Size: 10})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	all := l.all()
	listed, counted := 0, 0
	for _, c := range all {
		if c.Verdict != sandbox.VerdictRefused {
			continue
		}
		if n := 0; strings.Contains(c.Reason, "too fast") {
			if _, err := fmt.Sscanf(c.Reason, "%d", &n); err != nil {
				t.Error(err)
			}
			counted += n
			continue
		}
		listed++
	}
	if listed < 200 || listed > 800 || listed+counted != attempts {
		t.Errorf("%d are listed, %d counted", listed, counted)
	}
	if last := all[len(all)-1]; last.Verdict != sandbox.VerdictAllowed || last.Sent != 10 {
		t.Errorf("the connection that was made: %+v", last)
	}
}

func TestEthernet(t *testing.T) {
	g, w := newGuestWith(t, deviceTAP), newWorld()
	w.serveTCP(t, remote, echo)
	w.serveUDP(t, remoteOther)
	for range 2 { // the guest keeps the gateway's hardware address
		s := start(t, g, usernet.Config{Dial: w.dial, Resolver: fakeResolver, Ethernet: true})
		g.must(command{Do: "tcp-many", Addr: remote, Size: 100_000, Count: 10})
		g.must(command{Do: "udp-echo", Addr: remoteOther, Size: 60_000, Count: 2})
		if got := g.must(command{Do: "dns", Name: "a.test"}); got != "192.0.2.0 192.0.2.1 192.0.2.2" {
			t.Error(got)
		}
		if got := g.must(command{Do: "ping", Addr: usernet.Gateway, Count: 5000}); got != "echo reply "+usernet.Gateway {
			t.Error(got)
		}
		for _, to := range []string{"10.8.8.8:80", usernet.Gateway + ":80", "10.0.2.77:80"} {
			if a := g.run(command{Do: "tcp-dial", Addr: to}); a.Errno != refusedErrno {
				t.Errorf("%s: %+v", to, a)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
