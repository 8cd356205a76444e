package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/cgroup"
)

// meminfoFile is, in a box's directory, what programs inside read as
// /proc/meminfo.
const meminfoFile = "meminfo"

// meminfoPause lies between two looks at what boxes use.
const meminfoPause = 5 * time.Second

// meminfo writes proc_meminfo(5) for a box: total is its limit, free is what is
// left of it. Every text has the same length, so that it can be replaced in place
// under its readers.
func meminfo(total, free int64) []byte {
	free = max(0, min(free, total))
	var out bytes.Buffer
	for _, line := range []struct {
		name  string
		bytes int64
	}{
		{"MemTotal", total}, {"MemFree", free}, {"MemAvailable", free}, {"Buffers", 0}, {"Cached", 0}, {"SwapCached", 0},
		{"Active", total - free}, {"Inactive", 0}, {"Unevictable", 0}, {"Mlocked", 0}, {"SwapTotal", 0}, {"SwapFree", 0},
		{"Dirty", 0}, {"Writeback", 0}, {"AnonPages", total - free}, {"Mapped", 0}, {"Shmem", 0}, {"KReclaimable", 0},
		{"Slab", 0}, {"SReclaimable", 0}, {"SUnreclaim", 0}, {"CommitLimit", total}, {"Committed_AS", total - free},
	} {
		_, _ = fmt.Fprintf(&out, "%-16s%12d kB\n", line.name+":", line.bytes>>10)
	}
	return out.Bytes()
}

// hostFree is what programs of this machine could still have, in bytes.
func hostFree() int64 {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return math.MaxInt64
	}
	_, rest, _ := bytes.Cut(data, []byte("MemAvailable:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n << 10
}

// meters keep the /proc/meminfo of running boxes up to date. One goroutine does,
// from the first box on.
type meters struct {
	mu    sync.Mutex
	live  map[*meter]bool
	stop  context.CancelFunc // nil: the goroutine was not started
	ended chan struct{}
}

// meter is one box's. Its figures belong to the goroutine.
type meter struct {
	owner *meters
	path  string
	group *cgroup.Group
	limit int64
	seen  time.Duration // processor time at the last look
}

// add follows a box until the closer is closed.
func (m *meters) add(path string, group *cgroup.Group, limit int64) io.Closer {
	one := &meter{owner: m, path: path, group: group, limit: limit, seen: -1}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.live == nil {
		m.live = map[*meter]bool{}
	}
	m.live[one] = true
	if m.stop == nil {
		var ctx context.Context
		ctx, m.stop = context.WithCancel(context.Background())
		m.ended = make(chan struct{})
		go m.run(ctx)
	}
	return one
}

// Close ends the following of the box.
func (x *meter) Close() error {
	x.owner.mu.Lock()
	defer x.owner.mu.Unlock()
	delete(x.owner.live, x)
	return nil
}

func (m *meters) run(ctx context.Context) {
	defer close(m.ended)
	ticker := time.NewTicker(meminfoPause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			m.look()
		case <-ctx.Done():
			return
		}
	}
}

// look writes what has changed. A box that used no processor time, because it is
// frozen or idle, is left alone.
func (m *meters) look() {
	m.mu.Lock()
	list := make([]*meter, 0, len(m.live))
	for x := range m.live {
		list = append(list, x)
	}
	m.mu.Unlock()
	free := int64(-1)
	for _, x := range list {
		used := x.group.CPUTime()
		if used == x.seen && used >= 0 {
			continue
		}
		x.seen = used
		if free < 0 {
			free = hostFree()
		}
		x.write(free)
	}
}

// write replaces the text in place: programs inside have the file mounted.
func (x *meter) write(free int64) {
	memory := x.group.Usage().MemoryBytes
	if memory < 0 {
		return
	}
	f, err := os.OpenFile(x.path, os.O_WRONLY, 0)
	if err != nil {
		return // the box is being removed
	}
	_, _ = f.Write(meminfo(x.limit, min(x.limit-memory, free)))
	_ = f.Close()
}

// close ends the goroutine.
func (m *meters) close() {
	m.mu.Lock()
	stop := m.stop
	m.mu.Unlock()
	if stop != nil {
		stop()
		<-m.ended
	}
}

// closers closes what belongs to one box's time with this server.
type closers []io.Closer

// Close closes all of them.
func (c closers) Close() error {
	var errs []error
	for _, one := range c {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// usable lists the processors that this process may run on.
func usable() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	var list []int
	for n := range len(set) * 64 {
		if set.IsSet(n) {
			list = append(list, n)
		}
	}
	return list
}

// cores chooses as many processors as a box may use at once, other ones for each
// box in turn, sorted; nil: it may use all of them.
func cores(all []int, cpus float64, turn uint64) []int {
	n := int(math.Ceil(cpus))
	if cpus <= 0 || n >= len(all) {
		return nil
	}
	first := int(turn % uint64(len(all)))
	take := make([]bool, len(all))
	for i := range n {
		take[(first+i)%len(all)] = true
	}
	var list []int
	for i, number := range all {
		if take[i] {
			list = append(list, number)
		}
	}
	return list
}
