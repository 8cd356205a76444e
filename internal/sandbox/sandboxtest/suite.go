// Package sandboxtest is the conformance suite of sandbox backends, and a small
// daemon to run in boxes under test.
package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/internal/fault"
	"parley/internal/sandbox"
)

// Options say how the suite reaches into boxes. The zero value fits boxes whose
// daemon is Serve.
type Options struct {
	// Exec runs a command inside and waits for it.
	Exec func(ctx context.Context, box sandbox.Box, argv ...string) (Output, error)
	// Crash ends the first process of the box.
	Crash func(ctx context.Context, box sandbox.Box) error
	// Patience bounds every step; 0 = 30 s.
	Patience time.Duration
}

// suite is one run over one place.
type suite struct {
	open func(t *testing.T) sandbox.Backend
	Options
	ids atomic.Int64
}

// Run runs the suite. newBackend returns a fresh instance over the same place,
// as a restarted server would have it; the suite closes it.
func Run(t *testing.T, newBackend func(t *testing.T) sandbox.Backend, o Options) {
	if o.Exec == nil {
		o.Exec = Exec
	}
	if o.Crash == nil {
		o.Crash = Crash
	}
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
	}
	s := &suite{open: newBackend, Options: o}
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"create", s.create}, {"bad specs", s.badSpecs}, {"bad handles", s.badHandles}, {"taken id", s.takenID},
		{"environment", s.environment}, {"mount", s.mount}, {"cancelled create", s.cancelled},
		{"adopt", s.adopt}, {"pause", s.pause}, {"adopt paused", s.adoptPaused}, {"destroy paused", s.destroyPaused},
		{"destroy from elsewhere", s.destroyElsewhere}, {"crash and restart", s.restart}, {"concurrent", s.concurrent},
		{"program", s.program},
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
	t.Cleanup(func() { s.destroy(t, s.open(t), box.Handle()) })
	return box
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
	for _, h := range handles {
		if h.ID == id {
			return true
		}
	}
	return false
}

// sh runs a shell command inside that must succeed and returns its output.
func (s *suite) sh(t *testing.T, box sandbox.Box, script string) string {
	t.Helper()
	out, err := s.Exec(s.context(t), box, "sh", "-c", script)
	if err != nil || out.Code != 0 || out.Err != "" {
		t.Fatalf("%s: %+v, %v", script, out, err)
	}
	return strings.TrimSpace(out.Text)
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

func (s *suite) create(t *testing.T) {
	b := s.backend(t)
	box := s.box(t, b, sandbox.Spec{})
	h := box.Handle()
	if h.Backend != b.Name() || h.ID == "" || h.Version == 0 {
		t.Errorf("handle %+v", h)
	}
	if !s.listed(t, b, h.ID) {
		t.Error("the box is not listed")
	}
	dir := s.sh(t, box, "echo hi > greeting && cat greeting && pwd -P")
	want := sandbox.WorkingDir
	if w, ok := box.(interface{ WorkingDir() string }); ok {
		want = w.WorkingDir()
	}
	if dir != "hi\n"+want {
		t.Errorf("working directory: %q, want %q", dir, want)
	}
	select {
	case <-box.Done():
		t.Error("Done is closed and the box runs")
	default:
	}
	if err := b.Destroy(s.context(t), h); err != nil {
		t.Fatalf("destroy: %v", err)
	}
	s.awaitDone(t, box)
	_, err := box.Dial(s.context(t))
	wantKind(t, err, fault.Gone)
	wantKind(t, box.Pause(s.context(t)), fault.Gone)
	_, err = b.Adopt(s.context(t), h)
	wantKind(t, err, fault.NotFound)
	_, err = b.Restart(s.context(t), h)
	wantKind(t, err, fault.NotFound)
	if err := b.Destroy(s.context(t), h); err != nil {
		t.Errorf("second destroy: %v", err)
	}
}

func (s *suite) badSpecs(t *testing.T) {
	b := s.backend(t)
	for name, spec := range map[string]sandbox.Spec{
		"no id":             {},
		"path":              {ID: "a/b"},
		"parent":            {ID: ".."},
		"long id":           {ID: strings.Repeat("a", 65)},
		"umlaut":            {ID: "\u00fc"},
		"network":           {ID: s.id(), Network: sandbox.Network{Mode: "everything"}},
		"negative memory":   {ID: s.id(), Limits: sandbox.Limits{MemoryBytes: -1}},
		"negative count":    {ID: s.id(), Limits: sandbox.Limits{Processes: -1}},
		"relative dir":      {ID: s.id(), WorkingDir: "project"},
		"system dir":        {ID: s.id(), WorkingDir: "/proc"},
		"unclean dir":       {ID: s.id(), WorkingDir: "/work/../etc"},
		"env name":          {ID: s.id(), Env: map[string]string{"A=B": "c"}},
		"env zero":          {ID: s.id(), Env: map[string]string{"A": "b\x00c"}},
		"mount relative":    {ID: s.id(), Mounts: []sandbox.Mount{{Source: "x", Target: "/x"}}},
		"mount of nothing":  {ID: s.id(), Mounts: []sandbox.Mount{{Source: t.TempDir() + "/none", Target: "/x"}}},
		"mount over system": {ID: s.id(), Mounts: []sandbox.Mount{{Source: t.TempDir(), Target: "/usr/bin"}}},
	} {
		_, err := b.Create(s.context(t), spec)
		if !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Unsupported) {
			t.Errorf("%s: %v, want Invalid or Unsupported", name, err)
		}
		if spec.ID != "" && s.listed(t, b, spec.ID) {
			t.Errorf("%s: something is left", name)
		}
	}
}

