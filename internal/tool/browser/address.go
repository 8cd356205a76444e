package browser

import (
	"net/netip"
	"net/url"
	"path"
	"strings"

	"parley/internal/lazyre"
	"parley/internal/tool"
)

// maxAddress is how long an address may be, in bytes: data URLs are used as pages.
const maxAddress = 1 << 20

var scheme = lazyre.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)

// hostAndPort is a name with a port, which looks like a scheme.
var hostAndPort = lazyre.MustCompile(`^[A-Za-z0-9.-]+:[0-9]{1,5}([/?#]|$)`)

// address completes what a model writes as an address: a path is a file, a host
// without a scheme is https, or http on this machine.
func address(text string) (string, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", tool.Wrong("url is empty.")
	case len(text) > maxAddress:
		return "", tool.Wrong("url is longer than 1 MiB. Write the page to a file, and navigate to its path.")
	case path.IsAbs(text) && !strings.HasPrefix(text, "//"):
		return (&url.URL{Scheme: "file", Path: text}).String(), nil
	case !scheme.MatchString(text) || hostAndPort.MatchString(text):
		text = guess(text)
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", tool.Wrong("%q is no address: write it like https://example.com/page, http://localhost:3000, or /absolute/path/of/a/file.html.", clip(text, 200))
	}
	switch u.Scheme {
	case "http", "https":
		if u.Hostname() == "" {
			return "", tool.Wrong("%q names no host.", clip(text, 200))
		}
	case "file", "data", "about", "blob", "view-source":
	default:
		return "", tool.Wrong("The browser does not open %s: addresses. It opens http, https, file and data.", clip(u.Scheme, 40))
	}
	return text, nil
}

// guess puts a scheme before a host.
func guess(text string) string {
	text = strings.TrimPrefix(text, "//")
	if u, err := url.Parse("http://" + text); err == nil && isLoopback(u.Hostname()) {
		return "http://" + text
	}
	return "https://" + text
}

// isLoopback tells the names of the machine that the browser runs on, and those that
// only its network knows.
func isLoopback(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.IsLoopback() || addr.IsUnspecified() || addr.IsPrivate()
	}
	host = strings.ToLower(host)
	return !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost")
}
