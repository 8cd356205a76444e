package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"parley/internal/fault"
	"parley/internal/ipaddr"
)

// Bounds on one exchange with a registry.
const (
	retries       = 3
	maxPause      = 30 * time.Second // between two tries
	dialTimeout   = 15 * time.Second
	headerTimeout = 60 * time.Second
	maxRedirects  = 5
	maxToken      = 1 << 20 // bytes of a token server's answer
	maxManifest   = 4 << 20 // bytes, as registries have it
	client        = "parley"
)

// manifestTypes are the documents that are asked for.
var manifestTypes = strings.Join([]string{
	"application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json",
	"application/vnd.docker.distribution.manifest.list.v2+json", "application/vnd.docker.distribution.manifest.v2+json",
}, ", ")

// repository is one repository of a registry, for one pull (OCI distribution
// specification 1.1).
type repository struct {
	options  *Options
	http     *http.Client
	registry string // host[:port]
	path     string
	secret   credential

	mu   sync.Mutex
	auth string // Authorization header; "" = none yet
}

// newClient makes the client of all registries.
func newClient(o *Options) *http.Client {
	proxies := &sync.Map{} // host:port of proxies in use
	transport := &http.Transport{
		DialContext:           dialer(o, proxies),
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       30 * time.Second,
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: headerTimeout,
		DisableCompression:    true, // digests are of what is sent
	}
	if o.Proxy != nil {
		transport.Proxy = func(r *http.Request) (*url.URL, error) {
			u, err := o.Proxy(r)
			if u != nil {
				proxies.Store(u.Hostname(), true)
			}
			return u, err
		}
	}
	return &http.Client{Transport: transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("too many redirects")
		}
		if next.URL.Host != via[0].URL.Host { // storage of others has its credentials in the URL
			next.Header.Del("Authorization")
		}
		return o.checkScheme(next.URL)
	}}
}

// checkScheme refuses to leave TLS but for the hosts that have none.
func (o *Options) checkScheme(u *url.URL) error {
	if u.Scheme == "https" || u.Scheme == "http" && slices.ContainsFunc(o.Insecure, func(p string) bool { return matchHost(p, strings.ToLower(u.Host)) }) {
		return nil
	}
	return fault.New(fault.Forbidden, CodeRefused, "The registry leads to %s, which is not protected by TLS.", quote(u.Host))
}

// dialer connects to public addresses, and to all of the hosts that may have
// others. The address is checked as it is connected to, so a name that resolves to
// something else a moment later changes nothing.
func dialer(o *Options, proxies *sync.Map) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		d := net.Dialer{Timeout: dialTimeout}
		_, proxy := proxies.Load(host)
		listed := func(p string) bool { return matchHost(p, strings.ToLower(addr)) }
		if !proxy && !slices.ContainsFunc(o.AllowHosts, listed) && !slices.ContainsFunc(o.Insecure, listed) {
			d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
				return checkAddress(host, address)
			}
		}
		return d.DialContext(ctx, network, addr)
	}
}

func checkAddress(host, address string) error {
	to, err := netip.ParseAddrPort(address)
	if err == nil {
		err = ipaddr.Public(to.Addr())
	}
	if err != nil {
		return fault.New(fault.Forbidden, CodeRefused, "%s is not reached: it has %s.", quote(host), err).
			WithHint("The operator can allow this host for registries.")
	}
	return nil
}

// again marks an error after which it pays to try once more.
type again struct {
	error
	after time.Duration // that the other side asked for; 0 = nothing
}

func (a again) Unwrap() error { return a.error }

// retry tries at most retries+1 times, while the error says that it pays.
func retry(ctx context.Context, o *Options, try func() error) error {
	for n := 0; ; n++ {
		err := try()
		var more again
		if err == nil || !errors.As(err, &more) {
			return err
		}
		if n == retries || ctx.Err() != nil || more.after > maxPause {
			return more.error
		}
		if err := sleep(ctx, max(more.after, min(o.pause<<n, maxPause))); err != nil {
			return err
		}
	}
}

