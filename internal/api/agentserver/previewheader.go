package agentserver

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"parley/internal/api/httpkit"
)

// Policies of what a program inside shows. In an opaque origin a page reads nothing
// that the browser keeps for the server's own, and its requests carry no cookie.
const (
	opaquePolicy = "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads"
	framePolicy  = "frame-ancestors 'self'"
)

// refusedHeaders of programs speak for the whole origin, to proxies before this
// server, or for the server itself.
var refusedHeaders = []string{
	"Accept-CH", "Access-Control-Allow-Credentials", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods",
	"Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Access-Control-Max-Age", "Alt-Svc", "CDN-Cache-Control",
	"Clear-Site-Data", "Critical-CH", "Expect-CT", "NEL", "Origin-Agent-Cluster", "Pragma", "Public-Key-Pins", "Referrer-Policy",
	"Report-To", "Reporting-Endpoints", "Service-Worker-Allowed", "Set-Login", "Strict-Transport-Security", "Surrogate-Control",
	"X-Content-Type-Options", "X-Lighttpd-Send-File", "X-Request-Id", "X-Reproxy-Url", "X-Sendfile",
}

// maxPreviewCookies is how many cookies one answer of a program may set.
const maxPreviewCookies = 32

// sanitise makes the headers of a program's answer fit to be seen below the preview.
func (v *visit) sanitise(r *http.Request, h http.Header) {
	for _, name := range refusedHeaders {
		h.Del(name)
	}
	for name := range h {
		if strings.HasPrefix(name, "X-Accel-") {
			delete(h, name)
		}
	}
	v.policies(r, h)
	h.Set("Cache-Control", privately(h.Values("Cache-Control")))
	if to := h.Get("Location"); to != "" {
		h.Set("Location", v.location(r, to))
	}
	v.setCookies(h)
}

// policies adds the server's to the page's own: a browser holds all of them.
func (v *visit) policies(r *http.Request, h http.Header) {
	policy, referrer := framePolicy, "same-origin" // without a referrer, forms have no origin that the guard could know
	switch {
	case v.own:
		policy += " " + v.server.cfg.Previews.URLs.Origin(r)
	case !v.server.cfg.Previews.SharedOrigin:
		policy, referrer = opaquePolicy+"; "+framePolicy, "no-referrer"
		h.Del("Cross-Origin-Opener-Policy") // browsers refuse pages that have both
	}
	h.Add("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", referrer)
	h.Set("X-Accel-Buffering", "no") // nginx would hold streams back
}

// privately keeps what a key opens out of shared caches.
func privately(values []string) string {
	out := []string{"private"}
	for directive := range strings.SplitSeq(strings.Join(values, ","), ",") {
		directive = strings.TrimSpace(directive)
		name, _, _ := strings.Cut(strings.ToLower(directive), "=")
		if name != "" && name != "public" && name != "private" && name != "s-maxage" {
			out = append(out, directive)
		}
	}
	if len(out) == 1 {
		out = append(out, "no-cache")
	}
	return strings.Join(out, ", ")
}

// location leads a redirect to where the browser finds what the program means.
// Redirects to other servers are the page's own affair.
func (v *visit) location(r *http.Request, to string) string {
	if strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") {
		return v.below(to)
	}
	u, err := url.Parse(to)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https" {
		return to // relative to the page, or nothing of ours
	}
	urls := v.server.cfg.Previews.URLs
	_, rest, _ := strings.Cut(to, "//")
	rest = rest[len(u.Host):]
	if !strings.HasPrefix(rest, "/") {
		rest = "/" + rest
	}
	if strings.EqualFold(u.Host, r.Host) || !v.own && strings.EqualFold(u.Host, hostOf(urls.Base(r))) {
		return v.below(rest)
	}
	port, ok := loopbackPort(u)
	switch {
	case !ok:
		return to
	case port == v.port:
		return v.below(rest)
	case v.own:
		return strings.TrimRight(urls.OwnPreviewURL(r, v.sandboxID, port), "/") + rest
	}
	return strings.TrimRight(pathOf(httpkit.PreviewURL(urls.Base(r), v.sandboxID, port)), "/") + rest
}

// below puts a path under the preview's, unless the program knows its prefix.
func (v *visit) below(path string) string {
	if rest, ok := strings.CutPrefix(path, v.prefix); ok && v.prefix != "" && (rest == "" || strings.ContainsAny(rest[:1], "/?#")) {
		return path
	}
	if v.prefix == "" {
		return besideNoServer(path)
	}
	return v.prefix + path
}

// besideNoServer makes a path one that browsers do not take for another server.
func besideNoServer(path string) string {
	if strings.HasPrefix(path, "//") || strings.HasPrefix(path, `/\`) {
		return "/." + path
	}
	return path
}

// loopbackPort returns the port of an address that means the sandbox itself.
func loopbackPort(u *url.URL) (int, bool) {
	ip := net.ParseIP(u.Hostname())
	if !strings.EqualFold(u.Hostname(), "localhost") && (ip == nil || !ip.IsLoopback() && !ip.IsUnspecified()) {
		return 0, false
	}
	if u.Port() == "" {
		if u.Scheme == "https" {
			return 443, true
		}
		return 80, true
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return int(port), err == nil && port > 0
}

func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return u.Host
}

func pathOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return u.EscapedPath()
}

// setCookies keeps a program's cookies in its preview.
func (v *visit) setCookies(h http.Header) {
	lines := h.Values("Set-Cookie")
	h.Del("Set-Cookie")
	for _, line := range lines[:min(len(lines), maxPreviewCookies)] {
		c, err := http.ParseSetCookie(line)
		if err != nil || oursByName(c.Name) {
			continue
		}
		c.Domain = ""
		if v.prefix != "" && strings.HasPrefix(c.Path, "/") {
			c.Path = strings.TrimRight(v.below(c.Path), "/")
		} else if v.prefix != "" {
			c.Path = v.prefix
		}
		if text := c.String(); text != "" {
			h.Add("Set-Cookie", text)
		}
	}
}

// oursByName reports cookies that only this server may set. Browsers also read a
// cookie without a name as one that its value names.
func oursByName(name string) bool {
	return name == "" || strings.EqualFold(name, sessionCookie) || strings.HasPrefix(strings.ToLower(name), "parley")
}

// hideCookies takes this server's own cookies out of a request.
func hideCookies(h http.Header) {
	var kept []string
	for _, line := range h.Values("Cookie") {
		for part := range strings.SplitSeq(line, ";") {
			part = strings.TrimSpace(part)
			name, _, _ := strings.Cut(part, "=")
			if part != "" && !oursByName(strings.TrimSpace(name)) {
				kept = append(kept, part)
			}
		}
	}
	h.Del("Cookie")
	if len(kept) > 0 {
		h.Set("Cookie", strings.Join(kept, "; "))
	}
}
