package sandboxtest

import (
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/sandbox"
)

// usageOf asks for what a box takes.
func (s *suite) usageOf(t *testing.T, box sandbox.Box) sandbox.Usage {
	t.Helper()
	u, err := box.Usage(s.context(t))
	if err != nil {
		t.Fatalf("usage: %v", err)
	}
	return u
}

// usage checks that figures follow what programs do, and that what is not known
// is -1.
func (s *suite) usage(t *testing.T) {
	b := s.backend(t)
	box := s.box(t, b, sandbox.Spec{})
	before := s.usageOf(t, box)
	s.plausible(t, b.Caps(), before)
	for _, figure := range []struct {
		name   string
		of     func(sandbox.Usage) int64
		script string
		grows  int64
	}{
		{"processes", func(u sandbox.Usage) int64 { return u.Processes }, `for i in 1 2 3 4 5; do sleep 1000 >/dev/null 2>&1 & done`, 5},
		{"memory", func(u sandbox.Usage) int64 { return u.MemoryBytes },
			`sh -c 'x=$(head -c 40000000 /dev/zero | tr "\0" x); sleep 1000' >/dev/null 2>&1 &`, 16 << 20},
		{"inodes", func(u sandbox.Usage) int64 { return u.Inodes }, `mkdir many && cd many && for i in 0 1 2 3 4; do for k in 0 1 2 3 4 5 6 7 8 9; do : > $i$k; done; done`, 50},
		{"disk", func(u sandbox.Usage) int64 { return u.DiskBytes }, `head -c 8388608 /dev/zero > big; sync big 2>/dev/null || true`, 8 << 20},
		{"CPU time", func(u sandbox.Usage) int64 { return int64(u.CPU) }, `sh -c 'while :; do :; done' >/dev/null 2>&1 &`, int64(200 * time.Millisecond)},
	} {
		first := figure.of(s.usageOf(t, box))
		if first == -1 {
			continue // not known: plausible has looked whether it may be
		}
		s.sh(t, box, figure.script)
		s.await(t, "the usage of "+figure.name+" grows", func() bool {
			return figure.of(s.usageOf(t, box)) >= first+figure.grows
		})
	}
	if b.Caps().Pause {
		if err := box.Pause(s.context(t)); err != nil {
			t.Fatalf("pause: %v", err)
		}
		s.plausible(t, b.Caps(), s.usageOf(t, box))
	}
	if err := b.Destroy(s.context(t), box.Handle()); err != nil {
		t.Fatalf("destroy: %v", err)
	}
	_, err := box.Usage(s.context(t))
	wantKind(t, err, fault.NotFound)
}

// plausible demands that what is limited is known, and that nothing is negative
// but -1. Processes may be limited by who cannot count them (RLIMIT_NPROC).
func (s *suite) plausible(t *testing.T, caps sandbox.Caps, u sandbox.Usage) {
	t.Helper()
	for _, figure := range []struct {
		name  string
		value int64
		limit string // which makes it known; "" = none
	}{
		{"CPU", int64(u.CPU), sandbox.LimitCPU}, {"MemoryBytes", u.MemoryBytes, sandbox.LimitMemory},
		{"Processes", u.Processes, ""}, {"DiskBytes", u.DiskBytes, sandbox.LimitDisk},
		{"Inodes", u.Inodes, sandbox.LimitInodes}, {"OOMKills", u.OOMKills, sandbox.LimitMemory}, {"ForksRefused", u.ForksRefused, ""},
	} {
		if figure.value < -1 {
			t.Errorf("Usage.%s is %d", figure.name, figure.value)
		}
		if figure.value == -1 && figure.limit != "" && has(caps, figure.limit) {
			t.Errorf("Caps promise the limit %s, and Usage.%s is not known", figure.limit, figure.name)
		}
	}
	if u.OOMKills > 0 || u.ForksRefused > 0 || u.DiskFull {
		t.Errorf("nothing has happened yet: %+v", u)
	}
}
