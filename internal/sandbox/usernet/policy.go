package usernet

import (
	"fmt"
	"net"
	"net/netip"
)

// Outbound is the default policy: everything but what leads to this host or to
// no host at all. Refused are loopback, link-local addresses (with the metadata
// service of clouds), multicast, broadcast, "this network", and every address
// that an interface of this host has at the moment of the call.
func Outbound(to netip.AddrPort) error {
	a := to.Addr().Unmap()
	switch {
	case !a.IsValid(), a.IsUnspecified(), a.Is4() && a.As4()[0] == 0:
		return fmt.Errorf("%v is no address of a host", a)
	case a.IsLoopback():
		return fmt.Errorf("%v is a loopback address", a)
	case a.IsLinkLocalUnicast():
		return fmt.Errorf("%v is a link-local address", a)
	case a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("%v is no address of a single host", a)
	}
	return notThisHost(a)
}

func notThisHost(a netip.Addr) error {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("cannot tell whether %v is this host: %w", a, err)
	}
	for _, o := range own {
		p, err := netip.ParsePrefix(o.String())
		if err == nil && p.Addr().Unmap() == a {
			return fmt.Errorf("%v is an address of this host", a)
		}
	}
	return nil
}
