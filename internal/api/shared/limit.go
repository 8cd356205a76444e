package shared

import (
	"sync"
	"time"

	"parley/internal/fault"
)

// What a client without a key may ask for. A page that follows a conversation by
// polling stays far below.
const (
	burst      = 120
	perSecond  = 10
	maxClients = 10000 // that are remembered; more share the fate of the newest
	maxBusy    = 8     // requests of one client at a time: each holds its answer in memory
)

// limiter is a token bucket per client address.
type limiter struct {
	mu      sync.Mutex
	clients map[string]*bucket
	busy    map[string]int // requests under way
	swept   time.Time
}

type bucket struct {
	left float64
	at   time.Time
}

func (b *bucket) fill(now time.Time) {
	b.left = min(burst, b.left+now.Sub(b.at).Seconds()*perSecond)
	b.at = now
}

// take counts a request and refuses it if its client made too many.
func (l *limiter) take(client string, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients == nil {
		l.clients = map[string]*bucket{}
	}
	b := l.clients[client]
	if b == nil {
		if len(l.clients) >= maxClients {
			l.sweep(now)
		}
		if len(l.clients) >= maxClients {
			client = "" // the many share one bucket
			b = l.clients[client]
		}
		if b == nil {
			b = &bucket{burst, now}
			l.clients[client] = b
		}
	}
	b.fill(now)
	if b.left < 1 {
		return errTooMany()
	}
	b.left--
	return nil
}

func errTooMany() error {
	f := fault.New(fault.RateLimited, "too_many_requests", "Too many requests for shared conversations from your address.").
		WithHint("Wait a moment.")
	f.RetryAfter = time.Second
	return f
}

// enter takes a place for a request of a client, or refuses it. Call leave in the end.
func (l *limiter) enter(client string) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy == nil {
		l.busy = map[string]int{}
	}
	if l.busy[client] >= maxBusy {
		return nil, errTooMany()
	}
	l.busy[client]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.busy[client]--; l.busy[client] == 0 {
			delete(l.busy, client)
		}
	}, nil
}

// sweep forgets clients whose bucket is full again: they look like new ones. It is
// not done more than once a second, since it takes a look at all.
func (l *limiter) sweep(now time.Time) {
	if now.Sub(l.swept) < time.Second {
		return
	}
	l.swept = now
	for client, b := range l.clients {
		if b.fill(now); b.left >= burst {
			delete(l.clients, client)
		}
	}
}
