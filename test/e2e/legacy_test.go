package e2e_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/test/testkit/parleytest"
)

// The keys of the configuration that make the server as strict as those that the
// legacy API comes from.
func TestLegacyBoundsAreThoseOfTheConfiguration(t *testing.T) {
	s := parleytest.Start(t, parleytest.Options{Demo: true, Sandbox: "process", Args: []string{"--legacy-conversations", "1", "--rate-limit", "200"},
		Env: []string{"PERMITTED_CORS_ORIGINS=https://ui.example.org, https://two.example.org"}})
	if code := s.Call("POST", "/api/settings", map[string]any{"llm_model": "demo/scripted"}, nil); code != http.StatusOK {
		t.Fatalf("POST /api/settings: %d", code)
	}
	create := func() string {
		var made struct {
			ID string `json:"conversation_id"`
		}
		if code := s.Call("POST", "/api/conversations", map[string]any{}, &made); code != http.StatusOK {
			t.Fatalf("POST /api/conversations: %d", code)
		}
		return made.ID
	}
	becomes := func(id, want string) {
		t.Helper()
		var got struct{ Status string }
		for end := time.Now().Add(20 * time.Second); got.Status != want; time.Sleep(20 * time.Millisecond) {
			if code := s.Call("GET", "/api/conversations/"+id, nil, &got); code != http.StatusOK || time.Now().After(end) {
				t.Fatalf("%s: %d %s, want %s", id, code, got.Status, want)
			}
		}
	}
	first := create()
	becomes(first, "RUNNING")
	second := create()
	becomes(first, "STOPPED")
	becomes(second, "RUNNING")

	seen := map[int]int{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 500 {
		group.Go(func() {
			status, body, err := s.Raw(t.Context(), "", "GET", "/alive", nil)
			if err != nil || status == http.StatusTooManyRequests && strings.TrimSpace(string(body)) != `{"message":"Too many requests"}` {
				t.Errorf("%d %s %v", status, body, err)
			}
			mu.Lock()
			defer mu.Unlock()
			seen[status]++
		})
	}
	group.Wait()
	if seen[200] == 0 || seen[200]+seen[429] != 500 {
		t.Errorf("%v", seen)
	}

	for origin, want := range map[string]int{"https://ui.example.org": 200, "https://two.example.org": 200, "http://localhost:5173": 400} {
		r, err := http.NewRequestWithContext(t.Context(), "OPTIONS", s.URL+"/api/settings", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", origin)
		r.Header.Set("Access-Control-Request-Method", "POST")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("a preflight of %s: %d", origin, resp.StatusCode)
		}
	}
}
