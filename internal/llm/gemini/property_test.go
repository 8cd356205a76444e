package gemini_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/geminitest"
)

// inProcess answers with the strict server, without a network.
func inProcess(replies ...llmtest.Reply) transport {
	n := 0
	h := geminitest.Handler(func(*http.Request, []byte) llmtest.Reply {
		if n == len(replies) {
			return llmtest.Reply{Text: "ok"}
		}
		n++
		return replies[n-1]
	})
	return func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result(), nil
	}
}

// histories are what a conversation may hold: answers of this and of other
// models, results that are missing, doubled or in the wrong place, empty messages.
func histories(source string) *rapid.Generator[[]content.Message] {
	ids := rapid.SampledFrom([]string{"1", "2", "3", "c 4/\u00e4", ""})
	part := rapid.OneOf(
		rapid.Map(rapid.SampledFrom([]string{"", " ", "text", "t\u00e4xt\n", "{}", "bad \xff utf8"}), content.Text),
		rapid.Map(rapid.SampledFrom([]string{png, "data:image/gif;base64,AAAA", "data:broken", "https://h/x.webp", "http://h/x", "data:image/png;base64,", "\x00"}),
			func(u string) content.Part { return content.Image(u, u) }))
	call := rapid.Custom(func(t *rapid.T) content.ToolCall {
		return content.ToolCall{ID: ids.Draw(t, "id"), Name: rapid.SampledFrom([]string{"terminal", "", "9 lives", strings.Repeat("n", 99)}).Draw(t, "name"),
			Arguments: rapid.SampledFrom([]string{`{"a":1}`, "", `[1]`, `{"broken`, " null ", "{\"a\":\"\xff\"}"}).Draw(t, "arguments")}
	})
	placeOf := rapid.Custom(func(t *rapid.T) map[string]any {
		return map[string]any{"kind": rapid.SampledFrom([]string{"text", "thought", "call", "x"}).Draw(t, "kind"), "len": rapid.IntRange(-1, 6).Draw(t, "len"),
			"call": ids.Draw(t, "call"), "signature": rapid.SampledFrom([]string{"", "U0lH"}).Draw(t, "signature")}
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) content.Message {
		m := content.Message{Role: rapid.SampledFrom([]string{"system", "user", "assistant", "assistant", "tool", "tool"}).Draw(t, "role"),
			Parts: rapid.SliceOfN(part, 0, 3).Draw(t, "parts")}
		switch m.Role {
		case content.RoleTool:
			m.ToolCallID, m.ToolName = ids.Draw(t, "answers"), "terminal"
		case content.RoleAssistant:
			m.ToolCalls = rapid.SliceOfN(call, 0, 3).Draw(t, "calls")
			m.Reasoning = rapid.SampledFrom([]string{"", "hm\u00e4"}).Draw(t, "reasoning")
			layout, err := json.Marshal(rapid.SliceOfN(placeOf, 0, 5).Draw(t, "layout"))
			if err != nil {
				t.Fatal(err)
			}
			m.Extra = map[string]json.RawMessage{"parts": layout, "_source": []byte(rapid.SampledFrom([]string{`"` + source + `"`, `"other"`, `7`}).Draw(t, "source"))}
		}
		return m
	}), 0, 12)
}

func TestAnyHistoryIsAccepted(t *testing.T) {
	for _, name := range []string{"gemini-2.5-flash", "gemini-3.1-pro-preview"} {
		m := over(t, name, inProcess())
		messages := histories("gemini generativelanguage.googleapis.com " + name)
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			req := llmtest.Request(nil)
			req.Messages = messages.Draw(t, "messages")
			if _, err := m.Do(context.Background(), req); err != nil {
				t.Fatal(err)
			}
		}))
	}
}

