package gvisor_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"parley/internal/sandbox"
	"parley/internal/sandbox/sandboxtest"
)

// timed reports the median and the 99th percentile of what f takes. It is called
// with the time before and after what counts.
type timed struct{ taken []time.Duration }

func (m *timed) measure(f func()) {
	start := time.Now()
	f()
	m.taken = append(m.taken, time.Since(start))
}

func (m *timed) report(b *testing.B) {
	slices.Sort(m.taken)
	at := func(share float64) float64 {
		return float64(m.taken[int(share*float64(len(m.taken)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
}

type bench struct {
	*testing.B
	backend sandbox.Backend
	n       int
}

func newBench(b *testing.B) *bench {
	needRunsc(b)
	backend := open(b)
	b.Cleanup(func() {
		if err := backend.Close(); err != nil {
			b.Error(err)
		}
	})
	return &bench{B: b, backend: backend}
}

func (b *bench) id() string {
	b.n++
	return fmt.Sprintf("bench-%s-%d-%d", b.Name()[len("Benchmark"):], b.N, b.n)
}

func (b *bench) create(spec sandbox.Spec) sandbox.Box {
	b.Helper()
	spec.ID = b.id()
	box, err := b.backend.Create(context.Background(), spec)
	if err != nil {
		b.Fatal(err)
	}
	return box
}

func (b *bench) destroy(box sandbox.Box) {
	b.Helper()
	if err := b.backend.Destroy(context.Background(), box.Handle()); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func BenchmarkStart(b *testing.B) {
	x, m := newBench(b), timed{}
	for b.Loop() {
		var box sandbox.Box
		m.measure(func() { box = x.create(sandbox.Spec{}) })
		x.destroy(box)
	}
	m.report(b)
}

// BenchmarkExec is a connection, a command and its answer.
func BenchmarkExec(b *testing.B) {
	x, m := newBench(b), timed{}
	box := x.create(sandbox.Spec{})
	defer x.destroy(box)
	for b.Loop() {
		m.measure(func() {
			_, err := sandboxtest.Exec(context.Background(), box, "true")
			x.must(err)
		})
	}
	m.report(b)
}

func BenchmarkPause(b *testing.B) {
	x, m := newBench(b), timed{}
	box := x.create(sandbox.Spec{})
	defer x.destroy(box)
	for b.Loop() {
		m.measure(func() { x.must(box.Pause(context.Background())) })
		x.must(box.Resume(context.Background()))
	}
	m.report(b)
}

func BenchmarkResume(b *testing.B) {
	x, m := newBench(b), timed{}
	box := x.create(sandbox.Spec{})
	defer x.destroy(box)
	for b.Loop() {
		x.must(box.Pause(context.Background()))
		m.measure(func() { x.must(box.Resume(context.Background())) })
	}
	m.report(b)
}

// BenchmarkCheckpoint is a whole snapshot: processes and files.
func BenchmarkCheckpoint(b *testing.B) {
	x, m := newBench(b), timed{}
	box := x.create(sandbox.Spec{})
	defer x.destroy(box)
	for b.Loop() {
		var snap sandbox.Snapshot
		m.measure(func() {
			var err error
			snap, err = x.backend.Snapshot(context.Background(), box.Handle(), x.id())
			x.must(err)
		})
		x.must(x.backend.DropSnapshot(context.Background(), snap))
	}
	m.report(b)
}

// BenchmarkRestore is a box from a snapshot, until its daemon answers.
func BenchmarkRestore(b *testing.B) {
	x, m := newBench(b), timed{}
	box := x.create(sandbox.Spec{})
	defer x.destroy(box)
	snap, err := x.backend.Snapshot(context.Background(), box.Handle(), x.id())
	x.must(err)
	defer func() { x.must(x.backend.DropSnapshot(context.Background(), snap)) }()
	for b.Loop() {
		var fork sandbox.Box
		m.measure(func() { fork = x.create(sandbox.Spec{From: &snap}) })
		x.destroy(fork)
	}
	m.report(b)
}

// BenchmarkMemory is what an idle box takes, gVisor included.
func BenchmarkMemory(b *testing.B) {
	x := newBench(b)
	box := x.create(sandbox.Spec{})
	defer x.destroy(box)
	_, err := sandboxtest.Exec(context.Background(), box, "true")
	x.must(err)
	for b.Loop() {
		u, err := box.Usage(context.Background())
		x.must(err)
		b.ReportMetric(float64(u.MemoryBytes)/(1<<20), "MiB")
	}
}
