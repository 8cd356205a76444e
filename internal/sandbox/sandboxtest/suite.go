// Package sandboxtest is the conformance suite of sandbox backends, the list of
// escapes that must fail (Hostile), and a small daemon to run in boxes under test.
//
// Both run unchanged over every backend. What a backend does not do, its Caps say,
// and the suite then demands that it refuses it.
package sandboxtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/sandbox"
)

// Options say how the suite reaches into boxes.
type Options struct {
	// Remove takes a box away behind the backend's back, processes and files, as an
	// administrator with the tools of the backend would. Required.
	Remove func(ctx context.Context, box sandbox.Box) error
	// Image is a container image that boxes can be made from, with a shell and the
	// usual small programs. Required where Caps say Images.
	Image string
	// Exec runs a command inside and waits for it; nil = the daemon is Serve.
	Exec func(ctx context.Context, box sandbox.Box, argv ...string) (Output, error)
	// Crash ends the first process of the box; nil = the daemon is Serve.
	Crash func(ctx context.Context, box sandbox.Box) error
	// NoPrograms says that boxes have no processes that the real daemon could run.
	NoPrograms bool
	// SplitLinks is why the names of a file become files of their own in a copy, when
	// one of them is written; "" = they stay one.
	SplitLinks string
	// Patience bounds every step; 0 = 30 s.
	Patience time.Duration
}

// suite is one run over one place.
type suite struct {
	open func(t *testing.T) sandbox.Backend
	Options
	ids atomic.Int64
}

// newSuite completes the options.
func newSuite(newBackend func(t *testing.T) sandbox.Backend, o Options) *suite {
	if o.Exec == nil {
		o.Exec = Exec
	}
	if o.Crash == nil {
		o.Crash = Crash
	}
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
	}
	return &suite{open: newBackend, Options: o}
}

// Run runs the suite. newBackend returns a fresh instance over the same place,
// as a restarted server would have it; the suite closes it.
func Run(t *testing.T, newBackend func(t *testing.T) sandbox.Backend, o Options) {
	s := newSuite(newBackend, o)
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"create", s.create}, {"bad specs", s.badSpecs}, {"bad handles", s.badHandles}, {"taken id", s.takenID},
		{"unsupported", s.unsupported},
		{"environment", s.environment}, {"mount", s.mount}, {"image", s.image}, {"cancelled create", s.cancelled},
		{"adopt", s.adopt}, {"pause", s.pause}, {"adopt paused", s.adoptPaused}, {"destroy paused", s.destroyPaused},
		{"destroy from elsewhere", s.destroyElsewhere}, {"crash and restart", s.restart}, {"removed", s.removed},
		{"many boxes", s.many},
		{"program", s.program}, {"console", s.console},
		{"snapshots", s.snapshots},
		{"usage", s.usage}, {"limits", s.limits}, {"limits of forks", s.limitsOfForks}, {"the machine inside", s.machine},
		{"network", s.network},
		{"after close", s.afterClose},
	} {
		t.Run(test.name, test.run)
	}
}

// id returns a new id.
func (s *suite) id() string { return fmt.Sprintf("suite-%d", s.ids.Add(1)) }

func (s *suite) context(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), s.Patience)
	t.Cleanup(cancel)
	return ctx
}

// backend opens an instance that is closed at the end of the test.
func (s *suite) backend(t *testing.T) sandbox.Backend {
	t.Helper()
	b := s.open(t)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// box makes a box that is destroyed at the end of the test.
func (s *suite) box(t *testing.T, b sandbox.Backend, spec sandbox.Spec) sandbox.Box {
	t.Helper()
	spec.ID = s.id()
	box, err := b.Create(s.context(t), spec)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	s.cleanUp(t, box)
	return box
}

// cleanUp destroys a box at the end of the test.
func (s *suite) cleanUp(t *testing.T, box sandbox.Box) {
	t.Cleanup(func() { s.destroy(t, s.open(t), box.Handle()) })
}

// destroy destroys by a fresh instance and looks that nothing is left.
func (s *suite) destroy(t *testing.T, b sandbox.Backend, h sandbox.Handle) {
	t.Helper()
	defer func() { _ = b.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), s.Patience)
	defer cancel()
	if err := b.Destroy(ctx, h); err != nil {
		t.Errorf("destroy: %v", err)
	}
	if s.listed(t, b, h.ID) {
		t.Errorf("%s is listed after its destruction", h.ID)
	}
}

func (s *suite) listed(t *testing.T, b sandbox.Backend, id string) bool {
	t.Helper()
	handles, err := b.List(context.Background())
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return slices.ContainsFunc(handles, func(h sandbox.Handle) bool { return h.ID == id })
}

// run runs a shell command inside, whatever comes of it.
func (s *suite) run(t *testing.T, box sandbox.Box, script string) Output {
	t.Helper()
	out, err := s.Exec(s.context(t), box, "sh", "-c", script)
	if err != nil || out.Err != "" {
		t.Fatalf("%s: %+v, %v", script, out, err)
	}
	return out
}

// sh runs a shell command inside that must succeed and returns its output.
func (s *suite) sh(t *testing.T, box sandbox.Box, script string) string {
	t.Helper()
	out := s.run(t, box, script)
	if out.Code != 0 {
		t.Fatalf("%s: %+v", script, out)
	}
	return strings.TrimSpace(out.Text)
}

// want runs a shell command inside and compares what it says.
func (s *suite) want(t *testing.T, box sandbox.Box, script, want string) {
	t.Helper()
	if got := s.sh(t, box, script); got != want {
		t.Errorf("%s: %q, want %q", script, got, want)
	}
}

// await polls until cond holds; what names it.
func (s *suite) await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(s.Patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", s.Patience, what)
		}
	}
}

func (s *suite) awaitDone(t *testing.T, box sandbox.Box) {
	t.Helper()
	select {
	case <-box.Done():
	case <-time.After(s.Patience):
		t.Fatal("the box is dead and Done is not closed")
	}
}

func wantKind(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("error %v, want kind %v", err, kind)
	}
}

// wantRefused demands the refusal of what Caps do not promise.
func wantRefused(t *testing.T, what string, err error) {
	t.Helper()
	if !fault.Is(err, fault.Unsupported) || fault.CodeOf(err) != sandbox.CodeUnsupported {
		t.Errorf("Caps do not promise %s: error %v, want Unsupported with code %s", what, err, sandbox.CodeUnsupported)
	}
}

// has reports whether a limit is enforced.
func has(caps sandbox.Caps, limit string) bool { return slices.Contains(caps.Limits, limit) }
