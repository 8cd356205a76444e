package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// enoughProgress is what a download must bring for its tries to be counted anew,
// in bytes.
const enoughProgress = 64 << 10

// blobReader reads a blob of a registry to its declared size, over as many
// connections as it takes. It does not check the digest.
type blobReader struct {
	ctx        context.Context
	repository *repository
	descriptor v1.Descriptor

	body   io.ReadCloser      // nil = not connected
	cancel context.CancelFunc // ends the connection
	idle   *time.Timer
	at     int64 // bytes read
	failed int64 // where it broke off last
	tries  int   // since it last got on
}

// Read returns what comes next. io.EOF comes after exactly the declared size, or
// earlier if the registry has less: then an error.
func (b *blobReader) Read(p []byte) (int, error) {
	for {
		if b.at == b.descriptor.Size {
			return 0, io.EOF
		}
		if b.body == nil {
			if err := b.connect(); err != nil {
				return 0, err
			}
			continue // it may have broken off already
		}
		n, err := idleReader{b}.Read(p[:min(int64(len(p)), b.descriptor.Size-b.at)])
		b.at += int64(n)
		if err != nil {
			b.disconnect()
		}
		if n > 0 || len(p) == 0 {
			return n, nil
		}
		if err != nil {
			if err := b.broke(err); err != nil {
				return 0, err
			}
		}
	}
}

// connect opens the blob at the place where it goes on.
func (b *blobReader) connect() error {
	ctx, cancel := context.WithCancel(b.ctx)
	var part string // where the answer begins; "" = at the beginning
	err := retry(ctx, b.repository.options, func() error {
		resp, err := b.repository.get(ctx, "/blobs/"+b.descriptor.Digest.String(), "", b.at) //nolint:bodyclose // disconnect does
		if err != nil {
			return err
		}
		if b.body = resp.Body; resp.StatusCode == http.StatusPartialContent {
			part = cmp.Or(resp.Header.Get("Content-Range"), "no range")
		}
		return nil
	})
	if err != nil {
		cancel()
		return err
	}
	b.cancel = cancel
	b.idle = time.AfterFunc(b.repository.options.idle, cancel)
	b.idle.Stop()
	return b.skip(part)
}

// skip moves to the place where the blob goes on, for registries that send it from
// its beginning.
func (b *blobReader) skip(part string) error {
	if b.at == 0 {
		return nil
	}
	if part != "" {
		var from int64
		if _, err := fmt.Sscanf(part, "bytes %d-", &from); err != nil || from != b.at {
			b.disconnect()
			return corrupt(err, "The registry %s sends another part of a layer than it was asked for.", registryName(b.repository.registry))
		}
		return nil
	}
	_, err := io.CopyN(io.Discard, idleReader{b}, b.at)
	if err != nil {
		b.disconnect()
		return b.broke(err)
	}
	return nil
}

// idleReader reads a connection, which may not stand still for long. Time that
// passes between reads is not the registry's fault.
type idleReader struct{ blob *blobReader }

func (r idleReader) Read(p []byte) (int, error) {
	r.blob.idle.Reset(r.blob.repository.options.idle)
	defer r.blob.idle.Stop()
	return r.blob.body.Read(p)
}

// broke decides what follows a download that broke off: nil = it goes on.
func (b *blobReader) broke(err error) error {
	if b.ctx.Err() != nil {
		return b.ctx.Err()
	}
	if b.at-b.failed >= enoughProgress {
		b.tries = 0
	}
	b.failed = b.at
	if b.tries++; b.tries > retries {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return corrupt(err, "The registry %s sends %d bytes of a layer that should have %d.",
				registryName(b.repository.registry), b.at, b.descriptor.Size)
		}
		return final(b.repository.unreachable(b.ctx, err))
	}
	return sleep(b.ctx, min(b.repository.options.pause<<(b.tries-1), maxPause))
}

func (b *blobReader) disconnect() {
	if b.body == nil {
		return
	}
	b.idle.Stop()
	b.cancel()
	_ = b.body.Close()
	b.body = nil
}

// Close ends the download.
func (b *blobReader) Close() error {
	b.disconnect()
	return nil
}
