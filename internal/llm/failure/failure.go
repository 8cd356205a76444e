// Package failure classifies what model endpoints answer when they fail: the
// HTTP status, the many shapes and wordings of error bodies, the wishes to be
// asked again later, broken connections. Every adapter over HTTP uses it, so
// that the same trouble has the same class whatever the provider.
//
// It removes no secrets from texts: an adapter knows its keys and does that.
package failure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"parley/internal/llm"
)

// MaxMessage bounds a message, in bytes.
const MaxMessage = 2048

// MaxBody is how much of an error body is worth reading, in bytes.
const MaxBody = 64 << 10

// Response classifies an HTTP answer outside 2xx. now anchors retry wishes that
// are points in time.
func Response(status int, header http.Header, body []byte, now time.Time) *llm.Error {
	r := parse(body)
	name, _, _ := strings.Cut(header.Get("X-Amzn-Errortype"), ":") // AWS: what the body only describes
	r.codes += " " + name
	e := &llm.Error{Class: classify(status, r), Status: status, Message: r.message}
	if e.Message == "" {
		e.Message = plainText(name)
	}
	if e.Message == "" {
		e.Message = emptyText(status)
	}
	if e.Class.Retryable() {
		e.RetryAfter = retryAfter(status, header, r, now)
	}
	e.Message = Bound(e.Message)
	return e
}

// Payload classifies an error object that came inside a successful answer or a
// stream. A status in the body counts as the answer's.
func Payload(body []byte) *llm.Error {
	r := parse(body)
	e := &llm.Error{Class: classify(r.status, r), Status: r.status, Message: Bound(r.message), RetryAfter: r.retry}
	if e.Message == "" {
		e.Message = "the endpoint reported an error without a text"
	}
	if !e.Class.Retryable() {
		e.RetryAfter = 0
	} else if e.RetryAfter == 0 {
		e.RetryAfter = spokenDelay(r.message)
	}
	return e
}

// Transport classifies an error of the connection to host. Certificates that
// are not trusted and a wrong scheme stay wrong; the rest may be better soon.
func Transport(err error, host string) *llm.Error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // its text holds the whole URL
	}
	e := &llm.Error{Class: llm.ClassNetwork, Err: err}
	var op *net.OpError
	var timeout net.Error
	switch {
	case isCertificate(err):
		e.Class, e.NotSent = llm.ClassBadRequest, true
		e.Message = "the certificate of " + host + " is not trusted: " + err.Error()
	case strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		e.Class, e.NotSent = llm.ClassBadRequest, true
		e.Message = host + " speaks plain HTTP: the base URL must begin with http://"
	case errors.As(err, &op) && op.Op == "dial":
		e.NotSent = true
		e.Message = "cannot reach " + host + ": " + err.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		e.Class = llm.ClassTimeout
		e.Message = host + " did not answer in time: " + err.Error()
	case isBroken(err):
		e.Message = "the connection to " + host + " broke: " + err.Error()
	default:
		e.Message = "the call to " + host + " failed: " + err.Error()
	}
	e.Message = Bound(e.Message)
	return e
}

func isCertificate(err error) bool {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verify *tls.CertificateVerificationError
	return errors.As(err, &unknown) || errors.As(err, &name) || errors.As(err, &invalid) || errors.As(err, &verify)
}

func isBroken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func emptyText(status int) string {
	if text := http.StatusText(status); text != "" {
		return text
	}
	return "the endpoint gave no reason"
}

func statusText(status int) string { return strconv.Itoa(status) }

// CutMark ends a message that was cut.
const CutMark = " [cut]"

// Bound cuts s to MaxMessage bytes of valid UTF-8.
func Bound(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= MaxMessage {
		return s
	}
	cut := MaxMessage - len(CutMark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + CutMark
}
