package workspace

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"path"
	"time"

	"parley/internal/fault"
	"parley/internal/tool"
)

const (
	uploadPiece = 4 << 20 // bytes that are held in memory
	tidyTime    = 5 * time.Second
)

// Save writes all of r to a file of at most limit bytes, making the directories above
// it. The file is there whole or as it was before. Invalid for a path that is not
// absolute or a directory's, TooLarge; errors of r are returned.
func (w *Workspace) Save(ctx context.Context, file string, r io.Reader, limit int64) error {
	file, err := checkPath(file)
	if err != nil {
		return err
	}
	piece, last, err := nextPiece(r)
	switch {
	case err != nil:
		return err
	case int64(len(piece)) > limit:
		return errUploadTooLarge(limit)
	case last:
		return w.hands.WriteFile(ctx, file, piece, tool.WriteOptions{Parents: true})
	}
	info, err := w.hands.Stat(ctx, file)
	switch {
	case err == nil && !info.Mode.IsRegular():
		return fault.New(fault.Invalid, "not_a_file", "%.200q is not a file.", file)
	case err == nil && info.Real != "":
		file = info.Real // through links, as small files are written
	case err != nil && !fault.Is(err, fault.NotFound):
		return err
	}
	return w.saveLarge(ctx, file, piece, r, limit)
}

// saveLarge writes a file beside its place and moves it there.
func (w *Workspace) saveLarge(ctx context.Context, file string, piece []byte, r io.Reader, limit int64) error {
	scratch := path.Join(path.Dir(file), ".parley-upload-"+rand.Text())
	err := w.hands.WriteFile(ctx, scratch, piece, tool.WriteOptions{Parents: true, New: true})
	if err == nil {
		err = w.appendAll(ctx, scratch, r, limit, int64(len(piece)))
	}
	if err == nil {
		err = w.moveInto(ctx, scratch, file)
	}
	if err != nil {
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
		defer cancel()
		_ = w.hands.Remove(tidy, scratch) // the sandbox may be gone
	}
	return err
}

func (w *Workspace) appendAll(ctx context.Context, scratch string, r io.Reader, limit, size int64) error {
	for {
		piece, last, err := nextPiece(r)
		if err != nil {
			return err
		}
		if size += int64(len(piece)); size > limit {
			return errUploadTooLarge(limit)
		}
		if len(piece) > 0 {
			if err := w.hands.WriteFile(ctx, scratch, piece, tool.WriteOptions{Append: true}); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}

// nextPiece reads up to uploadPiece bytes; last says that there are no more.
func nextPiece(r io.Reader) (piece []byte, last bool, err error) {
	var b bytes.Buffer
	_, err = io.CopyN(&b, r, uploadPiece)
	if errors.Is(err, io.EOF) {
		return b.Bytes(), true, nil
	}
	return b.Bytes(), false, err
}

// moveScript gives $1 the mode of $2, if that is there, and its place.
const moveScript = `[ ! -d "$2" ] || { echo "a directory is there" >&2; exit 1; }
if mode=$(stat -c %a -- "$2" 2>/dev/null); then chmod "$mode" "$1"; fi
exec mv -f -- "$1" "$2"`

func (w *Workspace) moveInto(ctx context.Context, scratch, file string) error {
	res, err := w.run(ctx, tool.ExecRequest{Argv: []string{"/bin/sh", "-c", moveScript, "upload", scratch, file}, Dir: "/", MaxOutput: maxPath})
	if err == nil && res.ExitCode != 0 {
		err = fault.New(fault.Invalid, "upload_failed", "The file cannot be put in its place: %s", said(res))
	}
	return err
}

func errUploadTooLarge(limit int64) error {
	return fault.New(fault.TooLarge, "upload_too_large", "The file is larger than %d bytes.", limit).
		WithHint("The server's max_upload_bytes sets the bound.")
}
