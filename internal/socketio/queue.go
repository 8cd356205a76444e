package socketio

import (
	"context"
	"sync"
)

// queue is what waits for somebody slower, bounded by bytes and by number. One
// item always fits into an empty queue, whatever its size.
type queue[T any] struct {
	maxBytes, maxItems int
	size               func(T) int

	mu      sync.Mutex
	items   []T
	bytes   int
	sealed  bool          // nothing is added anymore
	changed chan struct{} // closed and replaced at every change
}

func newQueue[T any](maxBytes, maxItems int, size func(T) int) *queue[T] {
	return &queue[T]{maxBytes: maxBytes, maxItems: maxItems, size: size, changed: make(chan struct{})}
}

// put adds an item and waits for room, while both contexts live. The error is
// ErrGone for a sealed queue and the end of alive, ctx's cause otherwise.
func (q *queue[T]) put(ctx, alive context.Context, item T) error {
	for {
		if alive.Err() != nil {
			return ErrGone
		}
		added, sealed, changed := q.tryPut(item)
		switch {
		case sealed:
			return ErrGone
		case added:
			return nil
		}
		select {
		case <-changed:
		case <-alive.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (q *queue[T]) tryPut(item T) (added, sealed bool, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sealed {
		return false, true, nil
	}
	size := q.size(item)
	if len(q.items) > 0 && (q.bytes+size > q.maxBytes || len(q.items) >= q.maxItems) {
		return false, false, q.changed
	}
	q.items = append(q.items, item)
	q.bytes += size
	q.wake()
	return true, false, nil
}

// first adds a small item before all others, also to a full queue: the caller
// bounds how many there are.
func (q *queue[T]) first(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sealed {
		return
	}
	q.items = append([]T{item}, q.items...)
	q.bytes += q.size(item)
	q.wake()
}

// seal adds last items, whatever the bounds, and nothing after them.
func (q *queue[T]) seal(last ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sealed {
		return
	}
	for _, item := range last {
		q.items = append(q.items, item)
		q.bytes += q.size(item)
	}
	q.sealed = true
	q.wake()
}

// discard seals the queue and forgets what is in it.
func (q *queue[T]) discard() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sealed, q.items, q.bytes = true, nil, 0
	q.wake()
}

// take removes up to maxItems items of together about maxBytes bytes, at least
// one if there is any. over says that none will follow; changed is closed when
// asking again may help.
func (q *queue[T]) take(maxItems, maxBytes int) (items []T, over bool, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for n < min(len(q.items), maxItems) {
		size := q.size(q.items[n])
		if n > 0 && bytes+size > maxBytes {
			break
		}
		bytes += size
		n++
	}
	if n > 0 {
		items = append(items, q.items[:n]...)
		clear(q.items[:n]) // so that memory is not held by the rest
		q.items = q.items[n:]
		q.bytes -= bytes
		q.wake()
	}
	return items, q.sealed && len(q.items) == 0, q.changed
}

func (q *queue[T]) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}
