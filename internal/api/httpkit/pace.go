package httpkit

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// What a client may take its time for. Both bounds move with progress: a slow
// line is served, a client that holds a connection for its own sake is not.
const (
	bodyTime   = 20 * time.Second // for a request body, beyond what its size needs
	bodyRate   = 16 << 10         // bytes per second that a body must come with
	answerTime = 30 * time.Second // for one piece of an answer to be taken
	pieceSize  = 64 << 10         // bytes
)

// pacedBody ends a body that comes too slowly.
type pacedBody struct {
	io.ReadCloser
	rc    *http.ResponseController
	end   time.Time // of the time that does not depend on the size
	bytes int64
}

// pace bounds the time of a request's body. Servers without deadlines (test
// recorders) read without.
func pace(w http.ResponseWriter, r *http.Request, grace time.Duration) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	b := &pacedBody{ReadCloser: r.Body, rc: http.NewResponseController(w), end: time.Now().Add(orDefault(grace, bodyTime))}
	if b.rc.SetReadDeadline(b.end) == nil {
		r.Body = b
	}
}

func (b *pacedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes += int64(n)
	deadline := b.end.Add(time.Duration(b.bytes) * time.Second / bodyRate)
	if err == io.EOF { //nolint:errorlint // readers return it as it is
		deadline = time.Time{} // what follows is the server's waiting, not the client's
	}
	_ = b.rc.SetReadDeadline(deadline) // it worked before
	return n, err
}

// cutAfter calls cut when ctx has been over for d, unless stop was called: it ends
// a write that the client does not take, or a handshake that it does not answer.
func cutAfter(ctx context.Context, d time.Duration, cut func()) (stop func()) {
	var mu sync.Mutex
	var timer *time.Timer
	stopped := false
	unlink := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			timer = time.AfterFunc(d, cut)
		}
	})
	return func() {
		unlink()
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		if timer != nil {
			timer.Stop()
		}
	}
}
