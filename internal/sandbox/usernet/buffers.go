package usernet

import "sync"

// copySize is the buffer of one direction of a TCP connection, packetSize holds
// the largest packet or datagram; bytes.
const (
	copySize   = 32 << 10
	packetSize = 64 << 10
)

// buffers are reused within a stack; an idle one keeps none.
type buffers struct{ packets, chunks sync.Pool }

func (b *buffers) packet() *[packetSize]byte {
	if p, ok := b.packets.Get().(*[packetSize]byte); ok {
		return p
	}
	return new([packetSize]byte)
}

func (b *buffers) putPacket(p *[packetSize]byte) { b.packets.Put(p) }

func (b *buffers) chunk() *[copySize]byte {
	if c, ok := b.chunks.Get().(*[copySize]byte); ok {
		return c
	}
	return new([copySize]byte)
}

func (b *buffers) putChunk(c *[copySize]byte) { b.chunks.Put(c) }
