package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"parley/internal/llm"
)

const serverConversation = "X-Openhands-Serverconversation-Id" // as net/http spells it

// completing is a bench whose owner has the LLM profile "main".
func completing(t *testing.T, change option, steps ...step) *bench {
	t.Helper()
	b := newBenchWith(t, change, steps...)
	b.call(201, "POST", "/api/v1/settings/profiles/main", map[string]any{"llm": map[string]any{"model": "test/model"}})
	return b
}

func asks(text string) map[string]any {
	return map[string]any{"model": "openhands_main", "messages": []any{map[string]any{"role": "user", "content": text}}}
}

// complete asks for a completion, in a conversation if one is named.
func (b *bench) complete(want int, conversation string, body map[string]any) *answer {
	b.Helper()
	header := http.Header{"Authorization": {"Bearer " + b.key}}
	if conversation != "" {
		header[serverConversation] = []string{conversation}
	}
	return b.do("POST", "/v1/chat/completions", header, body).is(want)
}

func TestChatCompletion(t *testing.T) {
	var heard []string
	listen := func(answer step) step {
		return func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			text := ""
			for _, m := range req.Messages {
				text += m.Text() + "\n"
			}
			heard = append(heard, text)
			return answer(ctx, req)
		}
	}
	b := completing(t, nil, listen(callTool("sh", `{"command":"echo 42"}`)), say("It is 42."), listen(say("Still 42.")))
	models := b.as(b.key, "GET", "/v1/models", nil).is(200)
	if len(models.list("data")) != 1 || models.text("data", 0, "id") != "openhands_main" {
		t.Fatalf("%s", models.body)
	}
	first := b.complete(200, "", map[string]any{"model": "openhands_main", "temperature": 0.1, "messages": []any{
		map[string]any{"role": "system", "content": "Answer in verse."},
		map[string]any{"role": "user", "content": "an earlier question"},
		map[string]any{"role": "assistant", "content": "an earlier answer"},
		map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "What is it?"}}}}})
	if first.text("choices", 0, "message", "content") != "It is 42." || first.text("choices", 0, "finish_reason") != "stop" ||
		first.at("usage", "total_tokens").(float64) < 15 { // both calls of the run
		t.Errorf("%s", first.body)
	}
	if !strings.Contains(heard[0], "Answer in verse.") || !strings.Contains(heard[0], "What is it?") || strings.Contains(heard[0], "an earlier") {
		t.Errorf("the model read %q", heard[0])
	}
	id := first.header.Get(serverConversation)
	second := b.complete(200, id, asks("And now?"))
	if second.text("choices", 0, "message", "content") != "Still 42." || second.header.Get(serverConversation) != id || second.at("usage", "prompt_tokens") != 10.0 {
		t.Errorf("%v %s", second.header, second.body)
	}
	if !strings.Contains(heard[1], "What is it?") || !strings.Contains(heard[1], "And now?") {
		t.Errorf("the second request reads %q", heard[1])
	}
}

func TestChatCompletionStream(t *testing.T) {
	b := completing(t, nil, say("It is 42."), func(context.Context, *llm.Request) (*llm.Response, error) {
		return nil, &llm.Error{Class: llm.ClassAuth, Message: "wrong key"}
	})
	body := asks("What is it?")
	body["stream"], body["stream_options"] = true, map[string]any{"include_usage": true}
	a := b.complete(200, "", body)
	var text strings.Builder
	var kinds []string
	for _, data := range dataOf(t, a) {
		if data == "[DONE]" {
			kinds = append(kinds, "done")
			continue
		}
		var chunk struct {
			Object  string
			Choices []struct {
				Delta  struct{ Role, Content *string }
				Finish *string `json:"finish_reason"`
			}
			Usage *struct {
				Total int `json:"total_tokens"`
			}
		}
		check(t, json.Unmarshal([]byte(data), &chunk))
		switch {
		case chunk.Usage != nil && chunk.Usage.Total == 15:
			kinds = append(kinds, "usage")
		case chunk.Choices[0].Finish != nil:
			kinds = append(kinds, "finish")
		case chunk.Choices[0].Delta.Role != nil:
			kinds = append(kinds, "role")
		default:
			kinds = append(kinds, "text")
			text.WriteString(*chunk.Choices[0].Delta.Content)
		}
	}
	if !slices.Equal(kinds, []string{"role", "text", "finish", "usage", "done"}) || text.String() != "It is 42." {
		t.Errorf("%v %q\n%s", kinds, text.String(), a.body)
	}
	failed := dataOf(t, b.complete(200, a.header.Get(serverConversation), body))
	if n := len(failed); n != 3 || !strings.Contains(failed[1], `"error":{`) || failed[2] != "[DONE]" {
		t.Errorf("a run that fails is streamed as %q", failed)
	}
}

