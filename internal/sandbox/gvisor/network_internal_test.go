package gvisor

import (
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOtherThread: a thread that went into a box's namespace is never the first one of
// the process, whose namespaces would then be shown as the process's.
func TestOtherThread(t *testing.T) {
	const many = 64 // more than there are idle threads, so that the first is among them
	var all, ready sync.WaitGroup
	ready.Add(many)
	for range many {
		all.Go(func() {
			if err := onOtherThread(func() error {
				if unix.Gettid() == os.Getpid() {
					t.Error("it is the first thread")
				}
				ready.Done()
				ready.Wait() // all at once, each on its own
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
