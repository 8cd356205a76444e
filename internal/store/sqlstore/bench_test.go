package sqlstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"parley/internal/conversation"
	"parley/internal/store"
)

// BenchmarkAppend measures one event, one commit: alone, beside readers that
// never rest, and many conversations at once.
func BenchmarkAppend(b *testing.B) {
	for _, readers := range []int{0, 4} {
		b.Run(fmt.Sprint("readers=", readers), func(b *testing.B) {
			s := open(b, b.TempDir())
			fill(b, s, "c", 2000)
			stop := busyReaders(b, s.Events(), readers)
			defer stop()
			took := make([]time.Duration, 0, 1<<16)
			head := 2000
			for b.Loop() {
				start := time.Now()
				appendSome(b, s, "c", head, 1)
				took = append(took, time.Since(start))
				head++
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
		})
	}
	b.Run("conversations=64", func(b *testing.B) {
		s := open(b, b.TempDir())
		for i := range 64 {
			fill(b, s, conversation.ID(fmt.Sprint("c", i)), 0)
		}
		b.ResetTimer()
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				for head := range b.N/64 + 1 {
					appendSome(b, s, conversation.ID(fmt.Sprint("c", i)), head, 1)
				}
			})
		}
		wg.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
	})
}

func busyReaders(b *testing.B, log store.Events, n int) func() {
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, err := log.Search(ctx, store.EventQuery{Conversation: "c", Desc: true, Limit: 100})
				if err != nil && ctx.Err() == nil {
					b.Error(err)
					return
				}
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// BenchmarkLastPage reads the last 50 events of a short and of a long log.
func BenchmarkLastPage(b *testing.B) {
	s := open(b, b.TempDir())
	for _, n := range []int{100, 100_000} {
		id := conversation.ID(fmt.Sprint("c", n))
		fill(b, s, id, n)
		for name, q := range map[string]store.EventQuery{
			"all":  {Conversation: id, Desc: true, Limit: 50},
			"kind": {Conversation: id, Desc: true, Limit: 2, Kind: conversation.KindMessage},
			"to":   {Conversation: id, Desc: true, Limit: 50, To: event(n / 2).Timestamp},
		} {
			b.Run(fmt.Sprintf("%s/events=%d", name, n), func(b *testing.B) {
				for b.Loop() {
					p, err := s.Events().Search(b.Context(), q)
					if err != nil || len(p.Items) != q.Limit {
						b.Fatalf("%d items, %v", len(p.Items), err)
					}
				}
			})
		}
	}
}

// BenchmarkOpen measures what a start of the server waits for.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	closeIt := func() {
		s, err := openDir(b.Context(), dir)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	closeIt()
	for b.Loop() {
		closeIt()
	}
}

// BenchmarkDelete measures how long the deletion of a long log stops writers.
func BenchmarkDelete(b *testing.B) {
	s := open(b, b.TempDir())
	for b.Loop() {
		b.StopTimer()
		fill(b, s, "c", 100_000)
		b.StartTimer()
		if err := s.Conversations().Delete(b.Context(), "c"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppendLarge measures throughput for large events.
func BenchmarkAppendLarge(b *testing.B) {
	s := open(b, b.TempDir())
	fill(b, s, "c", 0)
	head := 0
	b.SetBytes(100 * 800)
	for b.Loop() {
		appendSome(b, s, "c", head, 100)
		head += 100
	}
}
