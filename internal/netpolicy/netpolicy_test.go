package netpolicy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"parley/internal/fault"
	"parley/internal/netpolicy"
	"parley/internal/sandbox"
)

func compile(t testing.TB, n sandbox.Network) *netpolicy.Policy {
	t.Helper()
	p, err := netpolicy.Compile(n)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func allow(entries ...string) sandbox.Network {
	return sandbox.Network{Mode: sandbox.NetworkAllow, Allow: entries}
}

func TestEntriesThatAreRefused(t *testing.T) {
	for name, entry := range map[string]string{
		"nothing": "", "a space": " ", "spaces around": " example.com", "a line break": "example.com\n",
		"a URL": "https://example.com", "a path": "example.com/x", "a user": "root@example.com", "a query": "example.com?x", "a backslash": `example.com\@x`,
		"everything": "*", "everything on a port": "*:443", "a wildcard without a domain": "*.", "a star inside": "a.*.com", "a star in a part": "a*.com", "two stars": "*.*.com",
		"no port": "example.com:", "port 0": "example.com:0", "a port too large": "example.com:65536", "a port range": "example.com:80-90", "port list": "example.com:80,81",
		"a port with a sign": "example.com:+80", "a port with a zero": "example.com:080", "port words": "example.com:http", "a port alone": ":443", "every port": "example.com:*",
		"IPv6": "::1", "IPv6 in brackets": "[::1]:80", "IPv4 in IPv6": "::ffff:10.0.0.5", "an IPv6 network": "fd00::/8", "a zone": "fe80::1%eth0",
		"hexadecimal": "0x7f.1", "hexadecimal at once": "0x7f000001", "a short address": "127.1", "a number": "2130706433", "octal": "0177.0.0.1", "five parts": "1.2.3.4.5",
		"an address with a dot": "127.0.0.1.", "a part too large": "10.0.0.256", "full-width digits": "\uff11\uff12\uff17.0.0.1", "0x": "example.0x", "unicode dots in an address": "127\u30020\u30020\u30021",
		"empty part": "a..com", "a dot in front": ".example.com", "two dots at the end": "example.com..", "only a dot": ".", "unicode dots twice": "a\u3002\u3002com",
		"a long part": strings.Repeat("a", 64) + ".com", "a long name": strings.Repeat("a.", 127) + "com", "too long": strings.Repeat("x", 5000),
		"a hyphen in front": "-a.com", "a hyphen behind": "a-.com", "control characters": "a\x00b.com", "broken punycode": "xn--\u00fc.com", "broken UTF-8": "a\xff.com",
		"localhost": "localhost", "localhost with a port": "LOCALHOST.:8080", "below localhost": "a.localhost", "everything below localhost": "*.localhost",
		"any address": "0.0.0.0", "everything as a network": "0.0.0.0/0", "half of it": "128.0.0.0/1", "multicast": "224.0.0.1", "multicast network": "239.0.0.0/8", "broadcast": "255.255.255.255",
		"bits beyond the network": "10.0.0.5/8", "a network of names": "example.com/8", "bits too many": "10.0.0.0/33", "bits that are none": "10.0.0.0/x", "no bits": "10.0.0.0/", "this network": "0.0.0.0/8",
	} {
		err := netpolicy.Check(allow("fine.example", entry))
		if !fault.Is(err, fault.Invalid) || fault.CodeOf(err) != "sandbox_spec" {
			t.Errorf("%s: %q was read: %v", name, entry, err)
			continue
		}
		if text := fault.PublicText(err); !strings.Contains(text, "The entry \"") || len(text) > 400 {
			t.Errorf("%s: the text does not name the entry, or is long: %s", name, text)
		}
	}
}

func TestPoliciesThatAreRefused(t *testing.T) {
	many, deep := allow(), sandbox.Network{}
	for i := range 257 {
		many.Allow = append(many.Allow, fmt.Sprintf("h%d.example", i))
	}
	for range 6 {
		inner := deep
		deep = sandbox.Network{Within: &inner}
	}
	for name, c := range map[string]struct {
		n   sandbox.Network
		loc string
	}{
		"an unknown mode":         {sandbox.Network{Mode: "closed"}, `["network","mode"]`},
		"too many entries":        {many, `["network","allow"]`},
		"too deep":                {deep, `["network","within","within","within","within"]`},
		"a bad entry":             {allow("a.example", "b:x"), `["network","allow",1]`},
		"a bad entry in open":     {sandbox.Network{Allow: []string{"/"}}, `["network","allow",0]`},
		"a bad entry around":      {sandbox.Network{Within: &sandbox.Network{Allow: []string{""}}}, `["network","within","allow",0]`},
		"an unknown mode outside": {sandbox.Network{Within: &sandbox.Network{Mode: "x"}}, `["network","within","mode"]`},
	} {
		err := netpolicy.Check(c.n)
		var f *fault.Error
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !errors.As(err, &f) || len(f.Fields) != 1 {
			t.Errorf("%s: no field in %v", name, err)
			continue
		}
		if loc, _ := json.Marshal(f.Fields[0].Loc); string(loc) != c.loc {
			t.Errorf("%s: %s, want %s", name, loc, c.loc)
		}
	}
	for _, n := range []sandbox.Network{{}, {Mode: sandbox.NetworkNone}, allow(), {Mode: sandbox.NetworkOpen, Allow: []string{"10.0.0.0/8"}}} {
		if err := netpolicy.Check(n); err != nil {
			t.Errorf("%+v: %v", n, err)
		}
	}
}

func TestNamesThatMayBeLookedUp(t *testing.T) {
	for _, c := range []struct {
		entry   string
		yes, no []string
	}{
		{"example.com", []string{"example.com", "example.com.", "EXAMPLE.Com."},
			[]string{"www.example.com", "com", "", ".", "xexample.com", "example.com.evil.org", "example.com..", "ex\u00e4mple.com"}},
		{"Example.COM.:443", []string{"example.com"}, []string{"example.org"}},
		{"*.example.com", []string{"a.example.com", "a.b.example.com.", "_http._tcp.EXAMPLE.com"},
			[]string{"example.com", ".example.com", "xexample.com", "a.example.com.evil.org"}},
		{"b\u00fccher.example", []string{"xn--bcher-kva.example", "XN--BCHER-KVA.example"}, []string{"bucher.example"}},
		{"B\u00dcCHER\u3002example\u3002", []string{"xn--bcher-kva.example"}, []string{"b\u00fccher.example"}},
		{"fa\u00df.example", []string{"xn--fa-hia.example"}, []string{"fass.example"}},
		{"\uff45xample.com", []string{"example.com"}, nil},
		{"kiosk.example", []string{"KIOSK.example"}, []string{"\u212aiosk.example"}}, // the Kelvin sign
		{"r3---sn-x.example", []string{"r3---sn-x.example"}, nil},
		{"_dmarc.example", []string{"_dmarc.example"}, nil},
		{"intranet", []string{"intranet"}, []string{"intranet.example"}},
		{"10.0.0.5", nil, []string{"10.0.0.5", "example.com"}},
	} {
		p := compile(t, allow(c.entry))
		for _, name := range c.yes {
			if err := p.Lookup(name); err != nil {
				t.Errorf("%q with %q: %v", name, c.entry, err)
			}
		}
		for _, name := range c.no {
			if p.Lookup(name) == nil {
				t.Errorf("%q may be looked up with %q", name, c.entry)
			}
		}
	}
	if err := compile(t, sandbox.Network{}).Lookup("anything.example"); err != nil {
		t.Error(err)
	}
	if compile(t, sandbox.Network{Mode: sandbox.NetworkNone, Allow: []string{"example.com"}}).Lookup("example.com") == nil {
		t.Error("a box without a network looks names up")
	}
}

// attempt is a connection; host names are separated by spaces.
type attempt struct{ hosts, to string }

func (a attempt) try(p *netpolicy.Policy) (string, error) {
	return p.Connect(strings.Fields(a.hosts), netip.MustParseAddrPort(a.to))
}

// never are the addresses that no name leads to and that are not public.
var never = []string{"127.0.0.1:80", "10.0.0.5:80", "172.16.0.1:80", "192.168.1.1:80", "169.254.169.254:80", "100.64.0.1:80", "100.100.100.200:80",
	"192.0.0.192:80", "168.63.129.16:80", "0.0.0.0:80", "224.0.0.1:80", "255.255.255.255:80", "[::1]:80", "[fd00:ec2::254]:80", "[fe80::1%lo]:80",
	"[::ffff:127.0.0.1]:80", "[::ffff:169.254.169.254]:80", "[64:ff9b::a9fe:a9fe]:80", "[2002:7f00:1::]:80"}

func own(t *testing.T) []string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, netip.AddrPortFrom(p.Addr(), 80).String())
		}
	}
	return out
}

