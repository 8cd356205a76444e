package sandboxd

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
)

// openQuietly keeps an open from blocking on pipes and taking a terminal.
const openQuietly = unix.O_NONBLOCK | unix.O_NOCTTY

func (d *daemon) putTar(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r.URL.RawQuery)
	dir := q.path("dir")
	limit := tarLimit(q)
	if q.err != nil {
		return q.err
	}
	body := http.MaxBytesReader(w, r.Body, archiveBound(limit))
	err := unpackInto(r.Context(), dir, body, limit)
	// To its end even on failure: a client that is cut off in the middle of
	// sending sees a broken connection in place of the reason.
	_, drainErr := io.Copy(io.Discard, body)
	if err == nil && drainErr != nil {
		err = archiveBroken(drainErr)
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// archiveBound is what an archive of limit bytes of content may take, with the
// headers and padding of many small files.
func archiveBound(limit int64) int64 { return 2*limit + 64<<20 }

func unpackInto(ctx context.Context, dir string, r io.Reader, limit int64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return pathFault(err, "make", dir)
	}
	root, err := openDir(dir)
	if err != nil {
		return pathFault(err, "open", dir)
	}
	defer func() { _ = root.Close() }()
	u := unpacker{ctx: ctx, dir: dir, root: root, room: limit, limit: limit, made: map[string]bool{".": true}}
	return u.unpack(tar.NewReader(contextReader{ctx, r}))
}

// unpacker writes an archive into a directory. os.Root keeps it inside; besides,
// it never writes through a symbolic link, and replaces files in place of
// following them. What it has written when an entry fails stays.
type unpacker struct {
	ctx   context.Context
	dir   string
	root  *os.Root
	room  int64 // bytes of content left
	limit int64
	count int
	made  map[string]bool // directories known to be directories
}

func (u *unpacker) unpack(in *tar.Reader) error {
	for {
		header, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return u.readFault(err)
		}
		if err := u.entry(header, in); err != nil {
			return err
		}
	}
}

func (u *unpacker) readFault(err error) error {
	if u.ctx.Err() != nil {
		return context.Cause(u.ctx)
	}
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return unpackedTooLarge(u.limit)
	}
	return archiveBroken(err)
}

func archiveBroken(err error) error {
	return fault.Wrap(err, fault.Invalid, "bad_archive", "The archive is damaged or incomplete.").
		WithHint("It must be an uncompressed tar archive.")
}

func unpackedTooLarge(limit int64) error {
	return fault.New(fault.TooLarge, CodeTooLarge, "The archive's files have more than %d bytes.", limit)
}

func (u *unpacker) entry(header *tar.Header, content io.Reader) error {
	if u.count++; u.count > MaxTarEntries {
		return fault.New(fault.TooLarge, CodeTooLarge, "The archive has more than %d entries.", MaxTarEntries)
	}
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := localName(header.Name)
	if err != nil {
		return err
	}
	if err := u.parents(name); err != nil {
		return err
	}
	err = u.write(name, header, content)
	return pathFault(err, "unpack", filepath.Join(u.dir, name))
}

// localName is the entry's path below the directory.
func localName(name string) (string, error) {
	if strings.IndexByte(name, 0) >= 0 || path.IsAbs(name) || !filepath.IsLocal(path.Clean(name)) || hasDotDot(name) {
		return "", fault.New(fault.Invalid, CodeUnsafeArchive, "The archive's entry %q leads out of the directory.", name)
	}
	if len(name) >= maxPath {
		return "", pathFault(unix.ENAMETOOLONG, "unpack", name[:64]+"...")
	}
	return path.Clean(name), nil
}

func hasDotDot(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

// parents makes the directories above name and checks that none is a link.
func (u *unpacker) parents(name string) error {
	dir := path.Dir(name)
	if u.made[dir] {
		return nil
	}
	if err := u.parents(dir); err != nil {
		return err
	}
	return u.makeDir(dir, 0o755)
}

func (u *unpacker) makeDir(name string, mode fs.FileMode) error {
	if u.made[name] {
		return nil
	}
	err := u.root.Mkdir(name, mode)
	if errors.Is(err, fs.ErrExist) {
		err = u.checkDir(name)
	}
	if err != nil {
		return pathFault(err, "make", filepath.Join(u.dir, name))
	}
	u.made[name] = true
	return nil
}

func (u *unpacker) checkDir(name string) error {
	info, err := u.root.Lstat(name)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return fault.New(fault.Invalid, CodeUnsafeArchive, "The archive would write through the symbolic link %s.", filepath.Join(u.dir, name)).
			WithHint("Remove the link first.")
	}
	if !info.IsDir() {
		return unix.ENOTDIR
	}
	return nil
}

func (u *unpacker) write(name string, header *tar.Header, content io.Reader) error {
	mode := header.FileInfo().Mode().Perm()
	switch header.Typeflag {
	case tar.TypeDir:
		return u.makeDir(name, mode|0o700) // or its own contents could not follow
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.writeFile(name, mode, header, content)
	case tar.TypeSymlink:
		if err := u.clear(name); err != nil {
			return err
		}
		return u.root.Symlink(header.Linkname, name)
	case tar.TypeLink:
		return u.writeLink(name, header.Linkname)
	}
	return fault.New(fault.Invalid, "unsupported_archive_entry", "The archive's entry %q is neither a file, a directory nor a link.", header.Name)
}

func (u *unpacker) writeLink(name, target string) error {
	target, err := localName(target)
	if err != nil {
		return err
	}
	if target == name {
		return unix.EEXIST
	}
	for dir := path.Dir(target); dir != "."; dir = path.Dir(dir) {
		if err := u.checkDir(dir); err != nil {
			return err
		}
	}
	if err := u.clear(name); err != nil {
		return err
	}
	return u.root.Link(target, name)
}

// clear removes what is not a directory from where an entry goes.
func (u *unpacker) clear(name string) error {
	info, err := u.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return unix.EISDIR
	}
	return u.root.Remove(name)
}

func (u *unpacker) writeFile(name string, mode fs.FileMode, header *tar.Header, content io.Reader) error {
	if header.Size < 0 || header.Size > u.room {
		return unpackedTooLarge(u.limit)
	}
	u.room -= header.Size
	if err := u.clear(name); err != nil {
		return err
	}
	file, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, archiveReader{u, content})
	if err == nil {
		err = file.Chmod(mode)
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil && !header.ModTime.IsZero() {
		// An archive may hold times that no file system can; the file matters more.
		_ = u.root.Chtimes(name, header.ModTime, header.ModTime)
	}
	return err
}

// archiveReader tells errors of the archive from those of the file written.
type archiveReader struct {
	u *unpacker
	r io.Reader
}

func (a archiveReader) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = a.u.readFault(err)
	}
	return n, err
}
