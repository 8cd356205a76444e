package v0_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/skill"
	"parley/internal/store"
)

const anID = "0123456789abcdef0123456789abcdef"

// TestTrap4CreateIs200 and it answers at once with STARTING (trap 5).
func TestTrap4CreateIs200(t *testing.T) {
	r := newRig(t)
	r.want("POST", "/api/conversations", `{"conversation_id":"`+anID+`"}`, 200,
		`{"status":"ok","conversation_id":"`+anID+`","message":null,"conversation_status":"STARTING"}`)
	var got struct {
		ID conversation.ID `json:"conversation_id"`
	}
	r.decode("POST", "/api/conversations", `{}`, &got)
	if len(got.ID) != 32 || !got.ID.IsUUID() || string(got.ID) != strings.ToLower(string(got.ID)) {
		t.Errorf("generated id %q", got.ID)
	}
	r.decode("POST", "/api/conversations", `{"conversation_id":""}`, &got)
	if len(got.ID) != 32 {
		t.Errorf("generated id %q", got.ID)
	}
}

func TestCreatePassesEveryField(t *testing.T) {
	r := newRig(t)
	code, _ := r.call("POST", "/api/conversations", `{"repository":"own/repo","git_provider":"enterprise_sso","selected_branch":"dev",
		"initial_user_msg":"hi","image_urls":["http://i","",  "data:image/png;base64,x"],"replay_json":null,"suggested_task":null,
		"create_microagent":null,"conversation_instructions":"be kind","mcp_config":{"sse_servers":[{"url":"http://a","api_key":"hush"}]},
		"conversation_id":"01234567-89AB-cdef-0123-456789abcdef"}`)
	if code != 200 || len(r.engine.start) != 1 {
		t.Fatal(code)
	}
	req := r.engine.start[0]
	if strings.Contains(string(req.Echo), "hush") || !strings.Contains(string(req.Echo), "own/repo") {
		t.Errorf("echo: %s", req.Echo)
	}
	if req.MCP == nil || req.MCP.SSE[0].APIKey.Reveal() != "hush" {
		t.Errorf("mcp: %v", req.MCP)
	}
	req.Echo, req.MCP = nil, nil
	want := engine.StartRequest{Owner: "user-1", Origin: conversation.OriginV0, ConversationID: anID, Repository: "own/repo",
		Branch: "dev", GitProvider: "enterprise_sso", Trigger: "gui", Instructions: "be kind",
		InitialMessage: []content.Part{content.Text("hi"), content.Image("http://i", "data:image/png;base64,x")}}
	if diff := cmp.Diff(want, req, cmpopts.IgnoreUnexported(engine.StartRequest{})); diff != "" {
		t.Error(diff)
	}
}

