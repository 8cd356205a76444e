package oauth

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/netip"
	"net/url"
	"strings"

	"parley/internal/account"
	"parley/internal/fault"
)

// maxAddress is how long an address may be, in bytes.
const maxAddress = 4096

// loopback reports whether an address is on this machine.
func loopback(u *url.URL) bool {
	a, err := netip.ParseAddr(u.Hostname())
	return strings.EqualFold(u.Hostname(), "localhost") || err == nil && a.IsLoopback()
}

// checkAddress refuses what secrets must not be sent to and users not be led to: all
// but https, and but http on this machine where local says so.
func checkAddress(text string, local bool) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxAddress || u.Hostname() == "" || u.User != nil:
		return errors.New("no address")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && local && loopback(u):
		return nil
	}
	return errors.New("not https")
}

// serverAddress returns the canonical address of a server, which its resource and the
// name of its login are made of.
func serverAddress(s *account.MCPHTTPServer) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(s.URL))
	if err != nil || strings.Contains(s.URL, "${") {
		return nil, unsupported("its URL must be written out for OAuth")
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if port := u.Port(); u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	u.Fragment, u.RawFragment = "", ""
	if checkAddress(u.String(), true) != nil {
		return nil, fault.New(fault.Invalid, CodeUnsupported, "A login needs an https address of the MCP server, or one on this machine, without a user in it.")
	}
	return u, nil
}

// storedName is the name of a server's login. A query may hold keys: it is hashed.
func storedName(u *url.URL) string {
	sum := sha256.Sum256([]byte(u.String()))
	host := u.Host
	if len(host) > 100 {
		host = host[:100]
	}
	return "mcp_oauth/" + host + "/" + hex.EncodeToString(sum[:16])
}

// covers reports whether a resource of the metadata is the server's: the same origin,
// and the server's path or one above it.
func covers(resource string, server *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.Fragment != "" || r.User != nil || !strings.EqualFold(r.Scheme, server.Scheme) || !sameHost(r, server) ||
		r.RawQuery != "" && r.RawQuery != server.RawQuery {
		return false
	}
	above, path := strings.TrimSuffix(r.Path, "/"), strings.TrimSuffix(server.Path, "/")
	return !strings.Contains(above, "..") && (above == path || strings.HasPrefix(path, above+"/"))
}

func sameHost(a, b *url.URL) bool {
	return strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if strings.EqualFold(u.Scheme, "https") {
		return "443"
	}
	return "80"
}
