package openaitest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/test/testkit/openaitest"
)

// post sends a body and returns status and answer.
func post(t *testing.T, s *openaitest.Server, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer key")
	resp, err := s.Client().Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, string(b) + " " + err.Error()
	}
	return resp.StatusCode, string(b)
}

func chat(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }

const user = `{"role":"user","content":"hi"}`

func TestValidation(t *testing.T) {
	call := func(id string) string {
		return `{"id":"` + id + `","type":"function","function":{"name":"f","arguments":"{}"}}`
	}
	asks := func(calls ...string) string {
		return `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(calls, ",") + `]}`
	}
	result := func(id string) string { return `{"role":"tool","tool_call_id":"` + id + `","content":"ok"}` }
	tools := func(params string) string {
		return `{"model":"m","messages":[` + user + `],"tools":[{"type":"function","function":{"name":"f","parameters":` + params + `}}]}`
	}
	join := func(s ...string) string { return chat(strings.Join(s, ",")) }
	tests := []struct{ name, body, complaint string }{
		{"plain", join(`{"role":"system","content":"s"}`, user), ""},
		{"calls answered in any order", join(user, asks(call("a"), call("b")), result("b"), result("a")), ""},
		{"users in a row", join(user, user), ""},
		{"parts", join(`{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:"}}]}`), ""},
		{"schema", tools(`{"type":"object","properties":{"a":{"type":["string","null"]}}}`), ""},
		{"broken JSON", `{`, "parse"},
		{"no model", `{"messages":[` + user + `]}`, "model"},
		{"no messages", chat(""), "too short"},
		{"unknown role", join(`{"role":"robot","content":"x"}`), "robot"},
		{"late system", join(user, `{"role":"system","content":"x"}`), "system"},
		{"ends with assistant", join(user, `{"role":"assistant","content":"x"}`), "last role"},
		{"assistants in a row", join(user, `{"role":"assistant","content":"x"}`, `{"role":"assistant","content":"y"}`, user), "after role 'assistant'"},
		{"empty assistant", join(user, `{"role":"assistant","content":null}`, user), "content"},
		{"call without answer", join(user, asks(call("a")), user), "tool_call_ids did not have response messages: a"},
		{"call without answer at the end", join(user, asks(call("a"), call("b")), result("a")), "response messages: b"},
		{"answered twice", join(user, asks(call("a")), result("a"), result("a")), "must be a response"},
		{"answer without call", join(user, result("a")), "must be a response"},
		{"unknown id", join(user, asks(call("a")), result("b")), "must be a response"},
		{"id twice", join(user, asks(call("a")), result("a"), asks(call("a")), result("a")), "duplicate"},
		{"image in a tool message", join(user, asks(call("a")), `{"role":"tool","tool_call_id":"a","content":[{"type":"image_url","image_url":{"url":"x"}}]}`), "image"},
		{"bad arguments", join(user, strings.Replace(asks(call("a")), `"{}"`, `"{"`, 1), result("a")), "not a JSON object"},
		{"bad name", join(user, strings.Replace(asks(call("a")), `"f"`, `"f g"`, 1), result("a")), "name"},
		{"schema of no object", tools(`{"type":"string"}`), "object"},
		{"schema without properties", tools(`{"type":"object"}`), "properties"},
		{"broken schema", tools(`{"type":"object","properties":{"a":{"type":"strong"}}}`), "Invalid schema"},
		{"stream options without stream", `{"model":"m","messages":[` + user + `],"stream_options":{}}`, "stream"},
		{"no tools", `{"model":"m","messages":[` + user + `],"tools":[]}`, "too short"},
	}
	s := openaitest.New(t)
	s.Handle(func(*openaitest.Request) openaitest.Reply { return openaitest.Text("ok") })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body := post(t, s, tt.body)
			want := http.StatusOK
			if tt.complaint != "" {
				want = http.StatusBadRequest
			}
			if status != want || !strings.Contains(body, tt.complaint) {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	all := s.Requests()
	if len(all) != len(tests) || all[0].Problem != "" || all[len(all)-1].Problem == "" {
		t.Errorf("%d requests recorded", len(all))
	}
}