// dataOf are the data lines of server-sent events.
func dataOf(t *testing.T, a *answer) []string {
	t.Helper()
	if got := a.header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("content type %q", got)
	}
	var list []string
	for line := range strings.Lines(string(a.body)) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			list = append(list, data)
		}
	}
	return list
}

func TestChatCompletionRefusals(t *testing.T) {
	b := completing(t, nil, callTool("sh", `{"command":"true"}`))
	for name, c := range map[string]struct {
		want         int
		conversation string
		body         map[string]any
	}{
		"an unknown model":        {404, "", map[string]any{"model": "openhands_other", "messages": asks("x")["messages"]}},
		"a model's own name":      {404, "", map[string]any{"model": "test/model", "messages": asks("x")["messages"]}},
		"nothing said":            {422, "", map[string]any{"model": "openhands_main", "messages": []any{map[string]any{"role": "system", "content": "x"}}}},
		"empty text":              {422, "", asks("")},
		"no messages":             {422, "", map[string]any{"model": "openhands_main"}},
		"content that is none":    {422, "", map[string]any{"model": "openhands_main", "messages": []any{map[string]any{"role": "user", "content": 7}}}},
		"an unknown conversation": {404, uuid.NewString(), asks("x")},
		"no id":                   {404, "nonsense", asks("x")},
	} {
		a := b.complete(c.want, c.conversation, c.body)
		if a.text("error", "message") == "" {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	b.do("GET", "/v1/models", http.Header{"Authorization": {"Bearer wrong"}}, nil).is(404)

	// A run that waits for its user.
	made := b.post(201, conversations, b.with(map[string]any{"confirmation_policy": map[string]any{"kind": "AlwaysConfirm"}}))
	waits := b.complete(409, made.text("id"), asks("run it"))
	if waits.text("code") != "run_waits" {
		t.Errorf("%s", waits.body)
	}
}

// A question that a hook holds back is not answered with what was said before.
func TestChatCompletionsHaveTheirOwnAnswers(t *testing.T) {
	b := completing(t, nil, say("It is 42."))
	made := b.post(201, conversations, b.with(map[string]any{"hook_config": hooks("user_prompt_submit", "if grep -q forbidden; then exit 2; fi")}))
	id := made.text("id")
	if a := b.complete(200, id, asks("What is it?")); a.text("choices", 0, "message", "content") != "It is 42." {
		t.Fatalf("%s", a.body)
	}
	if a := b.complete(200, id, asks("Now the forbidden one.")); a.at("choices", 0, "message", "content") != "" {
		t.Errorf("%s", a.body)
	}
}

func TestChatCompletionTakesTooLong(t *testing.T) {
	proceed := make(chan struct{})
	b := completing(t, func(c *config) { c.agent.ChatWait = 20 * time.Millisecond }, streams(proceed, "late"))
	a := b.complete(504, "", asks("x"))
	id := a.header.Get(serverConversation)
	if a.text("code") != "run_too_long" || id == "" {
		t.Errorf("%v %s", a.header, a.body)
	}
	close(proceed)
	b.waitFor(id, "finished") // it went on
	if got := b.as(b.key, "GET", conversations+"/"+id+"/agent_final_response", nil).is(200).text("response"); got != "late" {
		t.Errorf("the run came to %q", got)
	}
}
