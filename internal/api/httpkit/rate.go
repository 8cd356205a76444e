package httpkit

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// How a rate is limited (V0 section 1.2): up to the limit of one second a request
// passes, up to twice of it waits for rateDelay, and beyond that it is refused.
const (
	rateWindow = time.Second
	rateDelay  = time.Second
	// rateClients bounds the addresses that are told apart at a time. Those beyond it
	// count as one.
	rateClients = 1 << 16
)

// verdict is what becomes of a request.
type verdict int

const (
	pass verdict = iota
	delay
	refuse
)

// RateLimit counts requests by the client's address, refused ones too. What it keeps
// is bounded by the requests of the last second. It may be used concurrently.
type RateLimit struct {
	limit int // requests a second

	mu      sync.Mutex
	clients map[netip.Addr]*window
	swept   time.Time
}

// window are the times of a client's last requests, at most twice the limit.
type window struct {
	times []time.Time
	next  int // in times, once it is full: the oldest
}

// NewRateLimit makes a limit of that many requests a second; 0 is none, nil.
func NewRateLimit(limit int) *RateLimit {
	if limit <= 0 {
		return nil
	}
	return &RateLimit{limit: limit, clients: map[netip.Addr]*window{}}
}

// take counts a request of a client.
func (l *RateLimit) take(client string, now time.Time) verdict {
	if l == nil {
		return pass
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	addr := rateKey(client)
	w := l.clients[addr]
	if w == nil && len(l.clients) >= rateClients {
		addr = netip.Addr{}
		w = l.clients[addr]
	}
	if w == nil {
		w = &window{}
		l.clients[addr] = w
	}
	switch n := w.add(now, 2*l.limit); {
	case n > 2*l.limit:
		return refuse
	case n > l.limit:
		return delay
	}
	return pass
}

// add counts a request and returns how many there were in the window with it; most+1
// stands for all that are more than most.
func (w *window) add(now time.Time, most int) int {
	n := 1
	for _, t := range w.times {
		if now.Sub(t) < rateWindow {
			n++
		}
	}
	if len(w.times) < most {
		w.times = append(w.times, now)
		return n
	}
	w.times[w.next] = now
	w.next = (w.next + 1) % most
	return n
}

// last is the time of the newest request.
func (w *window) last() time.Time {
	return w.times[(w.next+len(w.times)-1)%len(w.times)]
}

// sweep forgets clients whose requests do not count any more, once in a window.
func (l *RateLimit) sweep(now time.Time) {
	if now.Sub(l.swept) < rateWindow {
		return
	}
	l.swept = now
	for addr, w := range l.clients {
		if now.Sub(w.last()) >= rateWindow {
			delete(l.clients, addr)
		}
	}
}

// rateKey is what counts as one client: an address or, of IPv6, the network that a
// single customer has.
func rateKey(client string) netip.Addr {
	addr, err := netip.ParseAddr(client)
	if err != nil {
		return netip.Addr{}
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		if p, err := addr.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return addr
}

// unlimited are requests that do not count: live connections, which are bounded by
// themselves.
func unlimited(r *http.Request) bool {
	return len(r.Header.Values("Upgrade")) > 0 || strings.HasPrefix(r.URL.Path, "/socket.io")
}

// admitRate lets a request pass, late perhaps, or answers it. It reports whether it
// goes on.
func (l *RateLimit) admitRate(w http.ResponseWriter, r *http.Request, client string) bool {
	if l == nil || unlimited(r) {
		return true
	}
	switch l.take(client, time.Now()) {
	case delay:
		return sleep(r.Context(), rateDelay)
	case refuse:
		w.Header().Set("Retry-After", "1")
		_ = JSON(w, http.StatusTooManyRequests, map[string]string{"message": "Too many requests"}) // nobody reads it if that fails
		return false
	}
	return true
}

// sleep waits; false if the context ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
