package fleet

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"parley/internal/conversation"
	"parley/internal/sandbox"
)

// warmPrefix begins the ids of boxes that wait for a sandbox to become.
const warmPrefix = "warm-"

// warmRetry is the pause after a warm box could not be made.
const warmRetry = 30 * time.Second

// pool keeps boxes of one spec ready, for backends that start slowly. Its boxes
// belong to no record: those of a former server are swept.
type pool struct {
	spec    Spec
	backend sandbox.Backend
	log     *slog.Logger
	wake    chan struct{}

	mu    sync.Mutex
	ready []sandbox.Box
	dead  []sandbox.Box // to be removed
}

func newPool(spec Spec, b sandbox.Backend, log *slog.Logger) *pool {
	return &pool{spec: spec, backend: b, log: log, wake: make(chan struct{}, 1)}
}

// fill keeps the pool full until ctx ends, and then removes what is in it.
func (p *pool) fill(ctx context.Context) {
	defer p.drain()
	for {
		err := p.top(ctx)
		if ctx.Err() != nil {
			return
		}
		var again <-chan time.Time
		if err != nil {
			p.log.Warn("a warm sandbox was not made", "spec", p.spec.ID, "error", err)
			again = time.After(warmRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-again:
		}
	}
}

// top makes what is missing, one after the other: the pool must not take the
// machine from those who work.
func (p *pool) top(ctx context.Context) error {
	p.bury(ctx)
	for p.missing() {
		id := warmPrefix + string(conversation.NewID())
		box, err := p.backend.Create(ctx, p.spec.box(id))
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.ready = append(p.ready, box)
		p.mu.Unlock()
	}
	return nil
}

func (p *pool) missing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ready) < p.spec.Warm
}

// take hands a living box over, nil if there is none.
func (p *pool) take() sandbox.Box {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.ready) > 0 {
		box := p.ready[0]
		p.ready = p.ready[1:]
		select {
		case p.wake <- struct{}{}:
		default:
		}
		select {
		case <-box.Done():
			p.dead = append(p.dead, box)
		default:
			return box
		}
	}
	return nil
}

// bury removes what died while it waited.
func (p *pool) bury(ctx context.Context) {
	p.mu.Lock()
	dead := p.dead
	p.dead = nil
	p.mu.Unlock()
	for _, box := range dead {
		if err := p.backend.Destroy(ctx, box.Handle()); err != nil { // the next start sweeps it
			p.log.Warn("a dead warm sandbox was not removed", "sandbox", box.Handle().ID, "error", err)
		}
	}
}

// drain removes the boxes that nobody took.
func (p *pool) drain() {
	p.mu.Lock()
	left := p.ready
	p.ready = nil
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, box := range left {
		if err := p.backend.Destroy(ctx, box.Handle()); err != nil { // the next start sweeps it
			p.log.Warn("a warm sandbox was not removed", "sandbox", box.Handle().ID, "error", err)
		}
	}
}
