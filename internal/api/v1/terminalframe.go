package v1

import (
	"context"
	"encoding/json"
	"sync"

	"parley/internal/console"
	"parley/internal/fault"
)

// Types of a client's text frames.
const (
	controlResize = "resize"
	controlAck    = "ack"
	controlAuth   = "auth" // a credential that is sent again; nothing happens
)

// terminalControl is what a client says beside what it types.
type terminalControl struct {
	Type  string `json:"type"`
	Rows  int    `json:"rows"`  // of resize
	Cols  int    `json:"cols"`  // of resize
	Bytes int    `json:"bytes"` // of ack: how many were used since the last
}

// decodeControl reads a client's text frame.
func decodeControl(frame []byte) (c terminalControl, err error) {
	if json.Unmarshal(frame, &c) != nil {
		return c, badControl("A text frame must be a JSON object with a type.")
	}
	switch c.Type {
	case controlResize:
		if c.Rows < 1 || c.Rows > console.MaxRows || c.Cols < 1 || c.Cols > console.MaxCols {
			return c, badControl("resize needs rows (1 to %d) and cols (1 to %d).", console.MaxRows, console.MaxCols)
		}
	case controlAck:
		if c.Bytes < 1 {
			return c, badControl("ack needs bytes, a positive number.")
		}
	case controlAuth:
	default:
		return c, badControl("The types of text frames are auth, resize and ack.")
	}
	return c, nil
}

func badControl(format string, args ...any) error {
	return fault.New(fault.Invalid, "bad_control", format, args...)
}

// sendWindow is how many bytes a client may be sent that it has not used yet. nil has
// no bound but the connection's own.
type sendWindow struct {
	size int

	mu   sync.Mutex
	out  int           // sent and not acknowledged
	more chan struct{} // has an element when something was acknowledged
}

// newSendWindow makes a window; 0 = none.
func newSendWindow(size int) *sendWindow {
	if size == 0 {
		return nil
	}
	return &sendWindow{size: size, more: make(chan struct{}, 1)}
}

// await waits for room and returns how many bytes may be sent, at most limit.
func (w *sendWindow) await(ctx context.Context, limit int) (int, error) {
	if w == nil {
		return limit, nil
	}
	for {
		w.mu.Lock()
		room := w.size - w.out
		w.mu.Unlock()
		if room > 0 {
			return min(room, limit), nil
		}
		select {
		case <-w.more:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

func (w *sendWindow) sent(n int) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out += n
}

func (w *sendWindow) ack(n int) error {
	if w == nil {
		return badControl("There is nothing to acknowledge: the terminal was opened without a window.")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n > w.out {
		return badControl("More was acknowledged than was sent.")
	}
	w.out -= n
	select {
	case w.more <- struct{}{}:
	default:
	}
	return nil
}
