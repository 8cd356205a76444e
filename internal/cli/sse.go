package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxFrameBytes bounds one frame of a stream.
const maxFrameBytes = 64 << 20

var errFrameTooLarge = fmt.Errorf("a frame of the stream is larger than %d bytes", maxFrameBytes)

// sseFrame is one dispatched frame of a text/event-stream. Unlike a browser's,
// its ID is the frame's own: "" means that the frame had none.
type sseFrame struct {
	ID    string
	Event string
	Data  []byte
}

// sseReader reads frames. alive is called for every line, comments included.
type sseReader struct {
	r     *bufio.Reader
	max   int
	alive func()
}

func newSSEReader(r io.Reader, alive func()) *sseReader {
	return &sseReader{r: bufio.NewReaderSize(r, 64<<10), max: maxFrameBytes, alive: alive}
}

// next returns the next frame that has data. A frame that the stream's end cuts
// off is not returned.
func (s *sseReader) next() (sseFrame, error) {
	var frame sseFrame
	var data [][]byte
	size := 0
	for {
		line, err := s.line()
		if err != nil {
			return sseFrame{}, err
		}
		s.alive()
		if size += len(line); size > s.max {
			return sseFrame{}, errFrameTooLarge
		}
		if len(line) == 0 {
			if data != nil {
				frame.Data = bytes.Join(data, []byte("\n"))
				return frame, nil
			}
			frame, size = sseFrame{}, 0
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			data = append(data, value)
		case "id":
			frame.ID = string(value)
		case "event":
			frame.Event = string(value)
		}
	}
}

// line returns the next line without its end.
func (s *sseReader) line() ([]byte, error) {
	var line []byte
	for {
		piece, err := s.r.ReadSlice('\n')
		line = append(line, piece...)
		if len(line) > s.max {
			return nil, errFrameTooLarge
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
	}
}
