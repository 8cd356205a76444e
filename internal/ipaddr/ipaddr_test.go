package ipaddr_test

import (
	"net"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/ipaddr"
)

func TestRules(t *testing.T) {
	for _, group := range []struct {
		name             string
		outbound, public bool
		addrs            []string
	}{
		{"the internet", true, true, []string{"8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "198.51.100.7", "::ffff:8.8.8.8",
			"2606:4700::1111", "2001:4860:4860::8888", "64:ff9b::808:808", "2002:808:808::1", "2001:4860::5efe:808:808"}},
		{"private networks and reserved addresses", true, false, []string{"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.77.200",
			"::ffff:10.0.0.1", "fc00::1", "fd00:ec2::254", "fec0::1", "100.64.0.1", "100.127.255.255", "100.100.100.200", "198.18.0.1",
			"192.0.0.192", "168.63.129.16", "192.88.99.1", "240.0.0.1", "64:ff9b:1::1", "100::1", "2001:0:1:2::3"}},
		{"private networks through translators and tunnels", true, false, []string{"64:ff9b::a00:1", "2002:a00:1::", "2001:4860::5efe:a00:1",
			"2001:4860::200:5efe:c0a8:101", "64:ff9b::6440:1"}},
		{"this host and no single host", false, false, []string{"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "0.4.4.4",
			"169.254.169.254", "fe80::1", "fe80::1%lo", "::ffff:169.254.169.254", "224.0.0.251", "ff02::1", "255.255.255.255"}},
		{"this host through NAT64", false, false, []string{"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b::", "64:ff9b::e000:1", "64:ff9b::ffff:ffff", "64:ff9b::7f00:1%x"}},
		{"this host through 6to4", false, false, []string{"2002:7f00:1::1", "2002:a9fe:a9fe::1", "2002::1", "2002:e000:1::", "2002:ffff:ffff::1"}},
		{"this host through ISATAP", false, false, []string{"2001:4860::5efe:7f00:1", "2001:4860::200:5efe:7f00:1", "fd00::5efe:a9fe:a9fe",
			"fd00::300:5efe:127.0.0.1", "fd00::100:5efe:0.0.0.0"}},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, text := range group.addrs {
				a := netip.MustParseAddr(text)
				if err := ipaddr.Outbound(a); (err == nil) != group.outbound {
					t.Errorf("Outbound(%s): %v", text, err)
				}
				if err := ipaddr.Public(a); (err == nil) != group.public {
					t.Errorf("Public(%s): %v", text, err)
				}
			}
		})
	}
}

// translated are the addresses through which an IPv4 address can be reached.
func translated(v4 [4]byte) map[string]netip.Addr {
	sixToFour, nat64 := [16]byte{0x20, 0x02}, [16]byte{0, 0x64, 0xff, 0x9b}
	isatap := [16]byte{0x20, 0x01, 0x48, 0x60, 10: 0x5e, 11: 0xfe}
	copy(sixToFour[2:], v4[:])
	copy(nat64[12:], v4[:])
	copy(isatap[12:], v4[:])
	return map[string]netip.Addr{"6to4": netip.AddrFrom16(sixToFour), "NAT64": netip.AddrFrom16(nat64),
		"ISATAP": netip.AddrFrom16(isatap), "mapped": netip.AddrFrom16(netip.AddrFrom4(v4).As16())}
}

// The addresses of this host's interfaces lead to it as loopback does.
func TestThisHostIsRefused(t *testing.T) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range own {
		p, err := netip.ParsePrefix(o.String())
		if err != nil {
			continue
		}
		addrs := map[string]netip.Addr{"as it is": p.Addr()}
		if v4 := p.Addr().Unmap(); v4.Is4() {
			addrs = translated(v4.As4())
			addrs["as it is"] = v4
		}
		for what, a := range addrs {
			if ipaddr.Outbound(a) == nil || ipaddr.Public(a) == nil {
				t.Errorf("%v %s is not refused", p, what)
			}
		}
	}
}

func TestAnInvalidAddressIsRefused(t *testing.T) {
	if ipaddr.Outbound(netip.Addr{}) == nil || ipaddr.Public(netip.Addr{}) == nil {
		t.Error("it is not refused")
	}
}

// A way around is as good as the direct one, and what is of the internet may be
// reached from inside.
func TestTheWayDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v4 := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address"))
		a := netip.AddrFrom4(v4)
		if ipaddr.Public(a) == nil && ipaddr.Outbound(a) != nil {
			t.Fatalf("%v is public and cannot be reached", a)
		}
		for what, way := range translated(v4) {
			if (ipaddr.Outbound(way) == nil) != (ipaddr.Outbound(a) == nil) || (ipaddr.Public(way) == nil) != (ipaddr.Public(a) == nil) {
				t.Fatalf("%v by %s, %v: %v, %v", a, what, way, ipaddr.Outbound(way), ipaddr.Public(way))
			}
		}
	})
}
