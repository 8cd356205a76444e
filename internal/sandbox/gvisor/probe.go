package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/diskimage"
)

// probeWait bounds a trial; what is older was left by a server that was killed.
const probeWait = 30 * time.Second

// probeBytes is the size of a trial's disk.
const probeBytes = 64 << 20

// tryOnce tries unless the same was tried and worked.
func (b *Backend) tryOnce(ctx context.Context) error {
	what, err := b.tried()
	if err != nil {
		return err
	}
	if was, err := os.ReadFile(b.path(triedFile)); err == nil && string(was) == what {
		return nil
	}
	if err := b.try(ctx); err != nil {
		return err
	}
	return os.WriteFile(b.path(triedFile), []byte(what), 0o600)
}

// tried names what a trial is about: this start of the machine, this runsc, this
// program.
func (b *Backend) tried() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	info, err := os.Stat(b.options.Runsc)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s%s %d %d\n%s\n", boot, b.options.Runsc, info.Size(), info.ModTime().UnixNano(), b.program), nil
}

// try makes a box and asks whether sandboxd answers.
func (b *Backend) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	if err := b.sweepTrials(); err != nil {
		return err
	}
	path, err := os.MkdirTemp(b.options.Dir, probeDir)
	if err != nil {
		return err
	}
	d := dir(path)
	return errors.Join(b.tryIn(ctx, d), b.erase(d))
}

func (b *Backend) tryIn(ctx context.Context, d dir) error {
	g, err := b.newGround(ctx, sandbox.Spec{})
	if err != nil {
		return err
	}
	rec := record{Spec: sandbox.Spec{ID: probeID, WorkingDir: "/", Network: sandbox.Network{Mode: sandbox.NetworkNone}}, Ground: g}
	err = errors.Join(d.save(rec), b.disks.Create(ctx, d.path(diskFile), diskimage.Size{Bytes: probeBytes, Inodes: 1024}))
	if err != nil {
		return err
	}
	_, err = b.start(ctx, d, rec, "")
	return err
}

func (b *Backend) sweepTrials() error {
	left, err := filepath.Glob(b.path(probeDir + "*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range left {
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > 2*probeWait {
			errs = append(errs, b.erase(dir(path)))
		}
	}
	return errors.Join(errs...)
}

// Probe tries what the backend needs and says what holds on this machine. It leaves
// nothing of a box behind.
func Probe(ctx context.Context, o Options) []sandbox.Guarantee {
	b, err := newBackend(ctx, o, (*Backend).try)
	if err != nil {
		return []sandbox.Guarantee{{Name: "own_kernel", Detail: fault.PublicText(err)}}
	}
	list := b.guarantees()
	if err := b.Close(); err != nil {
		b.options.Logger.WarnContext(ctx, "the trial could not be ended", "error", err)
	}
	return list
}
