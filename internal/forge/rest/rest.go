// Package rest is what the clients of git hosting services share: one exchange with
// an API that speaks JSON over HTTP, with bounds on time and size, errors that say
// what a user can do and never hold a token, and pages.
//
// It follows no redirect to another host, and no address that an answer brings
// along: of the link to the next page it takes the page's number only. It does not
// retry: whoever asks is waiting.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"parley/internal/fault"
)

// Fault codes.
const (
	CodeRejected    = "git_token_rejected"   // Unauthenticated
	CodeForbidden   = "git_forbidden"        // Forbidden: the token is good, not for this
	CodeNotFound    = "git_not_found"        // NotFound: not there, or not for this token
	CodeRefused     = "git_request_refused"  // Invalid: the service does not take the request
	CodeRateLimited = "git_rate_limited"     // RateLimited, with RetryAfter where the service said it
	CodeUnreachable = "git_host_unreachable" // Unavailable: no connection, or none that can be trusted
	CodeFailed      = "git_host_failed"      // Unavailable: an answer that makes no sense
)

// Bounds of an exchange.
const (
	maxAnswer    = 8 << 20
	exchangeTime = 30 * time.Second
	maxWait      = 24 * time.Hour // longest RetryAfter that is believed
)

// Config says whom to talk to and how.
type Config struct {
	Name   string      // the service's name, for errors: "GitHub"
	Base   *url.URL    // of the API; its path has no slash at the end
	Header http.Header // of every request; the token is in it
	HTTP   *http.Client
	// Rejects reports whether an answer is a rejected token where its status does
	// not say so; nil = never.
	Rejects func(*http.Response) bool
}

// Client talks to one API as one user. It is safe for concurrent use.
type Client struct{ cfg Config }

// New returns a client.
func New(c Config) *Client {
	own := &http.Client{}
	if c.HTTP != nil {
		*own = *c.HTTP
	}
	own.CheckRedirect = sameHost
	c.HTTP = own
	return &Client{c}
}

// maxRedirects is for things that were renamed.
const maxRedirects = 3

// sameHost follows redirects that stay where the token belongs.
func sameHost(r *http.Request, via []*http.Request) error {
	if first := via[0].URL; len(via) > maxRedirects || r.URL.Host != first.Host || r.URL.Scheme != first.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// Path fills the values into the verbs %s of a path, each as one segment.
func Path(format string, values ...string) string {
	escaped := make([]any, len(values))
	for i, v := range values {
		escaped[i] = url.PathEscape(v)
	}
	return fmt.Sprintf(format, escaped...)
}

// Segments escapes a path of several segments.
func Segments(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// Raw is an answer that is no JSON.
type Raw []byte

// Get reads what is at a path into v, as it is into a *Raw.
func (c *Client) Get(ctx context.Context, path string, q url.Values, v any) (http.Header, error) {
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return c.exchange(ctx, http.MethodGet, path, nil, v)
}

// Post sends a body as JSON and reads the answer into v.
func (c *Client) Post(ctx context.Context, path string, body, v any) (http.Header, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return c.exchange(ctx, http.MethodPost, path, raw, v)
}

func (c *Client) exchange(ctx context.Context, method, path string, body []byte, v any) (http.Header, error) {
	inner, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	req, err := http.NewRequestWithContext(inner, method, c.cfg.Base.String()+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header = c.cfg.Header.Clone()
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.cfg.HTTP.Do(req)
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := c.judge(resp); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, c.failed(ctx, err)
	case len(raw) > maxAnswer:
		return nil, fault.New(fault.Unavailable, CodeFailed, "An answer of %s is larger than %d MiB.", c.who(), maxAnswer>>20)
	case v == nil:
		return resp.Header, nil
	}
	if plain, ok := v.(*Raw); ok {
		*plain = raw
		return resp.Header, nil
	}
	if err := json.Unmarshal(raw, v); err != nil { // its text may hold pieces of the answer: not kept
		return nil, fault.New(fault.Unavailable, CodeFailed, "An answer of %s cannot be read.", c.who()).
			WithHint("Check that the host is one of this kind.")
	}
	return resp.Header, nil
}

// who names the service.
func (c *Client) who() string { return c.cfg.Name + " (" + c.cfg.Base.Host + ")" }

// failed explains an exchange that broke off.
func (c *Client) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var refused *fault.Error
	if errors.As(err, &refused) { // by the dialer
		return refused
	}
	why := "no connection could be made"
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		why = "it did not answer in time"
	case isTLS(err):
		why = "its certificate cannot be verified"
	}
	var address *url.Error
	if errors.As(err, &address) {
		err = address.Err // without the address: its query is the user's
	}
	return fault.Wrap(err, fault.Unavailable, CodeUnreachable, "%s cannot be reached: %s.", c.who(), why).
		WithHint("Try again in a moment, or check the host that is stored for it.")
}

