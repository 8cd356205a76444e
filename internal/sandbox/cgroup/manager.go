package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// parentName holds the groups of all boxes below each hierarchy's start.
const parentName = "parley"

// leafName takes this process out of the way of its own children: version 2
// allows controllers below a group only if the group itself is empty.
const leafName = "parley-server"

// controllers are those of the limits.
var controllers = []string{"cpu", "memory", "pids"}

// Limits bound a group. Zero is no limit.
type Limits struct {
	CPUs        float64 // of one core's time
	MemoryBytes int64
	Processes   int64
}

// Manager makes groups. The zero value makes groups that do nothing.
type Manager struct {
	parents map[string]string // hierarchy -> the directory that takes the groups
	v2Holds []string          // controllers enabled on version 2
}

// Open finds what this process may use. It never fails: what cannot be used is
// missing from Holds.
func Open() *Manager {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return &Manager{}
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return &Manager{}
	}
	return open(parseLayout(string(mountinfo), string(self)), os.Getpid())
}

func open(l layout, pid int) *Manager {
	m := &Manager{parents: map[string]string{}}
	m.openUnified(l, pid)
	for _, name := range controllers {
		if !slices.Contains(m.v2Holds, name) {
			m.openV1(l, name)
		}
	}
	if _, ok := m.parents[unified]; !ok {
		m.openV1(l, "freezer") // the last resort: it gets stuck under load
		m.openV1(l, "cpuacct") // version 2 counts the time of every group
	}
	return m
}

func (m *Manager) openV1(l layout, name string) {
	for _, base := range candidates(l.own[name], l.root[name]) {
		parent := filepath.Join(base, parentName)
		if makeDir(parent) == nil && unix.Access(parent, unix.W_OK) == nil {
			m.parents[name] = parent
			return
		}
	}
}

// openUnified takes the nearest place that allows limits; where none does, the
// nearest that allows groups at all, for freeze and kill.
//
// Our own group comes last. Limits below it are possible only if no process is in it,
// so that its manager could not start the next server in it while boxes of this one
// live: systemd then says 219/CGROUP.
func (m *Manager) openUnified(l layout, pid int) {
	bases := candidates(l.own[unified], l.root[unified])
	if len(bases) > 1 {
		bases = append(bases[1:], bases[0])
	}
	// Moving a process to below a base takes the right to move it into the base.
	bases = slices.DeleteFunc(bases, func(base string) bool {
		return unix.Access(filepath.Join(base, "cgroup.procs"), unix.W_OK) != nil
	})
	for _, base := range bases {
		if held := enable(base, pid); len(held) > 0 {
			parent := filepath.Join(base, parentName)
			if makeDir(parent) != nil || control(parent, held) != nil {
				continue
			}
			m.parents[unified], m.v2Holds = parent, held
			return
		}
	}
	for _, base := range bases {
		parent := filepath.Join(base, parentName)
		if makeDir(parent) == nil && unix.Access(parent, unix.W_OK) == nil {
			m.parents[unified] = parent
			return
		}
	}
}

// candidates are own and its ancestors up to root, nearest first.
func candidates(own, root string) []string {
	if own == "" || root == "" {
		return nil
	}
	var dirs []string
	for dir := own; ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if dir == root || len(dir) <= len(root) {
			return dirs
		}
	}
}

