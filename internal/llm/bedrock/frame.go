package bedrock

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"

	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// A frame of an event stream: its length, the length of its headers, the checksum
// of both; the headers; the payload; the checksum of all that.
const (
	preludeSize  = 12
	checksumSize = 4
	minFrame     = preludeSize + checksumSize
	maxHeaders   = 128 << 10
)

var (
	errChecksum = errors.New("a checksum is wrong")
	errHeaders  = errors.New("the headers of a frame cannot be read")
)

// frame is one message of an event stream.
type frame struct {
	event     string // ":event-type" of an event
	exception string // ":exception-type", or the code of an error
	payload   []byte
}

// frames reads an event stream.
type frames struct {
	in  *bufio.Reader
	raw []byte // one frame; reused
}

// next returns the next frame, whose payload holds until the next call. io.EOF is
// the end between two frames; io.ErrUnexpectedEOF one inside a frame. Other errors
// are *llm.Error, or those of the connection.
func (f *frames) next() (frame, error) {
	head, err := f.in.Peek(preludeSize)
	switch {
	case errors.Is(err, io.EOF) && len(head) > 0:
		return frame{}, io.ErrUnexpectedEOF
	case err != nil:
		return frame{}, err
	}
	size, headers := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
	if size < minFrame || size > wire.MaxEvent || headers > maxHeaders || headers > size-minFrame {
		return frame{}, wire.Broken("the endpoint sent something that is not an event stream", head, nil)
	}
	if crc32.ChecksumIEEE(head[:8]) != binary.BigEndian.Uint32(head[8:]) {
		return frame{}, damaged(errChecksum)
	}
	if cap(f.raw) < int(size) {
		f.raw = make([]byte, size)
	}
	raw := f.raw[:size]
	if _, err := io.ReadFull(f.in, raw); err != nil {
		return frame{}, err
	}
	end := len(raw) - checksumSize
	if crc32.ChecksumIEEE(raw[:end]) != binary.BigEndian.Uint32(raw[end:]) {
		return frame{}, damaged(errChecksum)
	}
	payload := preludeSize + int(headers)
	return frameOf(raw[preludeSize:payload], raw[payload:end])
}

func damaged(err error) *llm.Error {
	return &llm.Error{Class: llm.ClassNetwork, Err: err, Message: "the event stream is damaged: " + err.Error()}
}

// frameOf reads the headers that say what a frame is.
func frameOf(headers, payload []byte) (frame, error) {
	f := frame{payload: payload}
	var kind, code, text string
	for len(headers) > 0 {
		name, value, rest, ok := header(headers)
		if !ok {
			return frame{}, damaged(errHeaders)
		}
		headers = rest
		switch string(name) {
		case ":message-type":
			kind = string(value)
		case ":event-type":
			f.event = string(value)
		case ":exception-type", ":error-code":
			code = string(value)
		case ":error-message":
			text = string(value)
		}
	}
	if kind != "exception" && kind != "error" {
		return f, nil
	}
	f.event, f.exception = "", code
	if code == "" {
		f.exception = "an error without a name"
	}
	if text != "" && len(payload) == 0 {
		f.payload, _ = json.Marshal(map[string]string{"message": text}) // a string is always encoded
	}
	return f, nil
}

// header takes the first header off: its name, and its value if that is a text.
func header(b []byte) (name, value, rest []byte, ok bool) {
	n := int(b[0])
	if len(b) < n+2 {
		return nil, nil, nil, false
	}
	name, kind, rest := b[1:n+1], b[n+1], b[n+2:]
	size := 0
	switch kind {
	case 0, 1: // true, false
	case 2:
		size = 1
	case 3:
		size = 2
	case 4:
		size = 4
	case 5, 8: // a long number, a time
		size = 8
	case 9: // a UUID
		size = 16
	case 6, 7: // bytes, a text
		if len(rest) < 2 {
			return nil, nil, nil, false
		}
		size, rest = int(binary.BigEndian.Uint16(rest)), rest[2:]
	default:
		return nil, nil, nil, false
	}
	if len(rest) < size {
		return nil, nil, nil, false
	}
	if kind == 7 {
		value = rest[:size]
	}
	return name, value, rest[size:], true
}