// judge turns a status into an error, nil for 2xx.
func (c *Client) judge(r *http.Response) error {
	if r.StatusCode == http.StatusUnauthorized || c.cfg.Rejects != nil && c.cfg.Rejects(r) {
		return Rejected(c.who())
	}
	if wait, limited := rateLimit(r, time.Now()); limited {
		e := fault.New(fault.RateLimited, CodeRateLimited, "%s takes no more requests for now.", c.who())
		if e.RetryAfter = wait; wait > 0 {
			return e.WithHint("Try again in %s.", wait.Round(time.Second))
		}
		return e.WithHint("Try again later.")
	}
	switch s := r.StatusCode; {
	case s >= 200 && s < 300:
		return nil
	case s >= 300 && s < 400:
		return fault.New(fault.Unavailable, CodeFailed, "%s redirects to another host, where the token is not sent.", c.who()).
			WithHint("Store the host that it redirects to.")
	case s == http.StatusForbidden:
		return fault.New(fault.Forbidden, CodeForbidden, "%s does not allow this with the stored token.", c.who()).
			WithHint("Give the token more rights, or store another one.")
	case s == http.StatusNotFound || s == http.StatusGone:
		return fault.New(fault.NotFound, CodeNotFound, "%s has no such thing, or the token must not see it.", c.who())
	case s >= 500:
		return fault.New(fault.Unavailable, CodeFailed, "%s failed with status %d.", c.who(), s).WithHint("Try again in a moment.")
	}
	return fault.New(fault.Invalid, CodeRefused, "%s refused the request with status %d.", c.who(), r.StatusCode)
}

// Rejected is the error of a token that a service does not take.
func Rejected(who string) error {
	return fault.New(fault.Unauthenticated, CodeRejected, "%s rejected the token.", who).
		WithHint("It may be mistyped, expired or revoked: store a new one.")
}

// rateLimit reports whether an answer says that there were too many requests, and
// how long to wait, 0 if it does not tell. GitHub says it with 403, too.
func rateLimit(r *http.Response, now time.Time) (wait time.Duration, limited bool) {
	after := r.Header.Get("Retry-After")
	switch {
	case r.StatusCode == http.StatusTooManyRequests:
	case r.StatusCode == http.StatusForbidden && (r.Header.Get("X-RateLimit-Remaining") == "0" || after != ""):
	default:
		return 0, false
	}
	for _, text := range []string{after, r.Header.Get("X-RateLimit-Reset"), r.Header.Get("RateLimit-Reset")} {
		if wait = waitOf(text, now); wait > 0 {
			break
		}
	}
	return min(wait, maxWait), true
}

// epoch is the least number that is a time rather than a number of seconds.
const epoch = 1_000_000_000

// waitOf reads seconds, seconds since the epoch, or a date of HTTP; 0 if it is none
// of these or past.
func waitOf(text string, now time.Time) time.Duration {
	at, err := http.ParseTime(text)
	if n, wrong := strconv.ParseInt(text, 10, 64); wrong == nil {
		if n < epoch {
			return max(0, time.Duration(n)*time.Second)
		}
		at, err = time.Unix(min(n, 1<<40), 0), nil
	}
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// NextPage returns the value of a parameter in the link to the next page (RFC 8288),
// "" if there is none.
func NextPage(h http.Header, param string) string {
	for _, line := range h.Values("Link") {
		for link := range strings.SplitSeq(line, ",") {
			target, params, ok := strings.Cut(link, ">")
			target, opened := strings.CutPrefix(strings.TrimSpace(target), "<")
			if !ok || !opened || !hasNext(params) {
				continue
			}
			if u, err := url.Parse(target); err == nil {
				return u.Query().Get(param)
			}
		}
	}
	return ""
}

// hasNext looks for the relation among a link's parameters.
func hasNext(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(name, "rel") && strings.EqualFold(strings.Trim(value, `"`), "next") {
			return true
		}
	}
	return false
}

// maxPage bounds page numbers and offsets.
const maxPage = 1 << 20

// PageNumber reads a page's number or an offset from a client's page id. What is no
// number from first on, or absurd, is first: lists begin again then.
func PageNumber(id string, first int) int {
	n, err := strconv.Atoi(id)
	if err != nil || n < first || n > maxPage {
		return first
	}
	return n
}
