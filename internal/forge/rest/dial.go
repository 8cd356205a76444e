package rest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"parley/internal/fault"
	"parley/internal/ipaddr"
)

// CodeAddress is the code of a host whose address must not be connected to:
// Forbidden.
const CodeAddress = "git_host_address"

// NewHTTP returns a client whose connections go to the internet only or, with own,
// for a host that the user configured, to private networks as well, and to this
// machine if the host is written as its loopback address or localhost. Addresses are
// checked when they are connected to. It uses no proxy.
func NewHTTP(own bool) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:         (&dialer{own: own}).dial,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: 15 * time.Second, ResponseHeaderTimeout: exchangeTime,
		IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 4, MaxIdleConns: 32,
		MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}}
}

type dialer struct{ own bool }

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	loopback := isLoopback(host)
	dial := net.Dialer{Timeout: 15 * time.Second, Control: func(_, to string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(to)
		if err != nil {
			return err
		}
		return d.check(host, at.Addr(), loopback)
	}}
	return dial.DialContext(ctx, network, addr)
}

// isLoopback reports whether a host is written as this machine.
func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.Unmap().IsLoopback()
}

var (
	carrier = netip.MustParsePrefix("100.64.0.0/10") // behind a carrier's NAT, and of overlay networks
	azure   = netip.MustParseAddr("168.63.129.16")   // a cloud's own service, in public space
	amazon  = netip.MustParseAddr("fd00:ec2::254")   // a metadata service, in private space
)

// check refuses an address, nil if it may be connected to.
func (d *dialer) check(host string, a netip.Addr, loopback bool) error {
	why := ipaddr.Public(a)
	if why == nil {
		return nil
	}
	a = a.Unmap().WithZone("")
	private := a.IsPrivate() || a.Is4() && (carrier.Contains(a) || a.IsGlobalUnicast())
	if d.own && (private && a != azure && a != amazon || loopback && a.IsLoopback()) {
		return nil
	}
	return fault.New(fault.Forbidden, CodeAddress, "The git host %.100s has %s, which is not connected to.", host, why)
}

// isTLS reports whether a connection failed because the other side could not prove
// who it is.
func isTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var plain tls.RecordHeaderError
	return errors.As(err, &verification) || errors.As(err, &unknown) || errors.As(err, &name) || errors.As(err, &plain)
}
