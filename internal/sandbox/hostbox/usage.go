package hostbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"parley/internal/fault"
	"parley/internal/sandbox"
)

// Usage says what the box takes.
func (x *Box) Usage(ctx context.Context) (sandbox.Usage, error) {
	if _, err := os.Lstat(x.dir.path); errors.Is(err, fs.ErrNotExist) {
		if err := x.end(ctx); err != nil {
			x.backend.log.WarnContext(ctx, "the processes of a removed sandbox were not ended", "sandbox", x.dir.id, "error", err)
		}
		return sandbox.Unknown(), fault.New(fault.NotFound, "sandbox_not_found", "The sandbox's files were removed.")
	}
	group := x.state.Group.Usage()
	u := sandbox.Usage{CPU: group.CPU, MemoryBytes: group.MemoryBytes, Processes: group.Processes,
		DiskBytes: -1, Inodes: -1, OOMKills: group.OOMKills, ForksRefused: group.ForksRefused}
	if u.Processes < 0 {
		u.Processes = countProcesses(x.state.Process)
	}
	disk, known := x.disk(ctx)
	if known {
		u.DiskBytes, u.Inodes, u.DiskFull = disk.Bytes, disk.Inodes, disk.Full
	}
	return u, nil
}

// disk says what the box's files take, if that is known: the file system's figures,
// or those of the last look.
func (x *Box) disk(ctx context.Context) (Disk, bool) {
	if x.gauge != nil {
		return x.gauge.last()
	}
	d, err := x.backend.driver.Files(x.dir).Measure(ctx, x.state.Process)
	return d, err == nil
}

// end kills a box whose record was removed behind the server's back: nobody else
// finds its processes again.
func (x *Box) end(ctx context.Context) error {
	if !x.state.Process.Alive() {
		return nil // it was removed by us; its group's name may be another box's
	}
	return kill(ctx, x.state, func() error { return killTree(ctx, x.state.Process) })
}

// mostCounted bounds the count of processes: those that fork and end while they are
// counted must not keep it going.
const mostCounted = 1 << 16

// countProcesses counts a process and its descendants, with threads, where no
// control group does; -1 if it is dead or the kernel does not tell. It reads two
// small files for each thread.
func countProcesses(first Ident) int64 {
	if _, err := os.Lstat("/proc/thread-self/children"); err != nil || !first.Alive() {
		return -1
	}
	var count int64
	for pids := []string{strconv.Itoa(first.PID)}; len(pids) > 0 && count < mostCounted; {
		pid := pids[len(pids)-1]
		pids = pids[:len(pids)-1]
		threads, err := os.ReadDir("/proc/" + pid + "/task")
		if err != nil {
			continue // it ended meanwhile
		}
		count += int64(len(threads))
		for _, thread := range threads {
			children, err := os.ReadFile("/proc/" + pid + "/task/" + thread.Name() + "/children")
			if err == nil {
				pids = append(pids, strings.Fields(string(children))...)
			}
		}
	}
	return count
}
