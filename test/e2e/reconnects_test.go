package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/test/testkit/parleytest"
)

// Clients that join a growing log at random places, in every way there is, see each
// event once and in order.
func TestReconnectsHaveNoGapsAndNoDoubles(t *testing.T) {
	const clients, rounds, length = 8, 40, 200
	s := parleytest.Start(t, parleytest.Options{Demo: true, Sandbox: "process"})
	id := s.Conversation("")
	say := func() int {
		return s.Call("POST", "/api/v1/app-conversations/"+id+"/send-message", map[string]any{"role": "user", "run": false,
			"content": []any{map[string]any{"type": "text", "text": "more"}}}, nil)
	}
	for range length {
		say()
	}
	key, _ := s.Info(id)["session_api_key"].(string)
	log := s.Events(id)
	numbers := map[string]int{} // by event id, for sockets, whose frames have no numbers
	for i, e := range log {
		numbers[e.ID()] = i
	}
	ctx, cancel := context.WithCancel(t.Context())
	var writer, readers sync.WaitGroup
	writer.Go(func() {
		for ctx.Err() == nil {
			if code := say(); code != http.StatusOK {
				t.Errorf("send-message: %d", code)
				return
			}
		}
	})
	for c := range clients {
		readers.Go(func() {
			for range rounds {
				after, n := rand.IntN(len(log)), 1+rand.IntN(2*length)
				var err error
				switch c % 3 {
				case 0:
					err = sseFrom(ctx, s.URL+"/api/v1/conversation/"+id+"/events/stream", parleytest.Key, after, n)
				case 1:
					err = sseFrom(ctx, s.URL+"/api/conversations/"+id+"/events/stream", key, after, n)
				default:
					err = socketFrom(ctx, s.URL, id, after, n, numbers)
				}
				if err != nil {
					t.Errorf("client %d, after %d: %v", c, after, err)
					return
				}
			}
		})
	}
	readers.Wait()
	cancel()
	writer.Wait()
}

// sseFrom resumes a stream and reads n events.
func sseFrom(ctx context.Context, url, key string, after, n int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("X-Session-API-Key", key)
	req.Header.Set("Last-Event-ID", strconv.Itoa(after))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	lines, begin := bufio.NewReader(resp.Body), strings.Contains(url, "/api/conversations/")
	for next := after + 1; next <= after+n; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return fmt.Errorf("after %d: %w", next-1, err)
		}
		seq, ok := strings.CutPrefix(strings.TrimSpace(line), "id: ")
		switch {
		case !ok:
		case begin && seq == strconv.Itoa(after): // the state that comes first
			begin = false
		case seq != strconv.Itoa(next):
			return fmt.Errorf("event %s where %d comes next", seq, next)
		default:
			next++
		}
	}
	return nil
}

// socketFrom reads n frames of an event socket. Those of events that were there when
// the test began must be the right ones.
func socketFrom(ctx context.Context, base, id string, after, n int, numbers map[string]int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, fmt.Sprintf("ws%s/sockets/events/%s?session_api_key=%s&after_seq=%d", //nolint:bodyclose // the library owns it
		strings.TrimPrefix(base, "http"), id, parleytest.Key, after), nil)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(1 << 20)
	seen := map[string]bool{}
	for next := after; next <= after+n; next++ { // the state comes first
		_, raw, err := conn.Read(ctx)
		if err != nil {
			return fmt.Errorf("after %d: %w", next-1, err)
		}
		var e struct{ ID, Key string }
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		if next == after {
			if e.Key != "full_state" {
				return fmt.Errorf("first came %s", raw)
			}
			continue
		}
		if known, ok := numbers[e.ID]; seen[e.ID] || ok != (next < len(numbers)) || ok && known != next {
			return fmt.Errorf("event %s (%d) where %d comes next", e.ID, known, next)
		}
		seen[e.ID] = true
	}
	return nil
}
