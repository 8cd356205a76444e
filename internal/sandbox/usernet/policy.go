package usernet

import (
	"fmt"
	"net/netip"

	"parley/internal/ipaddr"
)

// Outbound is the default policy: everything but what leads to this host or to
// no host at all, directly or through a translator (ipaddr.Outbound).
func Outbound(to netip.AddrPort) error {
	if err := ipaddr.Outbound(to.Addr()); err != nil {
		return fmt.Errorf("%v is %w", to.Addr().Unmap(), err)
	}
	return nil
}
