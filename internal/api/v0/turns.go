package v0

import (
	"context"
	"sync"
)

// turns lets one request at a time deal with a thing, by its name. The zero value is
// ready for use.
type turns struct {
	mu    sync.Mutex
	taken map[string]*turn
}

type turn struct {
	free    chan struct{} // has one element unless somebody has the turn
	waiting int           // those that have it or wait for it
}

// take waits for the turn. The returned function gives it back. The error is the
// context's.
func (t *turns) take(ctx context.Context, name string) (func(), error) {
	t.mu.Lock()
	x := t.taken[name]
	if x == nil {
		x = &turn{free: make(chan struct{}, 1)}
		x.free <- struct{}{}
		if t.taken == nil {
			t.taken = map[string]*turn{}
		}
		t.taken[name] = x
	}
	x.waiting++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if x.waiting--; x.waiting == 0 {
			delete(t.taken, name)
		}
	}
	select {
	case <-x.free:
		return func() { x.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