func (s *suite) badHandles(t *testing.T) {
	b := s.backend(t)
	good := sandbox.Handle{Backend: b.Name(), ID: "never-was", Version: 1}
	for name, change := range map[string]struct {
		h    sandbox.Handle
		kind fault.Kind
	}{
		"unknown":       {good, fault.NotFound},
		"other backend": {sandbox.Handle{Backend: "other", ID: good.ID, Version: 1}, fault.Invalid},
		"other version": {sandbox.Handle{Backend: good.Backend, ID: good.ID, Version: 99}, fault.Invalid},
		"path":          {sandbox.Handle{Backend: good.Backend, ID: "../x", Version: 1}, fault.Invalid},
	} {
		_, err := b.Adopt(s.context(t), change.h)
		if !fault.Is(err, change.kind) {
			t.Errorf("adopt %s: %v", name, err)
		}
		_, err = b.Restart(s.context(t), change.h)
		if !fault.Is(err, change.kind) {
			t.Errorf("restart %s: %v", name, err)
		}
	}
	if err := b.Destroy(s.context(t), good); err != nil {
		t.Errorf("destroy of nothing: %v", err)
	}
	wantKind(t, b.Destroy(s.context(t), sandbox.Handle{Backend: good.Backend, ID: "..", Version: 1}), fault.Invalid)
}

func (s *suite) takenID(t *testing.T) {
	b := s.backend(t)
	box := s.box(t, b, sandbox.Spec{})
	_, err := b.Create(s.context(t), sandbox.Spec{ID: box.Handle().ID})
	wantKind(t, err, fault.Conflict)
	s.sh(t, box, "true")
}

func (s *suite) environment(t *testing.T) {
	t.Setenv("SANDBOXTEST_SERVER_SECRET", "swordfish")
	box := s.box(t, s.backend(t), sandbox.Spec{Env: map[string]string{"GREETING": "good day", "TERM": "dumb"}})
	env := s.sh(t, box, `env; echo "$GREETING/$TERM"; cd "$HOME" && touch made && ls made`)
	if strings.Contains(env, "swordfish") {
		t.Error("the server's environment is visible inside")
	}
	for _, want := range []string{"GREETING=good day", "PATH=", "good day/dumb", "made"} {
		if !strings.Contains(env, want) {
			t.Errorf("%q is missing in %s", want, env)
		}
	}
	first := s.sh(t, box, `tr '\0' '\n' < /proc/1/environ 2>/dev/null || true`)
	if strings.Contains(first, "swordfish") {
		t.Error("the first process has the server's environment")
	}
}

