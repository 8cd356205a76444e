package sqlstore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
	"parley/internal/store/storetest"
)

const brokenFork = conversation.ID("fork")

// forkRefused forks what the disk has no room for: nothing of it may be there.
func forkRefused(ctx context.Context, s *sqlstore.Store, code string) error {
	err := s.Conversations().Fork(ctx, &conversation.Conversation{ID: brokenFork}, logOf(4000))
	if fault.CodeOf(err) != code {
		return fmt.Errorf("fork on a bad disk: %w, want code %s", err, code)
	}
	if _, err := s.Conversations().Get(ctx, "", brokenFork); !fault.Is(err, fault.NotFound) {
		return fmt.Errorf("a refused fork has a record: %w", err)
	}
	if events, err := s.Events().Read(ctx, brokenFork, -1, 10); !fault.Is(err, fault.NotFound) {
		return fmt.Errorf("a refused fork has %d events: %w", len(events), err)
	}
	return nil
}

// forkAccepted does the same when there is room again.
func forkAccepted(ctx context.Context, s *sqlstore.Store) error {
	if err := s.Conversations().Fork(ctx, &conversation.Conversation{ID: brokenFork}, logOf(4000)); err != nil {
		return err
	}
	events, err := s.Events().Read(ctx, brokenFork, -1, 5000)
	if err == nil && len(events) != 4000 {
		err = fmt.Errorf("%d events of a fork", len(events))
	}
	return err
}

func childFork(dir string) error {
	s, err := openDir(context.Background(), dir)
	if err != nil {
		return err
	}
	return storetest.ForkForever(context.Background(), s, os.Stdout)
}

func TestKilledProcessForksAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	storetest.KillAndCheckForks(t, func() *exec.Cmd { return child(t, "fork", dir) }, func() store.Store {
		s, err := openDir(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func logOf(n int) []conversation.Event {
	log := make([]conversation.Event, n)
	for i := range log {
		log[i] = event(i)
	}
	return log
}

// BenchmarkFork measures a fork of a long log, and how long appends to other
// conversations wait beside it.
func BenchmarkFork(b *testing.B) {
	for _, n := range []int{100, 2000, 20_000} {
		b.Run(fmt.Sprint("events=", n), func(b *testing.B) {
			s := open(b, b.TempDir())
			log := logOf(n)
			stop := make(chan struct{})
			var took []time.Duration
			fill(b, s, "other", 0)
			var wg sync.WaitGroup
			wg.Go(func() {
				for head := 0; ; head++ {
					select {
					case <-stop:
						return
					default:
					}
					start := time.Now()
					appendSome(b, s, "other", head, 1)
					took = append(took, time.Since(start))
				}
			})
			i := 0
			for b.Loop() {
				i++
				c := &conversation.Conversation{ID: conversation.ID(fmt.Sprint("fork", i)), Owner: "u"}
				if err := s.Conversations().Fork(b.Context(), c, log); err != nil {
					b.Fatal(err)
				}
			}
			close(stop)
			wg.Wait()
			b.ReportMetric(float64(slices.Max(took).Microseconds())/1000, "append-max-ms")
		})
	}
}
