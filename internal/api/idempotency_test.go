package api_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/store"
)

// startWith starts with an idempotency key, "" for none.
func (w *world) startWith(key, user string, body any) *answer {
	w.Helper()
	h := http.Header{"X-Session-Api-Key": {user}}
	if key != "" {
		h.Set("Idempotency-Key", key)
	}
	return w.do("POST", "/api/v1/app-conversations", h, body)
}

func (w *world) conversations() int {
	w.Helper()
	n, err := w.store.Conversations().Count(w.Context(), store.ConversationQuery{Owner: account.FirstUserID, WithSubs: true})
	check(w.TB, err)
	return n
}

func TestStartIsRepeatedByItsKey(t *testing.T) {
	w := newWorld(t)
	until := make(chan struct{})
	w.boxes.HoldCreate(until)
	chosen := string(conversation.NewID())
	body := func() map[string]any {
		m := message("hello")
		m["secrets"] = map[string]any{"WORD": "swordfish-1"}
		return m
	}
	withID := body()
	withID["conversation_id"] = chosen
	first := w.startWith("k1", userKey, body()).is(200).text("id")
	second := w.startWith("", userKey, withID).is(200).text("id")
	if first == second {
		t.Fatal("two requests have one task")
	}
	repeat := func(when string) {
		t.Helper()
		if again := w.startWith("k1", userKey, body()).is(200); again.text("id") != first {
			t.Errorf("%s: by key: %s", when, again.body)
		}
		spaced := `{ "secrets": {"WORD":"swordfish-1"},
			"initial_message": {"content": [{"text":"hello","type":"text"}]} }`
		if again := w.startWith("k1", userKey, spaced).is(200); again.text("id") != first {
			t.Errorf("%s: written in another way: %s", when, again.body)
		}
		if again := w.startWith("", userKey, withID).is(200); again.text("id") != second {
			t.Errorf("%s: by id: %s", when, again.body)
		}
		other := body()
		other["secrets"] = map[string]any{"WORD": "swordfish-2"}
		for _, a := range []*answer{w.startWith("k1", userKey, other), w.startWith("k1", userKey, withID),
			w.startWith("k1", userKey, map[string]any{})} {
			if a.is(409).text("code") != "idempotency_key_reused" {
				t.Errorf("%s: another request: %s", when, a.body)
			}
		}
		other["conversation_id"] = chosen
		if a := w.startWith("", userKey, other).is(409); a.text("code") != "idempotency_key_reused" {
			t.Errorf("%s: another request with the id: %s", when, a.body)
		}
	}
	repeat("while it starts")
	close(until)
	w.eventually("READY", func() bool {
		a := w.call(200, "GET", "/api/v1/app-conversations/start-tasks?ids="+first+"&ids="+second, nil)
		return a.text(0, "status") == "READY" && a.text(1, "status") == "READY"
	})
	repeat("READY")
	if n := w.conversations(); n != 2 {
		t.Errorf("%d conversations", n)
	}
	// Another user's keys are others. The id is taken all the same.
	if a := w.startWith("k1", otherKey, body()).is(200); a.text("id") == first {
		t.Error("another user's task")
	}
	if a := w.startWith("", otherKey, withID).is(409); a.text("code") != "exists" {
		t.Errorf("another user's id: %s", a.body)
	}
	// With the conversation its keys go.
	id := w.call(200, "GET", "/api/v1/app-conversations/start-tasks?ids="+first, nil).text(0, "app_conversation_id")
	w.call(200, "DELETE", "/api/v1/app-conversations/"+id, nil)
	if a := w.startWith("k1", userKey, map[string]any{}).is(200); a.text("id") == first {
		t.Error("the key outlived its conversation")
	}
	w.startWith(strings.Repeat("x", 256), userKey, map[string]any{}).is(422)
}

func TestStartIsCarriedOutOnceForManyAtOnce(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	ids := make([]string, 12)
	for i := range ids {
		wg.Go(func() { ids[i] = w.startWith("same", userKey, message("x")).is(200).text("id") })
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("tasks %v", ids)
		}
	}
	if n := w.conversations(); n != 1 {
		t.Errorf("%d conversations", n)
	}
}
