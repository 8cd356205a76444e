package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
)

// Bounds of an entry.
const (
	maxPath   = 3072 // bytes; the kernel takes 4095, with the store's own
	maxName   = 255  // bytes of one part of a path
	maxTarget = 4095 // bytes of a symbolic link
	maxXattrs = 64
	maxXattr  = 64 << 10 // bytes of one
)

// Names that say what a layer hides of those below it (OCI image specification
// 1.1, layers).
const (
	whiteout     = ".wh."
	whiteoutMeta = ".wh..wh." // of aufs; but for the next one they mean nothing
	opaque       = ".wh..wh..opq"
)

// layerInfo is what is known of an unpacked layer beside its files. Paths are
// relative to it, without links, and need not be UTF-8.
type layerInfo struct {
	Bytes    int64    `json:"bytes"` // of its regular files
	Files    int64    `json:"files"` // entries
	Hidden   [][]byte `json:"hidden,omitempty"`
	Opaque   [][]byte `json:"opaque,omitempty"`
	Implicit [][]byte `json:"implicit,omitempty"` // directories that only paths mention
}

// unpacker writes one layer's entries below a new directory. Parents of entries
// are resolved by the kernel as if the directory were the root, so that no link
// leads out of it; the last part of a path is never followed. Nobody else may write
// there.
type unpacker struct {
	root   *os.File
	name   string // of root, as the kernel calls it
	owners bool   // set owners and keep modes as they are
	budget *budget

	hidden, opaque, implicit map[string]bool
	times                    map[string]unix.Timespec // of directories
	bytes, files             int64

	parent     *os.File // the last one that was used
	parentPath string
	parentReal string
	buf        []byte
}

func newUnpacker(dir string, owners bool, b *budget) (*unpacker, error) {
	root, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	name, err := os.Readlink(fdPath(root))
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return &unpacker{root: root, name: name, owners: owners, budget: b, hidden: map[string]bool{}, opaque: map[string]bool{},
		implicit: map[string]bool{".": true}, times: map[string]unix.Timespec{}, buf: make([]byte, 128<<10)}, nil
}

func fdPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

func (u *unpacker) close() {
	u.forget()
	_ = u.root.Close()
}

// all writes every entry of a tar. Errors of the tar itself are not classified.
func (u *unpacker) all(r io.Reader) error {
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return u.finish()
		}
		if err != nil {
			return err
		}
		if err := u.budget.take(0, 1); err != nil {
			return err
		}
		u.files++
		if err := u.entry(h, t); err != nil {
			return err
		}
	}
}

func hostile(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, CodeHostile, "A layer of the image is refused: "+format, args...)
}

// cleanName returns a path of a tar relative to its root. A leading slash means
// the root, as everywhere; what climbs is refused.
func cleanName(name string) (string, error) {
	if len(name) > maxPath || strings.ContainsRune(name, 0) {
		return "", hostile("an entry's path is longer than %d bytes or has a zero byte.", maxPath)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", hostile("the path %s climbs out of a directory.", quote(name))
		}
		if len(part) > maxName {
			return "", hostile("a part of the path %s is longer than %d bytes.", quote(name), maxName)
		}
	}
	return path.Clean(strings.TrimLeft(name, "/")), nil
}

func (u *unpacker) entry(h *tar.Header, data io.Reader) error {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeDir, tar.TypeSymlink, tar.TypeLink:
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo, tar.TypeXGlobalHeader:
		return nil // boxes have devices of their own
	default:
		return hostile("the entry %s has an unknown type.", quote(h.Name))
	}
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	if strings.HasPrefix(base, whiteout) {
		return u.hide(dir, base)
	}
	if strings.HasPrefix(name, whiteoutMeta) || strings.Contains(name, "/"+whiteoutMeta) {
		return nil
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return hostile("its root is no directory.")
		}
		delete(u.implicit, ".")
		return u.describeDir(u.root, ".", h)
	}
	parent, err := u.open(dir)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.dir(parent, base, h)
	case tar.TypeSymlink:
		return u.symlink(parent, base, h)
	case tar.TypeLink:
		return u.link(parent, base, h)
	}
	return u.file(parent, base, h, data)
}

