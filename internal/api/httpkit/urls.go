package httpkit

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// URLs builds the server's own URLs.
type URLs struct {
	Public  *url.URL       // the configured public URL, nil = taken from the request
	Trusted []netip.Prefix // proxies whose X-Forwarded-* count, besides loopback
	// PreviewHost is a domain: the names below it lead here, too, and show what
	// programs in sandboxes serve. "" = there is none.
	PreviewHost string
}

// Base returns the URL the client reaches the server's root at, without a
// trailing slash.
func (u *URLs) Base(r *http.Request) string {
	if u.Public != nil {
		return strings.TrimRight(u.Public.String(), "/")
	}
	scheme, host, prefix := "http", r.Host, ""
	if r.TLS != nil {
		scheme = "https"
	}
	if u.fromProxy(r) {
		scheme = forwarded(r, "X-Forwarded-Proto", scheme, validScheme)
		host = forwarded(r, "X-Forwarded-Host", host, validHost)
		prefix = forwarded(r, "X-Forwarded-Prefix", "", validPrefix)
	}
	if _, preview := u.PreviewLabel(host); preview {
		host = withPort(u.PreviewHost, host)
	}
	return scheme + "://" + host + strings.TrimRight(prefix, "/")
}

// Segment escapes a text for use as one segment of a path. Dots alone are escaped
// too: clients and proxies resolve "." and ".." otherwise.
func Segment(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

// AgentURL is where the agent-server protocol of a sandbox is served below base.
func AgentURL(base, sandboxID string) string { return base + "/agent/" + Segment(sandboxID) }

// Client returns the address of the client, seen through trusted proxies.
func (u *URLs) Client(r *http.Request) string {
	if u.fromProxy(r) {
		hops := strings.Split(r.Header.Get("X-Forwarded-For"), ",")
		if ip, err := netip.ParseAddr(strings.TrimSpace(hops[len(hops)-1])); err == nil {
			return ip.String()
		}
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}

func (u *URLs) fromProxy(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	ip := peer.Addr().Unmap()
	if ip.IsLoopback() {
		return true
	}
	for _, p := range u.Trusted {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// forwarded returns the header's first value if it is well-formed.
func forwarded(r *http.Request, name, fallback string, valid func(string) bool) string {
	first, _, _ := strings.Cut(r.Header.Get(name), ",")
	if first = strings.TrimSpace(first); first != "" && valid(first) {
		return first
	}
	return fallback
}

func validScheme(s string) bool { return s == "http" || s == "https" }

func validHost(s string) bool {
	u, err := url.Parse("http://" + s)
	return err == nil && u.Host == s && u.User == nil
}

func validPrefix(s string) bool {
	u, err := url.Parse(s)
	return err == nil && strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//") && u.Path == s
}

// hostName returns the lower-case name of "host:port", "host" or "[::1]:port".
func hostName(hostport string) string {
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		hostport = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(hostport, "[]"), "."))
}

func isLoopbackName(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
