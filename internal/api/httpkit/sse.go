package httpkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/internal/stream"
)

// Frame is one server-sent event. Data must be one line, as compact JSON is.
type Frame struct {
	ID    string // "" = does not move the client's cursor
	Event string // "" = message
	Data  []byte
}

// SSE serves a live stream as server-sent events.
type SSE struct {
	Source Source
	// Encode renders an item. Item.Deleted ends the stream after its frames.
	Encode       func(ctx context.Context, item stream.Item) ([]Frame, error)
	Heartbeat    time.Duration // a comment is sent after so long a silence; 0 = 10 s
	WriteTimeout time.Duration // a client that does not read for so long is dropped; 0 = 20 s
	Retry        time.Duration // how soon the client should reconnect; 0 = 1 s
	// HeadersOnly answers a HEAD: a stream would hold the connection, with nothing
	// to be seen.
	HeadersOnly bool
}

// Serve runs until the client leaves, the server stops or the conversation is
// deleted. The client resumes with Last-Event-ID.
func (s *SSE) Serve(ctx context.Context, w http.ResponseWriter) error {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	if s.HeadersOnly {
		return nil
	}
	out := &sseWriter{w: w, rc: http.NewResponseController(w), timeout: orDefault(s.WriteTimeout, 20*time.Second)}
	stop := cutAfter(ctx, cutTime, out.cut)
	defer func() { stop(); out.finish() }()
	retry := orDefault(s.Retry, time.Second)
	err := out.send([]byte("retry: " + strconv.FormatInt(retry.Milliseconds(), 10) + "\n\n"))
	if err == nil {
		err = s.run(ctx, out)
	}
	if errors.Is(err, errLeft) || errors.Is(err, errDone) {
		return nil
	}
	return err
}

var (
	errLeft = errors.New("the client left the stream")
	errDone = errors.New("the stream has ended")
)

// run sends until it cannot or need not go on, and returns why.
func (s *SSE) run(ctx context.Context, out *sseWriter) error {
	idle := orDefault(s.Heartbeat, 10*time.Second)
	for {
		item, ok, err := nextOrIdle(ctx, s.Source, idle)
		switch {
		case errors.Is(err, ErrDraining):
			return errors.Join(errDone, out.send([]byte(": the server is stopping, reconnect\n\n")))
		case ctx.Err() != nil:
			return errLeft
		case err != nil:
			return fmt.Errorf("follow: %w", err)
		}
		data := []byte(": heartbeat\n\n")
		if ok {
			frames, err := s.Encode(ctx, item)
			if err != nil {
				return fmt.Errorf("encode stream item: %w", err)
			}
			data = appendFrames(nil, frames)
		}
		if err := out.send(data); err != nil {
			return err
		}
		if item.Deleted {
			return errDone
		}
	}
}

func appendFrames(b []byte, frames []Frame) []byte {
	for _, f := range frames {
		if f.ID != "" {
			b = append(append(append(b, "id: "...), f.ID...), '\n')
		}
		if f.Event != "" {
			b = append(append(append(b, "event: "...), f.Event...), '\n')
		}
		b = append(b, "data: "...)
		b = append(b, oneLine(f.Data)...)
		b = append(b, "\n\n"...)
	}
	return b
}

// oneLine removes line breaks, which in JSON can only stand between tokens.
func oneLine(data []byte) []byte {
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		return data
	}
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, data)
}

type sseWriter struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration

	mu    sync.Mutex
	ended bool
}

// extend gives the client time for what is written next.
func (o *sseWriter) extend() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return os.ErrDeadlineExceeded
	}
	return o.rc.SetWriteDeadline(time.Now().Add(o.timeout))
}

// cut ends a write that the client does not take, and all that follow.
func (o *sseWriter) cut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.ended = true
		_ = o.rc.SetWriteDeadline(time.Now()) // not supported: nothing can block
	}
}

// finish makes a cut that comes too late harmless: the connection serves others then.
func (o *sseWriter) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
}

// send writes and flushes; its error is errLeft.
func (o *sseWriter) send(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	err := o.extend()
	if errors.Is(err, http.ErrNotSupported) {
		err = nil
	}
	if err == nil {
		_, err = o.w.Write(b)
	}
	if err == nil {
		err = o.rc.Flush()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errLeft, err)
	}
	return nil
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

// ParseCursor reads the seq of the last event a client has: -1 for none. The
// Last-Event-ID header wins over the query's after_seq, because browsers repeat
// the original URL when they reconnect. ok is false if neither is there or
// usable.
func ParseCursor(lastEventID, afterSeq string) (after int64, ok bool) {
	for _, text := range []string{lastEventID, afterSeq} {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err == nil && n >= -1 {
			return n, true
		}
	}
	return -1, false
}
