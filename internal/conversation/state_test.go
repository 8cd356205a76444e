package conversation_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"parley/internal/content"
	"parley/internal/conversation"
)

type builder struct {
	t     *testing.T
	state *conversation.State
	seq   int64
}

func newBuilder(t *testing.T) *builder {
	return &builder{t: t, state: conversation.NewState()}
}

func (b *builder) add(p conversation.Payload) conversation.Event {
	b.t.Helper()
	ev, err := conversation.Encode(p)
	if err != nil {
		b.t.Fatal(err)
	}
	ev.Seq = b.seq
	b.seq++
	decoded, err := conversation.Decode(ev)
	if err != nil {
		b.t.Fatal(err)
	}
	b.state.Apply(ev, decoded)
	return ev
}

func head(kind, source string) conversation.Header {
	return conversation.Head(kind, source, time.Unix(1, 0))
}

func action(id, callID string) *conversation.ActionEvent {
	h := head(conversation.KindAction, conversation.SourceAgent)
	h.ID = id
	return &conversation.ActionEvent{Header: h, ToolName: "terminal", ToolCallID: callID,
		ToolCall: content.ToolCall{ID: callID, Name: "terminal", Arguments: "{}"}, LLMResponseID: "r1", SecurityRisk: "LOW"}
}

func TestEachAnswerClosesOneCall(t *testing.T) {
	b := newBuilder(t)
	b.add(action("a1", "call_0"))
	b.add(action("a2", "call_0")) // some providers number calls anew in each response
	b.add(action("a3", "call_1"))
	b.add(&conversation.ObservationEvent{Header: head(conversation.KindObservation, "environment"),
		ToolCallID: "call_0", ActionID: "a2", Observation: json.RawMessage(`{}`)})
	if got := pendingIDs(b.state); got != "a1 a3" {
		t.Fatalf("after an observation of a2: open %q", got)
	}
	b.add(&conversation.AgentErrorEvent{Header: head(conversation.KindAgentError, "agent"), ToolCallID: "call_0"})
	if got := pendingIDs(b.state); got != "a3" {
		t.Fatalf("after an error for call_0: open %q", got)
	}
	b.add(&conversation.UserRejectObservation{Header: head(conversation.KindUserReject, "environment"), ToolCallID: "call_1", ActionID: "a3"})
	if len(b.state.Pending) != 0 {
		t.Fatalf("still open: %q", pendingIDs(b.state))
	}
}

func pendingIDs(s *conversation.State) string {
	var ids []string
	for _, a := range s.Pending {
		ids = append(ids, a.ID)
	}
	return strings.Join(ids, " ")
}

func TestStateUpdatesDoNotMoveTheLeaf(t *testing.T) {
	b := newBuilder(t)
	ev := b.add(&conversation.PauseEvent{Header: head(conversation.KindPause, "user")})
	b.add(&conversation.StateUpdateEvent{Header: head(conversation.KindStateUpdate, "environment"),
		Key: conversation.KeyStatus, Value: json.RawMessage(`"paused"`)})
	if b.state.Branch.Leaf() != ev.ID || b.state.Status != conversation.Paused || b.state.Head != 2 {
		t.Fatalf("leaf %s status %s head %d", b.state.Branch.Leaf(), b.state.Status, b.state.Head)
	}
}

// Python clients reject nulls where they expect arrays, and unknown members.
func TestEncodeWritesArraysAndNoSeq(t *testing.T) {
	ev, err := conversation.Encode(&conversation.MessageEvent{Header: head(conversation.KindMessage, "user"),
		LLMMessage: conversation.LLMMessage{Role: "user"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{`"content":[]`, `"thinking_blocks":[]`, `"activated_skills":[]`, `"extended_content":[]`} {
		if !strings.Contains(string(ev.Raw), member) {
			t.Errorf("%s is missing in %s", member, ev.Raw)
		}
	}
	for _, member := range []string{"null", "seq", "parent_id"} {
		if strings.Contains(string(ev.Raw), member) {
			t.Errorf("%s must not be in %s", member, ev.Raw)
		}
	}
}

func TestUnknownKindsAreKept(t *testing.T) {
	raw := json.RawMessage(`{"kind":"FutureEvent","id":"x","timestamp":"t","source":"agent","more":[1]}`)
	p, err := conversation.Decode(conversation.Event{Kind: "FutureEvent", ID: "x", Raw: raw})
	if err != nil {
		t.Fatal(err)
	}
	if u, ok := p.(*conversation.Unknown); !ok || string(u.Raw) != string(raw) {
		t.Fatalf("got %#v", p)
	}
}

func TestParseID(t *testing.T) {
	for in, want := range map[string]string{
		"2F1E4C5A-0000-4000-8000-000000000001": "2f1e4c5a000040008000000000000001",
		"2f1e4c5a000040008000000000000001":     "2f1e4c5a000040008000000000000001",
		"my conversation":                      "my conversation",
		"":                                     "!", "a/b": "!", `a\b`: "!", "..": "!", "a\x00": "!", "a\nb": "!",
		strings.Repeat("x", 101): "!", strings.Repeat("x", 100): strings.Repeat("x", 100),
	} {
		id, err := conversation.ParseID(in)
		if got := string(id); err != nil {
			if want != "!" {
				t.Errorf("%q: %v", in, err)
			}
		} else if got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if d := conversation.ID("2f1e4c5a000040008000000000000001").Dashed(); d != "2f1e4c5a-0000-4000-8000-000000000001" {
		t.Error(d)
	}
}

func FuzzDecode(f *testing.F) {
	for kind := range map[string]bool{conversation.KindAction: true, conversation.KindStateUpdate: true, "Other": true} {
		f.Add(kind, []byte(`{"kind":"x","id":"1","key":"stats","value":{"usage_to_metrics":{"agent":{}}}}`))
	}
	f.Fuzz(func(t *testing.T, kind string, raw []byte) {
		ev := conversation.Event{Kind: kind, Raw: raw}
		p, err := conversation.Decode(ev)
		if err == nil {
			conversation.NewState().Apply(ev, p)
		}
	})
}
