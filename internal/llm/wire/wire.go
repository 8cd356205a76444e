// Package wire is what the adapters over HTTP share: one exchange with an
// endpoint, with time-outs that follow progress, bounds on what is read, errors
// that are classified and never hold a secret; the lenient reading of JSON that
// endpoints really send; and what makes a history acceptable to them.
//
// It does not retry and does not follow redirects: they would carry the key and
// the conversation to another host.
package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/sse"
)

// Defaults of Config.
const (
	DefaultTimeout = 300 * time.Second
	DefaultTotal   = time.Hour
)

// Bounds of what is read from an endpoint, in bytes.
const (
	MaxAnswer = 64 << 20 // one answer in all
	MaxEvent  = 16 << 20 // one event of a stream
)

// endGrace is how long a stream may go on after the answer is complete: for the
// usage, and for end marks that some endpoints never send.
const endGrace = 10 * time.Second

// Config describes how an endpoint is talked to.
type Config struct {
	HTTPClient  *http.Client  // nil = http.DefaultTransport, which honours HTTP(S)_PROXY
	Timeout     time.Duration // until the first byte of the answer; 0 = DefaultTimeout
	IdleTimeout time.Duration // between two reads of an answer; 0 = Timeout
	Total       time.Duration // the whole answer; 0 = DefaultTotal
	Secrets     []string      // never shown in an error: keys, header values
}

// Client makes calls. It is safe for concurrent use.
type Client struct {
	cfg     Config
	http    *http.Client
	secrets *Redactor
}

// New returns a client.
func New(cfg Config) *Client {
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.IdleTimeout <= 0 {
		cfg.IdleTimeout = cfg.Timeout
	}
	if cfg.Total <= 0 {
		cfg.Total = DefaultTotal
	}
	own := &http.Client{}
	if cfg.HTTPClient != nil {
		*own = *cfg.HTTPClient
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{cfg: cfg, http: own, secrets: NewRedactor(cfg.Secrets...)}
}

// Endpoint reads the base URL of an API. Errors are fault.Invalid.
func Endpoint(base string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(base))
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fault.New(fault.Invalid, "llm_base_url_invalid", "The LLM base URL is not an http or https URL.").
			WithHint("It looks like https://host/v1.")
	}
	u.Fragment, u.RawPath = "", ""
	return u, nil
}

// AddPath adds the path of a call to the address of an API, which may end in a
// slash or have the path already. Its query, such as a version, is kept.
func AddPath(base *url.URL, path string) {
	base.Path = strings.TrimSuffix(strings.TrimRight(base.Path, "/"), path) + path
}

// Key checks an API key. Errors are fault.Invalid and do not hold it.
func Key(key account.Secret) (account.Secret, error) {
	key = account.NewSecret(strings.TrimSpace(key.Reveal()))
	if strings.ContainsFunc(key.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return key, fault.New(fault.Invalid, "llm_api_key_invalid",
			"The LLM API key has characters that cannot be sent (spaces, line breaks or non-ASCII).").
			WithHint("Copy the key again.")
	}
	return key, nil
}

// Call is one exchange: a POST and the reading of its answer.
type Call struct {
	URL    string
	Header http.Header // Content-Type and User-Agent are added
	Body   []byte
	// Prepare is the last touch before sending, such as a signature; nil = none.
	Prepare func(*http.Request) error
	// Advise may add to the error of an answer outside 2xx what to do; nil = nothing.
	Advise func(e *llm.Error)
	// Read reads the answer of a successful call.
	Read func(*Answer) error
	// Streamed reports whether a part of the answer was handed on; nil = never.
	Streamed func() bool
}

// Do makes the call. Errors are *llm.Error without secrets, or ctx's cause when
// ctx ended.
func (c *Client) Do(ctx context.Context, call Call) error {
	inner, w := newWatch(ctx, c.cfg.Total)
	defer w.stop()
	answered, err := c.exchange(inner, w, call)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := classified(inner, err, hostOf(call.URL))
	e.Answered, e.Streamed = answered, call.Streamed != nil && call.Streamed()
	e.Message = c.secrets.Redact(e.Message)
	if e.Err != nil && c.secrets.Shows(e.Err.Error()) { // such as an address to redirect to
		e.Err = nil
	}
	return e
}

// classified turns an error into *llm.Error; a time-out of ours comes first.
func classified(ctx context.Context, err error, host string) *llm.Error {
	var e *llm.Error
	if errors.As(context.Cause(ctx), &e) || errors.As(err, &e) {
		said := *e
		return &said
	}
	return failure.Transport(err, host)
}

