package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what a group takes. A figure that cannot be known is -1.
type Usage struct {
	CPU          time.Duration // used since the group was made
	MemoryBytes  int64         // without files the kernel could drop from memory at once
	Processes    int64         // with threads
	OOMKills     int64         // processes killed for want of memory
	ForksRefused int64         // by the limit of processes
}

// Unknown is a Usage in which nothing is known.
func Unknown() Usage {
	return Usage{CPU: -1, MemoryBytes: -1, Processes: -1, OOMKills: -1, ForksRefused: -1}
}

// Usage says what the group takes, by a few small reads. A nil group knows
// nothing.
func (g *Group) Usage() Usage {
	u := Unknown()
	if g == nil {
		return u
	}
	u.CPU = g.CPUTime()
	u.MemoryBytes, u.OOMKills = g.memory()
	dir := g.dirOf("pids")
	u.Processes = single(dir, "pids.current")
	u.ForksRefused = field(dir, "pids.events", "max")
	return u
}

// dirOf returns the directory that has the files of a controller: version 1's if
// the group is in it.
func (g *Group) dirOf(controller string) string {
	if dir := g.Dirs[controller]; dir != "" {
		return dir
	}
	return g.Dirs[unified]
}

// CPUTime is the processor time that was used since the group was made; -1 if it
// cannot be known. Version 2 counts it also where the controller is off.
func (g *Group) CPUTime() time.Duration {
	if g == nil {
		return -1
	}
	if dir := g.Dirs[unified]; dir != "" {
		if n := field(dir, "cpu.stat", "usage_usec"); n >= 0 {
			return time.Duration(n) * time.Microsecond
		}
	}
	if dir := g.Dirs["cpuacct"]; dir != "" {
		return time.Duration(single(dir, "cpuacct.usage"))
	}
	return -1
}

func (g *Group) memory() (used, kills int64) {
	dir, current, inactive, events := g.Dirs[unified], "memory.current", "inactive_file", "memory.events"
	if v1 := g.Dirs["memory"]; v1 != "" {
		dir, current, inactive, events = v1, "memory.usage_in_bytes", "total_inactive_file", "memory.oom_control"
	}
	used = single(dir, current)
	if used >= 0 {
		used = max(0, used-max(0, field(dir, "memory.stat", inactive)))
	}
	return used, field(dir, events, "oom_kill")
}

// single reads a file that holds one number; -1 if it cannot be read.
func single(dir, file string) int64 { return number64(words(filepath.Join(dir, file))) }

func number64(fields []string) int64 {
	if len(fields) != 1 {
		return -1
	}
	n, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// field reads one line "name value" of a file; -1 if there is none.
func field(dir, file, name string) int64 {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return number64(strings.Fields(rest))
		}
	}
	return -1
}
