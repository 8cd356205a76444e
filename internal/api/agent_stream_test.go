package api_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"parley/internal/conversation"
)

// shown is what a frame of the agent protocol's stream says.
func shown(t testing.TB, f frame) (kind, key, status string) {
	t.Helper()
	var e struct {
		Kind, Key string
		Value     json.RawMessage
	}
	check(t, json.Unmarshal([]byte(f.data), &e))
	var state struct {
		Status string `json:"execution_status"`
	}
	_ = json.Unmarshal(e.Value, &state) // other values are no objects
	return e.Kind, e.Key, state.Status
}

func endOfRun(t testing.TB) func(frame) bool {
	return func(f frame) bool {
		_, key, status := shown(t, f)
		return key == "full_state" && status == "finished" && f.id == ""
	}
}

// numbers are the ids of the stored events among frames.
func numbers(frames []frame) (ids []string) {
	for _, f := range frames {
		if f.id != "" {
			ids = append(ids, f.id)
		}
	}
	return ids
}

func TestAgentEventStream(t *testing.T) {
	w := newWorld(t, callTool("sh", `{"command":"echo hi"}`), say("done"), say("again"))
	id, a := w.begin(map[string]any{})
	key := http.Header{"X-Session-Api-Key": {a.text("session_api_key")}}
	path := "/api/conversations/" + id + "/events/stream"
	s := w.listen(path, key)
	first, err := s.next()
	check(t, err)
	begin, err := strconv.Atoi(first.id)
	if _, member, _ := shown(t, first); err != nil || member != "full_state" || begin != len(w.events(id))-1 {
		t.Fatalf("first is %+v, %v", first, err)
	}
	w.send(id, "go")
	live := numbers(s.until("the end of the run", endOfRun(t)))
	log := w.events(id)
	for i, n := range live {
		if n != strconv.Itoa(begin+1+i) {
			t.Errorf("live: %v", live)
			break
		}
	}
	if len(live) != len(log)-begin-1 {
		t.Errorf("%d live events of %d", len(live), len(log))
	}

	at := conversation.FormatTime(mustTime(t, log[3].Timestamp))
	last := strconv.Itoa(len(log) - 1)
	for name, c := range map[string]struct {
		query  string
		header string
		from   int
	}{
		"all":        {"?resend_mode=all", "", 0},
		"old all":    {"?resend_all=true", "", 0},
		"since":      {"?resend_mode=since&after_timestamp=" + at, "", 3},
		"a number":   {"?after_seq=1", "", 2},
		"resumed":    {"?resend_mode=all", "4", 5},
		"at the end": {"?resend_mode=all", "99999", len(log)},
	} {
		h := key.Clone()
		if c.header != "" {
			h.Set("Last-Event-ID", c.header)
		}
		s := w.listen(path+c.query, h)
		head, err := s.next()
		check(t, err)
		if head.id != strconv.Itoa(c.from-1) {
			t.Errorf("%s: begins at %q", name, head.id)
		}
		if c.from == len(log) {
			continue
		}
		got := s.until("the last event", func(f frame) bool { return f.id == last })
		if len(got) != len(log)-c.from || got[0].id != strconv.Itoa(c.from) {
			t.Errorf("%s: %v", name, numbers(got))
		}
	}
	w.call(200, "DELETE", "/api/v1/app-conversations/"+id, nil)
	s.until("the deletion", func(f frame) bool { return f.event == "deleted" })
	if _, err := s.next(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream goes on: %v", err)
	}
}

func mustTime(t testing.TB, stamp string) time.Time {
	t.Helper()
	at, err := time.Parse(conversation.TimeLayout, stamp)
	check(t, err)
	return at
}

func TestAgentEventStreamCredentials(t *testing.T) {
	w := newWorldWith(t, func(c *config) { c.agent.Heartbeat = 20 * time.Millisecond })
	id, a := w.begin(map[string]any{})
	_, other := w.begin(map[string]any{})
	sandbox, key := a.text("sandbox_id"), a.text("session_api_key")
	path := "/api/conversations/" + id + "/events/stream"
	cookie := func(value string) http.Header { return http.Header{"Cookie": {"oh_workspace_session_key=" + value}} }
	for name, s := range map[string]*eventStream{
		"cookie":             w.listen(path, http.Header{"Cookie": cookie(key)["Cookie"], "X-Session-Api-Key": nil}),
		"header":             w.listen(path, http.Header{"X-Session-Api-Key": {key}}),
		"owner at the mount": w.listen("/agent/"+sandbox+path, nil),
	} {
		for {
			f, err := s.next()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if f.comment { // after the state comes a heartbeat
				break
			}
		}
	}
	for _, c := range []struct {
		want   int
		path   string
		header http.Header
	}{
		{401, path, cookie("wrong")},
		{404, path, cookie(other.text("session_api_key"))},
		{401, path, cookie(userKey)},
		{404, "/api/conversations/" + uuid.NewString() + "/events/stream", cookie(key)},
		{401, "/agent/" + sandbox + "/api/conversations/" + id + "/events/search", cookie(key)}, // the cookie opens the stream alone
	} {
		if got := w.do("GET", c.path, c.header, nil); got.status != c.want {
			t.Errorf("%s: %d %s", c.path, got.status, got.body)
		}
	}
}
