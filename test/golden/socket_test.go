package golden_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// event is an event, or a frame that carries one.
type event map[string]any

func (e event) str(key string) string { s, _ := e[key].(string); return s }
func (e event) kind() string          { return e.str("kind") }
func (e event) isState() bool         { return e.kind() == "ConversationStateUpdateEvent" }
func (e event) isFull() bool          { return e.isState() && e.str("key") == "full_state" }

// status is the execution_status that a full_state carries, or a state update tells.
func (e event) status() string {
	if e.isFull() {
		value, _ := e["value"].(map[string]any)
		s, _ := value["execution_status"].(string)
		return s
	}
	if e.isState() && e.str("key") == "execution_status" {
		return e.str("value")
	}
	return ""
}

// socket collects the frames of a conversation's event socket, over as many
// connections as there are, each event once.
type socket struct {
	t    *testing.T
	mu   sync.Mutex
	more chan struct{} // closed and replaced at each frame
	all  []event
	seen map[string]bool
	conn *websocket.Conn // the newest
}

func newSocket(t *testing.T) *socket {
	return &socket{t: t, more: make(chan struct{}), seen: map[string]bool{}}
}

// connect asks for everything to be sent again, and returns when the first frame is
// there, which is a full_state.
func (s *socket) connect(url string) {
	s.t.Helper()
	conn, _, err := websocket.Dial(s.t.Context(), "ws"+strings.TrimPrefix(url, "http"), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	conn.SetReadLimit(64 << 20)
	s.conn = conn
	ctx, cancel := context.WithCancel(context.Background())
	var reader sync.WaitGroup
	s.t.Cleanup(func() { cancel(); _ = conn.CloseNow(); reader.Wait() })
	before := s.count()
	first := make(chan struct{})
	reader.Go(func() { s.read(ctx, conn, sync.OnceFunc(func() { close(first) })) })
	select {
	case <-first:
	case <-time.After(patience):
		s.t.Fatal("no first frame")
	}
	if got := s.frames()[before:]; len(got) == 0 || !got[0].isFull() {
		s.t.Errorf("the first frame is no full_state: %v", got)
	}
}

func (s *socket) read(ctx context.Context, conn *websocket.Conn, got func()) {
	defer got()
	for {
		_, raw, err := conn.Read(ctx)
		if err != nil {
			return
		}
		var e event
		if err := json.Unmarshal(raw, &e); err != nil {
			s.t.Errorf("frame %s: %v", raw, err)
			return
		}
		s.take(e)
		got()
	}
}

func (s *socket) take(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := e.str("id"); s.seen[id] {
		return
	} else if s.seen[id] = true; e.kind() == "StreamingDeltaEvent" {
		return
	}
	s.all = append(s.all, e)
	close(s.more)
	s.more = make(chan struct{})
}

func (s *socket) frames() []event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[:len(s.all):len(s.all)]
}

func (s *socket) count() int { return len(s.frames()) }

// until waits for frames, from one of them on.
func (s *socket) until(what string, from int, ok func(frames []event) bool) {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		got, more := s.all[from:], s.more
		s.mu.Unlock()
		if ok(got) {
			return
		}
		select {
		case <-more:
		case <-deadline:
			s.t.Fatalf("waited in vain for %s; there came %s", what, outline(got))
		}
	}
}

// outline names frames.
func outline(frames []event) string {
	var names []string
	for _, f := range frames {
		if f.isState() {
			names = append(names, strings.TrimSpace(f.str("key")+" "+f.status()))
		} else {
			names = append(names, f.kind())
		}
	}
	return strings.Join(names, ", ")
}

// stored are the frames that the log has too.
func stored(frames []event) []event {
	var out []event
	for _, f := range frames {
		if !f.isFull() {
			out = append(out, f)
		}
	}
	return out
}

// send sends a frame.
func (s *socket) send(v any) {
	s.t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.conn.Write(s.t.Context(), websocket.MessageText, raw); err != nil {
		s.t.Fatal(err)
	}
}
