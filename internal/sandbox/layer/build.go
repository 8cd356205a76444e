package layer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// format changes whenever what is built changes.
const format = "1"

// Options say what to build.
type Options struct {
	Dir  string // holds one directory per generation
	Tops []Top
	// Base is the host's number of user and group 0 inside; the rest follows. -1:
	// everything inside has the id of this process.
	Base int
	// Skeleton also makes every visible directory in its layer, owned by an id
	// that exists inside. Where the host's ids do not exist inside, this is what
	// makes new files in them possible.
	Skeleton bool
	Path     string // PATH of login shells inside
	Hostname string
}

// Set is a built generation.
type Set struct {
	Gen  string `json:"gen"` // its name
	Dir  string `json:"-"`   // where it is
	Tops []Top  `json:"tops"`
}

// BaseDir is the lower directory of the root file system in Set.Dir.
const BaseDir = "base"

// setFile describes a finished generation.
const setFile = "set.json"

// Ensure returns the generation that fits the host as it is now, building it if
// needed: atomically, so that a half-built one is never used.
func Ensure(ctx context.Context, o Options) (*Set, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	gen, err := generation(o)
	if err != nil {
		return nil, err
	}
	if set, err := Load(o.Dir, gen); err == nil {
		return set, nil
	}
	tmp, err := os.MkdirTemp(o.Dir, ".new-")
	if err != nil {
		return nil, err
	}
	if err := build(ctx, o, tmp, gen); err != nil {
		return nil, errors.Join(err, os.RemoveAll(tmp))
	}
	final := filepath.Join(o.Dir, gen)
	if err := os.Rename(tmp, final); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, errors.Join(err, os.RemoveAll(tmp))
	}
	return Load(o.Dir, gen)
}

// Load returns a finished generation.
func Load(dir, gen string) (*Set, error) {
	set := &Set{Dir: filepath.Join(dir, gen)}
	data, err := os.ReadFile(filepath.Join(set.Dir, setFile))
	if err != nil {
		return nil, err
	}
	return set, json.Unmarshal(data, set)
}

// Sweep removes generations, and the rests of unfinished ones, but for keep.
func Sweep(dir string, keep map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if !keep[e.Name()] {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// generation names the state of the host that the layers depend on: all of /etc
// and, for the rest, what changes when software is installed or removed.
func generation(o Options) (string, error) {
	h := sha256.New()
	_, _ = fmt.Fprintln(h, format, o.Base, o.Skeleton, o.Path, o.Hostname, unix.Geteuid(), unix.Getegid())
	stamp := func(path string) {
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil {
			_, _ = fmt.Fprintln(h, path, st.Ino, st.Mode, st.Uid, st.Gid, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
		}
	}
	for _, t := range o.Tops {
		stamp(t.Path)
		entries, err := os.ReadDir(t.Path)
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			stamp(filepath.Join(t.Path, e.Name()))
		}
	}
	err := filepath.WalkDir("/etc", func(path string, _ fs.DirEntry, _ error) error {
		stamp(path) // unreadable directories are not shown either
		return nil
	})
	return hex.EncodeToString(h.Sum(nil))[:16], err
}

func build(ctx context.Context, o Options, dir, gen string) error {
	w := writer{options: o, dir: dir}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if err := w.base(); err != nil {
		return fmt.Errorf("base: %w", err)
	}
	for _, t := range o.Tops {
		if err := w.top(ctx, t); err != nil {
			return fmt.Errorf("layer of %s: %w", t.Path, err)
		}
	}
	data, err := json.Marshal(Set{Gen: gen, Tops: o.Tops})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, setFile), data, 0o644)
}

// writer makes entries below dir with the owners that boxes see.
type writer struct {
	options Options
	dir     string
}

func (w writer) path(rel string) string { return filepath.Join(w.dir, rel) }

// own gives the entry the owner inside that uid and gid are outside.
func (w writer) own(rel string, uid, gid uint32) error {
	if w.options.Base < 0 {
		return nil
	}
	if uid >= idCount || gid >= idCount {
		uid, gid = nobody, nobody
	}
	return os.Lchown(w.path(rel), w.options.Base+int(uid), w.options.Base+int(gid))
}

// The ids that exist inside, and the one that stands for all others.
const (
	idCount = 65536
	nobody  = 65534
)

// mkdir makes a directory with exactly this mode.
func (w writer) mkdir(rel string, mode uint32, uid, gid uint32) error {
	if err := unix.Mkdir(w.path(rel), 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "mkdir", Path: rel, Err: err}
	}
	if err := w.own(rel, uid, gid); err != nil {
		return err
	}
	return unix.Chmod(w.path(rel), mode&0o7777)
}

func (w writer) file(rel string, mode uint32, text string) error {
	if err := os.WriteFile(w.path(rel), []byte(text), 0o600); err != nil {
		return err
	}
	if err := w.own(rel, 0, 0); err != nil {
		return err
	}
	return unix.Chmod(w.path(rel), mode)
}

