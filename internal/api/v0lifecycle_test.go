package api_test

import (
	"errors"
	"strings"
	"testing"
)

// TestLegacyStartOfAFailedStartDoesItAgain: a start that came to nothing is STOPPED,
// never ERROR (choice 13 of the contract's section 20), and can be started again.
func TestLegacyStartOfAFailedStartDoesItAgain(t *testing.T) {
	w := newWorld(t)
	w.boxes.FailWith(errors.New("no room"))
	id := w.call(200, "POST", "/api/conversations", `{"initial_user_msg":"hi"}`).text("conversation_id")
	status := func() string { return w.call(200, "GET", "/api/conversations/"+id, nil).text("status") }
	w.eventually("STOPPED", func() bool {
		switch s := status(); s {
		case "STOPPED":
			return true
		case "STARTING", "RUNNING":
		default:
			t.Fatal(s)
		}
		return false
	})
	w.boxes.FailWith(nil)
	if a := w.as(userKey, "POST", "/api/conversations/"+id+"/start", `{}`); a.status != 200 || a.text("conversation_status") == "STOPPED" {
		t.Errorf("%d %s", a.status, a.body)
	}
	w.eventually("RUNNING", func() bool { return status() == "RUNNING" })
	// Stopped and started again, its events are still those of before.
	before := w.call(200, "GET", "/api/conversations/"+id+"/events", nil).list("events")
	if a := w.call(200, "POST", "/api/conversations/"+id+"/stop", nil); a.text("conversation_status") != "RUNNING" || status() != "STOPPED" {
		t.Errorf("%s, then %s", a.body, status())
	}
	w.call(200, "POST", "/api/conversations/"+id+"/start", `{"providers_set":null}`)
	w.eventually("RUNNING", func() bool { return status() == "RUNNING" })
	if after := w.call(200, "GET", "/api/conversations/"+id+"/events?limit=100", nil).list("events"); len(after) < len(before) {
		t.Errorf("%d events, %d before", len(after), len(before))
	}
}

// TestLegacyTitleIsTheMessagesBeginning until a model finds a better one.
func TestLegacyTitleIsTheMessagesBeginning(t *testing.T) {
	w := newWorld(t)
	title := func(id string) string { return w.call(200, "GET", "/api/conversations/"+id, nil).text("title") }
	for message, want := range map[string]string{`  Fix the bug\nin the parser and write a test`: "Fix the bug in the parser and ...", "Short": "Short",
		strings.Repeat("\u65e5\u672c\u8a9e", 10) + "!": strings.Repeat("\u65e5\u672c\u8a9e", 10) + "...",
		strings.Repeat("\u65e5\u672c\u8a9e", 10):       strings.Repeat("\u65e5\u672c\u8a9e", 10)} {
		id := w.legacyConversation(`{"initial_user_msg":"` + message + `"}`)
		w.eventually("the title", func() bool { return !strings.HasPrefix(title(id), "Conversation ") })
		if got := title(id); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	id := w.legacyConversation(`{}`)
	if got := title(id); got != "Conversation "+id[:5] {
		t.Errorf("without a message: %q", got)
	}
	w.call(200, "PATCH", "/api/conversations/"+id, `{"title":"Mine"}`)
	w.call(200, "POST", "/api/conversations/"+id+"/message", `{"message":"another text"}`)
	w.eventually("the message", func() bool {
		return len(w.call(200, "GET", "/api/conversations/"+id+"/events?limit=100", nil).list("events")) > 5
	})
	if got := title(id); got != "Mine" {
		t.Errorf("the user's own: %q", got)
	}
}

// TestLegacyRuntimeStatusesComeInOrder: each poll shows the same status or a later one.
func TestLegacyRuntimeStatusesComeInOrder(t *testing.T) {
	w := newWorld(t)
	id := w.call(200, "POST", "/api/conversations", `{}`).text("conversation_id")
	order := map[any]int{nil: 0, "STATUS$STARTING_RUNTIME": 1, "STATUS$RUNTIME_STARTED": 2, "STATUS$READY": 3}
	seen := 0
	w.eventually("READY", func() bool {
		a := w.call(200, "GET", "/api/conversations/"+id, nil)
		now, known := order[a.at("runtime_status")]
		if !known || now < seen {
			t.Fatalf("after %d: %s", seen, a.body)
		}
		if ready := now == 3; ready != (a.text("status") == "RUNNING") {
			t.Fatalf("%s", a.body)
		}
		seen = now
		return now == 3
	})
}
