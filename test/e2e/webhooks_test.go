package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"parley/test/testkit/parleytest"
)

// Events reach an endpoint in their order and without a gap, whatever is killed and
// whatever the endpoint refuses.
func TestWebhooksOutliveKills(t *testing.T) {
	var mu sync.Mutex
	seen, asked := map[string][]int64{}, 0 // by conversation, each event at its first arrival
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var m struct {
			Data struct {
				ID     string                `json:"conversation_id"`
				Events []struct{ Seq int64 } `json:"events"`
			} `json:"data"`
		}
		mu.Lock()
		defer mu.Unlock()
		asked++
		if err != nil || json.Unmarshal(raw, &m) != nil || asked%7 == 3 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		for _, e := range m.Data.Events {
			if !slices.Contains(seen[m.Data.ID], e.Seq) {
				seen[m.Data.ID] = append(seen[m.Data.ID], e.Seq)
			}
		}
	}))
	defer hook.Close()
	s := parleytest.Start(t, parleytest.Options{Demo: true, Sandbox: "process", Env: []string{"PARLEY_WEBHOOK_ALLOW_PRIVATE=127.0.0.1"}})
	var made struct{ ID string }
	if code := s.Call("POST", "/api/v1/webhook-endpoints", map[string]any{"url": hook.URL}, &made); code != http.StatusCreated {
		t.Fatalf("POST webhook-endpoints: %d", code)
	}
	ids := []string{s.Conversation("say: one"), s.Conversation("say: two")}
	for range 3 {
		for _, id := range ids {
			s.Send(id, "say: more")
		}
		s.Kill() // in the middle of it
		s.Again()
	}
	for _, id := range ids {
		s.WaitStatus(id, "finished", "idle")
		want := len(s.Events(id))
		s.Call("PATCH", "/api/v1/webhook-endpoints/"+made.ID, map[string]any{}, nil) // no need to wait for a retry
		s.Eventually("all events", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(seen[id]) >= want
		})
		mu.Lock()
		for i, seq := range seen[id] {
			if seq != int64(i) {
				t.Errorf("%s: %v", id, seen[id])
				break
			}
		}
		mu.Unlock()
	}
}
