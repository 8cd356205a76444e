package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/retry"
	"parley/internal/llm/scripted"
)

func msg(role, text string) content.Message {
	return content.Message{Role: role, Parts: []content.Part{content.Text(text)}}
}

func request(user string) *llm.Request {
	return &llm.Request{
		Messages: []content.Message{msg(content.RoleSystem, "You help.\nWorking directory: /work space/p\nBe kind."), msg(content.RoleUser, user)},
		Tools:    []llm.Tool{{Name: "terminal"}, {Name: "file_editor"}, {Name: "think"}, {Name: "finish"}},
	}
}

// drive plays the agent: it answers calls with what results says (by a part of
// the arguments) and returns a line per call, until the finish tool or a text.
func drive(t *testing.T, req *llm.Request, results map[string]string) []string {
	t.Helper()
	m := &scripted.Model{}
	var log []string
	seen := map[string]bool{}
	for range 30 {
		resp, err := m.Do(t.Context(), req)
		if err != nil {
			return append(log, "error: "+err.Error())
		}
		if text := resp.Message.Text(); text != "" {
			log = append(log, "say "+text)
		}
		req.Messages = append(req.Messages, resp.Message)
		if len(resp.Message.ToolCalls) == 0 {
			return log
		}
		for _, c := range resp.Message.ToolCalls {
			if seen[c.ID] {
				t.Fatalf("call id %s twice", c.ID)
			}
			seen[c.ID] = true
			log = append(log, c.Name+" "+c.Arguments)
			if c.Name == "finish" {
				return log
			}
			result := "ok"
			for part, r := range results {
				if strings.Contains(c.Arguments, part) {
					result = r
				}
			}
			req.Messages = append(req.Messages, content.Message{Role: content.RoleTool, ToolCallID: c.ID, ToolName: c.Name, Parts: []content.Part{content.Text(result)}})
		}
	}
	t.Fatal("the demo does not end")
	return nil
}

const done = `finish {"message":"Done. I am Parley's built-in demo model, not an AI; I did what your message said:\n- `

