package terminal

import "fmt"

// keepHead and keepTail bound what is kept of a command's raw output, in bytes.
const (
	keepHead = 4 << 20
	keepTail = 4 << 20
)

// capture keeps the head and the tail of an output of any length.
type capture struct {
	head    []byte
	tail    []byte // the last keepTail bytes at its end, up to twice as many in all
	dropped int64  // bytes between head and tail
	total   int64
}

// add appends output.
func (c *capture) add(data []byte) {
	c.total += int64(len(data))
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

// lose notes output that was gone before it could be read.
func (c *capture) lose(n int64) {
	c.total += n
	c.dropped += n + int64(len(c.tail))
	c.tail = nil
}

// full tells that the head is complete: what follows is probably dropped.
func (c *capture) full() bool { return len(c.head) >= keepHead || c.dropped > 0 }

// text returns the output as text for a model.
func (c *capture) text() string {
	if c.dropped == 0 {
		return cleanText(append(c.head, c.tail...))
	}
	return cleanText(c.head) + fmt.Sprintf("\n[... %d bytes of output were not kept ...]\n", c.dropped) + cleanText(c.tail)
}
