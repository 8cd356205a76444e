package docker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"parley/internal/sandbox"
	"parley/internal/sandbox/cgroup"
)

// Ages up to which figures are good enough.
const (
	figuresAge = time.Second
	diskAge    = 10 * time.Second // the engine walks through the files
)

// meter knows what a box takes. Figures come from the control groups where they
// can be read, else from the engine.
type meter struct {
	backend *Backend
	spec    sandbox.Spec
	id      string        // of the container
	group   *cgroup.Group // nil: cannot be read
	turn    chan struct{} // held while the figures are read; one waits with its context

	// All below is the holder's of turn.
	asked time.Time // when the engine was asked last
	disk  time.Time // when it was asked for the size last
	seen  sandbox.Usage
}

func newMeter(b *Backend, spec sandbox.Spec, c container) *meter {
	return &meter{backend: b, spec: spec, id: c.ID, group: groupOf(c.State.Pid, c.ID),
		turn: make(chan struct{}, 1), seen: sandbox.Unknown()}
}

// Usage says what the box takes.
func (x *Box) Usage(ctx context.Context) (sandbox.Usage, error) {
	m := x.meter
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return sandbox.Unknown(), ctx.Err()
	}
	if x.isDead() {
		_, err := x.backend.look(ctx, x.spec.ID)
		return m.seen, err
	}
	if m.readGroup() {
		return m.seen, m.readDisk(ctx)
	}
	return m.seen, x.askEngine(ctx)
}

// last keeps the final figures of a box that died.
func (m *meter) last(ctx context.Context) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return
	}
	c, err := m.backend.engine.inspect(ctx, m.id)
	if err == nil && c.State.OOMKilled {
		m.seen.OOMKills = max(m.seen.OOMKills, 1)
	}
	m.seen.Processes, m.seen.MemoryBytes = 0, 0
}

// readGroup reads the control group, which is cheap. false: it is not there.
func (m *meter) readGroup() bool {
	u := m.group.Usage()
	if u.MemoryBytes < 0 && u.Processes < 0 {
		return false
	}
	m.seen.CPU, m.seen.MemoryBytes, m.seen.Processes = u.CPU, u.MemoryBytes, u.Processes
	m.seen.OOMKills, m.seen.ForksRefused = u.OOMKills, u.ForksRefused
	return true
}

// askEngine asks for the figures, at most once a second.
func (x *Box) askEngine(ctx context.Context) error {
	m := x.meter
	if time.Since(m.asked) < figuresAge {
		return nil
	}
	c, err := x.backend.look(ctx, x.spec.ID)
	if err != nil {
		return err
	}
	s, err := x.backend.engine.usage(ctx, m.id)
	if err != nil {
		return x.backend.engine.fault(err, "What the sandbox uses could not be read.")
	}
	m.asked = time.Now()
	m.seen.CPU, m.seen.Processes = time.Duration(known(s.CPU.Usage.Total)), known(s.Pids.Current)
	m.seen.MemoryBytes = known(s.Memory.Usage)
	if m.seen.MemoryBytes >= 0 {
		inactive := max(s.Memory.Stats["inactive_file"], s.Memory.Stats["total_inactive_file"], 0)
		m.seen.MemoryBytes = max(0, m.seen.MemoryBytes-inactive)
	}
	kills, err := x.backend.engine.oomKills(ctx, m.id, c.State.StartedAt)
	if err != nil {
		return x.backend.engine.fault(err, "What the sandbox uses could not be read.")
	}
	m.seen.OOMKills = max(m.seen.OOMKills, kills) // the engine forgets
	return m.readDisk(ctx)
}

func known(n *int64) int64 {
	if n == nil || *n < 0 {
		return -1
	}
	return *n
}

// readDisk asks for the size of the files, if it is limited.
func (m *meter) readDisk(ctx context.Context) error {
	limit := m.spec.Limits.DiskBytes
	if !m.backend.disk || limit == 0 || time.Since(m.disk) < diskAge {
		return nil
	}
	size, err := m.backend.engine.size(ctx, m.id)
	if err != nil {
		return m.backend.engine.fault(err, "The size of the sandbox's files could not be read.")
	}
	m.disk, m.seen.DiskBytes = time.Now(), size
	m.seen.DiskFull = size >= limit-limit/50
	return nil
}

// groupOf finds the control groups of a container by its first process. A group
// whose name does not have the container's id is somebody else's.
func groupOf(pid int, id string) *cgroup.Group {
	if pid <= 0 || len(id) < 12 {
		return nil
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil
	}
	return groupIn("/sys/fs/cgroup", string(data), id)
}

// groupIn reads /proc/<pid>/cgroup: lines of number, controllers and path.
func groupIn(root, text, id string) *cgroup.Group {
	dirs := map[string]string{}
	add := func(name string, paths ...string) {
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				dirs[name] = path
				return
			}
		}
	}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || !strings.Contains(parts[2], id) || strings.Contains(parts[2], "..") {
			continue
		}
		if parts[1] == "" {
			add("unified", filepath.Join(root, parts[2]), filepath.Join(root, "unified", parts[2]))
			continue
		}
		for name := range strings.SplitSeq(parts[1], ",") {
			add(name, filepath.Join(root, name, parts[2]), filepath.Join(root, parts[1], parts[2]))
		}
	}
	if len(dirs) == 0 {
		return nil
	}
	return &cgroup.Group{Dirs: dirs}
}
