package sandboxtest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/internal/sandbox"
)

// limits tries to exceed every limit that Caps promise.
func (s *suite) limits(t *testing.T) {
	caps := s.backend(t).Caps()
	for _, test := range []struct {
		limit string
		run   func(*testing.T, sandbox.Box, sandbox.Limits)
	}{
		{sandbox.LimitMemory, s.memoryHog}, {sandbox.LimitProcesses, s.forkBomb}, {sandbox.LimitOpenFiles, s.openFiles},
		{sandbox.LimitDisk, s.diskFiller}, {sandbox.LimitInodes, s.inodeFiller}, {sandbox.LimitCPU, s.busyLoops},
	} {
		if !has(caps, test.limit) {
			continue // asking for it is refused: see unsupported
		}
		t.Run(test.limit, func(t *testing.T) {
			limits := limitExamples()[test.limit]
			test.run(t, s.box(t, s.backend(t), sandbox.Spec{Limits: limits}), limits)
		})
	}
}

// limitsOfForks: the limits of a fork are its own, whatever its snapshot holds.
func (s *suite) limitsOfForks(t *testing.T) {
	b := s.backend(t)
	caps := b.Caps()
	if !caps.Snapshot || !has(caps, sandbox.LimitDisk) {
		return // what it cannot do it refuses: see unsupported
	}
	box := s.box(t, b, sandbox.Spec{})
	s.sh(t, box, "head -c 8388608 /dev/zero > before")
	snap := s.snapshot(t, b, box)
	limits := limitExamples()[sandbox.LimitDisk]
	s.diskFiller(t, s.box(t, b, sandbox.Spec{From: &snap, Limits: limits}), limits)
}

// memoryHog: what takes too much memory is killed and counted. Where the kernel
// inside belongs to the box, the box may die of it; it can be started again then.
func (s *suite) memoryHog(t *testing.T, box sandbox.Box, _ sandbox.Limits) {
	const eaten = 1 << 30
	out, err := s.Exec(s.context(t), box, "sh", "-c", fmt.Sprintf("echo kept > file; head -c %d /dev/zero | tail -n 1 | wc -c", eaten))
	if err == nil && strings.Contains(out.Text, strconv.Itoa(eaten)) {
		t.Fatalf("1 GiB in a box for 128 MiB: %+v", out)
	}
	s.await(t, "the kill for want of memory is counted", func() bool { return s.usageOf(t, box).OOMKills >= 1 })
	if err != nil {
		s.awaitDone(t, box)
		if box, err = s.backend(t).Restart(s.context(t), box.Handle()); err != nil {
			t.Fatalf("restart: %v", err)
		}
	}
	s.want(t, box, "cat file", "kept")
}

// forkBomb: no more processes than the limit allows, and what stood in the way is
// counted where it can be known.
func (s *suite) forkBomb(t *testing.T, box sandbox.Box, l sandbox.Limits) {
	out := s.run(t, box, `for i in $(seq 300); do sleep 1000 >/dev/null 2>&1 & done; true`)
	u := s.usageOf(t, box)
	if u.ForksRefused >= 0 {
		s.await(t, "a refused fork is counted", func() bool { return s.usageOf(t, box).ForksRefused > 0 })
	} else if text := strings.ToLower(out.Text); !strings.Contains(text, "fork") && !strings.Contains(text, "resource temporarily") {
		t.Errorf("300 processes were started in a box for %d: %+v", l.Processes, out)
	}
	if u.Processes == -1 {
		return
	}
	s.await(t, "the box is full of processes", func() bool { return s.usageOf(t, box).Processes >= l.Processes/2 })
	if u = s.usageOf(t, box); u.Processes > l.Processes {
		t.Errorf("%d processes in a box for %d: %+v", u.Processes, l.Processes, out)
	}
}

