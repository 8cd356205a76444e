package hostbox

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// scanPause lies between two looks at the process table.
const scanPause = 2 * time.Millisecond

// tree returns root and all its live descendants, parents first.
func tree(root Ident) ([]Ident, map[int]stat, error) {
	if !root.Alive() {
		return nil, nil, nil
	}
	all, err := processes()
	if err != nil {
		return nil, nil, err
	}
	children := map[int][]int{}
	for pid, st := range all {
		children[st.ppid] = append(children[st.ppid], pid)
	}
	found := []Ident{root}
	for i := 0; i < len(found); i++ {
		for _, pid := range children[found[i].PID] {
			if !all[pid].dead() {
				found = append(found, Ident{PID: pid, Start: all[pid].start, Boot: root.Boot})
			}
		}
	}
	return found, all, nil
}

func processes() (map[int]stat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make(map[int]stat, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if st, err := readStat(pid); err == nil { // else it ended meanwhile
			all[pid] = st
		}
	}
	return all, nil
}

// stopTree stops root and all its descendants and returns those that were
// stopped before. It looks again until a look finds nothing that runs: a process
// that has not been stopped yet may fork.
func stopTree(ctx context.Context, root Ident) ([]Ident, error) {
	var before []Ident
	sent := map[Ident]bool{}
	for {
		procs, stats, err := tree(root)
		if err != nil {
			return before, err
		}
		running := 0
		for _, p := range procs {
			if stats[p.PID].stopped() {
				if !sent[p] {
					sent[p] = true
					before = append(before, p)
				}
				continue
			}
			// Asleep in the kernel with the signal pending it runs nothing of its own
			// any more. A parent in vfork stays so while its child is stopped.
			if sent[p] && stats[p.PID].state == 'D' {
				continue
			}
			running++
			sent[p] = true
			if err := p.signal(unix.SIGSTOP); err != nil {
				return before, err
			}
		}
		if running == 0 {
			return before, nil
		}
		if err := Sleep(ctx, scanPause); err != nil {
			return before, fmt.Errorf("%d processes do not stop: %w", running, err)
		}
	}
}

// continueTree lets root and its descendants run again, except those in keep.
func continueTree(root Ident, keep []Ident) error {
	procs, _, err := tree(root)
	if err != nil {
		return err
	}
	slices.Reverse(procs) // children first: a parent that waits for stops sees none
	for _, p := range procs {
		if slices.Contains(keep, p) {
			continue
		}
		if err := p.signal(unix.SIGCONT); err != nil {
			return err
		}
	}
	return nil
}

// killTree stops root and its descendants, so that none escapes by forking, then
// kills them, root last: orphans stay its descendants as long as it lives.
func killTree(ctx context.Context, root Ident) error {
	for {
		if _, err := stopTree(ctx, root); err != nil {
			return err
		}
		procs, _, err := tree(root)
		if err != nil || len(procs) == 0 {
			return err
		}
		targets := procs[1:]
		if len(targets) == 0 {
			return root.signal(unix.SIGKILL)
		}
		for _, p := range targets {
			if err := p.signal(unix.SIGKILL); err != nil {
				return err
			}
		}
		if err := Sleep(ctx, scanPause); err != nil {
			return err
		}
	}
}

// killLabelled kills every process whose environment has the label: those that
// lost their parent before the box's first process could take them.
func killLabelled(ctx context.Context, label string) error {
	for {
		found, err := labelled(label)
		if err != nil || len(found) == 0 {
			return err
		}
		for _, p := range found {
			if err := p.signal(unix.SIGKILL); err != nil {
				return err
			}
		}
		if err := Sleep(ctx, scanPause); err != nil {
			return err
		}
	}
}

func labelled(label string) ([]Ident, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	var found []Ident
	for pid, st := range all {
		if st.dead() {
			continue
		}
		env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), label) {
			continue // not ours to read, or not the box's
		}
		if id, err := Identify(pid); err == nil && id.Start == st.start {
			found = append(found, id)
		}
	}
	return found, nil
}

// Sleep waits for d or for the end of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
