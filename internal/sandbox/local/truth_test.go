package local_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/internal/sandbox"
	"parley/internal/sandbox/local"
)

// TestMeminfoKeepsItsLength: it is replaced in place under its readers.
func TestMeminfoKeepsItsLength(t *testing.T) {
	length := len(local.Meminfo(0, 0))
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int64Range(0, 1<<46).Draw(t, "total")
		free := rapid.Int64().Draw(t, "free")
		text := string(local.Meminfo(total, free))
		if len(text) != length {
			t.Errorf("%d bytes, want %d", len(text), length)
		}
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			n, err := strconv.ParseInt(fields[1], 10, 64)
			if len(fields) != 3 || err != nil || n < 0 || n > total>>10 {
				t.Errorf("%q of %d", line, total)
			}
		}
	})
}

// TestCores: as many processors as asked for, those that are there, and every one
// is some box's.
func TestCores(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfNDistinct(rapid.IntRange(0, 1023), 1, 128, rapid.ID[int]).Draw(t, "all")
		slices.Sort(all)
		cpus := float64(rapid.IntRange(0, 20_000).Draw(t, "hundredths")) / 100
		turn := rapid.Uint64().Draw(t, "turn")
		got := local.Cores(all, cpus, turn)
		if cpus == 0 || cpus > float64(len(all)-1) {
			if got != nil {
				t.Fatalf("%v of %d", got, len(all))
			}
			return
		}
		if len(got) < 1 || float64(len(got)) < cpus || float64(len(got)) >= cpus+1 || !slices.IsSorted(got) {
			t.Fatalf("%v for %v", got, cpus)
		}
		seen := map[int]bool{}
		for i := range uint64(len(all)) {
			for _, n := range local.Cores(all, cpus, i) {
				if !slices.Contains(all, n) {
					t.Fatalf("%d is not there", n)
				}
				seen[n] = true
			}
		}
		if len(seen) != len(all) {
			t.Fatalf("%d of %d are used", len(seen), len(all))
		}
	})
}

func TestProcessorsInWords(t *testing.T) {
	for want, cpus := range map[string][]int{"0": {0}, "0-1": {0, 1}, "1,3-5,9": {1, 3, 4, 5, 9}, "": nil} {
		if got := local.Ranges(cpus); got != want {
			t.Errorf("%v: %q, want %q", cpus, got, want)
		}
	}
	const info = "processor\t: 0\nmodel name\t: x\n\nprocessor\t: 1\nmodel name\t: y\n\nHardware\t: z\n\n"
	if got := string(local.Chosen([]byte(info), []int{1})); got != "processor\t: 1\nmodel name\t: y\n\nHardware\t: z\n\n" {
		t.Errorf("%q", got)
	}
}

func FuzzChosen(f *testing.F) {
	f.Add([]byte("processor\t: 0\n\nprocessor\t: 1\n\n"))
	f.Fuzz(func(t *testing.T, info []byte) {
		if got := local.Chosen(info, []int{1}); strings.Contains(string(got), "processor\t: 0\n") && !strings.Contains(string(info), "\nprocessor") {
			t.Errorf("%q of %q", got, info)
		}
	})
}

// TestProcessorsInside: every way to ask says the same. A limit of a fraction of a
// core is one core; which one, changes from box to box.
func TestProcessorsInside(t *testing.T) {
	b := newBackend(t)
	if !slices.Contains(b.Caps().Limits, sandbox.LimitCPU) {
		_ = b.Close()
		t.Skip("Caps says that processor time is not limited here, so asking for it is refused")
	}
	box := create(t, b, sandbox.Spec{ID: "cores", Limits: sandbox.Limits{CPUs: 0.3}})
	if got := sh(t, box, "nproc; grep -c ^processor /proc/cpuinfo; grep Cpus_allowed_list /proc/self/status | cut -f2; cat /sys/devices/system/cpu/online"); !oneCore(got) {
		t.Errorf("inside: %q", got)
	}
	sh(t, box, "for i in 1 2 3; do sh -c 'while :; do :; done' >/dev/null 2>&1 & done")
	first, began := usage(t, box).CPU, time.Now()
	await(t, "half a second of processor time", func() bool { return usage(t, box).CPU-first > 500*time.Millisecond })
	// The quota is refilled each tenth of a second: one more may be used at each end.
	if passed := time.Since(began); usage(t, box).CPU-first > passed*3/10+100*time.Millisecond {
		t.Errorf("%v of processor time in %v with a limit of 0.3", usage(t, box).CPU-first, passed)
	}
}

func oneCore(text string) bool {
	lines := strings.Split(text, "\n")
	return len(lines) == 4 && lines[0] == "1" && lines[1] == "1" && lines[2] == lines[3]
}

func usage(t *testing.T, box sandbox.Box) sandbox.Usage {
	t.Helper()
	u, err := box.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestMemoryInside: programs see the limit, and what is left of it.
func TestMemoryInside(t *testing.T) {
	b := newBackend(t)
	if !holds(t, b, "memory_limit") {
		_ = b.Close()
		t.Skip("Caps says that memory is not limited here: the machine's figures are the truth")
	}
	const limit = 300 << 20
	box := create(t, b, sandbox.Spec{ID: "memory", Limits: sandbox.Limits{MemoryBytes: limit}})
	if got := sh(t, box, "grep -E '^(MemTotal|SwapTotal):' /proc/meminfo | tr -s ' '"); got != fmt.Sprintf("MemTotal: %d kB\nSwapTotal: 0 kB", limit>>10) {
		t.Errorf("inside: %q", got)
	}
	if out := run(t, box, "echo MemTotal: 1 kB > /proc/meminfo"); out.Code == 0 {
		t.Error("programs can change what they are told")
	}
	sh(t, box, `sh -c 'x=$(head -c 60000000 /dev/zero | tr "\0" x); sleep 1000' >/dev/null 2>&1 &`)
	await(t, "the memory in use shows inside", func() bool {
		free, err := strconv.ParseInt(sh(t, box, "grep MemAvailable: /proc/meminfo | tr -dc 0-9"), 10, 64)
		return err == nil && free > 0 && free<<10 < limit-60_000_000
	})
}
