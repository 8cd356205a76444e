package sandboxd

import (
	"bytes"
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

// Headers of answers whose body is raw bytes.
const (
	headerOffset = "Sandboxd-Offset"
	headerEnd    = "Sandboxd-End"
	headerExited = "Sandboxd-Exited" // the exit code; absent while the program runs
	headerFault  = "Sandboxd-Fault"  // trailer: what went wrong after the body began
	portProtocol = "sandboxd-tcp"    // the Upgrade token of a port's connection
)

// wireFault is an error as it crosses the connection. Causes stay behind: they
// are for the daemon's log.
type wireFault struct {
	Kind    string `json:"kind"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func toWire(err error) wireFault {
	var f *fault.Error
	if errors.As(err, &f) {
		return wireFault{Kind: f.Kind.String(), Code: f.Code, Message: f.Public, Hint: f.Hint}
	}
	return wireFault{Kind: fault.KindOf(err).String(), Code: "internal", Message: "Internal error in the sandbox. Its log has the details."}
}

func (w wireFault) fault() *fault.Error {
	return &fault.Error{Kind: kindNamed(w.Kind), Code: w.Code, Public: w.Message, Hint: w.Hint}
}

// kindNamed is the inverse of Kind.String; unknown names are Internal.
func kindNamed(name string) fault.Kind {
	for k := fault.Internal; k <= fault.Canceled; k++ {
		if k.String() == name {
			return k
		}
	}
	return fault.Internal
}

// statusOf serves people with curl; the client reads the body.
func statusOf(err error) int {
	switch fault.KindOf(err) {
	case fault.Invalid:
		return http.StatusBadRequest
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Conflict:
		return http.StatusConflict
	case fault.Forbidden:
		return http.StatusForbidden
	case fault.TooLarge:
		return http.StatusRequestEntityTooLarge
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	case fault.Timeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

func writeFault(w http.ResponseWriter, err error) {
	body, jsonErr := json.Marshal(toWire(err))
	if jsonErr != nil {
		body = []byte(`{"kind":"internal","code":"internal"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(statusOf(err))
	_, _ = w.Write(body) // a client that is gone has nobody to tell
}

func writeJSON(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
	return nil
}

func writeRaw(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// readBody reads a whole body of at most limit bytes. It reads to the end, which
// is what makes net/http watch the connection and cancel the request's context
// when the client goes away.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, bodyTooLarge(limit)
	}
	body, err := readSized(http.MaxBytesReader(w, r.Body, limit), r.ContentLength, limit)
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return nil, bodyTooLarge(limit)
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, CodeBadRequest, "The request ended before its body did.")
	}
	return body, nil
}

// trusted is how much room is made for what a body only announces to be.
const trusted = 1 << 20

// readSized reads all of r, at most limit bytes; size is what it announced, or -1.
// Nobody gets more memory than he sends bytes.
func readSized(r io.Reader, size, limit int64) ([]byte, error) {
	if size > limit {
		return nil, errTooLong
	}
	body := bytes.NewBuffer(make([]byte, 0, min(max(size, 512), trusted)))
	_, err := body.ReadFrom(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(body.Len()) > limit:
		return nil, errTooLong
	case size >= 0 && int64(body.Len()) < size:
		return nil, io.ErrUnexpectedEOF
	}
	return body.Bytes(), nil
}

var errTooLong = errors.New("longer than is possible")

func bodyTooLarge(limit int64) error {
	return fault.New(fault.TooLarge, CodeTooLarge, "The request is larger than %d bytes.", limit)
}

func decodeJSON(body []byte, v any) error {
	if err := json.Unmarshal(body, v); err != nil {
		return fault.Wrap(err, fault.Invalid, CodeBadRequest, "The request is not the JSON it should be.")
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, CodeBadRequest, format, args...)
}

// query reads typed members of a query string and remembers the first error.
type query struct {
	values url.Values
	err    error
}

// parseQuery parses strictly: net/http's own lenient parsing drops what it cannot read.
func parseQuery(raw string) *query {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return &query{err: fault.Wrap(err, fault.Invalid, CodeBadRequest, "The query string cannot be decoded.")}
	}
	return &query{values: values}
}

// number reads an integer in [low, high]; absent means 0, which is always allowed.
func (q *query) number(name string, low, high int64) int64 {
	text := q.values.Get(name)
	if text == "" || q.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || (n != 0 && (n < low || n > high)) {
		q.err = invalid("%s must be a number from %d to %d.", name, low, high)
		return 0
	}
	return n
}

func (q *query) flag(name string) bool {
	text := q.values.Get(name)
	if text == "" || q.err != nil {
		return false
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		q.err = invalid("%s must be true or false.", name)
	}
	return on
}

// path reads an absolute path.
func (q *query) path(name string) string {
	if q.err != nil {
		return ""
	}
	path, err := cleanPath(q.values.Get(name))
	q.err = err
	return path
}

// clampWait bounds a client's wait; a longer one is just asked again.
func clampWait(d time.Duration) time.Duration { return min(max(d, 0), maxWait) }

func checkTerminalID(id string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:"
	if id == "" || len(id) > 128 || strings.Trim(id, allowed) != "" || id == "." || id == ".." {
		return invalid("A terminal's id has 1 to 128 letters, digits, and _ - . : in it.")
	}
	return nil
}
