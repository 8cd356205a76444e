package httpkit

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// anything in a list of hosts or origins switches the check off.
const anything = "*"

const corsMethods = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"

// corsHeaders are the request headers that browser clients send.
const corsHeaders = "Authorization, Content-Type, Last-Event-ID, Idempotency-Key, X-Session-API-Key, X-Access-Token, " +
	"X-Expose-Secrets, X-Org-Id, X-OpenHands-Client, X-OpenHands-Client-Version, " +
	"X-OpenHands-Telemetry-Distinct-Id, X-Request-ID"

// sites decides which Host and Origin headers are ours.
type sites struct {
	hosts   []string // names, lower case
	anyIP   bool     // listening on all addresses: IP literals are ours
	public  string   // origin of the public URL, "" = none
	origins []string // none = loopback origins
}

func newSites(listen string, urls *URLs, hosts, origins []string) *sites {
	s := &sites{origins: origins}
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		host = listen
	}
	ip, err := netip.ParseAddr(host)
	s.anyIP = host == "" || err == nil && ip.IsUnspecified()
	for _, h := range append(slices.Clone(hosts), host) {
		if h != "" {
			s.hosts = append(s.hosts, hostName(h))
		}
	}
	if urls.Public != nil {
		s.hosts = append(s.hosts, hostName(urls.Public.Host))
		s.public = urls.Public.Scheme + "://" + urls.Public.Host
	}
	return s
}

// ownHost guards against DNS rebinding: a page of a foreign name that resolves
// to this machine sends that name as Host. IP literals cannot be rebound.
func (s *sites) ownHost(hostport string) bool {
	host := hostName(hostport)
	if isLoopbackName(host) || slices.Contains(s.hosts, host) || slices.Contains(s.hosts, anything) {
		return true
	}
	_, err := netip.ParseAddr(host)
	return s.anyIP && err == nil
}

// ownOrigin reports whether a page of that origin may use the API.
func (s *sites) ownOrigin(origin, base string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	origin = strings.ToLower(u.Scheme + "://" + u.Host)
	own, err := url.Parse(base)
	if err == nil && origin == strings.ToLower(own.Scheme+"://"+own.Host) || origin == strings.ToLower(s.public) {
		return true
	}
	if len(s.origins) == 0 {
		return isLoopbackName(hostName(u.Host))
	}
	return slices.ContainsFunc(s.origins, func(o string) bool {
		return o == anything || strings.EqualFold(strings.TrimRight(o, "/"), origin)
	})
}

// IsLoopback reports whether a host is this machine to whoever asks it.
func IsLoopback(host string) bool { return isLoopbackName(host) }

// cors sets the headers for an allowed origin, and answers preflights. It
// reports whether the request is answered.
//
// Credentials of the browser are not for everybody when everybody is allowed.
func cors(w http.ResponseWriter, r *http.Request, origin string, allowed, wildcard bool) bool {
	h := w.Header()
	h.Add("Vary", "Origin")
	if allowed {
		h.Set("Access-Control-Allow-Origin", origin)
		if !wildcard {
			h.Set("Access-Control-Allow-Credentials", "true")
		}
		h.Set("Access-Control-Expose-Headers", "X-Request-ID, Retry-After")
	}
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	if !allowed {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte("Disallowed CORS origin"))
		return true
	}
	h.Set("Access-Control-Allow-Methods", corsMethods)
	h.Set("Access-Control-Allow-Headers", allowedHeaders(r))
	h.Set("Access-Control-Max-Age", "600")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte("OK"))
	return true
}

// allowedHeaders are those that clients of ours send, and what this one asks for: an
// origin that is allowed may send any.
func allowedHeaders(r *http.Request) string {
	asked := r.Header.Get("Access-Control-Request-Headers")
	odd := strings.ContainsFunc(asked, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("-_., !#$%&'*+^`|~", c)
	})
	if asked == "" || odd || len(asked) > 4096 {
		return corsHeaders
	}
	return corsHeaders + ", " + asked
}

// changes reports whether a request may change something or opens a socket,
// which browsers let any page do.
func changes(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return len(r.Header.Values("Upgrade")) > 0
	}
	return true
}
