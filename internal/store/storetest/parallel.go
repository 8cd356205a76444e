package storetest

import (
	"sync"
	"testing"
)

// parallel runs f n times at once and fails the test on any error.
func parallel(t *testing.T, n int, f func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			if err := f(i); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	close(start)
	wg.Wait()
}
