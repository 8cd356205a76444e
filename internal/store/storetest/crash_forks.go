package storetest

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"testing"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

const (
	forkers    = 3
	forkLength = 100
)

func crashFork(worker, n int) conversation.ID {
	return conversation.ID(fmt.Sprint("fork-", worker, "-", n))
}

// ForkForever is the body of a process that gets killed: it makes one fork after
// the other and writes a line "worker n" for each that the store acknowledged. It
// returns only on an error.
func ForkForever(ctx context.Context, s store.Store, out io.Writer) error {
	failed := make(chan error, forkers)
	var mu sync.Mutex
	for w := range forkers {
		go func() {
			failed <- forkOnAndOn(ctx, s, w, func(n int) error {
				mu.Lock()
				defer mu.Unlock()
				_, err := fmt.Fprintf(out, "%d %d\n", w, n)
				return err
			})
		}()
	}
	return <-failed
}

func forkOnAndOn(ctx context.Context, s store.Store, worker int, acknowledge func(n int) error) error {
	for n := 0; ; n++ {
		id := crashFork(worker, n)
		err := s.Conversations().Fork(ctx, &conversation.Conversation{ID: id, ForkedFrom: "source"}, numbered(forkLength))
		if fault.CodeOf(err) == store.CodeExists {
			continue // of an earlier life
		}
		if err != nil {
			return err
		}
		if err := acknowledge(n); err != nil {
			return err
		}
	}
}

// KillAndCheckForks is KillAndCheck for a process that runs ForkForever: after
// each kill a fork is there with its whole log, or not at all.
func KillAndCheckForks(t *testing.T, child func() *exec.Cmd, open func() store.Store) {
	for round := range 4 {
		acknowledged := runAndKill(t, child(), 6*(round+1))
		s := open()
		checkForks(t, s, acknowledged)
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func checkForks(t *testing.T, s store.Store, acknowledged map[int]int64) {
	t.Helper()
	for w := range forkers {
		last := int64(-1)
		if n, ok := acknowledged[w]; ok {
			last = n
		}
		for n := 0; n <= int(last)+1; n++ { // the last one was under way
			c, getErr := s.Conversations().Get(t.Context(), "", crashFork(w, n))
			events, readErr := s.Events().Read(t.Context(), crashFork(w, n), -1, forkLength+1)
			switch {
			case fault.Is(getErr, fault.NotFound) && fault.Is(readErr, fault.NotFound):
				if n <= int(last) {
					t.Errorf("fork %d of %d was acknowledged and is gone", n, w)
				}
			case getErr != nil || readErr != nil || len(events) != forkLength || c.Summary.Head != forkLength:
				t.Errorf("fork %d of %d: %v, %v, %d events", n, w, getErr, readErr, len(events))
			}
		}
	}
}
