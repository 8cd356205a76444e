package stream_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/conversation"
	"parley/internal/stream"
)

// countingLog counts how often it is read.
type countingLog struct {
	memLog
	reads atomic.Int64
}

func (l *countingLog) Read(ctx context.Context, id conversation.ID, after int64, limit int) ([]conversation.Event, error) {
	l.reads.Add(1)
	return l.memLog.Read(ctx, id, after, limit)
}

// last returns the n newest events.
func (l *countingLog) last(n int) []conversation.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]conversation.Event(nil), l.events[len(l.events)-n:]...)
}

// Whatever wake-ups carry, and whichever are lost, followers see each event once and
// in order.
func TestRecentEventsAreThoseOfTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log, hub := &countingLog{}, stream.NewHub()
		log.append(rapid.IntRange(0, 250).Draw(t, "before"))
		var followers []*stream.Follower
		for range rapid.IntRange(1, 4).Draw(t, "followers") {
			f := hub.Follow(log, id, rapid.Int64Range(-1, int64(len(log.events)-1)).Draw(t, "after"))
			defer f.Close()
			followers = append(followers, f)
		}
		drain := func(f *stream.Follower, head int64) {
			for f.After()+1 < head {
				before := f.After()
				item, err := f.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for i, e := range item.Events {
					if e.Seq != before+1+int64(i) {
						t.Fatalf("%d after %d", e.Seq, before)
					}
				}
			}
		}
		for range rapid.IntRange(1, 20).Draw(t, "commits") {
			n := rapid.IntRange(1, 120).Draw(t, "events")
			head := log.append(n)
			switch rapid.IntRange(0, 4).Draw(t, "wake") {
			case 0: // lost
				continue
			case 1: // without events
				hub.Wake(id, head)
			default:
				hub.Wake(id, head, log.last(n)...)
			}
			if f := followers[rapid.IntRange(0, len(followers)-1).Draw(t, "who")]; rapid.Bool().Draw(t, "reads") {
				drain(f, head)
			}
		}
		head := log.append(1)
		hub.Wake(id, head, log.last(1)...)
		for _, f := range followers {
			drain(f, head)
		}
	})
}

// Followers who are up to date do not each read the log.
func TestAThousandFollowersReadTheLogOnce(t *testing.T) {
	const followers, events = 1000, 20
	log, hub := &countingLog{}, stream.NewHub()
	var ready, done sync.WaitGroup
	ready.Add(followers)
	for range followers {
		f := hub.Follow(log, id, -1)
		done.Go(func() {
			defer f.Close()
			item, err := f.Next(t.Context()) // the log's only event
			if err != nil || len(item.Events) != 1 {
				t.Errorf("%+v, %v", item, err)
			}
			ready.Done()
			for f.After() < events {
				if _, err := f.Next(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	head := log.append(1)
	hub.Wake(id, head)
	ready.Wait()
	before := log.reads.Load()
	for range events {
		head = log.append(1)
		hub.Wake(id, head, log.last(1)...)
	}
	done.Wait()
	if n := log.reads.Load() - before; n > 0 {
		t.Errorf("the log was read %d times", n)
	}
	if hub.Followers(id) != 0 {
		t.Error("followers are left")
	}
}