func (w writer) link(rel, target string) error {
	if err := os.Symlink(target, w.path(rel)); err != nil {
		return err
	}
	return w.own(rel, 0, 0)
}

// maxCopy bounds a copied file: configuration and databases are smaller.
const maxCopy = 4 << 20

// copy copies a regular file of the host with its mode, owner and time.
func (w writer) copy(from, rel string, st *unix.Stat_t) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(w.path(rel), data, 0o600); err != nil {
		return err
	}
	if err := w.own(rel, st.Uid, st.Gid); err != nil {
		return err
	}
	if err := unix.Chmod(w.path(rel), st.Mode&0o777); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, w.path(rel), []unix.Timespec{st.Mtim, st.Mtim}, 0)
}

// readable reports whether every account of the host may read the entry.
func readable(st *unix.Stat_t) bool {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return true
	case unix.S_IFREG:
		return st.Mode&0o004 != 0
	case unix.S_IFDIR:
		return st.Mode&0o005 == 0o005
	}
	return false // sockets, pipes and devices of the host are nobody's inside
}

// top builds the layer above one visible directory.
func (w writer) top(ctx context.Context, t Top) error {
	var st unix.Stat_t
	if err := unix.Lstat(t.Path, &st); err != nil {
		return err
	}
	if err := w.mkdir(t.Name, st.Mode, st.Uid, st.Gid); err != nil {
		return err
	}
	dev, err := device(t.Path)
	if err != nil {
		return err
	}
	v := visitor{writer: w, ctx: ctx, top: t, dev: dev, made: map[string]bool{".": true}}
	if w.options.Skeleton {
		return v.dir(".")
	}
	for _, rel := range t.Deep {
		if public(filepath.Join(t.Path, rel)) {
			if err := v.dir(rel); err != nil {
				return err
			}
		}
	}
	return nil
}

// visitor walks a visible directory of the host.
type visitor struct {
	writer
	ctx  context.Context
	top  Top
	dev  uint64
	made map[string]bool // directories that exist in the layer
}

func (v *visitor) host(rel string) string  { return filepath.Join(v.top.Path, rel) }
func (v *visitor) layer(rel string) string { return filepath.Join(v.top.Name, rel) }

// dir visits the entries of a directory. What vanishes meanwhile is left out.
func (v *visitor) dir(rel string) error {
	if err := v.ctx.Err(); err != nil {
		return err
	}
	entries, err := os.ReadDir(v.host(rel))
	if err != nil {
		return nil //nolint:nilerr // removed or unreadable: nothing to show or to hide
	}
	for _, e := range entries {
		// Names alone suffice where files are neither hidden nor copied.
		if !e.IsDir() && !v.wantsFiles(rel) {
			continue
		}
		if err := v.entry(filepath.Join(rel, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (v *visitor) wantsFiles(rel string) bool {
	for _, deep := range v.top.Deep {
		if deep == "." || Within(rel, deep) {
			return true
		}
	}
	return false
}

func (v *visitor) entry(rel string) error {
	var st unix.Stat_t
	if err := unix.Lstat(v.host(rel), &st); err != nil {
		return nil //nolint:nilerr // removed meanwhile
	}
	if !readable(&st) {
		return v.hide(rel)
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Dev == v.dev: //nolint:unconvert // see device
		if v.options.Skeleton {
			if err := v.parent(filepath.Join(rel, "x")); err != nil {
				return err
			}
		}
		return v.dir(rel)
	case v.options.Skeleton && v.copies(rel, &st):
		if err := v.copy(v.host(rel), v.layer(rel), &st); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// copies says whether a file is copied into the layer: what package managers
// write in place. Their long lists they replace as whole files.
func (v *visitor) copies(rel string, st *unix.Stat_t) bool {
	first, _, _ := strings.Cut(rel, "/")
	return v.top.Copy && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size <= maxCopy &&
		first != "info" && first != "lists"
}

// hide puts a whiteout over an entry.
func (v *visitor) hide(rel string) error {
	if err := v.parent(rel); err != nil {
		return err
	}
	if err := unix.Mknod(v.writer.path(v.layer(rel)), unix.S_IFCHR, int(unix.Mkdev(0, 0))); err != nil {
		return &os.PathError{Op: "whiteout", Path: rel, Err: err}
	}
	return nil
}

// parent makes the directories above rel in the layer. The topmost layer decides
// what a directory looks like, so they get the host's owner and mode.
func (v *visitor) parent(rel string) error {
	dir := filepath.Dir(rel)
	if v.made[dir] {
		return nil
	}
	if err := v.parent(dir); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(v.host(dir), &st); err != nil {
		return err
	}
	v.made[dir] = true
	return v.mkdir(v.layer(dir), st.Mode, st.Uid, st.Gid)
}
