package responses_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/responsestest"
	"parley/internal/llm/responses"
	"parley/internal/llm/wire"
)

// serveItems gives answers of items in turn, then "done".
func serveItems(t *testing.T, answers ...[]responsestest.Item) *server {
	s := &server{}
	var mu sync.Mutex
	s.start(t, responsestest.ItemHandler(func(*http.Request, []byte) ([]responsestest.Item, llmtest.Reply) {
		mu.Lock()
		defer mu.Unlock()
		if len(answers) == 0 {
			return []responsestest.Item{{Kind: responsestest.Message, Text: "done"}}, llmtest.Reply{}
		}
		items := answers[0]
		answers = answers[1:]
		return items, llmtest.Reply{}
	}))
	return s
}

func thought(s string) responsestest.Item {
	return responsestest.Item{Kind: responsestest.Thought, Text: s}
}

func said(s, phase string) responsestest.Item {
	return responsestest.Item{Kind: responsestest.Message, Text: s, Phase: phase}
}

func call(id string) responsestest.Item {
	return responsestest.Item{Kind: responsestest.Call, CallID: id, Name: "terminal", Arguments: `{"command":"` + id + `"}`}
}

// sent are the items of a request behind the first message, as short words:
// thought, say:phase, call:id, out:id, and a ! where an id is missing.
func sent(t *testing.T, body string) []string {
	t.Helper()
	var req struct {
		Input []struct {
			Type, ID, Role, Phase string
			CallID                string `json:"call_id"`
		}
	}
	if err := json.Unmarshal([]byte(body), &req); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, it := range req.Input[1:] {
		word := map[string]string{"reasoning": "thought", "message": "say:" + it.Phase, "function_call": "call:" + it.CallID,
			"function_call_output": "out:" + it.CallID}[it.Type]
		if it.Role == content.RoleUser {
			word = "user"
		} else if it.ID == "" && it.Type != "function_call_output" {
			word += "!"
		}
		out = append(out, word)
	}
	return out
}

// answered appends an answer and results of its calls, without the calls in dropped.
func answered(req *llm.Request, msg content.Message, dropped ...string) {
	var calls []content.ToolCall
	var results []content.Message
	for _, c := range msg.ToolCalls {
		if slices.Contains(dropped, c.ID) {
			continue
		}
		calls = append(calls, c)
		results = append(results, content.Message{Role: content.RoleTool, ToolCallID: c.ID, ToolName: c.Name, Parts: []content.Part{content.Text("ok")}})
	}
	msg.ToolCalls = calls
	req.Messages = append(append(req.Messages, msg), results...)
}

func TestReplay(t *testing.T) {
	long := []responsestest.Item{thought("1"), said("Looking.", "commentary"), call("a"), call("b"), thought("2"), call("c"), thought("3"), call("d")}
	tests := []struct {
		name    string
		answer  []responsestest.Item
		dropped []string
		edit    func(*content.Message)
		want    string
	}{
		{"everything", long, nil, nil, "thought say:commentary call:a call:b thought call:c thought call:d out:a out:b out:c out:d"},
		{"the last is gone", long, []string{"d"}, nil, "thought say:commentary call:a call:b thought call:c out:a out:b out:c"},
		{"a run is gone", long, []string{"c", "d"}, nil, "thought say:commentary call:a call:b out:a out:b"},
		{"one in the middle", long, []string{"b"}, nil, "thought say:commentary call:a thought call:c thought call:d out:a out:c out:d"},
		{"the one behind the thought", long, []string{"c"}, nil, "thought say:commentary call:a call:b thought call:d out:a out:b out:d"},
		{"all calls", long, []string{"a", "b", "c", "d"}, nil, "thought say:commentary"},
		{"the first of a run", []responsestest.Item{thought("1"), call("a"), call("b")}, []string{"a"}, nil, "call:b! out:b"},
		{"two thoughts", []responsestest.Item{thought("1"), thought("2"), call("a"), thought("3")}, nil, nil, "thought thought call:a out:a"},
		{"two messages", []responsestest.Item{said("One.", "commentary"), call("a"), said("Two.", "final_answer")}, nil, nil, "say:commentary call:a say:final_answer out:a"},
		{"a text that was edited", []responsestest.Item{thought("1"), said("One.", ""), said("Two.", ""), thought("2"), call("a")}, nil,
			func(m *content.Message) { m.Parts = []content.Part{content.Text("One and two.")} }, "say:! thought call:a out:a"},
		{"a text that is gone", []responsestest.Item{thought("1"), said("One.", ""), call("a")}, nil,
			func(m *content.Message) { m.Parts = nil }, "call:a! out:a"},
		{"fields that are gone", long, nil, func(m *content.Message) { m.Extra = nil }, "say:! call:a! call:b! call:c! call:d! out:a out:b out:c out:d"},
		{"fields that are broken", long, nil, func(m *content.Message) { m.Extra["items"] = json.RawMessage(`{"x":1}`) }, "say:! call:a! call:b! call:c! call:d! out:a out:b out:c out:d"},
		{"only thoughts", []responsestest.Item{thought("1")}, nil, nil, ""},
	}
	for _, tt := range tests {
		for name, onDelta := range map[string]func(llm.Delta){"whole": nil, "streamed": func(llm.Delta) {}} {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				s := serveItems(t, tt.answer)
				m := s.model(t, responses.Config{})
				req := llmtest.Request(onDelta)
				first, err := m.Do(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				if tt.edit != nil {
					tt.edit(&first.Message)
				}
				answered(req, first.Message, tt.dropped...)
				if _, err := m.Do(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(sent(t, s.body(1)), " "); got != tt.want || s.count() != 2 {
					t.Errorf("%d requests, sent\n%s\nwant\n%s", s.count(), got, tt.want)
				}
			})
		}
	}
}

