package v0_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/fault"
)

// TestStrangersTakeNoPlace: only who may follow a conversation counts as a subscriber of
// it, and gives the place back when it leaves.
func TestStrangersTakeNoPlace(t *testing.T) {
	r := newRig(t)
	var taken, left atomic.Int32
	r.enter = func(ctx context.Context, _ httpkit.Principal, _ conversation.ID) (context.Context, func(), error) {
		if taken.Add(1) > 1 {
			return nil, nil, fault.New(fault.RateLimited, "too_many_streams", "Too many subscribers of this conversation.")
		}
		return ctx, func() { left.Add(1) }, nil
	}
	r.restart()
	r.settled()
	id := r.conversation("hi")
	for _, query := range []string{"session_api_key=wrong", "session_api_key=" + otherKey, "conversation_id=", "conversation_id=" + strings.Repeat("a", 32)} {
		r.connect(id, query).refusal()
	}
	if n := taken.Load(); n != 0 {
		t.Fatalf("%d places taken by strangers", n)
	}
	g := r.connect(id, "")
	g.next()
	if message, _ := r.connect(id, "").refusal(); message != "Too many subscribers of this conversation." {
		t.Errorf("one too many: %q", message)
	}
	g.leave()
	if err := g.end(); !errors.Is(err, context.Canceled) || left.Load() != 1 {
		t.Errorf("%v, %d left", err, left.Load())
	}
}

// TestManyStartsReviveOnce: several clients that open a stopped conversation at a time
// start it once, and its stream says so once.
func TestManyStartsReviveOnce(t *testing.T) {
	r := newRig(t).settled()
	id := r.conversation("hi")
	r.aRun(id)
	if code, answer := r.call("POST", "/api/conversations/"+string(id)+"/stop", ""); code != 200 {
		t.Fatal(answer)
	}
	gate := make(chan struct{})
	r.engine.resuming = func() { <-gate }
	guests := make([]*guest, 4)
	for i := range guests {
		guests[i] = r.connect(id, "")
	}
	for end := time.Now().Add(10 * time.Second); r.rooms.Count(id) < len(guests); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("they do not come")
		}
	}
	close(gate)
	for _, g := range guests {
		g.next()
	}
	var page struct {
		Events []map[string]any `json:"events"`
	}
	r.decode("GET", "/api/conversations/"+string(id)+"/events?limit=100", "", &page)
	loading := 0
	for _, e := range page.Events {
		if extras, ok := e["extras"].(map[string]any); ok && extras["agent_state"] == "loading" {
			loading++
		}
	}
	if loading != 2 { // the first start and this one
		t.Errorf("%d times loading", loading)
	}
}