func TestWhatIsInsideIsOpenedByNoNameAndNoMode(t *testing.T) {
	for name, n := range map[string]sandbox.Network{
		"open":                   {},
		"open with names":        {Mode: sandbox.NetworkOpen, Allow: []string{"evil.example", "*.evil.example"}},
		"listed":                 allow("evil.example", "*.evil.example"),
		"listed with its port":   allow("evil.example:80", "*.evil.example:80"),
		"other addresses":        allow("evil.example", "10.0.0.6", "10.1.0.0/16", "127.0.0.1:81", "169.254.0.0/17", "192.168.1.1:443"),
		"wide public networks":   allow("evil.example", "8.0.0.0/8", "203.0.0.0/8"),
		"open within a list":     {Within: &sandbox.Network{Mode: sandbox.NetworkAllow, Allow: []string{"evil.example"}}},
		"own list within open":   {Allow: []string{"10.0.0.0/8", "127.0.0.1"}, Within: &sandbox.Network{}},
		"spec's list, not asked": {Within: &sandbox.Network{Allow: []string{"10.0.0.0/8", "127.0.0.0/8"}}},
	} {
		p := compile(t, n)
		for _, to := range append(own(t), never...) {
			for _, hosts := range []string{"", "evil.example", "a.evil.example", "unlisted.example evil.example"} {
				if host, err := (attempt{hosts, to}).try(p); err == nil {
					t.Errorf("%s: %s by %q is reached as %q", name, to, hosts, host)
				}
			}
		}
	}
}

