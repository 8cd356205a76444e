package local

import (
	"context"
	"log/slog"
	"sync"

	"parley/internal/fault"
	"parley/internal/sandbox/layer"
)

// shared is the generation of layers that new boxes stand on, built in the
// background when the server starts.
type shared struct {
	options layer.Options
	log     *slog.Logger
	ctx     context.Context // ends the building
	cancel  context.CancelFunc

	mu     sync.Mutex
	built  chan struct{} // closed when the attempt under way has ended; nil: none
	set    *layer.Set
	err    error
	closed bool
}

func newShared(o layer.Options, log *slog.Logger) *shared {
	ctx, cancel := context.WithCancel(context.Background())
	return &shared{options: o, log: log, ctx: ctx, cancel: cancel}
}

// start begins to build, and sweeps generations but for those in keep.
func (s *shared) start(keep map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startLocked(keep)
}

func (s *shared) startLocked(keep map[string]bool) {
	if s.closed {
		return
	}
	built := make(chan struct{})
	s.built, s.err = built, nil
	go func() {
		defer close(built)
		set, err := layer.Ensure(s.ctx, s.options)
		if err == nil && keep != nil {
			keep[set.Gen] = true
			if err := layer.Sweep(s.options.Dir, keep); err != nil {
				s.log.Warn("old sandbox layers could not be removed", "error", err)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.set, s.err = set, err
	}()
}

// get returns the generation when it is built. After a failure it tries again.
func (s *shared) get(ctx context.Context) (*layer.Set, error) {
	s.mu.Lock()
	if s.err != nil {
		s.startLocked(nil)
	}
	built := s.built
	s.mu.Unlock()
	select {
	case <-built:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, fault.Wrap(s.err, fault.Unavailable, "sandbox_layers", "The files that sandboxes share could not be built.").
			WithHint("Is the disk of the data directory full or read-only?")
	}
	return s.set, nil
}

// of returns the generation a box was started on before, or the current one.
func (s *shared) of(ctx context.Context, gen string) (*layer.Set, error) {
	if gen != "" {
		if set, err := layer.Load(s.options.Dir, gen); err == nil {
			return set, nil
		}
	}
	return s.get(ctx)
}

func (s *shared) close() {
	s.cancel()
	s.mu.Lock()
	s.closed = true
	built := s.built
	s.mu.Unlock()
	if built != nil {
		<-built
	}
}
