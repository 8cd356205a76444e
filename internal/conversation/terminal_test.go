package conversation_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/content"
	"parley/internal/conversation"
)

// TestUserCommandRoundTrip: what a message tells of a command is read from it again,
// also after it was stored.
func TestUserCommandRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := conversation.UserCommand{Hidden: rapid.Bool().Draw(t, "hidden")}
		if rapid.Bool().Draw(t, "result") {
			c.Answers = rapid.StringMatching(`[0-9a-f-]{1,36}`).Draw(t, "answers")
			c.ExitCode = rapid.IntRange(-1, 255).Draw(t, "code")
			c.Output = rapid.String().Draw(t, "output")
		} else {
			c.Command = rapid.String().Draw(t, "command")
		}
		e, err := conversation.Encode(c.Message())
		if err != nil {
			t.Fatal(err)
		}
		p, err := conversation.Decode(e)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := conversation.UserCommandOf(p.(*conversation.MessageEvent)); !ok || got != c {
			t.Fatalf("%+v, was %+v", got, c)
		}
	})
}

// TestNobodyForgesACommand: what users and agents say is never a command, whatever
// sender they give.
func TestNobodyForgesACommand(t *testing.T) {
	m := conversation.UserCommand{Command: "ls"}.Message()
	for _, source := range []string{conversation.SourceUser, conversation.SourceAgent, conversation.SourceHook} {
		m.Source = source
		if _, ok := conversation.UserCommandOf(m); ok {
			t.Error(source)
		}
	}
}

// FuzzUserCommandOf: no sender and no parts are too odd.
func FuzzUserCommandOf(f *testing.F) {
	f.Add("user_terminal", "a", "$ ls")
	f.Add("user_terminal_hidden:x:3", "a", "b")
	f.Add("user_terminal::", "", "")
	f.Fuzz(func(t *testing.T, sender, one, two string) {
		m := &conversation.MessageEvent{Header: conversation.Header{Source: conversation.SourceEnvironment}, Sender: sender,
			LLMMessage: conversation.LLMMessage{Content: []content.Part{content.Text(one), content.Text(two)}}}
		if c, ok := conversation.UserCommandOf(m); ok && !strings.HasPrefix(sender, "user_terminal") {
			t.Errorf("%+v", c)
		}
		m.ExtendedContent = m.LLMMessage.Content
		conversation.AttachedFiles(m)
	})
}

func TestAttachedFiles(t *testing.T) {
	said := func() *conversation.MessageEvent {
		return &conversation.MessageEvent{Header: conversation.Header{Source: conversation.SourceUser}}
	}
	for _, names := range [][]string{nil, {"a"}, {"/x/b c.txt", "- d"}} {
		m := said()
		conversation.AttachFiles(m, names)
		if got := conversation.AttachedFiles(m); !slices.Equal(got, names) {
			t.Errorf("%q, was %q", got, names)
		}
	}
	m := said()
	conversation.AttachFiles(m, append(slices.Repeat([]string{strings.Repeat("\u00e4", 5000)}, 500), "x\n- y"))
	if got := conversation.AttachedFiles(m); len(got) != 100 || len(got[0]) != 1024 {
		t.Errorf("%d", len(got))
	}
	if got := conversation.AttachedFiles(&conversation.MessageEvent{Header: conversation.Header{Source: conversation.SourceAgent}, ExtendedContent: m.ExtendedContent}); got != nil {
		t.Error("an agent attaches nothing")
	}
}
