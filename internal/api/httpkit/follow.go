package httpkit

import (
	"context"
	"time"

	"parley/internal/stream"
)

// Source is what a live stream shows: a *stream.Follower.
type Source interface {
	Next(ctx context.Context) (stream.Item, error)
	After() int64
}

// nextOrIdle waits for the next item, at most for idle; ok is false then.
func nextOrIdle(ctx context.Context, src Source, idle time.Duration) (item stream.Item, ok bool, err error) {
	wait, cancel := context.WithTimeout(ctx, idle)
	defer cancel()
	item, err = src.Next(wait)
	switch {
	case err == nil:
		return item, true, nil
	case ctx.Err() != nil:
		return item, false, context.Cause(ctx)
	case wait.Err() != nil:
		return item, false, nil
	}
	return item, false, err
}
