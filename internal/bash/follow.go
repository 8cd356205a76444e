package bash

import (
	"context"

	"parley/internal/conversation"
	"parley/internal/store"
	"parley/internal/stream"
)

// followPage is how many events a follower reads at once: each may be large.
const followPage = 16

// Follower reads the events of a sandbox as they come. Next must be called from one
// goroutine.
type Follower struct {
	s         *Service
	sandboxID string
	after     int64
	wake      chan struct{}
}

// Follow returns a follower of the events that come from now on, or of all that there
// are. Close it.
func (s *Service) Follow(ctx context.Context, sandboxID string, all bool) (*Follower, error) {
	f := &Follower{s: s, sandboxID: sandboxID, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	if s.followers[sandboxID] == nil {
		s.followers[sandboxID] = map[*Follower]struct{}{}
	}
	s.followers[sandboxID][f] = struct{}{}
	s.mu.Unlock()
	if all {
		return f, nil
	}
	newest, _, err := s.opt.Store.Search(ctx, store.CommandQuery{SandboxID: sandboxID, Desc: true, Limit: 1})
	if err != nil {
		f.Close()
		return nil, err
	}
	if len(newest) > 0 {
		f.after = newest[0].Seq
	}
	return f, nil
}

// tell wakes the follower.
func (f *Follower) tell() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Close ends the follower.
func (f *Follower) Close() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	delete(f.s.followers[f.sandboxID], f)
	if len(f.s.followers[f.sandboxID]) == 0 {
		delete(f.s.followers, f.sandboxID)
	}
}

// After is the number of the last event that was handed out.
func (f *Follower) After() int64 { return f.after }

// Next waits for events. The error is ctx's cause or the store's.
func (f *Follower) Next(ctx context.Context) (stream.Item, error) {
	for {
		found, _, err := f.s.opt.Store.Search(ctx, store.CommandQuery{SandboxID: f.sandboxID, After: f.after, Limit: followPage})
		if ctx.Err() != nil {
			return stream.Item{}, context.Cause(ctx)
		}
		if err != nil {
			return stream.Item{}, err
		}
		if len(found) > 0 {
			item := stream.Item{Events: make([]conversation.Event, len(found))}
			for i, e := range found {
				item.Events[i] = conversation.Event{ID: e.ID, Kind: e.Kind, Raw: e.Raw}
			}
			f.after = found[len(found)-1].Seq
			return item, nil
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return stream.Item{}, context.Cause(ctx)
		}
	}
}
