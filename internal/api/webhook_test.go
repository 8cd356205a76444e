package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"parley/internal/conversation"
	"parley/internal/outbox"
	"parley/internal/tool/mcp/egress"
)

// inbox is an endpoint of webhooks.
type inbox struct {
	server *httptest.Server
	mu     sync.Mutex
	got    []map[string]any
}

func newInbox(t testing.TB) *inbox {
	t.Helper()
	in := &inbox{}
	in.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var m map[string]any
		if err == nil && json.Unmarshal(raw, &m) == nil {
			in.mu.Lock()
			defer in.mu.Unlock()
			in.got = append(in.got, m)
		}
	}))
	t.Cleanup(in.server.Close)
	return in
}

// events returns those of a conversation that arrived.
func (in *inbox) events(t testing.TB, id string) (out []any) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, m := range in.got {
		if m["type"] == "conversation.events" && walk(t, m, "data", "conversation_id") == id {
			for _, e := range walk(t, m, "data", "events").([]any) {
				out = append(out, walk(t, e, "event"))
			}
		}
	}
	return out
}

func newWebhookWorld(t testing.TB, steps ...step) *world {
	t.Helper()
	dial, err := egress.Dialer(egress.Config{Allow: []string{"127.0.0.1"}})
	check(t, err)
	return newWorldWith(t, func(c *config) {
		w := c.world
		box := outbox.New(outbox.Options{Store: w.store.Webhooks(), Log: w.store.Events(), Dial: dial})
		w.hub.OnWake(box.Wake)
		check(t, box.Open(t.Context()))
		t.Cleanup(box.Close)
		c.v1.Webhooks = box
	}, steps...)
}

const webhookPath = "/api/v1/webhook-endpoints"

func TestWebhooks(t *testing.T) {
	w, in := newWebhookWorld(t, say("hello")), newInbox(t)
	made := w.call(201, "POST", webhookPath, map[string]any{"url": in.server.URL})
	secret := made.text("secret")
	if !strings.HasPrefix(secret, "whsec_") || made.at("active") != true || made.at("disabled_reason") != nil {
		t.Errorf("%s", made.body)
	}
	id, _ := w.begin(message("hi"))
	w.waitFor(id, conversation.Finished)
	raw := w.call(200, "GET", "/api/v1/conversation/"+id+"/events/search", nil).list("items")
	w.eventually("all events", func() bool { return len(in.events(t, id)) >= len(raw) })
	for i, e := range in.events(t, id) {
		if walk(t, e, "id") != walk(t, raw[i], "id") {
			t.Errorf("event %d is %v", i, e)
		}
	}
	one := webhookPath + "/" + made.text("id")
	w.eventually("the record", func() bool {
		list := w.call(200, "GET", one+"/deliveries/search?limit=1", nil).list("items")
		return len(list) == 1 && walk(t, list[0], "delivered") == true && walk(t, list[0], "conversation_id") == id
	})
	if got := w.call(200, "GET", one, nil); got.at("last_delivered_at") == nil || got.at("last_error") != nil || strings.Contains(string(got.body), secret) {
		t.Errorf("%s", got.body)
	}
	if list := w.call(200, "GET", one+"/deliveries/search?failed=true", nil).list("items"); len(list) != 0 {
		t.Errorf("%v", list)
	}
	w.call(200, "POST", one+"/replay", map[string]any{"conversation_id": id, "from_seq": len(raw) - 1})
	w.eventually("the last one again", func() bool { return len(in.events(t, id)) == len(raw)+1 })
	w.call(200, "POST", one+"/replay", map[string]any{"from_time": "2026-01-01T00:00:00Z"})
	w.eventually("all again", func() bool { return len(in.events(t, id)) == 2*len(raw)+1 })
	if d := w.call(200, "POST", one+"/test", nil); d.at("delivered") != true || d.at("http_status") != 200.0 || d.at("conversation_id") != nil {
		t.Errorf("%s", d.body)
	}
	w.call(200, "DELETE", one, nil)
	w.call(404, "DELETE", one, nil)
}

