package llmtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/llm"
)

// testSignedReasoning: what a provider wants back of an answer goes back, and
// with it the history is accepted.
func testSignedReasoning(t *testing.T, serve Serve) {
	calls := []content.ToolCall{{ID: "s1", Name: "terminal", Arguments: `{"command":"a"}`}, {ID: "s2", Name: "terminal", Arguments: `{"command":"b"}`}}
	for name, onDelta := range map[string]func(llm.Delta){"whole": nil, "streamed": func(llm.Delta) {}} {
		t.Run(name, func(t *testing.T) {
			m := serve(t, Options{}, Reply{Reasoning: "Let me think about it.", Signature: "c2lnbmVk", Calls: calls}, Reply{Text: "done"})
			req := Request(onDelta)
			first, err := m.Do(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			appendResults(req, first)
			second, err := m.Do(t.Context(), req)
			if err != nil || second.Message.Text() != "done" {
				t.Fatalf("the history with the signed answer: %+v, %v", second, err)
			}
		})
	}
}

// appendResults adds an answer and a result of each of its calls to a request.
func appendResults(req *llm.Request, resp *llm.Response) {
	req.Messages = append(req.Messages, resp.Message)
	for _, c := range resp.Message.ToolCalls {
		req.Messages = append(req.Messages, content.Message{Role: content.RoleTool, ToolCallID: c.ID, ToolName: c.Name,
			Parts: []content.Part{content.Text("result of " + c.ID)}})
	}
}

func testManyCalls(t *testing.T, serve Serve) {
	var want []content.ToolCall
	for i := range 12 {
		want = append(want, content.ToolCall{ID: fmt.Sprintf("call_%02d", i), Name: "terminal",
			Arguments: fmt.Sprintf(`{"command":"echo %s"}`, strings.Repeat("x", 200*i))})
	}
	resp, err := serve(t, Options{}, Reply{Calls: want}).Do(t.Context(), Request(func(llm.Delta) {}))
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Message.ToolCalls) != len(want) {
		t.Fatalf("%d calls of %d", len(resp.Message.ToolCalls), len(want))
	}
	for i, c := range resp.Message.ToolCalls {
		if c.Name != want[i].Name || c.Arguments != want[i].Arguments {
			t.Errorf("call %d: %.80s %.80s", i, c.Name, c.Arguments)
		}
	}
}

func testHarmlessFaults(t *testing.T, serve Serve) {
	calls := []content.ToolCall{{ID: "k1", Name: "terminal", Arguments: `{"command":"ls -l"}`}}
	for _, fault := range []Fault{OddFinish, WrongUsage, KeepAlives, SlowBytes} {
		for name, onDelta := range map[string]func(llm.Delta){"whole": nil, "streamed": func(llm.Delta) {}} {
			t.Run(string(fault)+"/"+name, func(t *testing.T) {
				resp, err := serve(t, Options{}, Reply{Text: "It works.", Calls: calls, Fault: fault,
					Usage: conversation.Usage{PromptTokens: 100, CompletionTokens: 10}}).Do(t.Context(), Request(onDelta))
				if err != nil {
					t.Fatal(err)
				}
				if resp.Message.Text() != "It works." || len(resp.Message.ToolCalls) != 1 || resp.Message.ToolCalls[0].Arguments != calls[0].Arguments {
					t.Errorf("got %+v", resp.Message)
				}
				u := resp.Usage
				for _, n := range []int64{u.PromptTokens, u.CompletionTokens, u.CacheReadTokens, u.CacheWriteTokens, u.ReasoningTokens} {
					if n < 0 || n > 1e12 {
						t.Errorf("usage %+v", u)
					}
				}
				if resp.Cost != nil && (*resp.Cost < 0 || *resp.Cost > 1e9) {
					t.Errorf("cost %v", *resp.Cost)
				}
			})
		}
	}
}

