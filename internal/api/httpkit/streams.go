package httpkit

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley/internal/fault"
)

// DefaultSubscribers bounds the live streams of one conversation.
const DefaultSubscribers = 1000

// cutTime is how long a client may take, when its stream is over, to take what was
// written and to say goodbye.
const cutTime = time.Second

// ErrDraining is why streams end when the server stops.
var ErrDraining = errors.New("the server is stopping")

// Streams knows all open live streams, bounds them per conversation and ends
// them when the server stops.
type Streams struct {
	limit   int
	metrics *Metrics
	stop    context.Context
	cancel  context.CancelCauseFunc

	mu   sync.Mutex
	open map[string]int // by key
	wg   sync.WaitGroup
}

// NewStreams makes the register; limit is per key, 0 = DefaultSubscribers.
func NewStreams(limit int, m *Metrics) *Streams {
	if limit <= 0 {
		limit = DefaultSubscribers
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Streams{limit: limit, metrics: m, stop: ctx, cancel: cancel, open: map[string]int{}}
}

// Join opens a stream of a kind ("sse", "ws") on a key. The context ends with
// the caller's or, with ErrDraining, when the server stops. leave must be called
// once. RateLimited (code "too_many_streams") over the limit, Unavailable when
// the server is stopping.
func (s *Streams) Join(parent context.Context, kind, key string) (ctx context.Context, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop.Err() != nil {
		return nil, nil, fault.New(fault.Unavailable, "draining", "The server is stopping.")
	}
	if s.open[key] >= s.limit {
		return nil, nil, fault.New(fault.RateLimited, "too_many_streams", "Too many subscribers of this conversation.")
	}
	s.open[key]++
	s.wg.Add(1)
	s.metrics.streams.WithLabelValues(kind).Inc()
	ctx, cancel := context.WithCancelCause(parent)
	unlink := context.AfterFunc(s.stop, func() { cancel(ErrDraining) })
	return ctx, func() {
		unlink()
		cancel(nil)
		s.leave(kind, key)
	}, nil
}

func (s *Streams) leave(kind, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[key]--; s.open[key] == 0 {
		delete(s.open, key)
	}
	s.metrics.streams.WithLabelValues(kind).Dec()
	s.wg.Done()
}

// Draining reports whether the server is stopping.
func (s *Streams) Draining() bool { return s.stop.Err() != nil }

// Drain ends all streams with a resumable close and waits for them, at most
// until ctx ends.
func (s *Streams) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.cancel(ErrDraining)
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
