package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/store"
)

// published runs a conversation whose log holds all that strangers must not see.
func published(t *testing.T) (w *world, id string, hidden []string) {
	t.Helper()
	w = newWorld(t, callTool("sh", `{"command":"pwd; echo $WORD swordfish-1 # WORD"}`))
	body := message("look around")
	body["secrets"] = map[string]any{"WORD": "swordfish-1"}
	body["system_message_suffix"] = "instructions of the owner"
	body["selected_repository"] = nil
	id, conv := w.begin(body)
	w.waitFor(id, conversation.Finished)
	box, key, dir := conv.text("sandbox_id"), conv.text("session_api_key"), conv.text("workspace", "working_dir")
	w.inject(id, fmt.Sprintf(`{"kind":"MessageEvent","id":"leak","source":"agent","timestamp":"2026-08-01T12:00:00.123456",
		"llm_message":{"role":"assistant","content":[{"type":"text","text":"key %s box %s dir %s word swordfish-1 twice %s"}]},
		"extended_content":[{"type":"text","text":"a skill's text"}],"n":12345678901234567890}`, key, box, dir, key))
	return w, id, []string{box, key, dir, "swordfish-1", "instructions of the owner", "a skill's text", "sk-llm-key-of-the-user", account.FirstUserID}
}

// allShared reads everything that strangers can.
func allShared(w *world, id, token string) (texts string, events []any) {
	w.Helper()
	tail := ""
	if token != "" {
		tail = "&share_token=" + token
	}
	a := w.as("", "GET", "/api/shared-conversations?ids="+id+tail, nil).is(200)
	texts = string(a.body)
	e := w.as("", "GET", "/api/shared-events/search?conversation_id="+id+tail, nil).is(200)
	texts += string(e.body)
	events = e.list("items")
	count := w.as("", "GET", "/api/shared-events/count?conversation_id="+id+tail, nil).is(200)
	if n, ok := count.value().(float64); !ok || int(n) != len(events) {
		w.Errorf("count %s for %d events", count.body, len(events))
	}
	for _, ev := range events {
		eid, _ := walk(w.TB, ev, "id").(string)
		one := w.as("", "GET", "/api/shared-events/"+id+"/"+eid+strings.Replace(tail, "&", "?", 1), nil).is(200)
		batch := w.as("", "GET", "/api/shared-events?conversation_id="+id+"&id="+eid+"&id=unknown"+tail, nil).is(200)
		if one.text("id") != eid || batch.text(0, "id") != eid || batch.at(1) != nil {
			w.Errorf("event %s is %s and %s", eid, one.body, batch.body)
		}
		texts += string(one.body) + string(batch.body)
	}
	return texts, events
}

func TestOnlyPublicConversationsAreShared(t *testing.T) {
	w, id, hidden := published(t)
	dashed := conversation.ID(id).Dashed()
	missing := func(when string) {
		t.Helper()
		for _, ref := range []string{id, dashed, string(conversation.NewID()), "nonsense"} {
			if texts, events := allShared(w, ref, ""); len(events) != 0 || !strings.HasPrefix(texts, "[null]") {
				t.Errorf("%s: %s shows %s", when, ref, texts)
			}
		}
		if a := w.as("", "GET", "/api/shared-events/"+id+"/leak", nil).is(200); string(a.body) != "null\n" {
			t.Errorf("%s: an event shows: %s", when, a.body)
		}
	}
	missing("not shared")
	w.call(200, "PATCH", "/api/v1/app-conversations/"+id, map[string]any{"public": true})
	texts, events := allShared(w, dashed, "")
	if len(events) < 4 || !strings.Contains(texts, "look around") || !strings.Contains(texts, "12345678901234567890") {
		t.Errorf("%d events: %s", len(events), texts)
	}
	for _, secret := range hidden {
		if strings.Contains(texts, secret) {
			t.Errorf("%q is shown: %s", secret, texts)
		}
	}
	for _, e := range events {
		switch kind := walk(t, e, "kind"); kind {
		case "SystemPromptEvent", "ConversationStateUpdateEvent", "HookExecutionEvent":
			t.Errorf("a %v is shown", kind)
		}
	}
	for _, kind := range []string{"SystemPromptEvent", "ConversationStateUpdateEvent"} {
		if a := w.as("", "GET", "/api/shared-events/search?conversation_id="+id+"&kind__eq="+kind, nil).is(200); len(a.list("items")) != 0 {
			t.Errorf("%s are shown: %s", kind, a.body)
		}
		if a := w.as("", "GET", "/api/shared-events/count?conversation_id="+id+"&kind__eq="+kind, nil).is(200); a.value() != float64(0) {
			t.Errorf("%s count: %s", kind, a.body)
		}
	}
	w.as("", "GET", "/api/shared-conversations", nil).is(422)
	w.as("", "GET", "/api/shared-events/search?conversation_id="+id+"&limit=101", nil).is(422)
	w.as("", "GET", "/api/v1/app-conversations?ids="+id, nil).is(401) // V1 stays closed
	w.call(200, "PATCH", "/api/v1/app-conversations/"+id, map[string]any{"public": nil})
	missing("taken back")
}

