package socketio

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// What is taken is what was put, in order and once, and what waits is bounded.
func TestQueueKeepsOrderAndBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const maxBytes, maxItems = 20, 5
		size := func(v [2]int) int { return v[1] } // number, size
		q := newQueue(maxBytes, maxItems, size)
		var put, taken int
		over := false
		take := func(items, bytes int) {
			got, end, _ := q.take(items, bytes)
			total := 0
			for _, v := range got {
				if v[0] != taken {
					t.Fatalf("took %d after %d", v[0], taken-1)
				}
				taken++
				total += v[1]
			}
			if len(got) > items || len(got) > 1 && total > bytes {
				t.Fatalf("took %d items of %d bytes", len(got), total)
			}
			if len(got) == 0 && put > taken {
				t.Fatal("nothing was taken of what there is")
			}
			if end != (over && put == taken) {
				t.Fatalf("over is %v", end)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				n := rapid.IntRange(0, 30).Draw(t, "size")
				before := q.bytes
				added, sealed, _ := q.tryPut([2]int{put, n})
				fits := put == taken || before+n <= maxBytes && put-taken < maxItems
				if sealed != over || added != (!over && fits) {
					t.Fatalf("put %d bytes to %d: added %v, sealed %v", n, before, added, sealed)
				}
				if added {
					put++
				}
			},
			"take": func(t *rapid.T) { take(rapid.IntRange(1, 6).Draw(t, "items"), rapid.IntRange(0, 40).Draw(t, "bytes")) },
			"seal": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "seal") == 0 && !over {
					q.seal([2]int{put, 3})
					put++
					over = true
				}
			},
			"": func(t *rapid.T) {
				sum := 0
				for _, v := range q.items {
					sum += v[1]
				}
				if sum != q.bytes || len(q.items) != put-taken {
					t.Fatalf("%d items of %d bytes, noted %d", len(q.items), sum, q.bytes)
				}
			},
		})
	})
}

func TestQueueWaitsForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1, 1, func(string) int { return 1 })
		alive, end := context.WithCancel(t.Context())
		if err := q.put(t.Context(), alive, "a"); err != nil {
			t.Fatal(err)
		}
		results := make(chan error, 1)
		put := func(ctx context.Context) {
			go func() { results <- q.put(ctx, alive, "b") }()
			synctest.Wait()
			if len(results) > 0 {
				t.Fatal("it did not wait")
			}
		}
		put(t.Context())
		q.take(1, 1)
		if err := <-results; err != nil {
			t.Error(err)
		}
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		put(ctx)
		cancel(why)
		if err := <-results; !errors.Is(err, why) {
			t.Error(err)
		}
		put(t.Context())
		q.first("ping") // small and urgent: it does not wait
		if items, _, _ := q.take(2, 2); len(items) != 2 || items[0] != "ping" {
			t.Errorf("%q", items)
		}
		if err := <-results; err != nil {
			t.Error(err)
		}
		put(t.Context())
		end()
		if err := <-results; !errors.Is(err, ErrGone) {
			t.Error(err)
		}
		q.discard()
		if err := q.put(t.Context(), t.Context(), "c"); !errors.Is(err, ErrGone) {
			t.Error(err)
		}
	})
}
