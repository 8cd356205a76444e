package httpkit

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Late serves server-sent events to a client that waits for one thing that takes
// long: what is there at once, comments while nothing happens, and in the end what
// comes from last.
type Late struct {
	First     []Frame
	Last      <-chan []Frame // one value
	Heartbeat time.Duration  // 0 = 10 s
}

// Serve runs until the last frames were sent or the client left.
func (l *Late) Serve(ctx context.Context, w http.ResponseWriter) error {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	out := &sseWriter{w: w, rc: http.NewResponseController(w), timeout: 20 * time.Second}
	stop := cutAfter(ctx, cutTime, out.cut)
	defer func() { stop(); out.finish() }()
	err := out.send(appendFrames(nil, l.First))
	tick := time.NewTicker(orDefault(l.Heartbeat, 10*time.Second))
	defer tick.Stop()
	for err == nil {
		select {
		case frames := <-l.Last:
			err = errors.Join(errDone, out.send(appendFrames(nil, frames)))
		case <-tick.C:
			err = out.send([]byte(": waiting\n\n"))
		case <-ctx.Done():
			err = errLeft
		}
	}
	if errors.Is(err, errLeft) || errors.Is(err, errDone) {
		return nil
	}
	return err
}
