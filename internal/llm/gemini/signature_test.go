package gemini_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/content"
	"parley/internal/llm/llmtest"
)

// roundTrip gives a model an answer and returns the history that it sends next.
func roundTrip(t *testing.T, stream string, change func(*content.Message)) string {
	t.Helper()
	var body string
	m := over(t, "gemini-3-flash-preview", transport(func(r *http.Request) (*http.Response, error) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if body = string(raw); strings.Contains(body, `"model"`) {
			return answers(200, "application/json", whole("STOP", `{"text":"ok"}`))(r)
		}
		return answers(200, "text/event-stream", stream)(r)
	}))
	req := llmtest.Request(ignore)
	resp, err := m.Do(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(resp.Message.Extra) // what the log keeps
	if err != nil {
		t.Fatal(err)
	}
	resp.Message.Extra = nil
	if err := json.Unmarshal(raw, &resp.Message.Extra); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&resp.Message)
	}
	req.Messages = append(req.Messages, resp.Message)
	for _, c := range resp.Message.ToolCalls {
		req.Messages = append(req.Messages, content.Message{Role: content.RoleTool, ToolCallID: c.ID, ToolName: c.Name, Parts: []content.Part{content.Text("done")}})
	}
	if _, err := m.Do(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(contents(t, body), "\n")
	return after
}

func TestSignaturesGoBack(t *testing.T) {
	const call1, call2 = `{"functionCall":{"id":"1","name":"terminal","args":{}},"thoughtSignature":"U0lHMQ=="}`, `{"functionCall":{"id":"2","name":"terminal","args":{}}}`
	all := events(
		chunk("", `{"text":"hm ","thought":true}`), chunk("", `{"text":"well","thought":true,"thoughtSignature":"VEg="}`),
		chunk("", `{"text":"I "}`), chunk("", `{"text":"do \u00e4"}`), chunk("", `{"text":" it.","thoughtSignature":"VFg="}`),
		chunk("", call1, call2), chunk("", `{"text":"More."}`), chunk("STOP", `{"text":"","thoughtSignature":"RU5E"}`))
	results := "user: result(1 done) result(2 done)\n"
	tests := []struct {
		name, stream string
		change       func(*content.Message)
		want         string
	}{
		{"each with its part", all, nil,
			"model: thought(well)#VEg= 'I do \u00e4' ' it.'#VFg= call(1)#U0lHMQ== call(2) 'More.' ''#RU5E\n" + results},
		{"a text that was changed", all, func(m *content.Message) { m.Parts[0].Text = "masked"; m.Reasoning = "" },
			"model: 'masked' call(1)#U0lHMQ== call(2)\n" + results},
		{"a call that was taken out", all, func(m *content.Message) { m.ToolCalls = m.ToolCalls[1:] },
			"model: thought(well)#VEg= 'I do \u00e4' ' it.'#VFg= call(2)#skip_thought_signature_validator 'More.' ''#RU5E\nuser: result(2 done)\n"},
		{"another model's", all, func(m *content.Message) { m.Extra["_source"] = []byte(`"gemini elsewhere"`) },
			"model: 'I do \u00e4 it.More.' call(1)#skip_thought_signature_validator call(2)\n" + results},
		{"nobody's", all, func(m *content.Message) { delete(m.Extra, "_source") },
			"model: 'I do \u00e4 it.More.' call(1)#skip_thought_signature_validator call(2)\n" + results},
		{"not signed", events(chunk("STOP", call2)), nil, "model: call(2)#skip_thought_signature_validator\nuser: result(2 done)\n"},
		{"signed behind the call", events(chunk("", call2), chunk("STOP", `{"functionCall":{},"thoughtSignature":"QUZU"}`)), nil, "model: call(2)#QUZU\nuser: result(2 done)\n"},
		{"a signature on nothing", events(chunk("", `{"text":"x"}`), chunk("STOP", `{"thoughtSignature":"Tk8="}`)), nil, "model: 'x' ''#Tk8=\nuser: 'Continue.'\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, roundTrip(t, tt.stream, tt.change)); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

// A key may have changed, and with it what signatures are worth.
func TestCorruptedSignatures(t *testing.T) {
	var seen []string
	m := over(t, "gemini-3-flash-preview", refusing("U0lHMQ==", "Corrupted thought signature.", &seen))
	req := llmtest.Request(nil)
	req.Messages = append(req.Messages, content.Message{Role: content.RoleAssistant, ToolCalls: []content.ToolCall{{ID: "1", Name: "terminal", Arguments: "{}"}},
		Extra: map[string]json.RawMessage{"_source": []byte(`"gemini generativelanguage.googleapis.com gemini-3-flash-preview"`),
			"parts": []byte(`[{"kind":"call","call":"1","signature":"U0lHMQ=="}]`)}})
	if _, err := m.Do(t.Context(), req); err != nil || len(seen) != 2 {
		t.Fatalf("%v, %d requests", err, len(seen))
	}
	if !strings.Contains(seen[0], "U0lHMQ==") || !strings.Contains(seen[1], "skip_thought_signature_validator") {
		t.Errorf("%s\n%s", seen[0], seen[1])
	}
}
