package sandbox

import "slices"

// Limits bound a box. Zero means the backend's default; a backend that cannot
// enforce one says so in Caps.Limits.
type Limits struct {
	CPUs        float64 `json:"cpus,omitempty"` // of one core's time
	MemoryBytes int64   `json:"memory,omitempty"`
	Processes   int64   `json:"processes,omitempty"`  // with threads
	OpenFiles   uint64  `json:"open_files,omitempty"` // of one process
	DiskBytes   int64   `json:"disk,omitempty"`       // of everything written inside; what is mounted does not count
	Inodes      int64   `json:"inodes,omitempty"`     // files and directories made inside
}

// Scale multiplies what a stronger or weaker machine has more or less of.
func (l Limits) Scale(factor float64) Limits {
	l.CPUs *= factor
	l.MemoryBytes = int64(float64(l.MemoryBytes) * factor)
	l.Processes = int64(float64(l.Processes) * factor)
	l.DiskBytes = int64(float64(l.DiskBytes) * factor)
	l.Inodes = int64(float64(l.Inodes) * factor)
	return l
}

// Names in Caps.Limits.
const (
	LimitCPU       = "cpu"
	LimitMemory    = "memory"
	LimitProcesses = "processes"
	LimitOpenFiles = "open_files"
	LimitDisk      = "disk"
	LimitInodes    = "inodes"
)

// fields are the limits by name.
func (l *Limits) fields() []field {
	return []field{
		{LimitCPU, "processor time", l.CPUs != 0, func() { l.CPUs = 0 }},
		{LimitMemory, "memory", l.MemoryBytes != 0, func() { l.MemoryBytes = 0 }},
		{LimitProcesses, "processes", l.Processes != 0, func() { l.Processes = 0 }},
		{LimitOpenFiles, "open files", l.OpenFiles != 0, func() { l.OpenFiles = 0 }},
		{LimitDisk, "disk space", l.DiskBytes != 0, func() { l.DiskBytes = 0 }},
		{LimitInodes, "the number of files", l.Inodes != 0, func() { l.Inodes = 0 }},
	}
}

type field struct {
	name, words string
	set         bool
	clear       func()
}

// Keep returns the limits with only those that are named, and the names of those
// that were set and are not among them.
func (l Limits) Keep(names []string) (kept Limits, dropped []string) {
	for _, f := range l.fields() {
		if f.set && !slices.Contains(names, f.name) {
			f.clear()
			dropped = append(dropped, f.name)
		}
	}
	return l, dropped
}

// CheckLimits refuses limits that a backend does not enforce. Errors: code
// CodeUnsupported.
func CheckLimits(backend string, asked Limits, enforced []string) error {
	for _, f := range asked.fields() {
		if f.set && !slices.Contains(enforced, f.name) {
			return Unsupported(backend, "limit "+f.words+" on this machine").
				WithHint("The doctor command says what this machine lacks.")
		}
	}
	return nil
}
