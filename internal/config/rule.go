package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"parley/internal/collection"
	"parley/internal/fault"
	"parley/internal/netpolicy"
	"parley/internal/sandbox"
)

// listenRule accepts host:port.
func listenRule(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", fmt.Errorf("%s is not host:port, such as 127.0.0.1:3000", quote(s))
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", fmt.Errorf("%s: the port is no number from 0 to 65535", quote(s))
	}
	if strings.ContainsAny(host, " /") {
		return "", fmt.Errorf("%s: the host is neither an address nor a name", quote(s))
	}
	return s, nil
}

// pathRule makes a path absolute.
func pathRule(s string) (string, error) {
	if s == "" || strings.ContainsRune(s, 0) {
		return "", fmt.Errorf("%s is no path", quote(s))
	}
	return filepath.Abs(s)
}

// fileRule is pathRule for a file that need not be named.
func fileRule(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	return pathRule(s)
}

// baseURLRule accepts an http or https URL that paths can be appended to, or nothing.
func baseURLRule(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", fmt.Errorf("%s is no http:// or https:// URL", quote(s))
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("the URL must have no user, query or fragment")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// originRule accepts "*" or scheme://host[:port].
func originRule(s string) (string, error) {
	if s == "*" {
		return s, nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Host == "" || strings.TrimRight(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return "", fmt.Errorf("%s is no origin such as https://app.example.org", quote(s))
	}
	return strings.ToLower(u.Scheme + "://" + u.Host), nil
}

// hostRule accepts "*" or a host name or address without a port.
func hostRule(s string) (string, error) {
	s = strings.Trim(s, "[]")
	if s == "" || (strings.ContainsAny(s, ": /@") && net.ParseIP(s) == nil) {
		return "", fmt.Errorf("%s is no host name or address (write it without scheme and port)", quote(s))
	}
	return strings.ToLower(s), nil
}

// collectionRule accepts what package collection takes for a source.
func collectionRule(s string) (string, error) {
	_, err := collection.ParseSource(s)
	return s, err
}

// allowRule accepts "*", a network, or a host with or without a port.
func allowRule(s string) (string, error) {
	if s == "*" {
		return s, nil
	}
	if _, err := netip.ParsePrefix(s); err == nil {
		return s, nil
	}
	host := s
	if h, port, err := net.SplitHostPort(s); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", fmt.Errorf("%s: the port is no number from 1 to 65535", quote(s))
		}
		host = h
	}
	if _, err := hostRule(host); err != nil || host == "*" {
		return "", fmt.Errorf("%s is neither a host, host:port, a network such as 10.0.0.0/8 nor *", quote(s))
	}
	return strings.ToLower(s), nil
}

// networkRule accepts what a network policy takes for reachable.
func networkRule(s string) (string, error) {
	if err := netpolicy.Check(sandbox.Network{Allow: []string{s}}); err != nil {
		return "", fmt.Errorf("%s: %s", quote(s), fault.PublicText(err))
	}
	return s, nil
}

// imageRule accepts the name of a container image, or nothing. Whether it exists
// only its use tells.
func imageRule(s string) (string, error) {
	if strings.ContainsAny(s, " \t\n\x00") || strings.HasPrefix(s, "-") || len(s) > 512 {
		return "", fmt.Errorf("%s is no name of a container image", quote(s))
	}
	return s, nil
}

// dockerHostRule accepts the address of a unix socket, or nothing: an engine on
// another machine could not see the sandboxes' sockets.
func dockerHostRule(s string) (string, error) {
	path, ok := strings.CutPrefix(s, "unix://")
	if s != "" && (!ok || !filepath.IsAbs(path)) {
		return "", fmt.Errorf("%s is no address of a socket on this machine, such as unix:///var/run/docker.sock", quote(s))
	}
	return s, nil
}

// registryRule accepts host or host:port.
func registryRule(s string) (string, error) {
	host := s
	if h, port, err := net.SplitHostPort(s); err == nil {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return "", fmt.Errorf("%s: the port is no number from 1 to 65535", quote(s))
		}
		host = h
	}
	if host == "" || strings.ContainsAny(host, " /@*") {
		return "", fmt.Errorf("%s is no host or host:port", quote(s))
	}
	return strings.ToLower(s), nil
}

// domainRule accepts a domain, or nothing.
func domainRule(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	if s = strings.ToLower(strings.TrimPrefix(s, "*.")); strings.ContainsAny(s, ": /@*") || net.ParseIP(s) != nil {
		return "", fmt.Errorf("%s is no domain, such as preview.example.org", quote(s))
	}
	return s, nil
}

// versionRule wants a version as clients parse it: three numbers.
func versionRule(s string) (string, error) {
	parts := strings.Split(s, ".")
	for _, part := range parts {
		if _, err := strconv.ParseUint(part, 10, 16); err != nil || len(parts) != 3 {
			return "", fmt.Errorf("want three numbers: 1.43.1")
		}
	}
	return s, nil
}
