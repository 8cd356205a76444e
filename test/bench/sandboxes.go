package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"parley/internal/app"
	"parley/internal/config"
	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

// sandboxes measures every backend that this machine has.
func (b *bench) sandboxes() error {
	for _, name := range []string{config.SandboxLocal, config.SandboxProcess, config.SandboxDocker, config.SandboxGVisor} {
		if err := b.backend(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// backend measures one backend; a missing one is a row that says why.
func (b *bench) backend(name string) error {
	dir, err := os.MkdirTemp(b.dir, "box-")
	if err != nil {
		return err
	}
	loaded, err := config.Load(config.Sources{Environ: append(os.Environ(), "PARLEY_DATA="+dir, "PARLEY_SANDBOX="+name, "PARLEY_SANDBOX_NETWORK=none",
		"PARLEY_SANDBOX_IMAGE="+os.Getenv("PARLEY_TEST_IMAGE"))})
	if err != nil {
		return err
	}
	backend, err := app.OpenBackend(context.Background(), loaded.Config, name, b.bin, slog.New(slog.DiscardHandler))
	if fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Unsupported) {
		reason, _, _ := strings.Cut(fault.PublicText(err), "\n")
		b.rows = append(b.rows, row{"`" + name + "`: not measured", reason, "", ""})
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = backend.Close() }()
	spec := sandbox.Spec{Image: loaded.Config.Templates(name)[0].Image}
	spec.Limits, _ = loaded.Config.Limits().Keep(backend.Caps().Limits)
	if backend.Caps().NetworkPolicy {
		spec.Network.Mode = sandbox.NetworkNone
	}
	m := &boxBench{b: b, backend: backend, spec: spec}
	return m.run(context.Background())
}

// boxBench measures one backend.
type boxBench struct {
	b       *bench
	backend sandbox.Backend
	spec    sandbox.Spec
	made    int
}

// goals are what the backends are to reach.
var goals = map[string]map[string]string{
	config.SandboxLocal:  {"start": "≤ 20 ms, p99 ≤ 80 ms", "memory": "≤ 12 MiB"},
	config.SandboxDocker: {"start": "≤ 350 ms"},
	config.SandboxGVisor: {"start": "≤ 250 ms", "snapshot": "≤ 100 ms", "fork": "≤ 300 ms"},
}

func (m *boxBench) goal(what string) string { return goals[m.backend.Name()][what] }

func (m *boxBench) name(what string) string { return "`" + m.backend.Name() + "`: " + what }

// box makes a box and returns how to work in it.
func (m *boxBench) box(ctx context.Context, from *sandbox.Snapshot) (sandbox.Box, *sandboxd.Client, error) {
	m.made++
	spec := m.spec
	spec.ID, spec.From = fmt.Sprintf("bench-%d", m.made), from
	box, err := m.backend.Create(ctx, spec)
	if err != nil {
		return nil, nil, err
	}
	return box, sandboxd.NewClient(box.Dial), nil
}

func (m *boxBench) run(ctx context.Context) error {
	if err := m.starts(ctx); err != nil {
		return err
	}
	box, client, err := m.box(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = m.backend.Destroy(ctx, box.Handle()) }()
	defer client.Close()
	if err := m.times("exec /bin/true", "", m.b.rounds, func() error {
		_, err := client.Exec(ctx, tool.ExecRequest{Argv: []string{"/bin/true"}})
		return err
	}); err != nil {
		return err
	}
	if err := m.pauses(ctx, box); err != nil {
		return err
	}
	if err := m.memory(ctx); err != nil {
		return err
	}
	return m.snapshots(ctx, box, client)
}

// starts measures Create, with the box removed outside of the measured time.
func (m *boxBench) starts(ctx context.Context) error {
	var samples []time.Duration
	for i := range m.b.rounds + 2 {
		begin := time.Now()
		box, client, err := m.box(ctx, nil)
		if err != nil {
			return err
		}
		if took := time.Since(begin); i > 1 { // the first ones prepare what boxes share
			samples = append(samples, took)
		}
		client.Close()
		if err := m.backend.Destroy(ctx, box.Handle()); err != nil {
			return err
		}
	}
	m.b.add(m.name("start"), m.goal("start"), samples)
	return nil
}

func (m *boxBench) times(what, goal string, rounds int, do func() error) error {
	var samples []time.Duration
	for i := range rounds + 1 {
		begin := time.Now()
		if err := do(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if i > 0 {
			samples = append(samples, time.Since(begin))
		}
	}
	m.b.add(m.name(what), goal, samples)
	return nil
}

func (m *boxBench) pauses(ctx context.Context, box sandbox.Box) error {
	if !m.backend.Caps().Pause {
		return nil
	}
	var pause, resume []time.Duration
	for range m.b.rounds {
		begin := time.Now()
		if err := box.Pause(ctx); err != nil {
			return err
		}
		middle := time.Now()
		if err := box.Resume(ctx); err != nil {
			return err
		}
		pause, resume = append(pause, middle.Sub(begin)), append(resume, time.Since(middle))
	}
	m.b.add(m.name("pause"), "", pause)
	m.b.add(m.name("resume"), "", resume)
	return nil
}

// memory measures what idle boxes take, as their own figures say.
func (m *boxBench) memory(ctx context.Context) error {
	const count = 10
	var sum int64
	for range count {
		box, client, err := m.box(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = m.backend.Destroy(ctx, box.Handle()) }()
		if _, err := client.Health(ctx); err != nil {
			return err
		}
		client.Close()
		u, err := box.Usage(ctx)
		if err != nil {
			return err
		}
		if u.MemoryBytes < 0 {
			m.b.rows = append(m.b.rows, row{m.name("memory of an idle box"), "not known", "", m.goal("memory")})
			return nil
		}
		sum += u.MemoryBytes
	}
	m.b.rows = append(m.b.rows, row{m.name(fmt.Sprintf("memory of an idle box (mean of %d)", count)),
		fmt.Sprintf("%.1f MiB", float64(sum)/count/(1<<20)), "", m.goal("memory")})
	return nil
}

// manyFiles is how many small files the larger workspace has.
const manyFiles = 50000

// snapshots measures copies of a small workspace and of a large one.
func (m *boxBench) snapshots(ctx context.Context, box sandbox.Box, client *sandboxd.Client) error {
	if !m.backend.Caps().Snapshot {
		return nil
	}
	if err := m.fork(ctx, box, "a small workspace", 10, m.goal("snapshot"), m.goal("fork")); err != nil {
		return err
	}
	script := fmt.Sprintf(`i=0; while [ $i -lt 500 ]; do mkdir d$i; i=$((i+1)); done
i=0; while [ $i -lt %d ]; do echo "content of file $i" >d$((i %% 500))/f$i; i=$((i+1)); done`, manyFiles)
	res, err := client.Exec(ctx, tool.ExecRequest{Argv: []string{"/bin/sh", "-c", script}, Timeout: 5 * time.Minute})
	if err != nil || res.ExitCode != 0 {
		return fmt.Errorf("fill the workspace: %w %s", err, res.Stderr)
	}
	return m.fork(ctx, box, "50,000 files", 3, "≤ 1 s with the start", "")
}

// fork measures taking a snapshot and making a box from it.
func (m *boxBench) fork(ctx context.Context, box sandbox.Box, what string, rounds int, snapGoal, startGoal string) error {
	var take, start []time.Duration
	for i := range rounds {
		begin := time.Now()
		snap, err := m.backend.Snapshot(ctx, box.Handle(), fmt.Sprintf("snap-%d-%d", m.made, i))
		if err != nil {
			return err
		}
		middle := time.Now()
		made, client, err := m.box(ctx, &snap)
		if err != nil {
			return err
		}
		take, start = append(take, middle.Sub(begin)), append(start, time.Since(middle))
		client.Close()
		if err := m.backend.Destroy(ctx, made.Handle()); err != nil {
			return err
		}
		if err := m.backend.DropSnapshot(ctx, snap); err != nil {
			return err
		}
	}
	m.b.add(m.name(fmt.Sprintf("snapshot, %s (%d samples)", what, rounds)), snapGoal, take)
	m.b.add(m.name("start from it"), startGoal, start)
	return nil
}
