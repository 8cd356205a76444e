// Package netpolicy reads network policies of boxes (sandbox.Network) and decides
// what a box may reach.
//
// A name never leads further than the internet: whatever it resolves to, private,
// loopback, link-local and metadata addresses and those of this host are open only
// by an entry that is the address itself or a network with it. So a name server
// that answers with such addresses (DNS rebinding) gains nothing.
package netpolicy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"parley/internal/ipaddr"
	"parley/internal/sandbox"
)

// Check validates a policy. Errors are Invalid and name the entry.
func Check(n sandbox.Network) error {
	_, err := Compile(n)
	return err
}

// Policy is a policy that is ready to decide; the zero value allows nothing. It does
// not change and may be used concurrently.
type Policy struct{ levels []level } // all must agree

// level is one policy without what it stands within.
type level struct {
	mode  sandbox.NetworkMode
	names []nameEntry
	nets  []netEntry
}

// Compile reads a policy. Errors are Invalid and name the entry.
func Compile(n sandbox.Network) (*Policy, error) {
	p, where := &Policy{}, []any{"network"}
	for at := &n; at != nil; at = at.Within {
		if len(p.levels) == maxDepth {
			return nil, invalid(where, "Network policies stand within each other more than %d times.", maxDepth)
		}
		l, err := compileLevel(at, where)
		if err != nil {
			return nil, err
		}
		p.levels = append(p.levels, l)
		where = append(where, "within")
	}
	return p, nil
}

func compileLevel(n *sandbox.Network, where []any) (level, error) {
	l := level{mode: n.Mode}
	switch n.Mode {
	case "":
		l.mode = sandbox.NetworkOpen
	case sandbox.NetworkOpen, sandbox.NetworkAllow, sandbox.NetworkNone:
	default:
		return l, invalid(append(where, "mode"), "The network mode %s is not known; there are open, allow and none.", quote(string(n.Mode)))
	}
	where = append(where, "allow")
	if len(n.Allow) > maxEntries {
		return l, invalid(where, "The network policy allows %d hosts and networks, more than %d.", len(n.Allow), maxEntries)
	}
	for i, text := range n.Allow {
		if err := l.add(text); err != nil {
			return l, invalid(append(where, i), "The entry %s of the network policy %w.", quote(text), err)
		}
	}
	return l, nil
}

// Lookup returns why a box may not resolve a name, nil if it may. host is as in a
// query: ASCII, in any case, with or without a dot at its end.
func (p *Policy) Lookup(host string) error {
	host = Canonical(host)
	if len(p.levels) == 0 {
		return errNothing
	}
	for _, l := range p.levels {
		if err := l.lookup(host); err != nil {
			return err
		}
	}
	return nil
}

// Connect returns why a box may not connect to an address, nil if it may. hosts are
// the names that the box was told the address for; host is the one of them that the
// connection is made by, "" if it is made by the address alone.
func (p *Policy) Connect(hosts []string, to netip.AddrPort) (host string, err error) {
	to = netip.AddrPortFrom(to.Addr().Unmap().WithZone(""), to.Port())
	t := target{AddrPort: to, public: ipaddr.Public(to.Addr())}
	for _, known := range hosts {
		refusal := p.agree(Canonical(known), t)
		if refusal == nil {
			return Canonical(known), nil
		}
		if err == nil {
			host, err = Canonical(known), refusal
		}
	}
	refusal := p.agree("", t)
	if refusal == nil {
		return "", nil
	}
	if err == nil {
		err = refusal
	}
	return host, err
}

// target is where a connection goes.
type target struct {
	netip.AddrPort
	public error // why it is no address of the internet, nil if it is one
}

func (p *Policy) agree(host string, to target) error {
	if len(p.levels) == 0 {
		return errNothing
	}
	for _, l := range p.levels {
		if err := l.connect(host, to); err != nil {
			return err
		}
	}
	return nil
}

var errNothing = errors.New("the network policy allows nothing")

func (l *level) lookup(host string) error {
	switch l.mode {
	case sandbox.NetworkNone:
		return errNothing
	case sandbox.NetworkOpen:
		return nil
	}
	for _, e := range l.names {
		if e.matches(host) {
			return nil
		}
	}
	return fmt.Errorf("the network policy does not list %s", quote(host))
}

func (l *level) connect(host string, to target) error {
	if l.mode == sandbox.NetworkNone {
		return errNothing
	}
	for _, e := range l.nets {
		if e.opens(to) {
			return nil
		}
	}
	if l.mode == sandbox.NetworkAllow {
		if err := l.listed(host, to); err != nil {
			return err
		}
	}
	switch {
	case to.public == nil:
		return nil
	case host != "":
		return fmt.Errorf("%s leads to %v, which is %w: only an entry with the address opens it", quote(host), to.Addr(), to.public)
	}
	return fmt.Errorf("%v is %w: only an entry with the address opens it", to.Addr(), to.public)
}

// listed says whether an entry allows the host on the port.
func (l *level) listed(host string, to target) error {
	if host == "" {
		return fmt.Errorf("the network policy does not list %v, and no name that it lists led there", to.AddrPort)
	}
	known := false
	for _, e := range l.names {
		if e.matches(host) {
			if e.port == 0 || e.port == to.Port() {
				return nil
			}
			known = true
		}
	}
	if known {
		return fmt.Errorf("the network policy allows %s, but not its port %d", quote(host), to.Port())
	}
	return fmt.Errorf("the network policy does not list %s", quote(host))
}

// Canonical returns a name of a query as names are compared: in lower case, without
// a dot at its end. Only ASCII letters have a lower case here: to a name server the
// Kelvin sign is no k.
func Canonical(host string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, strings.TrimSuffix(host, "."))
}
