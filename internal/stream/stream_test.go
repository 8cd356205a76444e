package stream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"parley/internal/conversation"
	"parley/internal/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const id = conversation.ID("c")

// memLog is an append-only log in memory: the follower's own input, not a fake of
// the store's rules.
type memLog struct {
	mu     sync.Mutex
	events []conversation.Event
}

func (l *memLog) append(n int) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		seq := int64(len(l.events))
		l.events = append(l.events, conversation.Event{Seq: seq, ID: fmt.Sprint(seq)})
	}
	return int64(len(l.events))
}

func (l *memLog) Read(_ context.Context, _ conversation.ID, after int64, limit int) ([]conversation.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := min(int(after+1), len(l.events))
	return append([]conversation.Event(nil), l.events[from:min(from+limit, len(l.events))]...), nil
}

func TestFollowersSeeEachEventOnceInOrder(t *testing.T) {
	const total, followers = 3000, 8
	log, hub := &memLog{}, stream.NewHub()
	var readers sync.WaitGroup
	for i := range followers {
		after := int64(i*100) - 1
		f := hub.Follow(log, id, after)
		readers.Go(func() {
			defer f.Close()
			for next := after + 1; next < total; {
				item, err := f.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				for _, ev := range item.Events {
					if ev.Seq != next {
						t.Errorf("follower %d: got %d, want %d", i, ev.Seq, next)
						return
					}
					next++
				}
			}
		})
	}
	for head := int64(0); head < total; {
		head = log.append(min(rand.IntN(7)+1, total-int(head)))
		hub.Wake(id, head)
	}
	readers.Wait()
	if n := hub.Followers(id); n != 0 {
		t.Errorf("%d followers left", n)
	}
}

func TestLostWakeUpsDoNoHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, hub := &memLog{}, stream.NewHub()
		f := hub.Follow(log, id, -1)
		defer f.Close()
		log.append(250) // no wake-up at all before joining
		for got := 0; got < 250; {
			item, err := f.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got += len(item.Events)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		cancel(cause)
		if _, err := f.Next(ctx); !errors.Is(err, cause) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestSnapshotComesAfterTheEventsOfTheRun(t *testing.T) {
	log, hub := &memLog{}, stream.NewHub()
	f := hub.Follow(log, id, -1)
	defer f.Close()
	head := log.append(150)
	hub.Wake(id, head)
	hub.Snapshot(id, head)
	seen := 0
	for {
		item, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if item.Snapshot {
			break
		}
		seen += len(item.Events)
	}
	if seen != 150 {
		t.Fatalf("the snapshot came after %d of 150 events", seen)
	}
}

func TestStaleDeltasAreDropped(t *testing.T) {
	log, hub := &memLog{}, stream.NewHub()
	head := log.append(1)
	f := hub.Follow(log, id, head-1)
	defer f.Close()
	hub.Delta(id, head, "stale", "")
	head = log.append(1) // the complete answer is in the log now
	hub.Wake(id, head)
	hub.Delta(id, head, "fresh", "")
	item, err := f.Next(t.Context())
	if err != nil || len(item.Events) != 1 {
		t.Fatalf("got %+v, %v; want the event first", item, err)
	}
	item, err = f.Next(t.Context())
	if err != nil || item.Delta == nil || item.Delta.Text != "fresh" {
		t.Fatalf("got %+v, %v; want the fresh delta", item, err)
	}
}

func TestSlowFollowerDropsOldDeltasOnly(t *testing.T) {
	log, hub := &memLog{}, stream.NewHub()
	f := hub.Follow(log, id, -1)
	defer f.Close()
	for i := range 1000 {
		hub.Delta(id, 1, fmt.Sprint(i), "")
	}
	item, err := f.Next(t.Context())
	if err != nil || item.Delta == nil || item.Delta.Text != "744" {
		t.Fatalf("got %+v, %v", item, err)
	}
}

func TestDeletedEndsAfterNotice(t *testing.T) {
	hub := stream.NewHub()
	f := hub.Follow(&memLog{}, id, -1)
	defer f.Close()
	hub.Notice(id, stream.Notice{Code: "store_full"})
	hub.Deleted(id)
	if item, err := f.Next(t.Context()); err != nil || item.Notice == nil {
		t.Fatalf("got %+v, %v", item, err)
	}
	if item, err := f.Next(t.Context()); err != nil || !item.Deleted {
		t.Fatalf("got %+v, %v", item, err)
	}
}
