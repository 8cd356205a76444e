package hookrun

import (
	"context"
	"sync"
)

// maxBackground is how many hooks run in the background at the same time.
const maxBackground = 8

// Background owns the hooks of a conversation that nobody waits for. The zero value
// is not ready; see NewBackground.
type Background struct {
	ctx  context.Context
	stop context.CancelFunc

	mu      sync.Mutex
	running int
	closed  bool
	all     sync.WaitGroup
}

// NewBackground makes an owner for a conversation, which closes it in its end.
func NewBackground() *Background {
	b := &Background{}
	b.ctx, b.stop = context.WithCancel(context.Background())
	return b
}

// start runs a function in a goroutine, false if too many run or it is closed.
func (b *Background) start(run func(ctx context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.running >= maxBackground {
		return false
	}
	b.running++
	b.all.Go(func() {
		defer b.ended()
		run(b.ctx)
	})
	return true
}

func (b *Background) ended() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
}

// Close takes no more hooks, lets those that run go on until ctx ends, then ends
// them, and returns when none is left. Idempotent.
func (b *Background) Close(ctx context.Context) {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	defer b.stop()
	defer context.AfterFunc(ctx, b.stop)()
	b.all.Wait()
}
