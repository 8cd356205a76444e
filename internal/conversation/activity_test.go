package conversation_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"parley/internal/conversation"
)

// foldAll applies payloads to an empty state.
func foldAll(t *testing.T, payloads ...conversation.Payload) *conversation.State {
	t.Helper()
	s := conversation.NewState()
	for _, p := range payloads {
		ev, err := conversation.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		ev.Seq = s.Head
		s.Apply(ev, p)
	}
	return s
}

func blocked(message, action, reason string) *conversation.HookExecutionEvent {
	return &conversation.HookExecutionEvent{Header: conversation.Header{ID: conversation.NewEventID(), Kind: conversation.KindHookExecution, Source: conversation.SourceHook},
		EventType: "PreToolUse", Blocked: true, MessageID: message, ActionID: action, Reason: reason}
}

func TestActivityKnowsWhatSkillsAndHooksDid(t *testing.T) {
	observation := func(name, raw string) *conversation.ObservationEvent {
		return &conversation.ObservationEvent{Header: conversation.Header{ID: conversation.NewEventID(), Kind: conversation.KindObservation, Source: conversation.SourceEnvironment},
			ToolName: name, Observation: json.RawMessage(raw)}
	}
	message := &conversation.MessageEvent{Header: conversation.Header{ID: "m", Kind: conversation.KindMessage, Source: conversation.SourceUser}, ActivatedSkills: []string{"a", "b", "a"}}
	begun := blocked("", "", "")
	begun.EventType, begun.Blocked = "SessionStart", false
	a := foldAll(t, begun, blocked("m", "", "no "+strings.Repeat("x", 1000)), message, observation(conversation.ToolInvokeSkill, `{"skill_name":"c"}`),
		observation(conversation.ToolInvokeSkill, `{"skill_name":"d","is_error":true}`), observation("other", `{"skill_name":"e"}`)).Extensions
	if strings.Join(a.Skills, "") != "ab" || strings.Join(a.Invoked, "") != "c" || !a.Begun || len(a.BlockedMessages["m"]) > 300 || !strings.HasPrefix(a.BlockedMessages["m"], "no ") {
		t.Errorf("%+v", a)
	}
}

// What the record keeps of blocked calls is bounded; of blocked messages all are known.
func TestActivityIsBounded(t *testing.T) {
	var all []conversation.Payload
	for i := range 500 {
		all = append(all, blocked("", "a"+strconv.Itoa(i), "no"), blocked("m"+strconv.Itoa(i), "", "no"))
	}
	a := foldAll(t, all...).Extensions
	if len(a.BlockedActions) != 200 || len(a.BlockedMessages) != 500 {
		t.Errorf("%d actions, %d messages", len(a.BlockedActions), len(a.BlockedMessages))
	}
}
