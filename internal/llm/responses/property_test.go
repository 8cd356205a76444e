package responses_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/responsestest"
	"parley/internal/llm/responses"
	"parley/internal/llm/wire"
)

func randomItems(t *rapid.T) []responsestest.Item {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) responsestest.Item {
		return responsestest.Item{
			Kind:      rapid.SampledFrom([]string{responsestest.Thought, responsestest.Message, responsestest.Call, responsestest.Call}).Draw(t, "kind"),
			Text:      rapid.SampledFrom([]string{"a text", " ", "gr\u00fc\u00df \U0001f600", "two\nlines"}).Draw(t, "text"),
			Phase:     rapid.SampledFrom([]string{"", "commentary", "final_answer"}).Draw(t, "phase"),
			CallID:    rapid.SampledFrom([]string{"a", "b", "call_1", "x y", strings.Repeat("l", 90)}).Draw(t, "call id"),
			Name:      rapid.SampledFrom([]string{"terminal", "no such tool!", strings.Repeat("n", 200)}).Draw(t, "name"),
			Arguments: rapid.SampledFrom([]string{"{}", `{"command":"ls"}`, `{"half`, "[1]", ""}).Draw(t, "arguments"),
		}
	}), 1, 7).Draw(t, "items")
}

// otherMessages are messages that are not this model's.
func otherMessages(t *rapid.T) []content.Message {
	odd := content.Message{Role: content.RoleAssistant, Parts: []content.Part{content.Text(rapid.SampledFrom([]string{"", "x"}).Draw(t, "other text"))},
		ToolCalls: []content.ToolCall{{ID: rapid.SampledFrom([]string{"", "a", "\u00e4"}).Draw(t, "other call"), Name: "f g", Arguments: "nope"}},
		Extra:     map[string]json.RawMessage{"items": json.RawMessage(`[{"type":"reasoning","id":"rs_1"}]`), "_source": json.RawMessage(`"responses elsewhere m"`)}}
	return rapid.SampledFrom([][]content.Message{
		nil, {text(content.RoleUser, "go on")}, {text(content.RoleUser, "")}, {text(content.RoleSystem, "note")},
		{{Role: content.RoleUser, Parts: []content.Part{content.Image("https://h/i.png", "data:x", "data:image/jpg;base64,AAAA")}}},
		{odd}, {odd, {Role: content.RoleTool, ToolCallID: odd.ToolCalls[0].ID, Parts: []content.Part{content.Image("data:image/png;base64,AAAA")}}},
		{{Role: content.RoleTool, ToolCallID: "of nobody"}},
	}).Draw(t, "others")
}

// mangle does to an answer what an engine may do: drop calls, edit texts, lose
// what the provider wanted back.
func mangle(t *rapid.T, msg content.Message) (content.Message, []content.Message) {
	var results []content.Message
	calls := msg.ToolCalls
	msg.ToolCalls = nil
	for _, c := range calls {
		if rapid.IntRange(0, 4).Draw(t, "drop") == 0 {
			continue
		}
		msg.ToolCalls = append(msg.ToolCalls, c)
		result := content.Message{Role: content.RoleTool, ToolCallID: c.ID, ToolName: c.Name, Parts: []content.Part{content.Text("ok")}}
		if rapid.IntRange(0, 3).Draw(t, "image") == 0 {
			result.Parts = append(result.Parts, content.Image("data:image/png;base64,AAAA"))
		}
		if rapid.IntRange(0, 9).Draw(t, "no result") > 0 {
			results = append(results, result)
		}
	}
	switch rapid.IntRange(0, 7).Draw(t, "edit") {
	case 0:
		msg.Parts = []content.Part{content.Text("edited")}
	case 1:
		msg.Parts = nil
	case 2:
		msg.Extra = nil
	}
	return msg, results
}

// TestHistoriesAreAccepted: whatever answers came and whatever was done to them,
// the API takes the next request, at the first attempt.
func TestHistoriesAreAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var items []responsestest.Item
		asked, refused := 0, ""
		handler := responsestest.ItemHandler(func(*http.Request, []byte) ([]responsestest.Item, llmtest.Reply) { return items, llmtest.Reply{} })
		client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if asked++; w.Code != http.StatusOK {
				refused = w.Body.String()
			}
			return w.Result(), nil
		})}
		cfg := responses.Config{ModelConfig: wire.ModelConfig{HTTPClient: client, APIKey: account.NewSecret("k"),
			Model: "gpt-5-test", Reasoning: rapid.Bool().Draw(t, "thinks"), ReasoningSummary: rapid.SampledFrom([]string{"", "auto"}).Draw(t, "summary")}}
		if !cfg.Reasoning {
			cfg.Model = "deployment" // whose thoughts come without their content
		}
		m, err := responses.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		req := llmtest.Request(nil)
		for turn := range rapid.IntRange(1, 5).Draw(t, "turns") {
			items = randomItems(t)
			var shown, thought strings.Builder
			req.OnDelta = nil
			if rapid.Bool().Draw(t, "stream") {
				req.OnDelta = func(d llm.Delta) { shown.WriteString(d.Text); thought.WriteString(d.Reasoning) }
			}
			resp, err := m.Do(t.Context(), req)
			if err != nil || refused != "" || asked != turn+1 {
				t.Fatalf("turn %d: %v, refused: %s", turn, err, refused)
			}
			checkAnswer(t, items, resp, req)
			if req.OnDelta != nil && (shown.String() != resp.Message.Text() || thought.String() != resp.Message.Reasoning) {
				t.Fatalf("shown %q and %q of %+v", shown.String(), thought.String(), resp.Message)
			}
			msg, results := mangle(t, stored(t, resp.Message))
			req.Messages = append(append(append(req.Messages, msg), results...), otherMessages(t)...)
		}
	})
}

// stored is a message as it comes back from the event log.
func stored(t *rapid.T, msg content.Message) content.Message {
	raw, err := json.Marshal(msg.Extra)
	if err != nil {
		t.Fatal(err)
	}
	msg.Extra = nil
	if err := json.Unmarshal(raw, &msg.Extra); err != nil {
		t.Fatal(err)
	}
	return msg
}

func checkAnswer(t *rapid.T, items []responsestest.Item, resp *llm.Response, req *llm.Request) {
	taken := map[string]bool{}
	for _, msg := range req.Messages {
		for _, c := range msg.ToolCalls {
			taken[c.ID] = true
		}
	}
	var want, got []string
	for _, it := range items {
		switch it.Kind {
		case responsestest.Message:
			want = append(want, it.Text)
		case responsestest.Call:
			args := it.Arguments
			if args == "" {
				args = "{}"
			}
			want = append(want, it.Name+args)
		}
	}
	for _, p := range resp.Message.Parts {
		got = append(got, p.Text)
	}
	for _, c := range resp.Message.ToolCalls {
		if c.ID == "" || taken[c.ID] || c.Origin != "responses" {
			t.Fatalf("call %+v", c)
		}
		taken[c.ID] = true
		got = append(got, c.Name+c.Arguments)
	}
	if fmt.Sprint(len(want), count(want)) != fmt.Sprint(len(got), count(got)) {
		t.Fatalf("want %q, got %q", want, got)
	}
}

// count makes a bag: texts and calls are apart in a message.
func count(words []string) map[string]int {
	n := map[string]int{}
	for _, w := range words {
		n[w]++
	}
	return n
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