func TestWebhookChanges(t *testing.T) {
	w, in := newWebhookWorld(t), newInbox(t)
	id := string(conversation.NewID())
	secret := "whsec_" + strings.Repeat("QUJD", 10)
	made := w.call(201, "POST", webhookPath, map[string]any{"url": in.server.URL, "secret": secret, "description": "d", "active": false,
		"conversation_ids": []any{id}, "tags": map[string]any{"a": "b"}, "kinds": []any{"MessageEvent"}, "status_only": true})
	if made.text("secret") != secret {
		t.Errorf("%s", made.body)
	}
	one := webhookPath + "/" + made.text("id")
	got := w.call(200, "PATCH", one, map[string]any{"description": "other"})
	if got.text("description") != "other" || got.at("active") != false || got.text("conversation_ids", 0) != id || got.text("tags", "a") != "b" ||
		got.text("kinds", 0) != "MessageEvent" || got.at("status_only") != true || strings.Contains(string(got.body), secret) {
		t.Errorf("%s", got.body)
	}
	got = w.call(200, "PATCH", one, map[string]any{"conversation_ids": nil, "tags": map[string]any{"c": "d"}, "kinds": []any{}, "status_only": false, "active": true})
	if got.text("description") != "other" || got.at("active") != true || len(got.list("conversation_ids")) != 0 || got.text("tags", "c") != "d" ||
		len(got.at("tags").(map[string]any)) != 1 || len(got.list("kinds")) != 0 || got.at("status_only") != false {
		t.Errorf("%s", got.body)
	}
	if list := w.call(200, "GET", webhookPath+"/search", nil).list("items"); len(list) != 1 {
		t.Errorf("%v", list)
	}
}

func TestWebhookRefusals(t *testing.T) {
	w, in := newWebhookWorld(t), newInbox(t)
	one := webhookPath + "/" + w.call(201, "POST", webhookPath, map[string]any{"url": in.server.URL}).text("id")
	for _, c := range []struct {
		want         int
		method, path string
		body         any
	}{
		{422, "POST", webhookPath, map[string]any{}},
		{422, "POST", webhookPath, map[string]any{"url": 5}},
		{400, "POST", webhookPath, map[string]any{"url": "ftp://x"}},
		{400, "POST", webhookPath, map[string]any{"url": "https://user:word@x.example"}},
		{400, "POST", webhookPath, map[string]any{"url": "https://x.example", "secret": "short"}},
		{422, "POST", webhookPath, map[string]any{"url": "https://x.example", "conversation_ids": []any{"a/b"}}},
		{400, "PATCH", one, map[string]any{"url": "file:///etc/passwd"}},
		{422, "PATCH", one, map[string]any{"active": "perhaps"}},
		{400, "POST", one + "/replay", map[string]any{}},
		{400, "POST", one + "/replay", map[string]any{"from_seq": 1}},
		{422, "POST", one + "/replay", map[string]any{"from_seq": -1}},
		{404, "POST", one + "/replay", map[string]any{"from_seq": 1, "conversation_id": string(conversation.NewID())}},
		{404, "GET", webhookPath + "/none", nil},
		{404, "PATCH", webhookPath + "/none", map[string]any{}},
		{404, "POST", webhookPath + "/none/test", nil},
		{404, "POST", webhookPath + "/none/replay", map[string]any{"from_time": "2026-01-01T00:00:00Z"}},
		{404, "GET", webhookPath + "/none/deliveries/search", nil},
	} {
		w.call(c.want, c.method, c.path, c.body)
	}
	for _, c := range []struct{ method, path string }{{"GET", one}, {"DELETE", one}, {"POST", one + "/test"}, {"GET", one + "/deliveries/search"}} {
		w.as(otherKey, c.method, c.path, nil).is(404)
	}
	if list := w.as(otherKey, "GET", webhookPath+"/search", nil).is(200).list("items"); len(list) != 0 {
		t.Errorf("%v", list)
	}
	for range 19 {
		w.call(201, "POST", webhookPath, map[string]any{"url": in.server.URL, "active": false})
	}
	w.call(409, "POST", webhookPath, map[string]any{"url": in.server.URL})
}

func TestAServerWithoutWebhooks(t *testing.T) {
	w := newWorld(t)
	w.call(501, "GET", webhookPath+"/search", nil)
	w.call(501, "POST", webhookPath, map[string]any{"url": "https://x.example"})
}
