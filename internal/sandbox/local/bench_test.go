package local_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"parley/internal/sandbox"
	"parley/internal/sandbox/local"
)

// BenchmarkCreate measures what a user waits for, and what is waited for when a
// box goes.
func BenchmarkCreate(b *testing.B) {
	o := options(b)
	if exe := os.Getenv("PARLEY_BENCH_EXE"); exe != "" { // the real program instead of this test's
		o.Exe = exe
	}
	backend, err := local.New(o)
	if err != nil {
		b.Skipf("no boxes on this machine: %v", err)
	}
	defer func() { _ = backend.Close() }()
	ctx := context.Background()
	var create, destroy []time.Duration
	once := func(id string) {
		start := time.Now()
		box, err := backend.Create(ctx, sandbox.Spec{ID: id})
		if err != nil {
			b.Fatal(err)
		}
		created := time.Now()
		if err := backend.Destroy(ctx, box.Handle()); err != nil {
			b.Fatal(err)
		}
		create, destroy = append(create, created.Sub(start)), append(destroy, time.Since(created))
	}
	once("warm-up")
	create, destroy = nil, nil
	for i := 0; b.Loop(); i++ {
		once(fmt.Sprint("b", i))
	}
	report(b, "create", create)
	report(b, "destroy", destroy)
}

func report(b *testing.B, name string, times []time.Duration) {
	slices.Sort(times)
	ms := func(q float64) float64 {
		return float64(times[int(q*float64(len(times)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(ms(0.5), name+"-p50-ms")
	b.ReportMetric(ms(0.99), name+"-p99-ms")
}