func TestFirstMessage(t *testing.T) {
	for body, want := range map[string][]content.Part{
		`{}`:                                        nil,
		`{"initial_user_msg":""}`:                   nil,
		`{"initial_user_msg":" "}`:                  nil,
		`{"image_urls":[]}`:                         nil,
		`{"image_urls":null}`:                       nil,
		`{"image_urls":["http://i"]}`:               {content.Image("http://i")},
		`{"initial_user_msg":" x"}`:                 {content.Text(" x")},
		`{"initial_user_msg":"x","replay_json":""}`: {content.Text("x")},
	} {
		r := newRig(t)
		if code, answer := r.call("POST", "/api/conversations", body); code != 200 {
			t.Errorf("%s: %d %s", body, code, answer)
			continue
		}
		if diff := cmp.Diff(want, r.engine.start[0].InitialMessage); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
}

func TestSuggestedTaskWins(t *testing.T) {
	r := newRig(t)
	for _, kind := range []string{"MERGE_CONFLICTS", "FAILING_CHECKS", "UNRESOLVED_COMMENTS", "OPEN_ISSUE", "OPEN_PR", "CREATE_MICROAGENT"} {
		body := fmt.Sprintf(`{"initial_user_msg":"ignored","create_microagent":{"repo":"x/y"},"suggested_task":{"git_provider":"gitlab",
			"task_type":%q,"repo":"own/repo","issue_number":"7","title":"T","extra":1}}`, kind)
		if code, answer := r.call("POST", "/api/conversations", body); code != 200 {
			t.Fatalf("%s: %d %s", kind, code, answer)
		}
		req := r.engine.start[len(r.engine.start)-1]
		said := content.JoinText(req.InitialMessage)
		for _, part := range []string{"own/repo", "#7", "GITLAB_TOKEN"} {
			if !strings.Contains(said, part) {
				t.Errorf("%s: the prompt lacks %q", kind, part)
			}
		}
		if req.Trigger != "suggested_task" || req.Repository != "" || strings.Contains(said, "ignored") {
			t.Errorf("%s: %+v", kind, req)
		}
	}
}

func TestCreateMicroagent(t *testing.T) {
	r := newRig(t)
	r.call("POST", "/api/conversations", `{"initial_user_msg":"hi","create_microagent":{"repo":"own/repo","git_provider":"bitbucket","title":"T"}}`)
	r.call("POST", "/api/conversations", `{"repository":"a/b","git_provider":"github","create_microagent":{"repo":"own/repo","git_provider":"bitbucket"}}`)
	first, second := r.engine.start[0], r.engine.start[1]
	if first.Trigger != "microagent_management" || first.Repository != "own/repo" || first.GitProvider != "bitbucket" || len(first.InitialMessage) != 1 {
		t.Errorf("%+v", first)
	}
	if second.Repository != "a/b" || second.GitProvider != "github" {
		t.Errorf("%+v", second)
	}
}

// TestTrap2CreateRejectsUnknownKeys, and the other refusals of the body.
func TestTrap2CreateRejectsUnknownKeys(t *testing.T) {
	r := newRig(t)
	for body, want := range map[string][]string{
		`{"x":1}`:                  {`["body","x"] extra_forbidden Extra inputs are not permitted`},
		`{"mcp_config":{"x":1}}`:   {`["body","mcp_config","x"] extra_forbidden Extra inputs are not permitted`},
		`{"conversation_id":null}`: {`["body","conversation_id"] string_type Input should be a valid string`},
		`{"conversation_id":7}`:    {`["body","conversation_id"] string_type Input should be a valid string`},
		`{"image_urls":"x"}`:       {`["body","image_urls"] list_type Input should be a valid list`},
		`{"image_urls":[7]}`:       {`["body","image_urls",0] string_type Input should be a valid string`},
		`{"repository":7}`:         {`["body","repository"] string_type Input should be a valid string`},
		`{"mcp_config":{"stdio_servers":[{"name":"n","command":"a b"}]}}`: {
			`["body","mcp_config","stdio_servers",0,"command"] value_error Value error, Command should be a single executable without spaces (use arguments field for parameters)`},
		`{"create_microagent":{}}`: {`["body","create_microagent","repo"] missing Field required`},
	} {
		if diff := cmp.Diff(want, r.wrongs("POST", "/api/conversations", body)); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
	for _, body := range []string{`{"git_provider":"svn"}`, `{"suggested_task":{"git_provider":"github","task_type":"X","repo":"a/b","issue_number":1,"title":"t"}}`} {
		if got := r.wrongs("POST", "/api/conversations", body); len(got) != 1 || !strings.Contains(got[0], ` enum Input should be '`) {
			t.Errorf("%s: %q", body, got)
		}
	}
	if got := r.wrongs("POST", "/api/conversations", `{"suggested_task":{}}`); len(got) != 5 {
		t.Errorf("suggested_task {}: %q", got)
	}
	if len(r.engine.took()) > 0 {
		t.Error("something was started")
	}
}

// TestCreateID is choice 1 of the contract's section 20.
func TestCreateID(t *testing.T) {
	r := newRig(t)
	for id, want := range map[string]string{
		strings.Repeat("x", 101): `{"detail":"Conversation ID is too long"}`,
		"a\x00b":                 `{"detail":"Conversation ID contains invalid characters"}`,
		"a..b":                   `{"detail":"Conversation ID contains invalid path characters"}`,
		"a/b":                    `{"detail":"Conversation ID contains invalid path characters"}`,
		`a\b`:                    `{"detail":"Conversation ID contains invalid path characters"}`,
		"a\nb":                   `{"detail":"Conversation ID contains control characters"}`,
	} {
		raw, _ := json.Marshal(map[string]string{"conversation_id": id})
		r.want("POST", "/api/conversations", string(raw), 400, want)
	}
	r.want("POST", "/api/conversations", `{"conversation_id":"my own id"}`, 200,
		`{"status":"ok","conversation_id":"my own id","message":null,"conversation_status":"STARTING"}`)
	r.engine.ready(t, "my own id", store.SandboxRunning)
	var got map[string]any
	r.decode("GET", "/api/conversations/my%20own%20id", "", &got)
	if got["conversation_id"] != "my own id" || got["url"] != "/api/conversations/my%20own%20id" {
		t.Error(got)
	}
}

func TestCreateRefusals(t *testing.T) {
	r := newRig(t)
	for code, want := range map[string]string{
		engine.CodeNoSettings: `{"status":"error","message":"Settings not found","msg_id":"CONFIGURATION$SETTINGS_NOT_FOUND"}`,
		engine.CodeNoKey:      `{"status":"error","message":"Error authenticating with the LLM provider. Please check your API key","msg_id":"STATUS$ERROR_LLM_AUTHENTICATION"}`,
		engine.CodeNoModel:    `{"status":"error","message":"own text","msg_id":"CONFIGURATION$SETTINGS_NOT_FOUND"}`,
	} {
		r.engine.fail = fault.New(fault.Invalid, code, "own text")
		r.want("POST", "/api/conversations", `{}`, 400, want)
	}
	r.engine.fail = fault.New(fault.Unavailable, store.CodeStoreFull, "The disk is full.")
	r.want("POST", "/api/conversations", `{}`, 503, `{"status":"error","message":"The disk is full."}`)
	r.engine.fail = fmt.Errorf("secret detail")
	if code, body := r.call("POST", "/api/conversations", `{}`); code != 500 || strings.Contains(body, "secret detail") {
		t.Errorf("%d %s", code, body)
	}
}

// What can be known to be wrong with a replay is refused at once (16, 20.10, 20.11).
func TestReplayIsRefused(t *testing.T) {
	r := newRig(t)
	said := `[{"source":"user","action":"message","args":{"content":"hi"}}]`
	for replay, want := range map[string]string{`[]`: "no message", `[{"action":"message"}]`: "event 0 (message)", `{"trajectory":[]}`: "no message",
		`{`: "no JSON list", `7`: "no JSON list", `{}`: "no JSON list", `[7]`: "event 0"} {
		raw, _ := json.Marshal(map[string]string{"replay_json": replay})
		code, body := r.call("POST", "/api/conversations", string(raw))
		if code != 400 || !strings.Contains(body, `"status":"error"`) || !strings.Contains(body, want) || !strings.Contains(body, `"msg_id":"CONFIGURATION$INVALID_REPLAY"`) {
			t.Errorf("%s: %d %s", replay, code, body)
		}
	}
	for _, with := range []string{`"initial_user_msg":"hi"`, `"image_urls":["http://x"]`,
		`"suggested_task":{"git_provider":"github","task_type":"OPEN_ISSUE","repo":"a/b","issue_number":1,"title":"t"}`} {
		raw, _ := json.Marshal(said)
		if code, body := r.call("POST", "/api/conversations", `{"replay_json":`+string(raw)+`,`+with+`}`); code != 400 || !strings.Contains(body, "CONFIGURATION$INVALID_REPLAY") {
			t.Errorf("with %s: %d %s", with, code, body)
		}
	}
	if len(r.engine.took()) > 0 {
		t.Error("something was started")
	}
}

// TestTrap6RepeatedCreate is neither a conflict nor does it double the message.
func TestTrap6RepeatedCreate(t *testing.T) {
	r := newRig(t)
	body := `{"conversation_id":"` + anID + `","initial_user_msg":"hi"}`
	answer := `{"status":"ok","conversation_id":"` + anID + `","message":null,"conversation_status":"%s"}`
	r.want("POST", "/api/conversations", body, 200, fmt.Sprintf(answer, "STARTING"))
	r.want("POST", "/api/conversations", body, 200, fmt.Sprintf(answer, "STARTING"))
	r.engine.ready(t, anID, store.SandboxRunning)
	r.want("POST", "/api/conversations", body, 200, fmt.Sprintf(answer, "RUNNING"))
	if calls := r.engine.took(); !slices.Equal(calls, []string{"start", "start", "start"}) {
		t.Errorf("while it lives: %q", calls)
	}
	r.engine.setBox(anID, store.SandboxPaused)
	r.want("POST", "/api/conversations", body, 200, fmt.Sprintf(answer, "STARTING"))
	if calls := r.engine.took(); !slices.Equal(calls, []string{"start", "resume " + anID, "send " + anID + ` "hi" run=true`}) {
		t.Errorf("when stopped: %q", calls)
	}
	r.engine.setBox(anID, store.SandboxPaused)
	r.want("POST", "/api/conversations", `{"conversation_id":"`+anID+`"}`, 200, fmt.Sprintf(answer, "STARTING"))
	if calls := r.engine.took(); !slices.Equal(calls, []string{"start", "resume " + anID}) {
		t.Errorf("without a message: %q", calls)
	}
}

// TestForeignID: whose it is, and whether it is, is not told.
func TestForeignID(t *testing.T) {
	r := newRig(t)
	id := r.conversation("mine")
	code, body := r.callAs(otherKey, "POST", "/api/conversations", `{"conversation_id":"`+string(id)+`","initial_user_msg":"x"}`)
	if code != 409 || !strings.Contains(body, "CONVERSATION$ID_UNAVAILABLE") {
		t.Errorf("%d %s", code, body)
	}
	for _, c := range []struct {
		method, path, body string
		code               int
		answer             string
	}{
		{"GET", "", "", 200, "null"},
		{"GET", "/events", "", 404, `{"detail":"Conversation ` + string(id) + ` not found"}`},
		{"POST", "/events", `{"action":"message","args":{"content":"x"}}`, 404, `{"detail":"Conversation ` + string(id) + ` not found"}`},
		{"POST", "/message", `{"message":"x"}`, 404, `{"detail":"Conversation ` + string(id) + ` not found"}`},
		{"GET", "/trajectory", "", 404, `{"detail":"Conversation ` + string(id) + ` not found"}`},
		{"PATCH", "", `{"title":"x"}`, 404, `{"status":"error","message":"Conversation not found","msg_id":"CONVERSATION$NOT_FOUND"}`},
		{"DELETE", "", "", 200, "false"},
		{"POST", "/start", "{}", 404, `{"status":"error","conversation_id":"` + string(id) + `"}`},
		{"POST", "/stop", "", 200, `{"status":"ok","conversation_id":"` + string(id) + `","message":"Conversation was not running","conversation_status":"STOPPED"}`},
	} {
		code, body := r.callAs(otherKey, c.method, "/api/conversations/"+string(id)+c.path, c.body)
		if code != c.code || body != c.answer {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, body)
		}
	}
	if calls := r.engine.took(); !slices.Equal(calls, []string{"start"}) {
		t.Errorf("the engine was asked: %q", calls)
	}
}

// TestTrap3UnknownIDs: null, false and "was not running" are no errors.
func TestTrap3UnknownIDs(t *testing.T) {
	r := newRig(t)
	r.want("GET", "/api/conversations/nobody", "", 200, "null")
	r.want("DELETE", "/api/conversations/nobody", "", 200, "false")
	r.want("POST", "/api/conversations/nobody/stop", "", 200,
		`{"status":"ok","conversation_id":"nobody","message":"Conversation was not running","conversation_status":"STOPPED"}`)
	r.want("POST", "/api/conversations/nobody/start", "{}", 404, `{"status":"error","conversation_id":"nobody"}`)
	r.want("PATCH", "/api/conversations/nobody", `{"title":"x"}`, 404,
		`{"status":"error","message":"Conversation not found","msg_id":"CONVERSATION$NOT_FOUND"}`)
	r.want("GET", "/api/conversations/nobody/events", "", 404, `{"detail":"Conversation nobody not found"}`)
	for _, path := range []string{"", "/events", "/trajectory"} {
		r.want("GET", "/api/conversations/a..b"+path, "", 400, `{"detail":"Conversation ID contains invalid path characters"}`)
	}
	r.want("POST", "/api/conversations/a%5Cb/start", "{}", 400, `{"detail":"Conversation ID contains invalid path characters"}`)
}

// TestTrap5RuntimeStatus: there is one whenever the conversation runs.
func TestTrap5RuntimeStatus(t *testing.T) {
	r := newRig(t)
	r.call("POST", "/api/conversations", `{"conversation_id":"`+anID+`","repository":"own/repo","selected_branch":"dev","git_provider":"github"}`)
	get := func(status string) map[string]any {
		t.Helper()
		var got map[string]any
		r.decode("GET", "/api/conversations/"+anID, "", &got)
		if got["status"] != status {
			t.Fatalf("status %v, want %s", got["status"], status)
		}
		return got
	}
	if got := get("STARTING"); got["runtime_status"] != "STATUS$STARTING_RUNTIME" || got["last_updated_at"] != nil {
		t.Error(got)
	}
	r.engine.ready(t, anID, store.SandboxStarting)
	get("STARTING")
	r.engine.ready(t, anID, store.SandboxRunning)
	w := r.writer(anID)
	w.append(prompt())
	got := get("RUNNING")
	for _, k := range []string{"created_at", "last_updated_at"} {
		if _, err := time.Parse("2006-01-02T15:04:05.000000Z", fmt.Sprint(got[k])); err != nil {
			t.Error(err)
		}
		delete(got, k)
	}
	want := map[string]any{"conversation_id": anID, "title": "Conversation 01234", "status": "RUNNING", "runtime_status": "STATUS$READY",
		"selected_repository": "own/repo", "selected_branch": "dev", "git_provider": "github", "trigger": "gui", "num_connections": 0.0,
		"url": "/api/conversations/" + anID, "session_api_key": nil, "pr_number": []any{}, "conversation_version": "V0", "sub_conversation_ids": []any{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, s := range []store.SandboxStatus{store.SandboxPaused, store.SandboxError, store.SandboxMissing} {
		r.engine.setBox(anID, s)
		if got := get("STOPPED"); got["runtime_status"] != nil || got["url"] != nil {
			t.Errorf("%s: %v", s, got)
		}
	}
}

func TestConversationsOfV1(t *testing.T) {
	r := newRig(t)
	id := conversation.ID(anID)
	_, err := r.engine.Start(t.Context(), engine.StartRequest{Owner: "user-1", Origin: conversation.OriginV1, ConversationID: id})
	check(t, err)
	_, err = r.engine.Start(t.Context(), engine.StartRequest{Owner: "user-1", Origin: conversation.OriginV1,
		ConversationID: "fedcba98765432100123456789abcdef", ParentID: id})
	check(t, err)
	r.engine.ready(t, id, store.SandboxRunning)
	for _, spelling := range []string{anID, id.Dashed()} {
		var got map[string]any
		r.decode("GET", "/api/conversations/"+spelling, "", &got)
		if got["conversation_version"] != "V1" || got["conversation_id"] != anID || got["session_api_key"] != "session-box-"+anID ||
			got["url"] != "http://example.com/agent/box-"+anID+"/api/conversations/"+anID {
			t.Error(got)
		}
		if subs := fmt.Sprint(got["sub_conversation_ids"]); subs != "[fedcba98765432100123456789abcdef]" {
			t.Error(subs)
		}
	}
}

func TestList(t *testing.T) {
	r := newRig(t)
	r.want("GET", "/api/conversations", "", 200, `{"next_page_id":null,"results":[]}`)
	var ids []string
	for i := range 5 {
		ids = append([]string{string(r.conversation(fmt.Sprint(i)))}, ids...)
	}
	r.call("POST", "/api/conversations", `{"repository":"a/b","create_microagent":{"repo":"a/b"}}`)
	r.callAs(otherKey, "POST", "/api/conversations", `{}`)
	all := func(query string) []string {
		t.Helper()
		got, page := []string{}, ""
		for {
			var v struct {
				Results []struct {
					ID string `json:"conversation_id"`
				}
				Next *string `json:"next_page_id"`
			}
			r.decode("GET", "/api/conversations?"+query+page, "", &v)
			for _, c := range v.Results {
				got = append(got, c.ID)
			}
			if v.Next == nil {
				return got
			}
			page = "&page_id=" + *v.Next
		}
	}
	for query, want := range map[string]int{"limit=2": 6, "limit=-5": 6, "limit=1000": 6, "": 6, "selected_repository=a/b": 1,
		"conversation_trigger=gui": 5, "conversation_trigger=microagent_management&selected_repository=x/y": 0} {
		if got := all(query); len(got) != want {
			t.Errorf("%s: %d", query, len(got))
		}
	}
	if got := all("limit=2&conversation_trigger=gui"); !slices.Equal(got, ids) {
		t.Errorf("order: %v, want %v", got, ids)
	}
	if got := r.wrongs("GET", "/api/conversations?conversation_trigger=x", ""); len(got) != 1 || !strings.Contains(got[0], "enum") {
		t.Error(got)
	}
	if got := r.wrongs("GET", "/api/conversations?limit=x", ""); !slices.Equal(got, []string{
		`["query","limit"] int_parsing Input should be a valid integer, unable to parse string as an integer`}) {
		t.Error(got)
	}
}

func TestRename(t *testing.T) {
	r := newRig(t)
	id := string(r.conversation("hi"))
	title := func() string {
		var got struct{ Title string }
		r.decode("GET", "/api/conversations/"+id, "", &got)
		return got.Title
	}
	r.want("PATCH", "/api/conversations/"+id, `{"title":" My title "}`, 200, "true")
	if got := title(); got != "My title" {
		t.Error(got)
	}
	r.want("PATCH", "/api/conversations/"+id, `{"title":"   "}`, 200, "true")
	if got := title(); got != "Conversation "+id[:5] {
		t.Error(got)
	}
	for body, want := range map[string]string{
		`{"title":""}`: `["body","title"] string_too_short String should have at least 1 character`,
		`{"title":"` + strings.Repeat("x", 201) + `"}`: `["body","title"] string_too_long String should have at most 200 characters`,
		`{"title":"x","y":1}`:                          `["body","y"] extra_forbidden Extra inputs are not permitted`,
		`{}`:                                           `["body","title"] missing Field required`,
	} {
		if got := r.wrongs("PATCH", "/api/conversations/"+id, body); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q", body, got)
		}
	}
}

func TestDelete(t *testing.T) {
	r := newRig(t)
	id := string(r.conversation("hi"))
	r.want("DELETE", "/api/conversations/"+id, "", 200, "true")
	r.want("DELETE", "/api/conversations/"+id, "", 200, "false")
	r.want("GET", "/api/conversations/"+id, "", 200, "null")
}

// TestTrap12StopAndStart: stop answers with the status before it, and GET says
// STOPPED right after.
func TestTrap12StopAndStart(t *testing.T) {
	r := newRig(t)
	id := string(r.conversation("hi"))
	path := "/api/conversations/" + id
	r.want("POST", path+"/start", `{"providers_set":["github"]}`, 200,
		`{"status":"ok","conversation_id":"`+id+`","message":null,"conversation_status":"RUNNING"}`)
	if calls := r.engine.took(); len(calls) > 0 {
		t.Errorf("start of a running one: %q", calls)
	}
	r.want("POST", path+"/stop", "", 200, `{"status":"ok","conversation_id":"`+id+`","message":"Conversation stopped successfully","conversation_status":"RUNNING"}`)
	if calls := r.engine.took(); !slices.Equal(calls, []string{"interrupt", "freeze box-" + id}) {
		t.Errorf("stop: %q", calls)
	}
	var got struct{ Status string }
	r.decode("GET", path, "", &got)
	if got.Status != "STOPPED" {
		t.Error(got)
	}
	r.want("POST", path+"/stop", "", 200, `{"status":"ok","conversation_id":"`+id+`","message":"Conversation was not running","conversation_status":"STOPPED"}`)
	r.want("POST", path+"/start", `{}`, 200, `{"status":"ok","conversation_id":"`+id+`","message":null,"conversation_status":"RUNNING"}`)
	if got := r.wrongs("POST", path+"/start", ""); !slices.Equal(got, []string{`["body"] missing Field required`}) {
		t.Error(got)
	}
	r.engine.setBox(conversation.ID(id), store.SandboxPaused)
	r.engine.fail = fault.New(fault.Internal, "x", "The box broke.")
	r.want("POST", path+"/start", `{}`, 500, `{"status":"error","conversation_id":"`+id+`","message":"Failed to start conversation: The box broke."}`)
	r.engine.setBox(conversation.ID(id), store.SandboxRunning)
	r.engine.fail = fault.New(fault.Internal, "x", "The box broke.")
	r.want("POST", path+"/stop", "", 500, `{"status":"error","conversation_id":"`+id+`","message":"Failed to stop conversation: The box broke."}`)
}

func TestStopWhileStarting(t *testing.T) {
	r := newRig(t)
	r.call("POST", "/api/conversations", `{"conversation_id":"`+anID+`"}`)
	done, asked := make(chan struct{}), make(chan struct{})
	r.engine.asked = asked
	go func() {
		defer close(done)
		r.want("POST", "/api/conversations/"+anID+"/stop", "", 200,
			`{"status":"ok","conversation_id":"`+anID+`","message":"Conversation stopped successfully","conversation_status":"STARTING"}`)
	}()
	<-asked
	r.engine.ready(t, anID, store.SandboxRunning)
	<-done
}

// FuzzCreate: whatever a client sends, it is not the server's fault.
func FuzzCreate(f *testing.F) {
	r := newRig(f)
	for _, s := range []string{`{}`, `{"conversation_id":"x","mcp_config":{"sse_servers":["http://a"]}}`, `{"replay_json":"[{}]"}`,
		`{"suggested_task":{"git_provider":"github","task_type":"OPEN_ISSUE","repo":"a/b","issue_number":1e2,"title":"t"}}`, `{"image_urls":["\ud800"]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		code, answer := r.call("POST", "/api/conversations", body)
		if code >= 500 {
			t.Errorf("%q: %d %s", body, code, answer)
		}
		if !json.Valid([]byte(answer)) {
			t.Errorf("%q: %s", body, answer)
		}
	})
}

func TestMicroagents(t *testing.T) {
	r := newRig(t)
	id := r.conversation("")
	r.engine.extensions = engine.Extensions{Skills: []skill.Skill{
		{Name: "notes", Content: "be kind", MCP: &account.MCPConfig{Stdio: []account.MCPStdioServer{{Name: "fetch", Command: "uvx"}}}},
		{Name: "git", Content: "g", Triggers: []string{"git"}},
		{Name: "task", Content: "t", Triggers: []string{"/task"}, Inputs: []skill.Input{{Name: "BRANCH", Description: "which"}}},
		{Name: "pdf", Content: "p", AgentSkill: true},
	}}
	const path = "/api/conversations/%s/microagents"
	r.want("GET", fmt.Sprintf(path, id), "", 200, `{"microagents":[`+
		`{"name":"notes","type":"repo","content":"be kind","triggers":[],"inputs":[],"tools":["fetch"]},`+
		`{"name":"git","type":"knowledge","content":"g","triggers":["git"],"inputs":[],"tools":[]},`+
		`{"name":"task","type":"knowledge","content":"t","triggers":["/task"],"inputs":[{"name":"BRANCH","description":"which"}],"tools":[]},`+
		`{"name":"pdf","type":"knowledge","content":"p","triggers":[],"inputs":[],"tools":[]}]}`)
	r.engine.extensions = engine.Extensions{}
	r.want("GET", fmt.Sprintf(path, id), "", 200, `{"microagents":[]}`)
	r.engine.setBox(id, store.SandboxPaused)
	const missing = `{"error":"Agent session not found for this conversation"}`
	r.want("GET", fmt.Sprintf(path, id), "", 404, missing)
	r.want("GET", fmt.Sprintf(path, conversation.NewID()), "", 404, missing)
}
