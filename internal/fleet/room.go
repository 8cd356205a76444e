package fleet

import (
	"context"
	"slices"
	"sync"
)

// room bounds how many sandboxes run at the same time. Who finds no place waits
// in the order of coming.
type room struct {
	places int // 0 = no bound

	mu     sync.Mutex
	taken  map[string]bool
	queued []*ticket
}

type ticket struct {
	id  string
	got chan struct{} // closed when the place is this one's
}

func newRoom(places int) *room { return &room{places: places, taken: map[string]bool{}} }

// take takes a place without asking: for what runs already.
func (r *room) take(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken[id] = true
}

// leave gives the place of id to who waits longest.
func (r *room) leave(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.taken, id)
	for len(r.queued) > 0 && len(r.taken) < r.places {
		next := r.queued[0]
		r.queued = r.queued[1:]
		r.taken[next.id] = true
		close(next.got)
	}
}

// try takes a place if there is one and nobody waits, and reports whether id has one.
func (r *room) try(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.taken[id] && r.places > 0 && (len(r.taken) >= r.places || len(r.queued) > 0) {
		return false
	}
	r.taken[id] = true
	return true
}

// wait waits for a place. ahead, called once, hears how many run and how many wait
// before id.
func (r *room) wait(ctx context.Context, id string, ahead func(running, waiting int)) error {
	if r.try(id) {
		return nil
	}
	t := &ticket{id: id, got: make(chan struct{})}
	r.mu.Lock()
	r.queued = append(r.queued, t)
	running, waiting := len(r.taken), len(r.queued)-1
	r.mu.Unlock()
	r.admit()
	ahead(running, waiting)
	select {
	case <-t.got:
		return nil
	case <-ctx.Done():
		r.abandon(t)
		return context.Cause(ctx)
	}
}

// admit gives free places away: one may have become free before its seeker queued.
func (r *room) admit() { r.leave("") }

// abandon takes a ticket back, and the place if it was given meanwhile.
func (r *room) abandon(t *ticket) {
	r.mu.Lock()
	at := slices.Index(r.queued, t)
	if at >= 0 {
		r.queued = slices.Delete(r.queued, at, at+1)
	}
	r.mu.Unlock()
	if at < 0 {
		r.leave(t.id)
	}
}

// short reports how many places are missing for those who wait.
func (r *room) short() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queued)
}

// running lists who has a place.
func (r *room) running() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for id := range r.taken {
		ids = append(ids, id)
	}
	return ids
}
