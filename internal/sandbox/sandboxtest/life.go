package sandboxtest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/sandbox"
)

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
		return // what it cannot do it refuses: see unsupported
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
		_ = first.Close()
		return // what it cannot do it refuses: see unsupported
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
		return // what it cannot do it refuses: see unsupported
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

// removed has a box taken away behind the backend's back.
func (s *suite) removed(t *testing.T) {
	if s.Remove == nil {
		t.Fatal("Options.Remove is not set: the suite cannot take a box away behind the backend's back")
	}
	b := s.backend(t)
	box := s.box(t, b, sandbox.Spec{})
	s.sh(t, box, "echo lost > file; "+ticker)
	if err := s.Remove(s.context(t), box); err != nil {
		t.Fatalf("remove: %v", err)
	}
	s.awaitDone(t, box)
	s.await(t, "Usage says NotFound", func() bool {
		_, err := box.Usage(s.context(t))
		return fault.Is(err, fault.NotFound)
	})
	_, err := box.Dial(s.context(t))
	wantKind(t, err, fault.Gone)
	_, err = b.Adopt(s.context(t), box.Handle())
	wantKind(t, err, fault.NotFound)
	_, err = b.Restart(s.context(t), box.Handle())
	wantKind(t, err, fault.NotFound)
	if s.listed(t, b, box.Handle().ID) {
		t.Error("the box is listed")
	}
	if err := b.Destroy(s.context(t), box.Handle()); err != nil {
		t.Errorf("destroy: %v", err)
	}
}
