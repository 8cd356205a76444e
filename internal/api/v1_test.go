package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/store"
)

var hex32 = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Trap 1: start returns a task, not a conversation; the conversation's id shows
// only at READY (begin checks that).
func TestStartReturnsATask(t *testing.T) {
	w := newWorld(t, say("hello"))
	a := w.call(200, "POST", "/api/v1/app-conversations", message("hi"))
	if a.text("status") != "WORKING" || a.at("app_conversation_id") != nil || !hex32.MatchString(a.text("id")) {
		t.Errorf("task: %s", a.body)
	}
	if got := a.text("request", "initial_message", "role"); got != "user" {
		t.Errorf("role %q", got)
	}
	if got := len(a.value().(map[string]any)["request"].(map[string]any)); got != 22 {
		t.Errorf("the echo has %d members, want all 22 of the contract: %s", got, a.body)
	}
	w.eventually("READY", func() bool {
		b := w.call(200, "GET", "/api/v1/app-conversations/start-tasks?ids="+a.text("id"), nil)
		return b.text(0, "status") == "READY" && b.text(0, "agent_server_url") != ""
	})
}

func TestEmptyStartRequestIsValid(t *testing.T) {
	w := newWorld(t)
	id, a := w.begin(map[string]any{})
	if a.text("title") == "" {
		t.Error("no title")
	}
	w.waitFor(id, conversation.Idle)
}

