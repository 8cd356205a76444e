// Package diskimage keeps the writable files of a box in one sparse file of fixed
// size that holds an ext4 file system. So the box cannot take more bytes or files
// than it may, what it takes is known without a walk, a copy of it is one of the
// used parts of one file, and what is deleted inside frees space outside.
//
// An image is shown by a loop device that the kernel detaches by itself after the
// last use, and by mounts that are attached nowhere in the host's tree: nothing is
// left of either when the box and the server are gone. Where an image is attached
// is asked of the kernel, never remembered: a lock on the file that goes with the
// loop device keeps it from being attached twice.
package diskimage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Size bounds a file system. The tables of the inodes, 256 bytes each, and the
// journal are part of Bytes.
type Size struct {
	Bytes  int64
	Inodes int64
}

// Bounds of Size: below them mkfs makes no journal, above them no ext4.
const (
	minBytes  = 16 << 20
	maxBytes  = 16 << 40
	minInodes = 64
	maxInodes = 1 << 31
	// The tables of inodes, 256 bytes each, take a quarter of the disk at most.
	leastPerInode = 1 << 10
)

// Waiting for programs and for the kernel.
const (
	toolWait  = 2 * time.Minute // e2fsck of a large image
	busyPause = 2 * time.Millisecond
)

// most bounds the templates that are kept.
const most = 8

// Store makes images. Formatted empty ones are kept as templates in its directory,
// one for each size: a copy of the few used parts of one is much faster than mkfs.
type Store struct {
	dir   string
	owner int
	mkfs  string
	fsck  string // "" = there is none

	mu sync.Mutex // serialises the making of templates
}

// Open returns the store with its templates in dir. owner is the number of the
// user and the group that the root directories of images belong to. The error says
// what this machine lacks.
func Open(ctx context.Context, dir string, owner int) (*Store, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("disk images need a server that runs as root")
	}
	mkfs, err := program("mkfs.ext4")
	if err != nil {
		return nil, errors.New("there is no mkfs.ext4: install e2fsprogs")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := &Store{dir: dir, owner: owner, mkfs: mkfs}
	s.fsck, _ = program("e2fsck") // missing: the kernel's replay of the journal must do
	s.sweep()
	if err := s.try(ctx); err != nil {
		return nil, fmt.Errorf("disk images cannot be used: %w", err)
	}
	return s, nil
}

// program finds a program of the system's, which may not be on an ordinary PATH.
func program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

// try makes and mounts a small image.
func (s *Store) try(ctx context.Context) error {
	f, err := os.CreateTemp(s.dir, tempPrefix)
	if err != nil {
		return err
	}
	path := f.Name()
	defer func() { _ = os.Remove(path) }()
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	if err := s.Create(ctx, path, Size{Bytes: minBytes, Inodes: minInodes}); err != nil {
		return err
	}
	m, err := s.Mount(ctx, path)
	if err != nil {
		return err
	}
	return m.Close()
}

// tempPrefix begins the names of what is not finished.
const tempPrefix = "new-"

// sweep removes what a killed server left half-made, and templates beyond the
// newest few.
func (s *Store) sweep() {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	var templates []os.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil:
		case strings.HasPrefix(e.Name(), tempPrefix):
			if time.Since(info.ModTime()) > toolWait {
				_ = os.Remove(filepath.Join(s.dir, e.Name()))
			}
		default:
			templates = append(templates, info)
		}
	}
	slices.SortFunc(templates, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, t := range templates[min(most, len(templates)):] {
		_ = os.Remove(filepath.Join(s.dir, t.Name()))
	}
}

// Create makes the image of an empty file system at path, which must not exist.
// On error nothing is left. The size may become a little larger: inodes come in
// groups.
func (s *Store) Create(ctx context.Context, path string, size Size) error {
	size = size.rounded()
	template := s.template(size)
	err := copyFile(ctx, template, path)
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := s.format(ctx, template, size); err != nil {
		return err
	}
	return copyFile(ctx, template, path)
}