// testDuplicateIDs: every call of an answer has an id of its own, also one that
// the history has not.
func testDuplicateIDs(t *testing.T, serve Serve) {
	calls := []content.ToolCall{{ID: "same", Name: "terminal", Arguments: `{"command":"a"}`}, {ID: "same", Name: "terminal", Arguments: `{"command":"b"}`}}
	reply := Reply{Calls: calls, Fault: DuplicateIDs}
	m := serve(t, Options{}, reply, reply, Reply{Text: "done"})
	req := Request(nil)
	seen := map[string]bool{}
	for range 2 {
		resp, err := m.Do(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if len(resp.Message.ToolCalls) != 2 {
			t.Fatalf("calls %+v", resp.Message.ToolCalls)
		}
		for _, c := range resp.Message.ToolCalls {
			if c.ID == "" || seen[c.ID] {
				t.Errorf("the id %q is not unique", c.ID)
			}
			seen[c.ID] = true
		}
		appendResults(req, resp)
	}
	if _, err := m.Do(t.Context(), req); err != nil {
		t.Fatalf("the history with the calls: %v", err)
	}
}

// testLongName: a tool name that no tool has is reported to the caller, and is
// no obstacle in the history.
func testLongName(t *testing.T, serve Serve) {
	call := content.ToolCall{ID: "l1", Name: strings.Repeat("terminal_", 3400), Arguments: `{"command":"a"}`}
	m := serve(t, Options{}, Reply{Calls: []content.ToolCall{call}, Fault: LongName}, Reply{Text: "done"})
	req := Request(nil)
	first, err := m.Do(t.Context(), req)
	if err != nil || len(first.Message.ToolCalls) != 1 || !strings.HasPrefix(first.Message.ToolCalls[0].Name, "terminal_terminal_") {
		t.Fatalf("%.200v, %v", first, err)
	}
	appendResults(req, first)
	if second, err := m.Do(t.Context(), req); err != nil || second.Message.Text() != "done" {
		t.Fatalf("the history with the call: %v", err)
	}
}

// testFatalFaults: a broken answer is an error, never half an answer. It says
// whether a part was shown.
func testFatalFaults(t *testing.T, serve Serve) {
	calls := []content.ToolCall{{ID: "f1", Name: "terminal", Arguments: `{"command":"rm -rf build && make"}`}}
	for fault, classes := range map[Fault][]llm.Class{
		HalfCall:      {llm.ClassNetwork},
		ErrorInStream: {llm.ClassOverloaded},
		CutJSON:       {llm.ClassNetwork},
		Garbage:       {llm.ClassNetwork, llm.ClassOverloaded},
	} {
		t.Run(string(fault), func(t *testing.T) {
			shown := 0
			reply := Reply{Text: "I will do several things now.", Fault: fault}
			if fault == HalfCall {
				reply.Calls = calls
			}
			_, err := serve(t, Options{}, reply).Do(t.Context(), Request(func(d llm.Delta) { shown += len(d.Text) }))
			var e *llm.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			ok := false
			for _, c := range classes {
				ok = ok || e.Class == c
			}
			if !ok || e.Streamed != (shown > 0) || e.Message == "" || e.Free() && shown > 0 {
				t.Errorf("got %#v, %d characters were shown", e, shown)
			}
		})
	}
}

// testSilence: an endpoint that says nothing does not hold a call for ever.
func testSilence(t *testing.T, serve Serve) {
	for name, tt := range map[string]struct {
		opt      Options
		reply    Reply
		streamed bool
	}{
		"at once":           {Options{Timeout: 100 * time.Millisecond}, Reply{Hang: true}, false},
		"in the middle":     {Options{IdleTimeout: 100 * time.Millisecond}, Reply{Text: "a long answer that stops", HangAfterText: true}, true},
		"not while it goes": {Options{IdleTimeout: 5 * time.Second}, Reply{Text: "ok", Fault: SlowBytes}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := serve(t, tt.opt, tt.reply)
			err := within(t, func() error { _, err := m.Do(t.Context(), Request(func(llm.Delta) {})); return err })
			if !tt.reply.Hang && !tt.reply.HangAfterText {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var e *llm.Error
			if !errors.As(err, &e) || e.Class != llm.ClassTimeout || e.Streamed != tt.streamed || e.Free() {
				t.Fatalf("got %#v", err)
			}
		})
	}
}

// testOddHistory: messages that are legal here and that some APIs refuse do not
// reach them as they are.
func testOddHistory(t *testing.T, serve Serve) {
	m := serve(t, Options{}, Reply{Text: "done"})
	req := Request(nil)
	text := func(role, s string) content.Message {
		return content.Message{Role: role, Parts: []content.Part{content.Text(s)}}
	}
	req.Messages = append(req.Messages,
		content.Message{Role: content.RoleAssistant},
		text(content.RoleAssistant, "   "),
		text(content.RoleAssistant, "first"),
		text(content.RoleAssistant, "second"),
		content.Message{Role: content.RoleUser, Parts: []content.Part{content.Text("")}},
		content.Message{Role: content.RoleUser, Parts: []content.Part{content.Text("see"), content.Image("data:image/png;base64,AAAA", "data:broken")}},
		text(content.RoleAssistant, "ends with a space \n"),
		content.Message{Role: content.RoleAssistant, ToolCalls: []content.ToolCall{{ID: "o 1/\u00e4", Name: "terminal", Arguments: `[1]`}}},
		content.Message{Role: content.RoleTool, ToolCallID: "o 1/\u00e4", ToolName: "terminal"},
		text(content.RoleUser, "go on"))
	resp, err := m.Do(t.Context(), req)
	if err != nil || resp.Message.Text() != "done" {
		t.Fatalf("%+v, %v", resp, err)
	}
}
