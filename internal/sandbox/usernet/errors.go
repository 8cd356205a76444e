package usernet

import (
	"context"
	"errors"
	"syscall"
)

// reason says in words why a connection was not made.
func reason(err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the other side refused the connection"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to the address"
	case errors.Is(err, context.Canceled):
		return "the sandbox's network was stopped"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "the other side did not answer"
	}
	return "the connection could not be made"
}

// isRefused reports an ICMP error that a former datagram caused.
func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// isTooLong reports a datagram that cannot be sent for its size.
func isTooLong(err error) bool { return errors.Is(err, syscall.EMSGSIZE) }

// onClose calls f when the stack closes, unless the returned function is
// called before.
func (s *Stack) onClose(f func()) (stop func() bool) { return context.AfterFunc(s.ctx, f) }
