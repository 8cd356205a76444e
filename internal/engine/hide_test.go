package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/llm"
	"parley/internal/vault"
)

// repeats is an answer that has the key of the user wherever an endpoint can put it.
func repeats(name string) step {
	return func(context.Context, *llm.Request) (*llm.Response, error) {
		return &llm.Response{ID: "resp-" + key, FinishReason: key, Message: content.Message{Role: content.RoleAssistant,
			Parts: []content.Part{content.Text("it is " + key)}, Reasoning: "hm, " + key,
			ToolCalls: []content.ToolCall{{ID: "call-" + key, Name: name, Arguments: `{"command":"echo ` + key + `"}`, Origin: "completion"}},
			Extra:     map[string]json.RawMessage{"signature": json.RawMessage(`"c2ln"`), "thinking": json.RawMessage(`"hm, ` + key + `"`)}}}, nil
	}
}

// TestSignedSecretsAreDropped: fields that a provider has signed are no use with a
// mask in them, and those without a secret stay as they are.
func TestSignedSecretsAreDropped(t *testing.T) {
	clean := func(context.Context, *llm.Request) (*llm.Response, error) {
		return &llm.Response{ID: "clean", Message: content.Message{Role: content.RoleAssistant,
			ToolCalls: []content.ToolCall{{ID: "c2", Name: "sh", Arguments: `{"command":"true"}`}},
			Extra:     map[string]json.RawMessage{"signature": json.RawMessage(`"c2ln"`)}}}, nil
	}
	w := newWorld(t, repeats("sh"), repeats("tool-"+key), clean, say("done"))
	id := w.begin("go")
	w.wait(id, conversation.Finished)
	if log := w.text(id); strings.Contains(log, key) || !strings.Contains(log, vault.Hidden) {
		t.Error(log)
	}
	last := w.model.reqs[len(w.model.reqs)-1]
	seen := map[string]bool{}
	for _, m := range last.Messages {
		for _, c := range m.ToolCalls {
			if strings.Contains(c.ID+c.Name, key) || seen[c.ID] {
				t.Errorf("call %q of %q", c.ID, c.Name)
			}
			seen[c.ID] = true
			if has := m.Extra != nil; has != (c.ID == "c2") {
				t.Errorf("%s: fields %v", c.ID, m.Extra)
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("calls %v", seen)
	}
}

// TestStreamedSecretsAreMasked: followers do not see a key, wherever it is cut.
func TestStreamedSecretsAreMasked(t *testing.T) {
	const text = "use " + key + " or " + key + "."
	want := strings.ReplaceAll(text, key, vault.Hidden)
	shown := make(chan struct{})
	var steps []step
	for cut := range len(text) {
		steps = append(steps, func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
			for _, piece := range []string{text[:cut], text[cut:]} {
				r.OnDelta(llm.Delta{Text: piece})
				r.OnDelta(llm.Delta{Reasoning: piece})
			}
			<-shown // deltas that are older than the log are dropped
			return say(text)(ctx, r)
		})
	}
	w := newWorld(t, steps...)
	id := w.begin("")
	f, err := w.engine.Follow(t.Context(), owner, id, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for cut := range len(text) {
		w.send(id, "go")
		said, thought := "", ""
		for said != want || thought != want {
			item, err := f.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if item.Delta != nil {
				said, thought = said+item.Delta.Text, thought+item.Delta.Reasoning
			}
			if !strings.HasPrefix(want, said) || !strings.HasPrefix(want, thought) {
				t.Fatalf("cut at %d: %q, %q", cut, said, thought)
			}
		}
		shown <- struct{}{}
		w.wait(id, conversation.Finished)
	}
}

// TestShortenedSecretsAreMasked: a title and the text of a test are cut after the
// masking: half a key would not be recognized.
func TestShortenedSecretsAreMasked(t *testing.T) {
	long := strings.Repeat("word ", 8) + "the key " + key
	w := newWorldWith(t, func(o *engine.Options) { o.AutoTitle = true }, say("done"))
	w.model.title = say(long)
	id := w.begin("a task")
	w.wait(id, conversation.Finished)
	w.eventually("the title", func() bool {
		return strings.HasPrefix(must(w.engine.View(t.Context(), owner, id)).Title, "word")
	})
	if title := must(w.engine.View(t.Context(), owner, id)).Title; strings.Contains(title, key[:6]) {
		t.Errorf("title %q", title)
	}
	w.model.title = say(strings.Repeat("x", 195) + key)
	r := w.engine.Probe(t.Context(), owner, account.LLM{Model: "test/model", APIKey: account.NewSecret(key)})
	if !r.OK || strings.Contains(r.Text, key[:5]) || !strings.HasSuffix(r.Text, "...") {
		t.Errorf("%+v", r)
	}
}