func (s *suite) mount(t *testing.T) {
	b := s.backend(t)
	if !b.Caps().Isolated {
		t.Log("not isolated: mounts are not a matter")
		return
	}
	s.mountInto(t, b)
}

func (s *suite) cancelled(t *testing.T) {
	b := s.backend(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	id := s.id()
	if _, err := b.Create(ctx, sandbox.Spec{ID: id}); err == nil {
		t.Error("a cancelled create succeeded")
	}
	if s.listed(t, b, id) {
		t.Error("something is left of a cancelled create")
	}
}

// ticker starts a program that notes the time, in milliseconds, again and again.
const ticker = `nohup sh -c 'while :; do date +%s%3N >> ticks; sleep 0.01; done' >/dev/null 2>&1 &`

// longestGap returns the longest time between two ticks.
func (s *suite) longestGap(t *testing.T, box sandbox.Box) time.Duration {
	t.Helper()
	var last, longest int64
	for line := range strings.Lines(s.sh(t, box, "cat ticks")) {
		n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			continue // the last line may be half-written
		}
		if last > 0 {
			longest = max(longest, n-last)
		}
		last = n
	}
	return time.Duration(longest) * time.Millisecond
}

func (s *suite) ticks(t *testing.T, box sandbox.Box) int {
	t.Helper()
	n, err := strconv.Atoi(s.sh(t, box, "cat ticks 2>/dev/null | wc -l"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// awaitTicks waits until the ticker has gone on.
func (s *suite) awaitTicks(t *testing.T, box sandbox.Box) {
	t.Helper()
	before := s.ticks(t, box)
	deadline := time.Now().Add(s.Patience)
	for s.ticks(t, box) <= before+2 {
		if time.Now().After(deadline) {
			t.Fatal("the program inside does not go on")
		}
	}
}

// standstill is how long frozen programs are watched not to run.
const standstill = 700 * time.Millisecond

// mustNotAnswer makes sure that the box does nothing for the time of standstill.
func (s *suite) mustNotAnswer(t *testing.T, box sandbox.Box) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), standstill)
	defer cancel()
	_, err := s.Exec(ctx, box, "true")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a frozen box answered: %v", err)
	}
}

func (s *suite) adopt(t *testing.T) {
	first := s.open(t)
	box := s.box(t, first, sandbox.Spec{})
	s.sh(t, box, "echo kept > file; "+ticker)
	if err := first.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	second := s.backend(t)
	adopted, err := second.Adopt(s.context(t), box.Handle())
	if err != nil {
		t.Fatalf("adopt: %v", err)
	}
	if got := s.sh(t, adopted, "cat file"); got != "kept" {
		t.Errorf("file: %q", got)
	}
	s.awaitTicks(t, adopted)
	again, err := second.Adopt(s.context(t), box.Handle())
	if err != nil {
		t.Fatalf("second adopt: %v", err)
	}
	_, err = second.Restart(s.context(t), box.Handle())
	wantKind(t, err, fault.Conflict)
	if err := second.Destroy(s.context(t), box.Handle()); err != nil {
		t.Fatalf("destroy: %v", err)
	}
	s.awaitDone(t, adopted)
	s.awaitDone(t, again)
}

func (s *suite) pause(t *testing.T) {
	b := s.backend(t)
	if !b.Caps().Pause {
		t.Skip("the backend says that it cannot pause")
	}
	box := s.box(t, b, sandbox.Spec{})
	s.sh(t, box, ticker)
	s.awaitTicks(t, box)
	for range 2 { // idempotent
		if err := box.Pause(s.context(t)); err != nil {
			t.Fatalf("pause: %v", err)
		}
	}
	s.mustNotAnswer(t, box)
	for range 2 {
		if err := box.Resume(s.context(t)); err != nil {
			t.Fatalf("resume: %v", err)
		}
	}
	s.awaitTicks(t, box)
	if gap := s.longestGap(t, box); gap < standstill-50*time.Millisecond {
		t.Errorf("programs stood still for %v of %v", gap, standstill)
	}
}

