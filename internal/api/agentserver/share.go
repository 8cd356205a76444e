package agentserver

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"parley/internal/api/eventwire"
	"parley/internal/conversation"
)

// sharing lets the followers of a conversation share what is the same for all of
// them: the full state that follows a run, and events without their nulls.
type sharing struct {
	mu     sync.Mutex
	states map[stateKey]*stateWork

	events map[eventKey]json.RawMessage
	order  []eventKey // the oldest first
}

// stateKey names a state: it depends on who sees it.
type stateKey struct {
	id conversation.ID
	sc scope
}

// stateWork renders a state for all who asked before it began.
type stateWork struct {
	began bool
	done  chan struct{}
	frame []byte
	err   error
}

type eventKey struct {
	id  conversation.ID
	seq int64
	eid string // a conversation may be deleted and made again
}

var errRendering = errors.New("the state was not rendered")

const (
	maxShared      = 256
	maxSharedBytes = 64 << 10 // of one event
)

func newSharing() *sharing {
	return &sharing{states: map[stateKey]*stateWork{}, events: map[eventKey]json.RawMessage{}}
}

// state returns what render makes. Callers that come before a rendering begins share
// it, so that nobody gets a state from before the call.
func (s *sharing) state(ctx context.Context, key stateKey, render func(context.Context) ([]byte, error)) ([]byte, error) {
	s.mu.Lock()
	work := s.states[key]
	first := work == nil || work.began
	var before *stateWork
	if first {
		before, work = work, &stateWork{done: make(chan struct{})}
		s.states[key] = work
	}
	s.mu.Unlock()
	if first {
		s.run(context.WithoutCancel(ctx), key, before, work, render)
	}
	select {
	case <-work.done:
		return work.frame, work.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// run renders once the rendering before it is over; until then others may join.
func (s *sharing) run(ctx context.Context, key stateKey, before, work *stateWork, render func(context.Context) ([]byte, error)) {
	if before != nil {
		<-before.done
	}
	s.mu.Lock()
	work.began = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.states[key] == work {
			delete(s.states, key)
		}
		close(work.done)
	}()
	work.err = errRendering // what others get if render panics
	work.frame, work.err = render(ctx)
}

// withoutNulls is eventwire.WithoutNulls, once for all who follow.
func (s *sharing) withoutNulls(id conversation.ID, e *conversation.Event) (json.RawMessage, error) {
	key := eventKey{id, e.Seq, e.ID}
	s.mu.Lock()
	raw, ok := s.events[key]
	s.mu.Unlock()
	if ok {
		return raw, nil
	}
	raw, err := eventwire.WithoutNulls(e.Raw)
	if err != nil || len(raw) == len(e.Raw) || len(raw) > maxSharedBytes {
		return raw, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.events[key]; !ok {
		s.events[key] = raw
		if s.order = append(s.order, key); len(s.order) > maxShared {
			delete(s.events, s.order[0])
			s.order = s.order[1:]
		}
	}
	return raw, nil
}