// The whole record, running and paused. Traps 4 and 5.
func TestConversationRecord(t *testing.T) {
	w := newWorld(t, say("hello"))
	id, _ := w.begin(map[string]any{
		"initial_message":     map[string]any{"content": []any{map[string]any{"text": "hi"}}}, // no type, no role
		"title":               "My title",
		"selected_repository": nil, "trigger": "gui", "pr_number": []int{7}, "public": true,
	})
	w.waitFor(id, conversation.Finished)
	a := w.call(200, "GET", "/api/v1/app-conversations/"+id, nil)
	sandbox := a.text("sandbox_id")
	want := map[string]any{
		"id": id, "created_by_user_id": account.FirstUserID, "sandbox_id": sandbox, "selected_repository": nil,
		"selected_branch": nil, "git_provider": nil, "title": "My title", "trigger": "gui", "pr_number": []any{7.0},
		"llm_model": "test/model", "agent_kind": "openhands", "parent_conversation_id": nil,
		"sub_conversation_ids": []any{}, "public": true, "tags": map[string]any{}, "sandbox_status": "RUNNING",
		"execution_status": "finished", "conversation_url": w.server.URL + "/agent/" + sandbox + "/api/conversations/" + id,
		"acp_server": nil, "launched_agent_profile": nil,
		"metrics": map[string]any{"model_name": "test/model", "accumulated_cost": 0.25, "max_budget_per_task": nil,
			"accumulated_token_usage": map[string]any{"model": "test/model", "prompt_tokens": 10.0, "completion_tokens": 5.0,
				"cache_read_tokens": 0.0, "cache_write_tokens": 0.0, "reasoning_tokens": 0.0, "context_window": 0.0,
				"per_turn_token": 15.0, "response_id": "r-hello"}},
	}
	got := a.value().(map[string]any)
	key, _ := got["session_api_key"].(string)
	for _, volatile := range []string{"created_at", "updated_at", "session_api_key", "workspace"} {
		delete(got, volatile)
	}
	delete(got["metrics"].(map[string]any)["accumulated_token_usage"].(map[string]any), "response_id")
	delete(want["metrics"].(map[string]any)["accumulated_token_usage"].(map[string]any), "response_id")
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if !hex32.MatchString(id) || key == "" {
		t.Errorf("id %q, key %q", id, key)
	}
	if created := a.text("created_at"); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z$`).MatchString(created) {
		t.Errorf("created_at %q", created)
	}

	w.call(200, "POST", "/api/v1/sandboxes/"+sandbox+"/pause", map[string]any{})
	a = w.call(200, "GET", "/api/v1/app-conversations?ids="+id, nil)
	for _, name := range []string{"execution_status", "conversation_url", "session_api_key"} {
		if v := a.at(0, name); v != nil {
			t.Errorf("%s is %v while paused", name, v)
		}
	}
	if a.text(0, "sandbox_status") != "PAUSED" {
		t.Errorf("status %s", a.text(0, "sandbox_status"))
	}
	w.call(200, "POST", "/api/v1/sandboxes/"+sandbox+"/pause", nil) // again
	w.call(200, "POST", "/api/v1/sandboxes/"+sandbox+"/resume", nil)
	w.eventually("RUNNING", func() bool {
		return w.call(200, "GET", "/api/v1/sandboxes?id="+sandbox, nil).text(0, "status") == "RUNNING"
	})
}

// Trap 2: repeated keys, holes in position, never 404.
func TestBatchGetHasHoles(t *testing.T) {
	w := newWorld(t)
	id, _ := w.begin(map[string]any{})
	dashed := strings.ToUpper(conversation.ID(id).Dashed())
	unknown := uuid.NewString()
	a := w.call(200, "GET", "/api/v1/app-conversations?ids="+dashed+"&ids="+unknown+"&ids="+id, nil)
	if a.text(0, "id") != id || a.at(1) != nil || a.text(2, "id") != id {
		t.Errorf("batch: %s", a.body)
	}
	w.call(400, "GET", "/api/v1/app-conversations?ids=not-a-uuid", nil)
	w.call(400, "GET", "/api/v1/app-conversations?ids="+id+","+unknown, nil) // comma-joined lists are wrong
	w.call(400, "GET", "/api/v1/app-conversations?"+repeat("ids", id, 101), nil)
	if n := len(w.call(200, "GET", "/api/v1/app-conversations?"+repeat("ids", id, 100), nil).list()); n != 100 {
		t.Errorf("%d", n)
	}
	if a := w.as(otherKey, "GET", "/api/v1/app-conversations?ids="+id, nil).is(200); a.at(0) != nil {
		t.Error("somebody else's conversation shows")
	}
	a = w.call(200, "GET", "/api/v1/app-conversations/start-tasks?ids="+unknown, nil)
	if a.at(0) != nil {
		t.Errorf("tasks: %s", a.body)
	}
	w.call(422, "GET", "/api/v1/app-conversations/start-tasks?ids=x", nil)
	w.call(422, "GET", "/api/v1/app-conversations/start-tasks", nil)
	w.call(422, "GET", "/api/v1/sandboxes", nil)
	if a := w.call(200, "GET", "/api/v1/sandboxes?id=none", nil); a.at(0) != nil {
		t.Errorf("sandboxes: %s", a.body)
	}
	w.call(400, "GET", "/api/v1/sandboxes?"+repeat("id", "x", 101), nil)
}

func repeat(name, value string, n int) string {
	return strings.TrimSuffix(strings.Repeat(name+"="+value+"&", n), "&")
}

func TestListWithoutIDsIsAPage(t *testing.T) {
	w := newWorld(t)
	first, _ := w.begin(map[string]any{"title": "one 100% sure"})
	second, _ := w.begin(map[string]any{"title": "two"})
	a := w.call(200, "GET", "/api/v1/app-conversations", nil)
	if len(a.list("items")) != 2 || a.text("items", 0, "id") != second || a.at("next_page_id") != nil {
		t.Errorf("list: %s", a.body)
	}
	a = w.call(200, "GET", "/api/v1/app-conversations/search?limit=1&sort_order=CREATED_AT", nil)
	if a.text("items", 0, "id") != first {
		t.Errorf("search: %s", a.body)
	}
	a = w.call(200, "GET", "/api/v1/app-conversations/search?limit=1&sort_order=CREATED_AT&page_id="+a.text("next_page_id"), nil)
	if a.text("items", 0, "id") != second || a.at("next_page_id") != nil {
		t.Errorf("second page: %s", a.body)
	}
	// An unparsable page id starts at the beginning; unknown parameters are ignored.
	if a := w.call(200, "GET", "/api/v1/app-conversations/search?page_id=%00nonsense&whatever=1", nil); len(a.list("items")) != 2 {
		t.Errorf("%s", a.body)
	}
	if a := w.call(200, "GET", "/api/v1/app-conversations/search?title__contains=00%25+SURE", nil); len(a.list("items")) != 1 {
		t.Errorf("title filter: %s", a.body)
	}
	if a := w.call(200, "GET", "/api/v1/app-conversations/count", nil); string(a.body) != "2\n" {
		t.Errorf("count: %q", a.body)
	}
	future := "2999-01-01T00:00:00+00:00" // the plus arrives as a space
	if a := w.call(200, "GET", "/api/v1/app-conversations/count?created_at__gte="+future, nil); string(a.body) != "0\n" {
		t.Errorf("count: %q", a.body)
	}
	if a := w.as(otherKey, "GET", "/api/v1/app-conversations/search", nil).is(200); len(a.list("items")) != 0 {
		t.Errorf("%s", a.body)
	}
	task := w.call(200, "GET", "/api/v1/app-conversations/start-tasks/search?limit=1", nil)
	if len(task.list("items")) != 1 || task.at("next_page_id") == nil {
		t.Errorf("tasks: %s", task.body)
	}
	if a := w.call(200, "GET", "/api/v1/app-conversations/start-tasks/count?conversation_id__eq="+first, nil); string(a.body) != "1\n" {
		t.Errorf("tasks: %q", a.body)
	}
}

// Trap 15: bad limits, orders and times are 422 and name the field.
func TestBadParametersAre422(t *testing.T) {
	w := newWorld(t)
	for path, loc := range map[string]string{
		"/api/v1/app-conversations/search?limit=0":                     "limit",
		"/api/v1/app-conversations/search?limit=101":                   "limit",
		"/api/v1/app-conversations/search?limit=ten":                   "limit",
		"/api/v1/app-conversations?limit=-1":                           "limit",
		"/api/v1/app-conversations/search?sort_order=SIDEWAYS":         "sort_order",
		"/api/v1/app-conversations/search?created_at__gte=yesterday":   "created_at__gte",
		"/api/v1/app-conversations/search?include_sub_conversations=x": "include_sub_conversations",
		"/api/v1/app-conversations/start-tasks/search?limit=101":       "limit",
		"/api/v1/sandboxes/search?limit=200":                           "limit",
		"/api/v1/sandbox-specs/search?limit=0":                         "limit",
		"/api/v1/conversation/x/events/search?limit=200":               "limit",
		"/api/v1/conversation/x/events/search?kind__eq=Nothing":        "kind__eq",
		"/api/v1/conversation/x/events/count?timestamp__gte=never":     "timestamp__gte",
		"/api/v1/events/count":                                         "conversation_id__eq",
	} {
		a := w.call(422, "GET", path, nil)
		if got := a.list("detail", 0, "loc"); got[0] != "query" || got[1] != loc {
			t.Errorf("%s: %s", path, a.body)
		}
	}
}

func TestBadStartRequests(t *testing.T) {
	w := newWorld(t)
	text := []any{map[string]any{"type": "text", "text": "x"}}
	for name, c := range map[string]struct {
		status int
		body   any
	}{
		"wrong type":            {422, map[string]any{"title": 7}},
		"unknown enum":          {422, map[string]any{"git_provider": "sourceforge"}},
		"bad id":                {422, map[string]any{"conversation_id": "seven"}},
		"extra key in a text":   {422, map[string]any{"initial_message": map[string]any{"content": []any{map[string]any{"type": "text", "text": "x", "y": 1}}}}},
		"text without text":     {422, map[string]any{"initial_message": map[string]any{"content": []any{map[string]any{"type": "text"}}}}},
		"not the user":          {422, map[string]any{"initial_message": map[string]any{"role": "system", "content": text}}},
		"list for an object":    {422, []any{}},
		"no body":               {422, nil},
		"null":                  {422, "null"},
		"syntax":                {422, `{"title": `},
		"two values":            {422, `{} {}`},
		"not UTF-8":             {422, "{\"title\": \"\xff\xfe\"}"},
		"deep nesting":          {422, strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000)},
		"unknown processor":     {422, map[string]any{"processors": []any{map[string]any{"kind": "Nonsense"}}}},
		"unbuilt processor":     {501, map[string]any{"processors": []any{map[string]any{"kind": "SlackV1CallbackProcessor"}}}},
		"plugin that is none":   {400, map[string]any{"plugins": []any{map[string]any{"source": "x"}}}},
		"plugin outside":        {400, map[string]any{"plugins": []any{map[string]any{"source": "github:o/r", "repo_path": "../x"}}}},
		"agent profile":         {404, map[string]any{"agent_profile_id": "x"}},
		"unknown parent":        {404, map[string]any{"parent_conversation_id": uuid.NewString()}},
		"unknown sandbox":       {404, map[string]any{"sandbox_id": "none"}},
		"host dir without more": {422, map[string]any{"workspace": map[string]any{"host_dir": "/tmp"}}},
		"host dir unproven":     {400, map[string]any{"workspace": map[string]any{"host_dir": "/tmp", "proof": "p", "nonce": "0123456789abcdef"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w.TB = t
			a := w.call(c.status, "POST", "/api/v1/app-conversations", c.body)
			if a.at("detail") == "" {
				t.Errorf("%s", a.body)
			}
		})
	}
	w.TB = t
	if a := w.call(200, "GET", "/api/v1/app-conversations/count", nil); string(a.body) != "0\n" {
		t.Errorf("something was stored: %s", a.body)
	}
	if a := w.call(200, "GET", "/api/v1/app-conversations/start-tasks/count", nil); string(a.body) != "0\n" {
		t.Errorf("a task was stored: %s", a.body)
	}
}

// A planning agent has the tools for planning, and the agent that carries the plan
// out works in the same directory with all of them.
func TestPlanningAgent(t *testing.T) {
	h := &hearing{}
	w := newWorld(t, h.then(say("the plan")), h.then(say("done")))
	plan := message("plan it")
	plan["agent_type"] = "plan"
	id, a := w.begin(plan)
	w.waitFor(id, conversation.Finished)
	work := message("do it")
	work["parent_conversation_id"] = id
	child, b := w.begin(work)
	w.waitFor(child, conversation.Finished)
	if got := strings.Join(h.tools, ";"); got != "finish think;sh finish think" {
		t.Errorf("the agents had %s", got)
	}
	if a.text("workspace", "working_dir") != b.text("workspace", "working_dir") || b.text("parent_conversation_id") != id {
		t.Errorf("%s%s", a.body, b.body)
	}
	w.call(422, "POST", "/api/v1/app-conversations", map[string]any{"agent_type": "other"})
}

func TestUserWithoutSettingsIsTold(t *testing.T) {
	w := newWorld(t)
	check(t, w.store.Accounts().PutUser(t.Context(), account.User{ID: "new"}))
	check(t, w.store.Accounts().SetKeys(t.Context(), "new", "x", []account.KeyHash{account.HashKey("new-key-new-key-new-key")}))
	a := w.as("new-key-new-key-new-key", "POST", "/api/v1/app-conversations", message("hi")).is(400)
	if !strings.Contains(a.text("detail"), "Settings not found") || a.text("code") != "settings_missing" {
		t.Errorf("%s", a.body)
	}
}

// Secrets never come back, neither in the echo nor in an error.
func TestSecretsAreMasked(t *testing.T) {
	w := newWorld(t)
	a := w.call(200, "POST", "/api/v1/app-conversations", map[string]any{"secrets": map[string]any{"DEPLOY": "hush-hush"}})
	if got := a.text("request", "secrets", "DEPLOY"); got != account.Mask {
		t.Errorf("echo %q", got)
	}
	b := w.call(422, "POST", "/api/v1/app-conversations", map[string]any{"secrets": map[string]any{"DEPLOY": []any{"hush-hush"}}, "title": 3})
	c := w.call(422, "POST", "/api/v1/app-conversations", map[string]any{"secrets": map[string]any{"DEPLOY": "hush-hush"}, "title": 3})
	d := w.call(422, "POST", "/api/v1/app-conversations", []any{map[string]any{"secrets": "hush-hush"}})
	for _, a := range []*answer{a, b, c, d} {
		if strings.Contains(string(a.body), "hush") {
			t.Errorf("shown: %s", a.body)
		}
	}
	id := ""
	w.eventually("the conversation", func() bool {
		items := w.call(200, "GET", "/api/v1/app-conversations/search", nil).list("items")
		if len(items) == 0 {
			return false
		}
		id = walk(t, items[0], "id").(string)
		return true
	})
	if body := string(w.call(200, "GET", "/api/v1/app-conversations?ids="+id, nil).body); strings.Contains(body, "hush") {
		t.Errorf("shown: %s", body)
	}
	if strings.Contains(w.log.String(), "hush") {
		t.Error("logged")
	}
}

func TestRepeatedStartIsTheSameTask(t *testing.T) {
	w := newWorld(t)
	id := uuid.NewString()
	body := map[string]any{"conversation_id": id, "title": "a"}
	first := w.call(200, "POST", "/api/v1/app-conversations", body)
	if first.text("request", "conversation_id") != id {
		t.Errorf("the echo has %v, want the dashed id", first.at("request", "conversation_id"))
	}
	body["conversation_id"] = strings.ToUpper(id)
	again := w.call(200, "POST", "/api/v1/app-conversations", body)
	if first.text("id") != again.text("id") {
		t.Errorf("tasks %s and %s", first.body, again.body)
	}
	body["title"] = "b"
	w.call(409, "POST", "/api/v1/app-conversations", body)
	w.as(otherKey, "POST", "/api/v1/app-conversations", body).is(409)
}

func TestPatch(t *testing.T) {
	w := newWorld(t)
	id, _ := w.begin(map[string]any{"title": "old", "public": true})
	a := w.call(200, "PATCH", "/api/v1/app-conversations/"+id, map[string]any{"title": "new", "git_provider": "gitlab"})
	if a.text("title") != "new" || a.at("public") != true || a.text("git_provider") != "gitlab" {
		t.Errorf("%s", a.body)
	}
	a = w.call(200, "PATCH", "/api/v1/app-conversations/"+id, map[string]any{"public": nil, "git_provider": nil, "title": nil})
	if a.at("public") != nil || a.at("git_provider") != nil || a.text("title") == "" || a.text("title") == "new" {
		t.Errorf("%s", a.body)
	}
	w.call(404, "PATCH", "/api/v1/app-conversations/"+uuid.NewString(), map[string]any{"title": "x"})
	w.call(400, "PATCH", "/api/v1/app-conversations/not-a-uuid", map[string]any{"title": "x"})
	w.call(422, "PATCH", "/api/v1/app-conversations/"+id, map[string]any{"title": 5})
	w.as(otherKey, "PATCH", "/api/v1/app-conversations/"+id, map[string]any{"title": "x"}).is(404)
}

func TestSubConversations(t *testing.T) {
	w := newWorld(t)
	parent, p := w.begin(map[string]any{})
	child, c := w.begin(map[string]any{"parent_conversation_id": parent})
	if c.text("parent_conversation_id") != parent || c.text("sandbox_id") != p.text("sandbox_id") {
		t.Errorf("child: %s", c.body)
	}
	a := w.call(200, "GET", "/api/v1/app-conversations/search", nil)
	if len(a.list("items")) != 1 || a.text("items", 0, "sub_conversation_ids", 0) != child {
		t.Errorf("search: %s", a.body)
	}
	if a := w.call(200, "GET", "/api/v1/app-conversations/search?include_sub_conversations=true", nil); len(a.list("items")) != 2 {
		t.Errorf("with subs: %s", a.body)
	}
	if a := w.call(200, "GET", "/api/v1/app-conversations/count", nil); string(a.body) != "2\n" {
		t.Errorf("count: %s", a.body)
	}
	tasks := w.call(200, "GET", "/api/v1/app-conversations/start-tasks/search?conversation_id__eq="+child, nil)
	if got := tasks.text("items", 0, "request", "sandbox_id"); got != p.text("sandbox_id") {
		t.Errorf("the echo lacks what was inherited: %s", tasks.body)
	}
	w.call(200, "DELETE", "/api/v1/app-conversations/"+parent, nil)
	if a := w.call(200, "GET", "/api/v1/app-conversations/count", nil); string(a.body) != "0\n" {
		t.Errorf("count: %s", a.body)
	}
	if a := w.call(200, "GET", "/api/v1/sandboxes?id="+p.text("sandbox_id"), nil); a.at(0) != nil {
		t.Errorf("the sandbox is still there: %s", a.body)
	}
	w.call(404, "DELETE", "/api/v1/app-conversations/"+parent, nil)
}

func TestSendMessage(t *testing.T) {
	w := newWorld(t, say("one"), say("two"))
	id, a := w.begin(map[string]any{})
	path := "/api/v1/app-conversations/" + id + "/send-message"
	text := func(s string) map[string]any {
		return map[string]any{"content": []any{map[string]any{"type": "text", "text": s}}}
	}
	b := w.call(200, "POST", path, text("hi"))
	if b.at("success") != true || b.text("sandbox_status") != "RUNNING" || b.at("message") != nil {
		t.Errorf("%s", b.body)
	}
	w.waitFor(id, conversation.Finished) // trap 14: run defaults to true here
	w.call(422, "POST", path, map[string]any{"content": []any{}})
	w.call(422, "POST", path, map[string]any{"role": "assistant", "content": text("x")["content"]})
	w.call(422, "POST", path, map[string]any{})
	w.call(404, "POST", "/api/v1/app-conversations/"+uuid.NewString()+"/send-message", text("x"))
	w.as(otherKey, "POST", path, text("x")).is(404)
	sandbox := a.text("sandbox_id")
	w.call(200, "POST", "/api/v1/sandboxes/"+sandbox+"/pause", nil)
	w.call(409, "POST", path, text("x"))
	w.call(200, "DELETE", "/api/v1/sandboxes/"+sandbox, nil)
	w.call(410, "POST", path, text("x"))
	if a := w.call(200, "GET", "/api/v1/app-conversations?ids="+id, nil); a.text(0, "sandbox_status") != "MISSING" || a.text(0, "sandbox_id") != sandbox {
		t.Errorf("%s", a.body)
	}
	if a := w.call(200, "GET", "/api/v1/conversation/"+id+"/events/search", nil); len(a.list("items")) == 0 {
		t.Error("events are gone with the sandbox")
	}
}

// Trap 9: the spec is in the query and there is no body; the id to delete is in
// the path, the query, or both.
func TestSandboxes(t *testing.T) {
	w := newWorld(t)
	a := w.call(200, "GET", "/api/v1/sandbox-specs/search", nil)
	spec := a.text("items", 0, "id")
	if b := w.call(200, "GET", "/api/v1/sandbox-specs?id="+spec+"&id=none", nil); b.text(0, "id") != spec || b.at(1) != nil {
		t.Errorf("%s", b.body)
	}
	if b := w.call(200, "GET", "/api/v1/sandbox-specs/search?page_id=-5", nil); len(b.list("items")) != len(a.list("items")) {
		t.Errorf("%s", b.body)
	}
	if b := w.call(200, "GET", "/api/v1/sandbox-specs/search?page_id=99", nil); len(b.list("items")) != 0 {
		t.Errorf("%s", b.body)
	}
	w.call(404, "POST", "/api/v1/sandboxes?sandbox_spec_id=none", nil)
	var ids []string
	for range 3 {
		ids = append(ids, w.call(200, "POST", "/api/v1/sandboxes?sandbox_spec_id="+spec, nil).text("id"))
	}
	box := &answer{}
	w.eventually("RUNNING", func() bool {
		box = w.call(200, "GET", "/api/v1/sandboxes?id="+ids[0], nil)
		if box.text(0, "status") == "STARTING" && (box.at(0, "session_api_key") != nil || box.at(0, "exposed_urls") != nil) {
			t.Fatalf("shown while STARTING: %s", box.body)
		}
		return box.text(0, "status") == "RUNNING"
	})
	if box.text(0, "exposed_urls", 0, "name") != "AGENT_SERVER" ||
		box.text(0, "exposed_urls", 0, "url") != w.server.URL+"/agent/"+ids[0] || box.text(0, "session_api_key") == "" {
		t.Errorf("%s", box.body)
	}
	if port := box.at(0, "exposed_urls", 0, "port"); fmt.Sprint(port) != mustParse(t, w.server.URL).Port() {
		t.Errorf("port %v", port)
	}
	if a := w.call(200, "GET", "/api/v1/sandboxes/search?limit=2", nil); len(a.list("items")) != 2 || a.text("items", 0, "id") != ids[2] || a.at("next_page_id") == nil {
		t.Errorf("%s", a.body)
	}
	if a := w.as(otherKey, "GET", "/api/v1/sandboxes?id="+ids[0], nil).is(200); a.at(0) != nil {
		t.Error("somebody else's sandbox shows")
	}
	w.as(otherKey, "DELETE", "/api/v1/sandboxes/"+ids[0], nil).is(404)
	w.call(200, "DELETE", "/api/v1/sandboxes/"+ids[0], nil)
	w.call(404, "DELETE", "/api/v1/sandboxes/"+ids[0], nil)
	w.call(200, "DELETE", "/api/v1/sandboxes/"+ids[1]+"?sandbox_id="+ids[1], nil)
	w.call(200, "DELETE", "/api/v1/sandboxes/ignored?sandbox_id="+ids[2], nil)
	for _, action := range []string{"pause", "resume"} {
		w.call(404, "POST", "/api/v1/sandboxes/none/"+action, nil)
	}
	if a := w.call(200, "GET", "/api/v1/sandboxes/search", nil); len(a.list("items")) != 0 {
		t.Errorf("%s", a.body)
	}
}

// Traps 6, 7 and 8: events are handed through as stored, and pages neither skip
// nor double.
func TestEventPages(t *testing.T) {
	w := newWorld(t, callTool("sh", `{"command":"echo one; touch made"}`), say("done"))
	id, _ := w.begin(message("go"))
	w.waitFor(id, conversation.Finished)
	log := w.events(id)
	base := "/api/v1/conversation/" + id + "/events"
	for _, order := range []string{"TIMESTAMP", "TIMESTAMP_DESC"} {
		var seen []string
		page := ""
		for {
			a := w.call(200, "GET", base+"/search?limit=2&sort_order="+order+"&page_id="+page, nil)
			for _, e := range a.list("items") {
				raw, err := json.Marshal(e)
				check(t, err)
				seen = append(seen, string(raw))
			}
			if a.at("next_page_id") == nil {
				break
			}
			page = a.text("next_page_id")
		}
		var want []string
		for _, e := range log {
			var v any
			check(t, json.Unmarshal(e.Raw, &v))
			raw, err := json.Marshal(v)
			check(t, err)
			if order == "TIMESTAMP" {
				want = append(want, string(raw))
			} else {
				want = append([]string{string(raw)}, want...)
			}
		}
		if d := cmp.Diff(want, seen); d != "" {
			t.Errorf("%s: %s", order, d)
		}
	}
	if a := w.call(200, "GET", base+"/count", nil); strings.TrimSpace(string(a.body)) != fmt.Sprint(len(log)) {
		t.Errorf("count %s, want %d", a.body, len(log))
	}
	if a := w.call(200, "GET", base+"/search?kind__eq=ActionEvent", nil); len(a.list("items")) != 1 || a.text("items", 0, "action", "kind") != "ShAction" {
		t.Errorf("%s", a.body)
	}
	mid := log[len(log)/2]
	if a := w.call(200, "GET", base+"/search?timestamp__gte="+mid.Timestamp, nil); a.text("items", 0, "id") != mid.ID {
		t.Errorf("gte: %s", a.body)
	}
	if a := w.call(200, "GET", base+"/search?sort_order=TIMESTAMP_DESC&timestamp__lt="+mid.Timestamp+"Z", nil); a.text("items", 0, "id") != log[len(log)/2-1].ID {
		t.Errorf("lt: %s", a.body)
	}
	a := w.call(200, "GET", base+"?id="+log[1].ID+"&id=none&id="+log[0].ID, nil)
	if a.text(0, "id") != log[1].ID || a.at(1) != nil || a.text(2, "id") != log[0].ID || a.text(0, "timestamp") != log[1].Timestamp {
		t.Errorf("batch: %s", a.body)
	}
	if a := w.call(200, "GET", base+"/search?page_id=unknown", nil); a.text("items", 0, "id") != log[0].ID {
		t.Errorf("unknown page: %s", a.body)
	}
	// Unknown and foreign conversations look empty.
	for _, key := range []string{userKey, otherKey} {
		path := "/api/v1/conversation/" + uuid.NewString() + "/events"
		if key == otherKey {
			path = base
		}
		if a := w.as(key, "GET", path+"/search", nil).is(200); len(a.list("items")) != 0 {
			t.Errorf("%s", a.body)
		}
		if a := w.as(key, "GET", path+"/count", nil).is(200); string(a.body) != "0\n" {
			t.Errorf("%s", a.body)
		}
		if a := w.as(key, "GET", path+"?id="+log[0].ID, nil).is(200); a.at(0) != nil {
			t.Errorf("%s", a.body)
		}
	}
	// The older spelling.
	if a := w.call(200, "GET", "/api/v1/events/count?conversation_id__eq="+conversation.ID(id).Dashed(), nil); strings.TrimSpace(string(a.body)) != fmt.Sprint(len(log)) {
		t.Errorf("%s", a.body)
	}
	if a := w.call(200, "GET", "/api/v1/events/search?limit=1&conversation_id__eq="+id, nil); a.text("items", 0, "id") != log[0].ID {
		t.Errorf("%s", a.body)
	}
	if a := w.call(200, "GET", "/api/v1/events?id="+log[0].ID+"&conversation_id__eq="+id, nil); a.text(0, "id") != log[0].ID {
		t.Errorf("%s", a.body)
	}
}

// Trap 3: static segments beat {id}, and nouns are as the contract has them.
func TestPathNouns(t *testing.T) {
	w := newWorld(t)
	w.call(200, "GET", "/api/v1/app-conversations/search", nil)
	w.call(200, "GET", "/api/v1/app-conversations/count", nil)
	w.call(400, "GET", "/api/v1/app-conversations/something", nil)
	w.call(404, "GET", "/api/v1/app-conversations/"+uuid.NewString(), nil)
	w.call(404, "GET", "/api/v1/conversations/"+uuid.NewString()+"/events/search", nil)
	w.call(404, "GET", "/api/v1/nothing", nil)
	a := w.call(405, "PUT", "/api/v1/app-conversations", nil)
	if a.text("detail") != "Method Not Allowed" || a.header.Get("Allow") != "GET, POST, HEAD" {
		t.Errorf("%s, Allow %q", a.body, a.header.Get("Allow"))
	}
}

func TestStreamStartIsOneGrowingArray(t *testing.T) {
	w := newWorld(t)
	a := w.call(200, "POST", "/api/v1/app-conversations/stream-start", message("hi"))
	tasks := a.list()
	var steps []string
	for _, task := range tasks { // all of them, also without a repository (V1 2.2)
		steps = append(steps, walk(t, task, "status").(string))
		if (walk(t, task, "app_conversation_id") != nil) != (steps[len(steps)-1] == "READY") {
			t.Errorf("%v", task)
		}
	}
	if want := []string{"WORKING", "WAITING_FOR_SANDBOX", "PREPARING_REPOSITORY", "RUNNING_SETUP_SCRIPT", "SETTING_UP_GIT_HOOKS",
		"SETTING_UP_SKILLS", "STARTING_CONVERSATION", "READY"}; !slices.Equal(steps, want) {
		t.Errorf("steps %v", steps)
	}
	if walk(t, tasks[len(tasks)-1], "app_conversation_id") == nil {
		t.Errorf("%s", a.body)
	}
	w.call(404, "POST", "/api/v1/app-conversations/stream-start", map[string]any{"sandbox_id": "none"})
}

func TestHostDirIsMounted(t *testing.T) {
	w := newWorld(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	check(t, err)
	nonce := "0123456789abcdef0123"
	check(t, os.WriteFile(filepath.Join(dir, ".parley-proof-x"), []byte(nonce), 0o600))
	a := w.call(200, "POST", "/api/v1/app-conversations", map[string]any{
		"workspace": map[string]any{"host_dir": dir, "proof": ".parley-proof-x", "nonce": nonce}})
	if strings.Contains(string(a.body), nonce) {
		t.Errorf("the nonce is shown: %s", a.body)
	}
}

func TestReservedTagsAreProjected(t *testing.T) {
	w := newWorld(t)
	id, _ := w.begin(map[string]any{})
	profile := uuid.NewString()
	_, err := w.store.Conversations().Update(t.Context(), conversation.ID(id), time.Now(), func(c *conversation.Conversation) error {
		c.Tags = map[string]string{"agentprofileid": profile, "agentprofilerevision": "3", "acpserver": "codex"}
		c.AgentKind = "acp"
		return nil
	})
	check(t, err)
	a := w.call(200, "GET", "/api/v1/app-conversations/"+id, nil)
	if a.text("acp_server") != "codex" || a.text("launched_agent_profile", "agent_profile_id") != profile ||
		a.at("launched_agent_profile", "revision") != 3.0 {
		t.Errorf("%s", a.body)
	}
}

// Ids that a legacy client chose are reachable, too.
func TestLegacyIDs(t *testing.T) {
	w := newWorld(t)
	now := time.Now().UTC()
	check(t, w.store.Conversations().Create(t.Context(), &conversation.Conversation{ID: "my conversation", Owner: account.FirstUserID,
		Origin: conversation.OriginV0, AgentKind: "openhands", CreatedAt: now, UpdatedAt: now,
		Summary: conversation.Summary{Status: conversation.Idle}, Options: conversation.Options{MaxIterations: 1}}))
	a := w.call(200, "GET", "/api/v1/app-conversations?ids=my+conversation", nil)
	if a.text(0, "id") != "my conversation" || a.text(0, "sandbox_status") != string(store.SandboxMissing) || a.text(0, "title") == "" {
		t.Errorf("%s", a.body)
	}
	w.call(200, "GET", "/api/v1/app-conversations/my%20conversation", nil)
}

func TestHugeBodyIs413(t *testing.T) {
	w := newWorldWith(t, func(c *config) { c.v1.MaxBody = 1000 })
	w.call(413, "POST", "/api/v1/app-conversations", message(strings.Repeat("x", 2000)))
	w.call(200, "POST", "/api/v1/app-conversations", message("small"))
}

func TestWrongContentTypeIs422(t *testing.T) {
	w := newWorld(t)
	header := http.Header{"X-Session-Api-Key": {userKey}, "Content-Type": {"text/plain"}}
	a := w.do("POST", "/api/v1/app-conversations", header, `{"title":"x"}`).is(422)
	if a.text("detail", 0, "type") != "model_attributes_type" {
		t.Errorf("%s", a.body)
	}
}
