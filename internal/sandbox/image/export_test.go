package image

import (
	"bytes"
	"context"
	"os"
	"time"
)

// Quick makes a store try again at once, and give a download up after idle.
func (o Options) Quick(idle time.Duration) Options {
	o.pause, o.idle = time.Millisecond, idle
	return o
}

// AsUser makes a store behave as for an ordinary user.
func (o Options) AsUser() Options {
	o.asUser = true
	return o
}

// PickCredential is pickCredential, as "user:password:identity".
func PickCredential(data []byte, registry, repository string) (string, error) {
	c, err := pickCredential(data, registry, repository)
	return c.user + ":" + c.password + ":" + c.identity, err
}

// ParseChallenge is parseChallenge.
func ParseChallenge(header string) (scheme string, params map[string]string) {
	c := parseChallenge(header)
	return c.scheme, c.params
}

// ParseManifest is parseManifest.
func ParseManifest(body []byte) (isImage, isIndex bool, err error) {
	d, err := parseManifest(body)
	return d.image != nil, d.index != nil, err
}

// Unpack unpacks a layer into a directory, without a store around it.
func Unpack(ctx context.Context, data []byte, dir string, maxBytes, maxFiles int64) error {
	left := newBudget(&Options{MaxBytes: maxBytes, MaxFiles: maxFiles})
	stream, err := openStream(ctx, bytes.NewReader(data), maxBytes+4096*maxFiles, func(int64) {})
	if err != nil {
		return err
	}
	defer stream.stop()
	u, err := newUnpacker(dir, os.Geteuid() == 0, left)
	if err != nil {
		return err
	}
	defer u.close()
	if err := u.all(stream.plain); err != nil {
		return storeFault(stream.classify(err))
	}
	return nil
}
