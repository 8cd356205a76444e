// Package sse reads server-sent events as model endpoints really send them:
// any line ending, comments as keep-alives, data over several lines, a last
// event without the empty line after it. It bounds what one event may hold and
// does not reconnect.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// DefaultMax bounds one event where the caller gives no bound, in bytes.
const DefaultMax = 8 << 20

// ErrTooLong means that one event, or one line of it, is over the bound.
var ErrTooLong = errors.New("event stream: event too long")

// Event is one event of a stream.
type Event struct {
	Name string // the event field; "" if there was none
	Data []byte // the data lines joined by newlines; valid until the next call of Next
}

// Reader reads events. It is not safe for concurrent use.
type Reader struct {
	br     *bufio.Reader
	max    int
	line   []byte
	data   []byte
	name   string
	filled bool // the event so far has a data line
	skipLF bool // the last line ended in CR: an LF that follows belongs to it
	begun  bool // the byte order mark was looked for
	ended  error
}

// NewReader reads from r; one event may hold max bytes (0 = DefaultMax).
func NewReader(r io.Reader, max int) *Reader {
	if max <= 0 {
		max = DefaultMax
	}
	return &Reader{br: bufio.NewReaderSize(r, 16<<10), max: max}
}

// Next returns the next event that has data. At the end of the stream it
// returns io.EOF, after an event that only lacks its empty line; any other
// error is the underlying reader's or ErrTooLong, and what was read of the
// event is dropped.
func (r *Reader) Next() (Event, error) {
	r.reset()
	for r.ended == nil {
		err := r.readLine()
		if err != nil {
			r.ended = err
			if !errors.Is(err, io.EOF) {
				return Event{}, err
			}
		}
		if len(r.line) == 0 {
			if r.filled {
				return r.event(), nil
			}
			r.reset()
			continue
		}
		if err := r.field(); err != nil {
			r.ended = err
			return Event{}, err
		}
	}
	if r.filled && errors.Is(r.ended, io.EOF) {
		return r.event(), nil
	}
	return Event{}, r.ended
}

func (r *Reader) reset() {
	r.data, r.name, r.filled = r.data[:0], "", false
}

func (r *Reader) event() Event {
	r.filled = false
	return Event{Name: r.name, Data: r.data}
}

// field takes one line that is not empty.
func (r *Reader) field() error {
	name, value, _ := bytes.Cut(r.line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		r.name = string(value)
	case "data":
		if len(r.data)+len(value)+1 > r.max {
			return ErrTooLong
		}
		if r.filled {
			r.data = append(r.data, '\n')
		}
		r.data, r.filled = append(r.data, value...), true
	}
	return nil // comments (an empty name), id, retry and unknown fields
}

// readLine reads one line without its ending into r.line. With an error the
// line holds what came before it.
func (r *Reader) readLine() error {
	r.line = r.line[:0]
	for {
		b, err := r.br.ReadByte()
		if err != nil {
			r.trimMark()
			return err
		}
		if r.skipLF {
			r.skipLF = false
			if b == '\n' {
				continue
			}
		}
		switch b {
		case '\r':
			r.skipLF = true // never wait for the byte after a CR: the event is complete
			r.trimMark()
			return nil
		case '\n':
			r.trimMark()
			return nil
		}
		if len(r.line) >= r.max {
			return ErrTooLong
		}
		r.line = append(r.line, b)
	}
}

// trimMark drops a byte order mark before the first line.
func (r *Reader) trimMark() {
	if !r.begun {
		r.begun = true
		r.line = bytes.TrimPrefix(r.line, []byte("\xef\xbb\xbf"))
	}
}
