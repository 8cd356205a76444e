package sandboxtest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"parley/internal/fault"
	"parley/internal/sandbox"
)

// snapshots checks what is kept of a box, and that boxes made from it are apart
// from it and from each other.
func (s *suite) snapshots(t *testing.T) {
	if !s.backend(t).Caps().Snapshot {
		return // what it cannot do it refuses: see unsupported
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, sandbox.Backend)
	}{
		{"files", s.snapshotFiles}, {"of a running box", s.snapshotRunning}, {"of a paused box", s.snapshotPaused},
		{"of a dead box", s.snapshotDead}, {"divergence", s.divergence}, {"of a fork", s.snapshotOfFork},
		{"outlives its box", s.outlives}, {"drop", s.drop}, {"refusals", s.badSnapshots}, {"many forks", s.manyForks},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s.backend(t)) })
	}
}

// snapshot takes a snapshot that is dropped at the end of the test.
func (s *suite) snapshot(t *testing.T, b sandbox.Backend, box sandbox.Box) sandbox.Snapshot {
	t.Helper()
	id := s.id()
	snap, err := b.Snapshot(s.context(t), box.Handle(), id)
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	if snap.Backend != b.Name() || snap.ID != id {
		t.Errorf("snapshot %+v, want backend %s and id %s", snap, b.Name(), id)
	}
	t.Cleanup(func() {
		fresh := s.open(t)
		defer func() { _ = fresh.Close() }()
		if err := fresh.DropSnapshot(context.Background(), snap); err != nil {
			t.Errorf("drop: %v", err)
		}
		if s.kept(t, fresh, snap.ID) {
			t.Errorf("snapshot %s is listed after it was dropped", snap.ID)
		}
	})
	return snap
}

// fork makes a box from a snapshot.
func (s *suite) fork(t *testing.T, b sandbox.Backend, snap sandbox.Snapshot) sandbox.Box {
	t.Helper()
	return s.box(t, b, sandbox.Spec{From: &snap})
}

// kept reports whether a snapshot is listed.
func (s *suite) kept(t *testing.T, b sandbox.Backend, id string) bool {
	t.Helper()
	all, err := b.Snapshots(context.Background())
	if err != nil {
		t.Fatalf("list of snapshots: %v", err)
	}
	return slices.ContainsFunc(all, func(x sandbox.Snapshot) bool { return x.ID == id })
}

// Files of all kinds, in the working directory and in the home directory.
const (
	makeFiles = `echo one > file && : > empty && mkdir -p deep/er closed && echo two > deep/er/file && chmod 640 file &&
		echo '#!/bin/sh' > tool && echo 'echo runs' >> tool && chmod 755 tool && chmod 700 closed &&
		ln -s deep/er link && ln -s /nowhere dangling && ln file twin && touch "odd name" .hidden &&
		echo home > "$HOME/mine" && mkdir -p "$HOME/bin" && cp tool "$HOME/bin/installed" && chmod 755 "$HOME/bin/installed" &&
		echo gone > gone && rm gone`
	showFiles = `ls -A | tr '\n' ,; echo; stat -c %a file tool closed | tr '\n' ,; echo; cat empty deep/er/file link/file; ./tool;
		readlink link dangling; echo more >> twin; cat file; cat "$HOME/mine"; "$HOME/bin/installed"`
)

// filesShown is what showFiles says of makeFiles. With split links, what was written
// to one name is not in the other.
func filesShown(split bool) string {
	lines := []string{".hidden,closed,dangling,deep,empty,file,link,odd name,tool,twin,",
		"640,755,700,", "two", "two", "runs", "deep/er", "/nowhere", "one"}
	if !split {
		lines = append(lines, "more")
	}
	return strings.Join(append(lines, "home", "runs"), "\n")
}

func (s *suite) snapshotFiles(t *testing.T, b sandbox.Backend) {
	box := s.box(t, b, sandbox.Spec{})
	s.sh(t, box, makeFiles)
	const installed = "/usr/local/bin/suite-installed"
	if b.Caps().Isolated { // the whole file system is the box's own
		s.sh(t, box, "cp tool "+installed+" && chmod 755 "+installed)
	}
	fork := s.fork(t, b, s.snapshot(t, b, box))
	s.want(t, fork, "LC_ALL=C; export LC_ALL; "+showFiles, filesShown(s.SplitLinks != ""))
	if b.Caps().Isolated {
		s.want(t, fork, installed, "runs")
	}
	s.want(t, box, "cat file", "one")
}

func (s *suite) snapshotRunning(t *testing.T, b sandbox.Backend) {
	box := s.box(t, b, sandbox.Spec{})
	s.sh(t, box, ticker)
	s.awaitTicks(t, box)
	fork := s.fork(t, b, s.snapshot(t, b, box))
	s.awaitTicks(t, box) // it goes on as it was
	if b.Caps().LiveSnapshot {
		s.awaitTicks(t, fork)
		return
	}
	if s.ticks(t, fork) == 0 {
		t.Error("the file that a program was writing is not in the snapshot")
	}
	s.standsStill(t, fork, "Caps do not promise live snapshots, and a program runs in the fork")
}