// A conversation with its own answers, streamed, in any mixture of texts, thoughts,
// calls and signatures, is accepted to its end; the server checks that each
// signature comes back with its call.
func TestConversationsAreAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var replies []llmtest.Reply
		for i := range rapid.IntRange(1, 6).Draw(t, "turns") {
			r := llmtest.Reply{Text: rapid.SampledFrom([]string{"", "I do it now, and then I look what came of it.", "\u00e4"}).Draw(t, "text"),
				Reasoning: rapid.SampledFrom([]string{"", "Let me think about this."}).Draw(t, "reasoning"),
				Signature: rapid.SampledFrom([]string{"", "c2lnbmVk"}).Draw(t, "signature")}
			for j := range rapid.IntRange(0, 4).Draw(t, "calls") {
				r.Calls = append(r.Calls, toolCall(string(rune('a'+i))+string(rune('a'+j)), `{"command":"x"}`))
			}
			if r.Text == "" && len(r.Calls) == 0 {
				r.Text = "nothing"
			}
			replies = append(replies, r)
		}
		m := over(t, "gemini-3-flash-preview", inProcess(replies...))
		req := llmtest.Request(nil)
		if rapid.Bool().Draw(t, "streamed") {
			req.OnDelta = ignore
		}
		for i := range replies {
			resp, err := m.Do(context.Background(), req)
			if err != nil {
				t.Fatalf("turn %d: %v", i, err)
			}
			if resp.Message.Text() != replies[i].Text || resp.Message.Reasoning != replies[i].Reasoning || len(resp.Message.ToolCalls) != len(replies[i].Calls) {
				t.Fatalf("turn %d: %+v", i, resp.Message)
			}
			req.Messages = append(req.Messages, resp.Message)
			for _, c := range resp.Message.ToolCalls {
				req.Messages = append(req.Messages, result(c.ID, "done"))
			}
			if rapid.Bool().Draw(t, "more") {
				req.Messages = append(req.Messages, say("user", "go on"))
			}
		}
	})
}

// FuzzAnswer feeds arbitrary answers: whatever comes, the result is a usable
// response that is accepted as history, or a classified error.
func FuzzAnswer(f *testing.F) {
	f.Add(true, events(chunk("", `{"text":"x"}`, `{"text":"t","thought":true,"thoughtSignature":"QQ=="}`), chunk("STOP", `{"functionCall":{"id":"a","name":"x","args":{"a":[1]}},"thoughtSignature":"QQ=="}`)))
	f.Add(true, events(chunk("", `{"functionCall":{"name":"x","willContinue":true}}`), chunk("", `{"functionCall":{"partialArgs":[{"jsonPath":"$.a[1]['b']","stringValue":"x"}],"willContinue":true}}`), chunk("STOP", `{"functionCall":{}}`)))
	f.Add(false, "["+chunk("", `{"text":"x"}`)+","+chunk("MAX_TOKENS", `{"text":""}`)+"]")
	f.Add(false, `{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":"7"}}`)
	f.Add(true, "event: error\r\ndata: x\r\n\r\n")
	f.Add(false, `[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"1s"}]}}]`)
	f.Fuzz(func(t *testing.T, stream bool, body string) {
		kind := "application/json"
		if stream {
			kind = "text/event-stream"
		}
		req := llmtest.Request(nil)
		var said strings.Builder
		req.OnDelta = func(d llm.Delta) { said.WriteString(d.Text) }
		resp, err := over(t, "gemini-2.5-flash", answers(200, kind, body)).Do(t.Context(), req)
		var e *llm.Error
		if err != nil {
			if !errors.As(err, &e) || e.Message == "" {
				t.Fatalf("unclassified: %v", err)
			}
			return
		}
		if resp.Message.Text() != said.String() || !utf8.ValidString(said.String()) {
			t.Fatalf("message %q, deltas %q", resp.Message.Text(), said.String())
		}
		ids := map[string]bool{}
		for _, c := range resp.Message.ToolCalls {
			if c.ID == "" || ids[c.ID] || c.Arguments == "" || c.Name == "" {
				t.Fatalf("call %+v", c)
			}
			ids[c.ID] = true
		}
		delete(resp.Message.Extra, "_source") // the signatures are anything
		req.Messages = append(req.Messages, resp.Message)
		if _, err := over(t, "gemini-2.5-flash", inProcess()).Do(t.Context(), req); err != nil {
			t.Fatalf("as history: %v", err)
		}
	})
}
