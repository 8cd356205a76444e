package local_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/internal/sandbox"
	"parley/internal/sandbox/local"
)

// benchBackend runs the program that PARLEY_BENCH_EXE names, the real one, instead
// of the small daemon of tests.
func benchBackend(b *testing.B) *local.Backend {
	b.Helper()
	o := options(b)
	if exe := os.Getenv("PARLEY_BENCH_EXE"); exe != "" {
		o.Exe, o.InitArgs = exe, []string{initArg}
	} else {
		o.Exe, o.InitArgs = daemon(b), []string{local.Name}
	}
	backend, err := local.New(o)
	if err != nil {
		b.Skipf("no boxes on this machine: %v", err)
	}
	return backend
}

// benchSpec asks for every limit that holds.
func benchSpec(backend sandbox.Backend, id string) sandbox.Spec {
	spec := sandbox.Spec{ID: id}
	if slices.Contains(backend.Caps().Limits, sandbox.LimitCPU) {
		spec.Limits.CPUs = 1
	}
	return spec
}

// BenchmarkCreate measures what a user waits for, and what is waited for when a
// box goes.
func BenchmarkCreate(b *testing.B) {
	backend := benchBackend(b)
	defer func() { _ = backend.Close() }()
	ctx := context.Background()
	var create, destroy []time.Duration
	once := func(id string) {
		start := time.Now()
		box, err := backend.Create(ctx, benchSpec(backend, id))
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

// BenchmarkIdle measures what boxes that do nothing take, many at once:
// PARLEY_BENCH_BOXES, or 50.
func BenchmarkIdle(b *testing.B) {
	count, err := strconv.Atoi(os.Getenv("PARLEY_BENCH_BOXES"))
	if err != nil {
		count = 50
	}
	backend := benchBackend(b)
	defer func() { _ = backend.Close() }()
	ctx := context.Background()
	for b.Loop() {
		boxes := make([]sandbox.Box, count)
		start := time.Now()
		var group errgroup.Group
		group.SetLimit(4)
		for i := range boxes {
			group.Go(func() (err error) {
				boxes[i], err = backend.Create(ctx, benchSpec(backend, fmt.Sprint("idle", i)))
				return err
			})
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(start).Seconds()*1000/float64(count), "create-each-ms")
		var pss, private int64
		for _, box := range boxes {
			p, own := memoryOf(b, box)
			pss, private = pss+p, private+own
		}
		b.ReportMetric(float64(pss)/float64(count)/1024, "pss-MiB/box")
		b.ReportMetric(float64(private)/float64(count)/1024, "private-MiB/box")
		for _, box := range boxes {
			group.Go(func() error { return backend.Destroy(ctx, box.Handle()) })
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}

// memoryOf returns what the first process of a box takes, in KiB: there is no
// other one yet.
func memoryOf(b *testing.B, box sandbox.Box) (pss, private int64) {
	b.Helper()
	state, err := stateOf(box)
	if err != nil {
		b.Fatal(err)
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", state.Process.PID))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		n, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "Pss:":
			pss += n
		case "Private_Clean:", "Private_Dirty:":
			private += n
		}
	}
	return pss, private
}