func TestSharedEventsPage(t *testing.T) {
	w, id, _ := published(t)
	w.call(200, "PATCH", "/api/v1/app-conversations/"+id, map[string]any{"public": true})
	_, all := allShared(w, id, "")
	for _, order := range []string{"TIMESTAMP", "TIMESTAMP_DESC"} {
		for limit := 1; limit <= len(all)+1; limit++ {
			var got []string
			for next := ""; ; {
				a := w.as("", "GET", fmt.Sprintf("/api/shared-events/search?conversation_id=%s&sort_order=%s&limit=%d&page_id=%s", id, order, limit, next), nil).is(200)
				for _, e := range a.list("items") {
					got = append(got, walk(t, e, "id").(string))
				}
				if next, _ = a.at("next_page_id").(string); next == "" {
					break
				}
			}
			if len(got) != len(all) {
				t.Fatalf("%s, limit %d: %v", order, limit, got)
			}
			for i, e := range all {
				at := i
				if order == "TIMESTAMP_DESC" {
					at = len(all) - 1 - i
				}
				if got[at] != walk(t, e, "id") {
					t.Fatalf("%s, limit %d: %v", order, limit, got)
				}
			}
		}
	}
}

// A secret is hidden whole, also one that has a hidden directory in it.
func TestSharedSecretsWithDirectories(t *testing.T) {
	w := newWorld(t)
	id, conv := w.begin(message("look around"))
	w.waitFor(id, conversation.Finished)
	secret := "sqlite://" + conv.text("workspace", "working_dir") + "/x.db?password=swordfish-2"
	w.call(201, "POST", "/api/v1/secrets", map[string]any{"name": "DB", "value": secret})
	w.inject(id, fmt.Sprintf(`{"kind":"MessageEvent","id":"leak","source":"agent","timestamp":"2026-08-01T12:00:00.123456",
		"llm_message":{"role":"assistant","content":[{"type":"text","text":"it is %s"}]}}`, secret))
	w.call(200, "PATCH", "/api/v1/app-conversations/"+id, map[string]any{"public": true})
	if texts, _ := allShared(w, id, ""); !strings.Contains(texts, "it is ") || strings.Contains(texts, "swordfish-2") {
		t.Errorf("%s", texts)
	}
}

// Strangers do not make the server hold a whole log of images: pages end early, and
// one event is not sent a hundred times.
func TestSharedAnswersAreBounded(t *testing.T) {
	w, id, _ := published(t)
	image := "data:image/png;base64," + strings.Repeat("A", 3<<20)
	for i := range 5 {
		w.inject(id, fmt.Sprintf(`{"kind":"MessageEvent","id":"image-%d","source":"user","timestamp":"2026-08-01T12:00:0%d.123456",
			"llm_message":{"role":"user","content":[{"type":"image","image_urls":[%q]}]}}`, i, i, image))
	}
	w.call(200, "PATCH", "/api/v1/app-conversations/"+id, map[string]any{"public": true})
	images, pages := 0, 0
	for next := ""; ; pages++ {
		a := w.as("", "GET", "/api/shared-events/search?conversation_id="+id+"&page_id="+next, nil).is(200)
		if len(a.body) > 9<<20 {
			t.Errorf("a page of %d bytes", len(a.body))
		}
		for _, e := range a.list("items") {
			if strings.HasPrefix(walk(t, e, "id").(string), "image-") {
				images++
			}
		}
		if next, _ = a.at("next_page_id").(string); next == "" {
			break
		}
	}
	if images != 5 || pages < 2 {
		t.Errorf("%d images on %d pages", images, pages+1)
	}
	batch := "/api/shared-events?conversation_id=" + id
	w.as("", "GET", batch+"&id=image-1&id=image-2", nil).is(200)
	w.as("", "GET", batch+strings.Repeat("&id=image-1", 50), nil).is(413)
}