func TestSteps(t *testing.T) {
	tests := []struct {
		name, user string
		results    map[string]string
		want       []string
	}{
		{"run", "run: ls -la", nil, []string{`terminal {"command":"ls -la"}`, done + "ran `ls -la`\"}"}},
		{"case, list marks and text around", "Please:\n- RUN: pwd\n2. $ id\nThanks!", nil,
			[]string{`terminal {"command":"pwd"}`, `terminal {"command":"id"}`, done + "ran `pwd`\\n- ran `id`\"}"}},
		{"write", `write hello.txt: hi\nyou`, nil,
			[]string{`file_editor {"command":"create","file_text":"hi\nyou\n","path":"/work space/p/hello.txt"}`, done + `wrote /work space/p/hello.txt"}`}},
		{"write over", "write overwrite.txt: it's", map[string]string{"create": "Error: File already exists at: /work space/p/overwrite.txt."},
			[]string{`file_editor {"command":"create","file_text":"it's\n","path":"/work space/p/overwrite.txt"}`,
				"say The editor does not create this file, so I write it with a command.",
				`terminal {"command":"mkdir -p '/work space/p' && printf '%s' 'it'\\''s\n' > '/work space/p/overwrite.txt'"}`,
				done + `wrote /work space/p/overwrite.txt"}`}},
		{"write with a telling name", "write overwrite.txt: x", map[string]string{"create": "File created successfully at: /work space/p/overwrite.txt"},
			[]string{`file_editor {"command":"create","file_text":"x\n","path":"/work space/p/overwrite.txt"}`, done + `wrote /work space/p/overwrite.txt"}`}},
		{"read and edit", "read /etc/hosts\nedit ../a.txt: b => c", nil,
			[]string{`file_editor {"command":"view","path":"/etc/hosts"}`,
				`file_editor {"command":"str_replace","new_str":"c","old_str":"b","path":"/work space/a.txt"}`,
				done + `read /etc/hosts\n- edited /work space/a.txt"}`}},
		{"say before a step", "say: first\nthink: hm\nsay: last", nil,
			[]string{"say first", `think {"thought":"hm"}`, "say last", done + `thought"}`}},
		{"say only", "say: hello", nil, []string{"say hello"}},
		{"parallel", "parallel", nil, []string{`terminal {"command":"echo one"}`, `terminal {"command":"echo two"}`,
			`think {"thought":"Three calls at once."}`, done + `made three tool calls in one answer"}`}},
		{"tool", "tool: any {\"a\": }\ntool: none", nil, []string{`any {"a": }`, `none {}`, done + `called the tool any\n- called the tool none"}`}},
		{"finish", "finish: bye\nrun: never", nil, []string{`finish {"message":"bye"}`}},
		{"fail", "fail", nil, []string{`terminal {"command":"echo 'this command fails on purpose' >&2; (exit 3)"}`,
			done + `ran a command that fails on purpose: it should have ended with exit code 3"}`}},
		{"slow", "slow 3", nil, []string{`terminal {"command":"for i in $(seq 1 3); do echo \"tick $i of 3\"; sleep 1; done"}`, done + `ran a command that takes 3 s"}`}},
		{"crash", "crash", nil, []string{`terminal {"command":"kill -9 $$"}`, done + `killed its own shell"}`}},
		{"empty", "empty\nrun: x", nil, nil},
		{"no command", "Could you run the tests and write a poem: roses?", nil, []string{"say " + scripted.Help}},
		{"help", "help", nil, []string{"say " + scripted.Help}},
		{"error", "error: auth", nil, []string{"error: auth (HTTP 401): the demo model was asked to fail like this (auth, attempt 1)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, drive(t, request(tt.user), tt.results)); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func TestANewMessageStartsANewScript(t *testing.T) {
	req := request("run: one\nrun: two")
	resp, err := (&scripted.Model{}).Do(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	req.Messages = append(req.Messages, resp.Message,
		content.Message{Role: content.RoleTool, ToolCallID: resp.Message.ToolCalls[0].ID}, msg(content.RoleUser, "run: three"))
	if got := drive(t, req, nil); got[0] != `terminal {"command":"three"}` {
		t.Errorf("got %v", got)
	}
}

func TestWithoutTheFinishToolATextEnds(t *testing.T) {
	req := request("run: x")
	req.Tools = req.Tools[:1]
	got := drive(t, req, nil)
	if len(got) != 2 || !strings.HasPrefix(got[1], "say Done. I am Parley's built-in demo model") {
		t.Errorf("got %v", got)
	}
}

func TestWithoutToolsItGivesATitle(t *testing.T) {
	req := request("error: auth\n" + strings.Repeat("x", 100))
	req.Tools = nil
	if got := drive(t, req, nil); got[0] != "say error: auth" {
		t.Errorf("got %v", got)
	}
}

func TestDeterministicAndStreamed(t *testing.T) {
	m := &scripted.Model{}
	ask := func() (*llm.Response, string, int) {
		var said strings.Builder
		n := 0
		req := request("reason: because of this\nsay: a few words here\nrun: ls")
		req.OnDelta = func(d llm.Delta) { said.WriteString(d.Reasoning + d.Text); n++ }
		resp, err := m.Do(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return resp, said.String(), n
	}
	a, said, n := ask()
	b, _, _ := ask()
	if d := cmp.Diff(a, b); d != "" {
		t.Errorf("two answers to one request:\n%s", d)
	}
	if said != "because of thisa few words here" || n < 6 {
		t.Errorf("%d deltas: %q", n, said)
	}
	if !m.Info().Demo || *a.Cost != 0 || a.Usage.PromptTokens < 10 || a.Usage.CompletionTokens < 5 || a.Usage.ResponseID != a.ID {
		t.Errorf("%+v, %+v", m.Info(), a)
	}
}

func TestErrorsEndAfterTheirAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		m := retry.New(&scripted.Model{}, retry.Policy{Jitter: -1}, func(_ context.Context, r llm.Retry) { waits = append(waits, r.Wait) })
		resp, err := m.Do(t.Context(), request("error: rate_limit 2\nrun: x"))
		if err != nil || len(resp.Message.ToolCalls) != 1 || len(waits) != 2 {
			t.Fatalf("%+v, %v, waits %v", resp, err, waits)
		}
	})
}

func TestErrorInTheMiddle(t *testing.T) {
	req := request("error: stream")
	said := ""
	req.OnDelta = func(d llm.Delta) { said += d.Text }
	_, err := (&scripted.Model{}).Do(t.Context(), req)
	var e *llm.Error
	if !errors.As(err, &e) || e.Class != llm.ClassNetwork || !e.Streamed || said == "" {
		t.Errorf("%#v, said %q", err, said)
	}
}

func TestWaitAndTokensEndWithTheContext(t *testing.T) {
	for _, user := range []string{"wait 60", "tokens 10000"} {
		synctest.Test(t, func(t *testing.T) {
			stopped := errors.New("stopped")
			ctx, cancel := context.WithCancelCause(t.Context())
			start := time.Now()
			time.AfterFunc(time.Second, func() { cancel(stopped) })
			if _, err := (&scripted.Model{}).Do(ctx, request(user)); !errors.Is(err, stopped) || time.Since(start) != time.Second {
				t.Errorf("%s: %v after %v", user, err, time.Since(start))
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if _, err := (&scripted.Model{}).Do(t.Context(), request("wait 1.5\nsay: x")); err != nil || time.Since(start) != 1500*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("run: ls\n- write a: b\n1. tool: x {\"a\"")
	f.Add("error: rate_limit 2\nslow 5\nwait 1e3\nedit a: b=>c\n$ x\nTHINK\n\xff: \x00")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range scripted.Parse(text) {
			if s.N < 0 || s.N > 1<<31 || s.Wait < 0 || s.Wait > 3600 {
				t.Fatalf("step %+v", s)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req := request(text)
		req.OnDelta = func(llm.Delta) { cancel() } // no slow streams here
		time.AfterFunc(10*time.Millisecond, cancel)
		resp, err := (&scripted.Model{}).Do(ctx, req)
		if err != nil {
			return
		}
		for _, c := range resp.Message.ToolCalls {
			if c.Name != "terminal" && c.Name != "file_editor" && c.Name != "think" && c.Name != "finish" {
				continue // the user's own call may be anything
			}
			if !json.Valid([]byte(c.Arguments)) && !strings.Contains(strings.ToLower(text), "tool") {
				t.Fatalf("arguments %q", c.Arguments)
			}
		}
	})
}
