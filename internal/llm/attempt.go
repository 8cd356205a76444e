package llm

import "context"

type attemptKey struct{}

// WithAttempt notes in ctx which attempt at a request this is, from 1. The
// retry decorator sets it; adapters may show it in traces, and the scripted
// model uses it to fail a given number of times without keeping state.
func WithAttempt(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, attemptKey{}, n)
}

// Attempt returns what WithAttempt noted; 1 if nothing did.
func Attempt(ctx context.Context) int {
	if n, ok := ctx.Value(attemptKey{}).(int); ok {
		return n
	}
	return 1
}
