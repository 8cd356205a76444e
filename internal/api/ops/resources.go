package ops

import (
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// resources are what the server itself takes (V0 section 14), and figures of its own.
// What the system does not tell is 0.
type resources struct {
	CPUPercent float64 `json:"cpu_percent"` // of one core, since the last look
	Memory     struct {
		RSS     uint64  `json:"rss"` // bytes
		VMS     uint64  `json:"vms"`
		Percent float64 `json:"percent"` // rss of the machine's memory
	} `json:"memory"`
	Disk struct { // that the data is on
		Total   uint64  `json:"total"` // bytes
		Used    uint64  `json:"used"`
		Free    uint64  `json:"free"` // for the server
		Percent float64 `json:"percent"`
	} `json:"disk"`
	IO struct {
		ReadBytes  uint64 `json:"read_bytes"`
		WriteBytes uint64 `json:"write_bytes"`
	} `json:"io"`
	CPUCount    int    `json:"cpu_count"`
	Goroutines  int    `json:"goroutines"`
	MemoryBytes uint64 `json:"memory_bytes"` // taken from the system by this process
}

// meter measures. It may be used concurrently.
type meter struct {
	dir string

	mu      sync.Mutex
	looked  time.Time
	busy    time.Duration // processor time at that look
	percent float64
}

// between is how long the processor's share is measured at least.
const between = 100 * time.Millisecond

func (m *meter) measure() resources {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	r := resources{CPUCount: runtime.NumCPU(), Goroutines: runtime.NumGoroutine(), MemoryBytes: mem.Sys, CPUPercent: m.cpu()}
	pages := strings.Fields(readProc("/proc/self/statm"))
	if len(pages) > 1 {
		r.Memory.VMS, r.Memory.RSS = number(pages[0])*uint64(os.Getpagesize()), number(pages[1])*uint64(os.Getpagesize())
	}
	r.Memory.Percent = percent(r.Memory.RSS, 1024*member(readProc("/proc/meminfo"), "MemTotal:"))
	io := readProc("/proc/self/io")
	r.IO.ReadBytes, r.IO.WriteBytes = member(io, "read_bytes:"), member(io, "write_bytes:")
	var fs unix.Statfs_t
	if unix.Statfs(m.dir, &fs) == nil && fs.Bsize > 0 {
		block := uint64(fs.Bsize)
		r.Disk.Total, r.Disk.Used, r.Disk.Free = fs.Blocks*block, (fs.Blocks-fs.Bfree)*block, fs.Bavail*block
		r.Disk.Percent = percent(r.Disk.Used, r.Disk.Used+r.Disk.Free)
	}
	return r
}

// cpu is the share of one core since the last look, at first since the start of the
// process as far as it is known.
func (m *meter) cpu() float64 {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	busy := time.Duration(used.Utime.Nano() + used.Stime.Nano())
	m.mu.Lock()
	defer m.mu.Unlock()
	if since := time.Since(m.looked); since >= between {
		m.percent = math.Round(float64(busy-m.busy)/float64(since)*1000) / 10
		m.looked, m.busy = time.Now(), busy
	}
	return m.percent
}

// readProc returns what the system says in a file, "" if it does not.
func readProc(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(raw)
}

// member returns the number behind a name at the beginning of a line, 0 if there is
// none.
func member(text, name string) uint64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				return number(fields[0])
			}
		}
	}
	return 0
}

func number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > math.MaxInt64 {
		return 0
	}
	return n
}

func percent(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return math.Round(float64(part)/float64(whole)*1e6) / 1e4
}