// standsStill makes sure that the ticker does not run.
func (s *suite) standsStill(t *testing.T, box sandbox.Box, text string) {
	t.Helper()
	before := s.ticks(t, box)
	s.sh(t, box, "sleep 0.7")
	if after := s.ticks(t, box); after != before {
		t.Errorf("%s: %d ticks, then %d", text, before, after)
	}
}

func (s *suite) snapshotPaused(t *testing.T, b sandbox.Backend) {
	if !b.Caps().Pause {
		return
	}
	box := s.box(t, b, sandbox.Spec{})
	s.sh(t, box, "echo kept > file; "+ticker)
	if err := box.Pause(s.context(t)); err != nil {
		t.Fatalf("pause: %v", err)
	}
	snap := s.snapshot(t, b, box)
	s.mustNotAnswer(t, box) // still frozen
	s.want(t, s.fork(t, b, snap), "cat file", "kept")
	if err := box.Resume(s.context(t)); err != nil {
		t.Fatalf("resume: %v", err)
	}
	s.awaitTicks(t, box)
}

func (s *suite) snapshotDead(t *testing.T, b sandbox.Backend) {
	box := s.box(t, b, sandbox.Spec{})
	s.sh(t, box, `echo kept > file; echo home > "$HOME/mine"`)
	if err := s.Crash(s.context(t), box); err != nil {
		t.Fatalf("crash: %v", err)
	}
	s.awaitDone(t, box)
	snap := s.snapshot(t, b, box)
	_, err := b.Adopt(s.context(t), box.Handle())
	wantKind(t, err, fault.Gone) // still dead
	s.want(t, s.fork(t, b, snap), `cat file "$HOME/mine"`, "kept\nhome")
	again, err := b.Restart(s.context(t), box.Handle())
	if err != nil {
		t.Fatalf("restart: %v", err)
	}
	s.want(t, again, `cat file "$HOME/mine"`, "kept\nhome")
}

// divergence: what happens in a box after the snapshot is seen nowhere else.
func (s *suite) divergence(t *testing.T, b sandbox.Backend) {
	box := s.box(t, b, sandbox.Spec{})
	s.sh(t, box, `echo first > file; mkdir dir; echo first > dir/file`)
	snap := s.snapshot(t, b, box)
	s.sh(t, box, `echo source > file; rm -r dir; echo source > new`)
	one := s.fork(t, b, snap)
	s.want(t, one, `cat file dir/file; test -e new || echo none`, "first\nfirst\nnone")
	s.sh(t, one, `echo fork >> file; echo fork > "$HOME/new"; rm dir/file`)
	two := s.fork(t, b, snap)
	s.want(t, two, `cat file dir/file; test -e "$HOME/new" || echo none`, "first\nfirst\nnone")
	s.want(t, box, `cat file new; test -e dir || echo none; test -e "$HOME/new" || echo none`, "source\nsource\nnone\nnone")
	// A fork is a box like any other: it can be started again over its files.
	if err := s.Crash(s.context(t), one); err != nil {
		t.Fatalf("crash: %v", err)
	}
	s.awaitDone(t, one)
	again, err := b.Restart(s.context(t), one.Handle())
	if err != nil {
		t.Fatalf("restart: %v", err)
	}
	s.want(t, again, `cat file "$HOME/new"; test -e dir/file || echo none`, "first\nfork\nfork\nnone")
}

// snapshotOfFork: what a fork removed and changed stays so in its own snapshots.
func (s *suite) snapshotOfFork(t *testing.T, b sandbox.Backend) {
	box := s.box(t, b, sandbox.Spec{})
	s.sh(t, box, `echo 0 > generation; mkdir dir; echo old > dir/old; echo kept > kept`)
	for i := range 3 {
		next := s.fork(t, b, s.snapshot(t, b, box))
		s.sh(t, next, `cat generation >> generations; echo x >> generation; rm -rf dir; mkdir dir; echo new > dir/new`)
		if got := s.sh(t, next, "wc -l < generations; ls dir; cat kept"); strings.Join(strings.Fields(got), " ") != []string{"1 new kept", "3 new kept", "6 new kept"}[i] {
			t.Errorf("generation %d: %q", i, got)
		}
		box = next
	}
}

func (s *suite) outlives(t *testing.T, b sandbox.Backend) {
	box := s.box(t, b, sandbox.Spec{})
	s.sh(t, box, "echo kept > file")
	snap := s.snapshot(t, b, box)
	if err := b.Destroy(s.context(t), box.Handle()); err != nil {
		t.Fatalf("destroy: %v", err)
	}
	other := s.backend(t) // a server that is started later
	if !s.kept(t, other, snap.ID) {
		t.Error("the snapshot is not listed after its box is gone")
	}
	s.want(t, s.fork(t, other, snap), "cat file", "kept")
}