func (s *suite) openFiles(t *testing.T, box sandbox.Box, l sandbox.Limits) {
	n := strconv.FormatUint(l.OpenFiles, 10)
	s.want(t, box, "ulimit -Hn; ulimit -Sn", n+"\n"+n)
	s.want(t, box, "ulimit -n 1000000 2>/dev/null || echo refused", "refused")
	// Limits are the box's, not of one run.
	if err := s.Crash(s.context(t), box); err != nil {
		t.Fatalf("crash: %v", err)
	}
	s.awaitDone(t, box)
	again, err := s.backend(t).Restart(s.context(t), box.Handle())
	if err != nil {
		t.Fatalf("restart: %v", err)
	}
	s.want(t, again, "ulimit -Hn", n)
}

// diskFiller: what does not fit is refused as by a full disk, it is said, and
// removing something helps.
func (s *suite) diskFiller(t *testing.T, box sandbox.Box, l sandbox.Limits) {
	for _, dir := range []string{".", "$HOME"} {
		s.fills(t, box, fmt.Sprintf(`head -c %d /dev/zero > "%s/big"`, 2*l.DiskBytes, dir), fmt.Sprintf(`rm "%s/big"`, dir))
		if u := s.usageOf(t, box); u.DiskBytes > l.DiskBytes {
			t.Errorf("%d bytes on a disk for %d", u.DiskBytes, l.DiskBytes)
		}
		s.want(t, box, "head -c 1048576 /dev/zero > small && wc -c < small && rm small", "1048576")
	}
}

func (s *suite) inodeFiller(t *testing.T, box sandbox.Box, l sandbox.Limits) {
	s.fills(t, box, fmt.Sprintf(`mkdir many && i=0; while [ $i -lt %d ]; do : > many/$i || exit 1; i=$((i+1)); done`, 2*l.Inodes), "rm -r many")
	s.want(t, box, "echo fits > small; cat small", "fits")
}

// fills runs what must fill the disk, and then what makes room.
func (s *suite) fills(t *testing.T, box sandbox.Box, fill, clear string) {
	t.Helper()
	out := s.run(t, box, fill)
	if out.Code == 0 {
		t.Errorf("%s: succeeded", fill)
	}
	if text := strings.ToLower(out.Text); !strings.Contains(text, "no space") && !strings.Contains(text, "quota") {
		t.Errorf("%s: %q does not say that the disk is full", fill, out.Text)
	}
	s.await(t, "Usage says that the disk is full", func() bool { return s.usageOf(t, box).DiskFull })
	s.sh(t, box, clear)
	s.await(t, "Usage says that there is room again", func() bool { return !s.usageOf(t, box).DiskFull })
}

// busyLoops: two programs that would use two cores get half of one together.
func (s *suite) busyLoops(t *testing.T, box sandbox.Box, l sandbox.Limits) {
	const span = 3 * time.Second
	s.sh(t, box, `for i in 1 2; do sh -c 'while :; do :; done' >/dev/null 2>&1 & done`)
	began := time.Now() // before the first reading, so that the share is never overrated
	first := s.usageOf(t, box).CPU
	s.await(t, "time passes", func() bool { return time.Since(began) > span })
	used := s.usageOf(t, box).CPU - first
	share := float64(used) / float64(time.Since(began))
	if share > 1.5*l.CPUs {
		t.Errorf("%.2f CPUs are used in a box for %.2f", share, l.CPUs)
	}
	if used == 0 {
		t.Error("no CPU time was counted")
	}
}

// machine checks that programs inside see the limits as the machine's size.
func (s *suite) machine(t *testing.T) {
	b := s.backend(t)
	caps := b.Caps()
	if !caps.Isolated {
		return // they see the machine
	}
	if has(caps, sandbox.LimitCPU) {
		s.want(t, s.box(t, b, sandbox.Spec{Limits: sandbox.Limits{CPUs: 1}}), "nproc", "1")
	}
	if has(caps, sandbox.LimitMemory) {
		const limit = 256 << 20
		box := s.box(t, b, sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: limit}})
		fields := strings.Fields(s.sh(t, box, "grep MemTotal: /proc/meminfo"))
		if len(fields) != 3 {
			t.Fatalf("/proc/meminfo: %v", fields)
		}
		if kib, err := strconv.ParseInt(fields[1], 10, 64); err != nil || kib<<10 > limit || kib<<10 < limit/2 {
			t.Errorf("MemTotal is %v in a box for %d KiB", fields, limit>>10)
		}
	}
}
