package hostbox

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// How often the files of a box are looked through: not more than a hundredth of
// the time goes into it.
const (
	gaugeLeast = 2 * time.Second
	gaugeShare = 100
)

// killAt is the part of a limit at which programs that go on writing are killed.
const killAt = 1.1

// gauge looks through the files of a box that lie in directories of the host, where
// nothing but the size of single files is limited by the kernel. At the limit it
// says so; far above it, it kills the programs of a box whose files still grow, and
// leaves the first process: what removes files can run.
type gauge struct {
	box           *Box
	files         Files
	bytes, inodes int64 // the limits

	mu    sync.Mutex
	disk  Disk
	known bool
}

// run measures until ctx ends.
func (g *gauge) run(ctx context.Context) {
	for {
		took := g.look(ctx)
		if Sleep(ctx, max(gaugeLeast, gaugeShare*took)) != nil {
			return
		}
	}
}

// look measures once and returns how long that took. What stands still is not
// measured again.
func (g *gauge) look(ctx context.Context) time.Duration {
	before, known := g.last()
	if known && g.box.still() {
		return 0
	}
	start := time.Now()
	now, err := g.files.Measure(ctx, g.box.state.Process)
	took := time.Since(start)
	if err != nil {
		if ctx.Err() == nil {
			g.box.backend.log.DebugContext(ctx, "a sandbox's files were not measured", "sandbox", g.box.dir.id, "error", err)
		}
		return took
	}
	now.Full = now.Bytes >= g.bytes || now.Inodes >= g.inodes
	g.mu.Lock()
	g.disk, g.known = now, true
	g.mu.Unlock()
	if g.over(now) && (now.Bytes > before.Bytes || now.Inodes > before.Inodes) {
		g.box.backend.log.WarnContext(ctx, "a sandbox's programs are killed: its files are beyond the limit and grow", "sandbox", g.box.dir.id,
			"bytes", now.Bytes, "limit", g.bytes, "files", now.Inodes, "files_limit", g.inodes)
		g.box.killPrograms(ctx)
	}
	return took
}

func (g *gauge) over(d Disk) bool {
	return float64(d.Bytes) > killAt*float64(g.bytes) || float64(d.Inodes) > killAt*float64(g.inodes)
}

func (g *gauge) last() (Disk, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.disk, g.known
}

// killPrograms kills what the first process of the box started. A process that was
// forked meanwhile is found at the next look.
func (x *Box) killPrograms(ctx context.Context) {
	procs, _, err := tree(x.state.Process)
	if err != nil {
		x.backend.log.WarnContext(ctx, "a sandbox's programs were not found", "sandbox", x.dir.id, "error", err)
		return
	}
	for _, p := range procs[min(1, len(procs)):] {
		if err := p.signal(unix.SIGKILL); err != nil {
			x.backend.log.WarnContext(ctx, "a sandbox's program was not killed", "sandbox", x.dir.id, "error", err)
		}
	}
}
