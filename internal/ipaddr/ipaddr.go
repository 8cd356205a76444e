// Package ipaddr says which IP addresses connections for users may go to. It looks
// at the address alone: an address that leads to another one through a translator or
// tunnel counts as both, where that can be told from it.
package ipaddr

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// Outbound returns why an address leads to this host or to no single host, nil if it
// leads elsewhere, be it a private network. Refused are loopback, link-local
// addresses (with the metadata service of clouds), multicast, broadcast, "this
// network", every address that an interface of this host has at the moment of the
// call, and what leads to one of them through NAT64 (RFC 6052, the well-known
// prefix), 6to4 or ISATAP. The error says what the address is, without the address:
// "a loopback address".
func Outbound(a netip.Addr) error { return check(a, outbound) }

// Public returns why an address is none of the internet, nil if it is one: what
// Outbound refuses, private networks, and what is reserved (the special-purpose
// registries of RFC 6890). Errors are as those of Outbound.
func Public(a netip.Addr) error { return check(a, public) }

// check applies a rule to an address and to the one that it leads to.
func check(a netip.Addr, rule func(netip.Addr) error) error {
	a = a.Unmap().WithZone("")
	ends := []netip.Addr{a}
	if v4, ok := embedded(a); ok {
		ends = append(ends, v4)
	}
	for _, end := range ends {
		if err := rule(end); err != nil {
			return err
		}
	}
	return notThisHost(ends)
}

// broadcast is the one of the network that a host is in.
var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

func outbound(a netip.Addr) error {
	switch {
	case !a.IsValid(), a.IsUnspecified(), a.Is4() && a.As4()[0] == 0:
		return errors.New("no address of a host")
	case a.IsLoopback():
		return errors.New("a loopback address")
	case a.IsLinkLocalUnicast():
		return errors.New("a link-local address")
	case a.IsMulticast(), a == broadcast:
		return errors.New("no address of a single host")
	}
	return nil
}

// inside are the ranges that lead to private networks or to no host of the internet,
// beyond those that outbound and netip tell, with what they are.
var inside = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("100.64.0.0/10"), "an address behind a carrier's NAT"},
	{netip.MustParsePrefix("168.63.129.16/32"), "the address of a cloud's metadata service"}, // Azure's, in public space
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a reserved address"},
	{netip.MustParsePrefix("198.18.0.0/15"), "an address for tests of networks"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"},
	{netip.MustParsePrefix("::/96"), "no address of a host"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "an address of a local translator"},
	{netip.MustParsePrefix("100::/64"), "no address of a host"},
	{netip.MustParsePrefix("2001::/23"), "an address of a tunnel or reserved"},
	{netip.MustParsePrefix("fec0::/10"), "a private address"},
}

func public(a netip.Addr) error {
	if err := outbound(a); err != nil {
		return err
	}
	if a.IsPrivate() {
		return errors.New("a private address")
	}
	for _, r := range inside {
		if r.prefix.Contains(a) {
			return errors.New(r.what)
		}
	}
	return nil
}

// Prefixes whose addresses lead to an IPv4 address that is in them.
var (
	sixToFour = netip.MustParsePrefix("2002::/16")
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
)

// embedded returns the IPv4 address that packets for an IPv6 address end up at.
func embedded(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return netip.Addr{}, false
	}
	b := a.As16()
	switch {
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case nat64.Contains(a), b[8]&^3 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // the latter is ISATAP
		return netip.AddrFrom4([4]byte(b[12:16])), true
	}
	return netip.Addr{}, false
}

// notThisHost refuses the addresses that this host's interfaces have.
func notThisHost(addrs []netip.Addr) error {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("perhaps an address of this host: %w", err)
	}
	for _, o := range own {
		p, err := netip.ParsePrefix(o.String())
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if p.Addr().Unmap().WithZone("") == a {
				return errors.New("an address of this host")
			}
		}
	}
	return nil
}