func (s *suite) adoptPaused(t *testing.T) {
	first := s.open(t)
	if !first.Caps().Pause {
		t.Skip("the backend says that it cannot pause")
	}
	box := s.box(t, first, sandbox.Spec{})
	s.sh(t, box, ticker)
	if err := box.Pause(s.context(t)); err != nil {
		t.Fatalf("pause: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	adopted, err := s.backend(t).Adopt(s.context(t), box.Handle())
	if err != nil {
		t.Fatalf("adopt: %v", err)
	}
	s.mustNotAnswer(t, adopted)
	if err := adopted.Resume(s.context(t)); err != nil {
		t.Fatalf("resume: %v", err)
	}
	s.awaitTicks(t, adopted)
}

func (s *suite) destroyPaused(t *testing.T) {
	b := s.backend(t)
	if !b.Caps().Pause {
		t.Skip("the backend says that it cannot pause")
	}
	box := s.box(t, b, sandbox.Spec{})
	s.sh(t, box, ticker)
	if err := box.Pause(s.context(t)); err != nil {
		t.Fatalf("pause: %v", err)
	}
	if err := b.Destroy(s.context(t), box.Handle()); err != nil {
		t.Fatalf("destroy: %v", err)
	}
	s.awaitDone(t, box)
}

func (s *suite) destroyElsewhere(t *testing.T) {
	box := s.box(t, s.backend(t), sandbox.Spec{})
	s.destroy(t, s.open(t), box.Handle())
	s.awaitDone(t, box)
	_, err := box.Dial(s.context(t))
	wantKind(t, err, fault.Gone)
}

func (s *suite) restart(t *testing.T) {
	b := s.backend(t)
	box := s.box(t, b, sandbox.Spec{})
	s.sh(t, box, `echo kept > file; echo home > "$HOME/mine"; `+ticker)
	if err := s.Crash(s.context(t), box); err != nil {
		t.Fatalf("crash: %v", err)
	}
	s.awaitDone(t, box)
	_, err := b.Adopt(s.context(t), box.Handle())
	wantKind(t, err, fault.Gone)
	if !s.listed(t, b, box.Handle().ID) {
		t.Error("a dead box is not listed")
	}
	for range 2 {
		again, err := b.Restart(s.context(t), box.Handle())
		if err != nil {
			t.Fatalf("restart: %v", err)
		}
		if got := s.sh(t, again, `cat file "$HOME/mine"`); got != "kept\nhome" {
			t.Errorf("files: %q", got)
		}
		if err := s.Crash(s.context(t), again); err != nil {
			t.Fatalf("crash: %v", err)
		}
		s.awaitDone(t, again)
	}
}

func (s *suite) concurrent(t *testing.T) {
	b := s.backend(t)
	const count = 8
	boxes := make([]sandbox.Box, count)
	var group errgroup.Group
	for i := range count {
		spec := sandbox.Spec{ID: s.id()}
		group.Go(func() (err error) {
			boxes[i], err = b.Create(s.context(t), spec)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatalf("create: %v", err)
	}
	for i, box := range boxes {
		s.sh(t, box, fmt.Sprintf("echo %d > number", i))
	}
	for i, box := range boxes {
		if got := s.sh(t, box, "cat number"); got != strconv.Itoa(i) {
			t.Errorf("box %d has the file of box %s", i, got)
		}
	}
	for _, box := range boxes {
		group.Go(func() error { return b.Destroy(s.context(t), box.Handle()) })
	}
	if err := group.Wait(); err != nil {
		t.Fatalf("destroy: %v", err)
	}
	for _, box := range boxes {
		s.awaitDone(t, box)
	}
}

func (s *suite) afterClose(t *testing.T) {
	b := s.open(t)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := b.Create(s.context(t), sandbox.Spec{ID: s.id()})
	wantKind(t, err, fault.Unavailable)
}
