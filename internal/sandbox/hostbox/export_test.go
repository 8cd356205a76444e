package hostbox

import (
	"context"
	"log/slog"

	"parley/internal/sandbox"
)

// ParseStat reads the state, the parent and the start of proc_pid_stat(5).
func ParseStat(data []byte) (byte, int, uint64, error) {
	st, err := parseStat(data)
	return st.state, st.ppid, st.start, err
}

// Enough refuses what would take more of a disk.
func Enough(total, free float64) error { return enough(total, free) }

// Refuse refuses what a backend cannot do.
func Refuse(caps sandbox.Caps, spec sandbox.Spec) error { return refuse("test", caps, spec) }

// Gauge returns what looks once through the files of a box with this first process.
func Gauge(first Ident, dir *Dir, names []string, bytes, inodes int64) func() Disk {
	box := &Box{backend: &Backend{log: slog.New(slog.DiscardHandler)}, dir: dir, state: State{Process: first}, turn: make(chan struct{}, 1)}
	g := &gauge{box: box, files: Plain{Dir: dir, Names: names}, bytes: bytes, inodes: inodes}
	return func() Disk {
		g.look(context.Background())
		d, _ := g.last()
		return d
	}
}

// SweepSnapshots removes half-made snapshots.
func (r *Root) SweepSnapshots() error { return r.sweepSnapshots() }

// CountProcesses counts a process and its descendants, with threads.
func CountProcesses(first Ident) int64 { return countProcesses(first) }

// BusyBox returns a box of this process that somebody copies, and what ends that.
func BusyBox() (box *Box, copied func()) {
	x := &Box{watch: &watch{dead: make(chan struct{})}, turn: make(chan struct{}, 1)}
	x.turn <- struct{}{}
	return x, x.give
}

// Still reports whether nothing in the box changes.
func (x *Box) Still() bool { return x.still() }
