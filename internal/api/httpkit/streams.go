package httpkit

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
)

// DefaultSubscribers bounds the live streams of one conversation.
const DefaultSubscribers = 1000

// cutTime is how long a client may take, when its stream is over, to take what was
// written and to say goodbye.
const cutTime = time.Second

// ErrDraining is why streams end when the server stops.
var ErrDraining = errors.New("the server is stopping")

// ErrRevoked is why a stream ends whose key is not good any more.
var ErrRevoked = errors.New("the key is revoked or has expired")

// recheckEvery is how often keys of open streams are looked up again. A key that this
// server deletes is looked up at once; this is for those that expire, and for what
// others do to the database.
const recheckEvery = 15 * time.Second

// Streams knows all open live streams, bounds them by what they are about, and ends
// them when the server stops or their key is not good any more.
type Streams struct {
	limit   int
	metrics *Metrics
	keys    Keys
	stop    context.Context
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	open    map[string]int                                            // by what they are about
	holders map[account.KeyHash]map[*context.CancelCauseFunc]struct{} // what ends the streams of a key
	wg      sync.WaitGroup
}

// NewStreams makes the register; limit is for streams about the same, 0 =
// DefaultSubscribers. keys knows which are good; nil = all stay so.
func NewStreams(limit int, m *Metrics, keys Keys) *Streams {
	if limit <= 0 {
		limit = DefaultSubscribers
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Streams{limit: limit, metrics: m, keys: keys, stop: ctx, cancel: cancel, open: map[string]int{},
		holders: map[account.KeyHash]map[*context.CancelCauseFunc]struct{}{}}
}

// Watch looks up the keys of open streams now and then, until Drain.
func (s *Streams) Watch() {
	tick := time.NewTicker(recheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.Recheck(s.stop)
		case <-s.stop.Done():
			return
		}
	}
}

// Recheck ends the streams whose key is not good any more, with ErrRevoked. Where that
// cannot be found out they stay.
func (s *Streams) Recheck(ctx context.Context) {
	if s.keys == nil {
		return
	}
	s.mu.Lock()
	held := slices.Collect(maps.Keys(s.holders))
	s.mu.Unlock()
	for _, key := range held {
		if _, err := s.keys.UserByKey(ctx, key); fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.NotFound) {
			s.revoke(key)
		}
	}
}

func (s *Streams) revoke(key account.KeyHash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for end := range s.holders[key] {
		(*end)(ErrRevoked)
	}
}

// Join opens a stream of a kind ("sse", "ws") for somebody, about something (a
// conversation's id). The context ends with the caller's or, with ErrDraining, when
// the server stops, or, with ErrRevoked, when who's key is not good any more. leave
// must be called once. RateLimited (code "too_many_streams") over the limit,
// Unavailable when the server is stopping.
func (s *Streams) Join(parent context.Context, who Principal, kind, about string) (ctx context.Context, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop.Err() != nil {
		return nil, nil, fault.New(fault.Unavailable, "draining", "The server is stopping.")
	}
	if s.open[about] >= s.limit {
		return nil, nil, fault.New(fault.RateLimited, "too_many_streams", "Too many subscribers of this conversation.")
	}
	s.open[about]++
	s.wg.Add(1)
	s.metrics.streams.WithLabelValues(kind).Inc()
	ctx, cancel := context.WithCancelCause(parent)
	unlink := context.AfterFunc(s.stop, func() { cancel(ErrDraining) })
	s.hold(who.Key, &cancel)
	return ctx, func() {
		unlink()
		cancel(nil)
		s.leave(kind, about, who.Key, &cancel)
	}, nil
}

// hold notes what ends a stream of a key. s.mu is held.
func (s *Streams) hold(key account.KeyHash, end *context.CancelCauseFunc) {
	if key == (account.KeyHash{}) {
		return
	}
	if s.holders[key] == nil {
		s.holders[key] = map[*context.CancelCauseFunc]struct{}{}
	}
	s.holders[key][end] = struct{}{}
}

func (s *Streams) leave(kind, about string, key account.KeyHash, end *context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[about]--; s.open[about] == 0 {
		delete(s.open, about)
	}
	if delete(s.holders[key], end); len(s.holders[key]) == 0 {
		delete(s.holders, key)
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
