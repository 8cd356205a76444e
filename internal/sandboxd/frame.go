package sandboxd

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"sync"
)

// What travels on a program's connection: frames of a kind (one byte), the length
// of the payload (four bytes, big endian, at most maxFrame) and the payload.
//
// Neither side ever stops reading the connection, so that both see its end at once:
// each may send only so many bytes that the other has not used yet (programWindow),
// and gets the right to send as many again by frameMore. Whoever breaks a rule loses
// the connection.
const (
	frameStdin      = 'i' // to the program: bytes of its standard input
	frameStdinEnd   = 'e' // to the program: no more of them
	frameStdout     = 'o' // from the program: bytes of its standard output
	frameStdoutEnd  = 'f' // from the program: no more of them
	frameStderr     = 'r' // from the program: what comes next in the end of its standard error
	frameStdinGone  = 'g' // from the program: it has closed its standard input
	frameExit       = 'x' // from the program: the exit code, four bytes
	frameMore       = 'm' // both ways: how many bytes were used, four bytes
	frameHeader     = 5
	maxFrame        = 32 << 10
	programWindow   = 128 << 10
	programProtocol = "sandboxd-program" // the Upgrade token
)

var (
	errFrame  = errors.New("sandboxd: a frame that makes no sense")
	errWindow = errors.New("sandboxd: more was sent than there is room for")
)

// frame is one message. The payload is valid until the next is read.
type frame struct {
	kind    byte
	payload []byte
}

func newFrameReader(r io.Reader) *bufio.Reader {
	return bufio.NewReaderSize(r, frameHeader+maxFrame)
}

// takeFrames hands what the client sends to accept, until the connection ends or what
// comes makes no sense.
func takeFrames(in io.Reader, accept func(frame) error) {
	r := newFrameReader(in)
	for {
		f, err := readFrame(r)
		if err == nil {
			err = accept(f)
		}
		if err != nil {
			return
		}
	}
}

// readFrame reads the next frame; io.EOF only between two.
func readFrame(r *bufio.Reader) (frame, error) {
	head, err := r.Peek(frameHeader)
	if err != nil {
		return frame{}, cutShort(err, len(head))
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > maxFrame {
		return frame{}, errFrame
	}
	whole, err := r.Peek(frameHeader + int(size))
	if err != nil {
		return frame{}, cutShort(err, len(whole))
	}
	_, err = r.Discard(len(whole))
	return frame{kind: whole[0], payload: whole[frameHeader:]}, err
}

func cutShort(err error, got int) error {
	if errors.Is(err, io.EOF) && got > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}

// number reads a payload of four bytes that is at most limit.
func (f frame) number(limit uint32) (int, error) {
	if len(f.payload) != 4 {
		return 0, errFrame
	}
	n := binary.BigEndian.Uint32(f.payload)
	if n > limit {
		return 0, errFrame
	}
	return int(n), nil
}

// empty refuses a payload where there must be none.
func (f frame) empty() error {
	if len(f.payload) > 0 {
		return errFrame
	}
	return nil
}

// frameWriter sends whole frames for any number of goroutines.
type frameWriter struct {
	mu   sync.Mutex
	conn io.Writer
	buf  []byte
	err  error // the first; half of a frame may have gone
}

// send sends a frame. After an error nothing is sent any more, but what the other
// side has sent before it went can still be read.
func (w *frameWriter) send(kind byte, payload []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	w.buf = append(w.buf[:0], kind)
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(len(payload)))
	w.buf = append(w.buf, payload...)
	_, w.err = w.conn.Write(w.buf)
	return w.err
}

func (w *frameWriter) sendNumber(kind byte, n int) error {
	return w.send(kind, binary.BigEndian.AppendUint32(nil, uint32(n)))
}
