package limiter

import (
	"crypto/sha256"
	"sync"
)

// maxKept is how many limiters are kept before those with nothing to remember
// are forgotten.
const maxKept = 1024

// Key names what a limiter is for.
type Key [sha256.Size]byte

// KeyOf hashes the parts that a key is made of, such as an endpoint and an API
// key, so that no secret is kept.
func KeyOf(parts ...string) Key {
	h := sha256.New()
	for _, p := range parts {
		sum := sha256.Sum256([]byte(p)) // so that moving a boundary makes another key
		h.Write(sum[:])
	}
	return Key(h.Sum(nil))
}

// Set keeps one limiter per key. It is safe for concurrent use.
type Set struct {
	limit int
	mu    sync.Mutex
	kept  map[Key]*Limiter
}

// NewSet returns a set of limiters with a limit each; 0 is DefaultLimit.
func NewSet(limit int) *Set { return &Set{limit: limit, kept: map[Key]*Limiter{}} }

// Get returns the limiter of a key.
func (s *Set) Get(k Key) *Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.kept[k]; ok {
		return l
	}
	if len(s.kept) >= maxKept {
		for key, l := range s.kept {
			if l.idle() {
				delete(s.kept, key)
			}
		}
	}
	l := New(s.limit)
	s.kept[k] = l
	return l
}
