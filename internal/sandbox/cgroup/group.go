package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of waiting, and the pauses between two looks.
const (
	freezeTry  = 200 * time.Millisecond // version 1 gets stuck: thaw and try again after this
	removeWait = 5 * time.Second
	firstLook  = 200 * time.Microsecond
	lastLook   = 20 * time.Millisecond
)

// Group is one control group in every hierarchy in use. It is plain data, to be
// kept and used by another process later.
type Group struct {
	Dirs map[string]string `json:"dirs"` // hierarchy -> directory
}

// Add moves a process with its threads into the group. It takes a grace period
// of the kernel, some milliseconds. A nil group has no effect.
func (g *Group) Add(pid int) error {
	if g == nil {
		return nil
	}
	for _, dir := range g.Dirs {
		if err := write(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// CanFreeze reports whether Freeze and Thaw work.
func (g *Group) CanFreeze() bool {
	return g != nil && (g.Dirs[unified] != "" || g.Dirs["freezer"] != "")
}

// Frozen reports whether every process of the group stands still.
func (g *Group) Frozen() bool {
	if !g.CanFreeze() {
		return false
	}
	if dir := g.Dirs[unified]; dir != "" {
		frozen, err := event(dir, "frozen 1")
		return frozen && err == nil
	}
	frozen, err := frozenV1(g.Dirs["freezer"])
	return frozen && err == nil
}

// Freeze stops every process of the group and returns when they stand still.
func (g *Group) Freeze(ctx context.Context) error {
	if dir := g.Dirs[unified]; dir != "" {
		if err := write(dir, "cgroup.freeze", "1"); err != nil {
			return err
		}
		return wait(ctx, func() (bool, error) { return event(dir, "frozen 1") })
	}
	dir := g.Dirs["freezer"]
	for {
		try, cancel := context.WithTimeout(ctx, freezeTry)
		err := freezeV1(try, dir)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if err := write(dir, "freezer.state", "THAWED"); err != nil {
			return err
		}
	}
}

func freezeV1(ctx context.Context, dir string) error {
	return wait(ctx, func() (bool, error) {
		// Written each time: it also takes in what was forked while freezing.
		if err := write(dir, "freezer.state", "FROZEN"); err != nil {
			return false, err
		}
		return frozenV1(dir)
	})
}

func frozenV1(dir string) (bool, error) {
	data, err := os.ReadFile(filepath.Join(dir, "freezer.state"))
	return strings.TrimSpace(string(data)) == "FROZEN", err
}

// Thaw lets the processes go on.
func (g *Group) Thaw(ctx context.Context) error {
	if dir := g.Dirs[unified]; dir != "" {
		if err := write(dir, "cgroup.freeze", "0"); err != nil {
			return err
		}
		return wait(ctx, func() (bool, error) { return event(dir, "frozen 0") })
	}
	return write(g.Dirs["freezer"], "freezer.state", "THAWED")
}

// Kill sends SIGKILL to every process of the group, forking or frozen ones
// included. False says that this machine cannot do it by the group.
func (g *Group) Kill() (bool, error) {
	dir := g.Dirs[unified]
	if dir == "" {
		return false, nil
	}
	err := write(dir, "cgroup.kill", "1")
	if errors.Is(err, fs.ErrNotExist) { // no group any more, or a kernel before 5.14
		return false, nil
	}
	return err == nil, err
}

// Processes returns the numbers of the processes in the group.
func (g *Group) Processes() []int {
	var pids []int
	for _, dir := range g.Dirs {
		for _, word := range words(filepath.Join(dir, "cgroup.procs")) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	return nil
}

// Remove deletes the group once its last process is gone. Idempotent.
func (g *Group) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removeWait)
	defer cancel()
	return wait(ctx, func() (bool, error) {
		err := g.rmdir()
		if errors.Is(err, unix.EBUSY) {
			return false, nil
		}
		return err == nil, err
	})
}

func (g *Group) rmdir() error {
	var errs []error
	for _, dir := range g.Dirs {
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, &os.PathError{Op: "rmdir", Path: dir, Err: err})
		}
	}
	return errors.Join(errs...)
}

func event(dir, line string) (bool, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	return strings.Contains(string(data), line+"\n"), err
}

// wait looks until ok, with growing pauses.
func wait(ctx context.Context, look func() (bool, error)) error {
	pause := firstLook
	for {
		ok, err := look()
		if ok || err != nil {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("control group: %w", ctx.Err())
		}
		pause = min(2*pause, lastLook)
	}
}
