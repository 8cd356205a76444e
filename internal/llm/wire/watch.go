package wire

import (
	"context"
	"io"
	"time"

	"parley/internal/llm"
)

// watch ends a call that makes no progress: it cancels the call's context with
// a time-out error as its cause.
type watch struct {
	cancel context.CancelCauseFunc
	step   *time.Timer
	total  *time.Timer
}

func newWatch(parent context.Context, total time.Duration) (context.Context, *watch) {
	ctx, cancel := context.WithCancelCause(parent)
	w := &watch{cancel: cancel}
	w.total = time.AfterFunc(total, w.end("the answer took longer than "+total.String()))
	return ctx, w
}

func (w *watch) end(text string) func() {
	return func() { w.cancel(&llm.Error{Class: llm.ClassTimeout, Message: text}) }
}

// expect gives the next step d; otherwise is what the error says.
func (w *watch) expect(d time.Duration, otherwise string) {
	if w.step != nil {
		w.step.Stop()
	}
	w.step = time.AfterFunc(d, w.end(otherwise))
}

func (w *watch) stop() {
	w.total.Stop()
	if w.step != nil {
		w.step.Stop()
	}
	w.cancel(context.Canceled)
}

// watched is a body of at most left bytes whose every read must make progress
// within wait; wait 0 leaves the watch as it is.
type watched struct {
	r    io.Reader
	w    *watch
	wait time.Duration
	left int
	text string // of the time-out
}

// Read implements io.Reader.
func (r *watched) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, ErrTooLarge()
	}
	if r.wait > 0 {
		r.w.expect(r.wait, r.text)
	}
	n, err := r.r.Read(p)
	r.left -= n
	return n, err
}
