package docker_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"parley/internal/sandbox"
	"parley/internal/sandbox/sandboxtest"
)

// report gives the median and the 99th percentile of what was measured.
func report(b *testing.B, name string, times []time.Duration) {
	slices.Sort(times)
	ms := func(q float64) float64 {
		return float64(times[int(q*float64(len(times)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(ms(0.5), name+"-p50-ms")
	b.ReportMetric(ms(0.99), name+"-p99-ms")
}

// BenchmarkStart measures what a user waits for, with the image present and a
// network.
func BenchmarkStart(b *testing.B) {
	p := realPlace(b)
	p.options.Network = outward
	backend := p.backend()
	var start, remove, engine []time.Duration
	for i := 0; b.Loop(); i++ {
		engine = append(engine, p.engineAlone(fmt.Sprint("parley-bench-", i)))
		began := time.Now()
		box, err := backend.Create(context.Background(), sandbox.Spec{ID: fmt.Sprint("b", i)})
		if err != nil {
			b.Fatal(err)
		}
		made := time.Now()
		if err := backend.Destroy(context.Background(), box.Handle()); err != nil {
			b.Fatal(err)
		}
		start, remove = append(start, made.Sub(began)), append(remove, time.Since(made))
	}
	report(b, "ready", start)
	report(b, "destroy", remove)
	report(b, "engine", engine)
}

// engineAlone is how long the engine takes to make and start a container without
// any of our doing.
func (p *place) engineAlone(name string) time.Duration {
	began := time.Now()
	code, body := p.ask(http.MethodPost, "/containers/create?name="+name, `{"Image":"`+p.image+`","Cmd":["sleep","1000"],"HostConfig":{"NetworkMode":"none"}}`)
	if code == http.StatusCreated {
		code, body = p.ask(http.MethodPost, "/containers/"+name+"/start", "")
	}
	took := time.Since(began)
	p.ask(http.MethodDelete, "/containers/"+name+"?force=1", "")
	if code != http.StatusNoContent {
		p.t.Fatalf("%d %s", code, body)
	}
	return took
}

// BenchmarkLife measures what is done to a box that runs.
func BenchmarkLife(b *testing.B) {
	p := realPlace(b)
	backend := p.backend()
	box := p.box(backend, sandbox.Spec{ID: "life"})
	times := map[string][]time.Duration{}
	measure := func(name string, f func() error) {
		began := time.Now()
		if err := f(); err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		times[name] = append(times[name], time.Since(began))
	}
	ctx := context.Background()
	for i := 0; b.Loop(); i++ {
		var snap sandbox.Snapshot
		measure("exec", func() error { _, err := sandboxtest.Exec(ctx, box, "true"); return err })
		measure("pause", func() error { return box.Pause(ctx) })
		measure("resume", func() error { return box.Resume(ctx) })
		measure("usage", func() error { _, err := box.Usage(ctx); return err })
		measure("snapshot", func() (err error) { snap, err = backend.Snapshot(ctx, box.Handle(), fmt.Sprint("s", i)); return err })
		measure("drop", func() error { return backend.DropSnapshot(ctx, snap) })
	}
	for name, list := range times {
		report(b, name, list)
	}
	if u, err := box.Usage(ctx); err == nil {
		b.ReportMetric(float64(u.MemoryBytes)/(1<<20), "memory-MiB")
	}
}
