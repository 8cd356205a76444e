package storetest

import (
	"parley/internal/content"
	"parley/internal/conversation"
)

var replayTests = map[string]func(*suite){"GoesWithItsConversation": replayGoesWithItsConversation}

// What a conversation repeats is kept beside the record, is nobody else's, and goes
// with the conversation.
func replayGoesWithItsConversation(s *suite) {
	want := []conversation.ReplayItem{{Source: conversation.SourceUser, Parts: []content.Part{content.Text("hi")}},
		{Source: conversation.SourceAgent, Call: &content.ToolCall{ID: "replay_1", Name: "terminal", Arguments: "{}"}, Waits: true}}
	s.create("u", "a", func(c *conversation.Conversation) { c.Replay = want })
	s.create("u", "b")
	repeats := func(id conversation.ID, want []conversation.ReplayItem) {
		s.Helper()
		got, err := s.Conversations().Replay(s.ctx, id)
		s.ok(err)
		s.equal(got, want)
	}
	repeats("a", want)
	repeats("b", nil)
	repeats("unknown", nil)
	if c := s.get("a"); c.Replay != nil {
		s.Errorf("with the record: %v", c.Replay)
	}
	s.ok(s.Conversations().Delete(s.ctx, "a"))
	repeats("a", nil)
}
