package sandboxd

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// inbox holds what came over a program's connection and was not used yet, at most
// programWindow bytes. put never blocks; read waits.
type inbox struct {
	mu   sync.Mutex
	cond sync.Cond
	buf  bytes.Buffer
	end  error // what follows the bytes in buf; nil = more may come
	used int   // bytes read since the other side was told
}

func newInbox() *inbox {
	b := &inbox{}
	b.cond.L = &b.mu
	return b
}

// put adds what came. After an end that the other side did not announce, it is
// dropped.
func (b *inbox) put(p []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case errors.Is(b.end, io.EOF):
		return errFrame
	case b.end != nil:
		return nil
	case b.buf.Len()+b.used+len(p) > programWindow:
		return errWindow
	}
	b.buf.Write(p)
	b.cond.Broadcast()
	return nil
}

// finish lets readers have what is there and then err. The first end holds.
func (b *inbox) finish(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end == nil {
		b.end = err
	}
	b.cond.Broadcast()
}

// discard gives readers err at once.
func (b *inbox) discard(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = bytes.Buffer{}
	b.end = err
	b.cond.Broadcast()
}

// read waits for bytes or the end. more is how many bytes the other side is to be
// told of, 0 until it is worth a frame.
func (b *inbox) read(p []byte) (n, more int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.buf.Len() == 0 && b.end == nil {
		b.cond.Wait()
	}
	if b.buf.Len() == 0 {
		return 0, 0, b.end
	}
	n, _ = b.buf.Read(p)
	b.used += n
	if b.used >= programWindow/4 && b.end == nil {
		more, b.used = b.used, 0
	}
	return n, more, nil
}

// credit is how many bytes may be sent on a program's connection.
type credit struct {
	mu   sync.Mutex
	cond sync.Cond
	n    int
	err  error // why nothing may be sent any more
}

func newCredit() *credit {
	c := &credit{n: programWindow}
	c.cond.L = &c.mu
	return c
}

// take waits until something may be sent and takes at most limit bytes of it.
func (c *credit) take(limit int) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.n == 0 && c.err == nil {
		c.cond.Wait()
	}
	if c.err != nil {
		return 0, c.err
	}
	n := min(c.n, limit)
	c.n -= n
	return n, nil
}

// give adds what the other side has used.
func (c *credit) give(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n+n > programWindow {
		return errWindow
	}
	c.n += n
	c.cond.Broadcast()
	return nil
}

// end refuses all further sending with err and reports whether it was the first to.
func (c *credit) end(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.err = err
	c.cond.Broadcast()
	return true
}
