package parley

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// maxFrame bounds one message of a stream.
const maxFrame = 64 << 20

// frame is one server-sent event. Its id is its own, "" if it has none.
type frame struct {
	id, event string
	data      []byte
}

// frames reads a text/event-stream.
type frames struct{ lines *bufio.Scanner }

func newFrames(r io.Reader) *frames {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxFrame)
	return &frames{lines}
}

// next returns the next frame that has data; io.EOF at the end of the stream. A frame
// that the end cuts off is not returned.
func (f *frames) next() (frame, error) {
	var got frame
	var data [][]byte
	size := 0
	for f.lines.Scan() {
		line := f.lines.Bytes()
		if size += len(line); size > maxFrame {
			return frame{}, fmt.Errorf("parley: a message of the stream is larger than %d bytes", maxFrame)
		}
		if len(line) == 0 {
			if data != nil {
				got.data = bytes.Join(data, []byte("\n"))
				return got, nil
			}
			got, size = frame{}, 0
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			data = append(data, bytes.Clone(value))
		case "id":
			got.id = string(value)
		case "event":
			got.event = string(value)
		}
	}
	if err := f.lines.Err(); err != nil {
		return frame{}, err
	}
	return frame{}, io.EOF
}