func TestQueues(t *testing.T) {
	s := openaitest.New(t)
	s.Reply(openaitest.Text("one"), openaitest.Text("two"))
	s.ReplyWhen(openaitest.UserSays("title"), openaitest.Text("a title"))
	s.Handle(func(r *openaitest.Request) openaitest.Reply { return openaitest.Text("handled " + r.LastUser()) })
	for _, tt := range []struct{ says, want string }{{"a", "one"}, {"the title", "a title"}, {"b", "two"}, {"c", "handled c"}} {
		if _, body := post(t, s, chat(`{"role":"user","content":"`+tt.says+`"}`)); !strings.Contains(body, `"`+tt.want+`"`) {
			t.Errorf("%s: %s", tt.says, body)
		}
	}
	if s.Left() != 0 {
		t.Errorf("%d replies left", s.Left())
	}
	if got := s.WaitRequests(t, 4, time.Second); len(got) != 4 || got[1].LastUser() != "the title" || got[0].Header.Get("Authorization") != "Bearer key" {
		t.Errorf("%d requests", len(got))
	}
}

func TestAccess(t *testing.T) {
	s := openaitest.New(t)
	s.RequireKey("other")
	if status, _ := post(t, s, chat(user)); status != http.StatusUnauthorized {
		t.Errorf("wrong key: %d", status)
	}
	s.RequireKey("")
	if status, body := post(t, s, chat(user)); status != http.StatusInternalServerError || !strings.Contains(body, "no reply") {
		t.Errorf("no reply: %d %s", status, body)
	}
	s.RefuseField("stream")
	if status, body := post(t, s, `{"stream":true,"model":"m","messages":[`+user+`]}`); status != http.StatusBadRequest || !strings.Contains(body, "stream") {
		t.Errorf("refused field: %d %s", status, body)
	}
	for path, want := range map[string]int{"/v1/models": 200, "/v1/embeddings": 404} {
		resp, err := s.Client().Get(s.URL() + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}

func TestStreamShape(t *testing.T) {
	s := openaitest.New(t)
	s.Reply(openaitest.Reply{Text: "some words in pieces", Calls: []openaitest.Call{openaitest.ToolCall("f", map[string]any{"a": "long enough to be cut"})}})
	_, body := post(t, s, `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[`+user+`]}`)
	var text, args, finish string
	usage, done := false, false
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var c struct {
			Usage   map[string]any
			Choices []struct {
				FinishReason string `json:"finish_reason"`
				Delta        struct {
					Content   string
					ToolCalls []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
				}
			}
		}
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatal(err)
		}
		usage = usage || c.Usage != nil
		for _, choice := range c.Choices {
			text += choice.Delta.Content
			finish += choice.FinishReason
			for _, call := range choice.Delta.ToolCalls {
				args += call.Function.Arguments
			}
		}
	}
	if text != "some words in pieces" || args != `{"a":"long enough to be cut"}` || finish != "tool_calls" || !usage || !done {
		t.Errorf("text %q, args %q, finish %q, usage %v, done %v", text, args, finish, usage, done)
	}
}

func TestMisbehaviour(t *testing.T) {
	s := openaitest.New(t)
	s.Reply(openaitest.Reply{Drop: true}, openaitest.Reply{Text: "a text in several chunks", CutAfter: 2},
		openaitest.RateLimited("7"), openaitest.Stream("data: x\n\n"))
	if status, _ := post(t, s, chat(user)); status != 0 {
		t.Errorf("dropped: status %d", status)
	}
	streamed := `{"model":"m","stream":true,"messages":[` + user + `]}`
	if _, body := post(t, s, streamed); strings.Count(body, "data:") != 2 || !strings.Contains(body, "unexpected EOF") {
		t.Errorf("cut: %s", body)
	}
	if status, _ := post(t, s, chat(user)); status != http.StatusTooManyRequests {
		t.Errorf("rate limited: %d", status)
	}
	if _, body := post(t, s, streamed); body != "data: x\n\n" {
		t.Errorf("raw: %q", body)
	}
}

func TestHoldsUntilReleased(t *testing.T) {
	s := openaitest.New(t)
	release := make(chan struct{})
	s.Reply(openaitest.Reply{Text: "late", Release: release})
	got := make(chan string, 1)
	go func() {
		_, body := post(t, s, chat(user))
		got <- body
	}()
	s.WaitRequests(t, 1, 5*time.Second)
	select {
	case body := <-got:
		t.Fatalf("answered too early: %s", body)
	default:
	}
	close(release)
	if body := <-got; !strings.Contains(body, "late") {
		t.Error(body)
	}
}

func TestHangsUntilTheClientGoes(t *testing.T) {
	s := openaitest.New(t)
	s.Reply(openaitest.Reply{Text: "a text in several chunks", HangAfter: 1})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/v1/chat/completions",
		strings.NewReader(`{"model":"m","stream":true,"messages":[`+user+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	r := bufio.NewReader(resp.Body)
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "data:") {
		t.Fatalf("%q, %v", line, err)
	}
	cancel()
	if _, err := io.ReadAll(r); err == nil {
		t.Error("the stream ended well")
	}
}