// final is an error after which nothing is tried again.
func final(err error) error {
	var more again
	if errors.As(err, &more) {
		return more.error
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// get makes one request, with credentials where the registry wants them. The
// answer is 200 or 206.
func (r *repository) get(ctx context.Context, path, accept string, offset int64) (*http.Response, error) {
	for asked := false; ; {
		r.mu.Lock()
		auth := r.auth
		r.mu.Unlock()
		resp, err := r.send(ctx, path, accept, auth, offset)
		if err != nil {
			return nil, err
		}
		switch resp.StatusCode {
		case http.StatusOK, http.StatusPartialContent:
			return resp, nil
		}
		header := resp.Header.Get("WWW-Authenticate")
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && offset > 0 {
			offset = 0 // it knows ranges with an end only, or none
			continue
		}
		if resp.StatusCode != http.StatusUnauthorized || asked || header == "" {
			return nil, r.status(resp)
		}
		if err := r.authorize(ctx, header, auth); err != nil {
			return nil, err
		}
		asked = true
	}
}

func (r *repository) send(ctx context.Context, path, accept, auth string, offset int64) (*http.Response, error) {
	u := url.URL{Scheme: "https", Host: r.registry, Path: "/v2/" + r.path + path}
	if slices.ContainsFunc(r.options.Insecure, func(p string) bool { return matchHost(p, strings.ToLower(r.registry)) }) {
		u.Scheme = "http"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", client)
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	if offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return nil, r.unreachable(ctx, err)
	}
	return resp, nil
}

// unreachable classifies an error of the network. Its text may have URLs of storage
// with credentials in them: it goes nowhere.
func (r *repository) unreachable(ctx context.Context, err error) error {
	var refused *fault.Error
	if errors.As(err, &refused) {
		return refused
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	reason := "the connection broke"
	var dns *net.DNSError
	var errno syscall.Errno
	switch {
	case errors.As(err, &dns):
		reason = "its name does not resolve"
	case errors.As(err, &errno):
		reason = errno.Error()
	case errors.Is(err, context.DeadlineExceeded):
		reason = "it does not answer"
	}
	return again{error: fault.Wrap(err, fault.Unavailable, CodeRegistry, "The registry %s cannot be reached: %s.", registryName(r.registry), reason).
		WithHint("Check the network and proxy of the server, and the registry's name.")}
}

// status makes the error of an answer.
func (r *repository) status(resp *http.Response) error {
	host := registryName(r.registry)
	switch code := resp.StatusCode; {
	case code == http.StatusNotFound:
		return fault.New(fault.Invalid, CodeNotInSource, "The registry %s has no such image: %s.", host, r.path).
			WithHint("Check its name and tag.")
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return r.denied()
	case code == http.StatusTooManyRequests:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		after := time.Duration(min(max(seconds, 0), 86400)) * time.Second
		f := fault.New(fault.RateLimited, CodeRate, "The registry %s refuses more pulls for now.", host).
			WithHint("Wait, or give the server credentials for it: they have higher limits.")
		f.RetryAfter = after
		return again{error: f, after: after}
	case code >= 500:
		return again{error: fault.New(fault.Unavailable, CodeRegistry, "The registry %s has a problem: it answers with status %d.", host, code)}
	default:
		return fault.New(fault.Unavailable, CodeRegistry, "The registry %s answers with status %d.", host, code)
	}
}

func (r *repository) denied() error {
	host := registryName(r.registry)
	if r.secret.empty() {
		return fault.New(fault.Forbidden, CodeUnauthorized, "The registry %s does not show %s: it does not exist, or it is private.", host, r.path).
			WithHint("For private images give the server a file of registry credentials with an entry for %s, as `docker login %s` writes it (without a credential helper).", host, host)
	}
	return fault.New(fault.Forbidden, CodeUnauthorized, "The registry %s does not show %s with the credentials that the server has.", host, r.path).
		WithHint("Log in again (`docker login %s`), with an account that may read it.", host)
}

// authorize answers a challenge. used is the header that was refused: if another
// request got a new one meanwhile, that is tried first.
func (r *repository) authorize(ctx context.Context, header, used string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.auth != used {
		return nil
	}
	c := parseChallenge(header)
	switch {
	case c.scheme == "basic" && r.secret.user != "":
		req := http.Request{Header: http.Header{}}
		req.SetBasicAuth(r.secret.user, r.secret.password)
		r.auth = req.Header.Get("Authorization")
		return nil
	case c.scheme == "bearer" && c.params["realm"] != "":
		token, err := r.token(ctx, c)
		if err == nil {
			r.auth = "Bearer " + token
		}
		return err
	}
	return r.denied()
}

// token asks a registry's token server for a token that may read the repository.
func (r *repository) token(ctx context.Context, c challenge) (string, error) {
	realm, err := url.Parse(c.params["realm"])
	if err != nil || realm.Host == "" || realm.User != nil {
		return "", fault.New(fault.Unavailable, CodeRegistry, "The registry %s names no usable token server.", registryName(r.registry))
	}
	if err := r.options.checkScheme(realm); err != nil {
		return "", err
	}
	req, err := r.tokenRequest(ctx, realm, c.params["service"])
	if err != nil {
		return "", err
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return "", r.unreachable(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode >= 500:
		return "", r.status(resp)
	case resp.StatusCode != http.StatusOK:
		return "", r.denied()
	}
	return readToken(resp.Body, registryName(r.registry))
}

// tokenRequest makes the request for a token: by a refresh token where there is
// one, else by name and password or without any.
func (r *repository) tokenRequest(ctx context.Context, realm *url.URL, service string) (*http.Request, error) {
	form := realm.Query()
	form.Set("service", service)
	form.Set("scope", "repository:"+r.path+":pull")
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if r.secret.identity != "" {
		form.Set("grant_type", "refresh_token")
		form.Set("refresh_token", r.secret.identity)
		form.Set("client_id", client)
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	} else {
		realm.RawQuery = form.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, realm.String(), body)
	if err != nil {
		return nil, err
	}
	req.GetBody = nil // a redirect must not carry it elsewhere
	req.Header.Set("User-Agent", client)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	} else if r.secret.user != "" {
		req.SetBasicAuth(r.secret.user, r.secret.password)
	}
	return req, nil
}

func readToken(body io.Reader, host string) (string, error) {
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	err := json.NewDecoder(io.LimitReader(body, maxToken)).Decode(&answer)
	token := answer.Token
	if token == "" {
		token = answer.AccessToken
	}
	if err != nil || token == "" || strings.ContainsAny(token, "\r\n") {
		return "", fault.New(fault.Unavailable, CodeRegistry, "The token server of the registry %s answers without a token.", host)
	}
	return token, nil
}

// manifest reads a manifest by tag or digest. Digests are checked by the caller.
func (r *repository) manifest(ctx context.Context, identifier string) (body []byte, err error) {
	err = retry(ctx, r.options, func() error {
		resp, err := r.get(ctx, "/manifests/"+identifier, manifestTypes, 0)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		body, err = io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
		if err != nil {
			return r.unreachable(ctx, err)
		}
		return nil
	})
	return body, err
}

// blob reads a blob; what breaks off is continued where it did.
func (r *repository) blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	return &blobReader{ctx: ctx, repository: r, descriptor: d}, nil
}
