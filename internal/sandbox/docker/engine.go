package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"parley/internal/fault"
)

// The versions of the API that are spoken. Within them the calls made here are
// the same; newer engines still answer to lastVersion, or to their own oldest.
const (
	firstVersion = 41 // 1.41: Docker 20.10, Podman 4
	lastVersion  = 47
)

// Bounds of what an engine may answer.
const (
	maxAnswer   = 8 << 20 // lists are the longest
	maxRefusal  = 64 << 10
	maxProgress = 64 << 20 // of a pull
	maxQuoted   = 300      // of an engine's words in a text for people
)

// Codes of faults.
const (
	codeUnreachable = "docker_unreachable"
	codeSlow        = "docker_slow"
	codeRefused     = "docker_refused"
)

// engine speaks the Docker Engine API, the dozen calls that boxes need, over a
// unix socket. Every call has a deadline; what is behind the socket may hang,
// lie and end at any time.
type engine struct {
	socket  string
	prefix  string        // of paths: "/v1.41"
	timeout time.Duration // of one call, but for those that wait by their nature
	http    *http.Client
}

// errNonsense is an answer that cannot be one.
var errNonsense = errors.New("container engine: an answer that makes no sense")

// refusal is an answer that says no.
type refusal struct {
	status  int
	message string // the engine's words
}

func (r *refusal) Error() string { return fmt.Sprintf("container engine: %d: %s", r.status, r.message) }

// refused reports whether err is an answer of a status.
func refused(err error, status int) bool {
	var r *refusal
	return errors.As(err, &r) && r.status == status
}

// words are what the engine said of why it refused, fit to be shown.
func words(err error) string {
	var r *refusal
	if !errors.As(err, &r) {
		return fault.PublicText(err)
	}
	return quotable(r.message)
}

// quotable cleans and cuts the engine's words.
func quotable(text string) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, text)
	if len(clean) > maxQuoted {
		clean = clean[:maxQuoted] + "..."
	}
	return strings.TrimRight(strings.TrimSpace(clean), ".")
}

// socketOf returns the path in a value of DOCKER_HOST. Only sockets of this
// machine will do: boxes are reached through its file system.
func socketOf(host string) (string, error) {
	if host == "" {
		return defaultSocket, nil
	}
	path := strings.TrimPrefix(host, "unix://")
	if !filepath.IsAbs(path) || strings.Contains(path, "\x00") {
		return "", fault.New(fault.Invalid, "docker_host", "The container engine must be a unix socket of this machine, such as unix://%s.", defaultSocket).
			WithHint("Engines of other machines (tcp://, ssh://) cannot be used: sandboxes are reached through this machine's file system.")
	}
	return filepath.Clean(path), nil
}

func newEngine(socket string, timeout time.Duration) *engine {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialUnix(ctx, socket)
		},
		DisableCompression:  true,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     30 * time.Second,
	}
	return &engine{socket: socket, timeout: timeout, http: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

func (e *engine) close() { e.http.CloseIdleConnections() }

// versions is what an engine says of itself.
type versions struct {
	APIVersion    string `json:"ApiVersion"`
	MinAPIVersion string
}

// negotiate finds the version to speak.
func (e *engine) negotiate(ctx context.Context) error {
	var v versions
	if err := e.get(ctx, "/version", nil, &v); err != nil {
		return e.fault(err, "The container engine cannot be used.")
	}
	newest, ok := minor(v.APIVersion)
	if !ok || newest < firstVersion {
		return fault.New(fault.Unsupported, "docker_old", "The container engine at %s speaks version %q of its API, 1.%d is needed.", e.socket, quotable(v.APIVersion), firstVersion).
			WithHint("Docker 20.10 or Podman 4 and newer will do.")
	}
	speak := min(newest, lastVersion)
	if oldest, ok := minor(v.MinAPIVersion); ok {
		speak = max(speak, oldest)
	}
	e.prefix = "/v1." + strconv.Itoa(speak)
	return nil
}

// minor returns 41 of "1.41".
func minor(version string) (int, bool) {
	rest, ok := strings.CutPrefix(version, "1.")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(rest)
	return n, err == nil && n >= 0
}

func (e *engine) get(ctx context.Context, path string, query url.Values, out any) error {
	return e.call(ctx, http.MethodGet, path, query, nil, out)
}

func (e *engine) post(ctx context.Context, path string, query url.Values, in, out any) error {
	return e.call(ctx, http.MethodPost, path, query, in, out)
}

// call makes a call within the time for one. in and out are JSON and may be nil.
func (e *engine) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	return e.await(ctx, method, path, query, in, out)
}

// await makes a call that takes as long as its context allows.
func (e *engine) await(ctx context.Context, method, path string, query url.Values, in, out any) error {
	resp, err := e.open(ctx, method, path, query, in)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return err
	case len(data) > maxAnswer:
		return fmt.Errorf("%w: %s %s: it has no end", errNonsense, method, path)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%w: %s %s: %w", errNonsense, method, path, err)
	}
	return nil
}

// open makes a call and returns an answer that says yes; the caller closes it.
func (e *engine) open(ctx context.Context, method, path string, query url.Values, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	target := url.URL{Scheme: "http", Host: "engine", Path: e.prefix + path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return nil, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 || resp.StatusCode == http.StatusNotModified {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	return nil, &refusal{status: resp.StatusCode, message: messageOf(resp)}
}

func messageOf(resp *http.Response) string {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	var said struct{ Message string }
	if err != nil || json.Unmarshal(data, &said) != nil || said.Message == "" {
		return resp.Status
	}
	return said.Message
}

// fault classifies an error of a call. public says what failed.
func (e *engine) fault(err error, public string) error {
	var known *fault.Error
	var no *refusal
	var broken *net.OpError
	switch {
	case err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(err, fault.Unavailable, codeSlow, "%s The container engine at %s does not answer in time.", public, e.socket).
			WithHint("Look at the engine's log, and restart it if it hangs.")
	case errors.As(err, &no):
		return fault.Wrap(err, fault.Unavailable, codeRefused, "%s The container engine says: %s.", public, words(err))
	case errors.Is(err, errNonsense):
		return fault.Wrap(err, fault.Unavailable, codeRefused, "%s The container engine's answer makes no sense.", public)
	case errors.Is(err, errDied):
		return fault.Wrap(err, fault.Unavailable, "sandbox_start", "%s Its first process ended before it served.", public).
			WithHint("The server's log has its last words.")
	case errors.As(err, &broken) && broken.Op == "dial" && errors.Is(err, fs.ErrPermission):
		return fault.Wrap(err, fault.Unavailable, codeUnreachable, "%s The server's user may not open %s.", public, e.socket).
			WithHint("Add the user to the group that owns the socket, usually docker, and start the server again.")
	case errors.As(err, &broken) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fault.Wrap(err, fault.Unavailable, codeUnreachable, "%s No container engine answers at %s.", public, e.socket).
			WithHint("Start it (systemctl start docker), or name its socket in DOCKER_HOST.")
	}
	return fault.Wrap(err, fault.Unavailable, "sandbox_failed", "%s", public)
}
