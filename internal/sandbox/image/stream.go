package image

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"sync/atomic"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"parley/internal/fault"
)

// Bounds of a compressed stream.
const (
	maxWindow = 128 << 20 // bytes of memory that a zstd stream may ask for
	streamBuf = 256 << 10
)

// budget is what an image may still take. It is shared by its layers.
type budget struct {
	bytes, files       atomic.Int64 // left
	maxBytes, maxFiles int64
}

func newBudget(o *Options) *budget {
	b := &budget{maxBytes: o.MaxBytes, maxFiles: o.MaxFiles}
	b.bytes.Store(o.MaxBytes)
	b.files.Store(o.MaxFiles)
	return b
}

func (b *budget) take(bytes, files int64) error {
	if bytes < 0 || b.bytes.Add(-bytes) < 0 {
		return tooLarge("The unpacked image is larger than %d MB.", b.maxBytes/1e6)
	}
	if b.files.Add(-files) < 0 {
		return tooLarge("The image has more than %d files.", b.maxFiles)
	}
	return nil
}

// layerStream is a layer's tar, from the compressed bytes to the plain ones, with
// the digests of both.
type layerStream struct {
	raw          *bufio.Reader // compressed
	plain        io.Reader     // tar
	stop         func()
	sent, diffed hash.Hash
	source       *sourceReader
}

// openStream reads a layer; count gets the number of bytes as they come.
func openStream(ctx context.Context, from io.Reader, limit int64, count func(int64)) (*layerStream, error) {
	s := &layerStream{sent: sha256.New(), diffed: sha256.New(), stop: func() {}}
	s.source = &sourceReader{ctx: ctx, from: from, count: count}
	s.raw = bufio.NewReaderSize(io.TeeReader(s.source, s.sent), streamBuf)
	plain, err := s.decompress()
	if err != nil {
		return nil, s.classify(err)
	}
	s.plain = io.TeeReader(&boundReader{from: plain, left: limit}, s.diffed)
	return s, nil
}

// decompress tells the compression from the first bytes: media types lie.
func (s *layerStream) decompress() (io.Reader, error) {
	magic, err := s.raw.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(s.raw)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(s.raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		s.stop = z.Close
		return z, nil
	case bytes.HasPrefix(magic, []byte("BZh")), bytes.HasPrefix(magic, []byte{0xfd, '7', 'z', 'X'}):
		return nil, fault.New(fault.Unsupported, CodeKind, "A layer is compressed in a way that is not read (gzip and zstd are).")
	}
	return s.raw, nil
}

// verify reads what is left of the stream and compares the digests.
func (s *layerStream) verify(l *layerPlan) error {
	if _, err := io.Copy(io.Discard, s.plain); err != nil {
		return s.classify(err)
	}
	if _, err := io.Copy(io.Discard, s.raw); err != nil {
		return s.classify(err)
	}
	if got := digestOf(s.sent); usable(l.digest) && got != l.digest {
		return corrupt(nil, "A layer is not what its digest says: %s was expected, %s came.", l.digest, got)
	}
	if got := digestOf(s.diffed); got != l.diffID {
		return corrupt(nil, "A layer's content is not what its digest says: %s was expected, %s came.", l.diffID, got)
	}
	return nil
}

func digestOf(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

// classify classifies an error of the stream: that of the source if it failed, else
// what it brought makes no sense.
func (s *layerStream) classify(err error) error {
	var known *fault.Error
	var errno unix.Errno
	switch {
	case s.source.err != nil && !errors.Is(s.source.err, io.EOF):
		return s.source.err
	case errors.As(err, &known), errors.As(err, &errno): // a bound, or the directory that it is written to
		return err
	}
	return corrupt(err, "A layer cannot be read: it breaks off or is damaged.")
}

// sourceReader counts, ends with its context, and keeps the error: decompressors
// hide it.
type sourceReader struct {
	ctx   context.Context
	from  io.Reader
	count func(int64)
	err   error
}

func (r *sourceReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		r.err = err
		return 0, err
	}
	n, err := r.from.Read(p)
	r.count(int64(n))
	if err != nil {
		r.err = err
	}
	return n, err
}

// boundReader refuses to read more than a bound.
type boundReader struct {
	from io.Reader
	left int64
}

func (r *boundReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return 0, tooLarge("A layer grows out of all bounds when it is decompressed.")
	}
	return n, err
}