// TestReplayIsVerbatim: thoughts and fields that nobody here knows go back as
// they came; what only answers have does not.
func TestReplayIsVerbatim(t *testing.T) {
	answer := `{"id":"r","status":"completed","output":[` +
		`{"type":"reasoning","id":"rs_1","status":"completed","summary":[{"type":"summary_text","text":"S <1>"}],"encrypted_content":"sealed","content":null,"novel":{"b":1,"a":2.50}},` +
		`{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search"}},` +
		`{"type":"message","id":"msg_1","role":"assistant","status":"completed","phase":"commentary","other":[1],"content":[{"type":"output_text","text":"Hi","annotations":[]},{"type":"refusal","refusal":" no"}]},` +
		`{"type":"function_call","id":"fc_1","call_id":"c1","name":"terminal","arguments":"{}","status":"completed","namespace":"n","caller":null},` +
		`{"type":"custom_tool_call","id":"ct_1","call_id":"c2","name":"x","input":"y"}]}`
	s := &server{}
	s.start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
	m := s.model(t, responses.Config{})
	req := llmtest.Request(nil)
	first, err := m.Do(t.Context(), req)
	if err != nil || first.Message.Text() != "Hi no" || len(first.Message.ToolCalls) != 1 {
		t.Fatalf("%+v, %v", first, err)
	}
	answered(req, first.Message)
	if _, err := m.Do(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	want := `{"encrypted_content":"sealed","id":"rs_1","novel":{"b":1,"a":2.50},"summary":[{"type":"summary_text","text":"S <1>"}],"type":"reasoning"},` +
		`{"action":{"type":"search"},"id":"ws_1","status":"completed","type":"web_search_call"},` +
		`{"content":[{"type":"output_text","text":"Hi no"}],"id":"msg_1","other":[1],"phase":"commentary","role":"assistant","type":"message"},` +
		`{"arguments":"{}","call_id":"c1","id":"fc_1","name":"terminal","namespace":"n","type":"function_call"},` +
		`{"type":"function_call_output","call_id":"c1","output":"ok"}]`
	if body := s.body(1); !strings.Contains(body, want) {
		t.Errorf("want\n%s\nin\n%s", want, body)
	}
}

// TestOtherSource: what one model thought does not go to another one, whose own
// thoughts still do.
func TestOtherSource(t *testing.T) {
	s := serveItems(t, []responsestest.Item{thought("1"), call("a")}, []responsestest.Item{thought("2"), call("b")})
	one := s.model(t, responses.Config{})
	two := s.model(t, responses.Config{ModelConfig: wire.ModelConfig{Model: "gpt-5-other", Reasoning: true}})
	req := llmtest.Request(nil)
	for _, m := range []*responses.Model{one, two, two} {
		resp, err := m.Do(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		answered(req, resp.Message)
	}
	if got := strings.Join(sent(t, s.body(2)), " "); got != "call:a! out:a thought call:b out:b" {
		t.Errorf("sent %s", got)
	}
	chat := llmtest.Request(nil)
	answered(chat, content.Message{Role: content.RoleAssistant, ToolCalls: []content.ToolCall{{ID: "x", Name: "terminal", Arguments: "{}"}},
		Extra: map[string]json.RawMessage{"items": json.RawMessage(`[{"type":"function_call","id":"evil","call_id":"x"}]`), "reasoning_details": json.RawMessage(`[]`)}})
	if _, err := one.Do(t.Context(), chat); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(sent(t, s.body(3)), " "); got != "call:x! out:x" {
		t.Errorf("sent %s", got)
	}
}

// TestStaleThoughts: thoughts that the provider cannot read any more are left
// out, once and for all, and later ones are not.
func TestStaleThoughts(t *testing.T) {
	s := serveItems(t, []responsestest.Item{thought("1"), call("a")}, []responsestest.Item{thought("2"), call("b")})
	m := s.model(t, responses.Config{})
	req := llmtest.Request(nil)
	turn := func() {
		t.Helper()
		resp, err := m.Do(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		answered(req, resp.Message)
	}
	turn()
	var old struct {
		Items []map[string]any `json:"items"`
	}
	raw, err := json.Marshal(req.Messages[2].Extra)
	if err != nil || json.Unmarshal(raw, &old) != nil {
		t.Fatal(err)
	}
	sealed, _ := old.Items[0]["encrypted_content"].(string)
	s.mu.Lock()
	s.refuse = func(body string) *responsestest.Refusal {
		if strings.Contains(body, sealed) {
			return &responsestest.Refusal{Status: 400, Message: "The encrypted content for item rs_1 could not be verified."}
		}
		return nil
	}
	s.mu.Unlock()
	turn()
	turn()
	var got []string
	for i := range s.count() {
		got = append(got, strings.Join(sent(t, s.body(i)), " "))
	}
	want := []string{"", "thought call:a out:a", "call:a! out:a", "call:a! out:a thought call:b out:b"}
	if !slices.Equal(got, want) {
		t.Errorf("sent %q", got)
	}
}

// TestUnansweredCalls: the API wants exactly one output per call, whatever the
// history has.
func TestUnansweredCalls(t *testing.T) {
	s := serve(t)
	req := llmtest.Request(nil)
	asks := content.Message{Role: content.RoleAssistant, ToolCalls: []content.ToolCall{{ID: "a", Name: "terminal", Arguments: "{}"}, {ID: "b", Name: "terminal"}}}
	result := func(id string) content.Message { return content.Message{Role: content.RoleTool, ToolCallID: id} }
	req.Messages = append(req.Messages, asks, result("b"), result("b"), result("zzz"), asks, result("a"), result("b"), text(content.RoleUser, "go on"), result("a"), asks)
	if _, err := s.model(t, responses.Config{}).Do(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	want := "call:a! call:b! out:b out:a call:"
	if got := strings.Join(sent(t, s.body(0)), " "); !strings.HasPrefix(got, want) || strings.Count(got, "call:") != 6 || strings.Count(got, "out:") != 6 {
		t.Errorf("sent %s", got)
	}
}

// TestUnreadableThought: what is tied to a thought that cannot go back goes
// without its id, and not at all if it means nothing without it.
func TestUnreadableThought(t *testing.T) {
	answer := `{"id":"r","status":"completed","output":[{"type":"reasoning","id":"rs_1","summary":[]},{"type":"web_search_call","id":"ws_1"},` +
		`{"type":"message","id":"msg_1","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"Hi"}]}]}`
	s := &server{}
	s.start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
	m := s.model(t, responses.Config{})
	req := llmtest.Request(nil)
	first, err := m.Do(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	answered(req, first.Message)
	if _, err := m.Do(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(sent(t, s.body(1)), " "); got != "say:final_answer!" {
		t.Errorf("sent %s", got)
	}
}

// TestDuplicateItemIDs: an id goes out once.
func TestDuplicateItemIDs(t *testing.T) {
	same := content.ToolCall{ID: "a", Name: "terminal", Arguments: "{}"}
	s := serve(t, llmtest.Reply{Calls: []content.ToolCall{same, same, same}, Fault: llmtest.DuplicateIDs})
	m := s.model(t, responses.Config{})
	req := llmtest.Request(nil)
	first, err := m.Do(t.Context(), req)
	if err != nil || len(first.Message.ToolCalls) != 3 {
		t.Fatalf("%+v, %v", first, err)
	}
	answered(req, first.Message)
	if _, err := m.Do(t.Context(), req); err != nil || s.count() != 2 || strings.Count(s.body(1), `"id":`) != 1 {
		t.Errorf("%d requests, %v: %s", s.count(), err, s.body(1))
	}
}
