package fallback

import (
	"crypto/sha256"
	"sync"
	"time"
)

// How long a model that failed is left out. The time doubles with every try that
// fails as well.
const (
	FirstOutage = time.Minute
	LastOutage  = 10 * time.Minute
)

// maxOutages bounds what is remembered; beyond it what is over is forgotten.
const maxOutages = 1024

// Key names a configuration: the same model with another key is another one.
type Key [sha256.Size]byte

// health says what to do with a model.
type health int

const (
	up      health = iota // ask it
	probing               // ask it once: it may be back
	down                  // leave it out
)

// Health remembers which models do not answer, for all conversations of a
// process. The zero value is ready; it is safe for concurrent use.
type Health struct {
	mu      sync.Mutex
	outages map[Key]*outage
}

type outage struct {
	until  time.Time
	length time.Duration
	tried  bool // a call sees whether it is back
}

// enter says what to do with a model. Whoever is told to probe must report how
// it went.
func (h *Health) enter(k Key) health {
	h.mu.Lock()
	defer h.mu.Unlock()
	o, ok := h.outages[k]
	switch {
	case !ok:
		return up
	case o.tried || time.Now().Before(o.until):
		return down
	}
	o.tried = true
	return probing
}

// answered notes that a model is there.
func (h *Health) answered(k Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.outages, k)
}

// left notes that a call ended without showing whether the model is there.
func (h *Health) left(k Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o, ok := h.outages[k]; ok {
		o.tried = false
	}
}

// failed notes that a model does not answer. Calls that fail while it is left out
// anyway do not prolong that.
func (h *Health) failed(k Key, wish time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	o, ok := h.outages[k]
	if !ok {
		h.forget(now)
		o = &outage{}
		if h.outages == nil {
			h.outages = map[Key]*outage{}
		}
		h.outages[k] = o
	}
	if ok && now.Before(o.until) {
		return
	}
	o.tried = false
	o.length = min(max(2*o.length, FirstOutage), LastOutage)
	o.until = now.Add(min(max(o.length, wish), LastOutage))
}

// forget drops what is over, if there is too much.
func (h *Health) forget(now time.Time) {
	if len(h.outages) < maxOutages {
		return
	}
	for k, o := range h.outages {
		if !o.tried && now.After(o.until) {
			delete(h.outages, k)
		}
	}
}
