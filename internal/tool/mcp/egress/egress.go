// Package egress makes the server's connections to addresses that users name: MCP
// servers, and the authorization servers those name in turn; endpoints of webhooks. A connection goes to an
// address of the internet, or to what the operator allowed, and exactly to the address
// that was checked: a name that resolves to something else a moment later changes
// nothing. It does not look at what is sent.
package egress

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"parley/internal/fault"
	"parley/internal/ipaddr"
)

// Fault codes.
const (
	CodeRefused  = "egress_refused"  // Forbidden: the address is not of the internet, and not allowed
	CodeBadAllow = "bad_mcp_allow"   // Invalid: an entry of Allow is no host and no network
	CodeLookup   = "egress_no_host"  // Unavailable: the name does not resolve
	CodeConnect  = "egress_no_route" // Unavailable: nobody answers there
)

// perAddress is how long one address of a host may take to answer.
const perAddress = 15 * time.Second

// Config says what may be reached besides the internet. The zero value is usable.
type Config struct {
	// Allow lists hosts, addresses and networks, with or without a port: "localhost",
	// "localhost:3000", "10.1.2.3", "[::1]:80", "10.0.0.0/8"; "*" is everything. A
	// name stands for itself, not for its addresses.
	Allow []string
	// Key is the configuration key that Allow comes from, for what errors advise; "" =
	// mcp_allow.
	Key string
	// Lookup resolves a name; nil = the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Dialer returns a dialer for an http.Transport. Its errors are Forbidden
// (CodeRefused), Unavailable (CodeLookup, CodeConnect) and those of the context; their
// texts say of an address no more than its kind. An entry of Allow that means nothing
// is Invalid (CodeBadAllow).
func Dialer(c Config) (func(ctx context.Context, network, addr string) (net.Conn, error), error) {
	d := &dialer{lookup: c.Lookup, key: cmp.Or(c.Key, "mcp_allow")}
	if d.lookup == nil {
		d.lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	for _, text := range c.Allow {
		e, err := parseEntry(d.key, text)
		if err != nil {
			return nil, err
		}
		d.allow = append(d.allow, e)
	}
	return d.dial, nil
}

// entry is what one entry of Allow lifts the rule for.
type entry struct {
	all    bool
	host   string // lower case; "" = prefix counts
	prefix netip.Prefix
	port   string // "" = all
}

func parseEntry(key, text string) (entry, error) {
	text = strings.TrimSpace(text)
	if text == "*" {
		return entry{all: true}, nil
	}
	if p, err := netip.ParsePrefix(text); err == nil {
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		return entry{prefix: p.Masked()}, nil
	}
	e := entry{host: text}
	if inner, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inner, "]") {
		e.host = strings.TrimSuffix(inner, "]")
	}
	if host, port, err := net.SplitHostPort(text); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return entry{}, badAllow(key, text)
		}
		e = entry{host: host, port: port}
	}
	if a, err := netip.ParseAddr(e.host); err == nil {
		return entry{prefix: single(a), port: e.port}, nil
	}
	if e.host = name(e.host); e.host == "" || strings.ContainsAny(e.host, "/:[]*@? \t") {
		return entry{}, badAllow(key, text)
	}
	return e, nil
}

func badAllow(key, text string) error {
	return fault.New(fault.Invalid, CodeBadAllow, "%s: %.100q is no host, address or network.", key, text).
		WithHint(`Write "localhost:3000", "mcp.internal", "10.0.0.0/8", or "*" for everything.`)
}

func single(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	return netip.PrefixFrom(a, a.BitLen())
}

// name spells a host's name in one way.
func name(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

type dialer struct {
	key    string
	allow  []entry
	lookup func(context.Context, string) ([]netip.Addr, error)
}

func (d *dialer) allowed(host, port string, a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	for _, e := range d.allow {
		if e.all || (e.port == "" || e.port == port) && (e.host != "" && e.host == name(host) || e.host == "" && e.prefix.Contains(a)) {
			return true
		}
	}
	return false
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || !strings.HasPrefix(network, "tcp") {
		return nil, fault.Wrap(err, fault.Invalid, CodeRefused, "This is no address that can be connected to.")
	}
	addrs, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	var last error
	for _, a := range addrs {
		if !d.allowed(host, port, a) {
			if why := ipaddr.Public(a); why != nil {
				last = worse(last, refused(d.key, host, port, why))
				continue
			}
		}
		conn, err := (&net.Dialer{Timeout: perAddress}).DialContext(ctx, network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return conn, nil
		}
		last = err
	}
	switch {
	case fault.CodeOf(last) == CodeRefused:
		return nil, last
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, fault.Wrap(last, fault.Unavailable, CodeConnect, "Nobody answers at %.200s port %s.", host, port).
		WithHint("Check the address, and whether the server runs.")
}

// worse keeps the error of an address that was tried before that of one that was not.
func worse(have, next error) error {
	if have != nil {
		return have
	}
	return next
}

func (d *dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	addrs, err := d.lookup(ctx, host)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil && len(addrs) == 0:
		err = errors.New("no address")
		fallthrough
	case err != nil:
		return nil, fault.Wrap(err, fault.Unavailable, CodeLookup, "The host %.200q cannot be found.", host).
			WithHint("Check its name.")
	}
	return addrs, nil
}

func refused(key, host, port string, why error) error {
	return fault.Wrap(why, fault.Forbidden, CodeRefused, "The server does not connect to %.200s port %s: it is not an address of the internet.", host, port).
		WithHint("If it may, the operator adds %q to %s.", net.JoinHostPort(host, port), key)
}