func hostOf(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Host
	}
	return "the endpoint"
}

// exchange sends the request and reads its answer. answered says that the endpoint
// accepted it.
func (c *Client) exchange(ctx context.Context, w *watch, call Call) (answered bool, err error) {
	host := hostOf(call.URL)
	w.expect(c.cfg.Timeout, host+" did not begin to answer within "+c.cfg.Timeout.String())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, call.URL, bytes.NewReader(call.Body))
	if err != nil {
		return false, err
	}
	if call.Header != nil {
		req.Header = call.Header.Clone()
	}
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "parley")
	if call.Prepare != nil {
		if err := call.Prepare(req); err != nil {
			return false, err
		}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return false, refusal(resp, call)
	}
	return true, call.Read(&Answer{Header: resp.Header, w: w, idle: c.cfg.IdleTimeout, host: host,
		in: &watched{r: resp.Body, w: w, wait: c.cfg.IdleTimeout, left: MaxAnswer,
			text: host + " fell silent for " + c.cfg.IdleTimeout.String() + " in the middle of its answer"}})
}

// refusal reads an answer outside 2xx.
func refusal(resp *http.Response, call Call) *llm.Error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, failure.MaxBody)) // half a reason is better than none
	e := failure.Response(resp.StatusCode, resp.Header, body, time.Now())
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		e.Message = "the endpoint " + hostOf(call.URL) + " redirects to " + redirectHost(resp) +
			", which is not followed because the request holds your key; set the final address as base URL"
		return e
	}
	if call.Advise != nil {
		call.Advise(e)
	}
	return e
}

func redirectHost(resp *http.Response) string {
	u, err := resp.Location()
	if err != nil {
		return "an unknown address"
	}
	return u.Scheme + "://" + u.Host
}

// Answer is the answer of a successful call. Reading it is bounded in size and
// must make progress.
type Answer struct {
	Header http.Header
	in     *watched
	w      *watch
	idle   time.Duration
	host   string
}

// Read implements io.Reader.
func (a *Answer) Read(p []byte) (int, error) { return a.in.Read(p) }

// IsEventStream reports whether the endpoint says that it streams.
func (a *Answer) IsEventStream() bool {
	kind, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	return err == nil && kind == "text/event-stream"
}

// Events reads the answer as server-sent events.
func (a *Answer) Events() *sse.Reader { return sse.NewReader(a, MaxEvent) }

// Decode reads an answer that is a stream of events, or one document, which is
// also what some endpoints send where a stream was asked for. A stream under a
// wrong content type is one all the same.
func (a *Answer) Decode(stream Stream, whole func(body []byte) error) error {
	if a.IsEventStream() {
		err := stream.Read(a.Events(), a.Complete)
		if err == nil {
			a.Drain()
		}
		return err
	}
	body, err := io.ReadAll(a)
	if err != nil {
		return err
	}
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return &llm.Error{Class: llm.ClassNoResponse, Message: "the endpoint sent an empty answer"}
	}
	for _, prefix := range []string{"data:", "event:", ":"} {
		if bytes.HasPrefix(body, []byte(prefix)) {
			return stream.Read(sse.NewReader(bytes.NewReader(body), MaxEvent), func() {})
		}
	}
	return whole(body)
}

// Complete says that the answer is there: what may still come does not get much
// time, and keep-alives do not prolong it.
func (a *Answer) Complete() {
	a.in.wait = 0
	a.w.expect(min(endGrace, a.idle), a.host+" did not end its answer")
}

// Drain reads the few bytes behind the end of a stream, so that the connection
// can be used again. It does not wait for an endpoint that keeps it open.
func (a *Answer) Drain() {
	a.in.wait = 0
	a.w.expect(50*time.Millisecond, "drained")
	_, _ = io.CopyN(io.Discard, a.in, 4096)
}

// ErrTooLarge says that an answer is over the bounds.
func ErrTooLarge() *llm.Error {
	return &llm.Error{Class: llm.ClassBadRequest, Message: "the answer is larger than 64 MiB"}
}

// Unencodable returns the error of a history that cannot be written as a request.
func Unencodable(err error) *llm.Error {
	return &llm.Error{Class: llm.ClassMalformed, NotSent: true, Err: err, Message: "the history cannot be encoded"}
}

// Broken returns the error of an answer that cannot be read; raw is its begin.
func Broken(what string, raw []byte, err error) *llm.Error {
	return &llm.Error{Class: llm.ClassNetwork, Err: err,
		Message: failure.Bound(what + ": " + strings.ToValidUTF8(string(raw), "\uFFFD"))}
}