func TestConnections(t *testing.T) {
	listed := allow("a.example", "b.example:443", "*.c.example", "10.0.0.5", "10.9.0.0/16:8080", "127.0.0.1:3000", "192.0.2.0/24", "169.254.169.254")
	for _, c := range []struct {
		n sandbox.Network
		attempt
		host string // of the connection, if it may be made
		text string // part of the reason, if not
	}{
		{listed, attempt{"a.example", "203.0.113.1:1"}, "a.example", ""},
		{listed, attempt{"A.Example.", "203.0.113.1:1"}, "a.example", ""},
		{listed, attempt{"x.example a.example", "203.0.113.1:1"}, "a.example", ""},
		{listed, attempt{"b.example", "203.0.113.1:443"}, "b.example", ""},
		{listed, attempt{"b.example", "203.0.113.1:80"}, "", `allows "b.example", but not its port 80`},
		{listed, attempt{"x.c.example", "203.0.113.1:80"}, "x.c.example", ""},
		{listed, attempt{"c.example", "203.0.113.1:80"}, "", `does not list "c.example"`},
		{listed, attempt{"", "203.0.113.1:80"}, "", "does not list 203.0.113.1:80, and no name that it lists led there"},
		{listed, attempt{"a.example", "10.0.0.5:22"}, "a.example", ""}, // by the address
		{listed, attempt{"x.example", "10.0.0.5:22"}, "x.example", ""},
		{listed, attempt{"", "10.0.0.5:22"}, "", ""},
		{listed, attempt{"", "[::ffff:10.0.0.5]:22"}, "", ""},
		{listed, attempt{"a.example", "10.0.0.6:22"}, "", `"a.example" leads to 10.0.0.6, which is a private address`},
		{listed, attempt{"", "10.9.255.255:8080"}, "", ""},
		{listed, attempt{"", "10.9.1.1:80"}, "", "does not list 10.9.1.1:80"},
		{listed, attempt{"", "127.0.0.1:3000"}, "", ""},
		{listed, attempt{"", "127.0.0.1:3001"}, "", "does not list"},
		{listed, attempt{"", "192.0.2.77:9"}, "", ""},
		{listed, attempt{"", "169.254.169.254:80"}, "", ""},
		{listed, attempt{"", "169.254.169.253:80"}, "", "does not list"},
		{sandbox.Network{}, attempt{"any.example", "203.0.113.1:1"}, "any.example", ""},
		{sandbox.Network{}, attempt{"", "203.0.113.1:1"}, "", ""},
		{sandbox.Network{}, attempt{"", "10.0.0.5:1"}, "", "10.0.0.5 is a private address"},
		{sandbox.Network{Allow: []string{"10.0.0.0/8"}}, attempt{"", "10.0.0.5:1"}, "", ""},
		{sandbox.Network{Allow: []string{"10.0.0.0/8"}}, attempt{"", "203.0.113.1:1"}, "", ""},
		{sandbox.Network{Allow: []string{"127.0.0.0/8"}}, attempt{"", "127.0.0.1:1"}, "", ""},
		{sandbox.Network{Allow: []string{"169.254.0.0/16"}}, attempt{"", "169.254.169.254:1"}, "", ""},
		{sandbox.Network{Allow: []string{"169.0.0.0/8"}}, attempt{"", "169.254.169.254:1"}, "", "link-local"},
		{sandbox.Network{Mode: sandbox.NetworkNone, Allow: []string{"10.0.0.0/8"}}, attempt{"", "10.0.0.5:1"}, "", "allows nothing"},
		{sandbox.Network{Within: &listed}, attempt{"a.example", "203.0.113.1:1"}, "a.example", ""},
		{sandbox.Network{Within: &listed}, attempt{"x.example", "203.0.113.1:1"}, "", `does not list "x.example"`},
		{sandbox.Network{Within: &listed}, attempt{"", "10.0.0.5:22"}, "", "private"},
		{sandbox.Network{Allow: []string{"10.0.0.0/24"}, Within: &listed}, attempt{"", "10.0.0.5:22"}, "", ""},
		{sandbox.Network{Allow: []string{"10.0.0.0/24"}, Within: &listed}, attempt{"", "10.0.0.6:22"}, "", "does not list"},
		{sandbox.Network{Within: &sandbox.Network{Mode: sandbox.NetworkNone}}, attempt{"", "203.0.113.1:1"}, "", "allows nothing"},
		// One name must satisfy all, not each another one.
		{sandbox.Network{Mode: sandbox.NetworkAllow, Allow: []string{"x.example"}, Within: &listed}, attempt{"a.example x.example", "203.0.113.1:1"}, "", "does not list"},
	} {
		host, err := c.try(compile(t, c.n))
		switch {
		case c.text == "" && err != nil:
			t.Errorf("%+v with %+v: %v", c.attempt, c.n, err)
		case c.text == "" && host != c.host:
			t.Errorf("%+v with %+v counts as %q, want %q", c.attempt, c.n, host, c.host)
		case c.text != "" && (err == nil || !strings.Contains(err.Error(), c.text)):
			t.Errorf("%+v with %+v: %v, want %q", c.attempt, c.n, err, c.text)
		}
	}
}

