package sandboxd

import (
	"time"

	"parley/internal/tool"
)

// holdTime is how long a program waits for a reader that is between two reads.
const holdTime = 2 * time.Second

// hold keeps a program from printing more than a reader who asked for that can
// read before the buffer is full: what a terminal's flow control does. It ends
// with a read that does not ask for it, or some time after the last that did. The
// terminal's lock guards it.
type hold struct {
	offset int64     // of the reader
	until  time.Time // it counts; zero = there is none
	eased  chan struct{}
}

// holdFor lets a read that asks for it hold the program back until the read is
// answered and some time beyond. Call the returned function then.
func (t *terminal) holdFor(req tool.TerminalRead) (answered func()) {
	if !req.Hold {
		t.setHold(0, 0)
		return func() {}
	}
	t.setHold(req.Offset, req.Wait+holdTime)
	return func() { t.setHold(req.Offset, holdTime) }
}

func (t *terminal) setHold(offset int64, patience time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hold.offset, t.hold.until = offset, time.Now().Add(patience)
	if t.hold.eased != nil {
		close(t.hold.eased)
		t.hold.eased = nil
	}
}

// held returns a channel that closes when the reader has read on, and how long to
// wait for that; nil if the program need not wait.
func (t *terminal) held() (<-chan struct{}, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	patience := time.Until(t.hold.until)
	if patience <= 0 || t.output.end-t.hold.offset <= int64(t.output.max/2) {
		return nil, 0
	}
	if t.hold.eased == nil {
		t.hold.eased = make(chan struct{})
	}
	return t.hold.eased, patience
}

// waitForReader returns when no reader holds the program back any more, or the
// terminal is given up.
func (t *terminal) waitForReader() {
	for {
		eased, patience := t.held()
		if eased == nil {
			return
		}
		timer := time.NewTimer(patience)
		select {
		case <-eased:
		case <-timer.C:
		case <-t.released:
			timer.Stop()
			return
		}
		timer.Stop()
	}
}