func TestRelativesAreSharedForThemselves(t *testing.T) {
	w := newWorld(t)
	parent, _ := w.begin(map[string]any{"public": true})
	child, _ := w.begin(map[string]any{"parent_conversation_id": parent})
	a := w.as("", "GET", "/api/shared-conversations?ids="+parent+"&ids="+child, nil).is(200)
	if len(a.list(0, "sub_conversation_ids")) != 0 || a.at(1) != nil {
		t.Errorf("%s", a.body)
	}
	w.call(200, "PATCH", "/api/v1/app-conversations/"+child, map[string]any{"public": true})
	w.call(200, "PATCH", "/api/v1/app-conversations/"+parent, map[string]any{"public": false})
	if a = w.as("", "GET", "/api/shared-conversations?ids="+child, nil).is(200); a.at(0, "parent_conversation_id") != nil {
		t.Errorf("%s", a.body)
	}
	w.call(200, "PATCH", "/api/v1/app-conversations/"+parent, map[string]any{"public": true,
		"selected_repository": "https://user:token-in-url@git.example/o/r"})
	a = w.as("", "GET", "/api/shared-conversations?ids="+parent+"&ids="+child, nil).is(200)
	if a.text(0, "sub_conversation_ids", 0) != child || a.text(1, "parent_conversation_id") != parent ||
		a.text(0, "selected_repository") != "https://git.example/o/r" {
		t.Errorf("%s", a.body)
	}
}

func TestShareLinks(t *testing.T) {
	w, id, hidden := published(t)
	other, _ := w.begin(map[string]any{})
	path := "/api/v1/app-conversations/" + id + "/share"
	w.as(otherKey, "POST", path, nil).is(404)
	w.call(422, "POST", path, map[string]any{"expires_in": 59})
	made := w.call(201, "POST", path, map[string]any{"expires_in": 3600})
	token := made.text("token")
	texts, events := allShared(w, id, token)
	if len(events) < 4 {
		t.Errorf("the link shows %s", texts)
	}
	for _, secret := range append(hidden, token) {
		if strings.Contains(texts, secret) {
			t.Errorf("%q is shown", secret)
		}
	}
	if a := w.at(strings.TrimSuffix(made.text("url"), mustParse(t, made.text("url")).RequestURI()), "GET", mustParse(t, made.text("url")).RequestURI(), nil); a.text(0, "id") != id {
		t.Errorf("the URL shows %s", a.body)
	}
	if a := w.do("GET", "/api/shared-conversations", map[string][]string{"X-Share-Token": {token}}, nil); a.text(0, "id") != id {
		t.Errorf("the header shows %s", a.body)
	}
	if a := w.as("", "GET", "/api/shared-conversations?ids="+other+"&share_token="+token, nil).is(200); a.at(0) != nil {
		t.Error("the link opens another conversation")
	}
	if a := w.as("", "GET", "/api/shared-conversations?share_token=parley-share-wrong", nil).is(200); a.at(0) != nil {
		t.Error("a wrong token opens something")
	}
	list := w.call(200, "GET", path, nil)
	if len(list.list("items")) != 1 || strings.Contains(string(list.body), token) || strings.Contains(w.log.String(), token) {
		t.Errorf("the token is shown again: %s", list.body)
	}
	w.as(otherKey, "GET", path, nil).is(404)
	share := path + "/" + list.text("items", 0, "id")
	w.as(otherKey, "DELETE", share, nil).is(404)
	w.call(200, "DELETE", share, nil)
	w.call(404, "DELETE", share, nil)
	if texts, events = allShared(w, id, token); len(events) != 0 || !strings.HasPrefix(texts, "[null]") {
		t.Errorf("revoked: %s", texts)
	}
	// One that has expired looks the same.
	expired := account.NewKey("parley-share-")
	check(t, w.store.Shares().Add(t.Context(), store.Share{ID: "s", Owner: account.FirstUserID, Conversation: conversation.ID(id),
		CreatedAt: time.Now().Add(-time.Hour), ExpiresAt: time.Now().Add(-time.Minute)}, account.HashKey(expired), 10))
	if again, _ := allShared(w, id, expired); again != texts {
		t.Errorf("expired: %s", again)
	}
	if n := len(w.call(200, "GET", path, nil).list("items")); n != 0 {
		t.Errorf("%d expired links are listed", n)
	}
}

func TestStrangersMayAskOnlySoOften(t *testing.T) {
	w := newWorld(t)
	refused := 0
	for range 200 {
		a := w.as("", "GET", "/api/shared-events/count?conversation_id=x", nil)
		if a.status == 429 {
			refused++
			if a.header.Get("Retry-After") == "" {
				t.Fatal("no Retry-After")
			}
		}
	}
	if refused == 0 {
		t.Error("no limit")
	}
	w.call(200, "GET", "/api/v1/app-conversations/search", nil) // users go on
}