// open returns the directory of an entry, and makes it if nothing was said of it.
// It is valid until the next call.
func (u *unpacker) open(dir string) (*os.File, error) {
	if dir == "." {
		u.forget()
		u.parentReal = "."
		return u.root, nil
	}
	if u.parent != nil && u.parentPath == dir {
		return u.parent, nil
	}
	u.forget()
	f, err := u.resolve(dir)
	if errors.Is(err, unix.ENOENT) {
		f, err = u.makeParents(dir)
	}
	if err != nil {
		return nil, broken(err, dir)
	}
	real, err := u.real(f)
	if err == nil && len(real) > maxPath {
		err = unix.ENAMETOOLONG
	}
	if err != nil {
		_ = f.Close()
		return nil, broken(err, dir)
	}
	u.parent, u.parentPath, u.parentReal = f, dir, real
	return f, nil
}

// broken classifies what a path meets that leads nowhere.
func broken(err error, dir string) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENAMETOOLONG) {
		return fault.Wrap(err, fault.Invalid, CodeHostile, "A layer of the image is refused: %s is no directory, and something lies below it.", quote(dir))
	}
	return err
}

func (u *unpacker) forget() {
	if u.parent != nil {
		_ = u.parent.Close()
		u.parent = nil
	}
}

// resolve opens a directory inside.
func (u *unpacker) resolve(dir string) (*os.File, error) {
	fd, err := unix.Openat2(int(u.root.Fd()), dir, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV})
	if err != nil {
		return nil, &os.PathError{Op: "openat2", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// real is the path of an open directory below the root, without links.
func (u *unpacker) real(f *os.File) (string, error) {
	full, err := os.Readlink(fdPath(f))
	if err != nil {
		return "", err
	}
	if full == u.name {
		return ".", nil
	}
	rel, ok := strings.CutPrefix(full, u.name+"/")
	if !ok {
		return "", hostile("a path leads out of it.")
	}
	return rel, nil
}

// makeParents makes the directories that a path only mentions.
func (u *unpacker) makeParents(dir string) (*os.File, error) {
	at := "."
	for part := range strings.SplitSeq(dir, "/") {
		next := path.Join(at, part)
		f, err := u.resolve(next)
		if errors.Is(err, unix.ENOENT) {
			f, err = u.makeParent(at, next, part)
		}
		if err != nil {
			return nil, err
		}
		_ = f.Close()
		at = next
	}
	return u.resolve(dir)
}

func (u *unpacker) makeParent(at, next, part string) (*os.File, error) {
	if err := u.budget.take(0, 1); err != nil {
		return nil, err
	}
	above, err := u.resolve(at)
	if err != nil {
		return nil, err
	}
	defer func() { _ = above.Close() }()
	if err := unix.Mkdirat(int(above.Fd()), part, 0o755); err != nil { // a link that leads nowhere
		return nil, &os.PathError{Op: "mkdirat", Path: next, Err: err}
	}
	f, err := u.resolve(next)
	if err != nil {
		return nil, err
	}
	real, err := u.real(f)
	if err == nil {
		err = f.Chmod(0o755) // whatever the umask is
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	u.files++
	u.implicit[real] = true
	return f, nil
}

// hide keeps what a whiteout is for.
func (u *unpacker) hide(dir, base string) error {
	if strings.HasPrefix(base, whiteoutMeta) && base != opaque {
		return nil
	}
	hidden := strings.TrimPrefix(base, whiteout)
	if hidden == "" || hidden == "." || hidden == ".." {
		return hostile("the whiteout %s names nothing.", quote(base))
	}
	real := dir
	if f, err := u.resolve(dir); err == nil {
		real, err = u.real(f)
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	if base == opaque {
		u.opaque[real] = true
	} else {
		u.hidden[path.Join(real, hidden)] = true
	}
	return nil
}

// remove makes room for an entry that the layer has twice.
func (u *unpacker) remove(parent *os.File, base string) error {
	err := unix.Unlinkat(int(parent.Fd()), base, 0)
	if errors.Is(err, unix.EISDIR) {
		err = os.RemoveAll(fdPath(parent) + "/" + base)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// make runs what makes an entry, and once more if something is in its place.
func (u *unpacker) make(parent *os.File, base string, create func() error) error {
	err := create()
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := u.remove(parent, base); err != nil {
		return err
	}
	return create()
}

func (u *unpacker) dir(parent *os.File, base string, h *tar.Header) error {
	real := path.Join(u.parentReal, base)
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(int(parent.Fd()), base, flags, 0)
	if err != nil {
		err = u.make(parent, base, func() error { return unix.Mkdirat(int(parent.Fd()), base, 0o700) })
		if err == nil {
			fd, err = unix.Openat(int(parent.Fd()), base, flags, 0)
		}
	}
	if err != nil {
		return &os.PathError{Op: "mkdir", Path: h.Name, Err: err}
	}
	f := os.NewFile(uintptr(fd), base)
	defer func() { _ = f.Close() }()
	delete(u.implicit, real)
	return u.describeDir(f, real, h)
}

// describeDir gives a directory what the tar says of it. Its time comes last,
// since it changes with what is made in it.
func (u *unpacker) describeDir(f *os.File, real string, h *tar.Header) error {
	if err := u.describe(f, h, 0o700); err != nil {
		return err
	}
	u.times[real] = timespec(h)
	return nil
}

func timespec(h *tar.Header) unix.Timespec {
	return unix.Timespec{Sec: h.ModTime.Unix(), Nsec: int64(h.ModTime.Nanosecond())}
}

// describe sets owner, mode and attributes. As an ordinary user the entry is the
// user's, and the user has at least the rights of least.
func (u *unpacker) describe(f *os.File, h *tar.Header, least uint32) error {
	mode := uint32(h.Mode) & 0o7777
	if u.owners {
		uid, gid, err := owner(h)
		if err != nil {
			return err
		}
		if err := f.Chown(uid, gid); err != nil {
			return err
		}
	} else {
		mode |= least
	}
	if err := unix.Fchmod(int(f.Fd()), mode); err != nil {
		return &os.PathError{Op: "chmod", Path: h.Name, Err: err}
	}
	return u.attributes(f, h)
}

func owner(h *tar.Header) (uid, gid int, err error) {
	const most = 1<<32 - 2 // the one above means "leave it"
	if h.Uid < 0 || h.Gid < 0 || int64(h.Uid) > most || int64(h.Gid) > most {
		return 0, 0, hostile("the entry %s has an owner that cannot be.", quote(h.Name))
	}
	return h.Uid, h.Gid, nil
}

// xattrPrefix is where tars have extended attributes (PAX, as star writes them).
const xattrPrefix = "SCHILY.xattr."

// attributes keeps capabilities of programs and what users say of files. Those of
// overlay file systems would change what a box sees.
func (u *unpacker) attributes(f *os.File, h *tar.Header) error {
	kept := 0
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, xattrPrefix)
		if !ok || !keptAttribute(name) {
			continue
		}
		if kept++; kept > maxXattrs || len(value) > maxXattr || len(name) > maxName {
			return hostile("the entry %s has too many or too large attributes.", quote(h.Name))
		}
		_ = unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0) // where the file system and our rights have room for it
	}
	return nil
}

func keptAttribute(name string) bool {
	return name == "security.capability" || strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.")
}

func (u *unpacker) symlink(parent *os.File, base string, h *tar.Header) error {
	if h.Linkname == "" || len(h.Linkname) > maxTarget || strings.ContainsRune(h.Linkname, 0) {
		return hostile("the link %s has no or too long a target.", quote(h.Name))
	}
	fd := int(parent.Fd())
	if err := u.make(parent, base, func() error { return unix.Symlinkat(h.Linkname, fd, base) }); err != nil {
		return &os.PathError{Op: "symlink", Path: h.Name, Err: err}
	}
	if u.owners {
		uid, gid, err := owner(h)
		if err != nil {
			return err
		}
		if err := unix.Fchownat(fd, base, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return &os.PathError{Op: "lchown", Path: h.Name, Err: err}
		}
	}
	u.stamp(parent, base, h)
	return nil
}

// stamp sets the time of an entry; a file system that cannot hold it keeps its own.
func (u *unpacker) stamp(parent *os.File, base string, h *tar.Header) {
	ts := timespec(h)
	_ = unix.UtimesNanoAt(int(parent.Fd()), base, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}

// link makes another name of a file of this layer.
func (u *unpacker) link(parent *os.File, base string, h *tar.Header) error {
	target, err := cleanName(h.Linkname)
	if err != nil {
		return err
	}
	dir, last := path.Split(target)
	if last == "" || last == "." {
		return hostile("the hard link %s leads to no file.", quote(h.Name))
	}
	from, err := u.resolve(path.Clean(dir))
	if err != nil {
		return noTarget(err, h)
	}
	defer func() { _ = from.Close() }()
	var a, b unix.Stat_t
	if err := unix.Fstatat(int(from.Fd()), last, &a, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return noTarget(err, h)
	}
	if a.Mode&unix.S_IFMT == unix.S_IFDIR {
		return hostile("the hard link %s leads to no file.", quote(h.Name))
	}
	if unix.Fstatat(int(parent.Fd()), base, &b, unix.AT_SYMLINK_NOFOLLOW) == nil && a.Ino == b.Ino {
		return nil // it is that file already
	}
	err = u.make(parent, base, func() error { return unix.Linkat(int(from.Fd()), last, int(parent.Fd()), base, 0) })
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EMLINK) { // the first if the link took the place of a directory above it
		return noTarget(err, h)
	}
	return err
}

func noTarget(err error, h *tar.Header) error {
	return fault.Wrap(err, fault.Invalid, CodeHostile, "A layer of the image is refused: the hard link %s leads to %s, which the layer does not have.",
		quote(h.Name), quote(h.Linkname))
}

func (u *unpacker) file(parent *os.File, base string, h *tar.Header, data io.Reader) error {
	if err := u.budget.take(h.Size, 0); err != nil {
		return err
	}
	fd := -1
	err := u.make(parent, base, func() (err error) {
		fd, err = unix.Openat(int(parent.Fd()), base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return &os.PathError{Op: "create", Path: h.Name, Err: err}
	}
	f := os.NewFile(uintptr(fd), base)
	defer func() { _ = f.Close() }()
	n, err := io.CopyBuffer(onlyWriter{f}, data, u.buf)
	if err != nil {
		return err
	}
	u.bytes += n
	if err := u.describe(f, h, 0o400); err != nil {
		return err
	}
	u.stamp(parent, base, h)
	return nil
}

// onlyWriter hides everything else, so that the buffer is used.
type onlyWriter struct{ io.Writer }

// finish sets the times of directories.
func (u *unpacker) finish() error {
	u.forget()
	for real, ts := range u.times {
		fd, err := unix.Openat2(int(u.root.Fd()), real, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
		if err != nil {
			continue // replaced by something else later on
		}
		_ = unix.UtimesNanoAt(fd, ".", []unix.Timespec{ts, ts}, 0)
		_ = unix.Close(fd)
	}
	return nil
}

func (u *unpacker) info() layerInfo {
	return layerInfo{Bytes: u.bytes, Files: u.files, Hidden: paths(u.hidden), Opaque: paths(u.opaque), Implicit: paths(u.implicit)}
}

func paths(set map[string]bool) [][]byte {
	var list [][]byte
	for p := range set {
		list = append(list, []byte(p))
	}
	return list
}
