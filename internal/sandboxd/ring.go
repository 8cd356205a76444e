package sandboxd

import "bytes"

// ring keeps the newest bytes of a stream, addressed by their offsets from its
// beginning. Its memory grows with what is written, up to max, a power of two.
type ring struct {
	buf   []byte // len is 0 or a power of two
	max   int
	start int64 // offset of the oldest byte kept
	end   int64 // offset after the newest
}

func newRing(limit int) ring {
	size := minTerminalBuffer
	for size < limit {
		size *= 2
	}
	return ring{max: size}
}

func (r *ring) write(p []byte) {
	if over := len(p) - r.max; over > 0 {
		r.end += int64(over)
		r.start = r.end // all that was kept is too old now
		p = p[over:]
	}
	r.grow(int(r.end-r.start) + len(p))
	for len(p) > 0 {
		n := copy(r.tail(r.end), p)
		r.end += int64(n)
		p = p[n:]
	}
	r.start = max(r.start, r.end-int64(len(r.buf)))
}

// grow makes room for n bytes, as far as max allows.
func (r *ring) grow(n int) {
	if n <= len(r.buf) || len(r.buf) == r.max {
		return
	}
	size := max(len(r.buf), minTerminalBuffer)
	for size < n && size < r.max {
		size *= 2
	}
	old := *r
	r.buf = make([]byte, size)
	for at := old.start; at < old.end; {
		n := copy(r.tail(at), old.view(at, old.end))
		at += int64(n)
	}
}

// tail is the memory from offset at to where it wraps.
func (r *ring) tail(at int64) []byte { return r.buf[at&int64(len(r.buf)-1):] }

// view is the longest unbroken piece of [from, to), which must be kept.
func (r *ring) view(from, to int64) []byte {
	if from >= to {
		return nil
	}
	piece := r.tail(from)
	return piece[:min(int64(len(piece)), to-from)]
}

// copy returns the bytes of [from, to), which must be kept.
func (r *ring) copy(from, to int64) []byte {
	if from >= to {
		return nil
	}
	out := make([]byte, 0, to-from)
	for from < to {
		piece := r.view(from, to)
		out = append(out, piece...)
		from += int64(len(piece))
	}
	return out
}

// contains reports whether pattern lies in [from, to), also across the place
// where the memory wraps.
func (r *ring) contains(pattern []byte, from, to int64) bool {
	first := r.view(from, to)
	if bytes.Contains(first, pattern) {
		return true
	}
	wrap := from + int64(len(first))
	if wrap >= to {
		return false
	}
	overlap := int64(len(pattern) - 1)
	seam := r.copy(max(from, wrap-overlap), min(to, wrap+overlap))
	return bytes.Contains(seam, pattern) || bytes.Contains(r.view(wrap, to), pattern)
}
