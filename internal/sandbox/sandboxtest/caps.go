package sandboxtest

import (
	"testing"

	"parley/internal/sandbox"
)

// limitExamples ask for one limit each, by its name in Caps.Limits.
func limitExamples() map[string]sandbox.Limits {
	return map[string]sandbox.Limits{
		sandbox.LimitCPU:       {CPUs: 0.5},
		sandbox.LimitMemory:    {MemoryBytes: 128 << 20},
		sandbox.LimitProcesses: {Processes: 64},
		sandbox.LimitOpenFiles: {OpenFiles: 100},
		sandbox.LimitDisk:      {DiskBytes: 64 << 20},
		sandbox.LimitInodes:    {Inodes: 1000},
	}
}

// unsupported is the capability table: what Caps do not promise is refused, as
// such, and leaves nothing. What they promise, the other tests try.
func (s *suite) unsupported(t *testing.T) {
	b := s.backend(t)
	caps := b.Caps()
	for _, name := range caps.Limits {
		if _, known := limitExamples()[name]; !known {
			t.Errorf("Caps.Limits has %q, which is no limit", name)
		}
	}
	if caps.LiveSnapshot && !caps.Snapshot {
		t.Error("Caps promise live snapshots and no snapshots")
	}
	if !caps.Pause {
		box := s.box(t, b, sandbox.Spec{})
		wantRefused(t, "pause", box.Pause(s.context(t)))
		wantRefused(t, "resume", box.Resume(s.context(t)))
	}
	if !caps.Snapshot {
		s.noSnapshots(t, b)
	}
	for what, c := range map[string]struct {
		promised bool
		spec     sandbox.Spec
	}{
		"images":        {caps.Images, sandbox.Spec{Image: "registry.example.com/image:tag"}},
		"mounts":        {caps.Mounts, sandbox.Spec{Mounts: []sandbox.Mount{{Source: t.TempDir(), Target: "/suite-mount"}}}},
		"no network":    {caps.NetworkPolicy, sandbox.Spec{Network: sandbox.Network{Mode: sandbox.NetworkNone}}},
		"allow-lists":   {caps.NetworkPolicy, sandbox.Spec{Network: sandbox.Network{Mode: sandbox.NetworkAllow, Allow: []string{"example.com"}}}},
		"nested policy": {caps.NetworkPolicy, sandbox.Spec{Network: sandbox.Network{Within: &sandbox.Network{Mode: sandbox.NetworkNone}}}},
	} {
		if !c.promised {
			s.refused(t, b, what, c.spec)
		}
	}
	for name, limits := range limitExamples() {
		if !has(caps, name) {
			s.refused(t, b, "the limit "+name, sandbox.Spec{Limits: limits})
		}
	}
}

// refused demands that Create refuses a spec for what it asks.
func (s *suite) refused(t *testing.T, b sandbox.Backend, what string, spec sandbox.Spec) {
	t.Helper()
	spec.ID = s.id()
	box, err := b.Create(s.context(t), spec)
	wantRefused(t, what, err)
	if err == nil {
		s.cleanUp(t, box)
	} else if s.listed(t, b, spec.ID) {
		t.Errorf("%s: refused, and something is left", what)
	}
}

func (s *suite) noSnapshots(t *testing.T, b sandbox.Backend) {
	box := s.box(t, b, sandbox.Spec{})
	none := sandbox.Snapshot{Backend: b.Name(), ID: "none"}
	_, err := b.Snapshot(s.context(t), box.Handle(), none.ID)
	wantRefused(t, "taking snapshots", err)
	wantRefused(t, "dropping snapshots", b.DropSnapshot(s.context(t), none))
	s.refused(t, b, "starting from snapshots", sandbox.Spec{From: &none})
	all, err := b.Snapshots(s.context(t))
	if err != nil || len(all) > 0 {
		t.Errorf("the list of snapshots: %v, %v, want none and no error", all, err)
	}
}
