package hostbox

import (
	"context"
	"sync"

	"parley/internal/fault"
)

// Turns serialise the operations on one id: a box, a snapshot. The zero value is
// ready.
type Turns struct {
	mu     sync.Mutex
	taken  map[string]chan struct{} // closed when the turn ends
	closed bool
}

// Take waits for the turn of an id and returns what ends it. Unavailable once the
// turns are closed.
func (t *Turns) Take(ctx context.Context, id string) (func(), error) {
	mine := make(chan struct{})
	for {
		wait, err := t.claim(id, mine)
		if err != nil {
			return nil, err
		}
		if wait == nil {
			return func() { t.end(id, mine) }, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// claim takes an id, or returns what to wait for.
func (t *Turns) claim(id string, mine chan struct{}) (<-chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, fault.New(fault.Unavailable, "sandbox_closed", "The server is stopping.")
	}
	if wait, taken := t.taken[id]; taken {
		return wait, nil
	}
	if t.taken == nil {
		t.taken = map[string]chan struct{}{}
	}
	t.taken[id] = mine
	return nil, nil
}

func (t *Turns) end(id string, mine chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.taken, id)
	close(mine)
}

// Close refuses turns from now on; those that were taken go on.
func (t *Turns) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// Closed reports whether Close was called.
func (t *Turns) Closed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}
