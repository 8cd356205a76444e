package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
)

// TestFullDisk fills a small file system of its own.
func TestFullDisk(t *testing.T) {
	cmd := child(t, "full", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.Output()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		t.Skipf("this machine does not allow user namespaces: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestFileSizeLimit makes the disk fail without being full.
func TestFileSizeLimit(t *testing.T) {
	if out, err := child(t, "limit", t.TempDir()).Output(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// grower appends to one log and knows what was acknowledged.
type grower struct {
	s    *sqlstore.Store
	id   conversation.ID
	head int64
}

func newGrower(ctx context.Context, s *sqlstore.Store, id string) (*grower, error) {
	return &grower{s: s, id: conversation.ID(id)}, s.Conversations().Create(ctx, &conversation.Conversation{ID: conversation.ID(id)})
}

func (g *grower) grow(ctx context.Context, bytes int) error {
	e := event(int(g.head))
	e.Raw = []byte(`"` + strings.Repeat("x", bytes) + `"`)
	err := g.s.Events().Append(ctx, store.Append{Conversation: g.id, ExpectHead: g.head, Events: []conversation.Event{e}})
	if err == nil {
		g.head++
	}
	return err
}

// check compares what is visible with what was acknowledged.
func (g *grower) check(ctx context.Context) error {
	c, err := g.s.Conversations().Get(ctx, "", g.id)
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	events, err := g.s.Events().Read(ctx, g.id, -1, 1<<20)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if c.Summary.Head != g.head || int64(len(events)) != g.head {
		return fmt.Errorf("%d appends were acknowledged, the head is %d with %d events", g.head, c.Summary.Head, len(events))
	}
	return nil
}

// growUntil appends until code appears.
func (g *grower) growUntil(ctx context.Context, code string) error {
	for range 10_000 {
		err := g.grow(ctx, 40_000)
		if err == nil {
			continue
		}
		if fault.CodeOf(err) != code || !fault.Is(err, fault.Unavailable) {
			return fmt.Errorf("append on a bad disk: %w, want code %s", err, code)
		}
		return nil
	}
	return errors.New("the disk never failed")
}

func childFull(dir string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m,mode=0700"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 10<<20), 0o600); err != nil {
		return err
	}
	ctx := context.Background()
	s, err := openDir(ctx, dir)
	if err != nil {
		return err
	}
	g, err := newGrower(ctx, s, "c")
	if err != nil {
		return err
	}
	if err := g.growUntil(ctx, store.CodeStoreFull); err != nil {
		return err
	}
	if err := spendUntil(ctx, s, store.CodeStoreFull); err != nil {
		return err
	}
	if err := groupOnFullDisk(ctx, s); err != nil {
		return err
	}
	if err := errors.Join(forkRefused(ctx, s, store.CodeStoreFull), extendRefused(ctx, s, store.CodeStoreFull),
		connectRefused(ctx, s, store.CodeStoreFull)); err != nil {
		return err
	}
	if err := g.check(ctx); err != nil {
		return fmt.Errorf("while full: %w", err)
	}
	if err := os.Remove(ballast); err != nil { // space returns
		return err
	}
	if err := errors.Join(g.grow(ctx, 100), g.grow(ctx, 100_000), s.Ping(ctx), g.check(ctx)); err != nil {
		return fmt.Errorf("after space returned: %w", err)
	}
	if err := errors.Join(forkAccepted(ctx, s), extend(ctx, s, "c", "secret", 1000), connectRepeatedly(ctx, s, brokenBox, 50)); err != nil {
		return fmt.Errorf("after space returned: %w", err)
	}
	if err := g.growUntil(ctx, store.CodeStoreFull); err != nil {
		return fmt.Errorf("second time: %w", err)
	}
	return reopenFull(ctx, s, dir, g)
}

// groupOnFullDisk hands many writes in at once: each is told, none is visible.
func groupOnFullDisk(ctx context.Context, s *sqlstore.Store) error {
	errs := make([]error, 20)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			id := conversation.ID(fmt.Sprint("group-", i))
			title := strings.Repeat("t", 400_000)
			errs[i] = s.Conversations().Create(ctx, &conversation.Conversation{ID: id, Title: title})
		})
	}
	wg.Wait()
	for i, err := range errs {
		if fault.CodeOf(err) != store.CodeStoreFull {
			return fmt.Errorf("write %d of a group on a full disk: %w", i, err)
		}
		if _, err := s.Conversations().Get(ctx, "", conversation.ID(fmt.Sprint("group-", i))); !fault.Is(err, fault.NotFound) {
			return fmt.Errorf("write %d was refused and is visible: %w", i, err)
		}
	}
	return nil
}

// reopenFull starts on a full disk: what is there can be read.
func reopenFull(ctx context.Context, s *sqlstore.Store, dir string, g *grower) error {
	if err := s.Close(); err != nil {
		return fmt.Errorf("close on a full disk: %w", err)
	}
	s, err := openDir(ctx, dir)
	if err != nil {
		return fmt.Errorf("open on a full disk: %w", err)
	}
	g.s = s
	return errors.Join(g.check(ctx), s.Close())
}

func childLimit(dir string) error {
	signal.Ignore(unix.SIGXFSZ)
	ctx := context.Background()
	s, err := openDir(ctx, dir)
	if err != nil {
		return err
	}
	g, err := newGrower(ctx, s, "c")
	if err != nil {
		return err
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: old.Max}); err != nil {
		return err
	}
	if err := g.growUntil(ctx, store.CodeStoreReadOnly); err != nil {
		return err
	}
	if err := spendUntil(ctx, s, store.CodeStoreReadOnly); err != nil {
		return err
	}
	if err := errors.Join(forkRefused(ctx, s, store.CodeStoreReadOnly), extendRefused(ctx, s, store.CodeStoreReadOnly),
		connectRefused(ctx, s, store.CodeStoreReadOnly)); err != nil {
		return err
	}
	if err := g.check(ctx); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	return errors.Join(forkAccepted(ctx, s), extend(ctx, s, "c", "secret", 1<<20), connectRepeatedly(ctx, s, brokenBox, 50),
		g.grow(ctx, 2<<20), g.check(ctx), s.Close())
}
