// Package fault is the error type every layer of Parley speaks.
//
// A fault carries what a program needs (a kind, a stable code), what a person
// may read (a public text and a hint) and what only the log may show (the
// wrapped error and the operation). Each API maps kinds to its own wire format
// in one place; internal text never reaches a client.
package fault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kind classifies a fault by what the caller can do about it.
type Kind uint8

// The kinds. Internal is the zero value: an error nobody classified is ours.
const (
	Internal        Kind = iota // a defect or an unexpected environment
	Invalid                     // the request is wrong and stays wrong
	NotFound                    // no such thing, or not yours
	Conflict                    // the thing is in another state than the request needs
	Unauthenticated             // no or a wrong credential
	Forbidden                   // a good credential, not for this
	TooLarge                    // over a documented bound
	RateLimited                 // later, see RetryAfter
	Unavailable                 // a dependency is down or the server is stopping
	Gone                        // it existed and will not come back
	Unsupported                 // not built (yet); says so instead of pretending
	Timeout                     // a bound on time passed
	Canceled                    // the caller or an owner stopped it
)

var kindNames = [...]string{"internal", "invalid", "not_found", "conflict", "unauthenticated",
	"forbidden", "too_large", "rate_limited", "unavailable", "gone", "unsupported", "timeout", "canceled"}

// String returns the kind's stable lower-case name.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "internal"
}

// Field names one wrong member of a request.
type Field struct {
	Loc   []any  // path: "body", "mcp_config", "sse_servers", 0, "url"
	Type  string // machine name of the rule: "missing", "string_type", ...
	Msg   string // human text of the rule
	Input any    // what was sent; nil where it is secret or absent
	Ctx   map[string]any
}

// Error is a classified error.
type Error struct {
	Op         string        // where: "store.append"; for logs
	Kind       Kind          // what the caller can do
	Code       string        // stable, snake_case: "llm_auth", "head_moved"
	Public     string        // what happened and why, safe for a client
	Hint       string        // what to do next, safe for a client
	Fields     []Field       // for Invalid
	RetryAfter time.Duration // for RateLimited and Unavailable; 0 = unknown
	Err        error         // the cause; for logs and errors.Is/As
}

// Error returns the text for logs.
func (e *Error) Error() string {
	text := e.Public
	if text == "" {
		text = e.Kind.String()
	}
	if e.Op != "" {
		text = e.Op + ": " + text
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New makes a fault with a public text.
func New(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Public: fmt.Sprintf(format, args...)}
}

// Wrap makes a fault around err. The public text never includes err's text.
func Wrap(err error, kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Public: fmt.Sprintf(format, args...), Err: err}
}

// WithHint sets what the reader should do next and returns e.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// WithOp sets where it happened and returns e.
func (e *Error) WithOp(op string) *Error {
	e.Op = op
	return e
}

// KindOf returns the kind of the first fault in err's chain; a bare context
// error is Canceled or Timeout; anything else is Internal.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	}
	return Internal
}

// Is reports whether err is of the kind.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }

// CodeOf returns the stable code of err, or "" if it has none.
func CodeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// PublicText returns what a client may read of err: the public text and hint of
// the first fault in the chain, or a fixed text for unclassified errors.
func PublicText(err error) string {
	var e *Error
	if !errors.As(err, &e) || e.Public == "" {
		return "Internal error. The server's log has the details."
	}
	if e.Hint == "" {
		return e.Public
	}
	return e.Public + " " + e.Hint
}
