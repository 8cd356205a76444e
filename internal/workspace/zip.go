package workspace

import (
	"archive/tar"
	"archive/zip"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"

	"parley/internal/fault"
	"parley/internal/tool"
)

// entry is shorter.
type entry = tool.FileInfo

// Zip writes a directory's files, directories and symbolic links to out as a ZIP
// archive with paths relative to it; the files have at most limit bytes together. On
// an error, what out got has no directory, so that nothing can open it.
func (w *Workspace) Zip(ctx context.Context, dir string, out io.Writer, limit int64) error {
	dir, err := checkPath(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, to := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := w.hands.GetTar(ctx, dir, to, nil, limit)
		_ = to.CloseWithError(err) // cannot fail
		packed <- err
	}()
	err = rezip(from, out)
	if err != nil {
		cancel()
	} else { // a tar ends before its stream does
		_, err = io.Copy(io.Discard, from)
	}
	_ = from.Close()
	if told := <-packed; told != nil && !errors.Is(told, context.Canceled) && !errors.Is(told, io.ErrClosedPipe) {
		return told
	}
	return err
}

// rezip makes a ZIP archive of a tar archive.
func rezip(from io.Reader, out io.Writer) error {
	z := zip.NewWriter(out)
	for in := tar.NewReader(from); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return z.Close()
		}
		if err != nil {
			return err
		}
		if err := zipEntry(z, h, in); err != nil {
			return err
		}
	}
}

// zipEntry writes one entry. A name that leads out of the archive ends it: sandboxes
// do not send such names.
func zipEntry(z *zip.Writer, h *tar.Header, body io.Reader) error {
	if !fs.ValidPath(strings.TrimSuffix(h.Name, "/")) {
		return fault.New(fault.Unavailable, "bad_archive", "The sandbox sent an archive with a bad name.")
	}
	head := &zip.FileHeader{Name: h.Name, Modified: h.ModTime, Method: zip.Deflate}
	head.SetMode(h.FileInfo().Mode())
	if h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeSymlink {
		head.Method = zip.Store
	}
	w, err := z.CreateHeader(head)
	if err != nil || h.Typeflag == tar.TypeDir {
		return err
	}
	if h.Typeflag == tar.TypeSymlink {
		body = strings.NewReader(h.Linkname)
	}
	_, err = io.Copy(w, body)
	return err
}
