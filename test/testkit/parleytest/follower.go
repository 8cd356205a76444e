package parleytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// Resume is how a follower asks for what it missed.
type Resume string

// The ways that the event socket has.
const (
	BySeq  Resume = "after_seq"                                        // after the last event that it has
	BySame Resume = "since the time of the last event, which is again" // sent a second time
)

// Follower follows a conversation over the event socket. It breaks the connection
// every few events, and connects again, also to a server that is started again.
type Follower struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	seen  []Event
	ids   map[string]bool
	again []string // ids of events that came a second time
	odd   error    // what must not have happened
	conns int
}

// Follow follows a conversation from its first event on, until the test ends.
// Every connection is broken after so many events.
func (a *Agent) Follow(id string, how Resume, every int) *Follower {
	ctx, cancel := context.WithCancel(context.Background())
	f := &Follower{cancel: cancel, done: make(chan struct{}), ids: map[string]bool{}}
	address := "ws" + strings.TrimPrefix(a.Base, "http") + "/sockets/events/" + id + "?session_api_key=" + url.QueryEscape(a.Key)
	go func() {
		defer close(f.done)
		for ctx.Err() == nil {
			if !f.connect(ctx, address+f.cursor(how), how, every) {
				pause(ctx, 10*time.Millisecond) // nobody listens there at the moment
			}
		}
	}()
	a.t.Cleanup(f.stop)
	return f
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// stop ends the following.
func (f *Follower) stop() {
	f.cancel()
	<-f.done
}

// cursor is what the next connection asks for.
func (f *Follower) cursor(how Resume) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.seen)
	switch {
	case n == 0:
		return "&resend_mode=all"
	case how == BySeq:
		return "&after_seq=" + strconv.Itoa(n-1)
	}
	return "&resend_mode=since&after_timestamp=" + url.QueryEscape(f.seen[n-1].str("timestamp"))
}

// connect reads so many events of a connection; false if there was none.
func (f *Follower) connect(ctx context.Context, address string, how Resume, events int) bool {
	conn, resp, err := websocket.Dial(ctx, address, nil)
	if err != nil {
		if resp != nil {
			_ = resp.Body.Close()
		}
		if resp != nil && resp.StatusCode != http.StatusServiceUnavailable { // it is not just being started
			f.note(fmt.Errorf("the socket is refused: %s", resp.Status))
			f.cancel()
		}
		return false
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(64 << 20)
	f.mu.Lock()
	f.conns++
	f.mu.Unlock()
	for first := true; events > 0; {
		_, raw, err := conn.Read(ctx)
		if err != nil {
			return true
		}
		var e Event
		if err := json.Unmarshal(raw, &e); err != nil {
			f.note(fmt.Errorf("a frame that is no event: %w", err))
			return true
		}
		if e.stored() {
			events--
			f.take(e, first && how == BySame)
			first = false
		}
	}
	return true
}

// stored reports whether an event is of the log, and not only of the socket.
func (e Event) stored() bool {
	switch e.Kind() {
	case "StreamingDeltaEvent", "ServerErrorEvent":
		return false
	}
	return e.str("key") != "full_state"
}

// take keeps an event. overlap: it may be the last one once more.
func (f *Follower) take(e Event, overlap bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.seen); overlap && n > 0 && f.seen[n-1].ID() == e.ID() {
		return
	}
	if f.ids[e.ID()] {
		f.again = append(f.again, e.ID())
	}
	f.ids[e.ID()] = true
	f.seen = append(f.seen, e)
}

func (f *Follower) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.odd = errors.Join(f.odd, err)
}

// Len is how many events it has.
func (f *Follower) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seen)
}

// Check waits until the follower has as many events as a log, ends it, and
// compares: the same ones, in the same order, each once. It returns how many
// connections it took.
func (f *Follower) Check(t testing.TB, log []Event) int {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); f.Len() < len(log) && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	f.stop()
	if f.odd != nil || len(f.again) > 0 {
		t.Errorf("the follower met %v, and saw these events twice: %v", f.odd, f.again)
	}
	for i := range min(len(log), len(f.seen)) {
		if got, want := f.seen[i].Text(), log[i].Text(); got != want {
			t.Errorf("event %d:\n%.2000s\nthe log has\n%.2000s", i, got, want)
			break
		}
	}
	if len(f.seen) != len(log) {
		t.Errorf("the follower saw %d events, the log has %d", len(f.seen), len(log))
	}
	return f.conns
}
