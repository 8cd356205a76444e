package terminal

import (
	"bytes"
	"fmt"
)

// keepHead and keepTail bound what a call keeps in memory of a command's raw
// output, in bytes: the tail takes up to twice as much while it is gathered.
const (
	keepHead = 1 << 20
	keepTail = 1 << 20
)

// capture keeps the head and the tail of an output of any length.
type capture struct {
	head    []byte
	tail    []byte // the last keepTail bytes at its end, up to twice as many in all
	dropped int64  // bytes between head and tail
	total   int64
	lost    int64 // bytes of dropped that were gone before they could be read
	// draws says that a program addresses the screen instead of printing lines: it
	// may print on and on while it waits for a key.
	draws bool
	base  *screen // what was on the screen before; nil = nothing that matters
	spool *spool  // gets all of the output; nil = nobody
}

// add appends output.
func (c *capture) add(data []byte) {
	c.total += int64(len(data))
	c.draws = c.draws || addresses(data)
	if c.spool != nil {
		c.spool.take(data)
	}
	if c.dropped == 0 && len(c.tail) == 0 {
		n := min(len(data), keepHead-len(c.head))
		c.head = append(c.head, data[:n]...)
		data = data[n:]
	}
	c.tail = append(c.tail, data...)
	if over := len(c.tail) - keepTail; over > keepTail {
		c.dropped += int64(over)
		c.tail = append(c.tail[:0], c.tail[over:]...)
	}
}

// addresses tells that output holds a sequence of full-screen programs: cursor to
// the first row, or the second screen.
func addresses(data []byte) bool {
	for _, sequence := range []string{"\x1b[H", "\x1b[1;1H", "\x1b[?1049h", "\x1b[?1047h", "\x1b[?47h"} {
		if bytes.Contains(data, []byte(sequence)) {
			return true
		}
	}
	return false
}

// lose notes output that was gone before it could be read.
func (c *capture) lose(n int64) {
	c.total += n
	c.lost += n
	c.dropped += n + int64(len(c.tail))
	c.tail = nil
	if c.spool != nil {
		c.spool.take(fmt.Appendf(nil, "\n[... %d bytes of output came too fast and are lost ...]\n", n))
	}
}

// text returns the output as text for a model, and what is left on the screen: nil
// if that is just the end of the text.
func (c *capture) text() (string, *screen) {
	if c.total == 0 {
		return "", c.base
	}
	if c.dropped == 0 {
		return render(c.base, append(c.head, c.tail...))
	}
	tail, drawing := render(nil, c.tail)
	return cleanText(c.head) + fmt.Sprintf("\n[... %d bytes of output are not shown ...]\n", c.dropped) + tail, drawing
}
