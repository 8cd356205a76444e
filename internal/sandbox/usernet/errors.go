package usernet

import (
	"context"
	"errors"
	"syscall"
)

// isRefused reports an ICMP error that a former datagram caused.
func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// isTooLong reports a datagram that cannot be sent for its size.
func isTooLong(err error) bool { return errors.Is(err, syscall.EMSGSIZE) }

// onClose calls f when the stack closes, unless the returned function is
// called before.
func (s *Stack) onClose(f func()) (stop func() bool) { return context.AfterFunc(s.ctx, f) }