func (s *suite) drop(t *testing.T, b sandbox.Backend) {
	box := s.box(t, b, sandbox.Spec{})
	s.sh(t, box, "echo kept > file")
	snap := s.snapshot(t, b, box)
	fork := s.fork(t, b, snap)
	for range 2 { // idempotent
		if err := b.DropSnapshot(s.context(t), snap); err != nil {
			t.Fatalf("drop: %v", err)
		}
	}
	if s.kept(t, b, snap.ID) {
		t.Error("a dropped snapshot is listed")
	}
	s.want(t, fork, "cat file; echo more > other; cat other", "kept\nmore")
	s.want(t, box, "cat file", "kept")
	if err := s.Crash(s.context(t), fork); err != nil {
		t.Fatalf("crash: %v", err)
	}
	s.awaitDone(t, fork)
	again, err := b.Restart(s.context(t), fork.Handle())
	if err != nil {
		t.Fatalf("restart of a fork whose snapshot was dropped: %v", err)
	}
	s.want(t, again, "cat file other", "kept\nmore")
	id := s.id()
	_, err = b.Create(s.context(t), sandbox.Spec{ID: id, From: &snap})
	wantKind(t, err, fault.NotFound)
	if s.listed(t, b, id) {
		t.Error("something is left of a box from a dropped snapshot")
	}
}

func (s *suite) badSnapshots(t *testing.T, b sandbox.Backend) {
	box := s.box(t, b, sandbox.Spec{})
	h := box.Handle()
	taken := s.snapshot(t, b, box)
	for name, c := range map[string]struct {
		h    sandbox.Handle
		id   string
		kind fault.Kind
	}{
		"no id":          {h, "", fault.Invalid},
		"a path":         {h, "../x", fault.Invalid},
		"a long id":      {h, strings.Repeat("a", 65), fault.Invalid},
		"a dot":          {h, ".", fault.Invalid},
		"a taken id":     {h, taken.ID, fault.Conflict},
		"an unknown box": {sandbox.Handle{Backend: h.Backend, ID: "never-was", Version: h.Version}, s.id(), fault.NotFound},
		"a foreign box":  {sandbox.Handle{Backend: "other", ID: h.ID, Version: h.Version}, s.id(), fault.Invalid},
	} {
		_, err := b.Snapshot(s.context(t), c.h, c.id)
		if !fault.Is(err, c.kind) {
			t.Errorf("snapshot with %s: %v, want %v", name, err, c.kind)
		}
		if c.id != taken.ID && s.kept(t, b, c.id) {
			t.Errorf("snapshot with %s: something is left", name)
		}
	}
	for name, c := range map[string]struct {
		from sandbox.Snapshot
		kind fault.Kind
	}{
		"unknown": {sandbox.Snapshot{Backend: b.Name(), ID: "never-was"}, fault.NotFound},
		"foreign": {sandbox.Snapshot{Backend: "other", ID: taken.ID}, fault.Invalid},
		"a path":  {sandbox.Snapshot{Backend: b.Name(), ID: "../" + taken.ID}, fault.Invalid},
	} {
		id := s.id()
		_, err := b.Create(s.context(t), sandbox.Spec{ID: id, From: &c.from})
		if !fault.Is(err, c.kind) {
			t.Errorf("a box from a snapshot that is %s: %v, want %v", name, err, c.kind)
		}
		if s.listed(t, b, id) {
			t.Errorf("a box from a snapshot that is %s: something is left", name)
		}
		err = b.DropSnapshot(s.context(t), c.from)
		if c.kind == fault.NotFound && err != nil || c.kind == fault.Invalid && !fault.Is(err, fault.Invalid) {
			t.Errorf("drop of a snapshot that is %s: %v", name, err)
		}
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	id := s.id()
	if _, err := b.Snapshot(cancelled, h, id); err == nil || s.kept(t, b, id) {
		t.Errorf("a cancelled snapshot: error %v, listed %v", err, s.kept(t, b, id))
	}
	s.sh(t, box, "true")
}

// manyForks makes boxes from one snapshot, and snapshots of one box, side by side.
func (s *suite) manyForks(t *testing.T, b sandbox.Backend) {
	box := s.box(t, b, sandbox.Spec{})
	s.sh(t, box, "echo kept > file")
	snap := s.snapshot(t, b, box)
	boxes := make([]sandbox.Box, 4)
	snaps := make([]sandbox.Snapshot, 4)
	var group errgroup.Group
	for i := range boxes {
		spec, id := sandbox.Spec{ID: s.id(), From: &snap}, s.id()
		group.Go(func() (err error) {
			boxes[i], err = b.Create(s.context(t), spec)
			return err
		})
		group.Go(func() (err error) {
			snaps[i], err = b.Snapshot(s.context(t), box.Handle(), id)
			return err
		})
	}
	err := group.Wait()
	for i := range boxes {
		if boxes[i] != nil {
			s.cleanUp(t, boxes[i])
		}
		if snaps[i].ID != "" {
			if err := b.DropSnapshot(s.context(t), snaps[i]); err != nil {
				t.Errorf("drop: %v", err)
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, fork := range boxes {
		s.want(t, fork, "cat file", "kept")
	}
	s.want(t, box, "cat file", "kept")
}