// A network around this host does not open the host; its address does.
func TestANetworkDoesNotOpenThisHost(t *testing.T) {
	for _, to := range own(t) {
		a := netip.MustParseAddrPort(to)
		if !a.Addr().Is4() || a.Addr().IsLoopback() || a.Addr().IsLinkLocalUnicast() {
			continue
		}
		around, err := a.Addr().Prefix(16)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (attempt{"", to}).try(compile(t, allow(around.String()))); err == nil {
			t.Errorf("%v opens %s, which is this host", around, to)
		}
		if _, err := (attempt{"", to}).try(compile(t, allow(to))); err != nil {
			t.Errorf("%s does not open itself: %v", to, err)
		}
	}
}

func FuzzEntry(f *testing.F) {
	for _, s := range []string{"example.com", "*.example.com:443", "10.0.0.0/8:80", "127.0.0.1", "b\u00fccher.example.", "0x7f.1", "[::1]:80", "a\u3002b", "xn--a", "\xff"} {
		f.Add(s, "evil.example")
	}
	f.Fuzz(func(t *testing.T, entry, host string) {
		p, err := netpolicy.Compile(allow(entry))
		if err != nil {
			if !fault.Is(err, fault.Invalid) || len(fault.PublicText(err)) > 1000 {
				t.Errorf("%q: %v", entry, err)
			}
			return
		}
		for _, to := range []string{"127.0.0.1:80", "169.254.169.254:80", "10.0.0.5:80"} {
			named, byName := p.Connect([]string{host}, netip.MustParseAddrPort(to))
			_, byAddress := p.Connect(nil, netip.MustParseAddrPort(to))
			if byName == nil && byAddress != nil {
				t.Errorf("%q opens %s to the name %q", entry, to, named)
			}
		}
		if p.Lookup(host) == nil && strings.Trim(host, ".") == "" {
			t.Errorf("%q lets the root be looked up", entry)
		}
	})
}