// enable offers the limit controllers to the children of base and returns those
// that are enabled then. A process in base forbids it: if that is only ourselves,
// we move aside.
func enable(base string, pid int) []string {
	available := words(filepath.Join(base, "cgroup.controllers"))
	var wanted []string
	for _, name := range controllers {
		if slices.Contains(available, name) {
			wanted = append(wanted, name)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	err := control(base, wanted)
	if errors.Is(err, unix.EBUSY) && slices.Equal(words(filepath.Join(base, "cgroup.procs")), []string{strconv.Itoa(pid)}) {
		leaf := filepath.Join(base, leafName)
		if makeDir(leaf) != nil || write(leaf, "cgroup.procs", strconv.Itoa(pid)) != nil {
			return nil
		}
		err = control(base, wanted)
	}
	if err == nil {
		return wanted
	}
	// One that is refused (cpu, while real-time programs run) must not cost the rest.
	return slices.DeleteFunc(wanted, func(name string) bool { return control(base, []string{name}) != nil })
}

// control enables controllers for the children of dir.
func control(dir string, names []string) error {
	enabled := words(filepath.Join(dir, "cgroup.subtree_control"))
	var missing []string
	for _, name := range names {
		if !slices.Contains(enabled, name) {
			missing = append(missing, "+"+name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return write(dir, "cgroup.subtree_control", strings.Join(missing, " "))
}

// Holds reports whether groups can do what is named: "cpu", "memory", "pids",
// "freeze" (dependable) or "kill".
func (m *Manager) Holds(what string) bool {
	switch what {
	case "freeze", "kill":
		_, ok := m.parents[unified]
		return ok
	}
	_, v1 := m.parents[what]
	return v1 || slices.Contains(m.v2Holds, what)
}

// Create makes the group id with its limits. The group is nil if this machine
// offers none. On error nothing is left.
func (m *Manager) Create(id string, lim Limits) (*Group, error) {
	g := m.named(id)
	if g == nil {
		return nil, nil
	}
	for name, dir := range g.Dirs {
		if err := makeDir(dir); err != nil {
			return nil, errors.Join(err, g.rmdir())
		}
		if err := m.limit(name, dir, lim); err != nil {
			return nil, errors.Join(err, g.rmdir())
		}
	}
	return g, nil
}

// Find returns the group id if anything of it exists, nil otherwise.
func (m *Manager) Find(id string) *Group {
	g := m.named(id)
	if g == nil {
		return nil
	}
	for name, dir := range g.Dirs {
		if _, err := os.Stat(dir); err != nil {
			delete(g.Dirs, name)
		}
	}
	if len(g.Dirs) == 0 {
		return nil
	}
	return g
}

func (m *Manager) named(id string) *Group {
	if len(m.parents) == 0 {
		return nil
	}
	g := &Group{Dirs: map[string]string{}}
	for name, parent := range m.parents {
		g.Dirs[name] = filepath.Join(parent, id)
	}
	return g
}

// limit sets what the hierarchy can hold.
func (m *Manager) limit(hierarchy, dir string, lim Limits) error {
	switch hierarchy {
	case "cpu":
		if err := write(dir, "cpu.cfs_period_us", strconv.Itoa(cpuPeriod)); err != nil {
			return err
		}
		return write(dir, "cpu.cfs_quota_us", cpuQuota(lim.CPUs, "-1"))
	case "pids":
		return write(dir, "pids.max", number(lim.Processes, "max"))
	case "memory":
		if err := write(dir, "memory.limit_in_bytes", number(lim.MemoryBytes, "-1")); err != nil {
			return err
		}
		return optional(write(dir, "memory.memsw.limit_in_bytes", number(lim.MemoryBytes, "-1")))
	case unified:
		return m.limitUnified(dir, lim)
	}
	return nil
}

func (m *Manager) limitUnified(dir string, lim Limits) error {
	if slices.Contains(m.v2Holds, "cpu") {
		if err := write(dir, "cpu.max", cpuQuota(lim.CPUs, "max")+" "+strconv.Itoa(cpuPeriod)); err != nil {
			return err
		}
	}
	if slices.Contains(m.v2Holds, "memory") {
		if err := write(dir, "memory.max", number(lim.MemoryBytes, "max")); err != nil {
			return err
		}
		if err := optional(write(dir, "memory.swap.max", "0")); err != nil {
			return err
		}
	}
	if slices.Contains(m.v2Holds, "pids") {
		return write(dir, "pids.max", number(lim.Processes, "max"))
	}
	return nil
}

// cpuPeriod is the time in which a group may use its quota, in microseconds; the
// kernel takes no quota below leastQuota.
const (
	cpuPeriod  = 100_000
	leastQuota = 1_000
)

func cpuQuota(cpus float64, none string) string {
	if cpus <= 0 {
		return none
	}
	return strconv.FormatInt(max(leastQuota, int64(cpus*cpuPeriod)), 10)
}

// optional forgives a file that the kernel was built without (swap accounting).
func optional(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

func number(n int64, none string) string {
	if n <= 0 {
		return none
	}
	return strconv.FormatInt(n, 10)
}

func makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// write writes without creating: a missing control file is an error.
func write(dir, file, text string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("%s <- %q: %w", file, text, err)
	}
	return nil
}

func words(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}