// Fits reports whether the image at path has the size that Create would give it.
// No image fits nothing.
func (s *Store) Fits(path string, size Size) (bool, error) {
	want := s.template(size.rounded())
	has, err := readSuper(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	made, err := readSuper(want)
	if errors.Is(err, os.ErrNotExist) { // an image of this size was never made
		return false, nil
	}
	return err == nil && has.blocks == made.blocks && has.inodes == made.inodes, err
}

func (s *Store) template(size Size) string {
	return filepath.Join(s.dir, fmt.Sprintf("%d-%d-%d.ext4", size.Bytes, size.Inodes, s.owner))
}

func (z Size) rounded() Size {
	z.Bytes = min(max(z.Bytes, minBytes), maxBytes) &^ 4095
	z.Inodes = min(max(z.Inodes, minInodes), maxInodes, z.Bytes/leastPerInode)
	return z
}

// format makes a template.
func (s *Store) format(ctx context.Context, template string, size Size) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := os.Lstat(template); err == nil {
		return nil
	}
	s.sweep() // sizes may be many
	f, err := os.CreateTemp(s.dir, tempPrefix)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if err := errors.Join(f.Truncate(size.Bytes), f.Close()); err != nil {
		return err
	}
	// Tables and journal are not written: a sparse file is zero already. Nothing is
	// kept back for the host's root, and no place for growing.
	err = run(ctx, s.mkfs, "-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-I", "256", "-N", fmt.Sprint(size.Inodes),
		"-O", "has_journal,extent,flex_bg,^resize_inode", "-J", fmt.Sprintf("size=%d", journalMiB(size.Bytes)),
		"-E", fmt.Sprintf("lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=%d:%d", s.owner, s.owner), f.Name())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), template)
}

// journalMiB keeps the journal small: all of it is written sooner or later, in
// every image, and is part of every copy.
func journalMiB(size int64) int64 { return min(8, max(4, size>>28)) }

// check makes an image that was not closed cleanly fit to be mounted, as after a
// crash of the machine.
func (s *Store) check(ctx context.Context, path string) error {
	dirty, err := needsCheck(path)
	if err != nil || !dirty || s.fsck == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, toolWait)
	defer cancel()
	err = run(ctx, s.fsck, "-p", path)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 { // errors were corrected
		return nil
	}
	return err
}

// super is what matters of a superblock.
type super struct {
	blocks, inodes uint32
	dirty          bool // not closed cleanly, or errors were found
}

// Where a superblock is, and how long.
const (
	superStart = 1024
	superSize  = 1024
)

func readSuper(path string) (super, error) {
	f, err := os.Open(path)
	if err != nil {
		return super{}, err
	}
	defer func() { _ = f.Close() }()
	data := make([]byte, superSize)
	n, err := f.ReadAt(data, superStart)
	if err != nil && !errors.Is(err, io.EOF) {
		return super{}, fmt.Errorf("superblock: %w", err)
	}
	return parseSuper(data[:n])
}

// parseSuper reads struct ext4_super_block.
func parseSuper(data []byte) (super, error) {
	const blocksAt, magicAt, stateAt, incompatAt = 0x04, 0x38, 0x3a, 0x60
	const magic, errorsFound, recovery = 0xef53, 2, 4
	if len(data) != superSize || binary.LittleEndian.Uint16(data[magicAt:]) != magic {
		return super{}, errors.New("there is no ext4 file system")
	}
	return super{inodes: binary.LittleEndian.Uint32(data), blocks: binary.LittleEndian.Uint32(data[blocksAt:]),
		dirty: data[stateAt]&errorsFound != 0 || data[incompatAt]&recovery != 0}, nil
}

// needsCheck reports whether an image was not closed cleanly.
func needsCheck(path string) (bool, error) {
	s, err := readSuper(path)
	return s.dirty, err
}

// run runs a program with an empty environment; its output goes into the error.
func run(ctx context.Context, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"LC_ALL=C"}
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(path), err, strings.TrimSpace(string(out[:min(len(out), 1024)])))
	}
	return nil
}

// wait pauses between two looks.
func wait(ctx context.Context) error {
	timer := time.NewTimer(busyPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// retry repeats a call that a signal interrupted.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
