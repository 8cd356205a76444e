package sandboxd

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// process is a line of the process table.
type process struct {
	pid, parent, group, session int
	dead                        bool // waits to be reaped
}

// killPatience bounds how long the death of killed processes is awaited: one that
// hangs in the kernel must not hang us.
const killPatience = 2 * time.Second

// killSession kills all processes of a session, also those that left the process
// group, and returns when none lives. reaped says that the leader has been
// collected: if there is a process of that id now, the number went round, the
// session has ended and its name is somebody else's.
func killSession(sid int, reaped bool) {
	if !reaped {
		_ = unix.Kill(-sid, unix.SIGKILL)
	}
	killAll(func(table []process) []int {
		var members []int
		for _, p := range table {
			if reaped && p.pid == sid {
				return nil
			}
			if p.session == sid {
				members = append(members, p.pid)
			}
		}
		return members
	})
}

// killChildren kills our children, then theirs, which become ours, and so on.
func killChildren() {
	self := os.Getpid()
	killAll(func(table []process) []int {
		var mine []int
		for _, p := range table {
			if p.parent == self {
				mine = append(mine, p.pid)
			}
		}
		return mine
	})
}

// killAll kills what choose picks of the living until it picks nothing more.
// Again and again, because a process may fork while the table is read.
func killAll(choose func([]process) []int) {
	for deadline := time.Now().Add(killPatience); time.Now().Before(deadline); {
		victims := choose(livingProcesses())
		if len(victims) == 0 {
			return
		}
		for _, pid := range victims {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

// livingProcesses reads the process table. It is empty if /proc is not that of
// our own pid namespace: its numbers would be other processes here.
func livingProcesses() []process {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	table := make([]process, 0, len(names))
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it ended meanwhile
		}
		if p, ok := parseStat(stat); ok && !p.dead {
			table = append(table, p)
		}
	}
	return table
}

// parseStat reads "pid (name) state ppid pgrp session ..."; the name may hold
// anything, parentheses included.
func parseStat(stat []byte) (process, bool) {
	open, shut := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 1 || shut < open {
		return process{}, false
	}
	fields := bytes.Fields(stat[shut+1:])
	if len(fields) < 4 || len(fields[0]) != 1 {
		return process{}, false
	}
	var numbers [4]int
	for i, field := range [][]byte{bytes.TrimSpace(stat[:open]), fields[1], fields[2], fields[3]} {
		n, err := strconv.Atoi(string(field))
		if err != nil {
			return process{}, false
		}
		numbers[i] = n
	}
	state := fields[0][0]
	return process{pid: numbers[0], parent: numbers[1], group: numbers[2], session: numbers[3],
		dead: state == 'Z' || state == 'X'}, true
}
