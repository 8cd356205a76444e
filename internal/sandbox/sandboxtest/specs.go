package sandboxtest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"parley/internal/fault"
	"parley/internal/sandbox"
)

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
	if b.Caps().Pause {
		wantKind(t, box.Pause(s.context(t)), fault.Gone)
	}
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
		"negative disk":     {ID: s.id(), Limits: sandbox.Limits{DiskBytes: -1}},
		"negative cpu":      {ID: s.id(), Limits: sandbox.Limits{CPUs: -0.5}},
		"network allow":     {ID: s.id(), Network: sandbox.Network{Mode: sandbox.NetworkAllow, Allow: []string{"no host: at all"}}},
		"image":             {ID: s.id(), Image: "Not An Image"},
		"runtime":           {ID: s.id(), Runtime: "no-such-runtime"},
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
	if b := s.backend(t); b.Caps().Mounts {
		s.mountInto(t, b)
	}
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

// many makes many boxes side by side.
func (s *suite) many(t *testing.T) {
	b := s.backend(t)
	count := 24
	if b.Caps().Slow {
		count = 6
	}
	boxes := make([]sandbox.Box, count)
	var group errgroup.Group
	group.SetLimit(8)
	for i := range count {
		spec := sandbox.Spec{ID: s.id()}
		group.Go(func() (err error) {
			boxes[i], err = b.Create(s.context(t), spec)
			return err
		})
	}
	err := group.Wait()
	for _, box := range boxes {
		if box != nil {
			s.cleanUp(t, box)
		}
	}
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	for i, box := range boxes {
		s.sh(t, box, fmt.Sprintf("echo %d > number", i))
	}
	for i, box := range boxes {
		s.want(t, box, "cat number", strconv.Itoa(i))
		if !s.listed(t, b, box.Handle().ID) {
			t.Errorf("box %d is not listed", i)
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

// image makes a box from a container image.
func (s *suite) image(t *testing.T) {
	b := s.backend(t)
	if !b.Caps().Images {
		return
	}
	if s.Image == "" {
		t.Fatal("Caps promise images and Options.Image is not set: the suite has no image to try")
	}
	box := s.box(t, b, sandbox.Spec{Image: s.Image})
	s.want(t, box, "echo kept > file; cat file; test -x /bin/sh && pwd -P", "kept\n"+sandbox.WorkingDir)
	if err := s.Crash(s.context(t), box); err != nil {
		t.Fatalf("crash: %v", err)
	}
	s.awaitDone(t, box)
	again, err := b.Restart(s.context(t), box.Handle())
	if err != nil {
		t.Fatalf("restart: %v", err)
	}
	s.want(t, again, "cat file", "kept")
	none := sandbox.Spec{ID: s.id(), Image: "127.0.0.1:1/suite/none:none"}
	if _, err := b.Create(s.context(t), none); err == nil || fault.KindOf(err) == fault.Internal {
		t.Errorf("an image that cannot be had: %v, want a fault that says so", err)
	}
	if s.listed(t, b, none.ID) {
		t.Error("something is left of a box whose image cannot be had")
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
